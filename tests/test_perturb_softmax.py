"""Perturb-Softmax against closed forms, autograd against formulas."""

from math import exp

import pytest
import torch

from sumexp.perturb import softmax
from sumexp.perturb.noises import Gumbel


@pytest.mark.parametrize("x", [0.5, 1.0, 3.0, 10.0, 20.0])
def test_gumbel_softmax_of_two_classes_in_closed_form(x: float) -> None:
    p = softmax.mean(torch.tensor([x, 0.0], dtype=torch.float64), Gumbel())
    assert abs(p[0].item() - exp(x) * (exp(x) - 1 - x) / (exp(x) - 1) ** 2) < 1e-14
    assert abs(p[1].item() / ((exp(x) * (x - 1) + 1) / (exp(x) - 1) ** 2) - 1) < 3e-14
