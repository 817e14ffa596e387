"""The minimax bias: the exchange against a linear program, an enumeration and its certificate."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sumexp.bias import certificates, estimators, minimax, reading
from sumexp.bias.rational import maximise, softmax, subsets

Q = Fraction
LOW, HIGH = Q(1, 10), Q(5)


def assert_best(got: minimax.Approximation) -> None:
    """Both halves of a proof in rational arithmetic: nothing is better, and this is as good."""
    k, nodes, weights = got.degree, got.nodes, got.weights
    assert len(nodes) == k + 2
    assert all(weights[i] * weights[i + 1] < 0 for i in range(k + 1))
    assert sum(map(abs, weights)) == 1
    for power in range(k + 1):
        assert sum(w * t**power for w, t in zip(weights, nodes, strict=True)) == 0
    assert abs(sum(w * got.values[t] for w, t in zip(weights, nodes, strict=True))) == got.error
    errors = [value - got.polynomial(s) for s, value in enumerate(got.values)]
    assert max(map(abs, errors)) == got.error
    assert all(errors[s] * errors[t] < 0 for s, t in pairwise(nodes))
    # The approximant is a polynomial of degree k: its differences of order k + 1 vanish.
    differences = [got.polynomial(s) for s in range(len(got.values))]
    for _ in range(k + 1):
        differences = [b - a for a, b in pairwise(differences)]
    assert set(differences) <= {0}


@pytest.mark.claim("sumexp-duality", shows="statement", evidence="exact")
@pytest.mark.parametrize(
    "n,k", [(1, 0), (2, 0), (2, 1), (5, 3), (12, 0), (12, 4), (12, 11), (40, 9), (40, 39), (64, 20)]
)
def test_both_halves_of_the_proof_of_optimality(n: int, k: int) -> None:
    assert_best(minimax.limit(n, k))
    assert_best(minimax.cube(n, k, LOW, HIGH))


def by_enumeration(values: Sequence[Fraction], degree: int) -> Fraction:
    """The largest of the functionals that vanish on the polynomials, over all sets of degree + 2 points."""
    least = Q(0)
    for nodes in combinations(range(len(values)), degree + 2):
        weights = [1 / prod((Q(t - s) for s in nodes if s != t), start=Q(1)) for t in nodes]
        on_values = sum(w * values[t] for w, t in zip(weights, nodes, strict=True))
        least = max(least, abs(on_values) / sum(map(abs, weights)))
    return least


def whole_box(lower: Sequence[Fraction], upper: Sequence[Fraction]) -> Fraction:
    return abs(certificates.mixed_difference(softmax, lower, upper)) / 2 ** len(lower)


def best_estimate(lower: Sequence[Fraction], upper: Sequence[Fraction], a: Sequence[Fraction]) -> Fraction:
    """B = F - prod_i (I - P_i) F, where P_i averages over the two ends of side i."""
    total = Q(0)
    for replaced in subsets(len(a))[1:]:
        sides = [(lower[i], upper[i]) if i in replaced else (a[i],) for i in range(len(a))]
        total -= (-1) ** len(replaced) * sum(map(softmax, product(*sides))) / 2 ** len(replaced)
    return total


@given(st.lists(st.fractions(-5, 5, max_denominator=9), min_size=3, max_size=9), st.data())
@settings(max_examples=60, deadline=None)
def test_exchange_on_arbitrary_functions(values: list[Fraction], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(values) - 2))
    assert minimax.best_approximation(values, k).error == by_enumeration(values, k)


# Values computed elsewhere, on [1/10, 5]^n.
CUBES = {
    (2, 0): Q(49, 132), (2, 1): Q(2401, 16104),
    (3, 0): Q(147, 416), (3, 1): Q(2401, 12896), (3, 2): Q(117649, 1908608),
}  # fmt: skip


@pytest.mark.claim("sumexp-duality", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", CUBES)
def test_linear_program_on_the_corners_of_a_cube(n: int, k: int) -> None:
    best, measure = minimax.on_grid([(LOW, HIGH)] * n, k)
    assert best == CUBES[n, k] == minimax.cube(n, k, LOW, HIGH).error
    # The measure is a certificate: norm 1, zero on every function of k coordinates, `best` on F.
    assert sum(map(abs, measure.values())) == 1
    assert sum(mass * softmax(point) for point, mass in measure.items()) == best
    scheme = reading.without_replacement(n, k)
    seen: dict[reading.History, Fraction] = {}
    for point, mass in measure.items():
        for history, p in reading.outcomes(scheme, point).items():
            seen[history] = seen.get(history, Q(0)) + mass * p
    assert set(seen.values()) == {0}


def test_linear_program_on_unequal_sides_and_finer_grids() -> None:
    assert minimax.on_grid([(LOW, HIGH), (Q(1, 2), Q(3))], 1)[0] == whole_box((LOW, Q(1, 2)), (HIGH, Q(3)))
    # Points inside the box do not raise the bias: 4 x 4 and 3 x 3 x 3 levels.
    assert minimax.on_grid([(LOW, 1, 2, HIGH)] * 2, 1)[0] == CUBES[2, 1]
    for k in range(3):
        assert minimax.on_grid([(LOW, 1, HIGH)] * 3, k)[0] == CUBES[3, k]


def symmetric_grid_bias(levels: list[float], n: int, k: int) -> float:
    """The minimax bias on a grid in floating point: unknown symmetric functions of k values, HiGHS."""
    points = list(combinations_with_replacement(range(len(levels)), n))
    unknown = {drawn: i for i, drawn in enumerate(combinations_with_replacement(range(len(levels)), k))}
    design = np.zeros((len(points), len(unknown)))
    for row, point in enumerate(points):
        for drawn in product(range(n), repeat=k):
            if len(set(drawn)) == k:
                design[row, unknown[tuple(sorted(point[i] for i in drawn))]] += 1
    design /= design.sum(1, keepdims=True)
    f = np.array([1 / (1 + sum(levels[i] for i in point)) for point in points])
    ones = np.ones((len(points), 1))
    bounds = [(None, None)] * len(unknown) + [(0, None)]
    least, within = np.block([[design, -ones], [-design, -ones]]), np.concatenate([f, -f])
    got = linprog([0.0] * len(unknown) + [1.0], A_ub=least, b_ub=within, bounds=bounds, method="highs")
    return float(got.fun)


@pytest.mark.parametrize("n,k", [(n, k) for n in (3, 4) for k in range(n)])
@pytest.mark.parametrize("low,high", [(Q(1, 10), Q(5)), (Q(1, 2), Q(2)), (Q(1, 100), Q(100))])
def test_seven_levels_are_no_harder_than_the_corners(n: int, k: int, low: Fraction, high: Fraction) -> None:
    # Measured, not proved, for k < n - 1: that the corners of a bounded cube already hold its worst points.
    levels = [float(low) * float(high / low) ** (i / 6) for i in range(7)]
    assert symmetric_grid_bias(levels, n, k) == pytest.approx(float(minimax.cube(n, k, low, high).error), rel=1e-6)


@pytest.mark.claim("bias-best-efforts", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n in range(2, 9) for k in range(1, n)])
def test_the_minimax_bias_is_not_zero_and_at_most_half_of_the_sampled_softmax_s(n: int, k: int) -> None:
    # B16. The sampled softmax is near 1 if it misses a huge negative among tiny ones, where 0 is right; some negative
    # is missed with probability 1 - k/n or more, whatever the law and the weights. With s huge ones of n the mean is
    # binom(n-s, k) / binom(n, k), of degree k in s, and its bias 1 - k/n at s = 1; half of that subtracted halves it.
    worst, spike = 1 - Q(k, n), (Q(10**9), *(n - 1) * [Q(1, 10**9)])
    mean = sum(estimators.partial(chosen, n) for chosen in combinations(spike, k)) / comb(n, k)
    assert abs(mean - softmax(spike) - worst) < Q(1, 10**6)
    off = [Q(comb(n - s, k), comb(n, k)) - worst / 2 - (s == 0) for s in range(n + 1)]
    assert 0 < minimax.limit(n, k).error <= max(map(abs, off)) == worst / 2


@pytest.mark.claim("sumexp-duality", shows="statement", evidence="exact")
@pytest.mark.parametrize("n", range(1, 8))
def test_the_minimax_bias_of_the_whole_box_with_n_minus_1_reads(n: int) -> None:
    assert whole_box((LOW,) * n, (HIGH,) * n) == minimax.cube(n, n - 1, LOW, HIGH).error


@pytest.mark.claim("sumexp-duality", shows="statement", evidence="exact")
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_the_best_estimate_attains_the_minimax_bias_everywhere_in_the_box(data: st.DataObject) -> None:
    lower, upper = (Q(1, 10), Q(1, 2), Q(1)), (Q(5), Q(3), Q(4))
    share = st.fractions(0, 1, max_denominator=12)
    a = [u + data.draw(share) * (v - u) for u, v in zip(lower, upper, strict=True)]
    best = whole_box(lower, upper)
    assert abs(softmax(a) - best_estimate(lower, upper, a)) <= best
    for corner in product(*zip(lower, upper, strict=True)):
        assert abs(softmax(corner) - best_estimate(lower, upper, corner)) == best
    # A sum of functions of two coordinates each: its own mixed difference on any box is zero.
    assert certificates.mixed_difference(lambda x: best_estimate(lower, upper, x), a, [x + 1 for x in a]) == 0


@pytest.mark.claim("sumexp-orthant", shows="statement", evidence="exact")
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_point_of_the_orthant_is_worse_than_the_limit(data: st.DataObject) -> None:
    # The upper half of the theorem, in rational arithmetic, at points from 1e-6 to 1e6.
    n = data.draw(st.integers(1, 6))
    k = data.draw(st.integers(0, n - 1))
    a = [Q(10) ** data.draw(st.integers(-6, 6)) * data.draw(st.integers(1, 9)) for _ in range(n)]
    assert abs(softmax(a) - minimax.best_estimate_anywhere(n, k, a)) <= minimax.limit(n, k).error


@pytest.mark.claim("sumexp-orthant", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(2, 1), (4, 1), (5, 2), (6, 3), (6, 5)])
def test_the_lower_half_at_the_corners_of_a_wide_box(n: int, k: int) -> None:
    best = minimax.limit(n, k).error
    wide = minimax.cube(n, k, Q(1, 10**9), 10**9).error
    assert best * (1 - Q(1, 10**6)) <= wide <= best  # no estimator is better than `wide` at these corners
    # ... and the estimate of the upper half comes as near to its bound there.
    corners = [[10**9] * high + [Q(1, 10**9)] * (n - high) for high in range(n + 1)]
    worst = max(abs(softmax(a) - minimax.best_estimate_anywhere(n, k, a)) for a in corners)
    assert best * (1 - Q(1, 10**6)) <= worst <= best


@pytest.mark.claim("sumexp-orthant", shows="statement", evidence="exact")
def test_the_best_estimate_anywhere_reads_k_negatives() -> None:
    # Its differences over any k + 1 coordinates vanish: it is a sum of functions of k of them.
    a = (Q(1, 3), Q(2), Q(5), Q(1, 7))
    for fixed in range(4):
        side = [i for i in range(4) if i != fixed]

        def moved(x: Sequence[Fraction], fixed: int = fixed, side: Sequence[int] = tuple(side)) -> Fraction:
            point = list(a)
            for i, value in zip(side, x, strict=True):
                point[i] = value
            return minimax.best_estimate_anywhere(4, 2, point)

        assert certificates.mixed_difference(moved, (1, 1, 1), (2, 3, 4)) == 0
    # By hand for n = 2, k = 1: p(s) = 3/4 - s/2, so B = 3/4 - E S/2 with E Z = 1 - 1/(1 + a).
    expected = Q(3, 4) - ((1 - 1 / (1 + a[0])) + (1 - 1 / (1 + a[1]))) / 2
    assert minimax.best_estimate_anywhere(2, 1, a[:2]) == expected


@pytest.mark.claim("sumexp-orthant", shows="statement", evidence="exact")
def test_the_coupling_in_rational_arithmetic() -> None:
    # E over t of all 2^n outcomes: P(J is the set of ones) = sum over A in J of (-1)^|A| F(a_{A + rest}).
    a = (Q(1, 2), Q(3), Q(2))
    best, n = minimax.limit(3, 2), 3
    law = [Q(0)] * (n + 1)
    for ones in subsets(n):
        rest = [a[i] for i in range(n) if i not in ones]
        for chosen in subsets(len(ones)):
            law[len(ones)] += (-1) ** len(chosen) * softmax([*rest, *(a[ones[i]] for i in chosen)])
    assert sum(law) == 1
    assert law[0] == softmax(a)
    mean = sum((p * best.polynomial(s) for s, p in enumerate(law)), Q(0))
    assert mean == minimax.best_estimate_anywhere(n, 2, a)


def test_two_reads_of_two_values_by_hand() -> None:
    # n = 2, k = 1, limit: 1[s = 0] on {0, 1, 2} by a line. Weights (1, -2, 1)/4: error 1/4.
    got = minimax.limit(2, 1)
    assert (got.nodes, got.weights, got.error) == ((0, 1, 2), (Q(1, 4), -Q(1, 2), Q(1, 4)), Q(1, 4))
    # Nothing read: the constant 1/2.
    assert minimax.limit(7, 0).error == Q(1, 2)
    assert [minimax.reads_needed(8, minimax.limit(8, k).error) for k in range(1, 8)] == [*range(1, 8)]


@pytest.mark.parametrize("n,expected", [(64, (4, 6, 12, 20)), (256, (8, 11, 23, 40)), (1024, (16, 22, 46, 79))])
def test_reads_needed_for_a_given_bias(n: int, expected: tuple[int, ...]) -> None:
    # A table computed elsewhere: the least k with worst bias <= .4, 1/3, .1, .01 in the limit case.
    biases = (Q(2, 5), Q(1, 3), Q(1, 10), Q(1, 100))
    assert tuple(minimax.reads_needed(n, bias) for bias in biases) == expected


@pytest.mark.parametrize("n,k", [(64, 30), (256, 60), (1024, 22)])
def test_lower_bound_for_any_n_never_exceeds_the_minimax_bias(n: int, k: int) -> None:
    values = minimax.cube_values(n, LOW, HIGH)
    bound, exact = minimax.lower_bound(values, k), minimax.best_approximation(values, k).error
    assert Q(9, 10) * exact < bound <= exact


def test_cost_and_variance() -> None:
    # Values computed elsewhere.
    got = [minimax.cost_variance_bound(n) for n in (16, 64, 256, 1024)]
    assert [round(float(bound), 3) for bound, _ in got] == [0.454, 0.769, 1.390, 2.628]
    every = [(j + 1) * minimax.limit(16, j).error ** 2 for j in range(16)]
    assert got[0] == (max(every), every.index(max(every)))


def test_linear_programs_by_hand() -> None:
    # max x + 2y on x + y <= 4, y <= 3 (slacks s, t): 1 + 6.
    matrix = [[Q(1), Q(1), Q(1), Q(0)], [Q(0), Q(1), Q(0), Q(1)]]
    assert maximise([Q(1), Q(2), Q(0), Q(0)], matrix, [Q(4), Q(3)]) == (7, [1, 3, 0, 0])
    # x + 2y = 1 and x + y = 1 leave y = 0: a first phase that ends with an artificial variable in the basis.
    assert maximise([Q(0), Q(1)], [[Q(1), Q(2)], [Q(1), Q(1)]], [Q(1), Q(1)]) == (0, [1, 0])
