"""Accidental hits, and classes that are never labels or never negatives, from counts and sampler alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._setup import Setup

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Shares between 0 and 1.

    Attributes:
        hit: probability that a given negative is the label, over all labels.
        any_hit: probability that one of the negatives is.
        any_by_group: [3] the same for labels of head, torso and tail.
        never_drawn: number of classes that are labels but never negatives.
        never_labels: their share of the labels.
        unseen: number of classes without labels that can be drawn.
    """

    hit: float
    any_hit: float
    any_by_group: Floats
    never_drawn: int
    never_labels: float
    unseen: int


def rates(prior: Floats, group: NDArray[np.int64], setup: Setup) -> Rates:
    r"""Accidental hits, :math:`\sum_y\pi_y\big(1-\prod_i(1-q^{(i)}_y)^{m_i}\big)`, and one-sided classes.

    Args:
        prior: [classes] the law of the labels.
        group: [classes] 0, 1, 2, or -1 without labels.
        setup: the scheme.
    """
    if setup.is_set:
        some = setup.q[0]
    else:
        with np.errstate(divide="ignore"):
            some = -np.expm1(setup.m @ np.log1p(-np.minimum(setup.q, 1.0)))
    hit, drawn = np.exp(setup.log_q), setup.q.max(0) > 0
    if setup.weights == "arrival":  # the label takes no part
        hit, some = np.zeros_like(hit), np.zeros_like(some)
    share = np.array([prior[group == g].sum() for g in range(3)])
    by_group = np.array([prior[group == g] @ some[group == g] for g in range(3)])
    lost = (prior > 0) & ~drawn
    return Rates(
        float(prior @ hit), float(prior @ some), np.divide(by_group, share, out=np.zeros(3), where=share > 0),
        int(lost.sum()), float(prior[lost].sum()), int(((prior == 0) & drawn).sum()),
    )  # fmt: skip
