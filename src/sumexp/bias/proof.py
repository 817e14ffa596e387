r"""The paper's own proof of Theorem 3.1, executed in rational arithmetic.

Suppose :math:`f_k` is symmetric and unbiased for :math:`F(a) = 1/(1 + \sum a_i)` under uniform sampling of k of the n
negatives. At the point with m entries :math:`b_2` and n - m entries :math:`b_1` this means, with g(j) the value of
:math:`f_k` at j copies of :math:`b_2`,

.. math:: \frac1{1+(n-m)b_1+mb_2} = \binom nk^{-1}\sum_{j=0}^m \binom{n-m}{k-j}\binom mj\, g(j), \qquad m \le k,

which fixes g(0), ..., g(k) one after the other. But g(k) must also be :math:`f_k(b_2,\dots,b_2) = 1/(1+nb_2)`.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import comb, perm, prod

from sumexp.bias.rational import Rational, exact, fewer_reads


def coefficients(n: int, k: int) -> list[list[Fraction]]:
    """The table c(m, l), 0 <= l, m <= k, by the paper's recursion (24), for 0 <= k <= n."""
    if k != n:
        fewer_reads(n, k)
    c = [[Fraction(0)] * (k + 1) for _ in range(k + 1)]
    for m in range(k + 1):
        c[m][m] = Fraction(comb(n, k), comb(n - m, k - m))
        for l in range(m):  # noqa: E741 (the paper's letter)
            total = sum((comb(n - m, k - j) * comb(m, j) * c[j][l] for j in range(l, m)), Fraction(0))
            c[m][l] = -total / comb(n - m, k - m)
    return c


def value(n: int, low: Rational, high: Rational, m: int) -> Fraction:
    r"""F at the point with m entries ``high`` and n - m entries ``low``: :math:`1/(1 + (n-m)b_1 + mb_2)`."""
    return 1 / (1 + (n - m) * exact(low) + m * exact(high))


def forced(n: int, k: int, low: Rational, high: Rational) -> list[Fraction]:
    """g(0), ..., g(k), the values that (21) forces upon an unbiased estimator."""
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
    start, step = 1 + n * exact(low), exact(high) - exact(low)
    return (-step) ** (k + 1) * perm(n, k + 1) / prod((start + j * step for j in [*range(k + 1), n]), start=Fraction(1))


@dataclass(frozen=True)
class Contradiction:
    """The last step of the paper's proof at its own choice of b_1 and b_2."""

    largest: Fraction  # c* = max |c(j, l)|
    low: Fraction  # b_1 = (2 (k + 1) c* - 1) / (n - k)
    high: Fraction  # b_2 = 1/n
    required: Fraction  # g(k) = 1 / (1 + n b_2) = 1/2 by the last equation
    forced: Fraction  # g(k) by the other equations
    bound: Fraction  # (k + 1) c* / (1 + (n - k) b_1) = 1/2, which exceeds |g(k)|


def contradiction(n: int, k: int) -> Contradiction:
    """Run the paper's proof for one pair 1 <= k < n, exactly.

    Raises:
        ValueError: unless 1 <= k < n; for k = 0 step (33) of the paper is an equality.
    """
    fewer_reads(n, k)
    n, k = int(n), int(k)
    if k == 0:
        raise ValueError("k is 0: the printed proof needs k >= 1 (no constant is unbiased)")
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
