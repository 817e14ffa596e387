"""The softmax cross entropy of a matrix of scores, its gradient made in place: by formula where torch traces.

:func:`corrected_loss` chooses between the two; arguments are checked in :mod:`sumexp.functional._batch`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.functional._arguments import Reduction, divided, for_sums, precision, reduce, softmax_loss

SMALL = 1 << 17
"""Scores up to which torch's own loss is faster: its steps are more, but none is made in Python."""

CELLS, MANY = 1 << 17, 1 << 25
"""Scores at a time on a CPU, where they stay in its cache, and on a GPU."""


class Places(NamedTuple):
    """Positives of each row, the diagonal among them, in the order of rows and columns."""

    row: Tensor  # [K] of all positives
    column: Tensor  # [K]
    number: Tensor  # [B] of positives in each row

    def mean(self, values: Tensor, less: Tensor) -> Tensor:
        """[B] the mean of the values [B, N] of each row's positives, less a number [B] of each row."""
        kept = values[self.row, self.column] - less[self.row]
        return torch.zeros_like(less).index_add_(0, self.row, kept) / self.number


class Correction(NamedTuple):
    """How scores become logits."""

    scale: float | Tensor  # they are multiplied by, where it is learned a tensor [1] or [B, 1]
    log_q: Tensor | None  # [N] or [B, N], subtracted
    from_all: bool  # whether it is subtracted from the positives too
    classes: Tensor | None  # [N] of `_numbered`: further columns of a row's class are left out; None keeps them
    marks: Tensor | None  # [B, N] bool, positives of a row; None where the diagonal is the only one
    smoothing: float  # share of the mean over all columns that are not left out
    masked: bool  # whether a score may be -inf
    start: int = 0  # column of the first row's diagonal entry

    @property
    def is_shift(self) -> bool:
        """Whether each row has one positive, and all logits are scores less log q: torch's cross entropy."""
        one_positive = self.marks is None and not self.smoothing
        return one_positive and self.classes is None and (self.log_q is None or self.from_all)

    def rows(self, start: int, stop: int) -> Correction:
        """The correction of a block of rows."""
        law = self.log_q if self.log_q is None or self.log_q.ndim == 1 else self.log_q[start:stop]
        marks = self.marks if self.marks is None else self.marks[start:stop]
        scale = self.scale[start:stop] if isinstance(self.scale, Tensor) and self.scale.ndim == 2 else self.scale
        return self._replace(scale=scale, log_q=law, marks=marks, start=start)

    def places(self) -> Places | None:
        """Where several positives are; on a CPU NumPy looks several times as fast as torch."""
        if (marks := self.marks) is None:
            return None
        at = torch.from_numpy(np.flatnonzero(marks.numpy())) if marks.is_cpu else marks.flatten().nonzero().flatten()
        row, columns = at // marks.shape[1], marks.shape[1]
        return Places(row, at % columns, row.bincount())


def corrected_loss(scores: Tensor, correction: Correction, reduction: Reduction) -> Tensor:
    """The loss of scores [B, N], checked: in place, but for small batches, forward mode, graphs and ``torch.func``."""
    if (
        is_recorded(scores)  # first: a size that is compared bounds the batches of a graph
        or (correction.is_shift and scores.numel() <= SMALL)
        or checks.has_tangent(scores, correction.scale)
    ):
        return _formula(scores, correction, reduction)
    losses, *_ = _InPlace.apply(scores, correction.scale, correction, _factor(scores, correction, reduction))  # type: ignore[no-untyped-call]
    return reduce(losses, reduction)


def is_recorded(values: Tensor) -> bool:
    """Whether operations are recorded for other inputs, so that values must decide nothing."""
    return checks.is_traced(values) or checks.is_captured(values)


def _formula(scores: Tensor, correction: Correction, reduction: Reduction) -> Tensor:
    """The loss by its formula, which compilers fuse and ``torch.func`` transforms."""
    scale, law, from_all, classes, marks, smoothing, masked, start = correction
    if isinstance(scale, Tensor):
        logits = divided(scores.clone(), scale.reciprocal(), masked)  # a copy, so that scores are not kept
    else:
        logits = for_sums(scores) if scale == 1 else for_sums(scores) * scale
    places = torch.arange(start, start + scores.shape[0], device=scores.device)
    if correction.is_shift:
        return softmax_loss(logits if law is None else logits - law, places, reduction)
    positive = places.unsqueeze(-1) == torch.arange(scores.shape[1], device=scores.device) if marks is None else marks
    if law is not None:
        logits = logits - (law if from_all else torch.where(positive, 0, law))
    if classes is not None:
        logits = logits.masked_fill((classes[places].unsqueeze(-1) == classes) & ~positive, -math.inf)
    if marks is None and not smoothing:
        return softmax_loss(logits, places, reduction)
    target = positive.to(logits.dtype) / positive.sum(-1, keepdim=True)
    if smoothing:
        present = (logits > -math.inf).to(logits.dtype)
        target = (1 - smoothing) * target + smoothing * present / present.sum(-1, keepdim=True)
    log_p = torch.log_softmax(logits, -1).masked_fill(target == 0, 0)
    return reduce(-(log_p * target).sum(-1), reduction)


def _factor(scores: Tensor, correction: Correction, reduction: Reduction) -> float | None:
    """By how much errors are multiplied before they are rounded to half precision; None to keep them exact.

    A gradient is then a power of 2 times them, rounded once (with a learned temperature twice), and all stay in the
    range of float16.
    """
    if scores.dtype == precision(scores):
        return None
    scale = 1.0 if isinstance(correction.scale, Tensor) else correction.scale
    return math.ldexp(math.frexp(scale / (max(1, scores.shape[0]) if reduction == "mean" else 1))[0], 15)


class _InPlace(torch.autograd.Function):
    """The losses [B] with one matrix, where autograd would keep three: the softmax less its target.

    That matrix is an output too, so that it can be differentiated again, as are the slopes [B] of the losses in a scale
    that is learned; the scores are not kept. With a ``factor`` the matrix is kept in half precision, times that. All is
    computed in blocks of rows.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, scale: float | Tensor, correction: Correction, factor: float | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        exact = precision(scores)
        # Rows in one piece, also where scores are transposed: the work in place below asks for it.
        error = torch.empty(scores.shape, dtype=scores.dtype if factor else exact, device=scores.device)
        losses = torch.empty(scores.shape[0], dtype=exact, device=scores.device)
        least = max(torch.finfo(error.dtype).tiny * torch.finfo(error.dtype).eps, torch.finfo(exact).tiny)
        gaps = torch.zeros(scores.shape[0], 1, dtype=torch.bool, device=scores.device)
        slopes = torch.empty_like(losses) if isinstance(scale, Tensor) else None
        for start, stop in _blocks(scores, MANY):
            rows, kept = scores[start:stop], error[start:stop]
            block = torch.empty(rows.shape, dtype=exact, device=rows.device) if factor else kept
            losses[start:stop], present = _losses(rows, correction.rows(start, stop), block)
            if slopes is not None:
                slopes[start:stop] = (block * rows.masked_fill(rows == -math.inf, 0)).sum(-1)
            if factor:
                kept.copy_(block.mul_(factor))
            if present is not None:  # 0 marks columns that are left out
                kept.add_(present, alpha=least)
                gaps[start:stop] = True
        law = None if slopes is None or correction.log_q is None else correction.log_q.clone()  # the user's may change
        ctx.correction, ctx.factor, ctx.dtype = correction._replace(log_q=law), factor or 1.0, scores.dtype
        ctx.save_for_backward(error, slopes, None if slopes is None else scale, gaps)
        ctx.set_materialize_grads(False)
        return losses, error, slopes

    @staticmethod
    def backward(
        ctx: Any, by_losses: Tensor | None, by_error: Tensor | None, by_slopes: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        error, slopes, scale, gaps = ctx.saved_tensors
        scale, again = ctx.correction.scale if scale is None else scale, by_error is not None or by_slopes is not None
        none = torch.zeros(error.shape[0], dtype=precision(error), device=error.device)
        by_losses, by_slopes = (none if by is None else by for by in (by_losses, by_slopes))
        each = by_losses.unsqueeze(-1) * (scale / ctx.factor) + by_slopes.unsqueeze(-1) / ctx.factor
        by_scale = None if slopes is None else (by_losses * slopes).unsqueeze(-1)
        if error.dtype == each.dtype or torch.is_grad_enabled() or checks.is_batched(each):
            total = error * each
        else:  # a CPU would make matrices in single precision
            total = torch.empty_like(error)
            for start, stop in _blocks(error):
                torch.mul(error[start:stop], each[start:stop], out=total[start:stop])
        if again:
            p = _probabilities(ctx, error, gaps)
            scores = 0.0 if slopes is None else _scores_of(p, ctx.correction, scale)
            moved = by_slopes.unsqueeze(-1) * scores
            moved = moved if by_error is None else moved + for_sums(by_error) * ctx.factor
            along = p * (moved - (p * moved).sum(-1, keepdim=True))
            total = total + along * scale
            by_scale = None if by_scale is None else by_scale + (scores * along).sum(-1, keepdim=True)
        return total.to(ctx.dtype), None if by_scale is None else by_scale.sum_to_size(scale.shape), None, None


def _losses(scores: Tensor, correction: Correction, error: Tensor) -> tuple[Tensor, Tensor | None]:
    """The losses [B], and 1 for present columns if smoothing meets gaps; writes the softmax less its target."""
    places = correction.places()
    _write_logits(scores, correction, places, error)
    ahead, present, share = _ahead_of_target(error, correction, places)
    torch.softmax(error, -1, out=error)
    p = error.diagonal(correction.start)
    losses, least = -p.log() if ahead is None else ahead - p.log(), torch.finfo(p.dtype).tiny
    if not checks.read(p.amin())[0] >= least:  # beyond the precision of probabilities
        losses = torch.where(p >= least, losses, _formula(scores, correction, "none"))
    _add_target(error, correction, places, present, share, -1)
    return losses, present


def _probabilities(ctx: Any, error: Tensor, gaps: Tensor) -> Tensor:
    """The softmax, from its error; ``gaps`` [B, 1] says in which rows columns of error 0 are left out."""
    present = ((error != 0) | ~gaps).to(precision(error)) if ctx.correction.smoothing else None
    share = 0.0 if present is None else ctx.correction.smoothing / present.sum(-1, keepdim=True)
    error = error.clone() if ctx.factor == 1 else for_sums(error) / ctx.factor
    return _add_target(error, ctx.correction, ctx.correction.places(), present, share, 1)


def _scores_of(p: Tensor, correction: Correction, scale: Tensor) -> Tensor:
    """The scores of a softmax, but for a constant of each row, on which no derivative depends."""
    logits, law = p.clamp_min(torch.finfo(p.dtype).tiny).log(), correction.log_q
    if law is not None and not correction.from_all:
        marks = correction.marks
        law = torch.where(torch.eye(*p.shape, dtype=torch.bool, device=p.device) if marks is None else marks, 0, law)
    return (logits if law is None else logits + law) / scale


def _add_target(
    matrix: Tensor, correction: Correction, several: Places | None, present: Tensor | None, share: Any, sign: int
) -> Tensor:
    """The matrix with the target added ``sign`` times, in place; ``share`` of it is for each ``present`` column."""
    if present is not None:
        matrix.addcmul_(present, share, value=sign)
    elif share:
        matrix += sign * share
    of_positives = sign * (1 - correction.smoothing)
    if several is None:
        matrix.diagonal(correction.start).add_(of_positives)
    else:
        part = (of_positives / several.number.to(matrix.dtype))[several.row]
        matrix.index_put_((several.row, several.column), part, accumulate=True)
    return matrix


def _write_logits(scores: Tensor, correction: Correction, several: Places | None, logits: Tensor) -> None:
    """Logits, at least float32, into a matrix."""
    dtype, law = logits.dtype, correction.log_q
    if isinstance(correction.scale, Tensor):
        torch.mul(scores, correction.scale, out=logits)
        if law is not None:
            logits -= law
    elif correction.scale == 1:
        torch.sub(scores, 0 if law is None else law, out=logits)
    else:
        zero = torch.zeros(1, dtype=dtype, device=scores.device)
        torch.add(zero if law is None else -law, scores, alpha=correction.scale, out=logits)
    uncorrected = law is not None and not correction.from_all
    if correction.classes is None and not uncorrected:
        return
    source = scores if uncorrected else logits
    positive = source.diagonal(correction.start) if several is None else source[several.row, several.column]
    positive = positive.to(dtype, copy=True)
    if uncorrected:
        scale: Any = correction.scale
        if isinstance(scale, Tensor) and scale.ndim == 2:
            scale = scale[:, 0] if several is None else scale[several.row, 0]
        positive *= scale
    if correction.classes is not None:
        classes = correction.classes.to(dtype)
        # Floats, 1 where classes are equal: a CPU compares and adds them faster than bool.
        equal = torch.eq(classes[correction.start :][: len(scores), None], classes, out=torch.empty_like(logits))
        logits.sub_(equal.mul_(torch.finfo(dtype).max), alpha=2)  # twice the largest number: -inf
    if several is None:
        logits.diagonal(correction.start).copy_(positive)
    else:
        logits[several.row, several.column] = positive


def _ahead_of_target(
    logits: Tensor, correction: Correction, several: Places | None
) -> tuple[Tensor | None, Tensor | None, Any]:
    """[B] the positive logit minus the target's mean; 1 for present columns where there are gaps, and their share.

    Sums are taken of differences, so that large logits lose no digits; smoothing subtracts each row's largest in place.
    """
    smoothing, positive = correction.smoothing, logits.diagonal(correction.start)
    if not smoothing:
        return None if several is None else -several.mean(logits, positive), None, 0.0
    number: Any = logits.shape[1]
    present = None
    if correction.classes is not None or not checks.read(logits.amin())[0] > -math.inf:
        present = torch.gt(logits, -math.inf, out=torch.empty_like(logits))
        number = present.sum(-1, keepdim=True)
    logits -= logits.amax(-1, keepdim=True)
    total = (logits if present is None else logits.masked_fill(present == 0, 0)).sum(-1, keepdim=True)
    ahead = smoothing * (positive - (total / number).squeeze(-1))
    if several is not None:
        ahead -= (1 - smoothing) * several.mean(logits, positive)
    return ahead, present, smoothing / number


def _blocks(scores: Tensor, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Where blocks of rows begin and end, of ``most`` scores on a GPU, all without it."""
    size, columns = scores.shape
    step = max(1, (CELLS if scores.is_cpu else most or scores.numel()) // max(1, columns))
    for start in range(0, size, step):
        yield start, min(start + step, size)
