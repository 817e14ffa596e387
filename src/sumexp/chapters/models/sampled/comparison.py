r"""Differences of trained methods, paired by seed, and their order compared with a prediction.

Of each method there is a table of errors by class for each seed [seeds, C]; an error of a group is the mean over its
classes, and a difference of two methods the interval of the differences seed by seed. What such an interval decides
is said by :mod:`sumexp.chapters.intervals` alone.
"""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sumexp.chapters import intervals
from sumexp.chapters.intervals import Interval, paired
from sumexp.chapters.models.sampled.methods import Method

Values: TypeAlias = NDArray[np.float64]


def difference(
    first: Values, second: Values, members: NDArray[np.bool_] | None = None, confidence: float = 0.95
) -> Interval:
    """The difference ``first - second`` of the mean over some classes, paired by seed.

    Args:
        first: of each seed and class [seeds, C].
        second: of the same seeds in the same order.
        members: which classes count [C]; all if not given.
        confidence: of the interval.

    Raises:
        ValueError: if the two are not of the same seeds and classes, of two seeds at least.
    """
    if first.shape != second.shape:
        raise ValueError(f"tables of shapes {first.shape} and {second.shape} cannot be paired; give the same seeds")
    return paired(mean(first, members), mean(second, members), confidence, shares=True)


def mean(errors: Values, members: NDArray[np.bool_] | None = None) -> Values:
    """The mean over some classes of each seed, [seeds]."""
    result: Values = (errors if members is None else errors[:, members]).mean(1)
    return result


def order(predicted: Mapping[Method, float], measured: Mapping[Method, ArrayLike], tie: float = 1e-3) -> Interval:
    """Kendall's tau-b of the predicted order of the methods and the measured one of each seed.

    Args:
        predicted: of each method a number; more is predicted to err less.
        measured: of each method the error of each seed [seeds].
        tie: predictions that are no further apart are a tie.

    Raises:
        ValueError: if the methods are not the same, or there are fewer than two.
    """
    if predicted.keys() != measured.keys() or len(predicted) < 2:
        raise ValueError(f"{len(predicted)} predicted and {len(measured)} measured methods; give the same, two or more")
    rounded = np.round(np.array(list(predicted.values())) / tie)
    return intervals.agreement(-rounded, np.array([measured[method] for method in predicted]))
