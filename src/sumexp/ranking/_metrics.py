"""Ranking metrics of a batch of score lists, with a stated rule for ties.

How ties, masks, labels and chunks are meant: see the package.
"""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.ranking import _places as places
from sumexp.ranking._counting import any_true
from sumexp.ranking._places import Chunks, First, Labels, Places, Ties
from sumexp.ranking._scores import Matrix, as_tensor, check_bool, check_scores

Excluded = Labels | Sequence[Sequence[int]] | Matrix
"""Items of each list, as :class:`Labels` has them: lists, integers [B, T] padded by -1, or a sparse matrix by rows."""


def rank(
    scores: Matrix | Chunks,
    labels: checks.Values,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    r"""The rank of one label in each list.

    With g candidates above the label and T at its score (itself among them) it is g + 1 (optimistic), g + T
    (pessimistic) or g + (T + 1)/2 (expected).

    >>> ranking.rank(torch.tensor([[0.9, 0.5, 0.5]]), [1])  # second or third
    tensor([2.5000], dtype=torch.float64)

    Args:
        scores: [B, L], or chunks of them.
        labels: [B] the items whose ranks are asked for.
        ties: the rule for ties.
        mask: [B, L] the candidates; all if None.
        exclude: items of each list that are no candidates, as those of its user's training; none if None.

    Raises:
        ValueError: for shapes that do not fit, NaN, a label that is no candidate, or an unknown rule.
    """
    checked, candidates, excluded = _check_scores(scores, mask, ties, exclude)
    given = checks.integers("label", labels)
    batch = given.shape if isinstance(checked, Chunks) else checked.shape[:1]
    if given.ndim != 1 or given.shape != batch:
        raise ValueError(f"labels must be integers [{batch[0] if batch else 'B'}], got {tuple(given.shape)}")
    own = checks.ids("label", given, _items(checked)).unsqueeze(-1)
    if candidates is not None and not bool(candidates.gather(-1, own).all()):
        raise ValueError("mask or exclude leaves out a label itself, which then has no rank")
    if excluded is not None and bool(_among(own, excluded).any()):
        raise ValueError("mask or exclude leaves out a label itself, which then has no rank")
    parts = places.of_labels(checked, own, torch.ones(own.shape, dtype=torch.float64), candidates, None)
    return torch.cat([_mean_place(part.above, part.tied, ties).squeeze(-1) for part in parts])


def ranks(scores: Matrix, *, ties: Ties = "expected") -> Tensor:
    """The ranks of all items of each list, [B, L]; see :func:`rank`.

    >>> ranking.ranks(torch.tensor([[0.9, 0.5, 0.7]]))
    tensor([[1., 3., 2.]], dtype=torch.float64)

    Raises:
        ValueError: for a wrong shape, NaN, or an unknown rule.
    """
    checked, *_ = _check_scores(scores, None, ties)
    assert isinstance(checked, Tensor)
    result = torch.empty(checked.shape, dtype=torch.float64, device=checked.device)
    row = 0
    for above, tied in places.everywhere(checked):
        result[row : row + len(above)] = _mean_place(above, tied, ties)
        row += len(above)
    return result


def reciprocal_rank(
    scores: Matrix | Chunks,
    relevant: Matrix | Labels,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    r"""One over the rank of the first relevant item.

    If r of the T items that tie at the best relevant score are relevant, and g items are above, the first of them
    stands at place g + j with probability :math:`\binom{T-j}{r-1}/\binom Tr`; for r = 1 the expected value is the mean
    of 1/(g+1), ..., 1/(g+T).

    >>> ranking.reciprocal_rank(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1, 2]]))
    tensor([0.5000], dtype=torch.float64)

    Raises:
        ValueError: for shapes that do not fit, NaN, a list without relevant item, or an unknown rule.
    """
    checked, candidates, excluded = _check_scores(scores, mask, ties, exclude)
    if isinstance(relevant, Labels):
        items, gains = _check_labels(relevant, checked, candidates, excluded)
        firsts = places.first_of_labels(checked, items, gains, candidates)
    else:
        right, checked = as_tensor("relevant", relevant), _check_matrix(checked)
        _check_relevant(right, checked, candidates)
        firsts = places.first_of_matrix(checked, right, candidates)
    return torch.cat([_reciprocal_rank(first, ties) for first in firsts])


def mean_reciprocal_rank(
    scores: Matrix | Chunks,
    relevant: Matrix | Labels,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    """The mean of :func:`reciprocal_rank` over the batch, a scalar.

    >>> ranking.mean_reciprocal_rank(torch.tensor([[0.9, 0.5], [0.1, 0.2]]), ranking.Labels([[1], [1]]))
    tensor(0.7500, dtype=torch.float64)

    Raises:
        ValueError: as there, and for an empty batch.
    """
    each = reciprocal_rank(scores, relevant, ties=ties, mask=mask, exclude=exclude)
    if not len(each):
        raise ValueError("the batch is empty, so it has no mean reciprocal rank")
    return each.mean()


def recall(
    scores: Matrix | Chunks,
    relevant: Matrix | Labels,
    k: int,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    """The share of the relevant items that is among the first k, each counted by its gain if gains are given.

    >>> ranking.recall(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1, 2]]), 2)
    tensor([0.5000], dtype=torch.float64)

    Args:
        scores: [B, L], or chunks of them.
        relevant: [B, L] bool, or gains >= 0, or labels.
        k: how many places count.
        ties: the rule for ties.
        mask: [B, L] the candidates; all if None.
        exclude: items of each list that are no candidates, as those of its user's training; none if None.

    Raises:
        ValueError: as :func:`reciprocal_rank` or :func:`dcg`, and if k is not in 1..L.
    """
    k = checks.whole("k", k, 1, _items(scores))
    return _of_lists(lambda p: _within(p, k) / p.gains.sum(-1), scores, relevant, k, ties, mask, exclude, gains=True)


def precision(
    scores: Matrix | Chunks,
    relevant: Matrix | Labels,
    k: int,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    """The share of the first k places that relevant items take (a list with fewer candidates leaves places empty).

    >>> ranking.precision(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[0, 2]]), 2)
    tensor([1.], dtype=torch.float64)

    Raises:
        ValueError: as :func:`recall`.
    """
    k = checks.whole("k", k, 1, _items(scores))
    return _of_lists(lambda p: _within(p, k) / k, scores, relevant, k, ties, mask, exclude)


def average_precision(
    scores: Matrix | Chunks,
    relevant: Matrix | Labels,
    k: int | None = None,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    r"""The mean over the relevant items of the precision at their places, 0 for those beyond the first k.

    In a block of T ties that begins after place g with r relevant items, after R' before, place i has the expected term
    :math:`\frac rT\big(R' + 1 + (i-g-1)\frac{r-1}{T-1}\big)\frac1i`. The sum over the block is a difference of
    harmonic numbers.

    >>> ranking.average_precision(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1, 2]]))
    tensor([0.5833], dtype=torch.float64)

    Raises:
        ValueError: as :func:`recall`.

    Source: McSherry and Najork (2008), for the expected value.
    """
    last = _check_k(k, scores)
    return _of_lists(lambda p: _average_precision(p, last), scores, relevant, k, ties, mask, exclude)


def dcg(
    scores: Matrix | Chunks,
    gains: Matrix | Labels,
    k: int | None = None,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    r"""Discounted cumulative gain :math:`\sum_{r_i \le k} g_i/\log_2(1+r_i)`.

    >>> ranking.dcg(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[0]], gains=[[3.0]]))
    tensor([3.], dtype=torch.float64)

    Args:
        scores: [B, L], or chunks of them.
        gains: [B, L] numbers >= 0, or bool, or labels.
        k: how many places count; all if None.
        ties: the rule for ties.
        mask: [B, L] the candidates; all if None.
        exclude: items of each list that are no candidates, as those of its user's training; none if None.

    Raises:
        ValueError: as :func:`recall`, and for a negative or infinite gain.
    """
    discounts = _Running.discounts(_check_k(k, scores))
    return _of_lists(
        lambda p: _discounted(p, discounts), scores, gains, k, ties, mask, exclude, gains=True, graded=True
    )


def ndcg(
    scores: Matrix | Chunks,
    gains: Matrix | Labels,
    k: int | None = None,
    *,
    ties: Ties = "expected",
    mask: Matrix | None = None,
    exclude: Excluded | None = None,
) -> Tensor:
    """DCG divided by the best possible DCG of the same gains at the same k.

    >>> ranking.ndcg(torch.tensor([[0.9, 0.5, 0.7]]), ranking.Labels([[1]]), 3)
    tensor([0.5000], dtype=torch.float64)

    Raises:
        ValueError: as :func:`dcg`.
    """
    discounts = _Running.discounts(_check_k(k, scores))

    def normalised(ranked: Places) -> Tensor:
        return _discounted(ranked, discounts) / _discounted(_ideal(ranked), discounts)

    return _of_lists(normalised, scores, gains, k, ties, mask, exclude, gains=True, graded=True)


class _Running:
    """Sums over runs of places of a falling function of the place."""

    def __init__(self, terms: Tensor) -> None:
        """Sum the terms [k]."""
        self.k = len(terms)
        self.total = torch.nn.functional.pad(terms.cumsum(0), (1, 0))
        # What rounding did to each total, itself exact, so that the difference of two large totals keeps all digits.
        self.lost = torch.nn.functional.pad((terms - self.total.diff()).cumsum(0), (1, 0))

    @staticmethod
    def discounts(k: int) -> "_Running":
        """Of 1/log2(1 + place)."""
        return _Running(1 / torch.log2(1 + torch.arange(1, k + 1, dtype=torch.float64)))

    @staticmethod
    def harmonic(k: int) -> "_Running":
        """Of 1/place."""
        return _Running(1 / torch.arange(1, k + 1, dtype=torch.float64))

    def over(self, start: Tensor, stop: Tensor) -> Tensor:
        """The sum over the places start + 1, ..., stop, those beyond k left out."""
        self.total, self.lost = self.total.to(start.device), self.lost.to(start.device)
        start, stop = start.clamp_max(self.k), stop.clamp_max(self.k)
        return (self.total[stop] - self.total[start]) + (self.lost[stop] - self.lost[start])


def _of_lists(
    metric: Callable[[Places], Tensor],
    scores: Matrix | Chunks,
    relevant: Matrix | Labels,
    k: int | None,
    ties: Ties,
    mask: Matrix | None,
    exclude: Excluded | None,
    *,
    gains: bool = False,
    graded: bool = False,
) -> Tensor:
    """A metric of the places of what is relevant, which may have gains, and if ``graded`` is spoken of as gains."""
    checked, candidates, excluded = _check_scores(scores, mask, ties, exclude)
    if isinstance(relevant, Labels):
        items, worth = _check_labels(relevant, checked, candidates, excluded)
        if not gains:
            worth = (worth > 0).double()
        parts = places.of_labels(checked, items, worth, candidates, k)
    else:
        right, checked = as_tensor("gains" if graded else "relevant", relevant), _check_matrix(checked)
        check = _check_gains if graded or (gains and right.dtype != torch.bool) else _check_relevant
        check(right, checked, candidates)
        parts = places.of_matrix(checked, right, candidates, k)
    return torch.cat([metric(part.settled(ties)) for part in parts])


def _mean_place(above: Tensor, tied: Tensor, ties: Ties) -> Tensor:
    if ties == "optimistic":
        return (above + 1).double()
    return (above + tied).double() if ties == "pessimistic" else (tied + 1).double().div_(2).add_(above)


def _within(ranked: Places, k: int) -> Tensor:
    """The expected gain among the first k places."""
    return (ranked.gains * ((k - ranked.above).double() / ranked.tied).clamp(0, 1)).sum(-1)


def _discounted(ranked: Places, discounts: _Running) -> Tensor:
    return (ranked.gains / ranked.tied * discounts.over(ranked.above, ranked.above + ranked.tied)).sum(-1)


def _ideal(ranked: Places) -> Places:
    """The greatest gains first."""
    gains = ranked.gains.sort(-1, descending=True).values
    place = torch.arange(gains.shape[1], device=gains.device).expand(gains.shape)
    return Places(place, torch.ones_like(place), gains)


def _reciprocal_rank(first: First, ties: Ties) -> Tensor:
    above, tied, right = first
    if ties != "expected":
        return 1 / (above + 1 if ties == "optimistic" else above + tied - right + 1).double()
    value = 1 / (above + 1).double()
    single, several = (tied > 1) & (right == 1), (tied > 1) & (right > 1)
    if bool(single.any()):
        start, stop = above[single], above[single] + tied[single]
        value[single] = _Running.harmonic(int(stop.max())).over(start, stop) / tied[single]
    rows = several.nonzero().flatten()
    most = int(tied[rows].max()) if len(rows) else 1
    for part in rows.split(max(1, places.ROWS_AT_ONCE // most)):  # type: ignore[no-untyped-call]
        value[part] = _first_of_several(above[part], tied[part], right[part], most)
    return value


def _first_of_several(above: Tensor, tied: Tensor, right: Tensor, most: int) -> Tensor:
    """The mean over random orders: the first of them is at place j with a hazard of right over what is left there."""
    place = torch.arange(most, dtype=torch.float64, device=above.device)  # j - 1
    hazard = (right.unsqueeze(-1) / (tied.unsqueeze(-1) - place).clamp_min(1)).clamp_max(1)
    none_before = torch.nn.functional.pad((1 - hazard).cumprod(-1), (1, 0), value=1.0)[:, :-1]
    return (hazard * none_before / (above.unsqueeze(-1) + place + 1)).sum(-1)


def _average_precision(ranked: Places, k: int) -> Tensor:
    order, before, right = ranked.in_order()
    start = order.above.clamp_max(k)
    stop = (start + order.tied).clamp_max(k)
    others = (right - 1).double() / (order.tied - 1).clamp_min(1)
    harmonic = _Running.harmonic(k).over(start, stop)
    terms = ((before + 1 - (start + 1) * others) * harmonic + others * (stop - start)) / order.tied
    return torch.where(order.gains > 0, terms, 0.0).sum(-1) / (ranked.gains > 0).sum(-1)


def _items(scores: Matrix | Chunks) -> int:
    if isinstance(scores, Chunks):
        return scores.items
    checked = as_tensor("scores", scores)
    return checked.shape[-1] if checked.ndim else 0


def _check_scores(
    scores: Matrix | Chunks, mask: Matrix | None, ties: str, exclude: Excluded | None = None
) -> tuple[Tensor | Chunks, Tensor | None, Tensor | None]:
    """The scores, the candidates among a matrix of them, and what is excluded from chunks [B, E], sorted."""
    checks.choice("ties", ties, get_args(Ties))
    if isinstance(scores, Chunks):
        if mask is not None:
            raise ValueError("chunks of scores take no mask: give -inf to what is no candidate, or exclude it")
        if exclude is None:
            return scores, None, None
        excluded = _excluded(exclude, scores.items).sort(-1).values
        return Chunks(_less(scores, excluded), scores.items, scores.size), None, excluded
    candidates = None if mask is None else as_tensor("mask", mask)
    if exclude is not None:
        given = as_tensor("scores", scores)
        shape = given.shape if given.ndim == 2 else (0, 0)
        excluded = _excluded(exclude, shape[1]).to(given.device)
        if len(excluded) != shape[0]:
            raise ValueError(f"exclude names items of {len(excluded)} lists; there are scores of {shape[0]}")
        # Padding falls into one more column.
        left = torch.ones(shape[0], shape[1] + 1, dtype=torch.bool, device=given.device)
        left = left.scatter_(1, torch.where(excluded < 0, shape[1], excluded), False)[:, :-1].contiguous()
        if candidates is not None:
            check_bool("mask", candidates, given)
            left &= candidates
        candidates = left
    return check_scores(scores, mask=candidates), candidates, None


def _excluded(exclude: Excluded, items: int) -> Tensor:
    """Excluded items [B, E], -1 at padding."""
    if not isinstance(exclude, Labels):
        sparse: Any = exclude
        by_row = hasattr(sparse, "indptr") and hasattr(sparse, "indices")
        lists: Any = np.split(sparse.indices, sparse.indptr[1:-1]) if by_row else exclude
        exclude = Labels(lists)
    excluded, _ = exclude.padded()
    checks.ids("label to exclude", excluded.clamp_min(0), items)
    return excluded


def _less(scores: Chunks, excluded: Tensor) -> Callable[[int, int], Tensor]:
    """Chunks with -inf at what is excluded."""

    def score(start: int, stop: int) -> Tensor:
        chunk = as_tensor("scores", scores.score(start, stop))
        if not chunk.is_floating_point():
            chunk = chunk.double()
        if chunk.ndim != 2 or len(chunk) != len(excluded):
            raise ValueError(f"exclude names items of {len(excluded)} lists; a chunk has shape {tuple(chunk.shape)}")
        row, place = ((excluded >= start) & (excluded < stop)).nonzero(as_tuple=True)
        chunk = chunk.clone()
        chunk[row.to(chunk.device), (excluded[row, place] - start).to(chunk.device)] = -torch.inf
        return chunk

    return score


def _among(items: Tensor, ordered: Tensor) -> Tensor:
    """Which items [B, T] are among others [B, E], which are sorted."""
    place = torch.searchsorted(ordered, items.contiguous()).clamp_max(ordered.shape[1] - 1)
    return (ordered.gather(-1, place) == items) & (items >= 0)


def _check_matrix(scores: Tensor | Chunks) -> Tensor:
    if isinstance(scores, Chunks):
        raise ValueError("chunks of scores need Labels: a matrix of what is relevant would be as large as all scores")
    return scores


def _check_labels(
    labels: Labels, scores: Tensor | Chunks, mask: Tensor | None, excluded: Tensor | None
) -> tuple[Tensor, Tensor]:
    items, gains = labels.padded(None if isinstance(scores, Chunks) else scores.device)
    if not isinstance(scores, Chunks) and len(items) != len(scores):
        raise ValueError(f"there are labels of {len(items)} lists and scores of {len(scores)}")
    checks.ids("label", items.clamp_min(0), _items(scores))
    ordered = items.sort(-1).values
    twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(-1).nonzero().flatten()
    if len(twice):
        raise ValueError(f"list {int(twice[0])} names a label twice; name each relevant item once")
    if mask is not None:
        gains = torch.where(mask.gather(-1, items.clamp_min(0)), gains, 0.0)
        items = torch.where(gains > 0, items, -1)
    if excluded is not None:
        if len(excluded) != len(items):
            raise ValueError(f"exclude names items of {len(excluded)} lists; there are labels of {len(items)}")
        gone = _among(items, excluded.to(items.device))
        items, gains = items.masked_fill(gone, -1), gains.masked_fill(gone, 0)
    _check_some((items >= 0).any(-1), "relevant item")
    return items, gains


def _check_relevant(relevant: Tensor, scores: Tensor, mask: Tensor | None) -> None:
    check_bool("relevant", relevant, scores)
    _check_some(any_true(relevant if mask is None else relevant & mask), "relevant item")


def _check_gains(gains: Tensor, scores: Tensor, mask: Tensor | None) -> None:
    if gains.shape != scores.shape or gains.is_complex():
        raise ValueError(f"gains must have the scores' shape {tuple(scores.shape)}, got {tuple(gains.shape)}")
    if gains.dtype == torch.bool:
        positive = gains if mask is None else gains & mask
    else:
        gains = gains if mask is None else gains.masked_fill(~mask, 0)
        if gains.numel() and not (gains.min() >= 0 and gains.sum(-1, dtype=torch.float64).max() < torch.inf):
            raise ValueError("gains must be finite numbers >= 0, and so must their sum be")
        positive = gains > 0
    _check_some(any_true(positive), "candidate with a positive gain")


def _check_some(present: Tensor, what: str) -> None:
    empty = (~present).nonzero().flatten()
    if len(empty):
        raise ValueError(f"list {int(empty[0])} has no {what} ({len(empty)} such lists); leave such lists out")


def _check_k(k: int | None, scores: Matrix | Chunks) -> int:
    items = _items(scores)
    return items if k is None else checks.whole("k", k, 1, items)
