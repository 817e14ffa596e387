"""Steps down a loss."""

from math import cos, pi

import pytest
import torch

from sumexp.descent import descend


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
