"""Section 4 of the paper, its proof of Theorem 3.1, step by step and for all 1 <= k < n <= 8."""

from fractions import Fraction
from itertools import combinations, permutations
from math import comb, perm, prod

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.bias import proof
from sumexp.bias.rational import softmax
from tests.bias.tuples import (
    arbitrary,
    consistent,
    expectation,
    mean_over_subsets,
    symmetrise,
    two_valued_system,
    uniform_tuples,
)

Q = Fraction
ALL = [(n, k) for n in range(1, 9) for k in range(1, n)]
WITH_EQUAL = [(n, k) for n in range(1, 9) for k in range(n + 1)]
LOW, HIGH = Q(2, 7), Q(5, 3)
positive = st.fractions(min_value=Q(1, 50), max_value=50, max_denominator=50)


def two_valued(n: int, m: int) -> tuple[Fraction, ...]:
    return (LOW,) * (n - m) + (HIGH,) * m


@pytest.mark.claim("bias-lemma-4-2", shows="statement", evidence="exact")
@pytest.mark.parametrize("k", range(1, 5))
def test_symmetrisation_is_symmetric(k: int) -> None:
    # An unknown function h: both sides are the same sum of k! terms, whatever h is.
    h, x = sp.Function("h"), sp.symbols(f"x1:{k + 1}")

    def f(*z: sp.Expr) -> sp.Expr:
        return sum(h(*w) for w in permutations(z)) / sp.factorial(k)

    for sigma in permutations(x):
        assert sp.expand(f(*x) - f(*sigma)) == 0
    # B15: printed tau(sigma(.)), what arises is sigma(tau(.)): the sums over all tau agree, term by term they do not.
    sigma, tau = (1, 2, 0), (1, 0, 2)
    assert [tau[i] for i in sigma] != [sigma[i] for i in tau]


@pytest.mark.claim("bias-lemma-4-3", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n in range(1, 6) for k in range(n + 1)])
def test_symmetrisation_keeps_the_mean_under_uniform_sampling(n: int, k: int) -> None:
    law, a = uniform_tuples(n, k), [Q(1, i + 1) for i in range(n)]
    assert expectation(symmetrise(arbitrary, k), law, a) == expectation(arbitrary, law, a)


def test_symmetrisation_changes_the_mean_under_another_law() -> None:
    # Lemma 4.3 is about the uniform law: under the law that always draws (1, 2), h = x_1 has mean a_1, f_k (a_1+a_2)/2.
    law = {(0, 1): Q(1)}

    def first(*z: Fraction) -> Fraction:
        return z[0]

    assert expectation(first, law, (3, 5)) == 3
    assert expectation(symmetrise(first, 2), law, (3, 5)) == Q(3 + 5, 2)


@pytest.mark.claim("bias-F-reformulation", shows="statement", evidence="proof")
def test_estimating_the_softmax_is_estimating_F() -> None:
    # e^y / (e^y + T) with T = sum e^{y_i}, and 1/(1 + sum a_i) with sum a_i = T e^{-y}, any n.
    y, T = sp.symbols("y T", positive=True)
    assert sp.simplify(sp.exp(y) / (sp.exp(y) + T) - 1 / (1 + T * sp.exp(-y))) == 0
    # h(a) = s(0, log a) and s(y, z) = h(e^{z - y}) carry means over, sample by sample: at a the former, unbiased, has
    # the mean F(e^{log a - 0}) = F(a), and at (y, z) the latter F(e^{z - y}).
    a = sp.symbols("a", positive=True)
    assert sp.exp(sp.log(a) - 0) == a


@pytest.mark.claim("bias-eq-10", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", WITH_EQUAL)
def test_the_hypothesis_is_contradictory_exactly_for_k_below_n(n: int, k: int) -> None:
    # The equations at the points with entries LOW and HIGH, in the unknowns g(0..k), have a solution only for k = n.
    assert consistent(*two_valued_system(n, k, LOW, HIGH)) == (k == n)


@pytest.mark.claim("bias-eq-11", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n in range(1, 6) for k in range(n + 1)])
def test_the_sum_over_subsets_of_positions_is_the_mean(n: int, k: int) -> None:
    for a in ([Q(1, i + 1) for i in range(n)], [Q(1)] * n, two_valued(n, n // 2)):
        choices = [[a[i] for i in places] for places in combinations(range(n), k)]
        total = sum((arbitrary(*z) for chosen in choices for z in permutations(chosen)), Q(0))
        count = prod(range(n - k + 1, n + 1))  # n!/(n-k)!
        assert total / count == expectation(arbitrary, uniform_tuples(n, k), a)


@pytest.mark.claim("bias-eq-12-14", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n in range(1, 6) for k in range(n + 1)])
def test_an_unbiased_h_makes_F_the_mean_over_subsets(n: int, k: int) -> None:
    # The step E h = mean over subsets of f_k, for any h, hence for an unbiased one; with coinciding entries too.
    for a in ([Q(1, i + 1) for i in range(n)], two_valued(n, n // 2)):
        f = symmetrise(arbitrary, k)
        assert mean_over_subsets(f, a, k) == expectation(arbitrary, uniform_tuples(n, k), a)


@pytest.mark.claim("bias-eq-15-18", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n, k in WITH_EQUAL if n <= 6])
def test_f_is_fixed_at_equal_entries(n: int, k: int) -> None:
    # The mean over subsets of any symmetric f is f(b, .., b) itself, so an unbiased one equals F = 1/(1 + nb) there.
    f = symmetrise(arbitrary, k)
    assert mean_over_subsets(f, (LOW,) * n, k) == f(*(LOW,) * k)
    assert softmax((LOW,) * n) == 1 / (1 + n * LOW) == proof.forced(n, k, LOW, HIGH)[0]


@pytest.mark.claim("bias-eq-19-20", shows="statement", evidence="proof")
def test_one_different_entry_fixes_the_next_value() -> None:
    n, k = sp.symbols("n k", integer=True, positive=True)
    # The shares of the subsets without and with the odd one, for symbolic n and k:
    assert sp.combsimp(sp.binomial(n - 1, k) / sp.binomial(n, k) - (n - k) / n) == 0
    assert sp.combsimp(sp.binomial(n - 1, k - 1) / sp.binomial(n, k) - k / n) == 0
    # Solving F = (n-k)/n f0 + k/n f1 for f1:
    F, f0, f1 = sp.symbols("F f0 f1")
    (solution,) = sp.solve(sp.Eq(F, (n - k) / n * f0 + k / n * f1), f1)
    assert sp.simplify(solution - (n / k * F - (n - k) / k * f0)) == 0
    for size, drawn in ALL:
        expected = Q(size, drawn) * softmax(two_valued(size, 1)) - Q(size - drawn, drawn) / (1 + size * LOW)
        assert proof.forced(size, drawn, LOW, HIGH)[1] == expected


@pytest.mark.claim("bias-eq-21-22", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", WITH_EQUAL)
def test_number_of_subsets_with_j_different_entries(n: int, k: int) -> None:
    for m in range(k + 1):
        counted = [0] * (k + 1)
        for places in combinations(range(n), k):
            counted[sum(i >= n - m for i in places)] += 1
        assert counted == [comb(n - m, k - j) * comb(m, j) for j in range(k + 1)]
        # So the mean over subsets of a symmetric f is that sum of its values g(j).
        g = [Q(1, 2 + j) for j in range(k + 1)]
        by_count = lambda *z, g=g: g[z.count(HIGH)]  # noqa: E731
        total = sum((c * value for c, value in zip(counted, g, strict=True)), Q(0))
        assert mean_over_subsets(by_count, two_valued(n, m), k) == total / comb(n, k)


@pytest.mark.claim("bias-eq-23", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", WITH_EQUAL)
@pytest.mark.parametrize("low,high", [(LOW, HIGH), (Q(3), Q(1, 100)), (Q(1), Q(1))])
def test_g_is_the_combination_with_coefficients_c(n: int, k: int, low: Fraction, high: Fraction) -> None:
    c, g = proof.coefficients(n, k), proof.forced(n, k, low, high)
    for m in range(k + 1):
        assert g[m] == sum((c[m][i] * proof.value(n, low, high, i) for i in range(m + 1)), Q(0))


@pytest.mark.parametrize("n,k", WITH_EQUAL)
def test_closed_forms_of_c(n: int, k: int) -> None:
    c = proof.coefficients(n, k)
    for m in range(k + 1):
        for i in range(k + 1):  # sum_r (-1)^(r-i) binom(r, i) binom(m, r) (n)_r/(k)_r, with falling factorials
            terms = (Q((-1) ** (r - i) * comb(r, i) * comb(m, r) * perm(n, r), perm(k, r)) for r in range(i, m + 1))
            assert c[m][i] == sum(terms)
        assert sum(c[m]) == 1
    # The last row is the Lagrange weights of the nodes 0..k at n; for k = n the table is the identity.
    assert c[k] == [prod((Q(n - j, i - j) for j in range(k + 1) if j != i), start=Q(1)) for i in range(k + 1)]
    if k == n:
        assert c == [[Q(int(i == m)) for i in range(k + 1)] for m in range(k + 1)]


@pytest.mark.claim("bias-eq-25-31", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n, k in WITH_EQUAL if n <= 6])
def test_induction_step_with_unknown_values_of_F(n: int, k: int) -> None:
    # F_l stands for 1/(1 + (n-l) b_1 + l b_2): unknowns, so that the step is checked coefficient by coefficient.
    F, c = sp.symbols(f"F:{k + 1}"), proof.coefficients(n, k)
    g = [sum(sp.Rational(c[m][i].numerator, c[m][i].denominator) * F[i] for i in range(m + 1)) for m in range(k + 1)]
    assert c[0][0] == 1  # (25)
    for m in range(k + 1):
        split = sum(comb(n - m, k - j) * comb(m, j) * g[j] for j in range(m))
        step = sp.Rational(comb(n, k), comb(n - m, k - m)) * F[m] - split / sp.Integer(comb(n - m, k - m))  # (27)
        assert sp.expand(step - g[m]) == 0


@pytest.mark.claim("bias-eq-32-34", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n in range(1, 9) for k in range(n)])
def test_bound_on_g(n: int, k: int) -> None:
    largest = max(abs(entry) for row in proof.coefficients(n, k) for entry in row)
    for low, high in [(LOW, HIGH), (Q(3), Q(1, 100)), (Q(1, 1000), Q(1, 1000)), (Q(100), Q(1, n))]:
        for j, value in enumerate(proof.forced(n, k, low, high)):
            bound = (j + 1) * largest / (1 + (n - k) * low)
            assert abs(value) < bound if k else value == bound  # for k = 0 the strict step (33) is an equality


@pytest.mark.claim("bias-final-contradiction", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", ALL)
def test_the_papers_choice_contradicts(n: int, k: int) -> None:
    got = proof.contradiction(n, k)
    assert got.low > 0
    assert got.largest == max(abs(entry) for row in proof.coefficients(n, k) for entry in row)
    assert (got.high, got.required, got.bound) == (Q(1, n), Q(1, 2), Q(1, 2))
    assert abs(got.forced) < got.bound  # yet g(k) would have to be 1/2
    assert got.required - got.forced == proof.gap(n, k, got.low, got.high)


@pytest.mark.claim("bias-final-contradiction", shows="statement", evidence="proof")
def test_any_two_different_values_contradict_for_all_n_and_k() -> None:
    # p(s) = (1 - prod_j (j - s) d/(c + jd)) / (c + sd) with j = 0..k. At s = -c/d every factor is 1, so the numerator
    # vanishes where the denominator does: p is a polynomial of degree k. At s = j a factor is 0: p(j) = 1/(c + jd).
    # The mean over k-subsets, g(k) at s = n, is p too; 1/(c + sd) - p(s) = prod_j (j - s) d/(c + jd) / (c + sd).
    c, d, s, j, n = sp.symbols("c d s j n", positive=True)
    factor = (j - s) * d / (c + j * d)
    assert sp.simplify(factor.subs(s, -c / d)) == 1
    assert factor.subs(s, j) == 0
    # One more node multiplies the error by (j - n) d/(c + jd), and `gap` by the same: -(n - j) d/(c + jd).
    assert sp.simplify(factor.subs(s, n) - (-d * (n - j) / (c + j * d))) == 0
    # It is not zero for k < n: no factor j - n is.


@given(positive, positive)
@settings(max_examples=30, deadline=None)
def test_gap_in_closed_form(low: Fraction, high: Fraction) -> None:
    for n, k in WITH_EQUAL:
        missing = 1 / (1 + n * high) - proof.forced(n, k, low, high)[k]
        assert missing == proof.gap(n, k, low, high)
        assert (missing != 0) == (k < n and low != high)
