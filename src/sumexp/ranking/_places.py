r"""Where the relevant items of a list stand: how many items are above each of them, and how many at its score.

Every metric of :mod:`sumexp.ranking` is a function of these two numbers. They are found in one of four ways,
whichever reads least: by counting (one or two relevant items a list), by a search in the sorted scores (some), by
sorting the items (many), and by a search in the best k + 1 alone where only the first k places count. Lists are
taken some rows at a time, and :class:`Chunks` some items at a time, so that memory stays bounded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.ranking._counting import FEW, SOME, above_and_tied, all_places, count_true, search_sorted, where_true
from sumexp.ranking._scores import Matrix, check_scores, lowest, pad_lists

Ties = Literal["expected", "pessimistic", "optimistic"]
"""What is assumed of the order of equal scores."""

ROWS_AT_ONCE = 1 << 20
"""Scores of the rows that are taken at a time: their sorted copies stay in the cache."""


@dataclass(frozen=True)
class Labels:
    """The relevant items of each list, by their numbers.

    >>> ranking.Labels([[3, 1], [2]]).padded()[0]
    tensor([[ 3,  1],
            [ 2, -1]])

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
        items = pad_lists("lists", self.lists, -1).to(device)
        if items.ndim != 2 or items.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"the lists must hold integers, int32 or int64, as a tensor [B, T], got {items.dtype} of shape "
                f"{tuple(items.shape)}"
            )
        items = items if items.shape[1] else torch.nn.functional.pad(items, (0, 1), value=-1)
        absent = items < 0
        items = items.to(torch.int64).masked_fill(absent, -1)
        gains = (
            torch.ones(items.shape) if self.gains is None or not items.numel() else pad_lists("gains", self.gains, 0)
        )
        if gains.shape != items.shape:
            raise ValueError(f"gains have the shape {tuple(gains.shape)}, the lists {tuple(items.shape)}")
        gains = gains.to(items.device, torch.float64).masked_fill(absent, 0)
        if not bool(((gains > 0) | absent).all() & (gains.sum(-1) < torch.inf).all()):
            raise ValueError("the gains of labels must be finite and > 0; leave out a label that gains nothing")
        return items, gains


@dataclass(frozen=True)
class Chunks:
    """Scores [B, items] that are computed some items at a time and never stand together.

    >>> users, items = torch.eye(2), torch.arange(10.0).view(5, 2)
    >>> scores = ranking.Chunks(lambda start, stop: users @ items[start:stop].T, len(items), 2)
    >>> ranking.rank(scores, [0, 4])
    tensor([5., 1.], dtype=torch.float64)

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
        above, tied = above_and_tied(part, best)
        if mask is not None:
            tied = _without(tied, mask[rows], part, best)
        yield First(above.squeeze(-1), tied.squeeze(-1), count_true(own & (part == best)))


def first_of_labels(scores: Tensor | Chunks, items: Tensor, gains: Tensor, mask: Tensor | None) -> Iterator[First]:
    """The same of labels; arguments as in :func:`of_labels`."""
    for part in of_labels(scores, items, gains, mask, None):
        above = torch.where(part.gains > 0, part.above, torch.iinfo(torch.int64).max)
        first, at = above.min(-1, keepdim=True)
        yield First(first.squeeze(-1), part.tied.gather(-1, at).squeeze(-1), (above == first).sum(-1))


def everywhere(scores: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(above, tied) of all items, some lists at a time."""
    for rows in _rows(scores):
        yield all_places(scores[rows])


def _rows(scores: Tensor, k: int | None = None) -> Iterator[slice]:
    """Some lists at a time, and more where the best k + 1 are all that is sorted."""
    step = max(1, ROWS_AT_ONCE * (4 if _first_alone(scores, k) else 1) // scores.shape[1])
    return (slice(start, start + step) for start in range(0, max(1, len(scores)), step))


def _first_alone(scores: Tensor, k: int | None) -> bool:
    return k is not None and SOME * (k + 1) <= scores.shape[1]


def _nonzero(gains: Tensor) -> tuple[Tensor, Tensor]:
    """The items of positive gain of each row, [B, R], -1 at padding, and their gains."""
    row, item = where_true(gains if gains.dtype == torch.bool else gains > 0)
    count = torch.bincount(row, minlength=len(gains))
    column = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    shape = len(gains), int(count.max()) if len(gains) else 0
    items = torch.full(shape, -1, device=row.device)
    value = torch.zeros(shape, dtype=torch.float64, device=row.device)
    items[row, column], value[row, column] = item, gains[row, item].double()
    return items, value


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
        above, tied = (table.gather(-1, items.clamp_min(0)) for table in all_places(scores))
    else:
        above, tied = above_and_tied(scores, wanted)
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
        more, equal = above_and_tied(chunk, wanted)
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
    above, tied = search_sorted(best.flip(-1).contiguous(), wanted)
    tied = torch.where(wanted == best[:, -1:], at_last, tied)
    beyond = wanted < best[:, -1:]
    # So many that in no order of the ties such an item comes to the first k places.
    return above.masked_fill(beyond, best.shape[1]), tied.masked_fill(beyond, 1 << 53)
