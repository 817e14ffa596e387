r"""Perturb-Argmax with discrete noise, exactly: ties, the sub-differential and its segments.

With ties of positive probability :math:`\phi(\theta) = \mathbb E\max_j(\theta_j+\gamma_j)` has more than one
sub-gradient, as the probability of a tie set T may be split in any way:

.. math::
    \partial\phi(\theta) = \mathbb E\,\mathrm{conv}\{e_i : i \in T\}, \qquad
    \phi'(\theta; v) = \mathbb E\max_{i\in T}v_i .

With ``Fraction`` parameters and weights the results are exact. Functions of parameters raise the errors of
:func:`bounds`.

Source: Cohen Indelman and Hazan, Proposition 5.5 and equations (66), (67).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product, zip_longest
from math import isfinite, prod
from typing import NamedTuple, TypeAlias

from sumexp.perturb.noises import Discrete

Number: TypeAlias = Fraction | int | float


class Segment(NamedTuple):
    """The probabilities of the first of two classes, from ``least`` to ``most``, for delta in [low, high].

    ``low == high`` at a tie; a plateau has ``least == most``. None stands for an infinite end.
    """

    low: Number | None
    high: Number | None
    least: Number
    most: Number


def _check(theta: Sequence[Number]) -> None:
    if len(theta) < 2:
        raise ValueError(f"theta is {theta}; at least two classes are needed")
    if not all(isfinite(value) for value in theta):
        raise ValueError(f"theta is {theta}; parameters must be finite")


def bounds(theta: Sequence[Number], noise: Discrete) -> list[tuple[Number, Number]]:
    """For each class the probability that it wins alone and that it is among the winners.

    These are the least and the largest value of its coordinate on the sub-differential; by products of distribution
    functions, in O(d^2) time.

    Raises:
        ValueError: if there are fewer than two classes or a parameter is not finite.
    """
    _check(theta)
    atoms = list(zip(noise.values, noise.weights, strict=True))

    def below(x: Number, strict: bool) -> Number:
        return sum((weight for value, weight in atoms if value < x or (value == x and not strict)), Fraction(0))

    def chance(i: int, strict: bool) -> Number:
        others = [other for j, other in enumerate(theta) if j != i]
        return sum(
            (weight * prod(below(theta[i] + value - other, strict) for other in others) for value, weight in atoms),
            Fraction(0),
        )

    return [(chance(i, True), chance(i, False)) for i in range(len(theta))]


def outcomes(theta: Sequence[Number], noise: Discrete) -> Iterator[tuple[Number, Number, tuple[int, ...]]]:
    """All outcomes of the noise: probability, maximum, winners; their number is exponential in d."""
    _check(theta)
    for drawn in product(zip(noise.values, noise.weights, strict=True), repeat=len(theta)):
        values = [parameter + value for parameter, (value, _) in zip(theta, drawn, strict=True)]
        largest = max(values)
        winners = tuple(i for i, value in enumerate(values) if value == largest)
        yield prod((weight for _, weight in drawn), start=Fraction(1)), largest, winners


def potential(theta: Sequence[Number], noise: Discrete) -> Number:
    """E max, by enumeration."""
    return sum((weight * largest for weight, largest, _ in outcomes(theta, noise)), Fraction(0))


def directional(theta: Sequence[Number], v: Sequence[Number], noise: Discrete) -> Number:
    """The directional derivative of E max along v [d]: the support function of the sub-differential."""
    if len(v) != len(theta):
        raise ValueError(f"v has {len(v)} entries; give one for each of {len(theta)} classes")
    return sum((weight * max(v[i] for i in winners) for weight, _, winners in outcomes(theta, noise)), Fraction(0))


def probabilities(theta: Sequence[Number], noise: Discrete) -> list[Number]:
    """The Perturb-Argmax law if ties have probability 0; otherwise ValueError."""
    ends = bounds(theta, noise)
    if any(least != most for least, most in ends):
        raise ValueError(
            f"at theta = {list(theta)} ties have positive probability, and the law is not a function of theta; "
            "bounds() gives the sub-differential"
        )
    return [least for least, _ in ends]


def ties(noise: Discrete) -> list[Number]:
    """All values of theta_1 - theta_2 at which two classes tie with positive probability, ascending."""
    return sorted({second - first for first in noise.values for second in noise.values})


def segments(noise: Discrete) -> list[Segment]:
    """For two classes the graph of the sub-differential over delta: plateaus and steps in turn."""
    at = ties(noise)
    middles = [at[0] - 1, *((left + right) / Fraction(2) for left, right in pairwise(at)), at[-1] + 1]
    ends = zip(middles, [None, *at], [*at, None], strict=True)
    plateaus = (Segment(left, right, *bounds([middle, 0], noise)[0]) for middle, left, right in ends)
    steps = (Segment(tie, tie, *bounds([tie, 0], noise)[0]) for tie in at)
    return [each for pair in zip_longest(plateaus, steps) for each in pair if each]
