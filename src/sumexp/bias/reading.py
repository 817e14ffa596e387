"""Schemes that read the negatives one by one, and the exact distribution of their final histories.

From its history a scheme gives the probability of each next index, and of stopping. So it may draw with or without
replacement, know the indices, read a random number of negatives, and choose the next index by the values read.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TypeAlias

from sumexp.bias.rational import Rational, positive

History: TypeAlias = tuple[tuple[int, Fraction], ...]
"""The (index, value) pairs read, in order; an index may repeat."""

Scheme: TypeAlias = Callable[[History], Mapping[int | None, Fraction]]
"""From a history to the probability of each next index; ``None`` stops."""

STOP: Mapping[int | None, Fraction] = {None: Fraction(1)}


def outcomes(scheme: Scheme, a: Sequence[Rational]) -> dict[History, Fraction]:
    """The distribution of the final history at the point ``a``.

    Raises:
        ValueError: if ``a`` is empty or not positive, the scheme names an index out of range, or its probabilities are
            negative or do not sum to 1.
    """
    values = positive("a", a)
    law: defaultdict[History, Fraction] = defaultdict(Fraction)
    pending: list[tuple[History, Fraction]] = [((), Fraction(1))]
    while pending:
        history, probability = pending.pop()
        steps = scheme(history)
        if sum(steps.values()) != 1 or any(p < 0 for p in steps.values()):
            given = ", ".join(f"{index}: {p}" for index, p in steps.items())
            raise ValueError(f"after {describe(history)} the scheme has {given}; want probabilities that sum to 1")
        for index, p in steps.items():
            if index is None:
                law[history] += probability * p
            elif not 0 <= index < len(values):
                raise ValueError(f"after {describe(history)} the scheme reads index {index} of {len(values)} negatives")
            elif p:
                pending.append(((*history, (index, values[index])), probability * p))
    return {history: probability for history, probability in law.items() if probability}


def distinct(history: History) -> frozenset[int]:
    """The indices read."""
    return frozenset(index for index, _ in history)


def describe(history: History) -> str:
    """A history as text, for messages."""
    return "reading " + (", ".join(f"a[{i}] = {value}" for i, value in history) if history else "nothing")


def fixed(law: Mapping[tuple[int, ...], Fraction]) -> Scheme:
    """Indices drawn together before anything is read (Assumption 3.2): tuples of any length, repeats allowed."""
    if sum(law.values()) != 1 or any(p < 0 for p in law.values()):
        given = f"sum to {sum(law.values())}" if sum(law.values()) != 1 else f"fall to {min(law.values())}"
        raise ValueError(f"the probabilities of the {len(law)} tuples {given}; they must sum to 1, none negative")

    def scheme(history: History) -> Mapping[int | None, Fraction]:
        seen = tuple(index for index, _ in history)
        steps: defaultdict[int | None, Fraction] = defaultdict(Fraction)
        for drawn, p in law.items():
            if drawn[: len(seen)] == seen:
                steps[drawn[len(seen)] if len(drawn) > len(seen) else None] += p
        total = sum(steps.values())
        return {index: p / total for index, p in steps.items()}

    return scheme


def without_replacement(n: int, k: int) -> Scheme:
    """A uniform k-subset of n, read in increasing order."""
    return fixed({chosen: Fraction(1, comb(n, k)) for chosen in combinations(range(n), k)})


def with_replacement(q: Sequence[Fraction], draws: int) -> Scheme:
    """Independent draws from q."""

    def scheme(history: History) -> Mapping[int | None, Fraction]:
        return dict(enumerate(q)) if len(history) < draws else STOP

    return scheme
