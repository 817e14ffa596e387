r"""Skip-gram: pairs of words that stand near each other, and scores that learn to tell them from noise.

A pair is a word x and a word y at most ``window`` places before or after it in the same document, both among the most
frequent ones; all words count as places, so that leaving out the rare ones moves none nearer. The counts of the pairs
are the population itself, :math:`\mathrm{pop}(x,y) = n_{xy}/n`: it is symmetric, its mutual information and all its
losses are known exactly, and training can be held against them.

Local NCE with m negatives from q has the optimal score

.. math:: s(x,y) = \log\frac{\mathrm{pop}(y \mid x)}{q(y)} - \log m,

the pointwise mutual information less :math:`\log m` for :math:`q = \mathrm{pop}_Y`, and :math:`-\infty` for pairs
never seen, to which a score can only drift.

- `population`: the pairs and their law;
- `training`: scores, as a full table or of low rank, trained on drawn pairs and drawn negatives or on exact gradients;
- `comparison`: the exact optimum, and how near learned scores come to it.

Source: Stratos, section 2.2; O. Levy and Y. Goldberg, Neural word embedding as implicit matrix factorization, 2014.
"""

from sumexp.chapters.models.skipgram.comparison import Comparison, compare, correlation, newton
from sumexp.chapters.models.skipgram.population import SkipGram, pairs
from sumexp.chapters.models.skipgram.training import CONFIGS, SkipGramConfig, ranks, train

__all__ = [
    "CONFIGS",
    "Comparison",
    "SkipGram",
    "SkipGramConfig",
    "compare",
    "correlation",
    "newton",
    "pairs",
    "ranks",
    "train",
]
