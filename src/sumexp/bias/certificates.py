r"""Certificates of impossibility: functionals that vanish on every estimator of a scheme and not on its target.

For a box with lower ends u and upper ends v let :math:`a^A` have :math:`v_i` for i in A and :math:`u_i` otherwise. The
mixed difference

.. math:: \Delta G = \sum_{A \subseteq [n]} (-1)^{n-|A|}\, G(a^A)

is zero for the mean of every algorithm that is guaranteed to read fewer than n distinct negatives. It is not zero for
the softmax or its logarithm, so at some corner the bias is at least :math:`|\Delta F| / 2^n`. If the *target* may be
skipped, the difference over all n + 1 exponentials is not zero where :math:`u_i \ge v_0` for all i >= 1. Proofs:
:doc:`/notebooks/bias`.
"""

import math
import numbers
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from sumexp._checks import typed
from sumexp.bias.rational import Point, Rational, box, exact, softmax
from sumexp.bias.reading import History, Scheme, describe, distinct, outcomes

MOST_CORNERS = MOST_SIDES = 2**14
"""With more, enumeration takes minutes, and the numbers of a cube's closed form are too long."""


@dataclass(frozen=True)
class Certificate:
    """A functional on the corners of a box that vanishes on every estimator of a scheme and not on the target."""

    lower: Point
    upper: Point
    value: Fraction  # the functional of the target, not zero; for ``log`` the rational r != 1 with functional -log r
    difference: float  # the functional in floating point
    bias: float  # |difference| / 2^n; every estimator of the scheme has at least this bias at some corner
    histories: int  # the number checked; the functional is exactly zero on the probability of each


def corners(lower: Sequence[Rational], upper: Sequence[Rational]) -> Iterator[tuple[int, Point]]:
    """The corners of the box with their signs."""
    u, v = box(lower, upper)
    if 2 ** len(u) > MOST_CORNERS:
        raise ValueError(
            f"a box with {len(u)} sides has 2^{len(u)} corners; at most {MOST_CORNERS} are enumerated. For a cube use "
            "cube_difference or minimax.lower_bound"
        )
    for point in product(*zip(u, v, strict=True)):
        low = sum(x == y for x, y in zip(point, u, strict=True))
        yield (-1) ** low, point


@typed
def mixed_difference(
    target: Callable[[Point], Fraction], lower: Sequence[Rational], upper: Sequence[Rational]
) -> Fraction:
    r""":math:`\Delta G = \sum_A (-1)^{n-|A|} G(a^A)` of any function on the corners, exactly.

    Raises:
        ValueError: if a value of the function is no rational number, or the box is invalid or too large.
    """
    values = [(sign, target(point)) for sign, point in corners(lower, upper)]
    for _, value in values:
        if not isinstance(value, numbers.Rational):
            raise ValueError(f"the target is {value!r} at a corner; give a Fraction: rounding has a difference too")
    return sum((sign * exact(value) for sign, value in values), Fraction(0))


def log_difference(lower: Sequence[Rational], upper: Sequence[Rational]) -> Fraction:
    r"""The rational r with :math:`\Delta\log(1+S) = \log r`: the product of all :math:`(1+S_A)^{\pm1}`."""
    ratio = Fraction(1)
    for sign, point in corners(lower, upper):
        ratio *= softmax(point) ** -sign
    return ratio


def negative(i: int) -> Callable[[Point], Fraction]:
    r"""The softmax of negative i, :math:`a_i/(1+\sum_j a_j)`: minus a coordinate of the gradient (equation (3))."""
    return lambda a: a[i] * softmax(a)


@typed
def cube_difference(n: int, low: Rational, high: Rational) -> Fraction:
    r"""The mixed difference of F on the cube [u, v]^n, for any n: with d = v - u,

    .. math:: \Delta F = (-1)^n\, n!\, d^n \Big/ \prod_{j=0}^n (1 + nu + jd) .

    Raises:
        ValueError: if n is not from 1 to 2^14 or the ends are not 0 < u < v.
    """  # noqa: D415
    (u,), (v,) = box([low], [high])
    if not 1 <= n <= MOST_SIDES:
        raise ValueError(f"n is {n}; a cube must have from 1 to {MOST_SIDES} sides")
    return math.factorial(n) * (u - v) ** n / math.prod(1 + n * u + j * (v - u) for j in range(n + 1))


def annihilated(scheme: Scheme, lower: Sequence[Rational], upper: Sequence[Rational]) -> dict[History, Fraction]:
    """The mixed difference of the probability of each final history; 0 unless the history has all n negatives."""
    differences: defaultdict[History, Fraction] = defaultdict(Fraction)
    for sign, point in corners(lower, upper):
        for history, probability in outcomes(scheme, point).items():
            differences[history] += sign * probability
    return dict(differences)


@typed
def certify(
    scheme: Scheme,
    lower: Sequence[Rational],
    upper: Sequence[Rational],
    target: Callable[[Point], Fraction] | str = softmax,
) -> Certificate:
    """Prove that no estimator by a scheme is unbiased on a box [lower, upper].

    ``target`` is the rational function of the point to estimate, or ``"log"`` for the log-softmax.

    Raises:
        ValueError: if the scheme may read all n negatives, the target's difference vanishes on this box (as it can for
            a negative's softmax), a value of the target is no rational number, or the box is invalid or too large.
    """
    differences = annihilated(scheme, lower, upper)
    for history, difference in differences.items():
        if len(distinct(history)) == len(lower):
            raise ValueError(
                f"the scheme may end {describe(history)}: it has read all {len(lower)} negatives, and unbiased "
                "estimators exist; a certificate needs a scheme that always reads fewer"
            )
        assert difference == 0, history
    if isinstance(target, str):
        if target != "log":
            raise ValueError(f"target is {target!r}; give a function of the point, or 'log'")
        value = log_difference(lower, upper)
        near = abs(value - 1) < 0.5  # log1p keeps the digits there; log softmax = -log(1 + S)
        size = -(math.log1p(value - 1) if near else math.log(value.numerator) - math.log(value.denominator))
    else:
        value = mixed_difference(target, lower, upper)
        size = float(value)
    if value == (1 if isinstance(target, str) else 0):
        raise ValueError("the mixed difference of this target vanishes on this box; choose other ends")
    u, v = box(lower, upper)
    return Certificate(u, v, value, size, abs(size) / 2 ** len(u), len(differences))
