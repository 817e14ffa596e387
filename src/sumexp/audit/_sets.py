r"""Sets of negatives of a fixed law, exactly: the union of m draws, and drawing until m ids are distinct.

Neither is made of independent coins, but both are coins under an integral. With :math:`a = 1-e^{-q\tau}`,
:math:`b = e^{-q\tau}` and :math:`g_j = e^{-sz_j}`, the Laplace transform of the sum over the set is

.. math::
    \text{union:}\quad \mathbb E e^{-sZ} &= m!\,[\tau^m]\; e^\tau\prod_j(a_jg_j+b_j), \\
    \text{distinct:}\quad \mathbb E e^{-sZ} &= \int_0^\infty [u^m]\,\prod_j P_j\,\sum_k\frac{q_kb_k}{P_k}\,d\tau,
    \qquad P = uag+b,

the second with :math:`\tau` the time at which the next class arrives (`sumexp.samplers.distinct`). Coefficients are
trapezoid sums on a circle through the saddle point, which end where a bound on the integrand is below 10^-8; the
integral over :math:`\log\tau` is one over the times that have all but 10^-10 of the probability, since every
:math:`g\le1`. A label that is left out has g = 1; one that takes no part in the race has no factor at all.

Source: Rosén (1972) for successive sampling; `sumexp.negatives.race` visits all sets of few classes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import gammaln

from sumexp.audit import _tries as tries
from sumexp.audit._terms import DIGITS, FAINT, Terms, expit, exponentials, log_product, softplus, tail, take

Floats = NDArray[np.float64]

VALUES = 2048
"""Different probabilities up to which each is taken as it is; beyond them they are merged, and the result smoothed."""


RADII = 100
"""Entries of a table of the radii of circles."""

PART = 1 << 18
"""Numbers of the tables that are made at once: few enough to stay near the processor."""


@dataclass(frozen=True)
class Fixed:
    """The law of a set, over K bins of classes.

    Attributes:
        kind: the union of m draws, or the first m distinct ids.
        m: draws, or ids.
        law: [K] probability of one draw of a member.
        count: [K] members.
        idle: [D] the same of classes that are drawn and have no score.
        idle_count: [D] their number.
        arrival: whether the label takes no part, and weights are :math:`(1-e^{-q_yT})/(1-e^{-q_jT})`.
        tries: whether weights are :math:`(1-(1-q_y)^N)/(1-(1-q_j)^N)`, with N the number of draws that it took.
    """

    kind: Literal["union", "distinct"]
    m: int
    law: Floats
    count: Floats
    idle: Floats
    idle_count: Floats
    arrival: bool = False
    tries: bool = False

    @cached_property
    def numbers(self) -> tuple[NDArray[np.int64], Floats]:
        """Numbers of tries that stand for all, and how many each stands for."""
        law, count = np.append(self.law, self.idle), np.append(self.count, self.idle_count)
        return tries.numbers(law, count, self.m)

    @cached_property
    def log_coin(self) -> Floats:
        """[K, nodes] logarithms of what weights know of a class, or 0, less the largest at each node."""
        if self.arrival:
            coin = np.log(-np.expm1(-self.law[:, None] * self.times[0]))
        elif self.tries:
            coin = tries.log_coin(self.law[:, None], self.numbers[0], self.m)
        else:
            return np.zeros((len(self.law), 1))
        return np.asarray(coin - coin.max(0))

    @cached_property
    def exposures(self) -> tuple[Floats, ...]:
        """Draws of each class until each time, in the mean, and the log odds that there is one; [K, times] and idle."""
        seen, idle = (_exposure(law[:, None], self.times[0]) for law in (self.law, self.idle))
        return seen, idle, _log_odds(seen), _log_odds(idle)

    @property
    def nodes(self) -> int:
        """How many times, or numbers of tries, there are."""
        return len(self.numbers[0] if self.tries else self.times[0])

    @property
    def angles(self) -> int:
        """About how many terms there are for one of them."""
        return 64 if self.tries else 8

    @cached_property
    def times(self) -> tuple[Floats, float]:
        r"""Nodes :math:`\tau` of the next arrival and their distance in :math:`\log\tau`; one node for a union."""
        if self.kind == "union":
            return np.ones(1), 1.0
        law, count = np.append(self.law, self.idle), np.append(self.count, self.idle_count)
        return arrivals(law, count, self.m, self.arrival)


def arrivals(law: Floats, count: Floats, m: int, later: bool = False) -> tuple[Floats, float]:
    """Times at which the next class arrives after m, all but 10^-10 of them, and their distance in the logarithm.

    Args:
        law: [V] probabilities of one draw, positive.
        count: [V] how many classes have each.
        m: ids, fewer than there are classes.
        later: whether a class may be left out of the race, so that it is the arrival after m + 1 that may count.
    """
    most = round(float(count.sum()))
    low, high = -35.0, min(690.0, math.log(m + 10 * math.sqrt(m) + 60) - math.log(law.min()))
    for _ in range(2):  # a second, finer table where the density is
        coarse = np.linspace(low, high, 150)
        ends = []
        for number in (m, m + 1) if later and m + 1 < most else (m,):
            seen = _exposure(law[:, None], np.exp(coarse))
            log_odds = _log_odds(seen)
            x = _level(log_odds, count, number)
            tilt = x + log_odds
            size = count @ (softplus(tilt) - seen) - number * x + coarse
            size += np.log(np.maximum((count * law) @ expit(-tilt), 1e-300))
            inside = coarse[size > size.max() - DIGITS - 5]
            ends += [inside[0], inside[-1]]
        low, high = min(ends) - (coarse[1] - coarse[0]), max(ends) + (coarse[1] - coarse[0])
    step = min(0.4, 0.95 / math.sqrt(m + 1))  # at an angle x the integrand grows like e^{m x^2 / 2}
    return np.exp(np.arange(low, high + step, step)), step


def inclusion(q: Floats, m: int, number: Floats | None = None) -> Floats:
    r"""The probability that a class is among the first m distinct ids, for millions of classes, [classes].

    Where q has more than :data:`VALUES` different values they are merged within some thousandths of a nat, and the
    probability, a smooth function of log q, is interpolated: a relative error of the square of that.

    Args:
        q: [classes] law of one draw; a class that is never drawn is never among them.
        m: ids, fewer than there are classes with q > 0.
        number: [classes] how many classes each entry stands for; one if not given.
    """
    probability = np.zeros_like(q)
    drawn = q > 0
    members = np.ones(int(drawn.sum())) if number is None else number[drawn]
    values, count, each = merged(q[drawn], members)
    chance = _inclusion(values, count, m)
    if np.array_equal(values[each], q[drawn]):
        probability[drawn] = chance[each]
    else:
        smooth = CubicSpline(np.log(values), np.log(np.maximum(chance, 1e-300)))
        probability[drawn] = np.exp(smooth(np.log(q[drawn])))
    return np.minimum(probability, 1.0)


def held(kind: Literal["union", "distinct"], q: Floats, m: int, number: Floats) -> Floats:
    """The probability that a set holds a class, [classes]; arguments as for :func:`inclusion`."""
    if kind == "distinct":
        return inclusion(q, m, number)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(m * np.log1p(-np.minimum(q, 1.0))))


def merged(q: Floats, number: Floats, most: int = VALUES) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Different positive values in rising order, how many classes have each, and the place of each class in them."""
    some = q[:: max(1, len(q) // (4 * most))]
    if len(np.unique(some)) <= most:  # else there are too many, and no need to sort all of them
        values, each = np.unique(q, return_inverse=True)
        if len(values) <= most:
            return values, np.asarray(np.bincount(each, weights=number), dtype=np.float64), each.astype(np.int64)
    log_q = np.log(q)
    cell = np.minimum(((log_q - log_q.min()) / (np.ptp(log_q) / (most - 1))).astype(np.int64), most - 1)
    place = (np.cumsum(np.bincount(cell) > 0) - 1)[cell]
    members = np.asarray(np.bincount(place, weights=number), dtype=np.float64)
    return np.bincount(place, weights=number * q) / members, members, place.astype(np.int64)


def _inclusion(values: Floats, count: Floats, m: int) -> Floats:
    law = Fixed("distinct", m, values, count, np.zeros(0), np.zeros(0))
    times, step = law.times
    total = np.zeros_like(values)
    for time, x in zip(times, _level(_log_odds(_exposure(values[:, None], times)), count, m), strict=True):
        seen = _exposure(values, time)
        log_odds = _log_odds(seen)[:, None]
        h = expit(x + log_odds)
        size = float(count @ (softplus(x + log_odds[:, 0]) - seen)) - m * x
        variance = float(count @ (h * (1 - h))[:, 0])
        angle, weight = _angles(variance, variance)
        z = np.exp(1j * angle)
        factor = 1 - h + h * z
        value = np.exp(log_product(count, factor) - 1j * m * angle + size) * (weight * step * time)
        rate = values[:, None] * (1 - h) / factor
        total += ((h * z / factor) * (count @ rate - rate) @ value).real
    return total


def transform(law: Fixed, s: Floats, keep: bool, digits: float = DIGITS) -> list[Terms]:
    r"""The terms of :math:`\mathbb E_ye^{-sZ}` for every label y; none of them is without a term.

    Args:
        law: of the set.
        s: [K, columns] :math:`sz` of each class, for all the law's times one after another, and again for the next s.
        keep: whether a label counts as a negative.
        digits: nats below the largest term from which on terms are dropped.
    """
    if law.kind == "union":
        some = max(1, PART // (len(s) * RADII))
        parts = np.split(np.arange(s.shape[1]), range(some, s.shape[1], some))
        return [terms for part in parts for terms in _union(law, s, part, keep, digits)]
    if law.tries:
        return tries.terms(law.law, law.count, law.idle, law.idle_count, law.m, law.numbers, s, keep, digits)
    # without the label m others come: m of all where it would be late, m + 1 where it would be among them
    levels = (law.m, law.m + 1) if law.arrival else (law.m,)
    return [terms for level in levels for terms in _distinct(law, s, keep, level, digits)]


def _distinct(law: Fixed, s: Floats, keep: bool, level: int, digits: float) -> Iterator[Terms]:
    """The terms on circles on which ``level`` classes come up in the mean; of labels out of the race those it suits."""
    times, step = law.times
    repeats = s.shape[1] // len(times)
    q, n, m = law.law[:, None], law.count, law.m
    faint = np.minimum(s, FAINT)
    time = np.tile(times, repeats)
    seen_law, seen_idle, log_odds, idle = (np.tile(each, repeats) for each in law.exposures)
    odds, number = np.concatenate([log_odds - faint, idle]), np.append(n, law.idle_count)
    x = _level(odds, number, level)
    tilt, idle_tilt = x + log_odds - faint, x + idle
    rest = softplus(tilt) - seen_law  # log P at angle 0
    size = n @ rest - m * x + law.idle_count @ (softplus(idle_tilt) - seen_idle)
    if law.arrival:
        late = (x if level == m else _level(odds, number, m)) + log_odds - faint < 0
        log_ratio = np.where(late == (level == m), -rest, -np.inf)
    else:
        log_ratio = np.zeros_like(rest) if keep else softplus(tilt + faint) - softplus(tilt)
    h, idle_h = expit(tilt), expit(idle_tilt)
    variance = n @ (h * (1 - h)) + law.idle_count @ (idle_h * (1 - idle_h))
    # columns of nearly one variance share their angles
    alike = np.ceil(3 * np.log(np.maximum(variance, 1.0)))
    alike[size + log_ratio.max(0) + np.log(time) <= -digits - 5] = -1
    seen = np.where(s < FAINT, s, 0.0)
    for which in np.unique(alike[alike >= 0]):
        members = np.flatnonzero(alike == which)
        angle, weight = _angles(variance[members].min(), variance[members].max(), digits)
        z = np.exp(1j * angle)
        # [K, columns, angles]
        heads, idle_heads = take(h, members)[:, :, None], take(idle_h, members)[:, :, None]
        factor = 1 + heads * (z - 1)
        inverse = 1 / factor
        log_value = log_product(n, factor)
        own = q[:, :, None] * (1 - heads) * inverse
        rate = np.tensordot(n, own, 1)
        if len(law.idle):
            idle_factor = 1 + idle_heads * (z - 1)
            log_value = log_value + log_product(law.idle_count, idle_factor)
            rate = rate + np.tensordot(law.idle_count * law.idle, (1 - idle_heads) / idle_factor, 1)
        value = np.exp(log_value + size[members, None] - 1j * m * angle) * (weight * step * time[members, None])
        ratio = np.exp(take(log_ratio, members)[:, :, None])
        if law.arrival:
            part, rates = ratio * value * inverse, rate - own
        elif keep:
            part, rates = np.broadcast_to(value, own.shape), rate[None]
        else:
            full = expit(take(tilt, members) + take(faint, members))[:, :, None]  # of the label, with g = 1
            own_factor = 1 + full * (z - 1)
            part, rates = ratio * value * own_factor * inverse, rate - own + q[:, :, None] * (1 - full) / own_factor
        pull = take(h * seen, members)[:, :, None] * (z * inverse)
        flat = (len(n), -1)
        yield Terms(
            np.repeat(members, len(angle)), part.reshape(flat), rates.reshape(len(rates), -1), own.reshape(flat),
            pull.reshape(flat), np.repeat(take(seen, members), len(angle), axis=1),
        )  # fmt: skip


def _union(law: Fixed, columns: Floats, which: NDArray[np.int64], keep: bool, digits: float) -> Iterator[Terms]:
    """The terms of some columns of s."""
    q, n, m, s = law.law[:, None], law.count, law.m, take(columns, which)
    faint = np.minimum(s, FAINT)
    g, odds = np.exp(-faint), -faint - np.log(np.maximum(-np.expm1(-s), 1e-300))  # log g / (1 - g)
    idle = max(0.0, 1 - float(n @ law.law))
    seen, unit = np.where(s < FAINT, s, 0.0), np.ones((1, 1), dtype=np.complex128)

    # a label that counts for nothing can take many draws, and then its saddle point is far from the others'
    own = _radii(q, n, odds, idle, m, keep)
    left = np.ones(s.shape, dtype=bool)
    while (pending := np.flatnonzero(left.any(0))).size:
        log_t = np.where(left, own, np.inf).min(0)[pending]
        variance = _variance(np.exp(log_t), n, q, take(odds, pending), idle)
        covered = take(left, pending) & (take(own, pending) <= log_t + np.minimum(0.5, 2 / np.sqrt(variance)))
        left[:, pending] &= ~covered
        log_t = np.where(covered, take(own, pending), 0.0).sum(0) / covered.sum(0)
        log_p = np.log(take(g, pending) + (1 - take(g, pending)) * np.exp(-q * np.exp(log_t)))  # P at angle 0
        size = n @ log_p + np.exp(log_t) + gammaln(m + 1) - m * log_t
        most = size + (0.0 if keep else np.where(covered, -log_p, -np.inf).max(0))
        large = np.flatnonzero(most >= -digits - 5)
        pending, covered, log_t = pending[large], take(covered, large), log_t[large]
        if not len(pending):
            continue
        place, angle, weight = _circles(np.exp(log_t), n, q, take(odds, pending), idle, digits)
        column, t = pending[place], np.exp(log_t)[place]
        x = t * np.exp(1j * angle)
        whole, less = exponentials(-q * x)
        factor = take(g, column) + (1 - take(g, column)) * whole
        scaled = factor / take(np.exp(take(log_p, large)), place)
        log_value = log_product(n, scaled) + x - t + size[large][place] - 1j * m * angle
        value, inverse = np.exp(log_value) * weight, 1 / factor
        part = np.broadcast_to(value, factor.shape) if keep else value * inverse
        pull = -less * inverse * take(g * seen, column)
        yield Terms(which[column], part * take(covered, place), unit, None, pull, take(seen, column))


def _variance(t: Floats, n: Floats, q: Floats, odds: Floats, idle: float) -> Floats:
    """Of the number of draws on circles of the radii t, [J]."""
    heads, draws = expit(q * t + odds), q * t
    return np.asarray(n @ (heads * draws * (1 + (1 - heads) * draws)) + idle * t)


def _radii(q: Floats, n: Floats, odds: Floats, idle: float, m: int, keep: bool) -> Floats:
    """[K, J] logarithms of the radii at which m draws are expected, for each label, by tables of the radii."""
    size, columns = odds.shape
    against = np.exp(-odds)[:, :, None]
    ends = math.log(m) - 0.01, math.log((2 * FAINT + 2 * m) / float(q.max()))
    log_t = np.linspace(*ends, RADII)[None]
    for _ in range(2):  # a second, finer table where the labels' radii lie
        t = np.exp(log_t)
        x = q[:, :, None] * t
        chance = x / (1 + against * np.exp(-x))
        each = (np.tensordot(n, chance, 1) + idle * t)[None]  # [K, J, radii]
        if not keep:
            each = each + (x - chance)
        place = np.clip((each < m).sum(-1), 1, RADII - 1)
        low, high = (np.take_along_axis(each, (place - k)[:, :, None], -1)[:, :, 0] for k in (1, 0))
        share = np.clip((m - low) / np.maximum(high - low, 1e-300), 0, 1)
        log_t, column = np.broadcast_to(log_t, (columns, RADII)), np.arange(columns)
        radius = log_t[column, place - 1] + share * (log_t[column, place] - log_t[column, place - 1])
        ends = log_t[column, place.min(0) - 1], log_t[column, place.max(0)]
        log_t = np.linspace(*ends, RADII, axis=-1)
    return np.asarray(np.broadcast_to(radius, (size, columns)))


def _circles(
    t: Floats, n: Floats, q: Floats, odds: Floats, idle: float, digits: float
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Half circles of radii t for a union, up to the angles where 1 - g + g e^{q Re x}, a bound on P, is small.

    Returns:
        the circle of each point, its angle, and its weight.
    """
    tilt = odds + q * t
    half = np.ceil(1.3 * tail(_variance(t, n, q, odds, idle), digits) / 2 + 4).astype(np.int64)
    place = np.repeat(np.arange(len(t)), half)
    angle = (np.arange(len(place)) - (np.cumsum(half) - half)[place] + 0.5) * (math.pi / half)[place]
    less = t[place] * (1 - np.cos(angle))
    loss = (n @ softplus(tilt))[place] - n @ softplus(take(tilt, place) - q * less) + idle * less
    inside = loss < digits
    return place[inside], angle[inside], (1 / half)[place][inside]


def _angles(least: float, most: float, digits: float = DIGITS) -> tuple[Floats, float]:
    """Half a circle for sums of coins of such variances, without the angles where all are below e^-digits; a weight."""
    points = 2 * math.ceil(tail(most, digits) / 2 + 1)
    angle = (np.arange(points // 2) + 0.5) * (2 * math.pi / points)
    return angle[least * (1 - np.cos(angle)) < digits], 2 / points


def _level(log_odds: Floats, count: Floats, m: int) -> Floats:
    """[J] the shift x with which coins of the log odds, [V, J], come up m times in the mean, to 1/20 of a deviation.

    Newton's steps in the logarithm of the mean, which begin where the odds alone would come up so often; a step that
    leaves the interval known to hold the root halves it instead.
    """
    low, high = -log_odds.max(0) - 50, -log_odds.min(0) + 50
    x = np.clip(math.log(m) - np.log(count @ np.exp(log_odds - log_odds.max(0))) - log_odds.max(0), low, high)
    for _ in range(200):
        chance = expit(x + log_odds)
        mean = count @ chance
        slope = count @ (chance * (1 - chance))
        if not (np.abs(mean - m) > np.maximum(2e-3, 0.05 * np.sqrt(slope))).any():
            break
        low, high = np.where(mean < m, x, low), np.where(mean < m, high, x)
        new = x + np.log(m / mean) * mean / np.maximum(slope, 1e-300)
        x = np.where((new > low) & (new < high), new, (low + high) / 2)
    return np.asarray(x)


def _exposure(q: Floats, time: Floats) -> Floats:
    """q times the time, within what floats can tell from never and always."""
    return np.asarray(np.clip(q * time, 1e-300, 600.0))


def _log_odds(x: Floats) -> Floats:
    r""":math:`\log(e^x-1)`."""
    return np.asarray(x + np.log(-np.expm1(-x)))
