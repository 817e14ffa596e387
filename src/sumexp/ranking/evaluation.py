r"""What a metric among sampled candidates says of the true one.

A positive of true rank r among the L classes is compared with m sampled negatives, uniform over the n = L - 1 others.
Each that scores higher has been drawn with probability :math:`(r-1)/n`, so that the sampled rank is exactly

.. math:: 1 + \mathrm{Bin}\Big(m, \frac{r-1}n\Big), \qquad \text{without replacement}\quad
          1 + \mathrm{Hyp}(n, r-1, m).

From a law q that is not uniform it is :math:`1+\mathrm{Bin}(m,a)`, where a is the share that the classes above the
positive have of q without it: *which* classes they are matters, not only how many.

The mean of a sampled metric is thus linear in the law of the true ranks and shares. Many laws agree with the values
that were reported; :func:`fitting` finds the least and the greatest true metric among all of them, a linear program.

Source: W. Krichene and S. Rendle, On Sampled Metrics for Item Recommendation (2020).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog

from sumexp import _checks as checks
from sumexp.ranking import sampled

Floats = NDArray[np.float64]

DENSE = 2000
"""Ranks that are all looked at; beyond them 400 a decade."""

SHARES = np.sin(np.linspace(0, math.pi / 2, 2001)) ** 2
"""Shares that are looked at in addition to those at the ends of each rank: equally far apart for a binomial count."""

ROUNDING = 1e-9
"""Shares that differ by less are one: by so little a sum over ten million classes may be wrong."""

TRUE = ("recall@1", "recall@10", "recall@100", "mrr", "ndcg", "ndcg@10")


def rank_law(ranks: NDArray[np.int64], classes: int, m: int, *, replacement: bool = True) -> Floats:
    """The exact law of the sampled rank given the true rank, [ranks, m + 1], for sampled ranks 1 to m + 1.

    Args:
        ranks: true ranks, 1..classes.
        classes: L; the positive and the n = L - 1 negatives from which candidates are drawn.
        m: sampled negatives.
        replacement: whether one can be drawn twice.

    Raises:
        ValueError: if a number is out of range.
    """
    n = checks.whole("classes", classes, 2, sampled.WHOLE) - 1
    m = checks.whole("candidates", m, 1, None if replacement else n)
    if len(ranks) and not (ranks.min() >= 1 and ranks.max() <= classes):
        raise ValueError(f"a rank is {ranks.min()} or {ranks.max()}; the ranks are 1..{classes}")
    return _law(n, m, ranks - 1, replacement)


def drawn_rank_law(above: Floats, m: int) -> Floats:
    """The same for any sampler, given the probability ``above`` [ranks] that a draw scores higher than the positive.

    For a sampler that is not uniform the true rank does not decide it: it matters *which* classes score higher.
    """
    return _law(1, checks.whole("candidates", m, 1), above, replacement=True)


def _law(n: int, m: int, above: NDArray[Any], replacement: bool) -> Floats:
    """The law of how many of m draws are among the ``above`` [ranks] of n, [ranks, m + 1]."""
    s, k = (torch.from_numpy(np.asarray(of, np.float64)) for of in (above, np.arange(m + 1)))
    law: Floats = sampled.hit_law(n, m, s.unsqueeze(-1), k, replacement).numpy()
    return law


def metric(name: str, ranks: NDArray[np.int64]) -> Floats:
    r"""``recall@k`` (or ``hit@k``), ``mrr``, ``ndcg`` and both ``@k`` of one relevant item: 1, 1/r, 1/log2(1+r).

    Raises:
        ValueError: if there is no metric of that name.
    """
    kind = re.fullmatch(r"(recall|hit|mrr|ndcg)(?:@([1-9][0-9]*))?", name.lower())
    if kind is None or (kind[1] in ("recall", "hit") and kind[2] is None):
        raise ValueError(f"no metric {name!r}; there are recall@K, hit@K, mrr, mrr@K, ndcg and ndcg@K")
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
        sampler: what the candidates were drawn from.
    """

    candidates: int
    reported: tuple[tuple[str, float], ...]
    true: tuple[tuple[str, float, float], ...]
    sampler: str = "uniform"

    @property
    def among(self) -> str:
        """Among what the reported metrics were taken, in words."""
        return f"{self.candidates} candidates, {self.sampler}"

    @property
    def ends(self) -> str:
        """The ends of each true metric, in words."""
        return ", ".join(f"{name} {low:.3f} to {high:.3f}" for name, low, high in self.true)


def fitting(
    reported: Mapping[str, float],
    classes: int,
    m: int,
    *,
    law: Floats | None = None,
    replacement: bool = True,
    tolerance: float = 5e-4,
) -> Evaluation:
    """All true metrics that fit the sampled ones: the ends of the interval of each.

    What was reported is taken for a mean over all examples: that they are finitely many widens the interval further.
    Of which classes are labels, and which score higher, nothing is assumed. Beyond rank 2000 ranks are looked at on a
    grid, 400 a decade, and for a law that is not uniform shares on a grid of 2,001, so that an end may be missed by
    that much.

    Args:
        reported: sampled metrics by name, as they were reported.
        classes: number of classes.
        m: sampled negatives.
        law: [classes] what the candidates are drawn from, if not uniform; a draw of the positive is drawn again.
        replacement: whether one can be drawn twice; without, they are uniform.
        tolerance: how far a reported value may be from its mean: half a unit of its last digit.

    Raises:
        ValueError: if a name or number is out of range, or nothing fits the values.
    """
    if not reported:
        raise ValueError("no sampled metric is given, as in recall@10=0.7")
    ranks = _ranks(classes)
    if law is None:
        seen, best, worst = rank_law(ranks, classes, m, replacement=replacement), ranks, ranks
    elif replacement:
        q = checks.law("law", checks.tensor("law", law))
        if q.shape != (classes,):
            raise ValueError(f"law has the shape {tuple(q.shape)}; there are {classes} classes")
        above, best, worst = _shares(q.numpy(), ranks)
        seen = drawn_rank_law(above, m)
    else:
        raise ValueError("without replacement candidates are uniform here; give law or replacement=False, not both")
    sampled = np.arange(1, m + 2)
    means = np.stack([seen @ metric(name, sampled) for name in reported])
    values = np.array(list(reported.values()))
    if not (np.isfinite(values) & (values >= 0) & (values <= 1)).all():
        raise ValueError(f"sampled metrics are {dict(reported)}; they must lie between 0 and 1")
    bounds = np.concatenate([values + tolerance, tolerance - values])
    true = []
    for name in TRUE:
        ends = []
        for sign, rank in ((1, worst), (-1, best)):
            solution = linprog(
                sign * metric(name, rank), A_ub=np.concatenate([means, -means]), b_ub=bounds,
                A_eq=np.ones((1, len(rank))), b_eq=[1.0], method="highs",
            )  # fmt: skip
            if solution.status == 2:
                raise ValueError(f"no law of ranks has the sampled metrics {dict(reported)} with {m} candidates")
            if solution.status != 0:
                raise ValueError(f"the linear program for {name} was not solved: {solution.message}")
            ends.append(sign * float(solution.fun or 0.0))
        true.append((name, ends[0], ends[1]))
    return Evaluation(m, tuple(reported.items()), tuple(true), "uniform" if law is None else "given distribution")


def _shares(law: Floats, ranks: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    r"""Shares of q that the classes above a positive can have, and for each the best and the worst rank it can have.

    The k classes above it have at most :math:`S_k/(1-q_{k+1})` with q falling: they are the k likeliest and the
    positive is the next one. A likelier positive p leaves them :math:`(S_{k+1}-p)/(1-p)`, which falls with p, a less
    likely one a larger total. With q rising it is the least that they have, for the same reason. Every share between
    these ends is thought to occur, since which classes stand above is not known: ends are never too narrow. The k/n of
    uniform candidates lies between, as the k likeliest have at least the mean of the others: no law leaves less open.
    """
    rising = np.sort(law)
    if not rising[-1] < 1:
        raise ValueError("candidates are drawn from a law with one class: where it is the positive there are none")
    least, most = (
        np.minimum(np.append(0.0, np.cumsum(order[:-1])) / (1 - order), 1.0) for order in (rising, rising[::-1])
    )
    least[-1] = most[-1] = 1.0
    above = np.unique(np.concatenate([least[ranks - 1], most[ranks - 1], SHARES]))
    best = np.searchsorted(most, above * (1 - ROUNDING), side="left") + 1
    worst = np.searchsorted(least, above * (1 + ROUNDING), side="right")
    can_be = best <= worst  # of a uniform law only the shares of whole numbers of classes
    return above[can_be], best[can_be], worst[can_be]


def _ranks(classes: int) -> NDArray[np.int64]:
    if classes <= DENSE:
        return np.arange(1, classes + 1)
    count = max(2, math.ceil(400 * math.log10(classes / DENSE)))
    return np.unique(np.concatenate([np.arange(1, DENSE + 1), np.geomspace(DENSE, classes, count).astype(np.int64)]))
