r"""The three functions of :math:`s = tx` from which every transform is made, accurate for tiny and for huge s."""

import math

import torch
from torch import Tensor

_TINY = 0.125
"""Below it a series; from there on 1 - e^{-s} is subtracted from s, which costs up to four bits."""
_SERIES = [1 / math.factorial(k) for k in range(2, 12)]


def decay(s: Tensor) -> Tensor:
    r""":math:`e^{-s}`."""
    return torch.exp(-s)


def growth(s: Tensor) -> Tensor:
    r""":math:`1 - e^{-s}`, accurate where s is tiny."""
    return -torch.expm1(-s)


def bend(s: Tensor) -> Tensor:
    r""":math:`e^{-s} - 1 + s \approx s^2/2`, accurate where s is tiny; any sign of s."""
    small = s.clamp(-_TINY, _TINY)
    opposite, series = small.neg(), torch.full_like(small, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        series = series.mul_(opposite).add_(coefficient)
    return torch.where(s.abs() < _TINY, series * small.square(), torch.expm1(-s) + s)


def log1p_bend(z: Tensor) -> Tensor:
    r""":math:`z + \log(1 - z) \approx -z^2/2` for z in [0, 1), accurate where z is tiny.

    With :math:`a = -\log(1-z)` it is :math:`-(e^{-a} - 1 + a)`.
    """
    return -bend(-torch.log1p(-z))
