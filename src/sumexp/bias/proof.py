r"""The paper's own proof of Theorem 3.1, executed in rational arithmetic.

Suppose :math:`f_k` is symmetric and unbiased for :math:`F(a) = 1/(1 + \sum a_i)` under uniform sampling of k of the n
negatives. At the point with m entries :math:`b_2` and n - m entries :math:`b_1` that says, with g(j) the value of
:math:`f_k` at j copies of :math:`b_2`,

.. math:: \frac1{1+(n-m)b_1+mb_2} = \binom nk^{-1}\sum_{j=0}^m \binom{n-m}{k-j}\binom mj\, g(j), \qquad m \le k,

which fixes g(0), ..., g(k) one after the other; but g(k) is :math:`f_k(b_2,\dots,b_2) = 1/(1+nb_2)` already.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations
from math import comb, factorial, perm, prod
from typing import TypeAlias

from sumexp.bias.rational import Rational, fewer_reads

Estimator: TypeAlias = Callable[..., Fraction]
"""h(x_1, ..., x_k): any function of the k values read."""

TupleLaw: TypeAlias = Mapping[tuple[int, ...], Fraction]
"""The probability of each ordered tuple of indices."""


def symmetrise(h: Estimator, k: int) -> Estimator:
    r""":math:`f_k(x) = \frac1{k!}\sum_{\tau\in S_k} h(x_{\tau(1)},\dots,x_{\tau(k)})` (Definition 4.1)."""

    def symmetrised(*x: Fraction) -> Fraction:
        return sum((h(*y) for y in permutations(x)), Fraction(0)) / factorial(k)

    return symmetrised


def uniform_tuples(n: int, k: int) -> TupleLaw:
    """The uniform law on the n!/(n-k)! ordered samples without replacement."""
    return {chosen: Fraction(1, perm(n, k)) for chosen in permutations(range(n), k)}


def expectation(h: Estimator, law: TupleLaw, a: Sequence[Rational]) -> Fraction:
    """E h(a_{i_1}, ..., a_{i_k}) for indices drawn from ``law``."""
    return sum((p * h(*(Fraction(a[i]) for i in drawn)) for drawn, p in law.items()), Fraction(0))


def mean_over_subsets(f: Estimator, a: Sequence[Rational], k: int) -> Fraction:
    r"""Right side of (14): :math:`\binom nk^{-1}\sum f(x_1,\dots,x_k)` over the k-subsets of positions."""
    total = sum((f(*chosen) for chosen in combinations(map(Fraction, a), k)), Fraction(0))
    return total / comb(len(a), k)


def coefficients(n: int, k: int) -> list[list[Fraction]]:
    r"""The table c(m, l), 0 <= l, m <= k, by the paper's recursion (24).

    Raises:
        ValueError: unless 0 <= k <= n. (k = n is allowed: there the recursion gives the identity.)
    """
    if k != n:
        fewer_reads(n, k)
    c = [[Fraction(0)] * (k + 1) for _ in range(k + 1)]
    for m in range(k + 1):
        c[m][m] = Fraction(comb(n, k), comb(n - m, k - m))
        for l in range(m):  # noqa: E741 (the paper's letter)
            total = sum((comb(n - m, k - j) * comb(m, j) * c[j][l] for j in range(l, m)), Fraction(0))
            c[m][l] = -total / comb(n - m, k - m)
    return c


def coefficient(n: int, k: int, m: int, l: int) -> Fraction:  # noqa: E741
    r"""Closed form :math:`c(m,l) = \sum_{r=l}^m (-1)^{r-l}\binom rl\binom mr(n)_r/(k)_r`, with falling factorials."""
    return sum(
        (Fraction((-1) ** (r - l) * comb(r, l) * comb(m, r) * perm(n, r), perm(k, r)) for r in range(l, m + 1)),
        Fraction(0),
    )


def lagrange(nodes: Sequence[int], x: Rational) -> list[Fraction]:
    """The weights of polynomial interpolation at ``nodes``, evaluated at ``x``."""
    return [
        prod((Fraction(x - other, node - other) for other in nodes if other != node), start=Fraction(1))
        for node in nodes
    ]


def value(n: int, low: Rational, high: Rational, m: int) -> Fraction:
    r"""F at the point with m entries ``high`` and n - m entries ``low``: :math:`1/(1 + (n-m)b_1 + mb_2)`."""
    return 1 / (1 + (n - m) * Fraction(low) + m * Fraction(high))


def forced(n: int, k: int, low: Rational, high: Rational) -> list[Fraction]:
    """g(0), ..., g(k): what (21) forces upon an unbiased estimator, solved one equation after the other.

    Raises:
        ValueError: unless 0 <= k <= n.
    """
    if k != n:
        fewer_reads(n, k)
    g: list[Fraction] = []
    for m in range(k + 1):
        known = sum((comb(n - m, k - j) * comb(m, j) * g[j] for j in range(m)), Fraction(0))
        g.append((comb(n, k) * value(n, low, high, m) - known) / comb(n - m, k - m))
    return g


def gap(n: int, k: int, low: Rational, high: Rational) -> Fraction:
    r"""The missing difference :math:`\frac1{1+nb_2} - g(k)` in closed form, with :math:`d = b_2 - b_1`,

    .. math:: (-1)^{k+1} d^{k+1} \prod_{j=0}^k (n-j) \Big/ \prod_{j\in\{0,\dots,k,n\}} (1 + nb_1 + jd).

    g(k) interpolates :math:`s \mapsto 1/(1 + nb_1 + sd)` at the nodes 0..k and evaluates the polynomial at n; this is
    the error of that interpolation. It is zero only for k = n or :math:`b_1 = b_2`.
    """  # noqa: D415
    start, step = 1 + n * Fraction(low), Fraction(high) - Fraction(low)
    return (-step) ** (k + 1) * perm(n, k + 1) / prod((start + j * step for j in [*range(k + 1), n]), start=Fraction(1))


@dataclass(frozen=True)
class Contradiction:
    r"""The last step of the paper's proof at its own choice of :math:`b_1, b_2`.

    Attributes:
        largest: :math:`c^* = \max |c(j,l)|`.
        low: :math:`b_1 = (2(k+1)c^* - 1)/(n-k)`.
        high: :math:`b_2 = 1/n`.
        required: :math:`1/(1+nb_2) = 1/2`, what g(k) must be.
        forced: g(k), what the other equations make it.
        bound: :math:`(k+1)c^*/(1+(n-k)b_1)`, which exceeds :math:`|g(k)|` and is 1/2 too.
    """

    largest: Fraction
    low: Fraction
    high: Fraction
    required: Fraction
    forced: Fraction
    bound: Fraction


def contradiction(n: int, k: int) -> Contradiction:
    """Run the paper's proof for one pair 1 <= k < n, exactly.

    Raises:
        ValueError: unless 1 <= k < n; for k = 0 step (33) of the paper is an equality, and a constant is no estimator.
    """
    fewer_reads(n, k)
    if k == 0:
        raise ValueError("k is 0: the printed proof needs k >= 1 (a constant is not unbiased, whatever it is)")
    largest = max(abs(entry) for row in coefficients(n, k) for entry in row)
    low, high = (2 * (k + 1) * largest - 1) / (n - k), Fraction(1, n)
    return Contradiction(
        largest=largest,
        low=low,
        high=high,
        required=1 / (1 + n * high),
        forced=forced(n, k, low, high)[k],
        bound=(k + 1) * largest / (1 + (n - k) * low),
    )


def two_valued_system(n: int, k: int, low: Rational, high: Rational) -> tuple[list[list[Fraction]], list[Fraction]]:
    r"""The n + 1 equations in the k + 1 unknowns g that unbiasedness imposes at the points with entries low and high.

    They are (21) for m = 0, ..., n: the paper uses m = 0, ..., k and n.
    """
    matrix = [[Fraction(comb(n - m, k - j) * comb(m, j), comb(n, k)) for j in range(k + 1)] for m in range(n + 1)]
    return matrix, [value(n, low, high, m) for m in range(n + 1)]
