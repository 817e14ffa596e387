"""Ranking metrics written to be read, not to be fast: by all orders of the ties, and by sorting whole lists."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, permutations
from math import log2
from typing import NamedTuple

import torch
from torch import Tensor

from sumexp.ranking import Ties


def best(relevant: int, k: int) -> float:
    """The greatest DCG of so many relevant items at k."""
    return sum(1 / log2(2 + i) for i in range(min(relevant, k)))


def gain(rel: Sequence[bool]) -> float:
    return sum(1 / log2(2 + i) for i, hit in enumerate(rel) if hit)


def mean_precision(rel: Sequence[bool], total: int) -> Fraction:
    return sum((Fraction(sum(rel[: i + 1]), i + 1) for i, hit in enumerate(rel) if hit), Fraction(0)) / total


BY_ORDER: dict[str, Callable[[Sequence[bool], int], Fraction | float]] = {
    "reciprocal_rank": lambda rel, r: Fraction(1, 1 + rel.index(True)) if True in rel else Fraction(0),
    "reciprocal_rank@2": lambda rel, r: Fraction(1, 1 + rel.index(True)) if True in rel[:2] else Fraction(0),
    "recall@2": lambda rel, r: Fraction(sum(rel[:2]), r),
    "precision@2": lambda rel, r: Fraction(sum(rel[:2]), 2),
    "average_precision": mean_precision,
    "average_precision@2": lambda rel, r: mean_precision(rel[:2], r),
    "dcg@2": lambda rel, r: gain(rel[:2]),
    "ndcg": lambda rel, r: gain(rel) / best(r, r),
    "ndcg@2": lambda rel, r: gain(rel[:2]) / best(r, 2),
}
"""Metrics by their definitions, of the relevance at each place and the number of relevant items."""


def over_orders(name: str, scores: Sequence[float], relevant: Sequence[bool], total: int, ties: Ties) -> float:
    """A metric over all orders that the scores allow."""
    allowed = (p for p in permutations(range(len(scores))) if all(scores[a] >= scores[b] for a, b in pairwise(p)))
    values = [float(BY_ORDER[name]([relevant[i] for i in p], total)) for p in allowed]
    return {"expected": sum(values) / len(values), "pessimistic": min(values), "optimistic": max(values)}[ties]


def ranks(scores: Tensor, ties: Ties) -> Tensor:
    """By comparing every item with every other."""
    above = (scores.unsqueeze(1) > scores.unsqueeze(2)).sum(-1).double()
    tied = (scores.unsqueeze(1) == scores.unsqueeze(2)).sum(-1).double()
    return {"optimistic": above + 1, "pessimistic": above + tied, "expected": above + (tied + 1) / 2}[ties]


def reciprocal_rank(scores: Tensor, relevant: Tensor, ties: Ties, mask: Tensor) -> Tensor:
    values = []
    for row in range(len(scores)):
        s, r = scores[row, mask[row]], relevant[row, mask[row]]
        best = max(s[r].tolist())
        above, tied, right = int((s > best).sum()), int((s == best).sum()), int((r & (s == best)).sum())
        last = tied - right + 1
        value, none_before = 0.0, 1.0
        for j in range(1, last + 1):
            hazard = right / (tied - j + 1)
            value += none_before * hazard / (above + j)
            none_before *= 1 - hazard
        values.append({"optimistic": 1 / (above + 1), "pessimistic": 1 / (above + last), "expected": value}[ties])
    return torch.tensor(values, dtype=torch.float64)


def recall(scores: Tensor, gains: Tensor, k: int, ties: Ties, mask: Tensor) -> Tensor:
    gains = gains.double().masked_fill(~mask, 0)
    return arrange(scores, gains, mask, ties).gains[:, :k].sum(-1) / gains.sum(-1)


def precision(scores: Tensor, relevant: Tensor, k: int, ties: Ties, mask: Tensor) -> Tensor:
    return arrange(scores, (relevant & mask).double(), mask, ties).gains[:, :k].sum(-1) / k


def average_precision(scores: Tensor, relevant: Tensor, k: int, ties: Ties, mask: Tensor) -> Tensor:
    relevant = relevant & mask
    order = arrange(scores, relevant.double(), mask, ties)
    before = order.gains.cumsum(-1) - order.gains
    if ties == "expected":  # relevant items before the block, and half-way through it those met on average
        in_block = order.place - order.start - 1
        others = (order.gains * order.size - 1).clamp_min(0) / (order.size - 1).clamp_min(1)
        before = before - in_block * order.gains + in_block * others
    terms = order.gains * (before + 1) / order.place
    return terms[:, :k].sum(-1) / relevant.sum(-1)


def dcg(scores: Tensor, gains: Tensor, k: int, ties: Ties, mask: Tensor) -> Tensor:
    return discounted(arrange(scores, gains.double().masked_fill(~mask, 0), mask, ties).gains, k)


def ndcg(scores: Tensor, gains: Tensor, k: int, ties: Ties, mask: Tensor) -> Tensor:
    best = gains.double().masked_fill(~mask, 0).sort(-1, descending=True).values
    return dcg(scores, gains, k, ties, mask) / discounted(best, k)


def discounted(gains: Tensor, k: int) -> Tensor:
    return (gains[:, :k] / torch.log2(torch.arange(2, k + 2, dtype=torch.float64))).sum(-1)


class Order(NamedTuple):
    """A batch of sorted lists.

    Attributes:
        gains: what stands at each place, [B, L]; for expected ties the mean over the block.
        place: 1..L.
        start: how many places are before the place's block of ties, [B, L].
        size: of that block, [B, L].
    """

    gains: Tensor
    place: Tensor
    start: Tensor
    size: Tensor


def arrange(scores: Tensor, gains: Tensor, candidates: Tensor, ties: Ties) -> Order:
    """Sort by candidacy, then score, then (where the rule says so) gain."""
    keys = [gains if ties == "optimistic" else -gains] if ties != "expected" else []
    keys += [scores, candidates.to(torch.uint8)]
    order = torch.arange(scores.shape[1]).expand(scores.shape)
    for key in keys:  # stable sorts, the least important key first
        order = order.gather(-1, torch.argsort(key.gather(-1, order), dim=-1, descending=True, stable=True))
    scores, gains, candidates = (values.gather(-1, order) for values in (scores, gains, candidates))
    place = torch.arange(1, scores.shape[1] + 1, dtype=torch.float64)
    new = torch.ones_like(candidates)
    new[:, 1:] = (scores[:, 1:] != scores[:, :-1]) | (candidates[:, 1:] != candidates[:, :-1])
    block = new.cumsum(-1) - 1
    size = torch.zeros_like(gains).scatter_add(-1, block, torch.ones_like(gains)).gather(-1, block)
    start = torch.where(new, place - 1, 0.0).cummax(-1).values
    if ties == "expected":
        gains = torch.zeros_like(gains).scatter_add(-1, block, gains).gather(-1, block) / size
    return Order(gains, place, start, size)
