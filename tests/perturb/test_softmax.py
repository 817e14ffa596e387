"""Perturb-Softmax against closed forms, second rules, autograd and enumeration."""

import math
from math import exp

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import euler_gamma
from torch import Tensor

from sumexp.perturb import argmax, softmax
from sumexp.perturb._nodes import edges
from sumexp.perturb.noises import Cauchy, Discrete, Exponential, Gaussian, Gumbel, Logistic, Uniform, point_mass, signs
from sumexp.perturb.transforms import Noise
from tests.perturb.standard import CONTINUOUS, FINITE, second_moments

NOISES: list[Noise] = [*CONTINUOUS, signs()]
THETA = torch.tensor([1.0, 0.0, -2.0, 0.3], dtype=torch.float64)


@pytest.mark.parametrize("x", [0.5, 1.0, 3.0, 10.0, 20.0])
def test_gumbel_softmax_of_two_classes_in_closed_form(x: float) -> None:
    p = softmax.mean(torch.tensor([x, 0.0], dtype=torch.float64), Gumbel())
    assert abs(p[0].item() - exp(x) * (exp(x) - 1 - x) / (exp(x) - 1) ** 2) < 1e-14
    # The small coordinate to its relative digits.
    assert abs(p[1].item() / ((exp(x) * (x - 1) + 1) / (exp(x) - 1) ** 2) - 1) < 3e-14


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Uniform(), Cauchy()], ids=str)
def test_two_classes_by_the_law_of_the_difference(noise: Noise, tau: float) -> None:
    # A logistic variable has the sigmoid for distribution function, so p_1 = E P(gamma_1 - gamma_2 > -delta - tau L).
    delta = 0.8
    tail = {
        "Gumbel": lambda z: 1 / (1 + mp.exp(z)),  # the difference of two Gumbels is logistic
        "Gaussian": lambda z: mp.erfc(z / 2) / 2,
        "Uniform": lambda z: mp.mpf(max(0, 2 - abs(z))) ** 2 / 8 if z > 0 else 1 - mp.mpf(max(0, 2 - abs(z))) ** 2 / 8,
        "Cauchy": lambda z: mp.mpf(1) / 2 - mp.atan(z / 2) / mp.pi,
    }[type(noise).__name__]
    ends = sorted({-45.0, -10.0, 0.0, 10.0, 45.0, *((-delta + kink) / tau for kink in (-2.0, 0.0, 2.0))})
    expected = mp.quad(lambda x: tail(-delta - tau * x) * mp.exp(-x) / (1 + mp.exp(-x)) ** 2, ends)
    ours = softmax.mean(torch.tensor([delta, 0.0], dtype=torch.float64), noise, tau)
    assert abs(ours[0].item() - float(expected)) < 1e-14


def test_gauss_hermite_agrees_with_the_trapezoid_rule() -> None:
    # Three classes, a tensor product of 40^3 nodes, tau = 2.
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    g = torch.from_numpy(np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1)).reshape(-1, 3)
    w = torch.from_numpy(np.einsum("i,j,k->ijk", weights, weights, weights)).reshape(-1) / (2 * math.pi) ** 1.5
    theta = torch.tensor([0.5, 0.0, -1.0], dtype=torch.float64)
    p = torch.softmax((theta + g) / 2, -1)
    assert (w @ p - softmax.mean(theta, Gaussian(), 2.0)).abs().max() < 1e-12
    assert ((p.T * w) @ p - second_moments(theta, Gaussian(), 2.0)).abs().max() < 1e-12
    value = 2 * (w @ torch.logsumexp((theta + g) / 2, -1))
    assert abs(value - softmax.potential(theta, Gaussian(), 2.0)) < 1e-12


@pytest.mark.parametrize("tau", [0.4, 1.0, 2.5])
def test_discrete_noise_by_enumeration(tau: float) -> None:
    noise = Discrete((-1.0, 0.5, 2.0), (0.2, 0.5, 0.3))
    values, weights = (torch.tensor(part, dtype=torch.float64) for part in (noise.values, noise.weights))
    drawn = torch.cartesian_prod(*[torch.arange(3)] * 4)
    p = torch.softmax((THETA + values[drawn]) / tau, -1)
    weight = weights[drawn].prod(-1)
    assert (weight @ p - softmax.mean(THETA, noise, tau)).abs().max() < 2e-14
    assert ((p.T * weight) @ p - second_moments(THETA, noise, tau)).abs().max() < 2e-14
    value = tau * (weight @ torch.logsumexp((THETA + values[drawn]) / tau, -1))
    assert abs(value - softmax.potential(THETA, noise, tau)) < 2e-14


@pytest.mark.parametrize("tau", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("noise", [*FINITE, signs()], ids=str)
def test_gradient_of_the_potential_is_the_mean_and_its_jacobian_the_hessian(noise: Noise, tau: float) -> None:
    # The missing 1/tau of an unscaled Hessian would show here, not in a comparison with simulated moments.
    theta = THETA.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(softmax.potential(theta, noise, tau), theta)
    assert (gradient - softmax.mean(THETA, noise, tau)).abs().max() < 1e-11
    jacobian = torch.autograd.functional.jacobian(lambda x: softmax.mean(x, noise, tau), theta)
    assert (jacobian - softmax.hessian(THETA, noise, tau)).abs().max() < 1e-11


# Below 1/2 the expectation is over G; with noise that has an edge its nodes move with the edge.
COLD = [(Gumbel(), 0.3), (Gaussian(), 0.3), (Logistic(), 0.3), (Uniform(), 0.3), (Exponential(), 0.45)]


@pytest.mark.parametrize("noise, at_tau", [*((noise, 0.7) for noise in NOISES), (Gumbel(), 1.0), *COLD], ids=str)
def test_derivative_in_the_temperature(noise: Noise, at_tau: float) -> None:
    tau, h = torch.tensor(at_tau, dtype=torch.float64, requires_grad=True), at_tau / 700
    (slope,) = torch.autograd.grad(softmax.mean(THETA, noise, tau)[1], tau)
    at = lambda step: softmax.mean(THETA, noise, at_tau + step * h)[1].item()  # noqa: E731
    difference = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)  # error O(h^4)
    assert abs(slope.item() - difference) < 1e-10
    of_tau = lambda t: softmax.mean(THETA, noise, t)[1]  # noqa: E731
    assert abs(torch.func.jvp(of_tau, (tau.detach(),), (torch.tensor(1.0, dtype=tau.dtype),))[1] - slope) < 1e-12
    assert abs(torch.func.grad(of_tau)(tau.detach()) - slope) < 1e-12


def test_derivative_of_the_potential_in_the_temperature_is_a_mean_entropy() -> None:
    # d/dtau of tau E lse((theta + gamma)/tau) = E H(softmax) in (0, log d); for a point mass exactly the entropy.
    tau = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(softmax.potential(THETA, point_mass(), tau), tau)
    p = torch.softmax(THETA / 1.3, -1)
    assert abs(slope.item() + (p * p.log()).sum().item()) < 1e-12


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_hessian_by_its_diagonal_by_products_and_whole(noise: Noise) -> None:
    full = softmax.hessian(THETA, noise, 0.8)
    v = torch.tensor([1.0, -3.0, 0.5, 7.0], dtype=torch.float64)
    assert (full.diagonal() - softmax.hessian_diagonal(THETA, noise, 0.8)).abs().max() < 1e-15
    far = torch.tensor([-11.0, 0.0], dtype=torch.float64)  # both entries are E p_1 p_2 / tau
    assert abs(torch.sub(*softmax.hessian_diagonal(far, noise, 0.8)) / softmax.hessian(far, noise, 0.8)[0, 0]) < 1e-13
    assert (full @ v - softmax.hessian_product(THETA, v, noise, 0.8)).abs().max() < 1e-14
    assert (full - full.T).abs().max() < 1e-16
    # E p_i^2 as an integral of its own, with the second derivative of the transform.
    if not isinstance(noise, Cauchy):
        tau = torch.tensor(0.8, dtype=torch.float64)
        low, high = edges(noise, 0.8, 4)
        u = low + 0.1 * torch.arange(math.ceil((high - low) / 0.1), dtype=torch.float64)
        parts = noise.transform((THETA - 1).unsqueeze(-1) / tau + u, tau)
        square = 0.1 * torch.exp(parts.log_second + parts.log.sum(0)).sum(-1)
        assert (square - second_moments(THETA, noise, 0.8).diagonal()).abs().max() < 1e-14


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Uniform(), signs()], ids=str)
def test_small_temperature_approaches_perturb_argmax(noise: Noise) -> None:
    if not isinstance(noise, Discrete):
        assert (softmax.mean(THETA, noise, 0.05) - argmax.probabilities(THETA, noise)).abs().max() < 2e-2
        # max <= tau lse(./tau) <= max + tau log d
        assert 0 < softmax.potential(THETA, noise, 0.05) - argmax.potential(THETA, noise) < 0.05 * math.log(4)
    assert (softmax.mean(THETA, noise, 1e4) - 0.25).abs().max() < 1e-4


def test_mean_zero_gumbel_only_moves_the_potential_and_a_point_mass_is_the_softmax_itself() -> None:
    assert (softmax.mean(THETA, Gumbel.mean_zero(), 0.6) - softmax.mean(THETA, Gumbel(), 0.6)).abs().max() < 1e-14
    gap = softmax.potential(THETA, Gumbel(), 0.6) - softmax.potential(THETA, Gumbel.mean_zero(), 0.6)
    assert abs(gap.item() - euler_gamma) < 1e-14
    assert (softmax.mean(THETA, point_mass(), 0.7) - torch.softmax(THETA / 0.7, -1)).abs().max() < 5e-15
    assert abs(softmax.potential(THETA, point_mass(), 0.7) - 0.7 * torch.logsumexp(THETA / 0.7, -1)) < 1e-14


@settings(deadline=None, max_examples=8)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6),
    st.sampled_from([Gumbel(), Gaussian(), Uniform(), signs()]),
    st.sampled_from([0.5, 1.0, 20.0]),
)
def test_extreme_parameters_give_probabilities(values: list[float], noise: Noise, tau: float) -> None:
    theta = torch.tensor(values, dtype=torch.float64)
    p = softmax.mean(theta, noise, tau)
    assert bool((p >= 0).all())
    assert abs(p.sum().item() - 1) < 1e-12
    assert p[theta.argmax()] >= p.max() - 1e-14
    value = softmax.potential(theta, noise, tau).item()
    assert math.isfinite(value)
    assert value >= theta.max().item() + noise.mean - 1e-9 * (1 + abs(theta.max().item()))


def test_batches_and_types() -> None:
    theta = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = softmax.mean(theta, Gaussian(), 0.9)
    assert (whole[1, 2] - softmax.mean(theta[1, 2], Gaussian(), 0.9)).abs().max() < 1e-15
    assert softmax.potential(theta).shape == (3, 5)
    assert softmax.hessian(theta).shape == (3, 5, 7, 7)
    assert softmax.mean(theta.float()).dtype == torch.float64


@pytest.mark.parametrize("tau", [0.1, 0.4])
@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Logistic(), Uniform()], ids=str)
def test_many_classes_at_a_small_temperature(noise: Noise, tau: float) -> None:
    # The step is wider there; one too wide for the largest of 300 Gaussians left 3e-10 here.
    theta = torch.randn(300, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert abs(softmax.mean(theta, noise, tau).sum().item() - 1) < 1e-12


@pytest.mark.parametrize("noise", [Gumbel(), Uniform()], ids=str)
def test_thousands_of_classes(noise: Noise) -> None:
    theta = 3 * torch.randn(3_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    p = softmax.mean(theta, noise)
    assert abs(p.sum().item() - 1) < 1e-12
    # The order of theta is the order of p.
    assert bool((p[theta.argsort()].diff() > -1e-18).all())
    diagonal = softmax.hessian_diagonal(theta, noise)
    assert abs(diagonal.sum().item() - (1 - _sum_of_squares(theta, noise))) < 1e-11


def _sum_of_squares(theta: Tensor, noise: Noise) -> float:
    """Sum of E p_i^2 by the second derivative of the transform, without the table."""
    one = torch.tensor(1.0, dtype=torch.float64)
    x = theta - theta.max()
    total = 0.0
    for node in torch.arange(-40, 6, 0.25, dtype=torch.float64):
        parts = noise.transform(x + node, one)
        total += 0.25 * torch.exp(parts.log_second + parts.log.sum()).sum().item()
    return total


@pytest.mark.parametrize(
    "noise, classes",
    [(Cauchy(scale=1e-3), 1_000), (Cauchy(), 100_000), (signs(), 2_000), (Discrete((0.0,), (1.0,)), 1_000)],
    ids=str,
)
def test_minutes_of_work_and_gigabytes_are_refused_at_once(noise: Noise, classes: int) -> None:
    """Of a thousand classes the first took more than ten minutes, with nothing said, and the last took 18 GB."""
    theta = torch.linspace(-1, 1, classes, dtype=torch.float64)
    message = rf"theta has {classes:,} classes.* nodes each .* gigabytes or minutes of work: use fewer"
    with pytest.raises(ValueError, match=message):
        softmax.mean(theta, noise, 0.7)


@pytest.mark.parametrize("noise, tau", [(Cauchy(), 0.7), (Cauchy(), 700.0), (Cauchy(), 1e300), (signs(), 1.0)], ids=str)
def test_terms_are_what_a_transform_sums(noise: Cauchy | Discrete, tau: float, monkeypatch: pytest.MonkeyPatch) -> None:
    summed = []
    logsumexp = torch.logsumexp
    monkeypatch.setattr(torch, "logsumexp", lambda x, dim: (summed.append(x.shape[dim]), logsumexp(x, dim))[1])
    scale = torch.tensor(tau, dtype=torch.float64)
    noise.transform(torch.zeros(3, dtype=torch.float64), scale)
    assert set(summed) == {noise.terms(scale)}
