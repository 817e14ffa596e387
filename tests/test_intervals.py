"""Intervals over seeds, against the t table and against simulation."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sumexp.chapters import intervals


def test_an_interval_by_hand() -> None:
    """1, 2, 3: mean 2, sd 1; Student's t with 2 degrees of freedom has the 97.5 % point 4.302653."""
    found = intervals.interval([1, 2, 3])
    assert (found.mean, found.sd, found.count) == (2, 1, 3)
    assert found.half_width == pytest.approx(4.302653 / sqrt(3), rel=1e-6)
    assert found.low == 2 - found.half_width
    assert found.sign == 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9), st.floats(0.5, 0.999))
def test_a_paired_interval_is_that_of_the_t_test(values: list[float], confidence: float) -> None:
    """The second way: scipy's paired t test, inverted."""
    other = np.linspace(0, 1, len(values))
    found = intervals.paired(values, other, confidence)
    if found.sd < 1e-9 * (1 + abs(found.mean)):  # scipy warns of a spread that is all rounding
        return
    against = stats.ttest_rel(values, other).confidence_interval(confidence)
    assert (found.low, found.high) == pytest.approx((against.low, against.high), rel=1e-9, abs=1e-9)


def test_the_interval_covers_as_often_as_it_says() -> None:
    """20,000 intervals from 5 normal runs: 95 % within 5 standard errors, a false alarm in 2 of 10^6 runs."""
    draws = np.random.default_rng(0).normal(1.0, 2.0, (20_000, 5))
    covered = np.mean([(found := intervals.interval(row)).low < 1 < found.high for row in draws])
    assert abs(covered - 0.95) < 5 * sqrt(0.95 * 0.05 / 20_000)


def test_the_sign() -> None:
    assert intervals.interval([1.0, 1.1, 0.9]).sign == 1
    assert intervals.paired([1, 2, 3.1], [2, 3, 4]).sign == -1


@pytest.mark.parametrize("values", [[], [1.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_too_few_or_bad_values_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="two or more finite numbers"):
        intervals.interval(values)


def test_unequal_pairs_and_bad_confidence_are_refused() -> None:
    with pytest.raises(ValueError, match="3 runs are paired with 2"):
        intervals.paired([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match=r"confidence is 1\.5"):
        intervals.interval([1, 2], 1.5)


def reaching(low: float, high: float) -> intervals.Interval:
    return intervals.Interval((low + high) / 2, low, high, 1.0, 5)


def test_all_lie_below_zero_if_each_does_and_not_if_one_lies_above() -> None:
    assert intervals.all_below([reaching(-3, -2), reaching(-2, -1)]) == reaching(-2, -1)
    assert intervals.all_below([reaching(-9, 9), reaching(1, 2)]) == reaching(1, 2)
    # The wide one begins lowest, and is undecided all the same.
    assert intervals.all_below([reaching(-0.02, -0.01), reaching(-0.05, 0.05)]) is None
    assert intervals.all_above([reaching(0.01, 0.02), reaching(-0.05, 0.05)]) is None
    assert intervals.all_above([reaching(1, 3), reaching(2, 4)]) == reaching(1, 3)
    assert intervals.all_above([reaching(-2, -1), reaching(-9, 9)]) == reaching(-2, -1)
    with pytest.raises(ValueError, match="no differences"):
        intervals.all_below([])


def test_one_null_difference_among_two_passes_for_below_as_rarely_as_an_interval_misses() -> None:
    # 4,000 experiments of five seeds, one difference of -0.5 with little spread and one of none with ten times as much:
    # *all below* in at most 2.5 % of them. At 2.5 % more than 140 have probability 5e-5. The spreads must differ:
    # looking at the interval that begins highest alone errs in 82 %, with equal spreads no more than this rule.
    seeds = np.random.default_rng(0).normal((-0.5, 0.0), (0.1, 1.0), (4000, 5, 2))
    said = [intervals.all_below([intervals.interval(one) for one in runs.T]) for runs in seeds]
    wrong = sum(decides is not None and decides.sign < 0 for decides in said)
    assert wrong <= 140
