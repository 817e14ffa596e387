"""Softmax losses of vectors, in blocks of rows and columns: no matrix of all scores is ever held."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.functional import _batch
from sumexp.functional._arguments import (
    Correct,
    Reduction,
    divided,
    for_sums,
    law_fault,
    precision,
    reduce,
    softmax_loss,
    unit,
)
from sumexp.functional._batch import InBatchHits

CELLS, MANY = 1 << 19, 1 << 26
"""Scores of a block: on a CPU it stays in a cache, elsewhere it gives the device work."""

Grads = tuple[Tensor, Tensor, Tensor | None]
"""Gradients of the queries, the items and the bias."""

WIDEST, LEAST_ROWS = 1 << 17, 64
"""Columns up to which a block holds all of them, and the rows that it has at least."""


def linear_in_batch(
    queries: Tensor,
    items: Tensor,
    ids: checks.Values,
    *,
    log_q: checks.Values | None = None,
    correct: Correct = "all",
    hits: InBatchHits = "keep",
    temperature: float | Tensor = 1.0,
    normalize: bool = False,
    symmetric: bool = False,
    row_ids: checks.Values | None = None,
    row_log_q: checks.Values | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r""":func:`in_batch` of ``queries @ items.T`` without that matrix, for batches whose scores do not fit.

    Scores are made block by block, and so are their gradients: in the same pass for the mean or the sum of rows, again
    in the backward pass for the symmetric loss, for ``none`` and in float16. Memory is that of the vectors, of their
    gradients and of one block; forward mode, ``torch.func`` and graphs make all scores. There are no second
    derivatives; for those, several positives or label smoothing take ``in_batch``.

    >>> queries, items = torch.eye(2), 2 * torch.eye(2)
    >>> functional.linear_in_batch(queries, items, [5, 8], log_q=torch.tensor([0.25, 0.5]).log())
    tensor(0.1525)

    ``queries`` are [B, d], the vectors of the examples, and ``items`` [B + E, d], those of their classes, in their
    order, and of further negatives. With ``normalize`` vectors are divided by their lengths, so that scores are
    cosines; a vector of zeros stays, without gradient. The other arguments are those of :func:`in_batch`.

    Raises:
        ValueError: as :func:`in_batch`, and for vectors that do not fit.
    """
    vectors = {"queries": queries, "items": items}
    queries, items = batch_vectors(queries, items, temperature, normalize)
    size, columns = queries.shape[0], items.shape[0]
    if checks.is_traced(queries) or checks.has_tangent(queries, items):
        options = _batch.Options(correct, hits, 0.0, 1.0, symmetric, reduction)
        return _batch.batch_loss(queries @ items.T, ids, log_q, options, None, row_ids, row_log_q)
    checks.choice("correct", correct, _batch.CORRECTIONS)
    checks.choice("hits", hits, _batch.HITS)
    scores = queries.new_empty(size, 1).expand(size, columns)  # of their shape and type
    law = _batch._law("log_q", log_q, scores, (columns,), needed=correct != "none")
    classes = _batch._classes(ids, scores)
    masked = classes if hits == "mask" else None
    places = torch.arange(size, device=queries.device)
    halves = [_Half(places, _batch._taken(law, correct, None, columns), correct == "all", masked)]
    rows = None
    if symmetric:
        rows = _batch._law("row_log_q", row_log_q, scores, (size,), needed=False)
        same = _batch._same_rows(row_ids, size, queries.device) if hits == "mask" else None
        halves.append(_Half(places, _batch._taken(rows, correct, None, size), correct == "all", same))
    loss = _loss(queries, items, None, halves, reduction)
    _check(loss, vectors, log_q=law, row_log_q=rows)
    return loss


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: checks.Values,
    *,
    class_bias: Tensor | None = None,
    log_q: checks.Values | None = None,
    temperature: float | Tensor = 1.0,
    normalize: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""The cross entropy over all classes of a catalogue, :math:`s_c = (v_c\cdot h + b_c)/T - \log q_c`, in blocks.

    It is :func:`cross_entropy` of ``hidden @ weight.T`` without that matrix, as ``F.linear_cross_entropy`` is, with the
    options of :func:`linear_in_batch` and memory as there.

    >>> hidden, weight = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> functional.linear_cross_entropy(hidden, weight, [0])
    tensor(0.4076)

    Args:
        hidden: [B, d] vectors of the examples.
        weight: [L, d] vectors of the classes.
        labels: [B] each example's class; of padded sequences give ``hidden[labels != -100]`` and its labels.
        class_bias: [L] or [L, 1], a number of each class.
        log_q: [L] subtracted from all scores, a constant. Perplexity takes none, even after sampled training with it.
        temperature: T > 0, a number or a learnable tensor of one element.
        normalize: whether vectors are divided by their lengths, so that products are cosines.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: for shapes that do not fit, a label that is no class, NaN or infinite scores, and the mean of an
            empty batch.
    """
    checks.floating("hidden", hidden, "[B, d]", 2)
    checks.floating("weight", weight, "[L, d]", 2)
    target = checks.ids("label", labels, weight.shape[0]).to(hidden.device)
    if target.shape != hidden.shape[:1] or hidden.shape[1] != weight.shape[1]:
        raise ValueError(
            f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)} and labels {tuple(target.shape)} must be "
            "[B, d], [L, d] and [B]"
        )
    if isinstance(temperature, Tensor) and temperature.numel() != 1:
        raise ValueError(f"temperature has shape {tuple(temperature.shape)}; it must be one positive number")
    scores = hidden.new_empty(hidden.shape[0], 1).expand(hidden.shape[0], weight.shape[0])  # of their shape and type
    checks.check_order("log_q", log_q)
    law = _batch._law("log_q", log_q, scores, (weight.shape[0],), needed=False)
    vectors = {"hidden": hidden, "weight": weight}
    hidden, weight = _scaled(hidden, weight, temperature, normalize)
    if class_bias is not None:
        if checks.floating("class_bias", class_bias, "[L] or [L, 1]").numel() != weight.shape[0]:
            raise ValueError(
                f"class_bias has shape {tuple(class_bias.shape)}; there must be one for each of {len(weight)} classes"
            )
        class_bias = class_bias.reshape(-1).to(precision(scores))
        class_bias = divided(class_bias, temperature.reshape(()) if isinstance(temperature, Tensor) else temperature)
    if checks.is_traced(hidden) or checks.has_tangent(hidden, weight, class_bias):
        logits = for_sums(hidden @ weight.T)
        logits = logits if class_bias is None else logits + class_bias
        loss = softmax_loss(logits if law is None else logits - law, target, reduction)
    else:
        loss = _loss(hidden, weight, class_bias, [_Half(target, law, True, None)], reduction)
    _check(loss, vectors, class_bias, target, log_q=law)
    return loss


class _Half(NamedTuple):
    """The loss of rows among columns."""

    target: Tensor  # [B] each row's own column
    log_q: Tensor | None  # [N] subtracted from the scores of the columns
    from_all: bool  # whether it is subtracted from the own score too
    classes: Tensor | None  # [N], the rows' first: columns equal to a row's own are left out; None to keep them

    def logits(self, scores: Tensor, rows: slice, columns: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of a block, in place, each row's place in it, and whether its own column is there."""
        place = self.target[rows] - columns.start
        inside = (place >= 0) & (place < scores.shape[1])
        place = place.clamp(0, scores.shape[1] - 1).unsqueeze(-1)
        positive = None if self.from_all and self.classes is None else scores.gather(-1, place)
        if self.log_q is not None:
            scores -= self.log_q[columns]
            if positive is not None and self.from_all:
                positive = scores.gather(-1, place)
        if self.classes is not None:
            equal = self.classes[rows].unsqueeze(-1) == self.classes[columns]
            scores.masked_fill_(equal, -math.inf)
        if positive is not None:
            scores.scatter_(-1, place, torch.where(inside.unsqueeze(-1), positive, scores.gather(-1, place)))
        return scores, place, inside


def batch_vectors(
    queries: Tensor, items: Tensor, temperature: float | Tensor, normalize: bool = False
) -> tuple[Tensor, Tensor]:
    """:func:`_scaled` of the vectors of a batch, checked."""
    checks.floating("queries", queries, "[B, d]", 2)
    checks.floating("items", items, "[B + E, d]", 2)
    if queries.shape[1] != items.shape[1] or items.shape[0] < queries.shape[0]:
        raise ValueError(f"queries {tuple(queries.shape)} and items {tuple(items.shape)} must be [B, d] and [B + E, d]")
    return _scaled(queries, items, temperature, normalize)


def _scaled(queries: Tensor, items: Tensor, temperature: float | Tensor, normalize: bool) -> tuple[Tensor, Tensor]:
    """Vectors whose products are the scores: of unit length if asked for, and divided by the temperature."""
    kind, double = queries.device.type, torch.float64 in (queries.dtype, items.dtype)  # which no autocast rounds
    if kind != "meta" and torch.is_autocast_enabled(kind) and not double:
        items = items.to(torch.get_autocast_dtype(kind))
    elif queries.dtype != items.dtype:
        instead = "" if double else ", or use autocast"
        raise ValueError(f"the vectors are {queries.dtype} and {items.dtype}: move one by .to(){instead}")
    if normalize:
        queries, items = unit(queries), unit(items)
    scores, scale = _batch._temperature(queries, temperature)
    queries = scores if scale == 1 else scores * scale
    return queries.to(items.dtype), items


def _loss(queries: Tensor, items: Tensor, bias: Tensor | None, halves: list[_Half], reduction: Reduction) -> Tensor:
    size = queries.shape[0]
    if not size:
        nothing = (queries @ items[:0].T).sum(-1)  # 0 is the gradient of all arguments
        return reduce(nothing if bias is None else nothing + bias[:0].sum(), reduction)
    checks.choice("reduction", reduction, ("mean", "sum", "none"))
    weight = {"mean": 1 / size, "sum": 1.0, "none": None}[reduction]
    with torch.autocast(queries.device.type, enabled=False):
        loss: Tensor = _Blocked.apply(queries, items, bias, halves, weight)  # type: ignore[no-untyped-call]
    return loss


class _Blocked(torch.autograd.Function):
    """The losses [B], the mean of both halves, or their sum times a weight; labels and log q may be edited after."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, items: Tensor, bias: Tensor | None, halves: list[_Half], weight: float | None
    ) -> Tensor:
        ctx.weight, ctx.grads = weight, None
        whole = next(_blocks(queries, items))[1].stop == items.shape[0]
        needed = any(ctx.needs_input_grad)
        wide = queries.dtype != torch.float16  # whose gradients underflow before a GradScaler's factor is known
        if weight is not None and whole and len(halves) == 1 and needed and wide:
            ctx.grads = gradients = _zeros(queries, items, bias)
            losses = _at_once(queries, items, bias, halves[0], weight, gradients)
            return losses.sum() * weight
        sums = _sums(queries, items, bias, halves)
        losses = torch.stack([most - positive + total.log() for most, total, positive in sums]).mean(0)
        if needed:
            ctx.halves = [_Half._make(v.clone() if isinstance(v, Tensor) else v for v in half) for half in halves]
            ctx.save_for_backward(queries, items, bias, *(part for most, total, _ in sums for part in (most, total)))
        return losses if weight is None else losses.sum() * weight

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a loss in blocks has no second derivatives: take in_batch or cross_entropy of the scores"
            )
        checks.refuse_batched(gradient)
        if ctx.grads is not None:
            return *(None if part is None else part * gradient for part in ctx.grads), None, None
        queries, items, bias, *totals = ctx.saved_tensors
        share = gradient if ctx.weight is None else (gradient * ctx.weight).expand(queries.shape[0])
        gradients = _zeros(queries, items, bias)
        sums = list(zip(totals[::2], totals[1::2], strict=True))
        _again(queries, items, bias, ctx.halves, sums, share / len(ctx.halves), gradients)
        return *gradients, None, None


def _blocks(queries: Tensor, items: Tensor) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each block."""
    size, columns = queries.shape[0], items.shape[0]
    cells = CELLS if queries.is_cpu else MANY
    width = columns if columns <= WIDEST else min(columns, cells // LEAST_ROWS)
    height = max(LEAST_ROWS, cells // width)
    for row in range(0, size, height):
        for column in range(0, columns, width):
            yield slice(row, min(row + height, size)), slice(column, min(column + width, columns))


def _scores(queries: Tensor, items: Tensor, bias: Tensor | None, rows: slice, columns: slice) -> Tensor:
    """The scores of a block, at least float32."""
    if bias is not None and bias.dtype == queries.dtype:
        return torch.addmm(bias[columns], queries[rows], items[columns].T)
    scores = for_sums(queries[rows] @ items[columns].T)
    return scores if bias is None else scores.add_(bias[columns])


def _zeros(queries: Tensor, items: Tensor, bias: Tensor | None) -> Grads:
    """Gradients to add to, at least float32."""
    exact = precision(queries)
    first, second = (torch.zeros(part.shape, dtype=exact, device=part.device) for part in (queries, items))
    return first, second, None if bias is None else torch.zeros_like(bias)


def _add(
    grads: Grads, error: Tensor, queries: Tensor, items: Tensor, rows: slice, columns: slice, weight: float = 1.0
) -> None:
    """Add the gradients of the vectors, from that of the scores of a block times a weight."""
    by_query, by_item, by_bias = grads
    if by_query.dtype == queries.dtype:
        by_query[rows].addmm_(error, items[columns], alpha=weight)
        by_item[columns].addmm_(error.T, queries[rows], alpha=weight)
    else:
        rounded = error.mul(weight).to(queries.dtype)  # weighted first: sums of many rows would not fit float16
        by_query[rows] += rounded @ items[columns]
        by_item[columns] += rounded.T @ queries[rows]
    if by_bias is not None:
        by_bias[columns].add_(error.sum(0), alpha=weight)


def _at_once(queries: Tensor, items: Tensor, bias: Tensor | None, half: _Half, weight: float, grads: Grads) -> Tensor:
    """The losses, and their gradients times a weight, where a block holds all columns of its rows."""
    losses = torch.empty(queries.shape[0], dtype=grads[0].dtype, device=queries.device)
    if half.log_q is not None and half.from_all:
        bias, half = -half.log_q if bias is None else bias - half.log_q, half._replace(log_q=None)
    for rows, columns in _blocks(queries, items):
        logits, place, _ = half.logits(_scores(queries, items, bias, rows, columns), rows, columns)
        positive, (largest, at) = logits.gather(-1, place), _largest(logits)
        error = torch.softmax(logits, -1, out=logits)  # at the largest 1 / sum of exp(logits - largest)
        peak = error.amax(-1, keepdim=True) if at is None else error.gather(-1, at)
        losses[rows] = (largest - positive - peak.log()).squeeze(-1)
        error.scatter_add_(-1, place, torch.full_like(positive, -1.0))
        _add(grads, error, queries, items, rows, columns, weight)
    return losses


def _largest(logits: Tensor) -> tuple[Tensor, Tensor | None]:
    """Each row's largest logit and, but on a CPU where to find it takes as long as a softmax, its place."""
    if logits.is_cpu:
        return logits.amax(-1, keepdim=True), None
    largest, at = logits.max(-1, keepdim=True)
    return largest, at


def _sums(
    queries: Tensor, items: Tensor, bias: Tensor | None, halves: list[_Half]
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each row and column: the largest logit, the sum of exponentials relative to it, the positive logit."""
    exact, size = precision(queries), queries.shape[0]
    lowest = torch.finfo(exact).min
    sums = [tuple(queries.new_full((size,), start, dtype=exact) for start in (lowest, 0, 0)) for _ in halves]
    for rows, columns in _blocks(queries, items):
        scores = _scores(queries, items, bias, rows, columns)
        for (largest, total, positive), (half, block, of, among) in zip(
            sums, _views(scores, rows, columns, halves, size), strict=False
        ):
            logits, place, inside = half.logits(block, of, among)
            positive[of] = torch.where(inside, logits.gather(-1, place).squeeze(-1), positive[of])
            most = torch.maximum(largest[of], logits.amax(-1))
            added = logits.sub_(most.unsqueeze(-1)).exp_().sum(-1)
            total[of] = total[of] * (largest[of] - most).exp() + added
            largest[of] = most
    return sums  # type: ignore[return-value]


def _again(
    queries: Tensor,
    items: Tensor,
    bias: Tensor | None,
    halves: list[_Half],
    sums: list[tuple[Tensor, Tensor]],
    share: Tensor,
    grads: Grads,
) -> None:
    """The gradients of all losses, each weighted by its share, from recomputed scores."""
    size = queries.shape[0]
    for rows, columns in _blocks(queries, items):
        scores = _scores(queries, items, bias, rows, columns)
        error = torch.zeros_like(scores)
        for (most, total), (half, block, of, among) in zip(
            sums, _views(scores, rows, columns, halves, size), strict=False
        ):
            logits, place, inside = half.logits(block, of, among)
            part = logits.sub_(most[of].unsqueeze(-1)).exp_().mul_((share[of] / total[of]).unsqueeze(-1))
            part.scatter_add_(-1, place, torch.where(inside, -share[of], 0).unsqueeze(-1))
            if half is halves[0]:
                error += part
            else:
                error[:, : part.shape[0]] += part.T
        _add(grads, error, queries, items, rows, columns)


def _views(
    scores: Tensor, rows: slice, columns: slice, halves: list[_Half], size: int
) -> Iterator[tuple[_Half, Tensor, slice, slice]]:
    """A block for each half: of rows among columns, and of the columns of the examples among rows."""
    yield halves[0], scores.clone() if len(halves) > 1 else scores, rows, columns
    if len(halves) > 1 and columns.start < size:
        stop = min(columns.stop, size)
        yield halves[1], scores[:, : stop - columns.start].T.contiguous(), slice(columns.start, stop), rows


def _check(
    loss: Tensor, given: dict[str, Tensor], bias: Tensor | None = None, labels: Tensor | None = None, **laws: Any
) -> None:
    """Refuse an infinite loss and laws that are no logarithms; one transfer reads all."""
    if not __debug__ or not loss.numel():
        return
    laws = {name: law for name, law in laws.items() if law is not None and law.numel()}
    worst, *above = checks.read(loss.detach().max(), *map(checks.is_above_one, laws.values()))
    if not worst < math.inf or any(above):
        for name, law in laws.items():
            if fault := law_fault(name, law):
                raise ValueError(fault)
        if bias is not None:
            if bool((bias[labels] == -math.inf).any()):
                raise ValueError("the class_bias of a label is -inf: an infinite loss has no gradient")
            given = given | {"class biases": bias.masked_fill(bias == -math.inf, 0)}
        wrong = [name for name, values in given.items() if not bool(values.isfinite().all())]
        raise ValueError(
            f"{wrong[0]} hold NaN or infinity"
            if wrong
            else "scores are beyond their precision; take a larger temperature"
        )
