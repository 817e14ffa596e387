r"""The place of each relevant item: how many candidates have a higher score, and how many the same.

Every metric of :mod:`sumexp.ranking` is a function of these two numbers. The cheapest of four methods finds them:
counting (few relevant items per list), a search in the sorted scores (some), sorting the items (many), or, if
only the first k places count, a search in the best k + 1. Lists are taken some rows at a time, and :class:`Chunks` some
items at a time, so that memory is bounded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._lists import Sparse, check_ordered, entries, in_rows, pad_along, pad_lists
from sumexp.ranking._counting import SOME, above_and_tied, all_places, count_true, few, search_sorted, where_true
from sumexp.ranking._scores import Faults, Matrix, check_scores, lowest, note_nan

Ties = Literal["expected", "pessimistic", "optimistic"]
"""The rule for the order of equal scores."""

ROWS_AT_ONCE = 1 << 20
"""Scores that the CPU takes at a time, so that their sorted copies stay in the cache."""

ON_DEVICE = 1 << 28
"""Scores that a GPU takes at a time."""

NOWHERE = 1 << 53
"""The number above an item beyond the first k places."""


@dataclass(frozen=True)
class Labels:
    """The relevant items of each list, by their numbers.

    >>> ranking.Labels([[3, 1], [2]]).padded()[0]
    tensor([[ 3,  1],
            [ 2, -1]])

    Attributes:
        lists: the relevant items of each list, in any order, each once; or integers [B, T], negative for padding; or
            the non-zero entries of a sparse matrix.
        gains: as ``lists``, a number > 0 for each item, ignored at padding; all 1 if None.

    Raises:
        ValueError: if the two do not fit, or a gain is not finite and > 0.
    """

    lists: Sequence[Any] | Matrix | Sparse
    gains: Sequence[Sequence[float]] | Matrix | None = None

    def padded(self, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
        """Items [B, T], -1 at padding, and their gains [B, T], 0 at padding."""
        faults = Faults()
        padded = self.read(faults, device)
        faults.settle()
        return padded

    def read(self, faults: Faults, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
        """The same; wrong gains are noted in ``faults``."""
        marked = entries("lists", self.lists)
        lists: Any = self.lists
        items = checks.held("lists", pad_lists("lists", lists, -1) if marked is None else marked[0]).to(device)
        if items.ndim != 2 or items.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"the lists must hold integers, int32 or int64, as a tensor [B, T], got {items.dtype} of shape "
                f"{tuple(items.shape)}"
            )
        absent = items < 0
        items = items.to(torch.int64).masked_fill(absent, -1)
        if self.gains is None or not items.numel():
            return items, checks.widest(~absent)
        check_ordered("lists", lists if marked is None else ())
        gains = pad_along("gains", self.gains, 0, lists if marked is None else items, items)
        gains = checks.widest(checks.onto(gains, items.device)).masked_fill(absent, 0)
        faults.note(
            ~(((gains > 0) | absent).all() & (gains.sum(-1) < torch.inf).all()),
            lambda: "the gains of labels must be finite and > 0; leave out a label that gains nothing",
        )
        return items, gains


@dataclass(frozen=True)
class Retrieved:
    """The first items of each list, as an index or another system returned them, instead of scores.

    A relevant item that was not retrieved contributes 0 to the metric, but counts in the total of recall and in the
    ideal order of NDCG. A list shorter than k leaves places empty.

    >>> retrieved = ranking.Retrieved([[4, 7], [3, -1]])  # the second list has one item
    >>> ranking.recall(retrieved, ranking.Labels([[7, 9], [3]]), 3)
    tensor([0.5000, 1.0000], dtype=torch.float64)

    Attributes:
        items: lists of items, the best first, or integers [B, K], negative for padding; each item once. Padding takes
            no place: items after it move up.
        scores: their scores, as ``items``, which may tie; without them the order of ``items`` counts.

    Raises:
        ValueError: by the metrics, if an item stands twice in a list or the two do not fit.
    """

    items: Sequence[Any] | Matrix
    scores: Sequence[Any] | Matrix | None = None

    def padded(self) -> tuple[Tensor, Tensor]:
        """Items [B, K], -1 at padding, and scores [B, K], falling ones by default."""
        items = checks.held("items", pad_lists("items", self.items, -1))
        check_ordered("items", self.items)
        if items.ndim != 2 or items.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"items must be integers [B, K], got {items.dtype} of shape {tuple(items.shape)}")
        items = items.long().clamp_min(-1)
        if self.scores is None or not items.numel():
            order = torch.arange(items.shape[1], 0, -1, device=items.device)
            return items, order.expand(items.shape)
        scores = pad_along("scores", self.scores, 0, self.items, items)
        return items, checks.onto(check_scores(scores), items.device)


@dataclass(frozen=True)
class Chunks:
    """Scores [B, items] that are computed some items at a time, never all at once.

    >>> users, items = torch.eye(2), torch.arange(10.0).view(5, 2)
    >>> scores = ranking.Chunks(lambda start, stop: users @ items[start:stop].T, len(items), 2)
    >>> ranking.rank(scores, [0, 4])
    tensor([5., 1.], dtype=torch.float64)

    Attributes:
        score: maps (start, stop) to the scores [B, stop - start] of the items start..stop - 1. It is called once or
            twice per range, and must return the same scores.
        items: number of items.
        size: items per call.

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
    """The places of the relevant items of some lists.

    Attributes:
        above: number of candidates with a higher score, [B, R]; more than k for items that cannot be among the first k.
        tied: number with the same score, the item included, [B, R].
        gains: [B, R], 0 for padding.
    """

    above: Tensor
    tied: Tensor
    gains: Tensor

    def settled(self, ties: Ties) -> "Places":
        """One place per item, by the best or the worst order of the ties; unchanged for ``expected``."""
        if ties == "expected":
            return self
        by_gain = self.gains.argsort(dim=-1, descending=True, stable=True)
        order = by_gain.gather(-1, self.above.gather(-1, by_gain).argsort(dim=-1, stable=True))
        above, tied, gains = (values.gather(-1, order) for values in self)
        # Among equals the greatest gain comes first in the best order and last in the worst. Padding, of gain 0, may
        # repeat an item more often than it ties; its place does not matter, but must not be negative.
        within = torch.arange(above.shape[1], device=above.device) - torch.searchsorted(above, above)
        place = above + within if ties == "optimistic" else above + tied - 1 - within
        return Places(place.clamp_min(0), torch.ones_like(tied), gains)

    def in_order(self) -> tuple["Places", Tensor, Tensor]:
        """By score, padding last; with the numbers of relevant items above each and tied with it, [B, R]."""
        above = torch.where(self.gains > 0, self.above, torch.iinfo(torch.int64).max)
        above, order = above.sort(dim=-1, stable=True)
        tied, gains = self.tied.gather(-1, order), self.gains.gather(-1, order)
        start = torch.searchsorted(above, above)
        return Places(above, tied, gains), start, torch.searchsorted(above, above, right=True) - start


@dataclass(frozen=True)
class Candidates:
    """Scores of candidates.

    Attributes:
        scores: [B, L], the lowest value of the type where an item is no candidate; or chunks; or retrieved items.
        left_out: [B, 1] number of items that are no candidates; None for none.
    """

    scores: Tensor | Chunks | Retrieved
    left_out: Tensor | None = None

    def rows(self, at: slice) -> Tensor | None:
        """``left_out`` of some lists."""
        return None if self.left_out is None else self.left_out[at]


def of_matrix(given: Candidates, gains: Tensor, k: int | None, faults: Faults) -> Iterator[Places]:
    """The places of the items with a positive gain, some lists at a time.

    Args:
        given: the scores, a matrix.
        gains: [B, L] bool or numbers >= 0, 0 where an item is no candidate.
        k: number of places that count; all if None.
        faults: notes NaN.
    """
    assert isinstance(given.scores, Tensor)
    for rows in _rows(given.scores, k):
        worth = gains[rows]
        marks = worth.dtype == torch.bool
        row, item = where_true(worth if marks else worth > 0)
        items, value = in_rows(row, item, None if marks else worth[row, item], len(worth))
        yield _of_rows(given, rows, items, value, k, faults)


def of_labels(
    given: Candidates, items: Tensor, gains: Tensor, k: int | None, faults: Faults, first: bool = False
) -> Iterator[Places]:
    """The places of given items [B, T], -1 at padding, or with ``first`` of the best relevant one of each list."""
    if isinstance(given.scores, Retrieved):
        yield _of_retrieved(given.scores, items, gains, faults)
    elif isinstance(given.scores, Chunks):
        yield _of_chunks(given.scores, items, gains, given.left_out, k, faults, first)
    else:
        for rows in _rows(given.scores, k):
            yield _of_rows(given, rows, items[rows], gains[rows], k, faults, first)


class First(NamedTuple):
    """The place of the best relevant item of each list, each [B].

    Attributes:
        above: number of candidates with a higher score; NOWHERE without a relevant item.
        tied: number with the same score, the item included.
        right: number of relevant ones among those.
    """

    above: Tensor
    tied: Tensor
    right: Tensor

    @staticmethod
    def of(ranked: Places) -> "First":
        """Of all places."""
        above = torch.where(ranked.gains > 0, ranked.above, NOWHERE)
        first, at = above.min(-1, keepdim=True)
        has_relevant = (first < NOWHERE).squeeze(-1)
        return First(first.squeeze(-1), ranked.tied.gather(-1, at).squeeze(-1), (above == first).sum(-1) * has_relevant)


def first_of_matrix(given: Candidates, relevant: Tensor, faults: Faults) -> Iterator[First]:
    """The place of the best relevant item of each list, without a wait for a GPU; arguments as in :func:`of_matrix`."""
    scores = given.scores
    assert isinstance(scores, Tensor)
    for rows in _rows(scores):
        part, marks = scores[rows], relevant[rows] > 0
        note_nan(faults, part.amax(-1), rows.start)
        best = torch.where(marks, part, lowest(part)).amax(-1, keepdim=True)
        equal = part == best
        above, tied, right = (count_true(mask) for mask in (part > best, equal, equal & marks))
        tied = _without(tied.unsqueeze(-1), given.rows(rows), part, best)
        yield First(above.masked_fill_(right == 0, NOWHERE), tied.squeeze(-1), right)


def everywhere(scores: Tensor, faults: Faults) -> Iterator[tuple[Tensor, Tensor]]:
    """(above, tied) of all items, some lists at a time."""
    for rows in _rows(scores):
        note_nan(faults, scores[rows].amax(-1), rows.start)
        yield all_places(scores[rows])


def _rows(scores: Tensor, k: int | None = None) -> Iterator[slice]:
    """Some lists at a time, more of them if only the best k + 1 are sorted."""
    on_cpu = ROWS_AT_ONCE * (4 if _first_alone(scores, k) else 1)
    step = max(1, (on_cpu if scores.device.type == "cpu" else ON_DEVICE) // scores.shape[1])
    return (slice(start, start + step) for start in range(0, max(1, len(scores)), step))


def _first_alone(scores: Tensor, k: int | None) -> bool:
    return k is not None and SOME * (k + 1) <= scores.shape[1]


def _of_rows(
    given: Candidates, rows: slice, items: Tensor, gains: Tensor, k: int | None, faults: Faults, first: bool = False
) -> Places:
    assert isinstance(given.scores, Tensor)
    scores, length = given.scores[rows], given.scores.shape[1]
    at = items.clamp(0, length - 1)
    wanted = scores.gather(-1, at)
    if k is not None and _first_alone(scores, k):
        best = scores.topk(k + 1).values
        note_nan(faults, best[:, 0], rows.start)
        above, tied = _among_best(best, wanted, _at_last(scores, best, wanted))
    else:
        asked, largest = _asked(wanted, gains, first), None
        if scores.device.type == "cpu" and SOME * asked.shape[1] > length and asked.shape[1] > few(scores):
            above, tied = (table.gather(-1, at) for table in all_places(scores))
        else:
            above, tied, largest = above_and_tied(scores, asked)
            above, tied = _spread((above, tied), wanted, asked)
        note_nan(faults, scores.amax(-1) if largest is None else largest, rows.start)
    return Places(above, _without(tied, given.rows(rows), scores, wanted), gains)


def _asked(wanted: Tensor, gains: Tensor, first: bool) -> Tensor:
    """The wanted scores, or with ``first`` the best relevant one of each list [B, 1]."""
    if not first:
        return wanted
    return wanted.masked_fill(gains <= 0, lowest(wanted)).amax(-1, keepdim=True)


def _spread(counts: tuple[Tensor, Tensor], wanted: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
    """(above, tied) of the wanted scores, by those of the asked ones; other scores are NOWHERE."""
    above, tied = counts
    return counts if asked is wanted else (torch.where(wanted == asked, above, NOWHERE), tied.expand_as(wanted))


def _at_last(scores: Tensor, best: Tensor, wanted: Tensor) -> Tensor:
    """The number of scores equal to the last of the best [B, 1]; 1 if no wanted score is."""
    last = best[:, -1:]
    if scores.device.type != "cpu":  # a pass costs less than a synchronisation
        return count_true(scores == last).unsqueeze(-1)
    crowded = (wanted == last).any(-1)
    at_last = torch.ones_like(last, dtype=torch.int64)
    if bool(crowded.any()):
        at_last[crowded] = count_true(scores[crowded] == last[crowded]).unsqueeze(-1)
    return at_last


def _without(tied: Tensor, left_out: Tensor | None, scores: Tensor, wanted: Tensor) -> Tensor:
    """Ties without the items left out, which tie with candidates of the lowest score."""
    if left_out is None:
        return tied
    # The score of padding may be that of an item left out; its gain is 0, but nothing is divided by 0.
    return torch.where(wanted == lowest(scores), tied - left_out, tied).clamp_min(1)


def _of_retrieved(retrieved: Retrieved, items: Tensor, gains: Tensor, faults: Faults) -> Places:
    listed, scores = retrieved.padded()
    items, gains = items.to(listed.device), checks.onto(gains, listed.device)
    real = listed >= 0
    note_nan(faults, scores.masked_fill(~real, 0).amax(-1), 0)
    above, tied = (torch.full_like(items, value) for value in (NOWHERE, 1))
    for column in range(items.shape[1]):
        item = items[:, column : column + 1]
        hit = (listed == item) & (item >= 0)
        score = scores.gather(-1, hit.byte().argmax(-1, keepdim=True))
        is_listed = hit.any(-1)
        above[:, column] = torch.where(is_listed, ((scores > score) & real).sum(-1), NOWHERE)
        tied[:, column] = torch.where(is_listed, ((scores == score) & real).sum(-1), 1)
    return Places(above, tied, gains)


def _of_chunks(
    scores: Chunks, items: Tensor, gains: Tensor, left_out: Tensor | None, k: int | None, faults: Faults, first: bool
) -> Places:
    wanted: Tensor | None = None
    best, at_last = None, None
    for start, chunk in scores:
        if len(chunk) != len(items):
            raise ValueError(f"a chunk has scores of {len(chunk)} lists; there are labels of {len(items)}")
        note_nan(faults, chunk.amax(-1), 0)
        if wanted is None:
            items, gains = items.to(chunk.device), checks.onto(gains, chunk.device)
            wanted = torch.full(items.shape, lowest(chunk), dtype=chunk.dtype, device=chunk.device)
        inside = (items >= start) & (items < start + chunk.shape[1])
        wanted = torch.where(inside, chunk.gather(-1, (items - start).clamp(0, chunk.shape[1] - 1)), wanted)
        if k is not None:
            best, at_last = _merge(best, at_last, chunk, min(k + 1, scores.items))
    assert wanted is not None
    faults.settle()
    left_out = None if left_out is None else left_out.to(items.device)
    if best is not None and at_last is not None:
        above, tied = _among_best(best, wanted, at_last)
        return Places(above, _without(tied, left_out, wanted, wanted), gains)
    asked = _asked(wanted, gains, first)
    above = tied = torch.zeros_like(asked, dtype=torch.int64)
    for _, chunk in scores:
        more, equal, _ = above_and_tied(chunk, asked)
        above, tied = above + more, tied + equal
    above, tied = _spread((above, tied), wanted, asked)
    # The score of padding may tie with nothing.
    return Places(above, _without(tied, left_out, wanted, wanted).clamp_min(1), gains)


def _merge(best: Tensor | None, at_last: Tensor | None, chunk: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The best k so far, in descending order, and the number of scores so far that equal the last of them [B, 1]."""
    size = min(k + 1, chunk.shape[1])  # one more shows whether further scores equal the last
    of_chunk = torch.cat([chunk[rows].topk(size).values for rows in _rows(chunk)])
    merged = of_chunk if best is None else torch.cat([best, of_chunk], -1).sort(-1, descending=True).values
    new = merged[:, :k]
    last = new[:, -1:]
    count = (of_chunk == last).sum(-1, keepdim=True)
    more = of_chunk[:, -1] == last[:, 0]
    if of_chunk.shape[1] < chunk.shape[1] and bool(more.any()):
        count[more] = count_true(chunk[more] == last[more]).unsqueeze(-1)
    if best is not None and at_last is not None:
        # All scores above the former last one are in the former best.
        before = (best == last).sum(-1, keepdim=True)
        count = count + torch.where(best[:, -1:] == last, at_last, before)
    return new, count


def _among_best(best: Tensor, wanted: Tensor, at_last: Tensor) -> tuple[Tensor, Tensor]:
    """(above, tied) by the best scores alone [B, k + 1], descending; ``at_last`` counts all that equal the last."""
    above, tied = search_sorted(best.flip(-1).contiguous(), wanted)
    tied = torch.where(wanted == best[:, -1:], at_last, tied)
    # In no order of the ties is an item that ties with none of the best among the first k.
    return above, tied.masked_fill(tied == 0, NOWHERE)
