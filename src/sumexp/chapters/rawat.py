"""The labels that a sampled softmax favours, and those that its upper bound favours.

Rawat et al. read a sampler's effect on frequent and rare labels from Jensen's bound on the expected loss. Training
reaches the loss's minimiser, which can be another than the bound's.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from sumexp.negatives import margin_losses, scheme
from sumexp.negatives.consistency import factors, minimiser, multiset_losses
from sumexp.negatives.schemes import Weights

ARROWS: Mapping[Weights, int] = {"constant": -1, "importance": 0, "relative": 1, "tail": -1}
"""The paper's Table 2 for within-batch negatives: 1 is an arrow to the head, -1 to the tail, 0 is no arrow."""


def leaning(weights: Weights, log_prior: Tensor, m: int) -> tuple[float, float]:
    r"""The score of the first class minus that of the last, at the minimum of the bound and at that of the loss.

    All labels are equally likely, :math:`P(y\mid x)=1/L`, so 0 means that the scheme treats the two classes alike. The
    m negatives are drawn with replacement from the prior, whose logarithm is ``log_prior`` [classes]; hits are masked.

    >>> import torch
    >>> from sumexp.chapters import rawat
    >>> prior = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    >>> bound, loss = rawat.leaning("tail", prior.log(), 64)
    >>> f"{bound:.3f}", f"{loss:.3f}"
    ('-1.946', '-1.977')

    Raises:
        ValueError: if the prior does not sum to 1, m < 1, or the weights are unknown.

    Source: Rawat et al., Lemma 2 and Table 2.
    """
    classes = len(log_prior)
    schemes = [scheme(log_prior, y, m, weights, "mask", prior=log_prior) for y in range(classes)]
    bound = margin_losses(torch.stack([each.log_rho for each in schemes]))
    loss = multiset_losses(log_prior, m, factors(weights, log_prior, m, prior=log_prior))
    equal = torch.full((classes,), 1 / classes, dtype=torch.float64)
    at_bound, at_loss = (minimiser(losses, equal) for losses in (bound, loss))
    return (at_bound[0] - at_bound[-1]).item(), (at_loss[0] - at_loss[-1]).item()
