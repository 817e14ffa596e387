r"""What trained methods say: differences paired by seed, and orders against predictions.

Of each method there is a table of errors by class for each seed [seeds, C]; an error of a group is the mean over its
classes, and a difference of two methods the interval of the differences seed by seed. What such an interval decides
is said by :mod:`sumexp.chapters.intervals` alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Order:
    """A predicted order of methods against the measured one.

    Attributes:
        tau: Kendall's tau-b of each seed's measured order with the predicted one.
        right: of the pairs whose measured difference has an interval off zero and that are predicted to differ, how
            many are predicted rightly.
        wrong: and how many are not.
    """

    tau: Interval
    right: int
    wrong: int


def order(predicted: Mapping[Method, float], measured: Mapping[Method, ArrayLike], tie: float = 1e-3) -> Order:
    """How far a prediction has the order of the methods.

    Args:
        predicted: of each method a number; more is predicted to err less.
        measured: of each method the error of each seed [seeds].
        tie: predictions that are no further apart are a tie.

    Raises:
        ValueError: if the methods are not the same, or there are fewer than two.
    """
    if predicted.keys() != measured.keys() or len(predicted) < 2:
        raise ValueError(f"{len(predicted)} predicted and {len(measured)} measured methods; give the same, two or more")
    measured = {method: measured[method] for method in predicted}
    ends = signs(predicted, measured, tie)
    tau = intervals.agreement(-_rounded(predicted, tie), _table(measured))
    once = np.tril_indices(len(predicted), -1)
    agreed = (ends.measured * ends.predicted)[once]
    return Order(tau, int((agreed == 1).sum()), int((agreed == -1).sum()))


@dataclass(frozen=True)
class Signs:
    """Of each pair of methods, in their order, which errs more: 1 if the row's does, -1 if the column's, 0 if neither.

    Attributes:
        measured: by an interval off zero [methods, methods].
        predicted: [methods, methods].
    """

    measured: NDArray[np.int64]
    predicted: NDArray[np.int64]


def signs(predicted: Mapping[Method, float], measured: Mapping[Method, ArrayLike], tie: float = 1e-3) -> Signs:
    """Which of two methods errs more, as measured and as predicted; arguments as of :func:`order`, in one order."""
    said, table = _rounded(predicted, tie), _table(measured)
    table_signs = np.zeros((len(table), len(table)), dtype=np.int64)
    for i, j in zip(*np.tril_indices(len(table), -1), strict=True):
        table_signs[i, j] = paired(table[i], table[j]).sign
    return Signs(table_signs - table_signs.T, np.sign(said - said[:, None]).astype(np.int64))


def _table(measured: Mapping[Method, ArrayLike]) -> Values:
    return np.array(list(measured.values()), dtype=np.float64)


def _rounded(predicted: Mapping[Method, float], tie: float) -> Values:
    return np.asarray(np.round(np.array(list(predicted.values())) / tie))
