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
        never_drawn: number of classes that are labels but never negatives.
        never_labels: their share of the labels.
    """

    hit: float
    any_hit: float
    never_drawn: int
    never_labels: float


def rates(prior: Floats, setup: Setup) -> Rates:
    r"""Accidental hits, :math:`\sum_y\pi_y\big(1-\prod_i(1-q^{(i)}_y)^{m_i}\big)`, and one-sided classes.

    Args:
        prior: [classes] the law of the labels.
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
    lost = (prior > 0) & ~drawn
    return Rates(float(prior @ hit), float(prior @ some), int(lost.sum()), float(prior[lost].sum()))
