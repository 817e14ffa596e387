"""What the chapter `perturb` says in passing and asks in its exercises."""

import math
from fractions import Fraction

import pytest
import torch
from numpy import euler_gamma
from torch import Tensor

from sumexp.perturb import argmax, discrete, inversion, softmax
from sumexp.perturb.noises import Discrete, Gaussian, Gumbel, Uniform, point_mass, signs
from sumexp.perturb.representation import HalfSpace
from tests.exact import vector

THETA = torch.tensor([1.0, 0.0, -2.0, 0.3], dtype=torch.float64)


@pytest.mark.parametrize("tau", [1e-6, 0.01, 0.3, 3.0])
def test_gumbel_softmax_at_a_temperature_is_that_at_its_inverse(tau: float) -> None:
    # E softmax((theta + gamma)/tau) = P(theta_j + gamma_j + tau G_j wins) = E softmax(theta + tau G).
    mean = softmax.mean(THETA, Gumbel(), tau)
    assert (mean / softmax.mean(THETA / tau, Gumbel(), 1 / tau) - 1).abs().max() < 1e-12
    # The potentials differ by the means of the two noises.
    gap = softmax.potential(THETA, Gumbel(), tau) - softmax.potential(THETA, Gumbel(scale=tau), 1.0)
    assert abs(gap.item() - euler_gamma * (1 - tau)) < 1e-13
    # The slopes are in the ratio 1/tau, so the condition number is the same.
    ratio = softmax.hessian(THETA, Gumbel(), tau) / softmax.hessian(THETA / tau, Gumbel(), 1 / tau)
    assert (ratio * tau - 1).abs().max() < 1e-11


@pytest.mark.parametrize("theta", [THETA, vector(1, 0), torch.arange(1, 11, dtype=torch.float64).log().neg()], ids=len)
def test_bias_of_the_gumbel_softmax_is_quadratic_in_the_temperature(theta: Tensor) -> None:
    # First term pi^2/6 tau^2 p_i (sum p_j^2 - p_i); what is left is of order tau^3.
    p = theta.softmax(-1)

    def left(tau: float) -> float:
        bias = softmax.mean(theta / tau, Gumbel(), 1 / tau) - p
        return (bias - math.pi**2 / 6 * tau**2 * p * (p.square().sum() - p)).abs().max().item()

    assert left(0.02) < 20 * 0.02**3
    assert left(0.01) < left(0.02) / 7  # 2^3 less, or more where the third order vanishes


def test_at_equal_law_and_less_scatter_gaussian_noise_is_better_conditioned() -> None:
    p = torch.linspace(0, 6, 10, dtype=torch.float64).softmax(0)

    def at(noise: Gumbel | Gaussian | Discrete, tau: float) -> tuple[float, float]:
        slope = softmax.hessian(theta := inversion.softmax_parameters(p, noise, tau), noise, tau)
        eigenvalues = torch.linalg.eigvalsh(slope @ (slope / p.unsqueeze(-1)))
        scatter = (p - p.square()).sum() - tau * slope.diagonal().sum()  # sum of E p_i^2 - (E p_i)^2
        assert (softmax.mean(theta, noise, tau) - p).abs().max() < 1e-12
        return (eigenvalues[-1] / eigenvalues[1]).item(), scatter.item()

    gumbel, gaussian, none = at(Gumbel(), 1.0), at(Gaussian(), 1.0), at(point_mass(), 1.0)
    assert gaussian[0] < gumbel[0] < none[0]
    assert none[1] < 1e-14 < gaussian[1] < 0.7 * gumbel[1]


def test_exercise_1_four_sets() -> None:
    assert HalfSpace((1.0, 1.0, 0.0), 5.0).complete
    assert not HalfSpace((-1.0, 1.0, 0.0)).complete
    theta = inversion.softmax_parameters(vector(0.7, 0.2, 0.1))
    assert bool((theta - theta.max() <= 0).all())


def test_exercise_2_a_narrow_layer_misses_laws() -> None:
    weight, v = vector(1, 0, 0, 1, -1, 0, 0, -1).reshape(4, 2), vector(1, -1, 1, -1)
    assert (v @ weight).tolist() == [0.0, 0.0]
    h = vector(0.4, -1.2)
    assert abs((weight @ h).log_softmax(-1) @ v) < 1e-14
    assert abs(softmax.mean(weight @ h).log() @ v) > 1e-3


def test_exercise_3_an_edge_is_attained_on_a_half_line() -> None:
    for b in (-2.0, -3.0, -50.0):
        assert (argmax.probabilities(vector(0, 0, b), Uniform()) - vector(0.5, 0.5, 0)).abs().max() < 1e-14
    assert argmax.probabilities(vector(0, 0, -1.99), Uniform())[2] > 0


def test_exercise_4_ties_of_three() -> None:
    third = Fraction(1, 3)
    # Wins alone: 1/2 * (1/2)^2; among the winners: 1/2 + (1/2)^3.
    assert discrete.bounds([0, 0, 0], signs())[0] == (Fraction(1, 8), Fraction(5, 8))
    # 1/3 * (2/3)^2 + 1/3 * (1/3)^2 and 1/3 + 1/3 * (2/3)^2 + (1/3)^3.
    three = Discrete((-1, 0, 1), (third, third, third))
    assert discrete.bounds([0, 0, 0], three)[0] == (Fraction(5, 27), Fraction(14, 27))
