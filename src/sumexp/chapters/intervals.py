r"""What repeated runs say: intervals over seeds.

For n runs with mean :math:`\bar d` and standard deviation s, :math:`\bar d \pm t_{n-1,(1+c)/2}\,s/\sqrt n` covers the
expected value with probability c if the runs are normal. Two methods that share their seeds (initial weights, order of
the data, uniform numbers behind the noise) are compared by the differences seed by seed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its t interval.

    Attributes:
        mean: the mean.
        low: the interval's lower end.
        high: its upper end.
        sd: standard deviation of one run (n - 1 in the denominator).
        count: number of seeds n.
    """

    mean: float
    low: float
    high: float
    sd: float
    count: int

    @property
    def half_width(self) -> float:
        """Half the interval's width."""
        return (self.high - self.low) / 2

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies on one side of zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)


def interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """The t interval of the mean of independent runs.

    Args:
        values: one number a seed [n], n >= 2.
        confidence: probability that the interval covers the expected value.

    Raises:
        ValueError: if there are fewer than two values, one is not finite, or the confidence is not inside (0, 1).
    """
    runs = _finite(values)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must lie inside (0, 1)")
    sd = float(runs.std(ddof=1))
    reach = float(stdtrit(runs.size - 1, (1 + confidence) / 2)) * sd / math.sqrt(runs.size)
    mean = float(runs.mean())
    return Interval(mean, mean - reach, mean + reach, sd, runs.size)


def paired(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Interval:
    """The t interval of the mean of ``first - second``, paired by seed.

    Args:
        first: one number a seed [n].
        second: the same seeds in the same order [n].
        confidence: probability that the interval covers the expected difference.

    Raises:
        ValueError: as :func:`interval`, and if the two have different lengths.
    """
    a, b = _finite(first), _finite(second)
    if a.size != b.size:
        raise ValueError(f"{a.size} runs are paired with {b.size}; give both for the same seeds")
    return interval(a - b, confidence)


def all_below(differences: Sequence[Interval]) -> Interval | None:
    """The interval that decides whether *all* expected differences lie below zero.

    They do if every interval lies below zero: then it is the one that reaches highest. They do not if one lies above:
    then it is the one that begins highest. Else nothing is decided. That all are said to lie below where one does
    not has at most the probability with which one interval misses its value on that side, however many there are.

    Args:
        differences: intervals of one confidence, at least one.

    Raises:
        ValueError: if there is none.

    >>> low, wide = Interval(-2.0, -3.0, -1.0, 1.0, 5), Interval(0.0, -1.0, 1.0, 1.0, 5)
    >>> all_below([low, wide]) is None
    True
    >>> all_below([low]) == low
    True
    """
    if not differences:
        raise ValueError("there are no differences; give at least one interval")
    if (begins_highest := max(differences, key=lambda one: one.low)).sign > 0:
        return begins_highest
    reaches_highest = max(differences, key=lambda one: one.high)
    return reaches_highest if reaches_highest.sign < 0 else None


def all_above(differences: Sequence[Interval]) -> Interval | None:
    """The interval that decides whether *all* expected differences lie above zero: :func:`all_below` mirrored."""
    mirrored = [Interval(-one.mean, -one.high, -one.low, one.sd, one.count) for one in differences]
    decides = all_below(mirrored)
    return None if decides is None else differences[mirrored.index(decides)]


def _finite(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    runs = np.asarray(values, dtype=np.float64).reshape(-1)
    if runs.size < 2 or not np.isfinite(runs).all():
        raise ValueError(f"{runs.size} runs {runs.tolist()[:10]}: two or more finite numbers are needed")
    return runs
