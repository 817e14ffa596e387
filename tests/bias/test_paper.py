"""Sections 1 to 3 of the paper, its appendices A, B, D, E, F, and their errors, exactly."""

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from math import factorial, log

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.bias import certificates, estimators, reading
from sumexp.bias.rational import Rational, softmax
from tests.bias.tuples import arbitrary, expectation, uniform_tuples
from tests.exact import draws

Q = Fraction
ratios = st.fractions(min_value=Q(1, 20), max_value=20, max_denominator=20)

y, S, x = sp.symbols("y S x", positive=True)


def sampled(a: tuple[Rational, ...], drawn: tuple[int, ...], w: tuple[Rational, ...]) -> Fraction:
    """Equation (4): 1 / (1 + sum_j w(i_j) a_{i_j})."""
    return softmax([w[i] * a[i] for i in drawn])


def sampled_mean(a: tuple[Rational, ...], q: tuple[Fraction, ...], w: tuple[Rational, ...], k: int = 1) -> Fraction:
    return sum((p * sampled(a, drawn, w) for drawn, p in draws(q, k)), Q(0))


def importance(q: tuple[Fraction, ...], k: int = 1) -> tuple[Fraction, ...]:
    return tuple(1 / (k * p) for p in q)


@pytest.mark.claim("bias-grad-positive", shows="statement", evidence="proof")
def test_gradient_in_the_target_is_one_minus_softmax() -> None:
    # S stands for the sum over all negatives, whatever their number: it does not contain y.
    full = sp.exp(y) / (sp.exp(y) + S)
    assert sp.simplify(sp.diff(sp.log(full), y) - (1 - full)) == 0


@pytest.mark.claim("bias-grad-negative", shows="statement", evidence="proof")
def test_gradient_in_a_negative_is_minus_its_softmax() -> None:
    # Z = e^{y_i} + S, S the target and the other negatives.
    loss = x - sp.log(sp.exp(y) + S)
    assert sp.simplify(sp.diff(loss, y) + sp.exp(y) / (sp.exp(y) + S)) == 0


@pytest.mark.claim("bias-logsoftmax-loss", shows="counterexample", evidence="proof")
def test_descending_the_printed_loss_makes_the_target_less_likely() -> None:
    # B14. Its slope in the target's logit is 1 - softmax > 0: a step of descent lowers that logit. At n = 1, both
    # logits 0, one step of size 1 takes the target from probability 1/2 to 1/(1 + e^{1/2} e^{1/2}) = 1/(1 + e).
    assert sp.simplify(sp.diff(y - sp.log(sp.exp(y) + S), y) - S / (S + sp.exp(y))) == 0  # positive
    target, negative = 0 - sp.Rational(1, 2), 0 + sp.Rational(1, 2)
    after = sp.exp(target) / (sp.exp(target) + sp.exp(negative))
    assert sp.simplify(after - 1 / (1 + sp.E)) == 0
    assert after < sp.Rational(1, 2)


@pytest.mark.claim("bias-logsoftmax-loss", shows="correction", evidence="proof")
def test_minus_log_softmax_falls_in_the_target_and_is_positive() -> None:
    loss = sp.log(sp.exp(y) + S) - y
    assert sp.simplify(sp.diff(loss, y) + S / (S + sp.exp(y))) == 0  # negative
    assert sp.simplify(sp.exp(loss) - (1 + S / sp.exp(y))) == 0  # e^loss > 1
    assert sp.simplify(sp.diff(loss, y, 2) - S * sp.exp(y) / (S + sp.exp(y)) ** 2) == 0  # convex


@pytest.mark.claim("bias-cost", shows="statement", evidence="exact")
@pytest.mark.parametrize("n", [1, 10, 100, 1000])
def test_the_softmax_takes_n_additions_and_every_logit_matters(n: int) -> None:
    a = sp.symbols(f"a1:{n + 1}", positive=True)
    assert sp.count_ops(softmax_of := 1 / sp.Add(1, *a), visual=True) == n * sp.Symbol("ADD") + sp.Symbol("DIV")
    # An answer that leaves out logit i is the same at two points whose softmax differs.
    for i in {0, n // 2, n - 1}:
        assert sp.diff(softmax_of, a[i]).is_negative


@pytest.mark.claim("bias-hard-negative", shows="statement", evidence="proof")
def test_gradient_in_a_sampled_negative_rises_with_its_logit() -> None:
    # d loss / d y_i = e^{y_i} / (e^{y_i} + S), S the rest of the sampled denominator; its slope is p (1 - p) > 0, and
    # in one sample all share the denominator, so that the order by gradient is the order by logit.
    gradient = sp.diff(sp.log(sp.exp(y) + S) - x, y)
    assert sp.simplify(sp.diff(gradient, y) - gradient * (1 - gradient)) == 0
    other = sp.symbols("other", real=True)
    shares = [sp.exp(z) / (sp.exp(y) + sp.exp(other) + S) for z in (y, other)]
    assert sp.simplify(shares[0] / shares[1] - sp.exp(y - other)) == 0


A5, Q5, W5 = (1, 1), (Q(1, 2), Q(1, 2)), (1, 5)


def mean_gradient(a: tuple[Rational, ...], q: tuple[Fraction, ...], w: tuple[Rational, ...]) -> list[Fraction]:
    """E of the sampled gradient of log softmax for one draw: the target's coordinate, then the negatives'."""
    mean = [Q(0)] * (1 + len(a))
    for (i,), p in draws(q, 1):
        value = sampled(a, (i,), w)
        mean[0] += p * (1 - value)
        mean[1 + i] -= p * (1 - value)
    return mean


@pytest.mark.claim("bias-eq5-eq6", shows="counterexample", evidence="exact")
def test_an_unbiased_value_with_a_biased_gradient() -> None:
    # B5. a = (1, 1): the softmax is 1/3 for all three classes. w = (1, 5): 1/(1+1) = 1/2 or 1/(1+5) = 1/6.
    assert sampled_mean(A5, Q5, W5) == (Q(1, 2) + Q(1, 6)) / 2 == Q(1, 3) == softmax((1, 1))
    # The draws' own shares 1/2 and 5/6, each with probability 1/2: 1/4 and 5/12 where 1/3 is wanted.
    assert mean_gradient(A5, Q5, W5) == [Q(2, 3), -Q(1, 4), -Q(5, 12)]


@pytest.mark.claim("bias-eq5-eq6", shows="correction", evidence="proof")
def test_an_unbiased_gradient_has_an_unbiased_value_and_neither_exists_everywhere() -> None:
    # The target's coordinate of every sampled gradient is 1 - value, so its mean is 1 - E value.
    sampled_value = sp.exp(y) / (sp.exp(y) + S)
    assert sp.simplify(sp.diff(sp.log(sampled_value), y) - (1 - sampled_value)) == 0
    # As identities in all logits both fail: the value's mixed difference is not zero, the scheme's is.
    scheme = reading.with_replacement(Q5, 1)
    assert certificates.certify(scheme, (1, 1), (2, 2)).value == softmax((2, 2)) - 2 * softmax((1, 2)) + softmax((1, 1))
    # A negative's own coordinate: 2/5 - 2/4 - 1/4 + 1/3 = -1/60.
    of_negative = certificates.certify(scheme, (1, 1), (2, 2), certificates.negative(0))
    assert of_negative.value == Q(2, 5) - Q(2, 4) - Q(1, 4) + Q(1, 3) == -Q(1, 60)


@pytest.mark.claim("bias-ss-biased", shows="statement", evidence="proof")
def test_bias_is_jensens_gap_and_vanishes_only_for_a_constant_sum() -> None:
    # 1/(1+X) - tangent at mu = (X - mu)^2 / ((1+X)(1+mu)^2), which is >= 0 and zero only for X = mu; its mean is the
    # bias, as the tangent's linear part has mean zero: E X = sum_i a_i = mu for importance weights.
    X, mu = sp.symbols("X mu", positive=True)
    tangent = 1 / (1 + mu) - (X - mu) / (1 + mu) ** 2
    assert sp.simplify(1 / (1 + X) - tangent - (X - mu) ** 2 / ((1 + X) * (1 + mu) ** 2)) == 0
    # With other weights it is wrong near a = 0: a negative drawn N times has the slope -N w there, F the slope -1.
    w, a, N = sp.symbols("w a N", positive=True)
    assert sp.diff(1 / (1 + N * w * a), a).subs(a, 0) == -N * w


@pytest.mark.claim("bias-ss-biased", shows="statement", evidence="exact")
@given(st.lists(ratios, min_size=2, max_size=4), st.integers(1, 3), st.data())
@settings(max_examples=50, deadline=None)
def test_bias_by_enumeration_is_the_mean_of_that_square(a: list[Fraction], k: int, data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.integers(1, 9), min_size=len(a), max_size=len(a)))
    q = tuple(Q(part, sum(parts)) for part in parts)
    w, mu = importance(q, k), sum(a)
    gap = Q(0)
    for drawn, p in draws(q, k):
        total = sum(w[i] * a[i] for i in drawn)
        gap += p * (total - mu) ** 2 / ((1 + total) * (1 + mu) ** 2)
    bias = sampled_mean(tuple(a), q, w, k) - softmax(a)
    assert bias == gap
    assert (bias == 0) == (len({w[i] * a[i] for i in range(len(a))}) == 1)


@pytest.mark.claim("bias-general-claim", shows="statement", evidence="exact")
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_estimator_is_biased_at_some_corner(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 4))
    k = data.draw(st.integers(0, n - 1))
    # An arbitrary s: its values at the tuples of ones and twos are drawn at random.
    table = {z: data.draw(st.fractions(-3, 3, max_denominator=9)) for z in product((1, 2), repeat=k)}
    law = uniform_tuples(n, k)
    worst = max(abs(expectation(lambda *z: table[z], law, a) - softmax(a)) for a in product((1, 2), repeat=n))
    assert worst >= abs(certificates.cube_difference(n, 1, 2)) / 2**n > 0


def distance(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> Fraction:
    return sum((abs(s - t) for s, t in zip(p, q, strict=True)), Q(0)) / 2


def divergence(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> float:
    return sum(float(s) * log(s / t) for s, t in zip(p, q, strict=True))


def one_draw_bias(a: tuple[Rational, ...], q: tuple[Fraction, ...]) -> Fraction:
    return sampled_mean(a, q, importance(q)) - softmax(a)


@pytest.mark.claim("bias-closer-q", shows="counterexample", evidence="exact")
def test_a_law_closer_to_the_softmax_can_be_more_biased() -> None:
    # B12. Closer in total variation and in both Kullback-Leibler divergences, by a third at least.
    a = (50, 20, 2)
    ideal = (Q(50, 72), Q(20, 72), Q(2, 72))
    near, far = (Q(2, 5), Q(3, 10), Q(3, 10)), (Q(1, 10), Q(4, 5), Q(1, 10))
    for measure in (distance, divergence, lambda p, q: divergence(q, p)):
        assert 1.5 * measure(near, ideal) < measure(far, ideal)
    # By hand: sum_i q_i^2 / (q_i + a_i) - 1/(1 + 72).
    assert one_draw_bias(a, near) == Q(4, 25) / Q(252, 5) + Q(9, 100) / Q(203, 10) + Q(9, 100) / Q(23, 10) - Q(1, 73)
    assert one_draw_bias(a, near) > Q(149, 100) * one_draw_bias(a, far)


@pytest.mark.claim("bias-closer-q", shows="correction", evidence="proof")
def test_bias_vanishes_at_the_softmax_and_falls_on_the_line_to_it() -> None:
    # One draw: E value = sum_i q_i^2 / (q_i + a_i), each term convex in q_i: second derivative 2 a^2 / (q + a)^3 > 0.
    # A convex function that is 0 at q* and >= 0 falls along the segment from any q to q*.
    q, a = sp.symbols("q a", positive=True)
    assert sp.simplify(sp.diff(q**2 / (q + a), q, 2) - 2 * a**2 / (q + a) ** 3) == 0
    ratios, start = (50, 20, 2), (Q(1, 10), Q(1, 10), Q(8, 10))
    ideal = tuple(Q(r, 72) for r in ratios)
    on_the_way = [
        one_draw_bias(ratios, tuple(s + Q(step, 8) * (t - s) for s, t in zip(start, ideal, strict=True)))
        for step in range(9)
    ]
    assert on_the_way == sorted(on_the_way, reverse=True)
    assert on_the_way[-1] == 0 < on_the_way[-2]


@pytest.mark.claim("bias-larger-k", shows="statement", evidence="exact")
@given(st.lists(ratios, min_size=2, max_size=3), st.data())
@settings(max_examples=20, deadline=None)
def test_more_draws_never_raise_the_bias(a: list[Fraction], data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.integers(1, 9), min_size=len(a), max_size=len(a)))
    q = tuple(Q(part, sum(parts)) for part in parts)
    means = [sampled_mean(tuple(a), q, importance(q, k), k) for k in range(1, 7 if len(a) == 2 else 5)]
    assert means == sorted(means, reverse=True)
    assert min(means) >= softmax(a)
    n = len(a)  # uniformly without replacement, w = n/k: down to the softmax itself at k = n
    means = [expectation(lambda *z: estimators.partial(z, n), uniform_tuples(n, k), a) for k in range(1, n + 1)]
    assert means == sorted(means, reverse=True)
    assert means[-1] == softmax(a)


@pytest.mark.claim("bias-larger-k", shows="statement", evidence="proof")
def test_a_sum_of_k_draws_is_the_mean_of_its_leave_one_out_sums() -> None:
    # X_k = (1/k) sum_j x_j; leaving out draw i, X^(i) = (1/(k-1)) sum_{j != i} x_j has the law of X_{k-1}. As mean_i
    # X^(i) = X_k, Jensen for 1/(1+X), by its tangent, gives E 1/(1+X_k) <= E 1/(1+X_{k-1}) for every k >= 2. Symbolic
    # in k: draw j stands in k - 1 of the k sums, with weight 1/(k-1) each and 1/k for the mean.
    k = sp.symbols("k", integer=True, positive=True)
    assert sp.simplify((k - 1) * (1 / (k - 1)) * (1 / k) - 1 / k) == 0
    X, mean = sp.symbols("X mean", positive=True)
    above_tangent = 1 / (1 + X) - (1 / (1 + mean) - (X - mean) / (1 + mean) ** 2)
    assert sp.simplify(above_tangent - (X - mean) ** 2 / ((1 + X) * (1 + mean) ** 2)) == 0


@pytest.mark.claim("bias-softmax-proportional", shows="statement", evidence="proof")
def test_drawn_among_the_negatives_with_importance_weights_every_sample_is_exact() -> None:
    # q_i = a_i / S and w_i = 1/(k q_i): w_i a_i = S/k, so any k draws sum to S.
    a, k = sp.symbols("a k", positive=True)
    assert sp.simplify(k * (1 / (k * (a / S)) * a) - S) == 0
    ratio = (Q(1), Q(3), Q(7, 2))
    q = tuple(value / sum(ratio) for value in ratio)
    assert {sampled(ratio, drawn, importance(q, 2)) for drawn, _ in draws(q, 2)} == {softmax(ratio)}
    # Unit weights are wrong, with three draws more than with two, which sum to 2, 4, 6 with chances 1/16, 6/16, 9/16.
    unit = [sampled_mean((1, 3), (Q(1, 4), Q(3, 4)), (1, 1), k) for k in (3, 2)]
    assert unit[0] < unit[1] == Q(1, 16) / 3 + Q(6, 16) / 5 + Q(9, 16) / 7 < softmax((1, 3))
    # So are draws from the softmax of all three classes, of which each negative adds 1/(2q) a = 5/2, hits dropped.
    law = draws((Q(1, 5), Q(1, 5), Q(3, 5)), 2)
    assert sum(p * softmax([Q(5, 2)] * sum(i > 0 for i in drawn)) for drawn, p in law) == Q(5, 21) != softmax((1, 3))


@pytest.mark.claim("bias-assumption-3-2", shows="statement", evidence="exact")
def test_only_a_law_fixed_before_the_logits_is_the_same_at_all_points() -> None:
    scheme = reading.with_replacement((Q(1, 4), Q(1, 4), Q(1, 2)), 2)

    def indices(a: tuple[Rational, ...]) -> dict[tuple[int, ...], Fraction]:
        return {tuple(i for i, _ in history): p for history, p in reading.outcomes(scheme, a).items()}

    assert indices((1, 2, 3)) == indices((5, Q(1, 7), 9))
    # Without the assumption Theorem 3.1 fails: q in proportion to a is another law at each point, and exact.
    for a in ((1, 3), (2, 5)):
        q = tuple(Q(value, sum(a)) for value in a)
        assert sampled_mean(a, q, importance(q)) == softmax(a)


@pytest.mark.claim("bias-inbatch", shows="statement", evidence="exact")
def test_in_batch_and_bm25_negatives_are_drawn_before_the_logits() -> None:
    # Four documents. In-batch: the targets of two other instances, drawn from the data's frequencies; BM25: the best
    # document by a lexical score, which is given. Neither looks at a logit; their union has one to three members.
    frequencies, lexical_best = (Q(1, 2), Q(1, 4), Q(1, 8), Q(1, 8)), 2
    law: dict[tuple[int, ...], Fraction] = {}
    for batch, p in draws(frequencies, 2):
        union = tuple(sorted({*batch, lexical_best}))
        law[union] = law.get(union, Q(0)) + p
    assert {len(union) for union in law} == {1, 2, 3}
    # At most three of four are read: no estimator is unbiased, also of a random number of logits.
    certificate = certificates.certify(reading.fixed(law), (1,) * 4, (2,) * 4)
    assert certificate.value == certificates.cube_difference(4, 1, 2)


@pytest.mark.claim("bias-footnote-3", shows="counterexample", evidence="exact")
def test_shifting_the_logits_changes_the_right_side_of_8_too() -> None:
    # B2. n = 2, k = 1, all logits 0, q = (1/4, 3/4), w = 1/q = (4, 4/3): the softmax is 1/3, that of the shifted
    # logits 1/(1 + 4 + 4/3) = 3/19.
    q = (Q(1, 4), Q(3, 4))
    assert importance(q) == (4, Q(4, 3))
    assert softmax((1, 1)) == Q(1, 3)
    assert softmax(importance(q)) == Q(3, 19)
    # And in the original logits the estimator needs the index: the same value read gives two answers.
    assert sampled((1, 1), (0,), importance(q)) == Q(1, 5) != Q(3, 7) == sampled((1, 1), (1,), importance(q))


@pytest.mark.claim("bias-footnote-3", shows="correction", evidence="exact")
def test_index_aware_estimators_are_covered_by_the_mixed_difference() -> None:
    # Whatever is put out at each (index, value): every history's own mixed difference is zero, exactly, so the weights
    # may depend on the index. (The step for all n and k is in test_certificates.)
    for n in range(2, 6):
        for k in range(1, n):
            scheme = reading.without_replacement(n, k)
            assert set(certificates.annihilated(scheme, (1,) * n, (3,) * n).values()) == {0}


@pytest.mark.claim("bias-appD-kernel", shows="statement", evidence="proof")
def test_quadratic_kernel_is_the_square_of_the_logit() -> None:
    # With g_j = f_j v_j the kernel is sum_jl g_j g_l and the logit P = sum_j g_j. A new coordinate g adds its row, its
    # column and g^2 to the kernel: P^2 + 2 g P + g^2 = (P + g)^2, so both stay equal, from d = 1 (g^2) on.
    P, g = sp.symbols("P g", real=True)
    assert sp.expand(P**2 + 2 * g * P + g**2 - (P + g) ** 2) == 0

    # It is linear in phi(v_i): the denominator takes the sum of these, which does not depend on x, and no logit.
    f, vectors = (2, -1), ((1, 3), (4, 1), (0, 5))
    summed = sum(f[i] * f[j] * sum(v[i] * v[j] for v in vectors) for i in range(2) for j in range(2))
    assert summed == sum((f[0] * v[0] + f[1] * v[1]) ** 2 for v in vectors)

    # So the law changes with the logits: (1, 2) gives (1/5, 4/5), (1, 1) gives halves; logit 0 is never drawn.
    def law(*logits: int) -> list[Fraction]:
        return [Q(z * z, sum(other * other for other in logits)) for z in logits]

    assert law(1, 2) == [Q(1, 5), Q(4, 5)] != law(1, 1) == [Q(1, 2), Q(1, 2)]
    assert law(0, 3) == [0, 1]


@pytest.mark.claim("bias-appD-softmax", shows="statement", evidence="proof")
def test_class_probability_of_inner_product_logits() -> None:
    # (1) puts the target's e^y first and sums the others; the display sums over all n + 1 classes: the same number.
    others = sp.symbols("o1:4", real=True)
    first = sp.exp(y) / (sp.exp(y) + sum(sp.exp(o) for o in others))
    assert sp.simplify(first - sp.exp(y) / sum(sp.exp(o) for o in (*others, y))) == 0


TRIPLES = {(0, 1, 2): Q(1, 2), (1, 0, 2): Q(1, 2)}
POINT = (Q(1), Q(2), Q(5))


def unbiased(*z: Rational) -> Fraction:
    """Under TRIPLES, as x_1 - x_2 changes sign."""
    return softmax(z) + z[0] - z[1]


def over_permutations(
    law: dict[tuple[int, ...], Fraction], n: int, k: int, h: Callable[[tuple[int, ...]], Fraction]
) -> Fraction:
    """The sum over sigma in S_n of p(sigma(1..k)) h(sigma(1..k)), over (n-k)!."""
    total = sum((law.get(s[:k], Q(0)) * h(s[:k]) for s in permutations(range(n))), Q(0))
    return total / factorial(n - k)


def lopsided_law(n: int, k: int) -> dict[tuple[int, ...], Fraction]:
    tuples = list(permutations(range(n), k))
    total = sum(range(1, len(tuples) + 1))
    return {drawn: Q(i + 1, total) for i, drawn in enumerate(tuples)}


SIZES = [(n, k) for n in range(1, 6) for k in range(n + 1)]


@pytest.mark.claim("bias-eq-39", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", SIZES)
def test_a_mean_over_tuples_is_a_sum_over_permutations(n: int, k: int) -> None:
    law, a = lopsided_law(n, k), [Q(1, i + 1) for i in range(n)]
    direct = expectation(arbitrary, law, a)
    assert over_permutations(law, n, k, lambda s: arbitrary(*(a[i] for i in s))) == direct
    assert sum(law[s[:k]] for s in permutations(range(n))) == factorial(n - k)


@pytest.mark.claim("bias-eq-40", shows="statement", evidence="proof")
def test_the_softmax_is_symmetric() -> None:
    # Permutations are made of exchanges of two neighbours; S is the rest of the sum, whatever n.
    first, second = sp.symbols("first second", positive=True)
    f = 1 / (1 + S + first + second)
    assert sp.simplify(f.subs({first: second, second: first}, simultaneous=True) - f) == 0
    assert {softmax(b) for b in permutations((1, 2, Q(7, 3), 4))} == {Q(1) / (8 + Q(7, 3))}


@pytest.mark.claim("bias-eq-41", shows="counterexample", evidence="exact")
def test_the_printed_order_of_composition_is_false() -> None:
    # B3. n = k = 3, p uniform on (1,2,3) and (2,1,3), h = F + x_1 - x_2.
    assert expectation(unbiased, TRIPLES, POINT) == softmax(POINT)
    printed = [
        over_permutations(TRIPLES, 3, 3, lambda s, t=t: unbiased(*(POINT[s[j]] for j in t)))
        for t in permutations(range(3))
    ]
    assert sum(value != softmax(POINT) for value in printed) == 4  # of the 6 tau


@pytest.mark.claim("bias-eq-41", shows="correction", evidence="exact")
def test_the_corrected_order_holds_for_every_permutation() -> None:
    for t in permutations(range(3)):
        assert over_permutations(TRIPLES, 3, 3, lambda s, t=t: unbiased(*(POINT[t[j]] for j in s))) == softmax(POINT)
    # In general: F(a_tau) evaluates the same mean at a'_i = a_{tau(i)}, i = sigma(j); any h, any law.
    for n, k in SIZES[1:]:
        law, b = lopsided_law(n, k), [Q(1, i + 1) for i in range(n)]
        for t in list(permutations(range(n)))[:24]:
            corrected = over_permutations(law, n, k, lambda s, t=t, b=b: arbitrary(*(b[t[j]] for j in s)))
            assert corrected == expectation(arbitrary, law, [b[i] for i in t])


@pytest.mark.claim("bias-eq-42-45", shows="statement", evidence="exact")
@pytest.mark.parametrize("n,k", [(n, k) for n, k in SIZES if n <= 4])
def test_averaging_over_all_relabellings_gives_the_uniform_law(n: int, k: int) -> None:
    law, a = lopsided_law(n, k), [Q(1, i + 1) for i in range(n)]
    uniform = expectation(arbitrary, uniform_tuples(n, k), a)
    relabellings = list(permutations(range(n)))

    def average(order: Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]) -> Fraction:
        def mean(t: tuple[int, ...]) -> Fraction:
            return over_permutations(law, n, k, lambda s: arbitrary(*(a[i] for i in order(s, t))))

        return sum(map(mean, relabellings), Q(0)) / len(relabellings)

    assert average(lambda s, t: tuple(t[i] for i in s)) == uniform  # tau(sigma(j)), the corrected order
    full = {s: p / factorial(n - k) for s in relabellings for p in [law[s[:k]]]}
    printed = sum((p * arbitrary(*(a[s[t[j]]] for j in range(k))) for s, p in full.items() for t in relabellings), Q(0))
    assert printed / len(relabellings) == uniform  # sigma(tau(j)), as printed
    # An index-aware h_I = c_I h, relabelled at random, has the mean of the blind h-bar = (E_p c_I) h.
    factor = {drawn: Q(1 + sum(drawn)) for drawn in law}
    aware = sum((p * factor[i] * arbitrary(*(a[t[j]] for j in i)) for i, p in law.items() for t in relabellings), Q(0))
    assert aware / len(relabellings) == sum(p * factor[i] for i, p in law.items()) * uniform


@pytest.mark.claim("bias-eq-46", shows="statement", evidence="proof")
def test_differentiation_commutes_with_the_average_over_samples() -> None:
    # The average is a finite sum with constant weights. One step for any number of samples, m the mean so far:
    # d(p l + m)/dy = p dl/dy + dm/dy.
    p, m, ell = sp.symbols("p"), sp.Function("m"), sp.Function("ell")
    assert sp.simplify(sp.diff(p * ell(y) + m(y), y) - p * sp.diff(ell(y), y) - sp.diff(m(y), y)) == 0


@pytest.mark.claim("bias-eq-47", shows="counterexample", evidence="proof")
def test_the_printed_sign_gives_softmax_minus_two() -> None:
    # B1. -d log softmax/dy - 1 = softmax - 2: at softmax 1/2 it is -3/2.
    full = sp.exp(y) / (sp.exp(y) + S)
    printed = -sp.diff(sp.log(full), y) - 1
    assert sp.simplify(printed - (full - 2)) == 0
    assert sp.simplify(printed.subs(S, sp.exp(y))) == -sp.Rational(3, 2)


@pytest.mark.claim("bias-eq-47", shows="correction", evidence="proof")
def test_softmax_is_one_minus_the_derivative() -> None:
    full = sp.exp(y) / (sp.exp(y) + S)
    assert sp.simplify(1 - sp.diff(sp.log(full), y) - full) == 0


@pytest.mark.claim("bias-sample-count", shows="statement", evidence="proof")
def test_number_of_ordered_samples() -> None:
    n, k = sp.symbols("n k", integer=True, nonnegative=True)
    assert sp.combsimp(sp.binomial(n, k) * sp.factorial(k) - sp.factorial(n) / sp.factorial(n - k)) == 0
    assert [len(list(permutations(range(5), drawn))) for drawn in range(6)] == [1, 5, 20, 60, 120, 120]
