"""Perturb-Argmax, with and without ties: closed forms, two quadratures, enumeration, finite differences."""

import math
from collections.abc import Callable
from fractions import Fraction
from math import atan2, erfc, exp
from typing import Any

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.perturb import argmax, discrete
from sumexp.perturb.noises import Cauchy, Discrete, Exponential, Gaussian, Gumbel, Logistic, Uniform, point_mass, signs
from sumexp.perturb.transforms import Continuous
from tests.perturb.standard import CONTINUOUS

Q = Fraction
NOISES = (*CONTINUOUS, Gumbel(0.3, 2.0), Uniform(0.5, 3.0))
THETA = torch.tensor([1.0, 0.0, -2.0, 0.3], dtype=torch.float64)


@pytest.mark.parametrize("delta", [0.1, 1.0, 3.0, 8.0])
def test_two_classes_in_closed_form(delta: float) -> None:
    theta = torch.tensor([delta, 0.0], dtype=torch.float64)
    small = {
        Gumbel(): 1 / (1 + exp(delta)),
        Gaussian(): erfc(delta / 2) / 2,
        Exponential(): exp(-delta) / 2,
        Cauchy(): atan2(2, delta) / math.pi,
        Uniform(): max(0.0, 2 - delta) ** 2 / 8,
    }
    for noise, expected in small.items():
        p = argmax.quadrature(theta, noise)
        assert abs(p[1].item() - expected) <= 3e-15 * expected
        assert abs(p[0].item() - (1 - expected)) < 1e-14
    for gap in (delta, 75 * delta):  # the difference of two logistic variables
        logistic = exp(-gap) * (gap - 1 + exp(-gap)) / (1 - exp(-gap)) ** 2
        assert abs(argmax.quadrature(theta * (gap / delta), Logistic())[1].item() / logistic - 1) < 1e-13


def test_gumbel_noise_of_any_scale_by_quadrature_is_the_softmax() -> None:
    for scale in (0.3, 1.0, 5.0):
        closed = argmax.probabilities(THETA, Gumbel(1.0, scale))
        assert (closed - torch.softmax(THETA / scale, -1)).abs().max() < 1e-16
        assert (argmax.quadrature(THETA, Gumbel(1.0, scale)) - closed).abs().max() < 1e-15
        weights = argmax.pair_weights(THETA, Gumbel(1.0, scale))
        assert (weights - closed.outer(closed) / scale).abs().max() < 1e-16
    assert abs(argmax.potential(THETA, Gumbel.mean_zero()) - torch.logsumexp(THETA, -1)) < 1e-14


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_jacobian_by_autograd_by_formula_and_by_differences(noise: Continuous) -> None:
    jacobian = argmax.jacobian(THETA, noise)
    by_autograd = torch.autograd.functional.jacobian(lambda x: argmax.probabilities(x, noise), THETA)
    assert (jacobian - by_autograd).abs().max() < 1e-14
    h, eye = 1e-4, torch.eye(4, dtype=torch.float64)
    at = lambda step: argmax.quadrature(THETA + step * h * eye, noise)  # noqa: E731
    difference = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    assert (jacobian - difference).abs().max() < 1e-7  # exact for uniform noise up to its own third derivative's jump
    v = torch.tensor([1.0, -3.0, 0.5, 7.0], dtype=torch.float64)
    assert (jacobian @ v - argmax.jacobian_product(THETA, v, noise)).abs().max() < 1e-14
    rows = argmax.jacobian_product(torch.stack([THETA, THETA + 3]), torch.stack([v, 1 - 2 * v]), noise)
    assert (rows - torch.stack([jacobian @ v, -2 * (jacobian @ v)])).abs().max() < 2e-14  # J 1 = 0, and J is invariant


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.jacrev, torch.func.jacfwd])
def test_transforms_of_a_quadrature_are_refused(transform: Callable[..., Any]) -> None:
    """Pair weights had the gradient 0 under ``torch.func``, the others torch's internal errors."""
    theta = torch.stack([THETA, -THETA]) if transform is torch.vmap else THETA
    of_theta = (argmax.probabilities, argmax.potential, argmax.jacobian, argmax.pair_weights)
    for call in (*of_theta, lambda x, noise: argmax.jacobian_product(x, torch.ones_like(x), noise)):
        with pytest.raises(NotImplementedError, match="give all rows at once"):
            transform(lambda x, call=call: call(x, Gaussian()))(theta)
    leaf = THETA.clone().requires_grad_()
    with pytest.raises(NotImplementedError, match="one at a time here: leave out is_grads_batched"):
        torch.autograd.grad(argmax.probabilities(leaf, Gaussian()), leaf, torch.eye(4), is_grads_batched=True)
    for value in (argmax.jacobian(leaf, Gaussian())[0, 0], argmax.jacobian_product(THETA, leaf)[0]):
        with pytest.raises(RuntimeError, match="has no derivatives: detach"):
            (value + leaf.sum()).backward()


@pytest.mark.claim("perturb-lemma-5-2", shows="statement", evidence="quadrature")
@pytest.mark.claim("perturb-max-def", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("noise", [noise for noise in NOISES if noise.finite_max], ids=str)
def test_gradient_of_the_potential_by_differences(noise: Continuous) -> None:
    # E12: uniform and exponential noise have no differentiable density; the differences' laws are continuous.
    h, eye = 1e-3, torch.eye(4, dtype=torch.float64)
    at = lambda step: argmax.potential(THETA + step * h * eye, noise)  # noqa: E731
    difference = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    assert (difference - argmax.probabilities(THETA, noise)).abs().max() < 1e-9
    theta = THETA.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(argmax.potential(theta, noise), theta)
    assert (gradient - argmax.probabilities(THETA, noise)).abs().max() < 1e-14
    standard = argmax.potential(THETA / noise.scale, type(noise)())
    assert abs(argmax.potential(THETA, noise) - noise.loc - noise.scale * standard) < 1e-13


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_many_classes_share_the_probability(noise: Continuous) -> None:
    for classes in (2, 30, 300):
        p = argmax.quadrature(torch.zeros(classes, dtype=torch.float64), noise)
        assert (classes * p - 1).abs().max() < 5e-14
    spread = torch.linspace(-1, 1, 300, dtype=torch.float64)
    assert abs(argmax.quadrature(spread, noise).sum().item() - 1) < 1e-13


def test_equal_classes_of_uniform_noise_take_no_square_of_memory_and_others_are_refused_at_once() -> None:
    """Of n on [-1, 1] each wins with probability 1/n, and the mean of the largest is 1 - 2/(n + 1)."""
    theta, n = torch.zeros(20_000, dtype=torch.float64), 20_000  # n^2 nodes were asked for: 51 GB
    assert (n * argmax.probabilities(theta, Uniform()) - 1).abs().max() < 1e-11
    assert abs(argmax.potential(theta, Uniform()).item() - (1 - 2 / (n + 1))) < 1e-12
    with pytest.raises(ValueError, match=r"theta has 20,000 classes; with Uniform.* they need 320,\d{3} nodes each"):
        argmax.probabilities(torch.linspace(0, 1e-6, 20_000, dtype=torch.float64), Uniform())


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_sums_over_some_nodes_at_a_time(noise: Continuous, monkeypatch: pytest.MonkeyPatch) -> None:
    theta, v = torch.stack([THETA, THETA.flip(0) / 3]), torch.tensor([0.3, -1.0, 2.0, 0.5])
    works = {
        "p": lambda: argmax.quadrature(theta, noise),
        "w": lambda: argmax.pair_weights(theta, noise),
        "Jv": lambda: argmax.jacobian_product(theta, v, noise),
        "phi": lambda: argmax.potential(theta, noise) if noise.finite_max else theta,
    }
    whole = {name: work() for name, work in works.items()}
    monkeypatch.setattr(argmax, "NODES", 100)
    for name, work in works.items():
        assert (work() - whole[name]).abs().max() < 1e-14, name


def test_uniform_noise_against_sums_of_polynomials() -> None:
    # Three classes at 0, 1, 1/2: on [0, 1] all F are linear, on [1, 3/2] class 1 is sure to be beaten.
    u, half = sp.symbols("u"), sp.Rational(1, 2)
    cdf = lambda x: (x + 1) / 2  # noqa: E731
    thetas = (sp.Integer(0), sp.Integer(1), half)
    expected = []
    for i in range(3):
        rest = [thetas[j] for j in range(3) if j != i]
        total = sp.integrate(half * cdf(u - rest[0]) * cdf(u - rest[1]), (u, 0, 1))
        if i == 1:  # between 1 and 3/2 class 0 has reached its end; beyond 3/2 class 2 as well
            total += sp.integrate(half * cdf(u - half), (u, 1, 3 * half)) + half * half
        if i == 2:
            total += sp.integrate(half * cdf(u - 1), (u, 1, 3 * half))
        expected.append(total)
    assert sum(expected) == 1
    ours = argmax.probabilities(torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64), Uniform())
    assert max(abs(p - float(value)) for p, value in zip(ours.tolist(), expected, strict=True)) < 1e-15


rationals = st.fractions(-3, 3, max_denominator=4)


@settings(deadline=None, max_examples=30)
@given(st.lists(rationals, min_size=2, max_size=4))
def test_bounds_by_products_and_by_enumeration(theta: list[Fraction]) -> None:
    noise = Discrete((-1, Q(1, 2), 2), (Q(1, 5), Q(1, 2), Q(3, 10)))
    alone, among = [Q(0)] * len(theta), [Q(0)] * len(theta)
    for weight, largest, winners in discrete.outcomes(theta, noise):
        assert largest <= max(theta) + 2
        for i in winners:
            among[i] += weight
            alone[i] += weight if len(winners) == 1 else 0
    assert discrete.bounds(theta, noise) == list(zip(alone, among, strict=True))
    # The bounds are the support function in the directions e_i and -e_i.
    for i in range(len(theta)):
        v = [int(i == j) for j in range(len(theta))]
        assert discrete.directional(theta, v, noise) == among[i]
        assert discrete.directional(theta, [-x for x in v], noise) == -alone[i]


def test_directional_derivative_is_the_limit_of_difference_quotients() -> None:
    theta, v = [Q(1), Q(-1), Q(0)], [Q(2), Q(-1), Q(1, 2)]
    slope = discrete.directional(theta, v, signs())
    for step in (Q(1, 10), Q(1, 1000)):  # piecewise linear: exact for small steps
        moved = [a + step * b for a, b in zip(theta, v, strict=True)]
        assert (discrete.potential(moved, signs()) - discrete.potential(theta, signs())) / step == slope
    with pytest.raises(ValueError, match="v has 4 entries; give one for each of 3 classes"):
        discrete.directional(theta, [*v, Q(9)], signs())


def test_point_mass_is_the_argmax_with_its_ties() -> None:
    assert discrete.probabilities([Q(1), Q(0), Q(-1)], point_mass()) == [1, 0, 0]
    assert discrete.bounds([Q(1), Q(1), Q(0)], point_mass()) == [(0, 1), (0, 1), (0, 0)]
    with pytest.raises(ValueError, match="ties"):
        discrete.probabilities([Q(1), Q(1), Q(0)], point_mass())


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=5), st.sampled_from(NOISES))
def test_extreme_parameters_give_probabilities(values: list[float], noise: Continuous) -> None:
    theta = torch.tensor(values, dtype=torch.float64)
    p = argmax.quadrature(theta, noise)
    assert bool((p >= 0).all())
    assert abs(p.sum().item() - 1) < 1e-12
    assert p[theta.argmax()] >= p.max() - 1e-14
