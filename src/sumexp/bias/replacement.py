"""Unbiased estimators of the softmax from draws with replacement, and the infinite moments of the Poisson estimator."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, prod
from types import MappingProxyType

import torch

from sumexp.bias.rational import Rational, multinomial, positive, softmax, solve


def poisson_second_moment(a: Sequence[Rational], rate: Rational, horizon: float, nodes: int = 2001) -> float:
    r"""The second moment of the Poisson estimator up to t = ``horizon``; it grows without bound.

    :math:`T = \prod_{j\le K}(1 - tna_{i_j}/\lambda)`, t ~ Exp(1), K ~ Poisson(:math:`\lambda`), has
    :math:`\mathbb E[T \mid t] = e^{-tS}` and :math:`\mathbb E[T^2 \mid t] = \exp(-2tS + t^2 n\sum a_i^2/\lambda)`,
    whose integral against :math:`e^{-t}` diverges.

    Raises:
        ValueError: if an argument is not positive.
    """
    values, (lam,) = positive("a", a), positive("rate", [rate])
    if not horizon > 0:
        raise ValueError(f"horizon is {horizon}; it must be positive")
    t = torch.linspace(0, horizon, nodes, dtype=torch.float64)
    total, squares = float(sum(values)), float(len(values) * sum(x * x for x in values) / lam)
    return float(torch.trapezoid(torch.exp(-t - 2 * t * total + t.square() * squares), t))


def poisson_absolute_exponent(a: Sequence[Rational], rate: Rational, t: Rational) -> Fraction:
    r"""The exponent x of :math:`e^{-t}\,\mathbb E[|T| \mid t] = e^{x}` of the Poisson estimator, exactly.

    :math:`x = -t + \lambda(\mathbb E|1 - tna_i/\lambda| - 1)`; beyond all :math:`\lambda/(na_i)` it is
    :math:`(S-1)t - 2\lambda`. So for :math:`S \ge 1` even :math:`\mathbb E|T|` is infinite, and T has no mean at all.
    """
    values, (lam,) = positive("a", a), positive("rate", [rate])
    n = len(values)
    absolute = sum((abs(1 - Fraction(t) * n * x / lam) for x in values), Fraction(0)) / n
    return -Fraction(t) + lam * (absolute - 1)


def compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    """All ways to write ``total`` as an ordered sum of ``parts`` numbers >= 0."""
    return [c for c in product(range(total + 1), repeat=parts) if sum(c) == total]


@cache
def with_replacement_weights(n: int) -> Mapping[tuple[int, ...], Fraction]:
    r"""The unbiased :math:`h(x) = \sum_\beta c_\beta F(x^\beta)` from n uniform draws with replacement: its weights c.

    :math:`x^\beta` repeats the drawn value :math:`x_i` :math:`\beta_i` times; :math:`\beta` runs over the compositions
    of n in n parts. The mean of h at :math:`a^\beta` is a polynomial of degree n in :math:`\beta/n`, which the lattice
    fixes.

    Raises:
        ValueError: unless 1 <= n <= 4 (binom(2n-1, n) unknowns); for larger n take `all_seen_estimate`.
    """
    if not 1 <= n <= 4:
        raise ValueError(f"n is {n}; 1..4 are solved exactly. For larger n take all_seen_estimate")
    lattice = compositions(n, n)
    matrix = [
        [Fraction(multinomial(alpha) * prod(b**e for b, e in zip(beta, alpha, strict=True)), n**n) for beta in lattice]
        for alpha in lattice
    ]
    # The mean at every lattice point must be F there, whatever F: c solves the transposed system.
    right = [Fraction(int(beta == (1,) * n)) for beta in lattice]
    return MappingProxyType({beta: c for beta, c in zip(lattice, solve(matrix, right), strict=True) if c})


def with_replacement_estimate(values: Sequence[Rational]) -> Fraction:
    """The unbiased estimate of F from n draws with replacement out of n negatives: the values, blind to indices.

    Raises:
        ValueError: if there are more than 4 values, or one is not positive.
    """
    x = positive("values", values)
    total = Fraction(0)
    for beta, c in with_replacement_weights(len(x)).items():
        total += c * softmax([value for value, times in zip(x, beta, strict=True) for _ in range(times)])
    return total


def all_seen_probability(n: int, draws: int) -> Fraction:
    """The probability that uniform draws with replacement have seen all n negatives."""
    return sum((Fraction((-1) ** j * comb(n, j) * (n - j) ** draws, n**draws) for j in range(n + 1)), Fraction(0))


def all_seen_estimate(drawn: Sequence[int], a: Sequence[Rational]) -> Fraction:
    """F / P(all seen) if the draws have seen all negatives, else 0: unbiased, index-aware, for any draws >= n.

    Raises:
        ValueError: if there are fewer draws than negatives: they never see all.
    """
    values = positive("a", a)
    if len(drawn) < len(values):
        raise ValueError(f"{len(drawn)} draws never see all {len(values)} negatives; at least as many are needed")
    seen = len(set(drawn)) == len(values)
    return softmax(values) / all_seen_probability(len(values), len(drawn)) if seen else Fraction(0)
