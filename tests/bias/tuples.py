"""Functions of k values read, their symmetrisation and means over samples, by enumeration."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from math import comb, factorial, perm
from typing import TypeAlias

import sympy as sp

from sumexp.bias import proof
from sumexp.bias.rational import Rational

Estimator: TypeAlias = Callable[..., Fraction]
TupleLaw: TypeAlias = Mapping[tuple[int, ...], Fraction]


def arbitrary(*values: Rational) -> Fraction:
    """No symmetry at all: 1/(1 + x_1 + 2 x_2 + 4 x_3 + ...)."""
    return 1 / (1 + sum((2**j * Fraction(value) for j, value in enumerate(values)), Fraction(0)))


def symmetrise(h: Estimator, k: int) -> Estimator:
    """Definition 4.1: the mean of h over the orders of its k arguments."""
    return lambda *x: sum((h(*y) for y in permutations(x)), Fraction(0)) / factorial(k)


def uniform_tuples(n: int, k: int) -> TupleLaw:
    """The uniform law on the n!/(n-k)! ordered samples without replacement."""
    return {chosen: Fraction(1, perm(n, k)) for chosen in permutations(range(n), k)}


def expectation(h: Estimator, law: TupleLaw, a: Sequence[Rational]) -> Fraction:
    """E h(a_{i_1}, ..., a_{i_k}) for indices drawn from ``law``."""
    return sum((p * h(*(Fraction(a[i]) for i in drawn)) for drawn, p in law.items()), Fraction(0))


def mean_over_subsets(f: Estimator, a: Sequence[Rational], k: int) -> Fraction:
    """Right side of (14)."""
    return sum((f(*chosen) for chosen in combinations(map(Fraction, a), k)), Fraction(0)) / comb(len(a), k)


def consistent(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> bool:
    """Whether matrix x = right has a solution, by the ranks."""
    left = sp.Matrix([list(map(sp.Rational, row)) for row in matrix])
    return bool(left.rank() == left.row_join(sp.Matrix(list(map(sp.Rational, right)))).rank())


def two_valued_system(n: int, k: int, low: Rational, high: Rational) -> tuple[list[list[Fraction]], list[Fraction]]:
    """(21) for m = 0, ..., n: n + 1 equations in g(0..k). The paper takes m = 0, ..., k and n."""
    matrix = [[Fraction(comb(n - m, k - j) * comb(m, j), comb(n, k)) for j in range(k + 1)] for m in range(n + 1)]
    return matrix, [proof.value(n, low, high, m) for m in range(n + 1)]
