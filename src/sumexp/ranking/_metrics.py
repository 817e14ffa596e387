"""Ranking metrics of a batch of score lists, with a stated rule for ties. The arguments are defined by the package."""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, TypedDict, Unpack, get_args

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._lists import Sparse, entries
from sumexp._tables import cached_table
from sumexp.ranking import _places as places
from sumexp.ranking._counting import count_true
from sumexp.ranking._places import NOWHERE, Candidates, Chunks, First, Labels, Places, Retrieved, Ties
from sumexp.ranking._scores import Faults, Matrix, as_tensor, check_bool, check_scores, lowest

Scores = Matrix | Chunks | Retrieved
"""Scores [B, L], chunks of them, or the items that another system retrieved."""
Relevant = Matrix | Labels | Sparse
"""Marks or gains [B, L], the relevant items, or a sparse matrix of gains."""
Excluded = Labels | Sequence[Any] | Matrix | Sparse
"""Items of each list, as :class:`Labels` has them: lists or sets, integers [B, T] padded by -1, or a sparse matrix."""
Empty = Literal["error", "skip"] | float
"""The rule for a list without a relevant item: an error, no value, or this value."""


class Options(TypedDict, total=False):
    """The rule for ties, the candidates, and the rule for lists without a relevant item: see `reciprocal_rank`."""

    ties: Ties
    mask: Matrix | None
    exclude: Excluded | None
    empty: Empty


def rank(
    scores: Scores,
    labels: checks.Values,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    r"""The rank of one label in each list; infinite if it was not retrieved.

    With g candidates above the label and T at its score (itself among them) it is g + 1 (optimistic), g + T
    (pessimistic) or g + (T + 1)/2 (expected).

    >>> ranking.rank(torch.tensor([[0.9, 0.5, 0.5]]), [1])  # second or third
    tensor([2.5000], dtype=torch.float64)

    ``labels`` [B] are the items to rank; the other arguments are those of :func:`reciprocal_rank`.

    Raises:
        ValueError: for shapes that do not fit, NaN, a label that is no candidate, or an unknown rule.
    """
    faults = Faults()
    given = _Given(scores, mask, ties, exclude)
    asked = checks.integers("label", labels)
    batch = asked.shape if given.batch is None else torch.Size([given.batch])
    if asked.ndim != 1 or asked.shape != batch:
        raise ValueError(f"labels must be integers [{batch[0] if batch else 'B'}], got {tuple(asked.shape)}")
    items = checks.ids("label", asked, given.items).unsqueeze(-1)
    if isinstance(given.candidates.scores, Tensor):
        items = items.to(given.candidates.scores.device)
    if not bool(given.kept(items).all()):
        raise ValueError("mask or exclude leaves out a label itself, which then has no rank")
    parts = places.of_labels(given.candidates, items, checks.widest(torch.ones_like(items)), None, faults)
    values = torch.cat([_mean_place(part.above, part.tied, ties).squeeze(-1) for part in parts])
    faults.settle()
    return values.masked_fill(values >= NOWHERE, torch.inf)


def ranks(scores: Matrix, *, ties: Ties = "expected") -> Tensor:
    """The ranks of all items of each list, [B, L]; see :func:`rank`.

    >>> ranking.ranks(torch.tensor([[0.9, 0.5, 0.7]]))
    tensor([[1., 3., 2.]], dtype=torch.float64)

    Raises:
        ValueError: for a wrong shape, NaN, or an unknown rule.
    """
    checks.choice("ties", ties, get_args(Ties))
    checked, faults = check_scores(scores), Faults()
    result = torch.empty(checked.shape, dtype=checks.wide(checked.device), device=checked.device)
    row = 0
    for above, tied in places.everywhere(checked, faults):
        result[row : row + len(above)] = _mean_place(above, tied, ties)
        row += len(above)
    faults.settle()
    return result


def reciprocal_rank(
    scores: Scores,
    relevant: Relevant,
    k: int | None = None,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
    empty: Empty = "error",
) -> Tensor:
    r"""One over the rank of the first relevant item; 0 if none is among the first k, or was retrieved.

    If r of the T items that tie at the best relevant score are relevant, and g items are above, the first of them
    stands at place g + j with probability :math:`\binom{T-j}{r-1}/\binom Tr`; for r = 1 the expected value is the mean
    of 1/(g+1), ..., 1/(g+T).

    >>> ranking.reciprocal_rank(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1, 2]]))
    tensor([0.5000], dtype=torch.float64)

    Args:
        scores: [B, L], chunks of them, or retrieved items.
        relevant: [B, L] bool, labels, or a sparse matrix.
        k: the number of places that count; all if None.
        ties: the rule for ties.
        mask: [B, L] the candidates; all if None.
        exclude: items of each list that are no candidates, such as the user's training items; none if None.
        empty: the rule for a list without a relevant item: ``error``, ``skip`` (no value for it), or its value.

    Raises:
        ValueError: for shapes that do not fit, NaN, a list without relevant item, or an unknown rule.
    """
    return _values({"": ("reciprocal_rank", k)}, scores, relevant, ties, mask, exclude, empty)[""]


def mean_reciprocal_rank(
    scores: Scores, relevant: Relevant, k: int | None = None, **options: Unpack[Options]
) -> Tensor:
    """The mean of :func:`reciprocal_rank` over the batch, a scalar.

    >>> ranking.mean_reciprocal_rank(torch.tensor([[0.9, 0.5], [0.1, 0.2]]), ranking.Labels([[1], [1]]))
    tensor(0.7500, dtype=torch.float64)

    Raises:
        ValueError: as there, and for an empty batch.
    """
    each = reciprocal_rank(scores, relevant, k, **options)
    if not len(each):
        raise ValueError("the batch is empty, so it has no mean reciprocal rank")
    return each.mean()


def recall(scores: Scores, relevant: Relevant, k: int, **options: Unpack[Options]) -> Tensor:
    """The share of the relevant items that is among the first k, each counted by its gain if gains are given.

    >>> ranking.recall(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1, 2]]), 2)
    tensor([0.5000], dtype=torch.float64)

    ``relevant`` may be gains >= 0 too, and ``k`` is the number of places that count; the other arguments are those of
    :func:`reciprocal_rank`.

    Raises:
        ValueError: as :func:`reciprocal_rank` or :func:`dcg`, and if k is not in 1..L.
    """
    return _values({"": ("recall", k)}, scores, relevant, **options)[""]


def precision(scores: Scores, relevant: Relevant, k: int, **options: Unpack[Options]) -> Tensor:
    """The share of the first k places that relevant items take (a list with fewer candidates leaves places empty).

    >>> ranking.precision(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[0, 2]]), 2)
    tensor([1.], dtype=torch.float64)

    Raises:
        ValueError: as :func:`recall`.
    """
    return _values({"": ("precision", k)}, scores, relevant, **options)[""]


def average_precision(scores: Scores, relevant: Relevant, k: int | None = None, **options: Unpack[Options]) -> Tensor:
    r"""The mean over the relevant items of the precision at their places, 0 for those beyond the first k.

    The mean is over all relevant items, as in ranx and trec_eval; torchmetrics divides by those among the first k.
    In a block of T ties that begins after place g with r relevant items, after R' before, place i has the expected term
    :math:`\frac rT\big(R' + 1 + (i-g-1)\frac{r-1}{T-1}\big)\frac1i`. The sum over the block is a difference of
    harmonic numbers.

    >>> ranking.average_precision(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1, 2]]))
    tensor([0.5833], dtype=torch.float64)

    Raises:
        ValueError: as :func:`recall`.

    Source: McSherry and Najork (2008), for the expected value.
    """
    return _values({"": ("average_precision", k)}, scores, relevant, **options)[""]


def dcg(scores: Scores, gains: Relevant, k: int | None = None, **options: Unpack[Options]) -> Tensor:
    r"""Discounted cumulative gain :math:`\sum_{r_i \le k} g_i/\log_2(1+r_i)`.

    >>> ranking.dcg(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[0]], gains=[[3.0]]))
    tensor([3.], dtype=torch.float64)

    ``gains`` are [B, L] numbers >= 0 or bool, labels, or a sparse matrix, and ``k`` is the number of places that count,
    all if None; the other arguments are those of :func:`reciprocal_rank`.

    Raises:
        ValueError: as :func:`recall`, and for a negative or infinite gain.
    """
    return _values({"": ("dcg", k)}, scores, gains, **options)[""]


def ndcg(scores: Scores, gains: Relevant, k: int | None = None, **options: Unpack[Options]) -> Tensor:
    """DCG divided by the best possible DCG of the same gains at the same k.

    >>> ranking.ndcg(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1]]), 3)
    tensor([0.5000], dtype=torch.float64)

    Raises:
        ValueError: as :func:`dcg`.
    """
    return _values({"": ("ndcg", k)}, scores, gains, **options)[""]


def evaluate(
    scores: Scores,
    relevant: Relevant,
    metrics: Sequence[str],
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
    empty: Empty = "error",
) -> dict[str, Tensor]:
    """Several metrics in one pass over the scores, by name, each [B].

    >>> scores, relevant = torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1, 2]])
    >>> ranking.evaluate(scores, relevant, ["recall@2", "ndcg@2"])
    {'recall@2': tensor([0.5000], dtype=torch.float64), 'ndcg@2': tensor([0.3869], dtype=torch.float64)}

    ``metrics`` are names of functions of this package, with ``@k`` for the first k places; a metric without gains takes
    the items with a gain > 0. The other arguments are those of :func:`recall`.

    Raises:
        ValueError: as each metric, and for an unknown name.
    """
    checks.argument("metrics", metrics, Sequence[str])
    asked: dict[str, tuple[str, int | None]] = {}
    for metric in metrics:
        name, at, k = metric.partition("@")
        checks.choice("metric", name, list(METRICS))
        if at and not k.isdecimal():
            raise ValueError(f"metric is {metric!r}; after @ give the number of places, as in {name}@10")
        asked[metric] = name, int(k) if k else None
    return _values(asked, scores, relevant, ties, mask, exclude, empty)


KEPT = 1 << 18
"""Places whose terms are kept for the next call, up to 16 tables of 6 MiB."""


def _terms(discounted: bool, k: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The term of each of the first k places, 1/log2(1 + i) or 1/i, [k], and sums of the first 0, 1, ..., k of them."""
    place = torch.arange(1, k + 1, dtype=dtype, device="cpu" if k <= KEPT else device)
    terms = (torch.log2(1 + place) if discounted else place).reciprocal()
    total = torch.nn.functional.pad(terms.cumsum(0), (1, 0))
    # The rounding error of each total, itself exact, so that the difference of two large totals keeps all digits.
    lost = torch.nn.functional.pad((terms - total.diff()).cumsum(0), (1, 0))
    return terms.to(device), torch.stack([total, lost], -1).to(device)


_kept_terms = cached_table(16)(_terms)


def _over(discounted: bool, k: int, start: Tensor, stop: Tensor) -> Tensor:
    """Sums of terms over the places start + 1, ..., stop, of which those beyond k are left out."""
    terms = _kept_terms if k <= KEPT else _terms
    sums = terms(discounted, k, start.device, checks.wide(start.device))[1]
    total, lost = (sums[stop.clamp_max(k)] - sums[start.clamp_max(k)]).unbind(-1)
    return total + lost


def _values(
    asked: dict[str, tuple[str, int | None]],
    scores: Scores,
    relevant: Relevant,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
    empty: Empty = "error",
) -> dict[str, Tensor]:
    """Metrics, each by its name and k, in one pass over the scores."""
    if not (empty in ("error", "skip") or (isinstance(empty, Real) and 0 <= empty <= 1)):
        raise ValueError(f"empty is {empty!r}; it must be 'error', 'skip' or a number from 0 to 1")
    faults, names = Faults(), {name for name, _ in asked.values()}
    length = _length(scores)
    for key, (name, k) in asked.items():
        if k is not None or name in ("recall", "precision"):
            asked[key] = name, checks.whole("k", k, 1, None if isinstance(scores, Retrieved) else length)
    given = _Given(scores, mask, ties, exclude)
    graded, first = names & {"dcg", "ndcg"}, names == {"reciprocal_rank"}
    called = "gains" if graded else "relevant"
    several = [k for _, k in asked.values()]
    most = None if None in several else max((k for k in several if k is not None), default=None)
    marked = relevant if isinstance(relevant, Labels) else entries(called, relevant)
    what = "relevant item" if marked is not None or not graded else "candidate with a positive gain"
    if marked is not None:
        items, gains = given.of_items(marked, called, faults)
        parts = places.of_labels(given.candidates, items, gains, most, faults, first)
    else:
        # A metric by itself, under the name "", takes gains only if it counts them; `evaluate` takes them for all.
        right = given.of_matrix(relevant, called, "" in asked and names.isdisjoint({"recall", "dcg", "ndcg"}), faults)
        if first:
            firsts = list(places.first_of_matrix(given.candidates, right, faults))
            has_relevant = _joined([each.right for each in firsts]) > 0
            reciprocal = {
                key: _joined([_reciprocal_rank(each, ties, length if k is None else k) for each in firsts])
                for key, (_, k) in asked.items()
            }
            return {key: _of_empty(value, has_relevant, empty, what, faults) for key, value in reciprocal.items()}
        parts = places.of_matrix(given.candidates, right, most, faults)
    values: dict[str, list[Tensor]] = {name: [] for name in asked}
    nonempty: list[Tensor] = []
    for part in parts:
        settled = part.settled(ties)
        nonempty.append((part.gains > 0).any(-1))
        for key, (name, k) in asked.items():
            longest = max(length, part.gains.shape[1])
            last = longest if k is None else k if name == "precision" else min(k, longest)
            values[key].append(METRICS[name](settled, last))
    has_relevant = _joined(nonempty)
    return {key: _of_empty(_joined(value), has_relevant, empty, what, faults) for key, value in values.items()}


def _joined(parts: list[Tensor]) -> Tensor:
    """Parts one after another; a single one is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _of_empty(values: Tensor, some: Tensor, empty: Empty, what: str, faults: Faults) -> Tensor:
    """The values [B], with the rule for lists where ``some`` [B] is False; raises what ``faults`` noted."""
    some = some.to(values.device)
    if empty == "error":

        def message() -> str:
            lists = (~some).nonzero().flatten()
            return (
                f"list {int(lists[0])} has no {what} ({len(lists)} such lists); leave such lists out, or say "
                "empty='skip' or empty=0"
            )

        faults.note((~some).any(), message)
    faults.settle()
    if empty == "skip":
        return values[some]
    return values if empty == "error" else torch.where(some, values, float(empty))


def _mean_place(above: Tensor, tied: Tensor, ties: Ties) -> Tensor:
    if ties == "optimistic":
        return checks.widest(above + 1)
    return checks.widest(above + tied) if ties == "pessimistic" else checks.widest(tied + 1).div_(2).add_(above)


def _within(ranked: Places, k: int) -> Tensor:
    """The expected gain among the first k places."""
    return (ranked.gains * (checks.widest(k - ranked.above) / ranked.tied).clamp(0, 1)).sum(-1)


def _discounted(ranked: Places, k: int) -> Tensor:
    sums = _over(True, k, ranked.above, ranked.above + ranked.tied)
    return (ranked.gains / ranked.tied * sums).sum(-1)


def _ideal(ranked: Places, k: int) -> Tensor:
    """DCG of the greatest gains first."""
    gains = ranked.gains.sort(-1, descending=True).values
    size = gains.shape[1]
    terms = _kept_terms(True, min(k, max(KEPT, size)), gains.device, gains.dtype)[0][:size]
    return (gains * torch.nn.functional.pad(terms, (0, size - len(terms)))).sum(-1)


def _reciprocal_rank(first: First, ties: Ties, k: int) -> Tensor:
    """One over the place of the first relevant item, 0 beyond the first k places."""
    above, tied, right = first
    if ties != "expected":
        place = above + 1 if ties == "optimistic" else above + tied - right + 1
        return (1 / checks.widest(place)).masked_fill(place > k, 0)
    inside = above < k
    value, is_tied = inside / checks.widest(above + 1), inside & (tied > 1)
    stop = (above + tied).clamp_max(k)
    length = (stop - above) * is_tied
    several = length * (right > 1)
    # Both numbers at once, as each reading makes a GPU wait.
    longest, most = torch.stack([length, several]).amax(-1).tolist() if len(length) else (0, 0)
    if longest:
        reach = k if k <= KEPT else int((stop * is_tied).max())
        value = torch.where(is_tied, _over(False, reach, above, stop) / tied, value)
    if most:
        rows = several.nonzero().flatten()
        for part in rows.split(max(1, places.ROWS_AT_ONCE // most)):  # type: ignore[no-untyped-call]
            value[part] = _first_of_several(above[part], tied[part], right[part], stop[part], most)
    return value


def _first_of_several(above: Tensor, tied: Tensor, right: Tensor, stop: Tensor, most: int) -> Tensor:
    """The mean over random orders: the hazard of place j is ``right`` over the number of tied items from j on."""
    index = torch.arange(most, dtype=checks.wide(above.device), device=above.device)
    hazard = right.unsqueeze(-1) / (tied.unsqueeze(-1) - index)  # 1 before it exceeds 1, and then nothing follows
    none_before = torch.nn.functional.pad((1 - hazard).cumprod(-1), (1, 0), value=1.0)[:, :-1]
    place = above.unsqueeze(-1) + index + 1
    return (hazard * none_before / place).masked_fill(place > stop.unsqueeze(-1), 0).sum(-1)


def _average_precision(ranked: Places, k: int) -> Tensor:
    order, before, right = ranked.in_order()
    start = order.above.clamp_max(k)
    stop = (start + order.tied).clamp_max(k)
    others = checks.widest(right - 1) / (order.tied - 1).clamp_min(1)
    harmonic = _over(False, k, start, stop)
    terms = ((before + 1 - (start + 1) * others) * harmonic + others * (stop - start)) / order.tied
    return torch.where(order.gains > 0, terms, 0.0).sum(-1) / (ranked.gains > 0).sum(-1)


def _binary(ranked: Places) -> Places:
    return ranked._replace(gains=checks.widest(ranked.gains > 0))


METRICS: dict[str, Callable[[Places, int], Tensor]] = {
    "recall": lambda p, k: _within(p, k) / p.gains.sum(-1),
    "precision": lambda p, k: _within(_binary(p), k) / k,
    "average_precision": _average_precision,
    "reciprocal_rank": lambda p, k: _reciprocal_rank(First.of(p), "expected", k),
    "dcg": _discounted,
    "ndcg": lambda p, k: _discounted(p, k) / _ideal(p, k),
}
"""Functions of places, with ties settled, and of the number of places that count."""


class _Given:
    """Scores, mask and exclusions, checked: the candidates, and the relevant items among them."""

    def __init__(self, scores: Scores, mask: Matrix | None, ties: str, exclude: Excluded | None) -> None:
        checks.choice("ties", ties, get_args(Ties))
        self.items = _length(scores)
        self.mask: Tensor | None = None
        self.excluded: Tensor | None = None
        self.batch: int | None = None
        if isinstance(scores, Chunks | Retrieved):
            if mask is not None:
                fix = "padding, -1," if isinstance(scores, Retrieved) else "the score -inf"
                raise ValueError(f"{_called(scores)} take no mask: give {fix} to what is no candidate, or exclude it")
            self.candidates = Candidates(scores)
            if isinstance(scores, Retrieved):
                self.items = 1 << 63
                listed, values = _unlike(scores)
                self.batch = len(listed)
                self.candidates = Candidates(Retrieved(listed, values))
            if exclude is not None:
                self.excluded = _excluded(exclude, self.items, self.batch)
                if isinstance(scores, Retrieved):
                    gone = _among(listed, self.excluded.to(listed.device))
                    self.candidates = Candidates(Retrieved(listed.masked_fill(gone, -1), values))
                else:
                    less = Chunks(_less(scores, self.excluded), scores.items, scores.size)
                    self.candidates = Candidates(less, _distinct(self.excluded))
            return
        if mask is not None:
            self.mask = as_tensor("mask", mask).to(as_tensor("scores", scores).device)
        checked = check_scores(scores, mask=self.mask)
        self.batch = len(checked)
        if exclude is not None:
            self.excluded = _excluded(exclude, self.items, self.batch).to(checked.device)
            if self.mask is None:
                checked = self._without(checked, lowest(checked))
                self.candidates = Candidates(checked, _distinct(self.excluded))
                return
            self.mask = self._without(self.mask, False)
            checked = torch.where(self.mask, checked, lowest(checked))
        left_out = None if self.mask is None else (self.items - count_true(self.mask)).unsqueeze(-1)
        self.candidates = Candidates(checked, left_out)

    def _without(self, values: Tensor, value: float) -> Tensor:
        """A copy of a matrix [B, L] with a value at the excluded items."""
        assert self.excluded is not None
        row, place = (self.excluded >= 0).nonzero(as_tuple=True)
        copy = values.clone()
        copy[row, self.excluded[row, place]] = value
        return copy

    def kept(self, items: Tensor) -> Tensor:
        """Which items [B, T] are candidates and not padding."""
        is_kept = items >= 0
        if self.mask is not None:
            is_kept &= self.mask.gather(-1, items.clamp(0, self.items - 1))
        elif self.excluded is not None:
            if len(self.excluded) != len(items):
                raise ValueError(f"exclude names items of {len(self.excluded)} lists; there are labels of {len(items)}")
            is_kept &= ~_among(items, self.excluded.to(items.device))
        return is_kept

    def of_items(
        self, marked: Labels | tuple[Tensor, Tensor, tuple[int, ...]], called: str, faults: Faults
    ) -> tuple[Tensor, Tensor]:
        """Relevant candidates [B, T], -1 at padding, and their gains."""
        scores = self.candidates.scores
        device = scores.device if isinstance(scores, Tensor) else None
        if isinstance(marked, Labels):
            items, gains = marked.read(faults, device)
        else:
            items, gains, shape = marked
            if not isinstance(scores, Retrieved) and shape[1] != self.items:
                raise ValueError(f"{called} is sparse of shape {shape}; the scores have {self.items} items")
            items, gains = items.to(device), gains if device is None else checks.onto(gains, device)
            _note_gains(faults, gains)
        if self.batch is not None and len(items) != self.batch:
            raise ValueError(f"there are labels of {len(items)} lists and scores of {self.batch}")
        if items.numel() and not isinstance(scores, Retrieved):
            beyond = items >= self.items
            faults.note(
                beyond.any(),
                lambda: f"a label is {int(items[beyond][0])}; the {self.items} classes are 0..{self.items - 1}",
            )
        ordered = items.sort(-1).values
        twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(-1)
        faults.note(
            twice.any(),
            lambda: f"list {int(twice.nonzero()[0])} names a label twice; name each relevant item once",
        )
        kept = self.kept(items)
        return torch.where(kept, items, -1), torch.where(kept, gains, 0.0)

    def of_matrix(self, relevant: Any, called: str, binary: bool, faults: Faults) -> Tensor:
        """The relevant candidates, bool or gains [B, L]."""
        right, scores = as_tensor(called, relevant), self.candidates.scores
        if not isinstance(scores, Tensor):
            raise ValueError(f"{_called(scores)} take no matrix of what is relevant: give Labels, or a sparse matrix")
        right = checks.onto(right, scores.device)
        if right.dtype != torch.bool and not right.is_complex() and right.shape == scores.shape:
            right = self._kept_of(right)
            if binary and bool(((right == 0) | (right == 1)).all()):
                right = right == 1
            elif not binary:
                _note_gains(faults, right)
                return right
        if right.shape != scores.shape:
            shapes = f"{called} must have the scores' shape {tuple(scores.shape)}, got {tuple(right.shape)}"
            raise ValueError(f"{shapes}; numbers of items go into ranking.Labels, a list for each row")
        check_bool(called, right, scores)
        return self._kept_of(right)

    def _kept_of(self, right: Tensor) -> Tensor:
        """Marks or gains [B, L], 0 where an item is no candidate."""
        if self.mask is not None:
            return right & self.mask if right.dtype == torch.bool else torch.where(self.mask, right, 0)
        return right if self.excluded is None else self._without(right, 0)


def _note_gains(faults: Faults, gains: Tensor) -> None:
    if gains.numel():
        least, most = gains.aminmax()
        total = gains.sum(-1).amax() if gains.dtype == checks.wide(gains.device) else most  # others cannot overflow it
        sound = (least >= 0) & (total < torch.inf)
        faults.note(~sound, lambda: "gains must be finite numbers >= 0, and so must their sum be")


def _unlike(retrieved: Retrieved) -> tuple[Tensor, Tensor]:
    """The retrieved items and their scores.

    Raises:
        ValueError: if a list has an item twice.
    """
    listed, scores = retrieved.padded()
    ordered = listed.sort(-1).values
    twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(-1).nonzero().flatten()
    if len(twice):
        raise ValueError(f"list {int(twice[0])} retrieves an item twice; each stands in a list once")
    return listed, scores


def _called(scores: Chunks | Retrieved) -> str:
    return "retrieved items" if isinstance(scores, Retrieved) else "chunks of scores"


def _length(scores: Scores) -> int:
    if isinstance(scores, Chunks):
        return scores.items
    if isinstance(scores, Retrieved):
        return max(1, scores.padded()[0].shape[1])
    checked = as_tensor("scores", scores)
    return checked.shape[-1] if checked.ndim else 0


def _excluded(exclude: Excluded, items: int, lists: int | None) -> Tensor:
    """Excluded items [B, E] in ascending order, -1 at padding.

    Raises:
        ValueError: if one is no item, the lists are not as many, or they are marks and not numbers of items.
    """
    marked = None if isinstance(exclude, Labels) else entries("exclude", exclude)
    if marked is not None:
        excluded, _, shape = marked
        if items < 1 << 63 and shape[1] != items:
            raise ValueError(f"exclude is sparse of shape {shape}; the scores have {items} items")
    else:
        given: Any = exclude
        excluded, _ = (exclude if isinstance(exclude, Labels) else Labels(given)).padded()
        if not isinstance(exclude, Labels) and excluded.shape[1] == items > 1 and bool((excluded >= 0).all()):
            raise ValueError(
                f"exclude names {items} items in each list, as many as there are: for marks [B, L] give "
                "mask=marks == 0, or a sparse matrix; for items give ranking.Labels(lists)"
            )
    if lists is not None and len(excluded) != lists:
        raise ValueError(f"exclude names items of {len(excluded)} lists; there are scores of {lists}")
    checks.ids("label to exclude", excluded.clamp_min(0), items)
    return excluded.sort(-1).values


def _distinct(ordered: Tensor) -> Tensor:
    """The number of different items of each sorted row [B, 1], without -1."""
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return (new & (ordered >= 0)).sum(-1, keepdim=True)


def _less(scores: Chunks, excluded: Tensor) -> Callable[[int, int], Tensor]:
    """Chunks with the lowest score at the excluded items."""

    def score(start: int, stop: int) -> Tensor:
        chunk = check_scores(scores.score(start, stop), stop - start)
        if len(chunk) != len(excluded):
            raise ValueError(f"exclude names items of {len(excluded)} lists; a chunk has shape {tuple(chunk.shape)}")
        row, place = ((excluded >= start) & (excluded < stop)).nonzero(as_tuple=True)
        chunk = chunk.clone()
        chunk[row.to(chunk.device), (excluded[row, place] - start).to(chunk.device)] = lowest(chunk)
        return chunk

    return score


def _among(items: Tensor, ordered: Tensor) -> Tensor:
    """Which items [B, T] are among sorted ones [B, E]."""
    place = torch.searchsorted(ordered, items.contiguous()).clamp_max(ordered.shape[1] - 1)
    return (ordered.gather(-1, place) == items) & (items >= 0)
