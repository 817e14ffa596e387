"""Appendix C of the paper: the sampled loss, its expected gradient, a right proof of Lemma C.2, and the errors."""

import math
from fractions import Fraction
from itertools import product

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp import expectations, functional
from sumexp.nce import gradient
from tests.exact import floats, log_of

Q = Fraction
T = 0
"""The target; the other classes are the negatives."""

weights = st.fractions(min_value=Q(1, 5), max_value=5, max_denominator=5)
few = settings(deadline=None, max_examples=25)


@st.composite
def cases(draw: st.DrawFn, classes: int = 4) -> tuple[list[Fraction], list[Fraction], int]:
    """Weights e^theta, a law q on the negatives, m."""
    w = draw(st.lists(weights, min_size=classes, max_size=classes))
    counts = draw(st.lists(st.integers(1, 5), min_size=classes - 1, max_size=classes - 1))
    return w, [Q(0)] + [Q(count, sum(counts)) for count in counts], draw(st.integers(1, 3))


def inverse(w: list[Fraction], q: list[Fraction], m: int, first: int | None = None) -> Fraction:
    """E[1/Z-hat], given n_1 = first if that is said."""
    mean, mass = Q(0), Q(0)
    for drawn, probability in gradient.rational_draws(q, m):
        if first is None or drawn[0] == first:
            mean += probability / gradient.rational_partition(w, T, drawn, q)
            mass += probability
    return mean / mass


@pytest.mark.claim("nce-lemma-C1", shows="statement", evidence="exact")
@given(case=cases())
@few
def test_the_sampled_partition_function_is_unbiased(case: tuple[list[Fraction], list[Fraction], int]) -> None:
    w, q, m = case
    mean = sum(p * gradient.rational_partition(w, T, drawn, q) for drawn, p in gradient.rational_draws(q, m))
    assert mean == sum(w)


@pytest.mark.claim("nce-lemma-C1", shows="statement", evidence="proof")
def test_one_draw_has_the_mean_of_the_negatives() -> None:
    # Each of the m draws has mean sum_n q_n e^(theta_n)/q_n; their average adds e^(theta_t).
    q, theta = sp.symbols("q1:5", positive=True), sp.symbols("theta1:5", real=True)
    mean = sum(a * sp.exp(b) / a for a, b in zip(q, theta, strict=True))
    assert sp.simplify(mean - sum(map(sp.exp, theta))) == 0


@pytest.mark.parametrize("m", [1, 2, 3])
def test_noise_that_misses_a_negative_breaks_both_lemmas(m: int) -> None:
    """In proportion to e^theta where it is positive, so that Z-hat is constant; but not Z, and the gradients differ."""
    w, q = [Q(1), Q(1), Q(2), Q(1)], [Q(0), Q(1, 3), Q(2, 3), Q(0)]
    seen = {gradient.rational_partition(w, T, drawn, q) for drawn, _ in gradient.rational_draws(q, m)}
    assert seen == {Q(4)}
    assert sum(w) == 5
    assert w[T] / Q(4) - 1 != gradient.rational_gradient(w, T)[T] == w[T] / Q(5) - 1


@pytest.mark.claim("nce-phi-form", shows="statement", evidence="proof")
def test_the_sampled_loss_is_a_softmax_of_phi() -> None:
    # Any m: a draw's e^phi is its term of Z-hat, so the e^phi sum to Z-hat, and the target's share is e^(-L-hat).
    target, theta, q, m, z_hat = sp.symbols("theta_t theta q m Z", positive=True)
    assert sp.simplify(sp.exp(theta - sp.log(m * q)) - sp.exp(theta) / q / m) == 0
    assert sp.simplify(sp.exp(target) / z_hat - sp.exp(-(sp.log(z_hat) - target))) == 0


def full_gradient(theta: Tensor) -> Tensor:
    """Equation (6)."""
    return theta.softmax(0) - torch.eye(len(theta), dtype=torch.float64)[T]


def expected_gradient(theta: Tensor, m: int, log_q: Tensor) -> Tensor:
    """Equation (7), by the integral of the expected loss."""
    leaf = theta.clone().requires_grad_()
    (slope,) = torch.autograd.grad(expectations.sampled_softmax(leaf, T, m, log_q).loss, leaf)
    return slope


def sampled_loss(theta: Tensor, drawn: tuple[int, ...], log_q: Tensor) -> Tensor:
    at = torch.tensor([drawn])
    return functional.sampled_softmax(theta[T:1], theta[at], log_q=log_q[at], correct="importance")


@pytest.mark.claim("nce-eq-6-7", shows="statement", evidence="proof")
def test_the_gradients_in_symbols() -> None:
    # (6) is (7) with one draw of each negative and mq = 1. (7) for one sample of m draws, c of which are the class of
    # theta and the others sum to S: c shares of the softmax of phi. The mean over samples has constant weights.
    target, theta, q, m, c, S = sp.symbols("theta_t theta q m c S", positive=True)
    z_hat = sp.exp(target) + c * sp.exp(theta) / (m * q) + S
    loss, share = sp.log(z_hat) - target, sp.exp(theta - sp.log(m * q)) / z_hat
    assert sp.simplify(sp.diff(loss, theta) - c * share) == 0
    assert sp.simplify(sp.diff(loss, target) - (sp.exp(target) / z_hat - 1)) == 0


@pytest.mark.claim("nce-eq-6-7", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_expected_gradient_by_three_ways(m: int) -> None:
    w, q = [Q(1), Q(1, 2), Q(3), Q(2)], [Q(0), Q(1, 2), Q(1, 3), Q(1, 6)]
    exact = floats(gradient.rational_expected_gradient(w, T, q, m))
    theta, log_q = log_of(w).requires_grad_(), log_of(q)
    outcomes = gradient.rational_draws(q, m)
    mean = torch.stack([float(p) * sampled_loss(theta, drawn, log_q) for drawn, p in outcomes]).sum()
    (by_autograd,) = torch.autograd.grad(mean, theta)
    assert torch.allclose(expected_gradient(log_of(w), m, log_q), exact, rtol=0, atol=1e-13)
    assert torch.allclose(by_autograd, exact, rtol=0, atol=1e-13)
    assert torch.allclose(full_gradient(log_of(w)), floats(gradient.rational_gradient(w, T)), atol=1e-15)


@pytest.mark.claim("nce-eq-8", shows="statement", evidence="exact")
@given(case=cases())
@few
def test_the_condition_at_each_coordinate(case: tuple[list[Fraction], list[Fraction], int]) -> None:
    # The mean of the drawn shares is e^(theta_l) E[1/Z-hat | n_1 = l], and e^(theta_t) E[1/Z-hat] at the target.
    w, q, m = case
    z = sum(w)
    sampled, full = gradient.rational_expected_gradient(w, T, q, m), gradient.rational_gradient(w, T)
    for l, weight in enumerate(w):  # noqa: E741 - the paper's name
        right = weight * inverse(w, q, m, None if l == T else l)
        assert sampled[l] == right - (l == T)
        assert (sampled[l] == full[l]) is (weight / z == right)
    last = [[*values[1:], values[T]] for values in (w, q, sampled, full, gradient.rational_best_noise(w, T))]
    assert gradient.rational_expected_gradient(last[0], 3, last[1], m) == last[2]  # the target may be any class
    assert [gradient.rational_gradient(last[0], 3), gradient.rational_best_noise(last[0], 3)] == last[3:]


@pytest.mark.claim("nce-lemma-C2-t", shows="counterexample", evidence="exact")
def test_at_the_target_the_mean_of_the_inverse_is_not_the_inverse_of_the_mean() -> None:
    # C1: e^theta = (1; 1, 2), one uniform draw: Z-hat is 1 + 2 or 1 + 4, E[1/Z-hat] = (1/3 + 1/5)/2 = 4/15; 1/Z = 1/4.
    w = [Q(1), Q(1), Q(2)]
    assert inverse(w, [Q(0), Q(1, 2), Q(1, 2)], 1) == Q(4, 15) != Q(1, 4) == 1 / sum(w)


@pytest.mark.claim("nce-lemma-C2-t", shows="correction", evidence="proof")
@pytest.mark.claim("nce-lemma-C2", shows="correction", evidence="proof")
def test_strict_jensen_by_the_tangent() -> None:
    # 1/z lies above its tangent at mu by (z - mu)^2/(z mu^2), which vanishes at z = mu only. With z = Z-hat, mu = Z = E
    # Z-hat the tangent's mean is 1/Z: E[1/Z-hat] - 1/Z = E (Z-hat - Z)^2/(Z-hat Z^2), zero iff Z-hat = Z surely.
    z, mu = sp.symbols("z mu", positive=True)
    assert sp.simplify(1 / z - (2 / mu - z / mu**2) - (z - mu) ** 2 / (z * mu**2)) == 0
    # Lemma C.2, only if: equal gradients mean equality at t, so Z-hat = Z at every draw, also at (x, .., x), where
    # Z-hat = e^(theta_t) + e^(theta_x)/q(x): hence e^(theta_x)/q(x) is the same for all x. If: q proportional to
    # e^theta makes every term of Z-hat's average the sum S of the negatives' weights, so that L-hat = L at every draw.
    weight, chance, others, m = sp.symbols("w q S m", positive=True)
    assert sp.simplify(m * (weight / chance) / m - weight / chance) == 0
    assert sp.simplify((weight / chance).subs(chance, weight / others) - others) == 0


@pytest.mark.claim("nce-lemma-C2", shows="correction", evidence="exact")
@pytest.mark.claim("nce-lemma-C2-t", shows="correction", evidence="exact")
@pytest.mark.claim("nce-appC-setting", shows="correction", evidence="exact")
@given(case=cases())
@few
def test_gradients_agree_for_the_best_noise_and_for_no_other(case: tuple[list[Fraction], list[Fraction], int]) -> None:
    w, q, m = case
    best, z = gradient.rational_best_noise(w, T), sum(w)
    assert gradient.rational_expected_gradient(w, T, best, m) == gradient.rational_gradient(w, T)
    jensen = Q(0)
    for drawn, p in gradient.rational_draws(q, m):
        z_hat = gradient.rational_partition(w, T, drawn, q)
        jensen += p * (z_hat - z) ** 2 / (z_hat * z**2)
    assert inverse(w, q, m) - 1 / z == jensen >= 0
    assert (jensen == 0) is (q == best)
    agree = gradient.rational_expected_gradient(w, T, q, m) == gradient.rational_gradient(w, T)
    assert agree is (q == best)


@pytest.mark.claim("nce-lemma-C2", shows="counterexample", evidence="exact")
def test_the_printed_condition_is_never_met() -> None:
    # C3: "q(x) proportional to e^theta_x for all x in X", but q(t) = 0 < e^theta_t. With q* the gradients agree all the
    # same, so the printed "only if" is false.
    w = [Q(1), Q(1), Q(2)]
    best = gradient.rational_best_noise(w, T)
    assert best == [0, Q(1, 3), Q(2, 3)]
    assert gradient.rational_expected_gradient(w, T, best, 2) == gradient.rational_gradient(w, T)
    assert len({chance / weight for chance, weight in zip(best, w, strict=True)}) > 1


@pytest.mark.claim("nce-appC-setting", shows="counterexample", evidence="exact")
def test_one_negative_may_be_right_although_the_partition_varies() -> None:
    # C2, C14: a parameter that moves this logit alone has the right gradient. e^theta = (1; 1, 1, 2); with one draw 1/5
    # = 1/(1 + 1/q_1), and q_3/q_2 = 5 is not w_3/w_2 = 2. With m = 2 take q = (a, (1-a)/5, 4(1-a)/5). The excess at
    # the first negative is continuous in a and changes its sign between two neighbouring decimals, so it is 0 in
    # between; Z-hat varies, as q_3/q_2 = 4.
    w, q = [Q(1), Q(1), Q(1), Q(2)], [Q(0), Q(1, 4), Q(1, 8), Q(5, 8)]
    assert gradient.rational_expected_gradient(w, T, q, 1)[1] == gradient.rational_gradient(w, T)[1] == Q(1, 5)

    def excess(a: Fraction) -> Fraction:
        at = [Q(0), a, (1 - a) / 5, 4 * (1 - a) / 5]
        return gradient.rational_expected_gradient(w, T, at, 2)[1] - Q(1, 5)

    assert excess(Q("0.243241776403")) * excess(Q("0.243241776404")) < 0


@pytest.mark.claim("nce-lemma-C2-l", shows="statement", evidence="exact")
@given(case=cases())
@few
def test_all_negatives_need_a_constant_partition(case: tuple[list[Fraction], list[Fraction], int]) -> None:
    # E[1/Z-hat | n_1 = l], averaged over l ~ q, is E[1/Z-hat]; so all equal to 1/Z give equality at the target too.
    w, q, m = case
    conditional = [inverse(w, q, m, first) for first in range(1, len(w))]
    assert sum(a * b for a, b in zip(q[1:], conditional, strict=True)) == inverse(w, q, m)
    constant = len({gradient.rational_partition(w, T, drawn, q) for drawn, _ in gradient.rational_draws(q, m)}) == 1
    assert (set(conditional) == {1 / sum(w)}) is constant
    sampled, full = gradient.rational_expected_gradient(w, T, q, m), gradient.rational_gradient(w, T)
    assert [a == b for a, b in zip(sampled[1:], full[1:], strict=True)] == [c == 1 / sum(w) for c in conditional]


@pytest.mark.claim("nce-small-modification", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("m", [1, 4, 64])
def test_the_gradient_is_unbiased_for_noise_like_the_model_alone(m: int) -> None:
    theta = 2 * torch.randn(50, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    full = full_gradient(theta)
    others = torch.where(torch.arange(50) == T, -math.inf, theta)
    assert torch.allclose(expected_gradient(theta, m, others.log_softmax(0)), full, atol=1e-12)
    for power in (0.0, 0.9):  # towards uniform
        log_q = torch.where(others > -math.inf, power * theta, -math.inf).log_softmax(0)
        assert expected_gradient(theta, m, log_q)[T] - full[T] > 1e-6  # Jensen's gap


@pytest.mark.claim("nce-qstar-exact", shows="statement", evidence="exact")
@given(w=st.lists(weights, min_size=3, max_size=4), m=st.integers(1, 3))
@few
def test_with_negatives_from_the_model_every_sample_has_the_full_loss(w: list[Fraction], m: int) -> None:
    best = gradient.rational_best_noise(w, T)
    assert sum(best) == 1
    for drawn in product(range(1, len(w)), repeat=m):
        assert gradient.rational_partition(w, T, drawn, best) == sum(w)
        model = [value / sum(w) for value in w]  # the target's probability with it: biased
        assert gradient.rational_partition(w, T, drawn, model) == w[T] + sum(w)
    sampled = sampled_loss(log_of(w), (1,) * m, log_of(best))
    assert sampled.item() == pytest.approx(-log_of(w).log_softmax(0)[T].item(), abs=1e-14)


@pytest.mark.claim("nce-qstar-rejection", shows="statement", evidence="proof")
def test_rejecting_the_target_is_no_approximation() -> None:
    # C10: draws from p_theta until one is not the target: p(n) sum_k p(t)^k = p(n)/(1 - p(t)) = q*(n).
    weight, target, rest = sp.symbols("w w_t rest", positive=True)
    z = weight + target + rest
    k = sp.symbols("k", integer=True, nonnegative=True)
    ratio = sp.symbols("r", positive=True)
    series = sp.summation(ratio**k, (k, 0, sp.oo))
    assert series.args[0] == (1 / (1 - ratio), ratio < 1)
    accepted = weight / z / (1 - target / z)
    assert sp.simplify(accepted - weight / (weight + rest)) == 0
