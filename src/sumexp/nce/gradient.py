r"""The sampled cross entropy with importance weights and its expected gradient, over all draws in rational arithmetic.

For logits :math:`\theta` over classes, a target t and a law q on the other classes,

.. math:: L = \log Z - \theta_t, \qquad \hat L = \log\hat Z - \theta_t, \qquad
    \hat Z = e^{\theta_t} + \frac1m\sum_{i\le m}\frac{e^{\theta_{n_i}}}{q(n_i)},\quad n_i\sim q .

The functions take the weights :math:`w = e^\theta`. In floating point, for any m, `sumexp.bias.sampled_bias` gives the
expected gradient minus the full one.

Source: Stratos, appendix C.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from sumexp._checks import whole


def rational_draws(q: Sequence[Fraction], m: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """All sequences of m draws that can occur, with their probabilities."""
    for drawn in product((n for n, p in enumerate(q) if p), repeat=m):
        yield drawn, math.prod((q[n] for n in drawn), start=Fraction(1))


def rational_partition(w: Sequence[Fraction], target: int, drawn: Sequence[int], q: Sequence[Fraction]) -> Fraction:
    r""":math:`\hat Z` of the weights :math:`w = e^\theta`; ``q`` may be another law than the one drawn from."""
    return w[target] + sum((w[n] / q[n] for n in drawn), Fraction(0)) / len(drawn)


def rational_gradient(w: Sequence[Fraction], target: int) -> list[Fraction]:
    r""":math:`\nabla L` of the weights :math:`w = e^\theta`."""
    whole("target", target, 0, len(w) - 1)
    z = sum(w, Fraction(0))
    return [value / z - (x == target) for x, value in enumerate(w)]


def rational_expected_gradient(w: Sequence[Fraction], target: int, q: Sequence[Fraction], m: int) -> list[Fraction]:
    r""":math:`\nabla\,\mathbb E\hat L` of the weights :math:`w = e^\theta`: equation (7), corrected, over all draws.

    Raises:
        ValueError: if q is positive at the target, misses a negative, is negative or does not sum to 1, or m < 1.
    """
    if m < 1 or sum(q) != 1 or q[target] != 0 or any(p <= 0 for x, p in enumerate(q) if x != target):
        given = ", ".join(map(str, q))
        raise ValueError(f"m = {m}, q = ({given}): m >= 1 and a law positive on all classes but the target are needed")
    slope = [Fraction(0) - (x == target) for x in range(len(w))]
    for drawn, probability in rational_draws(q, m):
        z = rational_partition(w, target, drawn, q)
        slope[target] += probability * w[target] / z
        for n in drawn:
            slope[n] += probability * w[n] / (m * q[n]) / z
    return slope


def rational_best_noise(w: Sequence[Fraction], target: int) -> list[Fraction]:
    r""":math:`q^*` of the weights :math:`w = e^\theta`."""
    whole("target", target, 0, len(w) - 1)
    others = sum(w, Fraction(0)) - w[target]
    return [Fraction(0) if x == target else value / others for x, value in enumerate(w)]
