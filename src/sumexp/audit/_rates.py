r"""What counts, sampler and number of negatives alone decide: accidental hits, limits and bounds."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from sumexp import expectations, ranking
from sumexp.audit._setup import Setup, log_weights

Floats = NDArray[np.float64]

MOST_DRAWS = 1 << 14
"""Negatives up to which the bound on the rank is looked at."""

MOST_TERMS = 1 << 25
"""Sizes of sets times numbers of hits: as many terms are summed where the law is uniform."""


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


def rates(prior: Floats, group: NDArray[np.int64], setup: Setup) -> Rates:
    r"""Accidental hits, :math:`\sum_y\pi_y\big(1-\prod_i(1-q^{(i)}_y)^{m_i}\big)`, and classes that miss a side.

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


@dataclass(frozen=True)
class RankBound:
    r"""Whether the expected loss is at least the log of the rank for all logits, so that MRR >= exp(-loss).

    Attributes:
        holds: None where it is not decided here.
        constant: what must be added to the loss so that it bounds the log rank, 0 where it does; at least so much where
            only a few sets were looked at, exactly where ``exact``; None where nothing is decided.
        exact: whether all sets are covered by the constant.
    """

    holds: bool | None
    constant: float | None
    exact: bool


def rank_bound(prior: Floats, setup: Setup) -> RankBound:
    r"""Condition (C) of `sumexp.ranking.sampled`, for one law of draws with replacement.

    Where the law is uniform every size of a set is looked at. Else a set that fails says that the condition fails; that
    it holds follows from the rarest class alone where the weights are the same for all, or :math:`1/q`: then
    :math:`\mathbb E\log(1+wK)` rises with q, as a binomial K is thinned, hits that are kept only add to the loss, and
    drawing them again only makes the negatives more frequent.

    Args:
        prior: [classes] the law of the labels.
        setup: the scheme.
    """
    m = int(setup.negatives)
    if setup.is_set or len(setup.m) > 1 or setup.table is not None or setup.weights == "tail" or m > MOST_DRAWS:
        return RankBound(None, None, False)
    q = setup.q[0]
    if np.ptp(q) < 1e-12 * q.max() and len(q) * (m + 1) <= MOST_TERMS:
        constant = _flat(setup, len(q), m)
        return RankBound(constant == 0, constant, True)
    if setup.weights in ("relative", "added"):
        return RankBound(None, None, False)
    rarest = _least(q)
    labels = np.flatnonzero(prior > 0)
    pairs = [(y, next(j for j in rarest if j != y)) for y in labels[_least(q[labels])]]
    if q[rarest[0]] == 0:  # classes that are never drawn can all be above the label, unseen
        unseen, drawn = int((q == 0).sum()), labels[q[labels] > 0]
        rare = [labels[q[labels].argmin()], *drawn[q[drawn].argsort(kind="stable")[:1]]]
        constant = max(math.log1p(unseen - int(q[y] == 0)) - _expected(setup, m, y, None) for y in rare)
        return RankBound(False, constant, False) if constant > 1e-12 else RankBound(None, None, False)
    constant = max(math.log(2) - _expected(setup, m, y, j) for y, j in pairs)
    if constant > 1e-12:
        return RankBound(False, constant, False)
    other = int(rarest[1])
    alone = math.log(2) - _expected(replace(setup, hits="mask"), m, other, int(rarest[0]))
    enough = setup.weights in ("none", "constant", "negatives") and alone <= 1e-12
    return RankBound(True, 0.0, True) if enough else RankBound(None, None, False)


def _least(q: Floats) -> NDArray[np.intp]:
    """The places of the two least values, in rising order."""
    places = np.argpartition(q, 1)[:2]
    return np.asarray(places[np.argsort(q[places])])


def _flat(setup: Setup, classes: int, m: int) -> float:
    """The greatest deficit over the sizes of sets, for a uniform law, where all weights are one."""
    log_q = np.full(2, -math.log(classes))
    a, b = log_weights(setup, log_q, log_q, np.ones(2))
    weight, sizes = float(np.exp(a[0] + b[1])), torch.arange(1, classes)
    # K among a set is binomial (m, size / n) for n = classes, or its negatives where hits are drawn again
    n = classes - 1 if setup.hits == "redraw" else classes
    loss = ranking.hit_losses(n, m, weight, sizes + 1 if setup.hits == "keep" else sizes)
    worst = float((torch.log1p(sizes.double()) - loss).max())
    return worst if worst > 1e-12 else 0.0


def _expected(setup: Setup, m: int, label: int, negative: int | None) -> float:
    """The expected loss of a label that ties with one negative (or none), all others far below."""
    classes = [label] if negative is None else [label, negative]
    q = setup.q[0][classes]
    with np.errstate(divide="ignore"):
        log_q = np.log(q)
    # for these weights the label's factor is one for all, but where hits are drawn again
    a, b = log_weights(setup, log_q, log_q, np.ones(len(q)))
    log_w = np.append(np.where(q > 0, a[0] + b, -np.inf), -np.inf)
    if setup.hits != "keep":
        log_w[0] = -np.inf
    law = np.append(q, max(0.0, 1 - float(q.sum())))
    if setup.hits == "redraw":
        law = np.append([0.0], law[1:]) / (1 - q[0])
    if not np.isfinite(log_w).any():
        return 0.0
    with np.errstate(divide="ignore"):
        log_law = torch.from_numpy(np.log(law / law.sum()))
    return expectations.expect(expectations.with_replacement(torch.from_numpy(log_w), m, log_law)).loss.item()
