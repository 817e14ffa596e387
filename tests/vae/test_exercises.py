"""The solutions of the exercises of the chapter `vae`."""

import math

import pytest
import torch

from sumexp.chapters.vae import Temperature
from sumexp.perturb import batched
from sumexp.perturb.noises import Gumbel, Logistic


def test_logistic_noise_is_charged_too_much() -> None:
    delta = torch.linspace(0.05, 20, 400, dtype=torch.float64)
    a = delta.exp()
    q = a * (a - 1 - delta) / (a - 1).square()
    rows = torch.stack([delta, torch.zeros_like(delta)], -1)
    assert (batched.probabilities(rows, Logistic())[:, 0] - q).abs().max() < 1e-12
    assert bool((q > 0.5).all())
    assert bool((q < a / (a + 1)).all())
    assert bool(((a + 1) * delta > 2 * (a - 1)).all())
    gap = batched.negative_entropy(rows, Logistic()) - batched.negative_entropy(rows, Gumbel())
    assert bool((gap < 0).all())


def test_the_floor_is_not_reached() -> None:
    schedule, last = Temperature(), 300 * 500 - 1
    assert schedule.at(last) == pytest.approx(math.exp(-1.49), rel=1e-14) == pytest.approx(0.225, abs=5e-4)
    assert schedule.at(231_000) > 0.1 == schedule.at(231_001)
