r"""The minimax bias of estimators that read at most k of the n negatives.

Their means are exactly the sums of functions of at most k coordinates, the space :math:`V_k`. Over a finite set of
points the minimax bias is the distance of F from :math:`V_k` in the maximum norm. On the corners of a cube [u, v]^n
only the number s of high coordinates matters, and :math:`V_k` becomes the polynomials of degree at most k: the problem
is the best approximation of :math:`s \mapsto 1/(1 + (n-s)u + sv)` on {0..n}. For u -> 0 and v -> infinity that function
is 1 at s = 0 and 0 elsewhere, and its distance is the minimax bias over *all* points with positive coordinates
(:func:`best_estimate_anywhere` attains it). On a bounded box the value at its corners is a lower bound; it is exact for
k = n - 1, and whether it is for smaller k is open. Proofs: :doc:`/notebooks/bias`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb, cos, lcm, pi, prod

import numpy as np
from numpy.typing import NDArray

from sumexp._checks import typed, whole
from sumexp.bias.rational import Point, Rational, box, exact, fewer_reads, maximise, positive, softmax, subsets

MOST_CLASSES = 4096
"""The exact exchange takes seconds at n = 1,024 and minutes here."""

MOST_POINTS = 100
"""The exact linear program takes a minute for a grid of this size."""


@dataclass(frozen=True)
class Approximation:
    """The best approximation of a function on {0..n} by polynomials of degree at most k, proved optimal.

    Attributes:
        values: the function.
        degree: k.
        nodes: k + 2 points of {0..n}, in increasing order, where the error is ``error`` with alternating signs.
        weights: of the nodes, with alternating signs and absolute sum 1: their functional vanishes on the polynomials
            of degree at most k and is +-``error`` on the function, so no such polynomial is closer.
        error: the minimum of the maximum error, exact.
    """

    values: tuple[Fraction, ...]
    degree: int
    nodes: tuple[int, ...]
    weights: tuple[Fraction, ...]
    error: Fraction

    def polynomial(self, s: int) -> Fraction:
        """The best polynomial at a point of {0..n}."""
        whole("s", s, 0, len(self.values) - 1)
        return self.values[s] - _errors(self.values, self.nodes, self.weights)[s]


def cube_values(n: int, low: Rational, high: Rational) -> tuple[Fraction, ...]:
    """F at the corners of [low, high]^n by the number of high coordinates."""
    (u,), (v,) = box([low], [high])
    return tuple(1 / (1 + (n - s) * u + s * v) for s in range(n + 1))


def limit_values(n: int) -> tuple[Fraction, ...]:
    """The same for low -> 0, high -> infinity: one if no coordinate is high, else zero."""
    return (Fraction(1),) + (Fraction(0),) * n


@typed
def cube(n: int, k: int, low: Rational, high: Rational) -> Approximation:
    """The minimax bias on the corners of [low, high]^n of all estimators that read at most k negatives.

    Raises:
        ValueError: unless 0 <= k < n <= 4,096 (see `lower_bound` for larger n) and 0 < low < high.
    """
    _exact(n, k)
    return best_approximation(cube_values(n, low, high), k)


@typed
def limit(n: int, k: int) -> Approximation:
    """The minimax bias over all points of R_{>0}^n of all estimators that read at most k negatives, exactly.

    Raises:
        ValueError: unless 0 <= k < n <= 4,096.
    """
    _exact(n, k)
    return best_approximation(limit_values(n), k)


def best_estimate_anywhere(n: int, k: int, a: Sequence[Rational]) -> Fraction:
    r"""The mean :math:`B(a) = \mathbb E\,p(S)` of an estimator with k < n reads whose worst bias is that of `limit`.

    With :math:`c_j = \Delta^jp(0)` one has :math:`p(S) = \sum_j c_j\binom Sj`, and :math:`\binom Sj` counts the j-sets
    of ones. The chance that all coins of a set show 1 is :math:`\sum_A (-1)^{|A|}F(a_A)` over its subsets A, so that

    .. math:: B(a) = \sum_{|A|\le k} (-1)^{|A|}\,F(a_A) \sum_{j\le k} c_j\binom{n-|A|}{j-|A|} .
    """
    point = positive("a", a)
    if len(point) != n:
        raise ValueError(f"a has {len(point)} entries and n is {n}; give one for each negative")
    best = limit(n, k)
    p = [best.polynomial(s) for s in range(k + 1)]
    c = [sum(((-1) ** (j - i) * comb(j, i) * p[i] for i in range(j + 1)), Fraction(0)) for j in range(k + 1)]
    total = Fraction(0)
    for size in range(k + 1):
        share = sum((c[j] * comb(n - size, j - size) for j in range(size, k + 1)), Fraction(0))
        read = sum((softmax(chosen) for chosen in combinations(point, size)), Fraction(0))
        total += (-1) ** size * share * read
    return total


@typed
def reads_needed(n: int, bias: Rational) -> int:
    """The least k with which some estimator has bias at most ``bias`` at every point of R_{>0}^n (n if none has).

    Raises:
        ValueError: unless 0 < bias < 1/2, the bias of a constant, and n is at most 4,096.
    """
    _exact(n, 0)
    if not 0 < bias < Fraction(1, 2):
        raise ValueError(f"bias is {bias}; it must lie between 0 and 1/2, the bias of a constant")
    low, high = 0, 1  # the error at low exceeds the bias; large k cost most, so they come last
    while high < n and limit(n, high).error > bias:
        low, high = high, min(2 * high, n)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if limit(n, middle).error <= bias else (middle, high)
    return high


@typed
def lower_bound(values: Sequence[Fraction], k: int) -> Fraction:
    """A bias that no estimator with at most k reads can avoid at the corners, for any n, in rational arithmetic.

    A floating-point exchange proposes k + 2 nodes. The bound holds for any nodes; the best give the minimax bias.

    ``values`` are F at the corners by the number of high coordinates, `cube_values` or `limit_values`.

    Raises:
        ValueError: unless 0 <= k < n and each value is from 0 to 1.
    """
    n = len(values) - 1
    fewer_reads(n, k)
    if not all(0 <= value <= 1 for value in values):
        raise ValueError("a value is not from 0 to 1; give those of the softmax, as cube_values does")
    nodes = _exchange_in_floats(values, k)
    return abs(_functional(values, nodes, _weights(nodes)))


def best_approximation(values: Sequence[Fraction], degree: int) -> Approximation:
    """Remez's exchange on {0..n}, 0 <= degree < n <= 4,096: proposed in floating point, proved in integers."""
    _exact(len(values) - 1, degree)
    nodes = _exchange_in_floats(values, degree)
    while True:
        weights = _weights(nodes)
        level = abs(_functional(values, nodes, weights))
        errors = _errors(values, nodes, weights)
        if max(abs(error) for error in errors) <= level:
            return Approximation(tuple(values), degree, nodes, weights, level)
        worst = max(range(len(values)), key=lambda s: abs(errors[s]))
        # At level 0 the polynomial interpolates the nodes; take any point off it.
        nodes = _exchange(errors, level, degree + 2) if level else tuple(sorted({*nodes[1:], worst}))


def _exact(n: int, k: int) -> None:
    """Check 0 <= k < n, and that n is small enough for the exact exchange."""
    fewer_reads(n, k)
    if n > MOST_CLASSES:
        raise ValueError(
            f"n is {n}, more than the {MOST_CLASSES} of the exact exchange; use lower_bound, which holds for any n and "
            "is as sharp where floating point finds the best nodes"
        )


def _weights(nodes: Sequence[int]) -> tuple[Fraction, ...]:
    """The functional at k + 2 nodes that vanishes on degree k: 1 / prod(t - s), scaled to absolute sum 1."""
    products = [prod(t - s for s in nodes if s != t) for t in nodes]
    common = lcm(*products)
    whole = [common // p for p in products]
    total = sum(abs(w) for w in whole)
    return tuple(Fraction(w, total) for w in whole)


def _functional(values: Sequence[Fraction], nodes: Sequence[int], weights: Sequence[Fraction]) -> Fraction:
    return sum((w * exact(values[t]) for w, t in zip(weights, nodes, strict=True)), Fraction(0))


def _errors(values: Sequence[Fraction], nodes: Sequence[int], weights: Sequence[Fraction]) -> list[Fraction]:
    """f - p on {0..n}, where p is the polynomial with errors of equal size and alternating signs at the nodes."""
    level = _functional(values, nodes, weights)
    products = [prod(t - s for s in nodes if s != t) for t in nodes]
    levels = [level if w > 0 else -level for w in weights]
    terms = [(values[t] - e) / p for t, e, p in zip(nodes, levels, products, strict=True)]
    common = lcm(*(term.denominator for term in terms))
    whole = [term.numerator * (common // term.denominator) for term in terms]
    errors = []
    at_node = dict(zip(nodes, levels, strict=True))
    for s, value in enumerate(values):
        if s in at_node:
            errors.append(at_node[s])
            continue
        full = prod(s - t for t in nodes)
        errors.append(value - Fraction(sum(w * (full // (s - t)) for w, t in zip(whole, nodes, strict=True)), common))
    return errors


def _exchange(errors: Sequence[Fraction] | NDArray[np.float64], level: Fraction | float, count: int) -> tuple[int, ...]:
    """``count`` points with alternating errors of at least ``level``, among them the largest; empty if too few."""
    peaks: list[int] = []
    for s, error in enumerate(errors):
        if abs(error) < level:
            continue
        if peaks and (errors[peaks[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = s
        else:
            peaks.append(s)
    if len(peaks) < count:
        return ()
    sizes = [abs(errors[s]) for s in peaks]
    top = max(range(len(peaks)), key=sizes.__getitem__)
    starts = range(max(0, top - count + 1), min(top, len(peaks) - count) + 1)
    best = max(starts, key=lambda start: min(sizes[start : start + count]))
    return tuple(peaks[best : best + count])


def _exchange_in_floats(values: Sequence[Fraction], degree: int) -> tuple[int, ...]:
    """Nodes that are optimal up to about 1e-13."""
    n, count = len(values) - 1, degree + 2
    nodes = _chebyshev(n, count)
    f, s = np.array([float(value) for value in values]), np.arange(n + 1, dtype=np.float64)
    best, best_level = nodes, 0.0
    for _ in range(60):
        t = np.array(nodes, dtype=np.float64)
        apart = t[:, None] - t[None, :] + np.eye(count)
        size = -np.log(np.abs(apart)).sum(1)
        weights = np.exp(size - size.max()) * (-1.0) ** np.arange(count)
        weights /= np.abs(weights).sum()
        level = float(weights @ f[list(nodes)])
        if abs(level) <= best_level:
            break
        best, best_level = nodes, abs(level)
        at_nodes = f[list(nodes)] - level * np.sign(weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            numerator, denominator = np.zeros(n + 1), np.zeros(n + 1)
            for w, y, x in zip(weights, at_nodes, t, strict=True):
                numerator += w * y / (s - x)
                denominator += w / (s - x)
            errors = f - numerator / denominator
        errors[list(nodes)] = level * np.sign(weights)
        if not np.isfinite(errors).all() or np.abs(errors).max() <= abs(level) * (1 + 1e-12):
            break
        if not (exchanged := _exchange(errors, abs(level) * (1 - 1e-9), count)):
            break
        nodes = exchanged
    return best


def _chebyshev(n: int, count: int) -> tuple[int, ...]:
    """The extrema of a Chebyshev polynomial on [0, n], moved to distinct integers."""
    nodes = [round(n * (1 - cos(pi * i / (count - 1))) / 2) for i in range(count)]
    for i in range(1, count):
        nodes[i] = max(nodes[i], nodes[i - 1] + 1)
    nodes[-1] = min(nodes[-1], n)
    for i in range(count - 2, -1, -1):
        nodes[i] = min(nodes[i], nodes[i + 1] - 1)
    return tuple(nodes)


def on_grid(axes: Sequence[Sequence[Rational]], k: int) -> tuple[Fraction, dict[Point, Fraction]]:
    r"""The minimax bias on a small grid by an exact linear program, and the measure that certifies it.

    It maximises :math:`\int F\,d\mu` over the measures of norm 1 on the grid that vanish on :math:`V_k`.

    Raises:
        ValueError: unless 0 <= k < n, each axis is positive and increasing, and the grid has at most 100 points.
    """
    fewer_reads(len(axes), k)
    sides = [positive(f"axes[{i}]", axis) for i, axis in enumerate(axes)]
    for i, side in enumerate(sides):
        if len(side) < 2 or list(side) != sorted(set(side)):
            raise ValueError(f"axes[{i}] is {', '.join(map(str, side))}; it needs two or more increasing values")
    if (size := prod(map(len, sides))) > MOST_POINTS:
        raise ValueError(
            f"the grid has {size} points, more than the {MOST_POINTS} of the exact linear program; for a cube's "
            "corners use minimax.cube"
        )
    points = list(product(*sides))
    rows = [
        [Fraction(all(point[i] == level for i, level in zip(chosen, levels, strict=True))) for point in points]
        for chosen in subsets(len(sides))
        if len(chosen) <= k
        for levels in product(*(sides[i][1:] for i in chosen))
    ]
    matrix = [[*row, *(-entry for entry in row)] for row in rows] + [[Fraction(1)] * (2 * size)]
    values = [softmax(point) for point in points]
    best, solution = maximise(
        [*values, *(-value for value in values)], matrix, [Fraction(0)] * len(rows) + [Fraction(1)]
    )
    measure = {point: solution[i] - solution[size + i] for i, point in enumerate(points)}
    return best, {point: mass for point, mass in measure.items() if mass}


@typed
def cost_variance_bound(n: int) -> tuple[Fraction, int]:
    r"""A lower bound of :math:`\sup_a \mathbb E T^2 \cdot \sup_a \mathbb E[\text{reads}]` for unbiased T, and its k.

    Stopping T after k reads biases it by at most :math:`\sqrt{\mathbb E T^2\, P(\text{reads} > k)}`, and by at least
    :math:`\mathrm{dist}_k`. With Markov's inequality the bound is :math:`\max_k (k+1)\,\mathrm{dist}_k^2`, exact, for n
    up to 4,096.
    """
    _exact(n, 0)
    best, at = Fraction(0), 0
    for k in range(n):
        bias = lower_bound(limit_values(n), k)
        if (bound := (k + 1) * bias**2) > best:
            best, at = bound, k
        elif k > 2 * at + 2 and 2 * bound < best:
            break
    exact = limit(n, at).error
    return (at + 1) * exact**2, at
