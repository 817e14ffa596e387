"""What the losses of sets are sums of, for one node of the grid; shared by `sets` and `tries`."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

DIGITS = 20.0
"""Nats below the largest term from which on terms are dropped: a relative 10^-9."""

Value = TypeVar("Value", bound=np.generic)

FAINT = 200.0
"""sz from which on a negative has no part left of its weight."""


class Terms(NamedTuple):
    r"""What :math:`\mathbb E_ye^{-sZ}` and its derivatives are sums of, for some s: [K, N] unless said otherwise.

    Attributes:
        time: [N] the column of s, with its time, that each term belongs to.
        part: complex; the terms of :math:`\mathbb E_y` without the rates.
        rate: complex; the sum of the rates, or 1; [1, N] where it is the same for all labels.
        own: complex; what each class adds to that sum; None where there is no sum.
        pull: complex; minus the derivative of a member's logarithm of P.
        s: [K, N] :math:`sz`, and 0 beyond :data:`FAINT`.
        weighted: whether what a class adds to the rates has the factor :math:`e^{-sz}`.
    """

    time: NDArray[np.int64]
    part: Complexes
    rate: Complexes
    own: Complexes | None
    pull: Complexes
    s: Floats
    weighted: bool = False

    @property
    def turn(self) -> Complexes:
        """The derivative of ``own`` in a member's score."""
        assert self.own is not None
        return self.own * (self.pull - self.s if self.weighted else self.pull)


def by_time(parts: Sequence[Terms], shape: tuple[int, ...]) -> Floats:
    """[K, columns] the sums of the terms."""
    sums = np.zeros(shape)
    for terms in parts:
        first = np.flatnonzero(np.diff(terms.time, prepend=-1))  # those of one column stand together, perhaps twice
        some = np.add.reduceat((terms.part * terms.rate).real, first, axis=1)
        np.add.at(sums.T, terms.time[first], some.T)
    return sums


def take(values: NDArray[Value], which: NDArray[np.int64]) -> NDArray[Value]:
    """Columns of a matrix, row by row in memory; of ``values[:, which]``, column by column, all sums are slow."""
    return np.take(values, which, axis=1)


def log_product(count: Floats, factor: Complexes) -> Complexes:
    r""":math:`\sum_k n_k\log z_k` for complex z [K, ...].

    In real parts, since numpy's complex logarithm takes twenty times as long as both of them.
    """
    size, angle = np.log(np.abs(factor)), np.arctan2(factor.imag, factor.real)
    return np.asarray(np.tensordot(count, size, 1) + 1j * np.tensordot(count, angle, 1))


def exponentials(x: Complexes) -> tuple[Complexes, Complexes]:
    """e^x and e^x - 1 of complex x, to all digits near 0 as well; in real parts for the same reason."""
    half = np.sin(x.imag / 2)
    turn, size = 2 * half**2, np.exp(x.real)
    less = np.expm1(x.real)
    whole, rest = np.empty(x.shape, dtype=np.complex128), np.empty(x.shape, dtype=np.complex128)
    whole.real = size * (1 - turn)
    rest.real = less * (1 - turn) - turn
    whole.imag = rest.imag = 2 * size * half * np.cos(x.imag / 2)
    return whole, rest


def expit(x: Floats) -> Floats:
    """1 / (1 + e^-x), which in numpy's exponential takes a fifth of the time of scipy's."""
    return np.asarray(1 / (1 + np.exp(-np.maximum(x, -700.0))))


def softplus(x: Floats) -> Floats:
    """log(1 + e^x)."""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


@overload
def tail(variance: float, digits: float) -> float: ...
@overload
def tail(variance: Floats, digits: float) -> Floats: ...
def tail(variance: float | Floats, digits: float) -> float | Floats:
    """How far a sum of coins of that variance strays with the chance e^-digits, by Bernstein's inequality."""
    return digits / 3 + (digits**2 / 9 + 2 * digits * variance) ** 0.5
