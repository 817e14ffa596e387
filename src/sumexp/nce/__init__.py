r"""What noise contrastive estimation optimises: its population losses on finite joint laws, exactly and for any N.

A pair (x, y) comes from a law :math:`\mathrm{pop}`, noise y from q, and a score s(x, y) has to tell them apart.

- `joint`: a finite law of pairs, its marginals, conditionals and mutual information;
- `global_nce`: which of N candidates is the true one (InfoNCE for :math:`q = \mathrm{pop}_Y`);
- `local_nce`: whether each single candidate is true (the binary loss of word2vec);
- `families`: the best member of a small family of scores, and what becomes of it where it cannot self-normalise;
- `gradient`: the expected gradient of the sampled cross entropy of the paper's appendix C, in rational arithmetic;
- `rational`: brute force over all candidates and coins in rational arithmetic, the second way to everything above;
- `gaussians`: correlated Gaussian pairs, whose mutual information is known.

Source: K. Stratos, Noise Contrastive Estimation.
"""

from sumexp.nce import families, gaussians, global_nce, gradient, joint, local_nce, pairs, rational
from sumexp.nce.joint import Joint

__all__ = ["Joint", "families", "gaussians", "global_nce", "gradient", "joint", "local_nce", "pairs", "rational"]
