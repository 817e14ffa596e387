"""What a trained stack says: runs gathered by case, temperatures chosen on validation, comparisons paired by seed.

A case is a member but for its seed, which is set to 0; its runs are ordered by seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sumexp.intervals import Interval, paired
from sumexp.vae.config import Member, NoiseName, Stack

Values = NDArray[np.float64]
Arrays: TypeAlias = Mapping[str, ArrayLike]


def case(member: Member) -> Member:
    """The member without its seed."""
    return replace(member, seed=0)


def joined(parts: Sequence[tuple[Stack, Arrays, Arrays]]) -> tuple[Stack, Arrays, Arrays]:
    """Stacks that differ in their members alone, as one: the stack, its numbers of every member, its history.

    Args:
        parts: stacks with the arrays of their runs, of which those that begin with ``test_`` are kept, and histories.

    Raises:
        ValueError: if there is no part, or two differ in more than their members.
    """
    if not parts or any(replace(stack, members=parts[0][0].members) != parts[0][0] for stack, _, _ in parts):
        raise ValueError(f"{len(parts)} stacks are joined; give at least one, and let them differ in members alone")
    stack = replace(parts[0][0], members=tuple(member for part, _, _ in parts for member in part.members))
    names = [name for name in parts[0][1] if name.startswith("test_")]
    arrays = {name: np.concatenate([np.asarray(found[name]) for _, found, _ in parts]) for name in names}
    first = np.cumsum([0] + [len(part.members) for part, _, _ in parts])
    shifted = [
        {name: np.asarray(history[name]) + (start if name == "member" else 0) for name in parts[0][2]}
        for (_, _, history), start in zip(parts, first, strict=False)
    ]
    return stack, arrays, {name: np.concatenate([part[name] for part in shifted]) for name in parts[0][2]}


def by_case(stack: Stack, values: ArrayLike) -> dict[Member, Values]:
    """The values [S, ...] of the members gathered by case, each [seeds, ...].

    Raises:
        ValueError: if there is not one value a member, or two members are the same.
    """
    found = np.asarray(values, dtype=np.float64)
    if len(found) != len(stack.members) or len(set(stack.members)) < len(stack.members):
        raise ValueError(
            f"{len(found)} values for {len(stack.members)} members, of which {len(set(stack.members))} differ; "
            "give one value for each of the members, all different"
        )
    order = sorted(range(len(found)), key=lambda s: stack.members[s].seed)
    cases = dict.fromkeys(map(case, stack.members))
    return {one: found[[s for s in order if case(stack.members[s]) == one]] for one in cases}


def curves(stack: Stack, history: Arrays, column: str) -> dict[Member, Values]:
    """A column of the history by case, [seeds, epochs]."""
    epoch, member, column_values = (np.asarray(history[name]) for name in ("epoch", "member", column))
    table = np.full((len(stack.members), stack.epochs), np.nan)
    table[member.astype(int), epoch.astype(int)] = column_values
    return by_case(stack, table)


def difference(stack: Stack, values: ArrayLike, first: Member, second: Member) -> Interval:
    """The mean of ``first - second`` over the seeds that both have, with its paired t interval.

    Args:
        stack: the stack.
        values: one a member [S].
        first: a case.
        second: another.

    Raises:
        ValueError: if the stack lacks a case, or they have fewer than two seeds in common.
    """
    by_seed = {(case(member), member.seed): s for s, member in enumerate(stack.members)}
    for one in (first, second):
        if case(one) not in by_case(stack, values):
            raise ValueError(f"the stack has no member {one}")
    seeds = sorted({member.seed for member in stack.members})
    both = [seed for seed in seeds if {(case(first), seed), (case(second), seed)} <= by_seed.keys()]
    found = np.asarray(values, dtype=np.float64)
    ours, theirs = (found[[by_seed[case(one), seed] for seed in both]] for one in (first, second))
    return paired(ours, theirs)


def differences(stack: Stack, history: Arrays, column: str, pair: tuple[Member, Member]) -> Values:
    """:func:`difference` of a column at every epoch: mean and both ends of the interval, [3, epochs]."""
    first, second = (curves(stack, history, column)[case(one)] for one in pair)
    found = [paired(a, b) for a, b in zip(first.T, second.T, strict=True)]
    return np.array([[one.mean for one in found], [one.low for one in found], [one.high for one in found]])


def chosen(stack: Stack, history: Arrays) -> dict[NoiseName, Member]:
    """For each noise the case of scale 1 whose validation bound after the last epoch is least on average over seeds."""
    last = {one: found[:, -1].mean() for one, found in curves(stack, history, "validation_bound").items()}
    noises = dict.fromkeys(one.noise for one in last)
    return {
        noise: min((one for one in last if one.noise == noise and one.scale == 1), key=last.__getitem__)
        for noise in noises
    }
