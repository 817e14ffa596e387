"""The constant model, by hand on three images and by torch on the digits."""

import math

import numpy as np
import pytest
import torch

from sumexp import datasets
from sumexp.chapters.vae.baseline import Constant, judge


def test_a_pixel_has_its_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = np.float32([[1, 0], [1, 0], [0, 0]]), np.float32([[1, 1]])
    monkeypatch.setattr(datasets, "images", lambda _: datasets.ImageData(train, test, test))
    assert judge(Constant("digits")).metrics["nats"] == pytest.approx(-math.log(3 / 5) - math.log(1 / 5))


def test_it_is_torchs_binary_cross_entropy() -> None:
    data = datasets.images("digits")
    train, test = ((torch.from_numpy(part) > 0.5).double() for part in (data.train, data.test))
    black = ((train.sum(0) + 1) / (len(train) + 2)).expand_as(test)
    expected = torch.nn.functional.binary_cross_entropy(black, test, reduction="none").sum(-1)
    result = judge(Constant("digits", test_images=50))
    assert result.metrics["nats"] == pytest.approx(expected[:50].mean().item(), rel=1e-12)
    assert result.arrays["nats"].shape == (50,)
