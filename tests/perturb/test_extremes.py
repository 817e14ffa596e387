"""Atoms, shifts, scales and temperatures far apart; every public function on inputs that are odd but legal."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import sumexp.chapters.fits
import sumexp.perturb
from sumexp.chapters import fits
from sumexp.chapters.fits import objectives
from sumexp.perturb import _nodes as nodes
from sumexp.perturb import argmax, batched, inversion, learner, representation, softmax
from sumexp.perturb.noises import Discrete, Gaussian, Gumbel, signs
from sumexp.perturb.representation import HalfSpace
from sumexp.perturb.transforms import Noise, blurred, mixture
from tests.exact import vector
from tests.perturb.standard import CONTINUOUS, FINITE


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=4, unique=True),
    st.lists(st.floats(-30, 30), min_size=2, max_size=3),
    st.sampled_from([0.01, 0.1, 1.0, 50.0]),
    st.randoms(use_true_random=False),
)
def test_any_atoms_against_enumeration(values: list[float], theta: list[float], tau: float, random: Any) -> None:
    raw = [10 ** random.uniform(-6, 0) for _ in values]
    noise = Discrete(tuple(values), tuple(Fraction(w / math.fsum(raw)) for w in raw))
    places, chances = noise.atoms(vector()), vector(*map(float, noise.weights))
    drawn = torch.cartesian_prod(*[torch.arange(len(values))] * len(theta))
    expected = chances[drawn].prod(-1) @ torch.softmax((vector(*theta) + places[drawn]) / tau, -1)
    mean = softmax.mean(vector(*theta), noise, tau)
    assert (mean - expected).abs().max() < 1e-10
    near = expected > 1e-20
    assert (mean / expected - 1)[near].abs().max() < 1e-9  # (theta + value) / tau has lost that much itself


def test_a_million_between_atoms_costs_no_more_nodes() -> None:
    far = Discrete((0, 1e6), (0.5, 0.5))
    one = torch.tensor(1.0, dtype=torch.float64)
    assert nodes.grid(far, one, 2, 0.0, one.device).count == nodes.grid(signs(), one, 2, 0.0, one.device).count


@pytest.mark.parametrize("noise", CONTINUOUS, ids=str)
@pytest.mark.parametrize("loc", [100.0, -1e8])
def test_a_shift_changes_no_law(noise: Noise, loc: float) -> None:
    theta, moved = vector(1, 0, -2), type(noise)(loc=loc)  # type: ignore[call-arg]
    assert (softmax.mean(theta, moved, 0.7) - softmax.mean(theta, noise, 0.7)).abs().max() < 1e-15
    assert (argmax.probabilities(theta, moved) - argmax.probabilities(theta, noise)).abs().max() < 1e-15


@pytest.mark.parametrize("delta", [5.0, 10.0, 12.0])
@pytest.mark.parametrize("tau", [0.2, 0.49, 0.5, 1.0])
def test_small_probabilities_to_their_own_digits(delta: float, tau: float) -> None:
    # p_2 = P(Z + tau * logistic > delta) with Z of variance 2: 5.8e-16 at delta = 12, tau = 0.2.
    mp.mp.dps = 30
    cuts = [-20, -5, 0, 2, *range(4, 13), 15, 30]
    expected = mp.quad(lambda z: mp.npdf(z, 0, mp.sqrt(2)) / (1 + mp.exp((delta - z) / tau)), cuts)
    assert abs(softmax.mean(vector(delta, 0), Gaussian(), tau)[1].item() / float(expected) - 1) < 1e-13


@pytest.mark.parametrize("noise", FINITE, ids=str)
@pytest.mark.parametrize("tau", [0.3, 0.1])
def test_cold_transforms_over_g_and_over_the_noise(noise: Any, tau: float) -> None:
    s = torch.linspace(-6 / tau, 3, 40, dtype=torch.float64)
    temperature = torch.tensor(tau, dtype=torch.float64)
    rule = noise._rule(tau, s.min().item())
    over_noise = mixture(s, rule[0] / tau, rule[1])
    over_g = blurred(noise, s, temperature, noise._places)
    near = over_noise.log > -30
    for first, second in zip(over_noise, over_g, strict=True):
        assert (first - second)[near].abs().max() < 2e-12


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1e3, 1e200])
@pytest.mark.parametrize("noise", CONTINUOUS, ids=str)
def test_any_scale(noise: Any, scale: float) -> None:
    # Parameters in units of the wider of noise and temperature: the softmax below, the argmax above.
    wide = max(scale, 1.0)
    theta = vector(1, 0, -2) * wide
    scaled = type(noise)(scale=scale)
    if noise.standard_support[0] > -math.inf and scale > 200:
        with pytest.raises(ValueError, match="for noise with edges"):
            softmax.mean(theta, scaled)
        return
    law = softmax.mean(theta, scaled)
    limit = theta.softmax(-1) if scale < 1 else argmax.probabilities(theta / wide, noise)
    assert (law - limit).abs().max() < (1e-13 if scale in (1e-300, 1e200) else 1e-2)
    assert abs(law.sum().item() - 1) < 1e-12


def test_mean_refuses_what_does_not_sum_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sumexp.perturb._nodes.edges", lambda *_: (-2.0, 1.0))
    nodes._kept.cache_clear()
    with pytest.raises(ValueError, match="do not serve"):
        softmax.mean(vector(1, 0), Gaussian(), 0.777)
    nodes._kept.cache_clear()


def test_half_spaces_up_to_rounding() -> None:
    assert not HalfSpace((0.1, 0.2, -0.3)).complete
    assert HalfSpace((-1e-9, -1e-9, -1e-9)).complete
    assert HalfSpace((1e-300, 0.0), 2e-300).project(vector(3, 1)).tolist() == [2, 1]
    assert HalfSpace((1e-13, 0.0)).contains(vector([1, 0], [-1, 0])).tolist() == [False, True]
    half, outside = HalfSpace((1.0, 2.0, -3.0), -1.0), torch.linspace(100, -100, 300).reshape(-1, 3)
    assert bool((half.contains(half.project(outside)) & ~half.contains(outside)).all())
    assert torch.equal(half.project(-outside), -outside)
    assert (half.project(outside.double()) @ vector(1, 2, -3) + 1).abs().max() < 1e-12  # not farther than to the edge
    with pytest.raises(ValueError, match="2 classes, the half space 3"):
        HalfSpace((1.0, 1.0, -2.0)).contains(vector(1, 0))


P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
# Functions are looked up when they are called: `tests.fuzz` puts others in their places.
FROM_THETA: dict[str, Callable[[Tensor], Any]] = {
    **{f"softmax.{name}": lambda x, name=name: getattr(softmax, name)(x, Gaussian(), 0.7) for name in (
        "mean", "potential", "variance", "pair_moments", "hessian", "hessian_diagonal")},
    "softmax.mean_and_pull": lambda x: softmax.mean_and_pull(x, torch.log)[1],
    "softmax.hessian_product": lambda x: softmax.hessian_product(x, torch.ones_like(x, dtype=torch.float64)),
    **{f"argmax.{name}": lambda x, name=name: getattr(argmax, name)(x, Gaussian()) for name in (
        "probabilities", "quadrature", "potential", "pair_weights", "jacobian")},
    "argmax.jacobian_product": lambda x: argmax.jacobian_product(x, torch.ones(x.shape, device=x.device), Gaussian()),
    **{f"batched.{name}": lambda x, name=name: getattr(batched, name)(x, Gaussian()) for name in (
        "probabilities", "log_probabilities", "negative_entropy")},
    "batched.divergence": lambda x: batched.divergence(x, torch.zeros_like(x), Gaussian()),
    "representation.smallest_eigenvalue": lambda x: representation.smallest_eigenvalue(x, Gaussian(), 0.7),
    "PerturbSoftmax": lambda x: sumexp.distributions.PerturbSoftmax(x).mean,
    "PerturbLogSoftmax": lambda x: sumexp.distributions.PerturbLogSoftmax(x).mean,
    "PerturbArgmax": lambda x: sumexp.distributions.PerturbArgmax(x, Gaussian()).mean,
    "HalfSpace": lambda x: HalfSpace((1.0, 1.0, -2.0)[: x.shape[-1]] if x.shape[-1] < 4 else (1.0,) * 4).project(x),
}  # fmt: skip
FROM_LAW: dict[str, Callable[[Tensor], Any]] = {
    "inversion.softmax_parameters": lambda p: inversion.softmax_parameters(p, Gaussian(), 0.7),
    "inversion.argmax_parameters": lambda p: inversion.argmax_parameters(p, Gaussian()),
    "learner.descend": lambda p: learner.descend(p, steps=2).law,
    "representation.nearest_attained": lambda p: representation.nearest_attained(p, HalfSpace((1.0, 1.0, -2.0)))[0],
    "fits.condition": lambda p: fits.condition(p, Gumbel(), 1.0),
    "fits.excess": lambda p: fits.excess(p, Gumbel(), 1.0, 10),
    "objectives.value": lambda p: objectives.value("reverse", p, P.to(p)),
    "objectives.slope": lambda p: objectives.slope("reverse", p, P.to(p)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FROM_THETA)
def test_fewer_digits_give_what_double_precision_gives(name: str, dtype: torch.dtype) -> None:
    theta = torch.tensor([[1.0, 0.0, -2.0]], dtype=dtype)
    if name.startswith("batched") and dtype.itemsize == 2:
        with pytest.raises(ValueError, match="float32 or float64"):
            FROM_THETA[name](theta)
        return
    actual, expected = FROM_THETA[name](theta).double(), FROM_THETA[name](theta.double())
    digits = 1e-5 if dtype == torch.float32 else 1e-2
    assert torch.allclose(actual, expected, rtol=digits, atol=digits)
