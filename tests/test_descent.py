"""Steps down a loss, and generators."""

from math import cos, pi
from typing import get_args

import pytest
import torch

from sumexp import _descent as descent
from sumexp._descent import descend


def test_a_learning_rate_that_falls_to_zero_along_a_cosine() -> None:
    # Plain descent on (x - 1)^2/2: a step at rate h takes the error times 1 - h, h = (1 + cos(pi t/4))/4.
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    found = descend(torch.optim.SGD([x], lr=0.5), lambda: (x - 1).square() / 2, 4)
    error, expected = 2.0, []
    for t in range(4):
        expected.append(error**2 / 2)
        error *= 1 - (1 + cos(pi * t / 4)) / 4
    assert found.tolist() == pytest.approx(expected, rel=1e-12)
    assert x.item() == pytest.approx(1 + error, rel=1e-12)
    assert not found.requires_grad


def test_generators_of_two_purposes_differ() -> None:
    purposes = get_args(descent.Purpose)
    first = [
        torch.rand(1, generator=descent.generator(5, purpose, epoch)).item() for purpose in purposes for epoch in (0, 1)
    ]
    assert len(set(first)) == 2 * len(purposes)
    again = torch.rand(1, generator=descent.generator(5, "weights")).item()
    assert again == first[0]
