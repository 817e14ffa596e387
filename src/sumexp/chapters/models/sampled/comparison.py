"""Differences of trained methods, paired by seed, and their order compared with a prediction.

A method has a table of errors by seed and class [seeds, C]; the error of a group is the mean over its classes.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sumexp.chapters import intervals
from sumexp.chapters.intervals import Interval, paired

Values: TypeAlias = NDArray[np.float64]
Key = TypeVar("Key")


def difference(
    first: Values, second: Values, members: NDArray[np.bool_] | None = None, confidence: float = 0.95
) -> Interval:
    """The difference ``first - second`` [seeds, C] of the mean over the classes ``members`` [C], paired by seed."""
    return paired(mean(first, members), mean(second, members), confidence, shares=True)


def against(
    errors: Mapping[Key, Values], base: Key, members: Sequence[NDArray[np.bool_] | None], confidence: float = 0.95
) -> dict[Key, list[Interval]]:
    """The differences of each method from ``base``, which is left out, on some groups of classes (None: all)."""
    return {
        method: [difference(table, errors[base], group, confidence) for group in members]
        for method, table in errors.items()
        if method != base
    }


def mean(errors: Values, members: NDArray[np.bool_] | None = None) -> Values:
    """The mean over some classes of each seed, [seeds]."""
    result: Values = (errors if members is None else errors[:, members]).mean(1)
    return result


def order(predicted: Mapping[Key, float], measured: Mapping[Key, ArrayLike], tie: float = 1e-3) -> Interval:
    """Kendall's tau-b of the predicted order of the methods and the measured order of each seed.

    A larger prediction means a smaller error [seeds]; predictions are rounded to multiples of ``tie``.
    """
    rounded = np.round(np.array(list(predicted.values())) / tie)
    return intervals.agreement(-rounded, np.array([measured[method] for method in predicted]))
