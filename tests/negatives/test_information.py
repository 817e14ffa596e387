"""The worth of a negative: gradient covariance is the Hessian, rises with m, and the estimate's variance falls."""

from fractions import Fraction
from itertools import pairwise, product
from math import prod

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.negatives import consistency
from sumexp.negatives.information import full_information, information, variance
from tests.exact import Law, draws, laws, log_of

Q = Fraction


def moments(p: Law, q: Law, m: int) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """Covariance of the gradient and mean Hessian at f = log p, over all labels and all draws."""
    size = range(len(p))
    covariance, hessian = ([[Q(0)] * len(p) for _ in size] for _ in range(2))
    for y, *drawn in product(size, repeat=m + 1):
        chance = p[y] * prod((q[j] for j in drawn), start=Q(1))
        terms = [sum((p[c] / q[c] for c in (y, *drawn) if c == i), Q(0)) for i in size]
        share = [t / sum(terms) for t in terms]
        gradient = [share[i] - (i == y) for i in size]
        for a, b in product(size, size):
            covariance[a][b] += chance * gradient[a] * gradient[b]  # its mean is 0
            hessian[a][b] += chance * (share[a] * (a == b) - share[a] * share[b])
    return covariance, hessian


@pytest.mark.claim("sumexp-worth", shows="statement", evidence="exact")
@given(laws(3, 50), laws(3, 50), st.integers(1, 3))
@example(*((Q(1, 2), Q(1, 2) - 2 * rare, rare, rare) for rare in (Q(1, 10**27), Q(1, 10**17))), 2)
@settings(deadline=None, max_examples=20)
def test_covariance_is_hessian_in_rational_arithmetic(p: Law, q: Law, m: int) -> None:
    covariance, hessian = moments(p, q, m)
    assert covariance == hessian
    exact = torch.tensor([[float(x) for x in row] for row in hessian], dtype=torch.float64)
    torch.testing.assert_close(information(log_of(p), log_of(q), m), exact, rtol=1e-10, atol=0)


@pytest.mark.claim("sumexp-worth", shows="statement", evidence="exact")
@given(laws(3, 50), laws(3, 50))
@settings(deadline=None, max_examples=20)
def test_the_hessians_rise_in_rational_arithmetic(p: Law, q: Law) -> None:
    """On scores up to a constant a difference of three classes has two dimensions: trace and determinant decide."""
    hessians = [moments(p, q, m)[1] for m in (1, 2, 3)]
    hessians.append([[p[a] * (a == b) - p[a] * p[b] for b in range(3)] for a in range(3)])
    for now, more in pairwise(hessians):
        gain = [[more[a][b] - now[a][b] for b in range(2)] for a in range(2)]
        assert min(gain[0][0], gain[1][1]) >= 0
        assert gain[0][0] * gain[1][1] >= gain[0][1] * gain[1][0]


def at_most(smaller: Tensor, larger: Tensor) -> bool:
    """In every direction, up to rounding."""
    return bool(torch.linalg.eigvalsh(larger - smaller).min() > -1e-10 * larger.abs().max())


@pytest.mark.claim("sumexp-worth", shows="statement", evidence="quadrature")
@given(laws(3, 50), laws(3, 50), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_each_further_negative_informs_and_the_bounds_hold(p: Law, q: Law, m: int) -> None:
    log_p, log_q = log_of(p), log_of(q)
    now, more, full = information(log_p, log_q, m), information(log_p, log_q, m + 1), full_information(log_p)
    assert at_most(now, more)
    assert at_most(more, full)
    assert at_most(variance(more), variance(now))
    largest = max(float(a / b) for a, b in zip(p, q, strict=True))
    assert at_most(variance(now), (1 + (2 * largest - 1) / m) * variance(full))


@pytest.mark.claim("sumexp-worth", shows="statement", evidence="quadrature")
def test_negatives_from_the_true_law_cost_a_factor_of_one_plus_one_over_m() -> None:
    log_p = log_of((Q(1, 2), Q(3, 10), Q(1, 5)))
    for m in (1, 2, 7, 100):
        expected = float(Q(m + 1, m)) * variance(full_information(log_p))
        torch.testing.assert_close(variance(information(log_p, log_p, m)), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("m", [1, 5, 300])
def test_against_the_hessian_of_the_exact_risk(m: int) -> None:
    p = torch.softmax(torch.tensor([0.0, 0.0, 2.0, -12.0], dtype=torch.float64), -1)
    q = torch.tensor([0.02, 0.4, 0.4, 0.18], dtype=torch.float64).log()
    losses = consistency.multiset_losses(q, m, consistency.factors("relative", q, m), "keep")
    exact = torch.autograd.functional.hessian(lambda f: p @ losses(f), p.log())
    torch.testing.assert_close(information(p.log(), q, m), exact, rtol=1e-9, atol=1e-13)


def test_loss_and_gradient_spread_more_where_the_estimate_spreads_less() -> None:
    """q = (.02, .49, .49), p as e^(0, 0, 2): more negatives, more variance of the loss of label 0 and of the gradient,
    in rational arithmetic up to the logarithm; less of the estimate."""
    q = (Q(2, 100), Q(49, 100), Q(49, 100))
    f = torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64)
    spreads, gradients, estimates = [], [], []
    for m in (1, 2, 4):
        values, chances = [], []
        for drawn, chance in draws(q, m):
            chances.append(float(chance))
            values.append(sum(float(q[0] / q[j]) * torch.exp(f[j] - f[0]).item() for j in drawn))
        losses, weights = torch.tensor(values, dtype=torch.float64).log1p(), torch.tensor(chances, dtype=torch.float64)
        spreads.append((weights @ losses.square() - (weights @ losses) ** 2).item())
        got = information(f.log_softmax(-1), log_of(q), m)
        gradients.append(got.trace().item())
        estimates.append(variance(got).trace().item())
    assert spreads == pytest.approx([0.0180, 0.0281, 0.0365], abs=5e-5)
    assert gradients == sorted(gradients)
    assert estimates == sorted(estimates, reverse=True)
