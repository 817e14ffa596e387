"""What other numbers of negatives give: divergence, loss, bias and noise, and the number that is enough."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import optimize

from sumexp.audit._effects import SET_BINS, Effect, Minimum, Truth, divergence_of_set, minimum
from sumexp.audit._moments import moments
from sumexp.audit._risks import state
from sumexp.audit._rows import Rows
from sumexp.audit._setup import Setup, log_weights

DRAWS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
"""Numbers of negatives at which the divergence is shown."""

SET_DRAWS = (1, 16, 256, 4096)
"""The same for sets, whose exact law costs more."""

COARSE = 0.02, 320
"""Change at which to stop and bins to end with, for the curve over the number of negatives."""

MOST_DRAWS = 1 << 24

MOST_SET_DRAWS = 1 << 14
"""The same for sets."""


class ByNumber(NamedTuple):
    """What a number of negatives gives.

    Attributes:
        m: the number; of draws, where repetitions are removed.
        kl: divergence at the minimum, nats.
        loss: mean sampled loss at the true scores less the full loss there, nats.
        deviation: standard deviation of the sampled loss there, nats.
        bias: length of the mean gradient at the true scores, where that of the full loss is 0.
        noise: root of the gradient's summed variance there, of one example.
    """

    m: int
    kl: float
    loss: float
    deviation: float
    bias: float
    noise: float


def by_number(truth: Truth, rows: Rows, setup: Setup, row_setup: Setup, first: Effect) -> tuple[ByNumber, ...]:
    """What other numbers of negatives give, on fewer bins; the divergence for the reader's own is that of the audit."""
    own = setup.asked or round(setup.negatives)
    least, most = len(setup.m), math.inf
    if setup.law is not None and setup.kind == "distinct":
        most = int((setup.law > 0).sum()) - (2 if setup.weights == "arrival" else 1)
    results: list[ByNumber] = []
    last: Minimum | None = None
    for m in sorted({own, *(m for m in (SET_DRAWS if setup.is_set else DRAWS) if least <= m <= most)}, reverse=True):
        variant = row_setup if m == own else row_setup.draws(m, rows.number)
        if setup.is_set:  # what it holds changes with m
            law = truth if m == own else truth.by(variant)
            place, kl = law.merged(2 * SET_BINS), first.kl
            if m != own:
                kl = divergence_of_set(law, variant, *COARSE)
            group = np.zeros(int(place.max()) + 1, dtype=np.int64)
            group[place] = law.cells.group
        else:
            law, last = truth, minimum(truth, variant, *COARSE, last)
            kl, place, group = last.kl, last.place, last.group
        problem = law.binned(variant, place, exact=True)[0]
        true_state = state(problem, np.log(problem.p))
        bias = math.sqrt(float((true_state.gradient() ** 2 / problem.count).sum()))
        at_truth, full = moments(true_state, group), -float((problem.count * problem.p) @ np.log(problem.p))
        loss, deviation, noise = at_truth.loss - full, at_truth.deviation, at_truth.noise
        results.append(ByNumber(m, first.kl if m == own else kl, loss, deviation, bias, noise))
    return tuple(reversed(results))


def one_per_cent(truth: Truth, rows: Rows, setup: Setup) -> tuple[float, int | None]:
    """The full cross entropy at the truth, and the draws from which importance weights come within 1 % of it."""
    variant = replace(setup, weights="importance", hits="mask", table=None)
    if setup.is_set:
        return _set_one_per_cent(truth, rows, variant)
    place = truth.merged(320)
    problem, _, prior = truth.binned(variant, place)
    entropy = float(-(problem.count * problem.p) @ np.log(problem.p))

    def missing(m: int) -> float:
        many = replace(variant, m=variant.m * (m / variant.negatives))
        log_q = np.log(many.m @ problem.q / many.negatives)
        a, b = log_weights(many, log_q, log_q, prior)
        risk = state(replace(problem, m=many.m, log_a=a, log_b=b), np.log(problem.p)).risk
        return abs(risk - entropy) / entropy

    return entropy, least_number(missing, MOST_DRAWS) if entropy > 0 else 1  # of one class nothing is missing


def _set_one_per_cent(truth: Truth, rows: Rows, setup: Setup) -> tuple[float, int | None]:
    """The same for a set: draws of a union, or ids that differ, by the sets' true law on few bins."""
    part = truth.p > 0
    entropy = float(-(truth.number * truth.p)[part] @ np.log(truth.p[part]))
    place = truth.merged(4 * SET_BINS)

    def missing(m: int) -> float:
        problem = truth.binned(replace(setup, asked=m), place, exact=True)[0]
        own = float(-(problem.count * problem.p) @ np.log(problem.p))  # of the bins, whose loss it is
        return abs(state(problem, np.log(problem.p)).risk - own) / entropy

    assert setup.law is not None
    most = MOST_DRAWS if setup.kind == "union" else int(rows.number[setup.law > 0].sum()) - 1
    return entropy, least_number(missing, min(most, MOST_SET_DRAWS)) if entropy > 0 else 1


def least_number(missing: Callable[[int], float], most: int) -> int | None:
    """The least number of negatives with which at most 1 % is missing, or at most one in a hundred more.

    What is missing falls nearly like a power of the number: secants of its logarithm over that of the number find it in
    a few steps, from below, since a large set's law costs most. The number that is returned has been looked at.

    Args:
        missing: relative error of the mean loss with so many negatives.
        most: None is returned if that many are too few.
    """

    @cache
    def at(m: int) -> float:
        return math.log(max(missing(m), 1e-300) / 0.01)

    def over(log_m: float) -> float:
        return at(round(2**log_m))

    low, end, step = 0.0, math.log2(most), 3.0
    if at(1) <= 0:
        return 1
    while True:
        high = min(low + step, end)
        if over(high) <= 0:
            break
        if high == end:
            return None
        slope = (over(low) - over(high)) / (high - low)
        step = min(6.0, max(1.0, 1.1 * over(high) / slope)) if slope > 0 else 6.0
        low = high
    number, enough = math.ceil(2 ** optimize.brentq(over, low, high, xtol=0.01)), round(2**high)
    while at(number) > 0:
        number = min(enough, number + max(1, number // 200))
    return number
