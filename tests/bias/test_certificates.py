"""The short proof by the mixed difference, and its certificates for schemes that read fewer than all negatives."""

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations, product

import mpmath
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.bias import certificates, estimators, reading
from sumexp.bias.rational import softmax
from sumexp.bias.reading import STOP, History, Scheme, distinct
from tests.bias.tuples import consistent, two_valued_system

Q = Fraction
sides = st.tuples(st.fractions(Q(1, 20), 10, max_denominator=20), st.fractions(Q(1, 20), 10, max_denominator=20))


def adaptive(history: History) -> Mapping[int | None, Fraction]:
    """Reads negative 0 or 1; after a large value it reads 2 and stops, else it may go on to 3, never all four."""
    if not history:
        return {0: Q(1, 3), 1: Q(2, 3), None: Q(0)}
    index, value = history[-1]
    if len(history) == 1:
        return {2: Q(1)} if value > 2 else {3: Q(3, 4), None: Q(1, 4)}
    return {1 - history[0][0]: Q(1, 2), None: Q(1, 2)} if len(history) == 2 and index == 3 else STOP


def until_two_differ(history: History) -> Mapping[int | None, Fraction]:
    """Draws with replacement from four negatives until two values differ or four draws are done, at most three seen."""
    if len({value for _, value in history}) > 1 or len(history) == 4 or len(distinct(history)) == 3:
        return STOP
    return dict.fromkeys(range(4), Q(1, 4))


SCHEMES: dict[str, Scheme] = {
    "uniform subsets": reading.without_replacement(4, 3),
    "one read": reading.without_replacement(4, 1),
    "nothing read": reading.fixed({(): Q(1)}),
    "with replacement": reading.with_replacement((Q(1, 2), Q(1, 4), Q(1, 8), Q(1, 8)), 3),
    "random size": reading.fixed({(): Q(1, 4), (2,): Q(1, 4), (0, 3): Q(1, 4), (3, 1, 0, 3): Q(1, 4)}),
    "adaptive": adaptive,
    "adaptive stopping": until_two_differ,
}
LOWER, UPPER = (Q(1, 2), Q(1), Q(2, 3), Q(1, 10)), (Q(3), Q(5, 2), Q(7), Q(4))


@pytest.mark.claim("sumexp-mixed-difference", shows="statement", evidence="proof")
def test_difference_annihilates_a_leaf_and_not_the_softmax() -> None:
    # A leaf that has not read coordinate j contributes a term g free of x_j: its difference in x_j is g - g, and the
    # other coordinates' differences of 0 stay 0. One coordinate's difference turns e^{-t(R + x)} into
    # e^{-tR} (e^{-tv} - e^{-tu}), R all the rest; n of them give (-1)^n e^{-t} prod_i (e^{-tu_i} - e^{-tv_i}), all of
    # whose factors are positive for t > 0, and F is the integral of e^{-t(1+S)} over t.
    t, R, u, v, x, g = sp.symbols("t R u v x g", positive=True)

    def difference(f: sp.Expr) -> sp.Expr:
        return f.subs(x, v) - f.subs(x, u)

    assert difference(g) == 0
    assert sp.simplify(difference(sp.exp(-t * (R + x))) + sp.exp(-t * R) * (sp.exp(-t * u) - sp.exp(-t * v))) == 0
    step = sp.symbols("step", positive=True)  # v = u + step
    assert sp.simplify(sp.exp(-t * u) - sp.exp(-t * (u + step)) - sp.exp(-t * u) * (1 - sp.exp(-t * step))) == 0
    factor = 1 - sp.exp(-t * step)  # 0 at step = 0 and rising: positive
    assert factor.subs(step, 0) == 0
    assert sp.diff(factor, step).is_positive
    assert sp.integrate(sp.exp(-t * (1 + R)), (t, 0, sp.oo)) == 1 / (1 + R)


@pytest.mark.claim("bias-thm-3-1", shows="statement", evidence="proof")
def test_theorem_by_finite_differences_for_all_n_and_k() -> None:
    # On the corners of a cube the mean over uniform k-subsets is a polynomial of degree <= k in the number s of high
    # entries: binom(s, j) binom(n-s, k-j) has degree j + (k-j). The n-th difference of such a polynomial is 0 for
    # k < n. That of f(s) = 1/(c + sd) is G_n(c) = n! (-d)^n / prod_{j=0}^n (c + jd), by induction on n: G_n(c+d) and
    # G_n(c) share the factors j = 1..n, called P; their difference must be G_{n+1}(c).
    n, c, d, P = sp.symbols("n c d P", positive=True)
    current, next_ = 1 / (c * P), 1 / (P * (c + (n + 1) * d))
    assert sp.simplify(next_ - current - (n + 1) * (-d) / (c * P * (c + (n + 1) * d))) == 0
    # degree: the leading terms of both binomials multiply, for every j and k
    s, size = sp.symbols("s size")
    for k in range(6):
        for j in range(k + 1):
            term = sp.ff(s, j) / sp.factorial(j) * sp.ff(size - s, k - j) / sp.factorial(k - j)
            assert sp.degree(sp.expand(sp.expand_func(term)), s) == k
    # the n-th difference lowers the degree by n: one step lowers it by at least one
    m = sp.symbols("m", integer=True, positive=True)
    assert sp.simplify(sp.limit(((s + 1) ** m - s**m) / s**m, s, sp.oo)) == 0


@pytest.mark.claim("bias-thm-3-1", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n in range(1, 7) for k in range(n)])
def test_theorem_by_an_infeasible_system(n: int, k: int) -> None:
    # Unknown: f_k at each multiset of values from {1, 2}; one equation per multiset of n.
    matrix, right = two_valued_system(n, k, 1, 2)
    assert not consistent(matrix, right)
    # The certificate: the alternating binomials combine the equations to 0 = Delta F != 0.
    signs = [(-1) ** (n - m) * math.comb(n, m) for m in range(n + 1)]
    assert all(sum(s * row[j] for s, row in zip(signs, matrix, strict=True)) == 0 for j in range(k + 1))
    total = sum(s * value for s, value in zip(signs, right, strict=True))
    assert total == certificates.cube_difference(n, 1, 2) != 0


@pytest.mark.claim("bias-cor-3-3", shows="statement", evidence="exact")
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_law_on_distinct_indices_helps(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 4))
    tuples = list(permutations(range(n), data.draw(st.integers(1, n - 1))))
    parts = data.draw(st.lists(st.integers(0, 5), min_size=len(tuples), max_size=len(tuples)).filter(any))
    law = {drawn: Q(part, sum(parts)) for drawn, part in zip(tuples, parts, strict=True)}
    certificate = certificates.certify(reading.fixed(law), (1,) * n, (3,) * n)
    assert certificate.value == certificates.cube_difference(n, 1, 3) != 0


@pytest.mark.claim("bias-cor-3-3", shows="statement", evidence="proof")
def test_every_single_tuple_is_annihilated_so_every_law_on_them_is() -> None:
    # A tuple of k < n distinct indices leaves some x_j unread: h(a_I), with or without knowledge of I, is free of x_j;
    # a law fixed before the logits weighs such terms by constants p, and the difference is linear.
    p, u, v, x, rest = sp.symbols("p u v x rest")
    h, others = sp.Function("h"), sp.Function("others")
    term = p * h(rest) + others(rest)
    assert term.subs(x, v) - term.subs(x, u) == 0
    # The softmax's difference in that one coordinate is not zero: 1/(1+R+v) - 1/(1+R+u) = -(v-u)/((1+R+v)(1+R+u)).
    R = sp.symbols("R", positive=True)
    assert sp.simplify(1 / (1 + R + v) - 1 / (1 + R + u) + (v - u) / ((1 + R + v) * (1 + R + u))) == 0
    # All n of them, on a cube: n! (-d)^n / prod (1 + nu + jd), as in the test of the theorem and in Coq's `equal_box`.
    for n in range(1, 10):
        d, by_corners = Q(13, 6), certificates.mixed_difference(softmax, (Q(1, 3),) * n, (Q(5, 2),) * n)
        proved = math.factorial(n) * (-d) ** n / math.prod(1 + n * Q(1, 3) + j * d for j in range(n + 1))
        assert by_corners == certificates.cube_difference(n, Q(1, 3), Q(5, 2)) == proved != 0


@pytest.mark.claim("bias-log-impossible", shows="statement", evidence="proof")
def test_log_softmax_has_a_mixed_difference_too() -> None:
    # The n-th difference of log(c + sd) is the (n-1)-th difference of log((c + sd + d)/(c + sd)), the integral over
    # z in [0, d] of 1/(c + z + sd); by the theorem's induction that has the sign (-1)^(n-1) throughout: not zero. No
    # derivative of the estimator is taken (B9).
    c, d, s, z = sp.symbols("c d s z", positive=True)
    integral = sp.integrate(1 / (c + z + s * d), (z, 0, d))
    assert sp.simplify(sp.expand_log(integral - (sp.log(c + s * d + d) - sp.log(c + s * d)), force=True)) == 0


@pytest.mark.claim("bias-log-impossible", shows="statement", evidence="exact")
@pytest.mark.parametrize("name", SCHEMES)
def test_certificate_for_log_softmax(name: str) -> None:
    certificate = certificates.certify(SCHEMES[name], LOWER, UPPER, "log")
    assert certificate.value != 1
    assert (certificate.value > 1) == (len(LOWER) % 2 == 1)  # Delta log(1+S) has the sign (-1)^(n-1)
    assert certificate.difference == pytest.approx(-math.log(certificate.value), rel=1e-12)


def test_on_a_tiny_box_and_a_huge_one_the_log_softmax_keeps_its_digits() -> None:
    # (1 + S) at the corners of (1, 1 + d)^2: 3 (3 + 2d) / (3 + d)^2 = 1 - d^2 / (3 + d)^2, of which -log is d^2 / 9.
    d = Q(1, 10**9)
    certificate = certificates.certify(reading.without_replacement(2, 1), (1, 1), (1 + d, 1 + d), "log")
    assert certificate.value == 1 - d**2 / (3 + d) ** 2
    assert certificate.difference == pytest.approx(float(d**2 / (3 + d) ** 2), rel=1e-14, abs=0)
    assert certificate.difference == pytest.approx(1e-18 / 9, rel=1e-8, abs=0)
    huge = certificates.certify(reading.without_replacement(2, 1), (Q(1, 10**20),) * 2, (10**20,) * 2, "log")
    assert huge.difference == pytest.approx(20 * math.log(10) - math.log(2), rel=1e-15)


@pytest.mark.claim("sumexp-mixed-difference", shows="statement", evidence="exact")
@pytest.mark.parametrize("name", SCHEMES)
def test_certificate_for_every_way_of_reading(name: str) -> None:
    scheme = SCHEMES[name]
    certificate = certificates.certify(scheme, LOWER, UPPER)
    differences = certificates.annihilated(scheme, LOWER, UPPER)
    assert (set(differences.values()), len(differences)) == ({0}, certificate.histories)
    with mpmath.workdps(30):
        integral = mpmath.quad(
            lambda t: (
                mpmath.exp(-t)
                * mpmath.fprod(
                    mpmath.exp(-t * mpmath.mpf(float(u))) - mpmath.exp(-t * mpmath.mpf(float(v)))
                    for u, v in zip(LOWER, UPPER, strict=True)
                )
            ),
            [0, 1, 5, mpmath.inf],
        )
    assert float(certificate.value) == pytest.approx(float(integral), rel=1e-12)  # (-1)^4 = 1


@pytest.mark.claim("sumexp-mixed-difference", shows="statement", evidence="exact")
@given(st.lists(sides.filter(lambda s: s[0] < s[1]), min_size=1, max_size=4), st.data())
@settings(max_examples=25, deadline=None)
def test_every_estimator_of_an_adaptive_scheme_has_that_bias(box: list[tuple[Q, Q]], data: st.DataObject) -> None:
    n = len(box)
    lower, upper = zip(*box, strict=True)
    answers: dict[History, Fraction] = {}

    def output(history: History) -> Fraction:
        return answers.setdefault(history, data.draw(st.fractions(-2, 2, max_denominator=5)))

    def scheme(history: History) -> Mapping[int | None, Fraction]:
        unread = [i for i in range(n) if i not in distinct(history)]
        if len(unread) == 1 or (history and history[-1][1] > 3):
            return STOP
        return {unread[0]: Q(1, 3), unread[-1]: Q(2, 3)} if len(unread) > 1 else {unread[0]: Q(1)}

    def mean(a: tuple[Q, ...]) -> Fraction:
        return sum((p * output(history) for history, p in reading.outcomes(scheme, a).items()), Q(0))

    certificate = certificates.certify(scheme, lower, upper)
    assert certificates.mixed_difference(mean, lower, upper) == 0
    worst = max(abs(mean(a) - softmax(a)) for a in product(*box))
    assert worst >= abs(certificate.value) / 2**n
    assert certificate.bias == pytest.approx(float(abs(certificate.value) / 2**n), rel=1e-15, abs=0)


def test_the_softmax_of_a_negative_is_impossible_on_some_boxes_but_its_difference_vanishes_on_others() -> None:
    # On [1,2]^2: -1/60. Its mixed derivative has the sign of 1 + S - n a_1, which can change: on [1,6] x [1,2]
    # 6/9 - 6/8 - 1/4 + 1/3 = 0, and no certificate exists there. (A choice of box is needed.)
    scheme = reading.without_replacement(2, 1)
    assert certificates.certify(scheme, (1, 1), (2, 2), certificates.negative(0)).value == -Q(1, 60)
    assert certificates.mixed_difference(certificates.negative(0), (1, 1), (6, 2)) == 0
    with pytest.raises(ValueError, match="vanishes on this box"):
        certificates.certify(scheme, (1, 1), (2, 6), certificates.negative(1))
    # Where each a_i is at most 1/n it cannot: n a_1 <= 1 < 1 + S.
    for n in range(1, 7):
        small = certificates.mixed_difference(certificates.negative(0), (Q(1, 3 * n),) * n, (Q(1, n),) * n)
        assert small * (-1) ** (n - 1) > 0


def test_the_proof_says_how_large_an_unbiased_estimate_must_get() -> None:
    # N6: for an unbiased T only the outcomes with all n read carry the difference, here of a roulette on n = 3.
    schedule, a = estimators.roulette([1, Q(1, 2), Q(1, 4)]), (1, 2)
    everything = Q(0)
    for sign, point in certificates.corners((a[0],) * 3, (a[1],) * 3):
        full = sum((p * t for (t, reads), p in estimators.law(schedule, point).items() if reads == 3), Q(0))
        everything += sign * full
    assert everything == certificates.cube_difference(3, *a)


def test_a_scheme_reads_the_indices_that_it_names() -> None:
    law = reading.outcomes(adaptive, (1, 5, 2, 3))
    # From 0 (value 1, small): stop 1/4, or on to 3, then back to 1 or stop. From 1 (value 5, large): 2 and stop.
    small, large = Q(1, 3), Q(2, 3)
    assert law == {
        ((0, 1),): small / 4,
        ((0, 1), (3, 3)): small * Q(3, 4) / 2,
        ((0, 1), (3, 3), (1, 5)): small * Q(3, 4) / 2,
        ((1, 5), (2, 2)): large,
    }
    assert sum(law.values()) == 1


@pytest.mark.claim("sumexp-unread-target", shows="statement", evidence="exact")
@pytest.mark.parametrize("n", range(1, 6))
def test_the_target_may_be_the_class_that_is_left_unread(n: int) -> None:
    # n of the n + 1 exponentials are read, the target's among them or not.
    scheme = reading.without_replacement(n + 1, n)
    lower, upper = (1, *(3,) * n), (2, *(4,) * n)
    assert set(certificates.annihilated(scheme, lower, upper).values()) == {0}

    def target(b: tuple[Q, ...]) -> Fraction:
        return b[0] / sum(b)

    assert certificates.mixed_difference(target, lower, upper) != 0
    # On [1, 2]^(n+1) all classes are alike and their softmaxes add up to 1, whose difference is 0: so is each.
    assert certificates.mixed_difference(target, (1,) * (n + 1), (2,) * (n + 1)) == 0


@pytest.mark.claim("sumexp-unread-target", shows="statement", evidence="proof")
def test_signs_of_the_mixed_derivatives_for_all_n() -> None:
    # Over all exponentials, their total T with the target's b0 among them, the derivative in b0 and n others is
    # (-1)^n n! (T - (n + 1) b0) / T^(n + 2), by induction on n: at n = 0 it is that of b0 / T, and each further
    # derivative, in an exponential that is in T alone, turns n into n + 1. Where each of the n is at least b0, T is
    # more than (n + 1) b0 but on the edge: one sign, so that the mixed difference, its integral, is not 0.
    n = sp.symbols("n", integer=True, nonnegative=True)
    b, rest, x = sp.symbols("b rest x", positive=True)

    def derivative(order: sp.Expr, total: sp.Expr) -> sp.Expr:
        return (-1) ** order * sp.factorial(order) * (total - (order + 1) * b) / total ** (order + 2)

    assert sp.simplify(sp.diff(b / (b + rest), b) - derivative(sp.Integer(0), b + rest)) == 0
    step = sp.diff(derivative(n, rest + x), x) / derivative(n + 1, rest + x)
    assert sp.simplify(sp.combsimp(sp.powsimp(sp.expand_func(step)))) == 1
    i, over = sp.symbols("i", integer=True), sp.IndexedBase("over", nonnegative=True)  # each is b0 + over_i
    total = b + sp.Sum(b + over[i], (i, 1, n))
    assert sp.simplify((total - (n + 1) * b - sp.Sum(over[i], (i, 1, n))).doit()) == 0
    # A negative's softmax a1 / (1 + S) is the same with n - 1 others: its total, too, has a1 in it.
