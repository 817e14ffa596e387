"""Propensities of labels, and the list of the most frequent ones: neither needs a model."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

USUAL = (0.55, 1.5)
"""A and B of the propensities; for WikiLSHTC-325K the repository takes 0.5 and 0.4, for Amazon's books 0.6 and 2.6."""


def most_frequent(counts: NDArray[np.int64], ks: Sequence[int]) -> NDArray[np.bool_]:
    """Whether a label is among the first k of the list of the most frequent labels, for each k [ks, L].

    This list for all examples is the baseline: scores that say nothing of an example have no better one.

    >>> most_frequent(np.array([9, 4, 4, 1]), (1, 2, 3)).sum(1)  # of labels that are equally frequent each comes last
    array([1, 1, 3])
    """
    rank = len(counts) - np.searchsorted(np.sort(counts), counts)
    return np.stack([rank <= k for k in ks])


def propensities(counts: Tensor, examples: int, a: float = USUAL[0], b: float = USUAL[1]) -> Tensor:
    r"""How likely a relevant label is to have been noted, from how often it occurs.

    .. math:: p_l = \frac1{1 + C e^{-A\log(N_l+B)}}, \qquad C = (\log N - 1)(B+1)^A .

    Args:
        counts: :math:`N_l`, training examples of each label [L].
        examples: N, training examples in all, at least 3.
        a: A.
        b: B.

    Raises:
        ValueError: if there are fewer than three examples: C would not be positive.

    Source: Jain, Prabhu, Varma (2016), section 4; A and B as the extreme-classification repository has them.
    """
    if examples < 3:
        raise ValueError(f"examples is {examples}; propensities need at least 3, where log N - 1 is positive")
    n = counts.to(torch.float64)
    c = (torch.log(torch.tensor(float(examples), dtype=torch.float64)) - 1) * (b + 1) ** a
    likely: Tensor = 1 / (1 + c * torch.exp(-a * torch.log(n + b)))
    return likely
