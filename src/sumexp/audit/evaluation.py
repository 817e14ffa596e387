r"""What a metric among sampled candidates says of the true one.

A positive of true rank r among the L classes is compared with m sampled negatives, uniform over the n = L - 1 others.
Each that scores higher has been drawn with probability :math:`(r-1)/n`, so that the sampled rank is exactly

.. math:: 1 + \mathrm{Bin}\Big(m, \frac{r-1}n\Big), \qquad \text{without replacement}\quad
          1 + \mathrm{Hyp}(n, r-1, m).

The mean of a sampled metric is thus linear in the law of the true ranks. Many laws share the values that were reported;
:func:`fitting` finds the least and the greatest true metric among all of them, a linear program.

Source: W. Krichene and S. Rendle, On Sampled Metrics for Item Recommendation (2020).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom, hypergeom

from sumexp.audit.setup import AuditError

Floats = NDArray[np.float64]

DENSE = 2000
"""Ranks that are all looked at; beyond them 400 a decade."""

TRUE = ("recall@1", "recall@10", "recall@100", "mrr", "ndcg", "ndcg@10")


def rank_law(ranks: NDArray[np.int64], classes: int, m: int, *, replacement: bool = True) -> Floats:
    """The exact law of the sampled rank given the true rank, [ranks, m + 1], for sampled ranks 1 to m + 1.

    Args:
        ranks: true ranks, 1..classes.
        classes: L; the positive and the n = L - 1 negatives from which candidates are drawn.
        m: sampled negatives.
        replacement: whether one can be drawn twice.

    Raises:
        AuditError: if a number is out of range.
    """
    n = classes - 1
    if n < 1 or m < 1 or (not replacement and m > n):
        raise AuditError(f"{m} candidates of {n} negatives; give at least one, and without replacement at most all")
    if len(ranks) and not (ranks.min() >= 1 and ranks.max() <= classes):
        raise AuditError(f"a rank is {ranks.min()} or {ranks.max()}; the ranks are 1..{classes}")
    above, beaten = (ranks - 1)[:, None], np.arange(m + 1)
    law = binom.pmf(beaten, m, above / n) if replacement else hypergeom.pmf(beaten, n, above, m)
    return np.asarray(law)


def drawn_rank_law(above: Floats, m: int) -> Floats:
    """The same for any sampler, given the probability ``above`` [ranks] that a draw scores higher than the positive.

    For a sampler that is not uniform the true rank does not decide it: it matters *which* classes score higher.
    """
    return np.asarray(binom.pmf(np.arange(m + 1), m, np.asarray(above)[:, None]))


def metric(name: str, ranks: NDArray[np.int64]) -> Floats:
    r"""``recall@k`` (or ``hit@k``), ``mrr``, ``ndcg`` and both ``@k`` of one relevant item: 1, 1/r, 1/log2(1+r).

    Raises:
        AuditError: if there is no metric of that name.
    """
    kind = re.fullmatch(r"(recall|hit|mrr|ndcg)(?:@(\d+))?", name.lower())
    if kind is None or (kind[1] in ("recall", "hit") and kind[2] is None) or kind[2] == "0":
        raise AuditError(f"no metric {name!r}; there are recall@K, hit@K, mrr, mrr@K, ndcg and ndcg@K")
    cut = int(kind[2]) if kind[2] else math.inf
    value = {"mrr": 1 / ranks, "ndcg": 1 / np.log2(1.0 + ranks)}.get(kind[1], np.ones(len(ranks)))
    return np.where(ranks <= cut, value, 0.0)


@dataclass(frozen=True)
class Evaluation:
    """What reported metrics leave open.

    Attributes:
        candidates: sampled negatives.
        reported: the sampled metrics.
        true: for each metric over all classes its least and greatest value that fits the reported ones.
    """

    candidates: int
    reported: tuple[tuple[str, float], ...]
    true: tuple[tuple[str, float, float], ...]


def fitting(
    reported: Mapping[str, float], classes: int, m: int, *, replacement: bool = True, tolerance: float = 5e-4
) -> Evaluation:
    """All true metrics that fit the sampled ones: the ends of the interval of each.

    What was reported is taken for a mean over all examples: that they are finitely many widens the interval further.
    Beyond rank 2000 ranks are looked at on a grid, 400 a decade, so that an end may be missed by that much.

    Args:
        reported: sampled metrics by name, as they were reported.
        classes: number of classes.
        m: sampled negatives.
        replacement: whether one can be drawn twice.
        tolerance: how far a reported value may be from its mean: half a unit of its last digit.

    Raises:
        AuditError: if a name or number is out of range, or nothing fits the values.
    """
    if not reported:
        raise AuditError("no sampled metric is given, as in recall@10=0.7")
    ranks = _ranks(classes)
    law = rank_law(ranks, classes, m, replacement=replacement)
    sampled = np.arange(1, m + 2)
    means = np.stack([law @ metric(name, sampled) for name in reported])
    values = np.array(list(reported.values()))
    if not (np.isfinite(values) & (values >= 0) & (values <= 1)).all():
        raise AuditError(f"sampled metrics are {dict(reported)}; they must lie between 0 and 1")
    bounds = np.concatenate([values + tolerance, tolerance - values])
    true = []
    for name in TRUE:
        ends = []
        for sign in (1, -1):
            found = linprog(
                sign * metric(name, ranks), A_ub=np.concatenate([means, -means]), b_ub=bounds,
                A_eq=np.ones((1, len(ranks))), b_eq=[1.0], method="highs",
            )  # fmt: skip
            if found.status == 2:
                raise AuditError(f"no law of ranks has the sampled metrics {dict(reported)} with {m} candidates")
            if found.status != 0:
                raise AuditError(f"the linear program for {name} was not solved: {found.message}")
            ends.append(sign * float(found.fun or 0.0))
        true.append((name, ends[0], ends[1]))
    return Evaluation(m, tuple(reported.items()), tuple(true))


def can_change_places(first: Evaluation, second: Evaluation) -> tuple[str, ...]:
    """The true metrics by which either of two models may be the better one, for all that was reported."""
    return tuple(
        name
        for (name, low, high), (_, other_low, other_high) in zip(first.true, second.true, strict=True)
        if low < other_high and other_low < high
    )


def _ranks(classes: int) -> NDArray[np.int64]:
    if classes <= DENSE:
        return np.arange(1, classes + 1)
    count = max(2, math.ceil(400 * math.log10(classes / DENSE)))
    return np.unique(np.concatenate([np.arange(1, DENSE + 1), np.geomspace(DENSE, classes, count).astype(np.int64)]))
