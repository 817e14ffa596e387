r"""Distinct ids corrected by the number of tries, exactly: log of :math:`1-(1-q)^N`, as TensorFlow does it.

Draw from q until m ids differ; N is the number of draws that it took. With :math:`g_j = e^{-sz_j}` and
:math:`P_j = 1+w\,g_jq_jE(q_j\tau)`, :math:`E(v) = (e^v-1)/v`,

.. math:: \mathbb E\big[e^{-sZ};\,N=n\big] = (n-1)!\;[w^{m-1}\tau^{n-m}]\;\prod_jP_j\,\sum_k\frac{q_kg_k}{P_k},

where k is the class of the last draw: the exponential generating functions of how often each of the others came, once
or more, in n - 1 draws. Both coefficients are trapezoid sums on circles through the saddle point. Of the numbers n
enough are taken for the sum over all. Where N = m the library takes :math:`mq` for the coin.

Source: ``ExpectedCountHelper`` in TensorFlow's ``range_sampler.cc``; `sumexp.negatives.race.tries_law` visits all sets.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import gammaln

from sumexp.audit._terms import (
    DIGITS,
    FAINT,
    Complexes,
    Floats,
    Terms,
    by_time,
    expit,
    log_product,
    softplus,
    tail,
    take,
)

Integers = NDArray[np.int64]

FEW = 1e-9
"""Error of the sums over numbers of tries, of what they add up, with which some stand for all."""

FAR = 2.0
"""Squared distance, in deviations, from the common saddle point at which a label gets one of its own."""


def log_coin(q: Floats, tries: Integers, m: int) -> Floats:
    """log of 1 - (1 - q)^N, and of mq for N = m; arrays that fit one another."""
    with np.errstate(divide="ignore"):
        coin = np.log(-np.expm1(tries * np.log1p(-np.minimum(q, 1.0))))
    return np.asarray(np.where(tries == m, np.log(m * q), coin))


def numbers(q: Floats, count: Floats, m: int) -> tuple[Integers, Floats]:
    """Numbers of tries that stand for all but 10^-9 of the law, and how many each stands for.

    Where the law falls to nothing on both sides, they are every so many, some fractions of its deviation apart; where
    it begins at m, blocks of numbers with some of each that are exact for polynomials.

    Args:
        q: [V] law of one draw, positive.
        count: [V] how many classes have each.
        m: ids, at least two and fewer than there are classes.
    """

    def size(tries: Integers) -> Floats:
        """Logarithm of the saddle point's value of the probability."""
        at = _Saddle(np.log(q)[:, None], q, count, m, tries)
        rate = (count * q) @ np.exp(-at.rest)
        return np.asarray(at.size + np.log(rate) - np.log(2 * math.pi) - 0.5 * np.log(at.spread))

    low, length = m, 32
    while True:  # as long as the law is not yet nothing at the end
        log_p = size(m + np.array([0, length // 4, length // 2, 3 * length // 4, length]))
        if log_p[-1] < log_p.max() - DIGITS - 3 or length > 1 << 40:
            break
        length *= 2
    high = m + length
    for _ in range(3):
        grid = np.unique(np.concatenate([low + np.round(np.geomspace(1, high - low + 1, 60)).astype(np.int64) - 1,
                                         np.linspace(low, high, 60).astype(np.int64)]))  # fmt: skip
        log_p = size(grid)
        inside = np.flatnonzero(log_p > log_p.max() - DIGITS - 3)
        low, high = int(grid[max(inside[0] - 1, 0)]), int(grid[min(inside[-1] + 1, len(grid) - 1)])
    if high - low < 40:
        chosen = np.arange(low, high + 1), np.ones(high - low + 1)
    elif low > m:
        chance = np.exp(size(grid) - log_p.max())
        mass = np.gradient(grid.astype(float)) * chance
        mean = mass @ grid / mass.sum()
        step = max(1, int(0.7 * math.sqrt(mass @ (grid - mean) ** 2 / mass.sum())))
        every = np.arange(low, high + step, step)
        chosen = every, np.full(len(every), float(step))
    else:
        chosen = _blocks(m, high)
    return _fewer(chosen, q, count, m)


def _fewer(chosen: tuple[Integers, Floats], q: Floats, count: Floats, m: int) -> tuple[Integers, Floats]:
    """Some of the numbers, with weights that are exact for polynomials in log N under its law.

    As many as the coins of all classes need, and what a negative adds to a loss; N = m stays, whose coin is another.
    """
    tries, weight = chosen
    none = np.zeros((len(q), len(tries)))
    law = terms(q, count, np.zeros(0), np.zeros(0), m, (tries, np.ones_like(weight)), none, True, DIGITS)
    chance = by_time(law, none.shape)[0]
    part = np.flatnonzero((tries > m) & (chance * weight > FEW * chance.max()))
    if len(part) < 12:
        return chosen
    mass = np.sqrt(weight[part] * chance[part])
    x = np.log(tries[part])
    coin = log_coin(q[:, None], tries[part], m)
    needed = np.concatenate([coin, np.log1p(np.exp(coin.mean(1, keepdims=True) - coin))])
    for points in range(4, len(part) // 2):
        basis = np.polynomial.legendre.legvander(2 * (x - x[0]) / (x[-1] - x[0]) - 1, points - 1)
        basis = np.linalg.qr(basis * mass[:, None])[0]
        some = np.sort(linalg.qr(basis.T, mode="r", pivoting=True)[1][:points])
        share = np.linalg.solve(basis[some].T, basis.T @ mass) * mass[some]
        if np.abs(needed[:, some] @ share - needed @ mass**2).max() < FEW:
            kept = np.flatnonzero(tries <= m)
            return (
                np.append(tries[kept], tries[part[some]]),
                np.append(weight[kept], share / chance[part[some]]),
            )
    return chosen


def _blocks(low: int, high: int, points: int = 10) -> tuple[Integers, Floats]:
    """Whole numbers from low to high in blocks that grow to a tenth of all, with weights for sums over each."""
    most, start, length = max(points, (high - low) // 10), low, points
    places, weights = [], []
    while start <= high:
        block = np.arange(start, min(start + length, high + 1))
        if len(block) <= points:
            places.append(block)
            weights.append(np.ones(len(block)))
        else:
            nodes = (1 - np.cos((np.arange(points) + 0.5) * math.pi / points)) / 2
            some = np.unique(np.round(nodes * (len(block) - 1)).astype(np.int64))
            x = np.linspace(-1, 1, len(block))
            basis = np.polynomial.legendre.legvander(x, len(some) - 1)
            places.append(block[some])
            weights.append(np.linalg.solve(basis[some].T, basis.sum(0)))
        start, length = start + len(block), min(most, int(1.6 * length))
    return np.concatenate(places), np.concatenate(weights)


class _Saddle:
    """Where the two circles go, for each number of tries: logarithms of their radii, and what the sums need there.

    Attributes:
        tau: [T] radius of the second circle, 0 where there are no repetitions.
        heads: [V, T] the share of each class's factor that has it drawn.
        rest: [V, T] logarithm of its factor P on the radii.
        v: [V, T] q tau.
        more: [V, T] repetitions of a class, in the mean, where it is drawn.
        cov: [3, T] variances of the number of classes and of repetitions, between them the covariance.
        fall: [3, T] the same, without what heavy classes add by being drawn or not: their phases come round again.
        size: [T] logarithm of the integrand without the rates.
    """

    def __init__(self, log_g: Floats, q: Floats, count: Floats, m: int, tries: Integers) -> None:
        """log_g [V, 1] or [V, T]: log of q g."""
        self.repeats = (tries - m).astype(float)
        again = self.repeats > 0
        log_g = np.broadcast_to(log_g, (len(q), len(tries)))
        x = math.log(m) - np.log(count @ np.exp(log_g - log_g.max(0))) - log_g.max(0)
        heads = expit(x + log_g)
        log_tau = np.log(np.maximum(2 * self.repeats / ((count * q) @ heads), 1e-300))
        step, value = np.ones(len(tries)), np.full(len(tries), np.inf)
        dx, dl, left = np.zeros(len(tries)), np.zeros(len(tries)), np.full(len(tries), np.inf)
        for _ in range(200):
            new_x, new_l = x + step * dx, log_tau + np.log1p(step * dl)
            v = q[:, None] * np.where(again, np.exp(np.minimum(new_l, 690.0)), 0.0)
            log_e, more, slope = _repetitions(v)
            tilt = new_x + log_g + log_e
            trial = count @ softplus(tilt) - (m - 1) * new_x - np.where(again, self.repeats * new_l, 0.0)
            worse = trial > value + 1e-9 * (1 + np.abs(value))
            if not worse.any() and left.max() < 1e-3:
                break
            heads = expit(tilt)
            vary = heads * expit(-tilt)
            a, b, c = count @ vary, count @ (vary * more), count @ (vary * more**2 + heads * slope)
            g1, g2 = count @ heads - (m - 1), np.where(again, count @ (heads * more) - self.repeats, 0.0)
            true_a = a
            a, c, b = (
                np.maximum(np.maximum(a, np.abs(g1) / 20), 1e-9),
                np.where(again, np.maximum(c, 1e-9), 1.0),
                np.where(again, b, 0.0),
            )
            # steps in tau and not in its logarithm: where a class takes nearly all draws, log E is q tau
            full = np.where(again, np.maximum(c - g2, 1e-9), 1.0)
            det = np.maximum(a * full - b * b, 1e-12 * a * full)
            to_x, to_l = (-full * g1 + b * g2) / det, (b * g1 - a * g2) / det
            size = np.maximum(np.abs(to_x) / 300, np.maximum(-to_l / 0.9, to_l / 9))
            cap = np.minimum(1, 1 / np.maximum(size, 1e-300))
            left = np.where(worse, left, np.abs(g1 * to_x + g2 * to_l))
            x, log_tau, value = (
                np.where(worse, x, new_x),
                np.where(worse, log_tau, new_l),
                np.where(worse, value, trial),
            )
            step = np.where(worse, step / 4, 1.0)
            dx, dl = np.where(worse, dx, to_x * cap), np.where(worse, dl, to_l * cap)
            dx, dl = np.where(left < 1e-3, 0.0, dx), np.where(left < 1e-3, 0.0, dl)
        x, log_tau, value, rest, heads = new_x, new_l, trial, softplus(tilt), expit(tilt)
        vary = heads * expit(-tilt)
        self.tau = np.where(again, np.exp(np.minimum(log_tau, 690.0)), 0.0)
        self.heads, self.rest, self.v, self.more, self.cov = heads, rest, v, more, np.stack([true_a, b, c])
        light = vary * (more < 1)
        within = count @ (heads * slope)
        self.fall = np.stack([count @ light, count @ (light * more), count @ (light * more**2) + within])
        self.spread = np.maximum(a * c - b * b, 1e-12 * a * c) * np.where(again, 1.0, 1 / (2 * math.pi))
        self.size = value + gammaln(tries)
        self.x, self.log_e = x, log_e


def _repetitions(v: Floats) -> tuple[Floats, Floats, Floats]:
    """log E(v), its derivative in log v, the mean of repetitions of a drawn class, and its derivative in log v."""
    small = np.maximum(v, 1e-4)
    least = -np.expm1(-small)
    log_e = np.where(v < 1e-4, v / 2, small + np.log(least) - np.log(small))
    more = np.where(v < 1e-4, v / 2, small / least - 1)
    slope = np.where(v < 1e-4, v / 2, small * (least - small * np.exp(-small)) / least**2)
    return log_e, more, slope


def terms(
    law: Floats, count: Floats, idle: Floats, idle_count: Floats, m: int, numbers: tuple[Integers, Floats],
    s: Floats, keep: bool, digits: float,
) -> list[Terms]:  # fmt: skip
    """The terms of the transform for every label; arguments as of `sumexp.audit._sets.transform`.

    A label that is left out has g = 1. Most hardly move the saddle point and share the circles of all, where their
    factors take the place of their own; those that then take many draws have circles of their own.
    """
    size, shape = len(law), s.shape
    repeats = shape[1] // len(numbers[0])
    tries, weight = np.tile(numbers[0], repeats), np.tile(numbers[1], repeats)
    q, number = np.append(law, idle), np.append(count, idle_count)
    log_q = np.broadcast_to(np.log(q)[:, None], (len(q), len(tries)))
    faint = np.concatenate([np.minimum(s, FAINT), np.zeros((len(idle), len(tries)))])
    log_g = log_q - faint
    all_of_them = _Saddle(log_g, q, number, m, tries)
    seen = np.where(s < FAINT, s, 0.0)
    log_odds = all_of_them.x + log_q[:size] + all_of_them.log_e[:size]  # of labels, g = 1
    far = np.zeros(shape, dtype=bool)
    if not keep:
        more = expit(log_odds) - all_of_them.heads[:size]
        a, b, c = all_of_them.cov
        k = all_of_them.more[:size]
        far = more**2 * (c - 2 * b * k + a * k**2) / np.maximum(a * c - b * b, 1e-12 * a * c) > FAR
    parts = [_on_circles(all_of_them, log_g, q, number, size, np.arange(len(tries)), weight, seen, digits, m, keep,
                         None, ~far, log_odds)]  # fmt: skip
    for y in np.flatnonzero(far.any(1)):
        outlying = np.flatnonzero(far[y])
        q_y, number_y = np.append(q, q[y]), np.append(number, 1.0)
        number_y[y] -= 1
        log_g_y = np.concatenate([log_g[:, outlying], log_q[[y]][:, outlying]])
        saddle = _Saddle(log_g_y, q_y, number_y, m, tries[outlying])
        parts.append(_on_circles(saddle, log_g_y, q_y, number_y, size, outlying, weight[outlying], seen[:, outlying],
                                 digits, m, keep, int(y), far[:, outlying], log_odds[:, outlying]))  # fmt: skip
    return [each for each in parts if each is not None]


def _on_circles(
    at: _Saddle, log_g: Floats, q: Floats, number: Floats, size: int, places: Integers, weight: Floats, seen: Floats,
    digits: float, m: int, keep: bool, label: int | None, rows: NDArray[np.bool_], log_odds: Floats,
) -> Terms | None:  # fmt: skip
    """The terms on the circles of a saddle point: for the ``rows`` [size, T] that share it, or for one ``label``."""
    log_ratio = np.zeros(log_odds.shape)
    if label is None and not keep:
        log_ratio = np.where(rows, softplus(log_odds) - at.rest[:size], -np.inf)
    large = np.flatnonzero(at.size + log_ratio.max(0) + np.log(np.abs(weight)) > -digits - 5)
    if not len(large):
        return None
    place, turn, second_of, twice, angle, share = _grid(at.cov[:, large], at.fall[:, large], at.repeats[large], digits)
    place, twice = large[place], large[twice]
    z, y = np.exp(1j * turn), np.exp(1j * angle)  # of the second circle many terms share a point
    up = z * take(_ratio(take(at.v, twice), y), second_of)
    heads = take(at.heads, place)
    comes = heads * up
    factor = 1 - heads + comes
    log_value = log_product(number, factor) + at.size[place] - 1j * (m - 1) * turn
    log_value -= 1j * at.repeats[place] * angle[second_of]
    value: Complexes = np.exp(log_value) * (share * weight[place])
    inverse = 1 / factor
    own = take(np.exp(log_g - at.rest), place) * inverse
    rate = (number @ own)[None]
    if label is not None:
        part = np.zeros((size, len(place)), dtype=np.complex128)
        part[label] = value
    elif keep:
        part = np.broadcast_to(value, (size, len(place)))
    else:
        full = take(expit(log_odds), place)
        label_factor = 1 - full + full * up[:size]
        part = value * take(np.where(rows, np.exp(np.where(rows, log_ratio, 0.0)), 0.0), place)
        part *= label_factor * inverse[:size]
        label_own = take(np.exp(np.log(q[:size])[:, None] - softplus(log_odds)), place) / label_factor
        rate = rate - own[:size] + label_own
    sz = take(seen, place)
    pull = comes[:size] * inverse[:size] * sz
    return Terms(places[place], part, rate, own[:size], pull, sz, weighted=True)


def _ratio(v: Floats, y: Complexes) -> Complexes:
    """E(v y) / E(v) for |y| = 1, with all that grows taken out, [V, N]."""
    v = np.maximum(v, 1e-300)
    half = np.sin(v * y.imag / 2)
    turn, least, large = 2 * half**2, np.exp(-v), np.exp(v * (y.real - 1))
    ratio = np.empty(v.shape, dtype=np.complex128)
    few = least * (np.expm1(np.minimum(v, 1.0) * y.real) * (1 - turn) - turn)
    ratio.real = np.where(v < 1, few, large * (1 - turn) - least)
    ratio.imag = 2 * large * half * np.cos(v * y.imag / 2)
    return ratio / (-np.expm1(-v) * y)


def _grid(
    cov: Floats, fall: Floats, repeats: Floats, digits: float
) -> tuple[Integers, Floats, Integers, Integers, Floats, Floats]:
    """Angles on half of one circle and on the other, in pairs where the integrand is not small.

    Returns:
        the column of each pair, its angle on the first circle, its point on the second, that point's column and angle,
        and the weight of each pair.
    """
    again = repeats > 0
    half = np.ceil(tail(cov[0], digits) / 2 + 1).astype(np.int64)
    others = np.where(again, 2 * np.ceil(1.3 * tail(cov[2], digits) / 2 + 4), 1).astype(np.int64)
    of_first, first = _flat(half)
    of_second, second = _flat(others)
    angle = (first + 0.5) * (math.pi / half)[of_first]
    turn = (second + 0.5) * (2 * math.pi / others)[of_second] - math.pi
    x, y = 2 * np.sin(angle / 2), 2 * np.sin(turn / 2)
    # half of what a normal law has, to be on the safe side
    a, b, c = np.where(again, fall / 4, np.stack([cov[0] / 2, *np.zeros((2, len(half)))]))
    column, pair = _flat(half * others)
    i = pair // others[column]
    j = pair - i * others[column] + (np.cumsum(others) - others)[column]
    i += (np.cumsum(half) - half)[column]
    size = (a[of_first] * x**2)[i] + (c[of_second] * y**2)[j] + (2 * b[of_first] * x)[i] * y[j]
    inside = np.flatnonzero(size < digits)
    column = column[inside]
    return column, angle[i[inside]], j[inside], of_second, turn, (1 / (half * others))[column]


def _flat(sizes: Integers) -> tuple[Integers, Integers]:
    """The numbers 0, 1, ... below each size, one after another, and of which each is."""
    which = np.repeat(np.arange(len(sizes)), sizes)
    return which, np.arange(len(which)) - (np.cumsum(sizes) - sizes)[which]
