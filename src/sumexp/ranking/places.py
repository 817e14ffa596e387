r"""Where the relevant items of a list stand: how many items are above each of them, and how many at its score.

Every metric of :mod:`sumexp.ranking.metrics` is a function of these two numbers. They are found in one of four ways,
whichever reads least: by counting (one or two relevant items a list), by a search in the sorted scores (some), by
sorting the items (many), and by a search in the best k + 1 alone where only the first k places count. Lists are
taken some rows at a time, and :class:`Chunks` some items at a time, so that memory stays bounded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp import checks

Ties = Literal["expected", "pessimistic", "optimistic"]
"""What is assumed of the order of equal scores."""

Matrix = Tensor | NDArray[Any]
"""What a user may hand over for scores and for what is relevant."""

ROWS_AT_ONCE = 1 << 20
"""Scores of the rows that are taken at a time: their sorted copies stay in the cache."""

FEW, SOME = 2, 16
"""Up to FEW relevant items a list are counted; up to 1/SOME of the items are searched for; more are sorted."""


@dataclass(frozen=True)
class Labels:
    """The relevant items of each list, by their numbers.

    Attributes:
        lists: for each list its relevant items, in any order, each once; or integers [B, T], where negative numbers
            are padding.
        gains: as ``lists``, a number > 0 for each item; all 1 if None. What stands at padding does not matter.

    Raises:
        ValueError: if the two do not fit, or a gain is not finite and > 0.
    """

    lists: Sequence[Sequence[int]] | Matrix
    gains: Sequence[Sequence[float]] | Matrix | None = None

    def padded(self, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
        """Items [B, T], -1 at padding, and their gains [B, T] float64, 0 at padding."""
        items = _pad("lists", self.lists, -1).to(device)
        if items.ndim != 2 or items.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"the lists must hold integers, int32 or int64, as a tensor [B, T], got {items.dtype} of shape "
                f"{tuple(items.shape)}"
            )
        items = items if items.shape[1] else torch.nn.functional.pad(items, (0, 1), value=-1)
        absent = items < 0
        items = items.to(torch.int64).masked_fill(absent, -1)
        gains = torch.ones(items.shape) if self.gains is None or not items.numel() else _pad("gains", self.gains, 0)
        if gains.shape != items.shape:
            raise ValueError(f"gains have the shape {tuple(gains.shape)}, the lists {tuple(items.shape)}")
        gains = gains.to(items.device, torch.float64).masked_fill(absent, 0)
        if not bool(((gains > 0) | absent).all() & (gains.sum(-1) < torch.inf).all()):
            raise ValueError("the gains of labels must be finite and > 0; leave out a label that gains nothing")
        return items, gains


@dataclass(frozen=True)
class Chunks:
    """Scores [B, items] that are computed some items at a time and never stand together.

    Attributes:
        score: of (start, stop) the scores [B, stop - start] of the items start..stop - 1. It is asked for each range
            once or twice, and must answer the same.
        items: how many items there are.
        size: how many are scored at a time.

    Raises:
        ValueError: if a number is no whole number >= 1.
    """

    score: Callable[[int, int], Matrix]
    items: int
    size: int = 1 << 14

    def __post_init__(self) -> None:
        checks.whole("items", self.items, 1, 1 << 53)
        checks.whole("size", self.size, 1, 1 << 53)

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        """The first item of each chunk, and the chunk's scores."""
        for start in range(0, self.items, self.size):
            stop = min(start + self.size, self.items)
            yield start, check_scores(self.score(start, stop), stop - start)


class Places(NamedTuple):
    """Where the relevant items of some lists stand.

    Attributes:
        above: how many candidates have a higher score, [B, R]; more than k for items that cannot be among the first k.
        tied: how many have the same score, itself among them, [B, R].
        gains: what each item is worth, [B, R] float64; 0 for padding.
    """

    above: Tensor
    tied: Tensor
    gains: Tensor

    def settled(self, ties: Ties) -> "Places":
        """One place for each item, by the best or the worst order of the ties; unchanged for ``expected``."""
        if ties == "expected":
            return self
        by_gain = self.gains.argsort(dim=-1, descending=True, stable=True)
        order = by_gain.gather(-1, self.above.gather(-1, by_gain).argsort(dim=-1, stable=True))
        above, tied, gains = (values.gather(-1, order) for values in self)
        # Among equals the greatest gain comes first in the best order and last in the worst. Padding, of gain 0, stands
        # for some item once and again, more often than that ties: its place does not matter, but is none below 0.
        within = torch.arange(above.shape[1], device=above.device) - self._start(above)
        place = above + within if ties == "optimistic" else above + tied - 1 - within
        return Places(place.clamp_min(0), torch.ones_like(tied), gains)

    def in_order(self) -> tuple["Places", Tensor, Tensor]:
        """By score, padding last; with how many relevant items are above each, and how many tie with it, [B, R]."""
        above = torch.where(self.gains > 0, self.above, torch.iinfo(torch.int64).max)
        above, order = above.sort(dim=-1, stable=True)
        tied, gains = self.tied.gather(-1, order), self.gains.gather(-1, order)
        start, end = self._start(above), above.shape[1] - self._start(above.flip(-1)).flip(-1)
        return Places(above, tied, gains), start, end - start

    @staticmethod
    def _start(values: Tensor) -> Tensor:
        """Where the run of equal values begins that an element of a sorted row belongs to."""
        index = torch.arange(values.shape[1], device=values.device).expand(values.shape)
        new = torch.zeros_like(index)
        new[:, 1:] = torch.where(values[:, 1:] != values[:, :-1], index[:, 1:], 0)
        return new.cummax(-1).values


def of_matrix(scores: Tensor, gains: Tensor, mask: Tensor | None, k: int | None) -> Iterator[Places]:
    """The places of the items with a positive gain, some lists at a time.

    Args:
        scores: [B, L] without NaN; the lowest there is at what is no candidate.
        gains: [B, L] bool or numbers >= 0.
        mask: [B, L] the candidates; all if None.
        k: how many places matter; all if None.
    """
    for rows in _rows(scores, k):
        worth = gains[rows] if mask is None else gains[rows].masked_fill(~mask[rows], 0)
        items, value = _nonzero(worth)
        yield _of_rows(scores[rows], items, value, None if mask is None else mask[rows], k)


def of_labels(
    scores: Tensor | Chunks, items: Tensor, gains: Tensor, mask: Tensor | None, k: int | None
) -> Iterator[Places]:
    """The places of given items [B, T], -1 at padding; the other arguments as in :func:`of_matrix`."""
    if isinstance(scores, Chunks):
        yield _of_chunks(scores, items, gains, k)
        return
    for rows in _rows(scores, k):
        yield _of_rows(scores[rows], items[rows], gains[rows], None if mask is None else mask[rows], k)


class First(NamedTuple):
    """Where the best relevant item of each list stands, each [B].

    Attributes:
        above: how many candidates have a higher score.
        tied: how many have the same score, itself among them.
        right: how many of those are relevant.
    """

    above: Tensor
    tied: Tensor
    right: Tensor


def first_of_matrix(scores: Tensor, relevant: Tensor, mask: Tensor | None) -> Iterator[First]:
    """The place of each list's best relevant item, some lists at a time; arguments as in :func:`of_matrix`."""
    for rows in _rows(scores):
        part, own = scores[rows], relevant[rows] if mask is None else relevant[rows] & mask[rows]
        best = part.masked_fill(~own, lowest(part)).amax(-1, keepdim=True)
        above, tied = _count(part, best)
        if mask is not None:
            tied = _without(tied, mask[rows], part, best)
        yield First(above.squeeze(-1), tied.squeeze(-1), count_true(own & (part == best)))


def first_of_labels(scores: Tensor | Chunks, items: Tensor, gains: Tensor, mask: Tensor | None) -> Iterator[First]:
    """The same of labels; arguments as in :func:`of_labels`."""
    for found in of_labels(scores, items, gains, mask, None):
        above = torch.where(found.gains > 0, found.above, torch.iinfo(torch.int64).max)
        first, at = above.min(-1, keepdim=True)
        yield First(first.squeeze(-1), found.tied.gather(-1, at).squeeze(-1), (above == first).sum(-1))


def everywhere(scores: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(above, tied) of all items, some lists at a time."""
    for rows in _rows(scores):
        yield _by_order(scores[rows])


def as_tensor(name: str, values: Matrix) -> Tensor:
    """A tensor, of a tensor or a NumPy array.

    Raises:
        ValueError: if it is neither, or of a type or layout that has no order here.
    """
    if isinstance(values, np.ndarray):
        # What torch takes no view of: reversed axes, and bytes in another order.
        native = values.astype(values.dtype.newbyteorder("="), copy=any(step < 0 for step in values.strides))
        try:
            values = torch.as_tensor(native)
        except TypeError:
            raise ValueError(f"{name} is {values.dtype}, which torch does not have: take float64 or int64") from None
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise ValueError(f"{name} is {values.layout}; hand over .to_dense(), or ranking.Labels of what is relevant")
        if values.dtype in (torch.uint16, torch.uint32, torch.uint64):
            raise ValueError(f"{name} is {values.dtype}, which torch does not sort: take float64 or int64")
    else:
        raise ValueError(
            f"{name} is {type(values).__name__}; it must be a tensor or a NumPy array (lists of relevant items are "
            "ranking.Labels)"
        )
    return values


def check_scores(scores: Matrix, items: int | None = None, mask: Tensor | None = None) -> Tensor:
    """Scores [B, L] in a type that sorts, without NaN, the lowest there is at what the mask leaves out.

    Raises:
        ValueError: if they are not real, of another shape, or NaN.
    """
    scores = as_tensor("scores", scores)
    if scores.ndim != 2 or scores.dtype == torch.bool or scores.is_complex():
        raise ValueError(f"scores must be real numbers [B, L], got {scores.dtype} of shape {tuple(scores.shape)}")
    if items is not None and scores.shape[1] != items:
        raise ValueError(f"a chunk of {items} items has scores of the shape {tuple(scores.shape)}")
    if scores.shape[1] == 0:
        raise ValueError("the lists have no items, and so no ranks")
    if mask is not None:
        check_bool("mask", mask, scores)
    scores = scores.detach() if mask is None else scores.detach().masked_fill(~mask, lowest(scores))
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if scores.is_floating_point() and scores.numel() and bool(scores.amax(-1).isnan().any()):  # rows may lie apart
        row = int(scores.isnan().any(-1).nonzero()[0])
        raise ValueError(f"a score of list {row} is NaN, which has no rank; use -inf for what should come last")
    return scores


def check_bool(name: str, values: Tensor, scores: Tensor) -> None:
    """Check that a matrix is bool of the scores' shape.

    Raises:
        ValueError: if it is not.
    """
    if values.shape != scores.shape or values.dtype != torch.bool:
        raise ValueError(
            f"{name} must be bool of the scores' shape {tuple(scores.shape)}, got {values.dtype} of "
            f"{tuple(values.shape)}"
        )


def lowest(scores: Tensor) -> float:
    """What no score is below."""
    return -torch.inf if scores.is_floating_point() else torch.iinfo(scores.dtype).min


def _rows(scores: Tensor, k: int | None = None) -> Iterator[slice]:
    """Some lists at a time, and more where the best k + 1 are all that is sorted."""
    step = max(1, ROWS_AT_ONCE * (4 if _first_alone(scores, k) else 1) // scores.shape[1])
    return (slice(start, start + step) for start in range(0, max(1, len(scores)), step))


def _first_alone(scores: Tensor, k: int | None) -> bool:
    return k is not None and SOME * (k + 1) <= scores.shape[1]


def _nonzero(gains: Tensor) -> tuple[Tensor, Tensor]:
    """The items of positive gain of each row, [B, R], -1 at padding, and their gains."""
    row, item = _where(gains if gains.dtype == torch.bool else gains > 0)
    count = torch.bincount(row, minlength=len(gains))
    column = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    shape = len(gains), int(count.max()) if len(gains) else 0
    items = torch.full(shape, -1, device=row.device)
    value = torch.zeros(shape, dtype=torch.float64, device=row.device)
    items[row, column], value[row, column] = item, gains[row, item].double()
    return items, value


def _where(present: Tensor) -> tuple[Tensor, Tensor]:
    if present.device.type == "cpu":  # numpy reads the bytes eight at a time
        flat = torch.from_numpy(np.flatnonzero(present.numpy()))
        return flat // present.shape[1], flat % present.shape[1]
    row, item = present.nonzero(as_tuple=True)
    return row, item


def _of_rows(scores: Tensor, items: Tensor, gains: Tensor, mask: Tensor | None, k: int | None) -> Places:
    wanted = scores.gather(-1, items.clamp_min(0))
    if k is not None and _first_alone(scores, k):
        best = scores.topk(k + 1).values
        crowded = (wanted == best[:, -1:]).any(-1)
        at_last = torch.ones_like(best[:, :1], dtype=torch.int64)
        if bool(crowded.any()):
            at_last[crowded] = count_true(scores[crowded] == best[crowded, -1:]).unsqueeze(-1)
        above, tied = _among_best(best, wanted, at_last)
    elif SOME * items.shape[1] > scores.shape[1] and items.shape[1] > FEW:
        above, tied = (found.gather(-1, items.clamp_min(0)) for found in _by_order(scores))
    else:
        above, tied = _count(scores, wanted)
    return Places(above, tied if mask is None else _without(tied, mask, scores, wanted), gains)


def _without(tied: Tensor, mask: Tensor, scores: Tensor, wanted: Tensor) -> Tensor:
    """Ties less those with what is left out, which stands last, where a candidate of the lowest score may stand too."""
    left_out = mask.shape[1] - count_true(mask).unsqueeze(-1)
    # What padding asks for may be left out itself: it gains nothing, but is not divided by 0 either.
    return torch.where(wanted == lowest(scores), tied - left_out, tied).clamp_min(1)


def _of_chunks(scores: Chunks, items: Tensor, gains: Tensor, k: int | None) -> Places:
    wanted: Tensor | None = None
    best, at_last = None, None
    for start, chunk in scores:
        if len(chunk) != len(items):
            raise ValueError(f"a chunk has scores of {len(chunk)} lists; there are labels of {len(items)}")
        if wanted is None:
            items, gains = items.to(chunk.device), gains.to(chunk.device)
            wanted = torch.full(items.shape, lowest(chunk), dtype=chunk.dtype, device=chunk.device)
        inside = (items >= start) & (items < start + chunk.shape[1])
        wanted = torch.where(inside, chunk.gather(-1, (items - start).clamp(0, chunk.shape[1] - 1)), wanted)
        if k is not None:
            best, at_last = _merge(best, at_last, chunk, min(k + 1, scores.items))
    assert wanted is not None
    if best is not None and at_last is not None:
        return Places(*_among_best(best, wanted, at_last), gains)
    above, tied = torch.zeros_like(items), torch.zeros_like(items)
    for _, chunk in scores:
        more, equal = _count(chunk, wanted)
        above, tied = above + more, tied + equal
    return Places(above, tied.clamp_min(1), gains)  # what stands for padding ties with nothing


def _merge(best: Tensor | None, at_last: Tensor | None, chunk: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The best k so far, in descending order, and how many scores so far are equal to the last of them [B, 1]."""
    size = min(k + 1, chunk.shape[1])  # one more shows whether others of it equal the last
    of_chunk = torch.cat([chunk[rows].topk(size).values for rows in _rows(chunk)])
    merged = of_chunk if best is None else torch.cat([best, of_chunk], -1).sort(-1, descending=True).values
    new = merged[:, :k]
    last = new[:, -1:]
    count = (of_chunk == last).sum(-1, keepdim=True)
    more = of_chunk[:, -1] == last[:, 0]
    if of_chunk.shape[1] < chunk.shape[1] and bool(more.any()):
        count[more] = count_true(chunk[more] == last[more]).unsqueeze(-1)
    if best is not None and at_last is not None:
        # All that was above the former last one is in the former best.
        before = (best == last).sum(-1, keepdim=True)
        count = count + torch.where(best[:, -1:] == last, at_last, before)
    return new, count


def _among_best(best: Tensor, wanted: Tensor, at_last: Tensor) -> tuple[Tensor, Tensor]:
    """(above, tied) by the best scores alone [B, k + 1], descending; ``at_last`` counts all that equal the last."""
    above, tied = _search(best.flip(-1).contiguous(), wanted)
    tied = torch.where(wanted == best[:, -1:], at_last, tied)
    beyond = wanted < best[:, -1:]
    # So many that in no order of the ties such an item comes to the first k places.
    return above.masked_fill(beyond, best.shape[1]), tied.masked_fill(beyond, 1 << 53)


def _count(scores: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores of each row are above, and how many at, the wanted ones [B, R]."""
    if wanted.shape[1] > FEW:
        return _search(_sort(scores), wanted)
    columns = wanted.unsqueeze(-1).unbind(1)
    above = [count_true(scores > column) for column in columns]
    tied = [count_true(scores == column) for column in columns]
    if not columns:
        return (torch.zeros(len(scores), 0, dtype=torch.int64, device=scores.device),) * 2
    return torch.stack(above, -1), torch.stack(tied, -1)


def _search(ascending: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    wanted = wanted.contiguous()
    right = torch.searchsorted(ascending, wanted, right=True)
    return ascending.shape[1] - right, right - torch.searchsorted(ascending, wanted)


def _sort(scores: Tensor) -> Tensor:
    if scores.device.type == "cpu":  # numpy sorts with vector instructions, ten times as fast as torch 2
        return torch.from_numpy(np.sort(scores.numpy(), -1))
    return scores.sort(-1).values


def count_true(mask: Tensor) -> Tensor:
    """How many are true in each row."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.asarray(np.count_nonzero(mask.numpy(), -1), dtype=np.int64))
    return torch.count_nonzero(mask, -1)


def any_true(mask: Tensor) -> Tensor:
    """Whether any is true in each row."""
    if mask.device.type == "cpu":  # numpy reads the bytes many at a time
        return torch.from_numpy(np.asarray(np.any(mask.numpy(), -1)))
    return mask.any(-1)


def _by_order(scores: Tensor) -> tuple[Tensor, Tensor]:
    """(above, tied) of all items, by sorting them."""
    keys, order = _argsort(scores)
    length = scores.shape[1]
    descending = torch.arange(length - 1, -1, -1, device=scores.device).expand(scores.shape)
    above, tied = torch.ones(2, *scores.shape, dtype=torch.int64, device=scores.device)
    above.scatter_(-1, order, descending)
    equal = torch.zeros_like(keys, dtype=torch.bool)
    torch.eq(keys[:, 1:], keys[:, :-1], out=equal[:, 1:])
    # What equals its predecessor: runs of such are blocks of ties, but for the first of each.
    row, column = _where(equal)
    if len(row):
        place = row * length + column
        head = torch.ones_like(place, dtype=torch.bool)
        head[1:] = place.diff() > 1
        block, first = head.cumsum(0) - 1, place[head] - 1
        size = block.bincount() + 1
        place, block = torch.cat([place, first]), torch.cat([block, torch.arange(len(first), device=first.device)])
        item = order.flatten()[place] + place // length * length
        above.view(-1)[item] = (length - first % length - size)[block]
        tied.view(-1)[item] = size[block]
    return above, tied


def _argsort(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Keys in ascending order, equal where the scores are, and the items in that order."""
    if scores.device.type != "cpu" or scores.dtype in (torch.float64, torch.int64):
        ascending = scores.sort(-1)
        return ascending.values, ascending.indices
    # Number and item in one integer of 64 bits, the number in front: one sort of plain integers gives both.
    if scores.is_floating_point():
        bits = (scores + 0.0).view(torch.int32)  # -0.0 becomes 0.0
        bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    else:
        bits = scores.to(torch.int32)
    packed = bits.to(torch.int64) * (1 << 32) + torch.arange(scores.shape[1])
    packed = torch.from_numpy(np.sort(packed.numpy(), -1))
    return packed >> 32, packed & 0xFFFFFFFF


def _pad(name: str, lists: Sequence[Sequence[float]] | Matrix, padding: float) -> Tensor:
    """Lists of any lengths, as a tensor [B, T]."""
    if isinstance(lists, Tensor | np.ndarray):
        return as_tensor(name, lists)
    try:
        lengths = torch.from_numpy(np.fromiter(map(len, lists), np.int64, len(lists)))
        values = _joined(lists)
        shape = len(lists), int(lengths.max()) if len(lists) else 1
        padded = torch.full(shape, padding, dtype=values.dtype, device=values.device)
        padded[(torch.arange(shape[1]) < lengths.unsqueeze(-1)).to(values.device)] = values
        return padded
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be lists of numbers, one list for each row of scores: {error}") from error


def _joined(lists: Sequence[Sequence[float]]) -> Tensor:
    """The numbers of all lists, one after another."""
    if not any(len(row) for row in lists):
        return torch.zeros(0, dtype=torch.int64)
    if all(isinstance(row, (list, tuple)) for row in lists):  # one array of them all, not one for each list
        return torch.from_numpy(np.asarray(list(chain.from_iterable(lists))))
    rows = [row if isinstance(row, Tensor) else torch.as_tensor(np.asarray(row)) for row in lists if len(row)]
    return torch.cat(rows)
