r"""The minimum of a scheme against a truth P(y|x), on bins of classes.

The errors of the scores are smooth in q and P, so every member of a bin has its bin's error:
:math:`f_y = \log P_y + \Delta_{\text{bin}}`.
"""

import math
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp.audit._bins import CELL, Cells, cells, merge
from sumexp.audit._risks import Binned, State, minimise
from sumexp.audit._rows import Rows
from sumexp.audit._setup import Setup, log_weights
from sumexp.negatives.consistency import minimiser, union_law
from sumexp.negatives.race import distinct_law

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GROUPS = ("head", "torso", "tail")
BINS = 160
"""The first number of bins; it doubles until the divergence converges."""

MOST_BINS = 1280

ENUMERATED = 10
"""Classes up to which all sets of negatives are enumerated; beyond, classes are independent members of a set."""

INDEPENDENT = (0.01, 0.003)
"""The largest error in nats of that approximation for divergences below .02, below 150 classes and from there on, in
1,149 comparisons with the exact law, rounded up."""

SETTLED = 5e-3
"""Relative change of the divergence at which doubling stops: half a unit of the second digit. The change estimates the
error and does not bound it."""

LEAST = 1e-7
"""Nats of divergence at which doubling stops."""

TIE = 1e-6
"""Nats: scores that differ by less are equal, as the minimiser is no more exact."""


@dataclass(frozen=True)
class Effect:
    """The minimum of a scheme's expected loss against one truth; nats unless stated otherwise.

    The attributes without a comment are those of `results.Row`, of one example.
    """

    kl: float
    kl_error: float
    displaced: Floats
    items: Floats
    truth: Floats
    learned: Floats
    gap: float
    overlap: float
    loss: float
    deviation: float
    unbounded: float  # share of labels whose class is never drawn; their scores grow without bound
    popularity: Floats  # [bins] mean frequency of a bin's classes
    error: Floats  # [bins] error of their scores
    mass: Floats  # [bins] their share of P


class Truth:
    """A law P(y|x) on rows of classes, in cells for a sampler, without the classes that have no finite score.

    A class that is no label (P = 0 or count 0) has the score -inf and contributes nothing as a negative; a label that
    is never drawn has no finite score. P is conditional on the remaining classes.
    """

    def __init__(self, rows: Rows, p: Floats, setup: Setup) -> None:
        drawn = setup.q.max(0) > 0
        part = (p > 0) & (rows.prior > 0) & drawn
        number = rows.number
        lost = (p > 0) & (rows.prior > 0) & ~drawn
        self.unbounded = float(number[lost] @ p[lost] / (number @ p))
        self.p = np.where(part, p, 0.0) / (number[part] @ p[part])
        self.number, self.prior, self.part = number, rows.prior, part
        log_q = setup.log_q
        with np.errstate(divide="ignore", invalid="ignore"):
            table = setup.table if setup.table is not None else log_q
            features = np.stack([np.log(self.p), log_q, *np.log(setup.q[1:]), table - log_q, np.log(rows.prior)])
            if setup.law is not None:
                features = np.concatenate([features, np.log(setup.law)[None]])
        features = np.stack([row for row in features if np.ptp(row[part]) > 1e-9] or [np.zeros_like(p)])
        sums = self._sums(setup)
        width = 1e-9 if len(number) <= ENUMERATED else CELL
        self.cells: Cells = cells(features, sums, np.where(part, rows.group, -1), sums[-1], width)
        self._merged: dict[int, Integers] = {}

    def merged(self, most: int) -> Integers:
        """The bin of each cell, for so many bins, by the cells' mass."""
        if most not in self._merged:
            self._merged[most] = merge(self.cells, most)
        return self._merged[most]

    def _sums(self, setup: Setup) -> Floats:
        """[quantities, classes] to sum over the members of a cell; the last is the weight of its means."""
        log_q = setup.log_q
        mass = self.number * (self.p + np.exp(log_q))
        with np.errstate(invalid="ignore"):  # of classes that are never drawn
            delta = np.zeros_like(mass) if setup.table is None else np.where(self.part, setup.table - log_q, 0.0)
        shares = (np.ones_like(mass), self.p, self.prior, *setup.q)
        return np.stack([self.number * x for x in shares] + [mass * delta, mass])

    def by(self, setup: Setup) -> "Truth":
        """The same classes in the same cells, for a set of another size.

        Cells are narrow in the law of one draw, of which inclusion probabilities are a smooth function.
        """
        truth, part = copy(self), np.flatnonzero(self.part)
        place, size = self.cells.index[part], len(self.cells.count)
        sums = [np.bincount(place, weights=row[part], minlength=size) for row in self._sums(setup)]
        truth.cells = replace(self.cells, sums=np.stack(sums))
        return truth

    def binned(self, setup: Setup, place: Integers) -> tuple[Binned, Integers, Floats]:
        """The sampled loss on bins, given the bin of each cell; each bin's group, and its mean frequency."""
        size = int(place.max()) + 1

        def total(values: Floats) -> Floats:
            return np.asarray(np.bincount(place, weights=values, minlength=size), dtype=np.float64)

        count, p, prior, *q, delta, mass = (total(row) for row in self.cells.sums)
        laws = np.stack(q) / count
        expected = laws[0] if setup.is_set else setup.m @ laws
        log_q = np.log(expected / setup.negatives)
        group = np.zeros(size, dtype=np.int64)
        group[place] = self.cells.group
        a, b = log_weights(setup, log_q, log_q + delta / mass, np.maximum(prior / count, 1e-300))
        coins = setup.is_set and setup.asked != 1  # a set of one is one draw
        return Binned(count, p / count, laws, setup.m, coins, a, b, setup.hits), group, prior / count


@dataclass(frozen=True)
class Minimum:
    """The minimum on the final bins."""

    state: State  # problem and scores
    place: Integers  # [cells] the bin of each
    group: Integers  # [bins] head, torso or tail
    prior: Floats  # [bins] mean frequency
    error: Floats  # [bins] errors of the scores; their mean over P is 0
    kl: float  # divergence from the truth, nats
    moved: float  # its change when the bins were last doubled


def minimum(
    truth: Truth, setup: Setup, digits: float = SETTLED, most: int = MOST_BINS, begin: Minimum | None = None
) -> Minimum:
    """The minimum of a scheme's expected loss, on at most so many bins.

    They double until its divergence changes by less than a share ``digits``, or :data:`LEAST` nats. The search starts
    at ``begin``, the minimum of a similar problem on the same cells.
    """
    cells = len(truth.cells.count)
    # at least one doubling, unless the second bins would be all cells: then start with them
    before, size = np.inf, min(BINS if cells > 2 * BINS else 2 * BINS, most)
    place = truth.merged(size)
    old = None if begin is None else begin.error[begin.place]
    while True:
        problem, group, prior = truth.binned(setup, place)
        start = np.log(problem.p)
        if old is not None:
            start[place] += old  # the last cell of a bin wins: it is only a start
        state = minimise(problem, start)
        mass = problem.count * problem.p
        error = state.scores - np.log(problem.p)
        kl = divergence(mass, error)
        moved = 0.0 if size >= cells else abs(kl - before)
        if moved <= max(digits * kl, LEAST) or size >= most:
            return Minimum(state, place, group, prior, error, kl, moved if np.isfinite(moved) else 0.0)
        # the mass of the learned law counts too, which can be far from that of P and q
        learned = mass * np.exp(error - error.max())
        ratio = np.exp(error - error.max()) / learned.sum()
        before, size, old = kl, 2 * size, error[place]
        place = merge(truth.cells, size, truth.cells.mass + truth.cells.sums[1] * ratio[place])


def effect(truth: Truth, setup: Setup, digits: float = SETTLED, most: int = MOST_BINS) -> Effect:
    """What a scheme learns of one truth; arguments as for :func:`minimum`."""
    near = minimum(truth, setup, digits, most)
    if not setup.is_set or setup.asked == 1 or setup.weights == "arrival":  # whose minimum is the truth
        return _effect(truth, near)
    if len(truth.number) == truth.number.sum() <= ENUMERATED:
        return _over_sets(truth, setup, near)
    result = _effect(truth, near)
    return replace(result, kl_error=result.kl_error + INDEPENDENT[int(truth.number.sum() >= 150)])


def _over_sets(truth: Truth, setup: Setup, near: Minimum) -> Effect:
    """The same for few classes, by enumeration of all sets, from the minimum for independent members."""
    assert setup.law is not None
    assert setup.asked is not None
    drawn, part = setup.q[0] > 0, truth.part
    law = union_law if setup.kind == "union" else distinct_law
    members, chance = law(torch.from_numpy(np.log(setup.law[drawn])), setup.asked)[:2]
    members = members[:, part[drawn]]
    log_q, p = setup.log_q[part], torch.from_numpy(truth.p[part])
    table = log_q if setup.table is None else setup.table[part]
    log_a, log_b = (torch.from_numpy(x) for x in log_weights(setup, log_q, table, truth.prior[part]))

    def each(scores: Tensor) -> Tensor:
        """[sets, labels] the loss."""
        terms = torch.where(members, torch.exp(log_b + scores), 0.0)
        total = terms.sum(-1, keepdim=True) - (0 if setup.hits == "keep" else terms)
        return torch.log1p(total * torch.exp(log_a - scores))

    place = near.place[truth.cells.index[part]]
    scores = minimiser(lambda f: chance @ each(f), p, p.log() + torch.from_numpy(near.error[place]))
    error = (scores - p.log()).numpy()
    mean = np.bincount(place, weights=error) / np.bincount(place)  # of a bin's classes, which are alike
    mass = near.state.problem.count * near.state.problem.p
    mean -= mass @ mean
    at_truth, least = each(p.log()), p @ (chance @ each(scores))
    loss, square = p @ (chance @ at_truth), p @ (chance @ at_truth**2 - (chance @ at_truth) ** 2)
    result = _effect(truth, replace(near, error=mean, kl=divergence(mass, mean), moved=0.0))
    return replace(result, gap=max(0.0, (loss - least).item()), loss=loss.item(), deviation=square.sqrt().item())


def _effect(truth: Truth, solution: Minimum) -> Effect:
    """The effect of a minimum."""
    problem, error = solution.state.problem, solution.error
    at_truth = State(problem, np.log(problem.p))
    result = described(problem.count, problem.p, error, solution.group, solution.prior)
    return replace(
        result, kl=solution.kl, kl_error=solution.moved, gap=max(0.0, at_truth.risk - solution.state.risk),
        overlap=overlap(truth, solution.place, error), loss=at_truth.risk, deviation=at_truth.deviation,
        unbounded=truth.unbounded,
    )  # fmt: skip


def described(count: Floats, p: Floats, error: Floats, group: Integers, prior: Floats) -> Effect:
    """The effect of errors of the scores whose mean over P is 0, of bins or classes; NaN where the loss decides."""
    mass, member = count * p, np.eye(len(GROUPS))[group]
    learned = mass * np.exp(error - error.max())
    learned /= learned.sum()
    items = np.divide((count * error) @ member, count @ member, out=np.zeros(3), where=count @ member > 0)
    return Effect(
        divergence(mass, error), 0.0, np.abs(learned - mass) @ member / 2, items, mass @ member, learned @ member,
        math.nan, math.nan, math.nan, math.nan, 0.0, prior, error, mass,
    )  # fmt: skip


def divergence(mass: Floats, error: Floats) -> float:
    r""":math:`\mathrm{KL}(P\,\|\,S)` for :math:`S \propto Pe^\Delta`, in nats, to all digits near 0."""
    centred = error - mass @ error
    # log E e^x - E x with E x = 0: the mean of e^x - 1 - x, without cancellation
    small = np.abs(centred) < 1e-3
    rest = np.where(small, centred**2 / 2 + centred**3 / 6, np.expm1(np.minimum(centred, 600)) - centred)
    return max(0.0, float(np.log1p(mass @ rest)))


def overlap(truth: Truth, place: Integers, error: Floats, k: int = 10) -> float:
    """The number of the k classes of highest P among the k of highest score at the minimum.

    Values equal to :data:`TIE` tie, and the first classes of a tie count, in both orders.
    """
    index = truth.cells.index
    part = np.flatnonzero(index >= 0)
    log_p = np.log(truth.p[part])
    best, learned = (_first(x, truth.number[part], k) for x in (log_p, log_p + error[place[index[part]]]))
    return float(sum(min(number, learned.get(row, 0.0)) for row, number in best.items()))


def _first(values: Floats, number: Floats, k: int) -> dict[int, float]:
    """By row, the number of its classes among the k of the highest value, ties in the order of the rows."""
    values = np.round(values / TIE)
    least = np.partition(-values, min(k, len(values)) - 1)[min(k, len(values)) - 1]
    top = np.flatnonzero(-values <= least)
    left, taken = float(k), {}
    for row in top[np.argsort(-values[top], kind="stable")][:k]:
        taken[int(row)] = min(left, float(number[row]))
        left -= taken[int(row)]
    return taken
