r"""Bins of similar classes: a million classes become some hundred bins, with a check of the error.

Two classes with the same probability of being drawn q and the same probability of being the label P get the same score
from every scheme: the risk is convex, and exchanging them changes nothing. So classes are merged by
:math:`(\log q, \log P)`, and a bin keeps the number of its members and their sums of q and P exactly. The error is of
the second order of a bin's width; a caller doubles the bins until the printed digits converge.
"""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CELL = 0.1
"""Width in nats of the cells from which bins are made: their second order is below 10^-3 of a nat."""


@dataclass(frozen=True)
class Cells:
    """Classes in cells of equal group and nearly equal features."""

    index: Integers  # [classes] the cell of each class, -1 for a class left out
    count: Floats  # [cells] members
    group: Integers  # [cells] the group; no cell has members of two groups
    features: Floats  # [features, cells] means over the members, weighted by `mass`
    sums: Floats  # [quantities, cells] sums of the quantities over the members
    mass: Floats  # [cells] weight of a cell's width


def cells(features: Floats, sums: Floats, group: Integers, mass: Floats, width: float = CELL) -> Cells:
    """Put classes into cells of a width in nats; arguments as the attributes of `Cells`, each [..., classes].

    Raises:
        ValueError: if no class is left.
    """
    part = np.flatnonzero(group >= 0)
    if not len(part):
        raise ValueError("no class can be both a label and a negative: nothing is left to audit")
    key = group[part].astype(np.int64)
    for row in features:
        values = row[part]
        place = np.floor((values - values.min()) / width).astype(np.int64)
        span = int(place.max()) + 1
        if span > 1:
            key = key * span + place
            if key.max() > 1 << 21:
                key = np.unique(key, return_inverse=True)[1]
    most = int(key.max()) + 1
    number = np.bincount(key, minlength=most)
    taken = np.flatnonzero(number)
    rename = np.full(most, -1, dtype=np.int64)
    rename[taken] = np.arange(len(taken))
    cell = rename[key]
    index = np.full(len(group), -1, dtype=np.int64)
    index[part] = cell

    def total(values: Floats) -> Floats:
        return np.asarray(np.bincount(cell, weights=values, minlength=len(taken)), dtype=np.float64)

    weight = mass[part]
    heavy = total(weight)
    means = np.stack([total(row[part] * weight) / heavy for row in features])
    groups = np.zeros(len(taken), dtype=np.int64)
    groups[cell] = group[part]
    return Cells(index, number[taken].astype(float), groups, means, np.stack([total(row[part]) for row in sums]), heavy)


def merge(cell_table: Cells, most: int, mass: Floats | None = None) -> Integers:
    """The bin of each cell, [cells]: the widest bin is cut in two until there are ``most``, beginning with the groups.

    With at most so many cells, each is a bin. Otherwise a part's width is the sum over its cells of mass times squared
    distance from the mean; it is cut at the mean of the feature that contributes most.
    """
    if most >= len(cell_table.count):
        return np.arange(len(cell_table.count))
    mass = cell_table.mass if mass is None else mass
    bins = np.zeros(len(cell_table.count), dtype=np.int64)
    queue: list[tuple[float, int, int]] = []
    members: list[Integers] = []

    def add(part: Integers) -> None:
        members.append(part)
        cost, feature = _width(cell_table, mass, part)
        heapq.heappush(queue, (-cost, len(members) - 1, feature))

    for group in np.unique(cell_table.group):
        add(np.flatnonzero(cell_table.group == group))
    done: list[Integers] = []
    while queue and len(queue) + len(done) < most:
        cost, which, feature = heapq.heappop(queue)
        part = members[which]
        if cost == 0 or len(part) == 1:
            done.append(part)
            continue
        values, weight = cell_table.features[feature, part], mass[part]
        below = values <= values @ weight / weight.sum()
        if below.all() or not below.any():
            done.append(part)
            continue
        add(part[below])
        add(part[~below])
    for i, part in enumerate([*done, *(members[which] for _, which, _ in queue)]):
        bins[part] = i
    return bins


def _width(cell_table: Cells, weights: Floats, part: Integers) -> tuple[float, int]:
    mass = weights[part]
    total = mass.sum()
    values = cell_table.features[:, part]
    spread = (values**2 @ mass) - (values @ mass) ** 2 / total
    feature = int(spread.argmax())
    return max(0.0, float(spread[feature])) if len(part) > 1 else 0.0, feature
