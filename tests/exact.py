"""Small laws in rational arithmetic, and every outcome of draws from them."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod

import torch
from hypothesis import strategies as st
from torch import Tensor

Law = tuple[Fraction, ...]


@st.composite
def laws(draw: st.DrawFn, classes: int = 4, most: int = 30) -> Law:
    """Positive laws, each share a ratio of counts up to ``most``."""
    counts = draw(st.lists(st.integers(1, most), min_size=classes, max_size=classes))
    return tuple(Fraction(n, sum(counts)) for n in counts)


def vector(*values: object) -> Tensor:
    """Numbers, or lists of them, as float64."""
    return torch.tensor(values, dtype=torch.float64)


def floats(values: Sequence[Fraction]) -> Tensor:
    """As float64."""
    return vector(*map(float, values))


def log_of(law: Sequence[Fraction]) -> Tensor:
    """Its logarithms in float64."""
    return floats(law).log()


def draws(q: Sequence[Fraction], m: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every sequence of m draws with replacement, and its probability."""
    for drawn in product(range(len(q)), repeat=m):
        yield drawn, prod((q[i] for i in drawn), start=Fraction(1))


def union(q: Sequence[Fraction], m: int) -> dict[tuple[int, ...], Fraction]:
    """The law of the set of classes drawn."""
    chance: dict[tuple[int, ...], Fraction] = {}
    for drawn, p in draws(q, m):
        ids = tuple(sorted(set(drawn)))
        chance[ids] = chance.get(ids, Fraction(0)) + p
    return chance
