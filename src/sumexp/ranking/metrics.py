r"""Ranking metrics of a batch of score lists, with a stated rule for ties.

A list of scores is sorted in descending order. Where scores tie, the order is not given by the scores, so every metric
takes a rule:

- ``expected``: its mean over a uniformly random order of each block of ties, in closed form;
- ``pessimistic``: the worst order, in which the relevant items come last;
- ``optimistic``: the best order.

All metrics take ``scores`` [B, L] of any real type and ``relevant`` [B, L] bool, and return float64 [B]: one value for
each list. ``mask`` [B, L] bool leaves out items that are no candidates (False; what their scores are does not matter).
Scores of +inf and -inf are scores like others, and tie among themselves.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sumexp import checks

Ties = Literal["expected", "pessimistic", "optimistic"]
"""What is assumed of the order of equal scores."""


def rank(scores: Tensor, labels: Tensor, *, ties: Ties = "expected", mask: Tensor | None = None) -> Tensor:
    r"""The rank of one label in each list.

    With g candidates above the label and T at its score (itself among them) it is g + 1 (optimistic), g + T
    (pessimistic) or g + (T + 1)/2 (expected).

    Args:
        scores: [B, L].
        labels: [B] the items whose ranks are asked for.
        ties: the rule for ties.
        mask: [B, L] the candidates; all if None.

    Raises:
        ValueError: for shapes that do not fit, NaN, a label that is no candidate, or an unknown rule.
    """
    scores, candidates = _check_scores(scores, mask, ties)
    if labels.shape != scores.shape[:1]:
        raise ValueError(f"labels must be integers [{len(scores)}], got {tuple(labels.shape)}")
    own = checks.ids("label", labels, scores.shape[1]).unsqueeze(-1)
    if not bool(candidates.gather(-1, own).all()):
        raise ValueError("the mask leaves out a label itself, which then has no rank")
    above, tied = _position(scores, scores.gather(-1, own), candidates)
    match ties:
        case "optimistic":
            return above + 1
        case "pessimistic":
            return above + tied
        case "expected":
            return above + (tied + 1) / 2


def ranks(scores: Tensor, *, ties: Ties = "expected") -> Tensor:
    """The ranks of all items of each list, [B, L]; see :func:`rank`.

    Raises:
        ValueError: for a wrong shape, NaN, or an unknown rule.
    """
    scores, _ = _check_scores(scores, None, ties)
    scores = scores.contiguous()
    ascending = scores.sort(-1).values
    best = scores.shape[1] + 1 - torch.searchsorted(ascending, scores, right=True).double()
    worst = scores.shape[1] - torch.searchsorted(ascending, scores).double()
    return {"optimistic": best, "pessimistic": worst, "expected": (best + worst) / 2}[ties]


def reciprocal_rank(scores: Tensor, relevant: Tensor, *, ties: Ties = "expected", mask: Tensor | None = None) -> Tensor:
    r"""One over the rank of the first relevant item.

    If r of the T items that tie at the best relevant score are relevant, and g items are above, the first of them
    stands at place g + j with probability :math:`\binom{T-j}{r-1}/\binom Tr`; for r = 1 the expected value is the mean
    of 1/(g+1), ..., 1/(g+T).

    Raises:
        ValueError: for shapes that do not fit, NaN, a list without relevant item, or an unknown rule.
    """
    scores, candidates = _check_scores(scores, mask, ties)
    relevant = _check_relevant(relevant, scores, candidates)
    lowest = -torch.inf if scores.is_floating_point() else torch.iinfo(scores.dtype).min
    best = scores.masked_fill(~relevant, lowest).amax(-1, keepdim=True)
    above, tied = _position(scores, best, candidates)
    right = (relevant & (scores == best)).sum(-1, dtype=torch.float64)
    if ties == "optimistic":
        return 1 / (above + 1)
    if ties == "pessimistic":
        return 1 / (above + tied - right + 1)
    most = int(tied.max()) if len(tied) else 0
    place = torch.arange(most, dtype=torch.float64, device=scores.device)  # j - 1
    left = (tied.unsqueeze(-1) - place).clamp_min(1)
    hazard = (right.unsqueeze(-1) / left).clamp_max(1)
    none_before = torch.nn.functional.pad((1 - hazard).cumprod(-1), (1, 0), value=1.0)[:, :most]
    return (hazard * none_before / (above.unsqueeze(-1) + place + 1)).sum(-1)


def mean_reciprocal_rank(
    scores: Tensor, relevant: Tensor, *, ties: Ties = "expected", mask: Tensor | None = None
) -> Tensor:
    """The mean of :func:`reciprocal_rank` over the batch, a scalar.

    Raises:
        ValueError: as there, and for an empty batch.
    """
    if not len(scores):
        raise ValueError("the batch is empty, so it has no mean reciprocal rank")
    return reciprocal_rank(scores, relevant, ties=ties, mask=mask).mean()


def recall(scores: Tensor, relevant: Tensor, k: int, *, ties: Ties = "expected", mask: Tensor | None = None) -> Tensor:
    """The share of the relevant items that is among the first k, each counted by its gain if gains are given.

    Args:
        scores: [B, L].
        relevant: [B, L] bool, or gains >= 0.
        k: how many places count.
        ties: the rule for ties.
        mask: [B, L] the candidates; all if None.

    Raises:
        ValueError: as :func:`reciprocal_rank` or :func:`dcg`, and if k is not in 1..L.
    """
    scores, candidates = _check_scores(scores, mask, ties)
    check = _check_relevant if relevant.dtype == torch.bool else _check_gains
    gains = check(relevant, scores, candidates).double()
    found = _arrange(scores, gains, candidates, ties).gains[:, : _check_k(k, scores)]
    return found.sum(-1) / gains.sum(-1)


def precision(
    scores: Tensor, relevant: Tensor, k: int, *, ties: Ties = "expected", mask: Tensor | None = None
) -> Tensor:
    """The share of the first k places that relevant items take (a list with fewer candidates leaves places empty).

    Raises:
        ValueError: as :func:`recall`.
    """
    scores, candidates = _check_scores(scores, mask, ties)
    gains = _check_relevant(relevant, scores, candidates).double()
    k = _check_k(k, scores)
    return _arrange(scores, gains, candidates, ties).gains[:, :k].sum(-1) / k


def average_precision(
    scores: Tensor,
    relevant: Tensor,
    k: int | None = None,
    *,
    ties: Ties = "expected",
    mask: Tensor | None = None,
) -> Tensor:
    r"""The mean over the relevant items of the precision at their places, 0 for those beyond the first k.

    In a block of T ties that begins after place g with r relevant items, after R' before, place i has the expected term
    :math:`\frac rT\big(R' + 1 + (i-g-1)\frac{r-1}{T-1}\big)\frac1i`.

    Raises:
        ValueError: as :func:`recall`.

    Source: McSherry and Najork (2008), for the expected value.
    """
    scores, candidates = _check_scores(scores, mask, ties)
    relevant = _check_relevant(relevant, scores, candidates)
    k = _check_k(k, scores)
    order = _arrange(scores, relevant.double(), candidates, ties)
    before = order.gains.cumsum(-1) - order.gains
    if ties == "expected":  # relevant items before the block, and half-way through it those met on average
        in_block = order.place - order.start - 1
        others = (order.gains * order.size - 1).clamp_min(0) / (order.size - 1).clamp_min(1)
        before = before - in_block * order.gains + in_block * others
    terms = order.gains * (before + 1) / order.place
    return terms[:, :k].sum(-1) / relevant.sum(-1)


def dcg(
    scores: Tensor,
    gains: Tensor,
    k: int | None = None,
    *,
    ties: Ties = "expected",
    mask: Tensor | None = None,
) -> Tensor:
    r"""Discounted cumulative gain :math:`\sum_{r_i \le k} g_i/\log_2(1+r_i)`.

    Args:
        scores: [B, L].
        gains: [B, L] numbers >= 0, or bool.
        k: how many places count; all if None.
        ties: the rule for ties.
        mask: [B, L] the candidates; all if None.

    Raises:
        ValueError: as :func:`recall`, and for a negative or infinite gain.
    """
    scores, candidates = _check_scores(scores, mask, ties)
    gains = _check_gains(gains, scores, candidates)
    return _discounted(_arrange(scores, gains, candidates, ties).gains, _check_k(k, scores))


def ndcg(
    scores: Tensor,
    gains: Tensor,
    k: int | None = None,
    *,
    ties: Ties = "expected",
    mask: Tensor | None = None,
) -> Tensor:
    """DCG divided by the best possible DCG of the same gains at the same k.

    Raises:
        ValueError: as :func:`dcg`.
    """
    checked = _check_gains(gains, *_check_scores(scores, mask, ties))
    best = checked.sort(-1, descending=True).values
    return dcg(scores, gains, k, ties=ties, mask=mask) / _discounted(best, _check_k(k, scores))


class _Order(NamedTuple):
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


def _arrange(scores: Tensor, gains: Tensor, candidates: Tensor, ties: Ties) -> _Order:
    """Sort by candidacy, then score, then (where the rule says so) gain."""
    # Stable sorts, the least important key first; a key that cannot matter is left out.
    keys = [gains if ties == "optimistic" else -gains] if ties != "expected" else []
    keys += [scores] + ([] if bool(candidates.all()) else [candidates.to(torch.uint8)])
    order = torch.arange(scores.shape[1], device=scores.device).expand(scores.shape)
    for key in keys:
        order = order.gather(-1, torch.argsort(key.gather(-1, order), dim=-1, descending=True, stable=True))
    scores, gains, candidates = (values.gather(-1, order) for values in (scores, gains, candidates))
    place = torch.arange(1, scores.shape[1] + 1, dtype=torch.float64, device=scores.device)
    new = torch.ones_like(candidates)
    new[:, 1:] = (scores[:, 1:] != scores[:, :-1]) | (candidates[:, 1:] != candidates[:, :-1])
    block = new.cumsum(-1) - 1
    size = torch.zeros_like(gains).scatter_add(-1, block, torch.ones_like(gains)).gather(-1, block)
    start = torch.where(new, place - 1, 0.0).cummax(-1).values
    if ties == "expected":
        gains = torch.zeros_like(gains).scatter_add(-1, block, gains).gather(-1, block) / size
    return _Order(gains, place, start, size)


def _position(scores: Tensor, score: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """How many candidates are above a score [B, 1], and how many at it."""
    above = (candidates & (scores > score)).sum(-1, dtype=torch.float64)
    return above, (candidates & (scores == score)).sum(-1, dtype=torch.float64)


def _discounted(gains: Tensor, k: int) -> Tensor:
    places = torch.arange(1, k + 1, dtype=torch.float64, device=gains.device)
    return (gains[:, :k] / torch.log2(1 + places)).sum(-1)


def _check_scores(scores: Tensor, mask: Tensor | None, ties: str) -> tuple[Tensor, Tensor]:
    """The scores, 0 where there is no candidate, and the candidates [B, L]."""
    if scores.ndim != 2 or scores.dtype == torch.bool or scores.is_complex():
        raise ValueError(f"scores must be real numbers [B, L], got {scores.dtype} of shape {tuple(scores.shape)}")
    if scores.shape[1] == 0:
        raise ValueError("the lists have no items, and so no ranks")
    checks.choice("ties", ties, get_args(Ties))
    candidates = torch.ones_like(scores, dtype=torch.bool) if mask is None else _check_bool("mask", mask, scores)
    scores = scores.detach().masked_fill(~candidates, 0)
    if bool(scores.isnan().any()):
        row = int(scores.isnan().any(-1).nonzero()[0])
        raise ValueError(f"a score of list {row} is NaN, which has no rank; use -inf for what should come last")
    return scores, candidates


def _check_bool(name: str, values: Tensor, scores: Tensor) -> Tensor:
    if values.shape != scores.shape or values.dtype != torch.bool:
        raise ValueError(
            f"{name} must be bool of the scores' shape {tuple(scores.shape)}, got {values.dtype} of "
            f"{tuple(values.shape)}"
        )
    return values


def _check_relevant(relevant: Tensor, scores: Tensor, candidates: Tensor) -> Tensor:
    relevant = _check_bool("relevant", relevant, scores) & candidates
    _check_some(relevant, "relevant item")
    return relevant


def _check_gains(gains: Tensor, scores: Tensor, candidates: Tensor) -> Tensor:
    if gains.shape != scores.shape or gains.is_complex():
        raise ValueError(f"gains must have the scores' shape {tuple(scores.shape)}, got {tuple(gains.shape)}")
    gains = gains.double().masked_fill(~candidates, 0)
    if gains.numel() and not (gains.min() >= 0 and gains.sum(-1).max() < torch.inf):
        raise ValueError("gains must be finite numbers >= 0, and so must their sum be")
    _check_some(gains > 0, "candidate with a positive gain")
    return gains


def _check_some(present: Tensor, what: str) -> None:
    empty = (~present.any(-1)).nonzero().flatten()
    if len(empty):
        raise ValueError(f"list {int(empty[0])} has no {what} ({len(empty)} such lists); leave such lists out")


def _check_k(k: int | None, scores: Tensor) -> int:
    items = scores.shape[1]
    return items if k is None else checks.whole("k", k, 1, items)
