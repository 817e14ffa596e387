"""Comparisons of methods, by hand and by simulation."""

import math

import numpy as np
import pytest

from sumexp.chapters.models.sampled import comparison
from sumexp.chapters.models.sampled.methods import Method


def test_differences_are_paired_and_over_the_members() -> None:
    first = np.array([[0.0, 0.2, 0.4], [0.1, 0.3, 0.9]])
    second = np.zeros((2, 3))
    tail = np.array([False, True, True])
    one = comparison.difference(first, second, tail)
    assert (one.mean, one.count) == (pytest.approx((0.3 + 0.6) / 2), 2)
    assert one.runs == pytest.approx((0.3, 0.6))
    assert comparison.difference(first, second).mean == pytest.approx((0.2 + 1.3 / 3) / 2)


def test_an_order_by_hand() -> None:
    a, b, c = Method(), Method(weighting="equalised"), Method(weighting="adaptive")
    measured = {a: [0.5, 0.51, 0.5], b: [0.3, 0.31, 0.31], c: [0.1, 0.11, 0.09]}
    assert comparison.order({a: 0.0, b: 1.0, c: 2.0}, measured).mean == pytest.approx(1.0)
    assert comparison.order({a: 2.0, b: 1.0, c: 0.0}, measured).mean == pytest.approx(-1.0)
    # tau-b with one tie among the predicted: 2 / sqrt(2 * 3)
    assert comparison.order({a: 0.0, b: 1e-5, c: 2.0}, measured).mean == pytest.approx(2 / math.sqrt(6))
