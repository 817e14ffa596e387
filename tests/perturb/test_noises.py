"""The noises: the rule of each against a second one, density against distribution function against draws."""

import math

import mpmath as mp
import pytest
import torch
from torch import Tensor

from sumexp import perturb
from sumexp.perturb._bessel import log_k0, log_x_k1
from sumexp.perturb._nodes import POINTS, chebyshev, edges, lagrange
from sumexp.perturb.noises import Cauchy, Discrete, Exponential, Gaussian, Gumbel, Uniform, point_mass, signs
from sumexp.perturb.transforms import Continuous, Noise, between, mixture
from tests.perturb.standard import CONTINUOUS

NOISES = (*CONTINUOUS, Gumbel.mean_zero(), Gaussian(0.3, 2.0), Uniform(0.5, 3.0), Cauchy(1.0, 0.5))
WITH_MEAN = [noise for noise in NOISES if noise.finite_max]
S = torch.tensor([-60.0, -20.0, -7.0, -2.5, -1.0, 0.0, 1.0, 2.0], dtype=torch.float64)


def by_panels(noise: Continuous, s: Tensor, tau: float) -> list[Tensor]:
    """The second way for every density: Gauss-Legendre panels over a range without thought for economy."""
    low, high = (max(-60.0, noise.support[0]), min(80 * max(1.0, tau), noise.support[1]))
    cuts = [torch.full((1,), end, dtype=torch.float64) for end in (low, high)]
    (nodes,), (log_weights,) = between(cuts, min(0.5, 2 * tau), 32)
    return list(mixture(s, nodes / tau, log_weights + noise.log_density(nodes)))


def test_every_noise_of_the_package_is_among_the_tested() -> None:
    known = [kind for name in perturb.__all__ if isinstance(kind := getattr(perturb, name), type)]
    assert {kind for kind in known if issubclass(kind, Continuous)} == set(map(type, CONTINUOUS))


@pytest.mark.parametrize("tau", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("noise", WITH_MEAN, ids=str)
def test_rule_of_each_noise_agrees_with_panels(noise: Continuous, tau: float) -> None:
    ours, reference = noise.transform(S, torch.tensor(tau, dtype=torch.float64)), by_panels(noise, S, tau)
    near = reference[0] > -30  # beyond, the integrals have no weight
    reached = S > -20 if tau < 1 else S > -80  # where the panels reach far enough into an exponential tail
    assert (ours.log - reference[0])[near].abs().max() < 2e-14
    for part, other in zip(ours[1:], reference[1:], strict=True):
        assert (part - other)[near & reached].abs().max() < 5e-13


@pytest.mark.parametrize("s", [-3.0, 0.0, 1.5])
def test_transforms_in_closed_form(s: float) -> None:
    t, at = mp.exp(s), torch.tensor([s], dtype=torch.float64)
    one = torch.tensor(1.0, dtype=torch.float64)
    # Uniform on [-1, 1], tau = 1/2: (1/4) (E1(t e^-2) - E1(t e^2)).
    uniform = (mp.e1(t * mp.exp(-2)) - mp.e1(t * mp.exp(2))) / 4
    assert abs(Uniform().transform(at, one / 2).log.exp().item() - float(uniform)) < 1e-15
    # Exponential: E exp(-t e^{gamma/tau}) = tau t^tau Gamma(-tau, t).
    exponential = 2 * t**2 * mp.gammainc(-2, t)
    assert abs(Exponential().transform(at, 2 * one).log.exp().item() - float(exponential)) < 1e-15
    # Gumbel at tau = 1: 2 sqrt(t) K1(2 sqrt(t)), and A = 2 t K0, B = 2 t^{3/2} K1.
    root = mp.sqrt(t)
    values = [
        2 * root * mp.besselk(1, 2 * root),
        2 * t * mp.besselk(0, 2 * root),
        2 * t * root * mp.besselk(1, 2 * root),
    ]
    log, first, second = Gumbel().transform(at, one)
    ours = [log.exp(), (log + first).exp(), (log + second).exp()]
    for actual, value in zip(ours, values, strict=True):
        assert abs(actual.item() / float(value) - 1) < 3e-15
    # Point mass: exp(-t).
    assert abs(point_mass().transform(at, one).log.item() + float(t)) < 1e-14


def test_cauchy_transform_by_mpmath() -> None:
    tau, s = 1.5, -2.0
    function = lambda x: mp.exp(-mp.exp(s + x / tau)) / (mp.pi * (1 + x * x))  # noqa: E731
    value = mp.quad(function, [-mp.inf, -100, -10, 0, 3, 6, 12, 30])
    ours = Cauchy().transform(torch.tensor([s]).double(), torch.tensor(tau).double())
    assert abs(ours.log.exp().item() - float(value)) < 1e-14


@pytest.mark.parametrize("noise", [*NOISES, signs()], ids=str)
def test_derivatives_of_the_transform_are_its_own_moments(noise: Noise) -> None:
    # L' = -A and A' = A - B, the left sides by autograd.
    s = torch.linspace(-4, 1.5, 7, dtype=torch.float64, requires_grad=True)
    log, first, second = noise.transform(s, torch.tensor(0.8, dtype=torch.float64))
    (slope,) = torch.autograd.grad(log.sum(), s, create_graph=True)
    assert (slope + first.exp()).abs().max() < 1e-11
    (bend,) = torch.autograd.grad((log + first).exp().sum(), s)
    assert (bend - (log.exp() * (first.exp() - second.exp()))).abs().max() < 1e-12


def test_bessel_functions_pass_gradcheck_twice() -> None:
    x = torch.tensor([0.05, 0.7, 3.0, 20.0], dtype=torch.float64, requires_grad=True)
    for function in (log_k0, log_x_k1):
        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_density_distribution_function_and_quantiles_agree(noise: Continuous) -> None:
    w = torch.linspace(-20, 20, 40, dtype=torch.float64, requires_grad=True)
    x = noise.from_logit(w)
    assert (noise.cdf(x) - torch.sigmoid(w)).abs().max() < 2e-15
    # dF/dw = f(x) dx/dw = sigmoid'(w).
    (rate,) = torch.autograd.grad(x.sum(), w)
    assert (noise.log_density(x).exp() * rate / (torch.sigmoid(w) * torch.sigmoid(-w)) - 1).abs().max() < 1e-6


@pytest.mark.parametrize("noise", [*NOISES, signs(), Discrete((0.0, 1.0, 5.0), (0.5, 0.25, 0.25))], ids=str)
def test_draws_follow_the_distribution_function(noise: Noise) -> None:
    # Five points, twelve noises: 60 comparisons at z < 5, false-alarm rate 60 * 6e-7 = 4e-5.
    n = 100_000
    draws = noise.sample((n,), torch.Generator().manual_seed(1))
    for x in torch.tensor([-0.7, 0.2, 0.9, 2.1, 5.5], dtype=torch.float64):
        p = noise.cdf(x).item()
        error = math.sqrt(p * (1 - p) / n)
        assert abs((draws <= x).double().mean().item() - p) <= 5 * error
    assert [noise.sample(shape, torch.Generator()).shape for shape in ((3, 2), (0, 2))] == [(3, 2), (0, 2)]


@pytest.mark.parametrize("noise", [*WITH_MEAN, Discrete((0.0, 1.0, 5.0), (0.5, 0.25, 0.25))], ids=str)
def test_means(noise: Noise) -> None:
    # One comparison for each of nine noises at z < 5: false-alarm rate 5e-6.
    draws = noise.sample((200_000,), torch.Generator().manual_seed(2))
    assert abs(draws.mean().item() - noise.mean) < 5 * draws.std().item() / math.sqrt(200_000)
    assert math.isnan(Cauchy().mean)
    assert abs(Gumbel.mean_zero(3.0).mean) < 1e-15


def test_lagrange_weights_reproduce_polynomials() -> None:
    at = torch.linspace(-1, 1, 9, dtype=torch.float64)
    points = chebyshev(at.device)
    for power in range(POINTS):
        assert (lagrange(at) @ points**power - at**power).abs().max() < 1e-14


def test_edges_leave_nothing_outside() -> None:
    low, high = edges(Gaussian(), 1.0, 100)
    one = torch.tensor(1.0, dtype=torch.float64)
    ends = Gaussian().transform(torch.tensor([low, high], dtype=torch.float64), one)
    assert 100 * -ends.log[0].item() < 1e-15
    assert ends.log[1].exp().item() < 1e-17
