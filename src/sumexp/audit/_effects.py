r"""What a scheme learns where the truth is P(y|x): its minimum against the truth, over a million classes by bins.

The scores' errors are smooth in q and in P, so that each member of a bin gets its bin's error:
:math:`f_y = \log P_y + \Delta_{\text{bin}}`.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._bins import Cells, cells, merge
from sumexp.audit._minimiser import minimise
from sumexp.audit._moments import Moments, moments
from sumexp.audit._risks import Binned, State
from sumexp.audit._risks import state as state_of
from sumexp.audit._rows import Rows
from sumexp.audit._sets import Fixed, held, merged
from sumexp.audit._setup import Setup, log_weights

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GROUPS = ("head", "torso", "tail")
BINS = 160
"""Bins to begin with; they are doubled until the divergence stands still."""

MOST_BINS = 1280

SET_BINS = 12
"""Bins on which a set of a fixed law is first compared with coins: their difference needs fewer bins than either."""

MOST_SET_BINS = 128

SETTLED = 5e-3
"""Relative change of the divergence at which bins are no longer doubled: half a unit of the second digit. That change
is what the error is estimated by, no bound of it."""

LEAST = 1e-7
"""Nats of divergence below which bins are not doubled."""

IDLE = 512
"""Values to which the probabilities of classes without a score are merged, in a set of a fixed law."""

TIE = 1e-6
"""Nats: scores that differ by less are equal, for the search leaves a part of it."""


@dataclass(frozen=True)
class Effect:
    r"""The minimum of a scheme's expected loss against one truth; nats where nothing else is said.

    Attributes:
        kl: :math:`\mathrm{KL}(P\,\|\,\operatorname{softmax}f)` of the scores f at the minimum.
        kl_error: by how much it still moved when the bins were doubled, those for a set's true law too.
        displaced: [3] probability that is learned where it is not, or not where it is, in each group: half the sum of
            absolute differences.
        inside: [3] the part of the divergence inside each group, :math:`P(g)\,\mathrm{KL}(P(\cdot|g)\,\|\,\cdot)`.
        shift: [3] mean error of a score in each group, weighted by P; over all it is 0.
        items: [3] the same, each class counted once.
        truth: [3] true share of each group.
        learned: [3] its share by the scores at the minimum.
        gap: the sampled loss at the truth less its least value: what training gains by the error.
        overlap: how many of the 10 classes of highest P are among those of highest score.
        at_truth: loss and gradient at the true scores.
        unbounded: share of the labels whose class is never drawn: its score rises forever.
        bins: how many bins there are.
        popularity: [bins] mean frequency of a bin's classes.
        error: [bins] error of their scores.
        mass: [bins] their share of P.
    """

    kl: float
    kl_error: float
    displaced: Floats
    inside: Floats
    shift: Floats
    items: Floats
    truth: Floats
    learned: Floats
    gap: float
    overlap: float
    at_truth: Moments
    unbounded: float
    bins: int
    popularity: Floats
    error: Floats
    mass: Floats


class Truth:
    """A law P(y|x) on rows of classes, in cells that suit a sampler; classes that cannot matter are left out.

    A class that is no label (P = 0, or a count of 0) gets the score -inf, and so no more shows as a negative; one that
    is a label and never drawn has no finite score. P is taken given the classes that stay.
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
        law = setup.q[0] if setup.law is None else setup.law
        idle = drawn & ~part
        self.idle = (
            merged(law[idle], number[idle], IDLE)[:2] if setup.is_set and idle.any() else (np.zeros(0), np.zeros(0))
        )
        sums = self._sums(setup)
        self.cells: Cells = cells(features, sums, np.where(part, rows.group, -1), sums[-1])
        self._merged: dict[int, Integers] = {}

    def merged(self, most: int) -> Integers:
        """The bin of each cell on so many bins, by the cells' own mass."""
        if most not in self._merged:
            self._merged[most] = merge(self.cells, most)
        return self._merged[most]

    def _sums(self, setup: Setup) -> Floats:
        """[quantities, classes] what is summed over the members of a cell; the last weights its means."""
        log_q = setup.log_q
        mass = self.number * (self.p + np.exp(log_q))
        with np.errstate(invalid="ignore"):  # of classes that are never drawn
            delta = np.zeros_like(mass) if setup.table is None else np.where(self.part, setup.table - log_q, 0.0)
        law = setup.q[0] if setup.law is None else setup.law
        shares = (np.ones_like(mass), self.p, self.prior, law, *setup.q)
        return np.stack([self.number * x for x in shares] + [mass * delta, mass])

    def by(self, setup: Setup) -> "Truth":
        """The same classes in the same cells, for a set of another size.

        Cells are narrow in the law of one draw, and what a set holds of a class is a smooth function of that.
        """
        truth, part = copy(self), np.flatnonzero(self.part)
        place, size = self.cells.index[part], len(self.cells.count)
        sums = [np.bincount(place, weights=row[part], minlength=size) for row in self._sums(setup)]
        truth.cells = replace(self.cells, sums=np.stack(sums))
        return truth

    def binned(
        self, setup: Setup, place: Integers, exact: bool = False, few: bool = False
    ) -> tuple[Binned, Integers, Floats]:
        """The sampled loss on bins, given the bin of each cell; each bin's group, and its mean frequency.

        A set is taken for independent coins, unless ``exact``. On ``few`` bins its probabilities to hold the classes
        are those of the bins' mean law: means of them belong to another law, which coins and set would feel unlike.
        """
        size = int(place.max()) + 1

        def total(values: Floats) -> Floats:
            return np.asarray(np.bincount(place, weights=values, minlength=size), dtype=np.float64)

        count, p, prior, law, *q, delta, mass = (total(row) for row in self.cells.sums)
        laws = np.stack(q) / count
        if (few or exact) and setup.kind != "draws":
            assert setup.asked is not None
            members, draw = np.append(count, self.idle[1]), np.append(law / count, self.idle[0])
            laws = held(setup.kind, draw, setup.asked, members)[None, :size]
        expected = laws[0] if setup.is_set else setup.m @ laws
        log_q = np.log(expected / setup.negatives)
        group = np.zeros(size, dtype=np.int64)
        group[place] = self.cells.group
        a, b = log_weights(setup, log_q, log_q + delta / mass, np.maximum(prior / count, 1e-300))
        fixed = None
        if exact and setup.kind != "draws":
            assert setup.asked is not None
            fixed = Fixed(
                setup.kind, setup.asked, law / count, count, *self.idle, setup.weights == "arrival", setup.tries
            )
        return Binned(count, p / count, laws, setup.m, setup.is_set, a, b, setup.hits, fixed), group, prior / count


@dataclass(frozen=True)
class Minimum:
    """The minimum on the bins that were found to be fine enough.

    Attributes:
        state: problem and scores.
        place: [cells] the bin of each.
        group: [bins] head, torso or tail.
        prior: [bins] mean frequency.
        error: [bins] errors of the scores; their mean over P is 0.
        kl: divergence from the truth, nats.
        moved: its change when the bins were last doubled.
    """

    state: State
    place: Integers
    group: Integers
    prior: Floats
    error: Floats
    kl: float
    moved: float


def minimum(
    truth: Truth, setup: Setup, digits: float = SETTLED, most: int = MOST_BINS, begin: Minimum | None = None
) -> Minimum:
    """The minimum of a scheme's expected loss, on bins that are doubled until its divergence stands still.

    Args:
        truth: the law, in cells for this scheme's sampler.
        setup: the scheme.
        digits: relative change of the divergence at which to stop (or :data:`LEAST` nats).
        most: bins to end with.
        begin: a minimum of a like problem on the same cells, to start at.
    """
    cells = len(truth.cells.count)
    # the first bins are never the last: where the second have all cells, they are the first
    before, size = np.inf, min(BINS if cells > 2 * BINS else 2 * BINS, most)
    place = truth.merged(size)
    old = None if begin is None else begin.error[begin.place]
    while True:
        problem, group, prior = truth.binned(setup, place)
        start = np.log(problem.p)
        if old is not None:
            start[place] += old  # of a bin's cells the last: a start need not be more
        state = minimise(problem, start)
        mass = problem.count * problem.p
        error = state.scores - np.log(problem.p)
        kl = divergence(mass, error)
        moved = 0.0 if size >= cells else abs(kl - before)
        if moved <= max(digits * kl, LEAST) or size >= most:
            return Minimum(state, place, group, prior, error, kl, moved if np.isfinite(moved) else 0.0)
        # bins are cut where the learned law has its mass too, which can be far from where P and q have theirs
        learned = mass * np.exp(error - error.max())
        ratio = np.exp(error - error.max()) / learned.sum()
        before, size, old = kl, 2 * size, error[place]
        place = merge(truth.cells, size, truth.cells.mass + truth.cells.sums[1] * ratio[place])


class Correction(NamedTuple):
    """What a set's law adds to a simpler one, on a few bins.

    Attributes:
        exact: the minimum under the law.
        rough: that under the simpler one; None where there are no more cells than bins, so that nothing is left out.
        moved: by how much the difference of the divergences moved when the bins were last doubled.
    """

    exact: Minimum
    rough: Minimum | None
    moved: float


def corrections(truth: Truth, setup: Setup, kl: float, digits: float) -> Iterator[Correction]:
    """A set's true law against coins, and weights that know the number of tries against the table of inclusion.

    Each is on bins of its own, doubled until what the two differ by stands still: the number of tries, whose law costs
    most, needs the fewest.

    Args:
        truth: the law, in cells for this scheme's sampler.
        setup: the scheme.
        kl: divergence at the minimum under coins, on many bins.
        digits: change of the difference at which to stop, relative to the divergence (or :data:`LEAST` nats).
    """
    for tries in (False, True) if setup.tries else (False,):
        before, bins, place = np.inf, SET_BINS, truth.merged(SET_BINS)
        while True:
            exact, rough = _both_ways(truth, setup, place, tries)
            change = exact.kl - rough.kl
            moved = abs(change - before)
            whole = len(truth.cells.count) <= bins
            if whole or moved <= max(digits * (kl + change), LEAST) or bins >= MOST_SET_BINS:
                break
            before, bins = change, 2 * bins
            place = _refined(truth.cells, bins, place, exact.error - rough.error, tries)
        yield Correction(exact, None if whole else rough, 0.0 if whole else moved)
        kl = exact.kl if whole else kl + change


def _refined(cell_table: Cells, bins: int, place: Integers, apart: Floats, along: bool) -> Integers:
    """More bins, cut where two minima on those there are lie apart; ``along`` what their distance varies with."""
    apart = apart[place]
    share = cell_table.mass / cell_table.mass.sum()
    weight = 1 + apart**2 / max(float(share @ apart**2), 1e-300)
    if along:
        far = (cell_table.features - (cell_table.features @ share)[:, None]) * np.sqrt(share)
        slope = np.abs(np.linalg.lstsq(far.T, (apart - apart @ share) * np.sqrt(share), rcond=1e-6)[0])
        scale = 0.1 + slope / max(float(slope.max()), 1e-300)
        cell_table = replace(cell_table, features=cell_table.features * scale[:, None])
    return merge(cell_table, bins, cell_table.mass * weight)


def divergence_of_set(truth: Truth, setup: Setup, digits: float = SETTLED, most: int = MOST_BINS) -> float:
    """The divergence alone, for a set; arguments as for :func:`minimum`."""
    kl = minimum(truth, setup, digits, most).kl
    for exact, rough, _ in corrections(truth, setup, kl, digits):
        kl = exact.kl if rough is None else kl + exact.kl - rough.kl
    return max(0.0, kl)


def _both_ways(truth: Truth, setup: Setup, place: Integers, tries: bool) -> tuple[Minimum, Minimum]:
    """The minimum on a few bins under a set's law, and under the simpler one, where its search begins."""
    problem, group, prior = truth.binned(setup, place, exact=True, few=True)
    assert problem.fixed is not None
    table = replace(problem, fixed=replace(problem.fixed, tries=False))
    start, minima = None, []
    for law in (table, problem) if tries else (replace(problem, fixed=None), table):
        state = minimise(law, start)
        start, error = state.scores, state.scores - np.log(problem.p)
        kl = divergence(problem.count * problem.p, error)
        minima.append(Minimum(state, place, group, prior, error, kl, 0.0))
    return minima[1], minima[0]


def effect(truth: Truth, setup: Setup, digits: float = SETTLED, most: int = MOST_BINS) -> Effect:
    """What a scheme learns of one truth; arguments as for :func:`minimum`.

    A set is first taken for coins, on as many bins as that needs; what its true law adds is found on fewer, both ways.
    """
    rather = minimum(truth, setup, digits, most)
    if setup.kind == "draws":
        return _effect(truth, rather)
    result, last = _effect(truth, rather), None
    for best, rough, moved in corrections(truth, setup, rather.kl, digits):
        last = exact = _effect(truth, best)
        result = exact if rough is None else _corrected(result, exact, _effect(truth, rough), moved)
    assert last is not None
    result = replace(
        result, kl=max(0.0, result.kl), gap=max(0.0, result.gap), overlap=min(10.0, max(0.0, result.overlap))
    )
    return replace(result, bins=last.bins, popularity=last.popularity, error=last.error, mass=last.mass)


def _corrected(base: Effect, exact: Effect, rough: Effect, moved: float) -> Effect:
    """What was found, with the difference of two that are on fewer bins."""
    parts: dict[str, Any] = {
        name: getattr(base, name) + getattr(exact, name) - getattr(rough, name)
        for name in ("kl", "inside", "shift", "items", "learned", "gap", "overlap")
    }
    theirs = {
        name: getattr(base.at_truth, name) + getattr(exact.at_truth, name) - getattr(rough.at_truth, name)
        for name in ("loss", "deviation", "noise", "weight", "full_weight")
    }
    return replace(base, **parts, kl_error=base.kl_error + moved, at_truth=Moments(**theirs))


def _effect(truth: Truth, solution: Minimum) -> Effect:
    """All that follows from a minimum."""
    problem, error, group = solution.state.problem, solution.error, solution.group
    mass = problem.count * problem.p
    member = np.eye(len(GROUPS))[group]
    learned = mass * np.exp(error - error.max())
    learned /= learned.sum()
    shares, guessed = mass @ member, learned @ member
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = mass * np.log((mass / shares[group]) / (learned / guessed[group]))
        shift = np.where(shares > 0, (mass * error) @ member / shares, 0.0)
        items = np.where(shares > 0, (problem.count * error) @ member / (problem.count @ member), 0.0)
    true_state = state_of(problem, np.log(problem.p))
    at_truth = moments(true_state, group)
    return Effect(
        solution.kl, solution.moved, np.abs(learned - mass) @ member / 2, inside @ member, shift, items, shares,
        guessed, max(0.0, at_truth.loss - solution.state.risk), overlap(truth, solution.place, error), at_truth,
        truth.unbounded, len(mass), solution.prior, error, mass,
    )  # fmt: skip


def divergence(mass: Floats, error: Floats) -> float:
    r""":math:`\mathrm{KL}(P\,\|\,S)` for :math:`S \propto Pe^\Delta`, in nats, to all digits near 0.

    Args:
        mass: [bins] shares of P.
        error: [bins] the errors of the scores.
    """
    centred = error - mass @ error
    # log E e^x - E x with E x = 0: the mean of e^x - 1 - x, without cancellation
    small = np.abs(centred) < 1e-3
    rest = np.where(small, centred**2 / 2 + centred**3 / 6, np.expm1(np.minimum(centred, 600)) - centred)
    return max(0.0, float(np.log1p(mass @ rest)))


def overlap(truth: Truth, place: Integers, error: Floats, k: int = 10) -> float:
    """How many of the k classes of highest P are among the k of highest score at the minimum.

    Values equal to :data:`TIE` are ties, and of them the first classes count, in either order.
    """
    index = truth.cells.index
    part = np.flatnonzero(index >= 0)
    log_p = np.log(truth.p[part])
    best, learned = (_first(x, truth.number[part], k) for x in (log_p, log_p + error[place[index[part]]]))
    return float(sum(min(number, learned.get(row, 0.0)) for row, number in best.items()))


def _first(values: Floats, number: Floats, k: int) -> dict[int, float]:
    """How many classes of which rows are the k of the highest value, ties in the order of the rows."""
    values = np.round(values / TIE)
    least = np.partition(-values, min(k, len(values)) - 1)[min(k, len(values)) - 1]
    top = np.flatnonzero(-values <= least)
    left, taken = float(k), {}
    for row in top[np.argsort(-values[top], kind="stable")][:k]:
        taken[int(row)] = min(left, float(number[row]))
        left -= taken[int(row)]
    return taken
