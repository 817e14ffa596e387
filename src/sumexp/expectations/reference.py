r"""Slow and independent ways to the same expectations, which tests and the chapter hold the integrals against."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import mpmath
import numpy as np
import torch
from mpmath import mpf
from torch import Tensor

Outcome = tuple[mpf, tuple[int, ...]]
"""A probability, and how often each class is drawn."""

DIGITS = 40


class Moments(NamedTuple):
    """E 1/(1+X), E log(1+X), E 1/(1+X)^2, E log^2(1+X)."""

    probability: mpf
    loss: mpf
    probability_square: mpf
    loss_square: mpf

    @property
    def probability_variance(self) -> mpf:
        """Var 1/(1+X), subtracted in as many digits as the moments have."""
        with mpmath.workdps(DIGITS):
            return self.probability_square - self.probability**2

    @property
    def loss_variance(self) -> mpf:
        """Var log(1+X), likewise."""
        with mpmath.workdps(DIGITS):
            return self.loss_square - self.loss**2


def draws_with_replacement(q: Sequence[mpf], m: int) -> Iterator[Outcome]:
    """Every multiset of m classes with its multinomial probability; there are C(classes + m - 1, m)."""
    for draw in itertools.combinations_with_replacement(range(len(q)), m):
        counts = tuple(draw.count(y) for y in range(len(q)))
        ways = mpf(math.factorial(m)) / math.prod(math.factorial(c) for c in counts)
        yield ways * mpmath.fprod(p**c for p, c in zip(q, counts, strict=True)), counts


def draws_without_replacement(classes: int, m: int) -> Iterator[Outcome]:
    """Every m-subset, each with probability 1 / C(classes, m)."""
    for subset in itertools.combinations(range(classes), m):
        yield mpf(1) / math.comb(classes, m), tuple(int(y in subset) for y in range(classes))


def draws_by_coins(inclusion: Sequence[mpf]) -> Iterator[Outcome]:
    """Every subset, with the probability that just its classes are included."""
    for counts in itertools.product((0, 1), repeat=len(inclusion)):
        yield mpmath.fprod(p if c else 1 - p for p, c in zip(inclusion, counts, strict=True)), counts


def enumerate_moments(log_x: Sequence[float], outcomes: Iterable[Outcome]) -> Moments:
    """The expectations by visiting every outcome, in 40 digits."""
    with mpmath.workdps(DIGITS):
        x = [mpmath.exp(mpf(value)) for value in log_x]
        totals = [mpf(0)] * 4
        for probability, counts in outcomes:
            total = mpmath.fdot(counts, x)
            log = mpmath.log1p(total)
            values = (1 / (1 + total), log, 1 / (1 + total) ** 2, log**2)
            totals = [old + probability * value for old, value in zip(totals, values, strict=True)]
        return Moments(*totals)


def enumerate_gradients(log_x: Sequence[float], outcomes: Iterable[Outcome]) -> list[list[mpf]]:
    """The gradients in log x of the four moments, E[f'(X) count_y x_y], by visiting every outcome, in 40 digits."""
    with mpmath.workdps(DIGITS):
        x = [mpmath.exp(mpf(value)) for value in log_x]
        gradients = [[mpf(0)] * len(x) for _ in range(4)]
        for probability, counts in outcomes:
            total = 1 + mpmath.fdot(counts, x)
            slopes = (-1 / total**2, 1 / total, -2 / total**3, 2 * mpmath.log(total) / total)
            for gradient, slope in zip(gradients, slopes, strict=True):
                for y, count in enumerate(counts):
                    gradient[y] += probability * slope * count * x[y]
        return gradients


def exact_probabilities(log_q: Tensor) -> list[mpf]:
    """q, normalised in 40 digits."""
    with mpmath.workdps(DIGITS):
        q = [mpmath.exp(mpf(value)) for value in log_q.tolist()]
        return [p / mpmath.fsum(q) for p in q]


def gauss_laguerre(log_x: Tensor, m: int, log_q: Tensor, count: int) -> float:
    r"""E[1/(1+X)] for m draws with replacement by the Gauss-Laguerre rule, the textbook one for :math:`\int e^{-t}`.

    It is exact for polynomials L of degree below 2 count, which :math:`L(t) = \mathbb Ee^{-tX}` is like only while
    tX stays moderate at its nodes, the largest near 4 count.
    """
    nodes, weights = np.polynomial.laguerre.laggauss(count)
    t = torch.from_numpy(nodes)
    mean = (log_q.exp() * torch.exp(-t.unsqueeze(-1) * log_x.exp())).sum(-1)
    return float(torch.from_numpy(weights) @ mean**m)


def monte_carlo(log_x: Tensor, m: int, log_q: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Samples of X for m draws with replacement, [samples]."""
    drawn = torch.multinomial(log_q.exp(), samples * m, replacement=True, generator=generator)
    return log_x.exp()[drawn].view(samples, m).sum(-1)
