r"""Brute force in rational arithmetic: every outcome of an experiment, and entropies as exact sums of logarithms.

An experiment is a distribution of pairs (hidden, seen): for global NCE the index and (x, y_1 ... y_n), for local NCE
the coins and the same. Its entropies are sums :math:`\sum_i c_i\log r_i` with rational c and r. They are compared
exactly by prime factors, since the logarithms of the primes are linearly independent over the rationals.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import TypeAlias, TypeVar

H = TypeVar("H", bound=Hashable)

Table: TypeAlias = Sequence[Sequence[Fraction]]
"""Joint probabilities, one row for each x."""

Seen: TypeAlias = tuple[int, tuple[int, ...]]
"""x and the candidates."""

GlobalLaw: TypeAlias = Mapping[tuple[int, Seen], Fraction]
"""Of (index, seen)."""

LocalLaw: TypeAlias = Mapping[tuple[tuple[int, ...], Seen], Fraction]
"""Of (coins, seen)."""


@dataclass(frozen=True)
class LogSum:
    r"""An exact number :math:`\sum_p c_p\log p` over primes p with rational, non-zero coefficients."""

    coefficients: Mapping[int, Fraction]

    def __add__(self, other: "LogSum") -> "LogSum":
        return total([(Fraction(1), self), (Fraction(1), other)])

    def __sub__(self, other: "LogSum") -> "LogSum":
        return total([(Fraction(1), self), (Fraction(-1), other)])

    def __rmul__(self, factor: Fraction | int) -> "LogSum":
        return total([(Fraction(factor), self)])

    def __float__(self) -> float:
        return math.fsum(float(c) * math.log(p) for p, c in self.coefficients.items())


def log(value: Fraction | int) -> LogSum:
    """The logarithm of a positive rational."""
    ratio = Fraction(value)
    if ratio <= 0:
        raise ValueError(f"the logarithm of {ratio} is not a number; give a positive rational")
    below = {prime: -power for prime, power in _factors(ratio.denominator).items()}  # no prime is in both
    return LogSum({**_factors(ratio.numerator), **below})


def total(terms: Iterable[tuple[Fraction, LogSum]]) -> LogSum:
    """The sum of factor x number."""
    added: defaultdict[int, Fraction] = defaultdict(Fraction)
    for factor, number in terms:
        for prime, coefficient in number.coefficients.items():
            added[prime] += factor * coefficient
    return LogSum({prime: coefficient for prime, coefficient in added.items() if coefficient})


def global_law(p: Table, q: Sequence[Fraction], n: int) -> GlobalLaw:
    r"""The law :math:`\frac1n\mathrm{pop}(x,y_i)\prod_{j\ne i}q(y_j)` of the index, x and n candidates."""
    return {
        (i, (x, ys)): mass
        for i in range(n)
        for x in range(len(p))
        for ys in product(range(len(q)), repeat=n)
        if (mass := Fraction(1, n) * p[x][ys[i]] * math.prod(q[y] for j, y in enumerate(ys) if j != i))
    }


def local_law(p: Table, q: Sequence[Fraction], n: int) -> LocalLaw:
    """The law of n coins, x and n candidates: each is true with probability 1/n, independently."""
    head, tail = Fraction(1, n), Fraction(n - 1, n)
    result = {}
    for x, row in enumerate(p):
        marginal = sum(row)
        for coins in product((0, 1), repeat=n):
            for ys in product(range(len(q)), repeat=n):
                each = (head * row[y] / marginal if a else tail * q[y] for a, y in zip(coins, ys, strict=True))
                if mass := marginal * math.prod(each, start=Fraction(1)):
                    result[coins, (x, ys)] = mass
    return result


def visible(law: Mapping[tuple[H, Seen], Fraction]) -> dict[Seen, Fraction]:
    """The law of x and the candidates, the hidden part summed out."""
    marginal: dict[Seen, Fraction] = {}
    for (_, seen), mass in law.items():
        marginal[seen] = marginal.get(seen, Fraction(0)) + mass
    return marginal


def posterior(law: Mapping[tuple[H, Seen], Fraction]) -> dict[tuple[H, Seen], Fraction]:
    """The probability of the hidden part given the visible part, for every outcome that can occur."""
    marginal = visible(law)
    return {(hidden, seen): mass / marginal[seen] for (hidden, seen), mass in law.items()}


def cross_entropy(law: Mapping[tuple[H, Seen], Fraction], model: Callable[[H, Seen], Fraction]) -> LogSum:
    """The expected -log of the model's probability of the hidden part."""
    return total((-mass, log(model(hidden, seen))) for (hidden, seen), mass in law.items())


def entropy(law: Mapping[tuple[H, Seen], Fraction]) -> LogSum:
    """The conditional entropy of the hidden part given the visible part."""
    right = posterior(law)
    return cross_entropy(law, lambda hidden, seen: right[hidden, seen])


def softmax_model(weights: Table) -> Callable[[int, Seen], Fraction]:
    """The model of global NCE, with e^s(x,y) in the table."""
    return lambda i, seen: weights[seen[0]][seen[1][i]] / sum(weights[seen[0]][y] for y in seen[1])


def divergence(p: Sequence[Fraction], m: Sequence[Fraction]) -> LogSum:
    """KL(p||m)."""
    return total((a, log(a / b)) for a, b in zip(p, m, strict=True) if a)


def marginals(p: Table) -> tuple[list[Fraction], list[Fraction]]:
    """Of x and of y."""
    return [sum(row, Fraction(0)) for row in p], [sum(column, Fraction(0)) for column in zip(*p, strict=True)]


def mutual_information(p: Table) -> LogSum:
    """I(X, Y)."""
    of_x, of_y = marginals(p)
    flat = [mass for row in p for mass in row]
    return divergence(flat, [a * b for a in of_x for b in of_y])


@cache
def _factors(number: int) -> Mapping[int, Fraction]:
    """The powers of the primes in a positive integer, by trial division."""
    powers: dict[int, Fraction] = {}
    prime = 2
    while prime * prime <= number:
        while number % prime == 0:
            powers[prime] = powers.get(prime, Fraction(0)) + 1
            number //= prime
        prime += 1
    if number > 1:
        powers[number] = powers.get(number, Fraction(0)) + 1
    return powers
