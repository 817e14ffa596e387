r"""The population losses of noise contrastive estimation on finite joint distributions, exactly and for any N.

A pair (x, y) has the distribution :math:`\mathrm{pop}`, noise y has q, and a score s(x, y) distinguishes them.

- `joint`: a finite distribution of pairs, its marginals, conditionals and mutual information;
- `global_nce`: which of N candidates is the true one? (InfoNCE for :math:`q = \mathrm{pop}_Y`);
- `local_nce`: is this candidate true? (the binary loss of word2vec);
- `pairs`: the minima of gBCE, SigLIP and CLIP in closed form;
- `families`: the best member of a small family of scores, self-normalised or not;
- `gradient`: the expected gradient of the sampled cross entropy of the paper's appendix C, in rational arithmetic;
- `rational`: brute force over all candidates and coins in rational arithmetic, a second way to all of the above;
- `gaussians`: correlated Gaussian pairs, whose mutual information is known.

Source: K. Stratos, Noise Contrastive Estimation.
"""

from sumexp.nce import families, gaussians, global_nce, gradient, joint, local_nce, pairs, rational
from sumexp.nce.joint import Joint

__all__ = ["Joint", "families", "gaussians", "global_nce", "gradient", "joint", "local_nce", "pairs", "rational"]
