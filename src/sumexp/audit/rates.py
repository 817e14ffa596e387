r"""What counts, sampler and number of negatives alone decide: accidental hits, limits and bounds."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sumexp import ranking
from sumexp.audit.setup import Setup, log_weights

Floats = NDArray[np.float64]

LAWS = 200
"""Classes, evenly spaced by frequency, at which the least weight is looked up."""


@dataclass(frozen=True)
class Rates:
    """Shares between 0 and 1.

    Attributes:
        hit: probability that a given negative is the label, over all labels.
        any_hit: probability that one of the negatives is.
        any_by_group: [3] the same for labels of head, torso and tail.
        never_drawn: number of classes that are labels and never negatives.
        never_labels: the share of labels that they are.
        unseen: number of classes without a label that can be drawn.
    """

    hit: float
    any_hit: float
    any_by_group: Floats
    never_drawn: int
    never_labels: float
    unseen: int


def rates(prior: Floats, group: NDArray[np.int64], how: Setup) -> Rates:
    r"""Accidental hits, :math:`\sum_y\pi_y\big(1-\prod_i(1-q^{(i)}_y)^{m_i}\big)`, and classes that miss a side.

    Args:
        prior: [classes] the law of the labels.
        group: [classes] 0, 1, 2, or -1 without labels.
        how: the scheme.
    """
    if how.coins:
        some = how.q[0]
    else:
        with np.errstate(divide="ignore"):
            some = -np.expm1(how.m @ np.log1p(-np.minimum(how.q, 1.0)))
    hit, drawn = np.exp(how.log_q), how.q.max(0) > 0
    share = np.array([prior[group == g].sum() for g in range(3)])
    by_group = np.array([prior[group == g] @ some[group == g] for g in range(3)])
    lost = (prior > 0) & ~drawn
    return Rates(
        float(prior @ hit), float(prior @ some), np.divide(by_group, share, out=np.zeros(3), where=share > 0),
        int(lost.sum()), float(prior[lost].sum()), int(((prior == 0) & drawn).sum()),
    )  # fmt: skip


def certificate(how: Setup) -> float:
    """The most mutual information that an InfoNCE loss of these negatives can certify, log(m+1), in nats."""
    return math.log1p(how.negatives)


@dataclass(frozen=True)
class RankBound:
    r"""Whether the expected loss is at least the log of the rank for all logits, so that MRR >= exp(-loss).

    Attributes:
        holds: None where it is not decided here: sets, pools of several laws, or weights that depend on the label.
        constant: what must be added to the loss so that it bounds the log rank; at least so much where only sets of one
            negative were looked at (not uniform), exactly where ``exact``.
        exact: whether all sets are covered by the constant.
    """

    holds: bool | None
    constant: float | None
    exact: bool


def rank_bound(prior: Floats, how: Setup) -> RankBound:
    r"""Condition (C) of `sumexp.ranking.sampled`: for draws it suffices that each negative's weight is large enough.

    Args:
        prior: [classes] the law of the labels.
        how: the scheme.
    """
    m = int(how.negatives)
    if (
        how.coins
        or len(how.m) > 1
        or how.weights in ("relative", "added", "tail")
        or how.table is not None
        or m > 1 << 14
    ):
        return RankBound(None, None, False)
    q = np.sort(how.q[0])
    if q[0] == 0:
        return RankBound(False, math.inf, True)
    q = q[np.unique(np.linspace(0, len(q) - 1, LAWS).astype(int))]
    a, b = log_weights(how, np.log(q), np.log(q), np.full_like(q, 1 / len(prior)))
    least = ranking.log_least_weight(torch.from_numpy(q), m).numpy()
    holds = bool((a + b >= least - 1e-12).all())
    if holds:
        return RankBound(True, 0.0, True)
    n, flat = len(prior) - 1, bool(np.ptp(how.q[0]) < 1e-12 * how.q[0].max())
    if flat and n * (m + 1) <= 1 << 25:
        return RankBound(False, ranking.additive_constant(n, m, float(np.exp(a[0] + b[0]))).constant, True)
    k = np.arange(1, m + 1)
    choose = np.array([math.lgamma(m + 1) - math.lgamma(j + 1) - math.lgamma(m - j + 1) for j in k])
    chance = np.exp(choose + k * np.log(q)[:, None] + (m - k) * np.log1p(-q)[:, None])
    loss = (chance * np.logaddexp(0, (a + b)[:, None] + np.log(k))).sum(-1)
    return RankBound(False, float(math.log(2) - loss.min()), False)
