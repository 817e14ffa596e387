"""From probabilities to parameters and back; the laws as torch distributions."""

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.distributions import PerturbArgmax, PerturbSoftmax
from sumexp.perturb import argmax, inversion, softmax
from sumexp.perturb.noises import Cauchy, Gaussian, Gumbel, Logistic, point_mass, signs
from sumexp.perturb.transforms import Noise
from tests.perturb.standard import FINITE

NOISES: list[Noise] = [*FINITE, signs()]
LOC = torch.tensor([1.0, 0.0, -2.0, 0.3], dtype=torch.float64)
TARGET = torch.tensor([0.9, 0.09, 0.009, 0.001], dtype=torch.float64)


@pytest.mark.claim("perturb-identifiable-sets", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_every_target_is_reached_from_each_of_both_sets_and_by_one_point(noise: Noise, tau: float) -> None:
    theta = inversion.softmax_parameters(TARGET, noise, tau)
    assert abs(theta.sum().item()) < 1e-12
    assert (softmax.mean(theta, noise, tau) / TARGET - 1).abs().max() < 1e-12
    pinned = theta - theta[-1]  # in {theta_d = 0}
    assert (softmax.mean(pinned, noise, tau) / TARGET - 1).abs().max() < 1e-12
    # Onto and one-to-one: the way back from a parameter is that parameter.
    start = torch.tensor([0.7, -0.2, 0.4, -0.9], dtype=torch.float64)
    back = inversion.softmax_parameters(softmax.mean(start, noise, tau), noise, tau)
    assert (back - start).abs().max() < 1e-11


@pytest.mark.claim("perturb-identifiable-sets", shows="statement", evidence="proof")
def test_each_set_has_one_point_of_every_line_of_shifts() -> None:
    # By E1 a set is complete if it meets every line theta + c (1, ..., 1), by Theorem 4.3 minimal if it does so once.
    theta, c = sp.symbols("theta1:5", real=True), sp.symbols("c", real=True)
    assert sp.solve(sum(t + c for t in theta), c) == [-sum(theta) / 4]
    assert sp.solve(theta[-1] + c, c) == [-theta[-1]]


@pytest.mark.parametrize("noise", NOISES[:-1], ids=str)
def test_argmax_and_back(noise: Noise) -> None:
    theta = inversion.argmax_parameters(TARGET, noise)
    assert abs(theta.sum().item()) < 1e-12
    assert (argmax.probabilities(theta, noise) / TARGET - 1).abs().max() < 1e-12


def test_with_noise_of_scale_zero_the_parameters_are_the_logarithms() -> None:
    logs = TARGET.log() - TARGET.log().mean()
    assert (inversion.softmax_parameters(TARGET, point_mass()) - logs).abs().max() < 1e-12
    with pytest.raises(ValueError, match="no density"):
        inversion.argmax_parameters(TARGET, point_mass())


def test_cauchy_noise_reaches_targets_too() -> None:
    p = torch.tensor([0.6, 0.4], dtype=torch.float64)
    assert (softmax.mean(inversion.softmax_parameters(p, Cauchy()), Cauchy()) - p).abs().max() < 1e-12


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-8, 0), min_size=2, max_size=5), st.sampled_from([Gumbel(), Gaussian()]))
def test_inversion_of_spread_targets(logs: list[float], noise: Noise) -> None:
    p = torch.softmax(torch.tensor(logs, dtype=torch.float64), -1)
    assert (softmax.mean(inversion.softmax_parameters(p, noise), noise) / p - 1).abs().max() < 1e-12


def test_inversion_of_a_batch() -> None:
    p = torch.softmax(torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64), -1)
    assert (softmax.mean(inversion.softmax_parameters(p, Gaussian()), Gaussian()) - p).abs().max() < 1e-12


# -- torch.distributions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [Gumbel(0.0, 1.5), Gaussian(0.4, 0.7)], ids=str)
def test_density_has_mass_one_and_the_exact_mean(noise: Noise) -> None:
    # Two classes, x = (y, 1 - y) with y = sigmoid(z), dy = y (1 - y) dz: the trapezoid rule in z.
    law = PerturbSoftmax(LOC[:2], 0.8, noise)
    z = torch.arange(-60, 60, 0.05, dtype=torch.float64)
    value = torch.stack([torch.sigmoid(z), torch.sigmoid(-z)], -1)
    density = law.log_prob(value).exp() * value.prod(-1) * 0.05
    assert abs(density.sum().item() - 1) < 1e-12
    assert (density @ value - law.mean).abs().max() < 1e-12
    assert (density @ value.square() - law.mean.square() - law.variance).abs().max() < 1e-12


def test_draws_follow_mean_and_variance() -> None:
    # Two laws, 4 + 4 comparisons each at z < 5: false-alarm rate 1e-5.
    n = 100_000
    for law in (PerturbSoftmax(LOC, 0.7, Gaussian()), PerturbArgmax(LOC, Logistic())):
        draws = law.sample((n,), generator=torch.Generator().manual_seed(4))
        assert draws.shape == (n, 4)
        assert bool(((draws.mean(0) - law.mean).abs() < 5 * (law.variance / n).sqrt()).all())
        fourth = (draws - law.mean).pow(4).mean(0)
        assert bool(((draws.var(0) - law.variance).abs() < 5 * ((fourth - law.variance**2) / n).sqrt() + 1e-12).all())
