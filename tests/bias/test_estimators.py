"""Unbiased estimators: exact mean, cost and variance, and the draws against them.

Monte Carlo tests here compare a mean of N draws with its exact value at 5.5 standard errors, the exact variance being
known: a false alarm has probability below 1e-7 where the central limit theorem holds.
"""

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, product

import mpmath
import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.bias import certificates, estimators, minimax, proof
from sumexp.bias.rational import softmax
from tests.exact import log_of

Q = Fraction
A = (Q(1), Q(3), Q(1, 2), Q(2))
HALVES = estimators.roulette([1, Q(1, 2), Q(1, 4), Q(1, 8)])
LATE = estimators.Schedule((2, 3, 4), (Q(1), Q(1, 2), Q(1, 3)))  # two are always read
PAIRS = estimators.Schedule((2, 4), (Q(1), Q(1, 3)), antithetic=True)


@pytest.mark.claim("bias-conclusion", shows="counterexample", evidence="exact")
def test_a_roulette_is_unbiased_with_1_875_reads() -> None:
    # B8. n = 4, 1 + 1/2 + 1/4 + 1/8 reads on average, mean exactly 1/(1 + 1 + 3 + 1/2 + 2) = 2/15.
    law = estimators.law(HALVES, A)
    assert sum(p * reads for (_, reads), p in law.items()) == HALVES.cost == Q(15, 8)
    assert estimators.moments(HALVES, A)[0] == Q(2, 15) == softmax(A)
    assert sum(p for (_, reads), p in law.items() if reads == 4) == Q(1, 8)


@pytest.mark.claim("bias-conclusion", shows="correction", evidence="exact")
@given(st.lists(st.fractions(Q(1, 30), 30, max_denominator=30), min_size=4, max_size=4), st.data())
@settings(max_examples=40, deadline=None)
def test_unbiased_as_soon_as_all_are_read_with_positive_probability(a: list[Fraction], data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.fractions(Q(1, 5), 1, max_denominator=5), min_size=3, max_size=3))
    survival = [Q(1), steps[0], steps[0] * steps[1], steps[0] * steps[1] * steps[2]]
    assert estimators.moments(estimators.roulette(survival), a)[0] == softmax(a)
    for antithetic in (False, True):
        schedule = estimators.Schedule((1, 2, 4), (Q(1), steps[0], steps[0] * steps[1]), antithetic)
        assert estimators.moments(schedule, a)[0] == softmax(a)
    # Cut before the last level it reads at most 3 of 4 and its mean is E F_3, not F (unless all a are equal).
    subsets = [[x for j, x in enumerate(a) if j != i] for i in range(4)]
    cut = sum((estimators.partial(chosen, 4) for chosen in subsets), Q(0)) / 4
    assert (cut == softmax(a)) == (len(set(a)) == 1)


def brute(schedule: estimators.Schedule, a: tuple[Fraction, ...]) -> tuple[Fraction, Fraction]:
    """Mean and variance over all n! orders, by the definition of T."""
    first = second = Q(0)
    orders = list(permutations(a))
    for order in orders:
        for last, p in schedule.stops():
            total = estimators.partial(order[: schedule.levels[0]], schedule.n)
            for place in range(1, last + 1):
                low, high = schedule.levels[place - 1], schedule.levels[place]
                now, then = estimators.partial(order[:high], schedule.n), estimators.partial(order[:low], schedule.n)
                if schedule.antithetic:
                    then = (then + estimators.partial(order[low:high], schedule.n)) / 2
                total += (now - then) / schedule.survival[place]
            first += p * total / len(orders)
            second += p * total**2 / len(orders)
    return first, second - first**2


@pytest.mark.parametrize("schedule", [HALVES, LATE, PAIRS, estimators.dyadic(4, 1), estimators.dyadic(4, 1, False)])
def test_enumeration_by_blocks_equals_all_orders(schedule: estimators.Schedule) -> None:
    assert estimators.moments(schedule, A) == brute(schedule, A)
    assert sum(p * reads for (_, reads), p in estimators.law(schedule, A).items()) == schedule.cost
    assert {reads for _, reads in estimators.law(estimators.roulette([1, 1, Q(1, 2), Q(1, 2)]), A)} == {2, 4}


@pytest.mark.parametrize("schedule", [HALVES, LATE, estimators.roulette([1]), estimators.dyadic(8, 1, False)])
def test_variance_by_quadrature_equals_the_enumeration(schedule: estimators.Schedule) -> None:
    a = (*A, Q(7), Q(1, 9), Q(1), Q(5))[: schedule.n]
    log_a = log_of(a)
    exact = float(estimators.moments(schedule, a)[1])
    assert estimators.variance(schedule, torch.stack([log_a, log_a])).tolist() == pytest.approx([exact] * 2, rel=1e-11)


def test_padding_with_negatives_that_do_not_exist_changes_nothing() -> None:
    # Three negatives padded to a power of two, as `dyadic` advises: a = 0, a logit of -inf.
    a, schedule = (Q(1), Q(3), Q(1, 2), Q(0)), estimators.dyadic(4, 1, antithetic=False)
    mean, variance = estimators.moments(schedule, a)
    assert mean == softmax((Q(1), Q(3), Q(1, 2))) == Q(2, 11)
    log_a = torch.tensor([0.0, math.log(3), math.log(0.5), -math.inf], dtype=torch.float64)
    assert estimators.variance(schedule, log_a).item() == pytest.approx(float(variance), rel=1e-11)


@pytest.mark.parametrize("schedule", [estimators.dyadic(8, 1), estimators.dyadic(8, 1.5, False), LATE, PAIRS])
def test_two_valued_recursion_equals_the_enumeration(schedule: estimators.Schedule) -> None:
    for count, (high, low) in product(range(0, schedule.n + 1, 2), ((Q(9, 2), Q(1, 3)), (Q(9, 2), 0), (0, Q(1, 3)))):
        a = (high,) * count + (low,) * (schedule.n - count)
        assert estimators.two_valued_moments(schedule, high, low, count) == estimators.moments(schedule, a)


@pytest.mark.parametrize("n", [64, 1024, 4096])
@pytest.mark.parametrize("rate,constant", [(1.0, 0.55), (1.5, 0.43)])
def test_spike_has_a_variance_of_order_n_to_the_rate(n: int, rate: float, constant: float) -> None:
    # One a = 10^6 among a = 10^-9: F is about 0, but 1 until the spike is read. Variances .55 n and .43 n^1.5.
    mean, variance = estimators.two_valued_moments(estimators.dyadic(n, rate), 10**6, Q(1, 10**9), 1)
    assert mean == 1 / (1 + 10**6 + (n - 1) * Q(1, 10**9))
    assert float(variance) / n**rate == pytest.approx(constant, abs=0.015)
    # Among negatives that sum to 1 the spike moves F by 1/2, not 1: a quarter of the variance.
    _, among = estimators.two_valued_moments(estimators.dyadic(n, rate), 10**6, Q(1, n), 1)
    assert float(among / variance) == pytest.approx(1 / 4, abs=0.06 if n == 64 else 0.005)


def test_numbers_of_numpy_and_floats_are_exact_too() -> None:
    # 64 bits do not hold these numerators; 0.3 is the fraction next to 3/10 in double precision.
    one, two, k = np.int64(1), np.int64(2), np.int64(12)
    assert certificates.cube_difference(20, one, two) == certificates.cube_difference(20, 1, 2)
    assert minimax.cube(20, 10, one, two) == minimax.cube(20, 10, 1, 2)
    assert proof.contradiction(np.int64(30), k) == proof.contradiction(30, 12)
    assert str(minimax.lower_bound([1.0, 0.3, 0.0], 1)) == str((Q(1) - 2 * Q(0.3)) / 4)  # a float would be equal
    assert proof.value(1, Q(1, 10), Decimal("0.1"), 1) == Q(10, 11)  # type: ignore[arg-type]
    schedule = estimators.Schedule((one, two), (one, np.float32(0.5)))  # type: ignore[arg-type]
    assert estimators.moments(schedule, (one, two)) == estimators.moments(estimators.roulette((1, Q(1, 2))), (1, 2))


def test_all_or_nothing_is_unbiased_and_far_above_the_bound() -> None:
    # Exercise 3: F/eps with probability eps, else 0. Cost eps n times second moment F^2/eps is n F^2.
    n, eps, f = 16, Q(1, 8), Q(9, 10)
    mean, second = (eps * (f / eps) ** k for k in (1, 2))
    assert (mean, second - mean**2) == (f, f**2 * (1 / eps - 1))
    assert eps * n * second == n * f**2 > minimax.cost_variance_bound(n)[0]


@pytest.mark.parametrize("schedule", [LATE, estimators.dyadic(4, 1), estimators.dyadic(4, 1.5, False)])
def test_draws_have_the_exact_law(schedule: estimators.Schedule) -> None:
    log_a, size, source = log_of(A), 40_000, torch.Generator().manual_seed(0)
    draws = estimators.sample(schedule, lambda rows, indices: log_a[indices], size, generator=source)
    expected = {(round(float(t), 9), reads): p for (t, reads), p in estimators.law(schedule, A).items()}
    got = Counter(zip([round(t, 9) for t in draws.value.tolist()], draws.reads.tolist(), strict=True))
    assert got.keys() <= expected.keys()
    for outcome, p in expected.items():
        # at most 96 outcomes, each at 5.5 standard errors: a false alarm has probability below 1e-5
        assert abs(got[outcome] - size * p) < 5.5 * math.sqrt(size * p * (1 - p)) + 1, outcome


def test_draws_read_few_of_many_and_repeat_with_their_seed() -> None:
    schedule = estimators.dyadic(2**16, 1.5)
    asked: list[Tensor] = []

    def read(rows: Tensor, indices: Tensor) -> Tensor:
        asked.append(indices)
        return torch.cos(indices.float())

    first = estimators.sample(schedule, read, 300, generator=torch.Generator().manual_seed(3))
    assert sum(indices.numel() for indices in asked) == first.reads.sum().item()
    assert all(len(row.unique()) == row.numel() for indices in asked for row in indices)
    wider = lambda rows, indices: read(rows, indices).double()  # noqa: E731
    again = estimators.sample(schedule, wider, 300, generator=torch.Generator().manual_seed(3))
    assert torch.equal(first.value, again.value)  # logits of any type are summed in double precision
    assert torch.equal(first.reads, again.reads)
    # Costs: 5.5 standard errors, the variance of the reads exact too; the tail is heavy, so only an upper side is odd.
    spread = sum(float(p) * schedule.levels[place] ** 2 for place, p in schedule.stops()) - float(schedule.cost) ** 2
    assert abs(first.reads.double().mean().item() - float(schedule.cost)) < 5.5 * (spread / 300) ** 0.5


@pytest.mark.parametrize("n,count", [(5, 2), (40, 3)])
def test_distinct_indices_are_uniform(n: int, count: int) -> None:
    # Every ordered sample equally likely: here the first two places. 5.5 standard errors for n (n-1) <= 1560 cells: a
    # false alarm has probability below 1e-4; the seed is fixed.
    size = 60_000
    drawn = estimators.distinct_indices(n, count, size, torch.Generator().manual_seed(2))
    assert all(len(set(row)) == count for row in drawn[:2000].tolist())
    cells = torch.bincount(drawn[:, 0] * n + drawn[:, 1], minlength=n * n).view(n, n).double()
    assert cells.diagonal().sum() == 0
    expected = size / (n * (n - 1))
    assert (cells[~torch.eye(n, dtype=torch.bool)] - expected).abs().max() < 5.5 * expected**0.5 + 3


@pytest.mark.parametrize("n", [4, 16, 64])
@pytest.mark.parametrize("rate", [0.0, 1.0, 1.5])
def test_cost_times_second_moment_respects_the_bound(n: int, rate: float) -> None:
    # sup_a E T^2 is at least its value at the points with one high entry, or none.
    schedule = estimators.dyadic(n, rate)
    points = [(10**6, count) for count in (0, 1, 2)]
    second = [v + m**2 for m, v in (estimators.two_valued_moments(schedule, h, Q(1, 10**6), c) for h, c in points)]
    assert max(second) * schedule.cost >= minimax.cost_variance_bound(n)[0]


def test_the_poisson_estimator_has_no_second_moment_and_no_mean_for_large_sums() -> None:
    # T = prod_{j <= K} (1 - t n a_{i_j}/lambda) with t ~ Exp(1), K ~ Poisson(lambda): E[T | t] = e^{-tS}, formally the
    # softmax. The second moment has e^{-t - 2tS + c t^2}, c = n sum a^2/lambda. And e^{-t} E[|T| | t] is e^x,
    # x = -t + lambda (E|1 - t n a_i/lambda| - 1) = (S - 1) t - 2 lambda beyond t = lambda/(n min a).
    t, S, c, lam = sp.symbols("t S c lam", positive=True)
    assert sp.limit(-t - 2 * t * S + c * t**2, t, sp.oo) == sp.oo
    assert sp.expand(-t + lam * ((t * S / lam - 1) - 1) - ((S - 1) * t - 2 * lam)) == 0
    # Both conditional moments by enumeration of K and of the draws, at t = 1/3, lambda = 2, a = (1/2, 1):
    factors = [1 - mpmath.mpf(a) / 3 for a in (0.5, 1)]
    poisson = [mpmath.exp(-2) * mpmath.mpf(2) ** k / mpmath.factorial(k) for k in range(40)]
    first = mpmath.fsum(p * (mpmath.fsum(factors) / 2) ** k for k, p in enumerate(poisson))
    second = mpmath.fsum(p * (mpmath.fsum(f**2 for f in factors) / 2) ** k for k, p in enumerate(poisson))
    assert float(first) == pytest.approx(math.exp(-1.5 / 3), rel=1e-12)  # e^{-tS}, S = 3/2
    assert float(second) == pytest.approx(math.exp(-2 * 1.5 / 3 + (2 * 1.25 / 2) / 9), rel=1e-12)


@pytest.mark.parametrize("a", [(1, 3), (2, 2), (Q(1, 2), 9)])
def test_two_draws_from_two_are_unbiased_without_their_indices(a: tuple[Fraction, ...]) -> None:
    def h(x: Fraction, y: Fraction) -> Fraction:
        return softmax((x, x)) if x == y else 2 * softmax((x, y)) - (softmax((x, x)) + softmax((y, y))) / 2

    assert sum(h(*drawn) for drawn in product(a, repeat=2)) / 4 == softmax(a)


@pytest.mark.claim("bias-conclusion", shows="correction", evidence="exact")
@pytest.mark.parametrize("n,draws", [(1, 1), (2, 2), (2, 4), (3, 3), (3, 5)])
def test_n_or_more_draws_with_replacement_have_an_unbiased_estimate(n: int, draws: int) -> None:
    # F / P(all seen) if the draws have seen all negatives, else 0.
    all_seen = sum(Q((-1) ** j * math.comb(n, j) * (n - j) ** draws, n**draws) for j in range(n + 1))
    seen = [len(set(drawn)) == n for drawn in product(range(n), repeat=draws)]
    f = softmax((Q(1), Q(4), Q(1, 3))[:n])
    assert Q(sum(seen), n**draws) * f / all_seen == f
