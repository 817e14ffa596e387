"""The schemes of the tables and all multisets of draws in rational arithmetic: slow, and independent of the rest."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import factorial, lcm, prod

from sumexp.negatives.schemes import Weights
from sumexp.samplers import Hits

Law = tuple[Fraction, ...]


def scheme(
    q: Sequence[Fraction], label: int, m: int, weights: Weights, hits: Hits, prior: Sequence[Fraction] = ()
) -> tuple[Law, Law]:
    """The law of one draw after ``hits``, and the weights, as in :func:`sumexp.negatives.scheme`."""
    if sum(q) != 1:
        raise ValueError(f"q sums to {sum(q)}, not 1")
    if hits == "redraw":
        q = [Fraction(0) if y == label else p / (1 - q[label]) for y, p in enumerate(q)]
    w = [Fraction(0)] * len(q)
    for y, p in enumerate(q):
        if p == 0 or (y == label and hits != "keep"):
            continue
        if weights == "constant":
            w[y] = Fraction(1, m)
        elif weights == "importance":
            w[y] = 1 / (m * p)
        elif weights == "relative":
            w[y] = q[label] / p
        else:
            w[y] = prior[y] / (m * p * prior[label])
    return tuple(q), tuple(w)


def draws(q: Sequence[Fraction], m: int) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """The multisets of m draws that have positive probability: the probability, and the count of each class."""
    support = [y for y, p in enumerate(q) if p]
    for drawn in itertools.combinations_with_replacement(support, m):
        counts = tuple(drawn.count(y) for y in range(len(q)))
        ways = Fraction(factorial(m), prod(factorial(c) for c in counts))
        yield ways * prod((p**c for p, c in zip(q, counts, strict=True)), start=Fraction(1)), counts


def mean(q: Sequence[Fraction], m: int, value: Callable[[tuple[int, ...]], Fraction]) -> Fraction:
    """The expectation of a function of the counts."""
    return sum((p * value(counts) for p, counts in draws(q, m)), Fraction(0))


def weighted_sum(counts: Sequence[int], w: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    """The sum over the draws of weight times value."""
    return sum((c * u * v for c, u, v in zip(counts, w, values, strict=True)), Fraction(0))


def exponentiated(q: Sequence[Fraction], m: int, w: Sequence[Fraction], a: Sequence[Fraction]) -> tuple[Fraction, int]:
    r"""The rational :math:`e^{D\,\mathbb E\log(1+X)} = \prod (1+X)^{Dp}` and D, a common denominator of all p."""
    d = lcm(*(p.denominator for p, _ in draws(q, m)))
    return prod(((1 + weighted_sum(c, w, a)) ** int(p * d) for p, c in draws(q, m)), start=Fraction(1)), d
