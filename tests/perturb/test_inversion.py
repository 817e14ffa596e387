"""From probabilities to parameters and back."""

import math

import pytest
import sympy as sp
import torch
from scipy import special

from sumexp.perturb import argmax, inversion, softmax
from sumexp.perturb.noises import Cauchy, Gaussian, Gumbel, Logistic, point_mass, signs
from sumexp.perturb.transforms import Noise
from tests.perturb.standard import FINITE

NOISES: list[Noise] = [*FINITE, signs()]
TARGET = torch.tensor([0.9, 0.09, 0.009, 0.001], dtype=torch.float64)


@pytest.mark.claim("perturb-identifiable-sets", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("tau", [0.5, 2.0])
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
    if noise in FINITE:  # Perturb-Argmax
        theta = inversion.argmax_parameters(TARGET, noise)
        assert (argmax.probabilities(theta - theta[-1], noise) / TARGET - 1).abs().max() < 1e-12
        assert (inversion.argmax_parameters(argmax.probabilities(start, noise), noise) - start).abs().max() < 1e-11


@pytest.mark.claim("perturb-identifiable-sets", shows="statement", evidence="proof")
def test_each_set_has_one_point_of_every_line_of_shifts() -> None:
    # By E1 a set is complete if it meets every line theta + c (1, ..., 1), by Theorem 4.3 minimal if it does so once.
    theta, c = sp.symbols("theta1:5", real=True), sp.symbols("c", real=True)
    assert sp.solve(sum(t + c for t in theta), c) == [-sum(theta) / 4]
    assert sp.solve(theta[-1] + c, c) == [-theta[-1]]


@pytest.mark.parametrize("rare", [1e-12, 1e-18])
def test_rare_classes_of_an_argmax(rare: float) -> None:
    # At a distance d a Gaussian wins with N(-d/sqrt(2)), a logistic with (d - 1) e^-d to within e^-2d.
    gaps = -math.log(rare), -math.sqrt(2) * special.ndtri(rare), 1 - special.lambertw(-rare * math.e, -1).real
    for noise, gap in zip((Gumbel(), Gaussian(), Logistic()), gaps, strict=True):
        theta = inversion.argmax_parameters(torch.tensor([1 - rare, rare], dtype=torch.float64), noise)
        assert (theta[0] - theta[1]).item() == pytest.approx(gap, rel=1e-12)


def test_noise_of_scale_zero_has_the_logarithms_and_cauchy_noise_reaches_targets_too() -> None:
    logs = TARGET.log() - TARGET.log().mean()
    assert (inversion.softmax_parameters(TARGET, point_mass()) - logs).abs().max() < 1e-12
    with pytest.raises(ValueError, match="no density"):
        inversion.argmax_parameters(TARGET, point_mass())
    batch = torch.softmax(torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64), -1)
    for p, noise in ((torch.tensor([0.6, 0.4], dtype=torch.float64), Cauchy()), (batch, Gaussian())):
        assert (softmax.mean(inversion.softmax_parameters(p, noise), noise) - p).abs().max() < 1e-12
