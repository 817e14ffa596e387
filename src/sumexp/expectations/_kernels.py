r"""The functions of :math:`s = tx` from which every transform is made, accurate for tiny and for huge s."""

import math
from collections.abc import Callable

from sumexp.expectations._arrays import Array, namespace

Kernel = Callable[[Array], Array]
"""A function of s = t x, element by element."""

_TINY = 0.125
"""Below it a series; from there on 1 - e^{-s} is subtracted from s, which costs up to four bits."""
_SERIES = [1 / math.factorial(k) for k in range(2, 12)]


def decay(s: Array) -> Array:
    r""":math:`e^{-s}`."""
    return namespace(s).exp(-s)


def growth(s: Array) -> Array:
    r""":math:`1 - e^{-s}`, accurate where s is tiny."""
    return -namespace(s).expm1(-s)


def bend(s: Array) -> Array:
    r""":math:`e^{-s} - 1 + s \approx s^2/2`, accurate where s is tiny; any sign of s."""
    xp, small = namespace(s), s.clip(-_TINY, _TINY)
    opposite, series = -small, xp.full_like(small, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        series *= opposite
        series += coefficient
    return xp.where(abs(s) < _TINY, series * small * small, xp.expm1(-s) + s)


def shrink(s: Array) -> Array:
    r""":math:`s e^{-s}`."""
    return s * decay(s)


def gain(s: Array) -> Array:
    r""":math:`s (1 - e^{-s})`."""
    return s * growth(s)


def log1p_bend(z: Array) -> Array:
    r""":math:`z + \log(1 - z) \approx -z^2/2` for z in [0, 1), accurate where z is tiny.

    With :math:`a = -\log(1-z)` it is :math:`-(e^{-a} - 1 + a)`.
    """
    return -bend(-namespace(z).log1p(-z))
