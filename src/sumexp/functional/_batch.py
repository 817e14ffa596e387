r"""The loss of a batch in which each example's class is a negative of the others: two towers, contrastive models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from sumexp import _checks as checks
from sumexp import _lists as lists
from sumexp.functional._arguments import Correct, Reduction, divided, for_sums, law_fault, reduce, softmax_loss

InBatchHits = Literal["keep", "mask"]
"""What becomes of accidental hits, further columns of the example's own class: kept as negatives, or left out."""

CORRECTIONS, HITS = get_args(Correct), get_args(InBatchHits)

SMALL = 1 << 17
"""Scores up to which torch's own loss is faster: its steps are more, but none is made in Python."""

CELLS, MANY = 1 << 17, 1 << 25
"""Scores at a time on a CPU, where they stay in its cache, and on a GPU."""


def in_batch(
    scores: Tensor,
    ids: checks.Values,
    *,
    log_q: checks.Values | None = None,
    correct: Correct = "all",
    hits: InBatchHits = "keep",
    positives: checks.Values | None = None,
    label_smoothing: float = 0.0,
    temperature: float | Tensor = 1.0,
    symmetric: bool = False,
    row_ids: checks.Values | None = None,
    row_log_q: checks.Values | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""The softmax cross entropy of each example's class among the columns of its batch, with the logQ correction.

    .. math:: \ell_i = \log\sum_j e^{s_{ij} - s_{ii}}, \qquad s_{ij} = f_{ij}/T - \log q_{c_j}

    With ``correct="none"`` and the other defaults it is ``F.cross_entropy(scores, torch.arange(B))``.

    Row i is an example, column j a candidate of class :math:`c_j`; columns 0..B-1 are the examples' own classes, in
    their order, what follows are further negatives that all examples share.

    The defaults are those of the theorem in the chapter :doc:`/notebooks/negatives`, first part: the labels of the
    other examples are draws with replacement from the frequencies of the classes, and with :math:`\log q` subtracted
    from *all* logits and equal labels *kept* the minimum of the expected loss is :math:`f/T = \log P(y\mid x)` up to a
    constant, for every batch size. ``correct="negatives"`` or ``hits="mask"`` have other minima, which
    :mod:`sumexp.negatives.consistency` finds; ``correct="none"`` learns :math:`\log P/q`.

    Further columns drawn from the *same* distribution, as those of other devices, change nothing in this. If they come
    from another distribution u, use the log probability of the mixture in *every* column, for B in-batch and E further
    ones :math:`q = \frac{(B-1)\pi + E u}{B-1+E}` (``samplers.Mixture``). That is exact if each negative picks its
    distribution at random, and nearly so for fixed numbers of both. Hard negatives have no known distribution, and no
    correction is known for them.

    With several ``positives`` :math:`P_i` of a row, its own column always among them, the loss is the mean over them of
    their softmax cross entropies, each among all columns:

    .. math:: \ell_i = \frac1{|P_i|}\sum_{p\in P_i}\log\sum_j e^{s_{ij} - s_{ip}}.

    Columns that are not named are negatives. ``negatives`` and ``importance`` leave the logits of all positives as they
    are, and m is the number of the other columns. A positive is never masked.

    With ``label_smoothing`` :math:`\varepsilon` the loss is :math:`1-\varepsilon` of this and :math:`\varepsilon` of
    the mean cross entropy over all columns that are neither left out nor of score -inf, as in ``F.cross_entropy``; the
    minimum is then no longer the truth.

    A batch of one example without further columns, as the last of an epoch can be, has loss 0 and no gradient.

    Forward and backward make two matrices of the size of the scores, whatever the options and the type;
    ``F.cross_entropy`` makes three. The scores are not kept, also where T is learned. Sums are taken in float32, and so
    are gradients of the second order, but for scores in half precision these have half its precision.

    >>> scores, ids = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), [5, 8]
    >>> functional.in_batch(scores, ids, log_q=torch.tensor([0.25, 0.5]).log())
    tensor(0.1319)

    Args:
        scores: [B, B + E] of examples and candidates, the examples' own on the diagonal; finite, or -inf off the
            diagonal for a candidate that cannot be.
        ids: [B + E] whole numbers, the classes of the columns.
        log_q: [B + E] log probability of a draw of each column's class, or [B, B + E] where it differs by row (laws of
            segments, or of a user's own catalogue); a constant: no gradient flows into it. It may be left out with
            ``correct="none"`` alone.
        correct: from which logits log q is subtracted: ``all`` logits; the ``negatives`` alone; ``importance``,
            :math:`\log(m q)` from the negatives only, m their number, B + E - 1 with one positive; ``none``.
        hits: ``keep`` accidental hits, the further columns of an example's own class, or ``mask`` them: leave them out.
        positives: [B, B + E] bool, which columns are positives of a row in addition to its own; or [B, P] whole
            numbers, the classes that are, padded by any class that is none (-1), or lists or sets of them; or a sparse
            matrix of marks.
        label_smoothing: :math:`\varepsilon` in [0, 1).
        temperature: T > 0, a number, a learnable tensor of one element, or one for each row, [B] or [B, 1].
        symmetric: take the mean of this and of the same for columns, in which the examples are the candidates of the
            first B columns. There :math:`\log q` of the columns cancels; what counts is the law of the rows.
        row_ids: [B] what the rows are, to find hits among them (``symmetric`` with ``mask``).
        row_log_q: [B] log probability of a draw of each row, corrected as the columns are; without it rows count as
            equally frequent.
        reduction: ``mean``, ``sum`` or ``none``.

    Returns:
        A scalar, or [B] for ``none``, at least float32.

    Raises:
        ValueError: for shapes that do not fit, an unknown option, log q that is missing, NaN,
            above 0 or -inf, a temperature that is not positive, NaN or +inf among the scores, -inf on their diagonal,
            and the mean of an empty batch.

    Source: the chapter *negatives*, theorem "consistent"; Yi et al. (2019), section 3, for correcting in-batch scores.
    """
    options = Options(correct, hits, label_smoothing, temperature, symmetric, reduction)
    return batch_loss(scores, ids, log_q, options, positives, row_ids, row_log_q)


class Options(NamedTuple):
    """Those of :func:`in_batch`, which a module keeps."""

    correct: Correct
    hits: InBatchHits
    label_smoothing: float
    temperature: float | Tensor
    symmetric: bool
    reduction: Reduction


def batch_loss(
    scores: Tensor,
    ids: checks.Values,
    log_q: checks.Values | None,
    options: Options,
    positives: checks.Values | None,
    row_ids: checks.Values | None,
    row_log_q: checks.Values | None,
    absent: Tensor | None = None,
) -> Tensor:
    """:func:`in_batch`, where ``absent`` [B + E] marks columns, and the examples of the first B, that are not there."""
    correct, hits, label_smoothing, temperature, symmetric, reduction = options
    checks.choice("correct", correct, CORRECTIONS)
    checks.choice("hits", hits, HITS)
    _check_scores(scores)
    size, columns = scores.shape
    marks, classes = None, _classes(ids, scores)
    if positives is not None:
        marks = _marks(positives, classes, size)
    if absent is not None:
        scores, marks = _without(scores, marks, absent)
    given, masked = _checked(scores, temperature)
    scale = given.reciprocal() if isinstance(given, Tensor) else 1 / given
    if symmetric and isinstance(given, Tensor) and given.ndim == 2:  # the columns have none
        scores, scale = divided(scores, given, masked), 1.0
    law = _law("log_q", log_q, scores, (columns,), (size, columns), needed=correct != "none")
    rows = _law("row_log_q", row_log_q, scores, (size,), needed=False) if symmetric else None
    smoothing = _smoothing(label_smoothing)
    if absent is not None:
        law = None if law is None else without_absent(law, absent, size)
        rows = None if rows is None else rows.masked_fill(absent[:size], 0)

    def half(scores: Tensor, law: Tensor | None, equal: Tensor | None, marks: Tensor | None) -> Tensor:
        there = scores.shape[1] if absent is None else scores.shape[1] - absent[: scores.shape[1]].sum()
        taken = _taken(law, correct, marks, there)
        correction = _Correction(scale, taken, correct == "all", equal, marks, smoothing, masked)
        return _loss(scores, correction, reduction if absent is None else "none")

    equal = _numbered(classes, size) if hits == "mask" else None
    loss = half(scores, law, equal, marks)
    if symmetric:
        same = _numbered(_same_rows(row_ids, size, scores.device), size) if hits == "mask" else None
        turned = None if marks is None else marks[:, :size].T
        loss = (loss + half(scores[:, :size].T, rows, same, turned)) / 2
    if __debug__ and size:
        _check_loss(loss, scores, classes, law, rows, marks)
    return loss if absent is None else reduced(loss, ~absent[:size], reduction)


def without_absent(law: Tensor, absent: Tensor, size: int) -> Tensor:
    """A log law of columns, or of each row's columns, with 0 where an example or a column is not there."""
    return law.masked_fill(absent[:size].unsqueeze(-1) | absent if law.ndim == 2 else absent, 0)


def reduced(losses: Tensor, present: Tensor, reduction: Reduction) -> Tensor:
    """The losses of the examples that are present, reduced."""
    losses = torch.where(present, losses, 0)
    if reduction != "mean":
        return reduce(losses, reduction)
    count = present.sum()
    if __debug__ and not checks.read(count, default=1.0)[0]:
        raise ValueError("the batch holds no example, so it has no mean; skip it, or use reduction='sum'")
    return losses.sum() / count


class _Places(NamedTuple):
    """Positives of each row, its own column among them, in the order of rows and columns."""

    row: Tensor  # [K] of all positives
    column: Tensor  # [K]
    number: Tensor  # [B] of positives in each row

    def mean(self, values: Tensor) -> Tensor:
        """[B] the mean of the values [B, N] of each row's positives."""
        total = torch.zeros_like(values[:, 0]).index_add_(0, self.row, values[self.row, self.column])
        return total / self.number


class _Correction(NamedTuple):
    """How scores become logits."""

    scale: float | Tensor  # they are multiplied by, where it is learned a tensor [1] or [B, 1]
    log_q: Tensor | None  # [N] or [B, N], subtracted
    own: bool  # whether it is subtracted from the positives too
    classes: Tensor | None  # [N] of `_numbered`: columns equal to an example's own are left out; None to keep them
    marks: Tensor | None  # [B, N] bool, several positives of a row; None where its own column is the only one
    smoothing: float  # share of the mean over all columns that are not left out
    masked: bool  # whether a score may be -inf
    start: int = 0  # the own column of the first row

    def rows(self, start: int, stop: int) -> _Correction:
        """That of some rows."""
        law = self.log_q if self.log_q is None or self.log_q.ndim == 1 else self.log_q[start:stop]
        marks = self.marks if self.marks is None else self.marks[start:stop]
        scale = self.scale[start:stop] if isinstance(self.scale, Tensor) and self.scale.ndim == 2 else self.scale
        return self._replace(scale=scale, log_q=law, marks=marks, start=start)


def _marks(positives: checks.Values, classes: Tensor, size: int) -> Tensor:
    """[B, N] bool, the positives of each row, by marks or by classes; a row's own column is one."""
    columns = classes.shape[0]
    if (marked := lists.entries("positives", positives)) is not None:
        positives = torch.zeros(len(marked[0]), 1 + marked[2][1], dtype=torch.bool, device="cpu")
        positives = positives.scatter(1, marked[0].cpu() + 1, True)[:, 1:]
    given = lists.pad_lists("positives", positives, -1)
    if given.dtype not in (torch.bool, torch.int32, torch.int64):
        raise ValueError(f"positives are {given.dtype}: marks must be bool, as positives > 0, and classes int64")
    given = given.to(classes.device)
    own = torch.eye(size, columns, dtype=torch.bool, device=given.device)
    if given.dtype == torch.bool:
        if given.shape != (size, columns):
            raise ValueError(
                f"positives have shape {tuple(given.shape)}; marks are one for each of [{size}, {columns}] scores"
            )
        return given | own
    if given.ndim != 2 or given.shape[0] != size:
        raise ValueError(f"positives have shape {tuple(given.shape)}; classes must be [{size}, P], padded by -1")
    if given.shape == (size, columns) and given.numel() > 1:
        least, most = checks.read(*given.aminmax(), default=math.inf)
        if least >= 0 and most <= 1:
            raise ValueError(
                f"positives are whole numbers 0 and 1, one for each of [{size}, {columns}] scores: marks must be bool, "
                "as positives == 1; to name the classes 0 and 1, pad by a column of -1"
            )
    if _is_recorded(classes):
        return (given.unsqueeze(-1) == classes).any(1) | own
    # The columns of a class stand side by side among those in its order.
    ordered, order = classes.sort()
    first, last = (torch.searchsorted(ordered, given.long().flatten(), right=right) for right in (False, True))
    number = last - first
    row = torch.arange(size, device=classes.device).repeat_interleave(given.shape[1]).repeat_interleave(number)
    place = torch.arange(row.shape[0], device=classes.device)
    own[row, order[place + (last - number.cumsum(0)).repeat_interleave(number)]] = True
    return own


def _places_of(marks: Tensor) -> _Places:
    """Where marks are; on a CPU NumPy looks several times as fast as torch."""
    places = torch.from_numpy(np.flatnonzero(marks.numpy())) if marks.is_cpu else marks.flatten().nonzero().flatten()
    row, columns = places // marks.shape[1], marks.shape[1]
    return _Places(row, places % columns, row.bincount(minlength=marks.shape[0]))


def _without(scores: Tensor, marks: Tensor | None, absent: Tensor) -> tuple[Tensor, Tensor | None]:
    """Scores in which absent columns cannot be; absent rows, whatever stands there, have loss 0 and no gradient."""
    own = torch.eye(*scores.shape, dtype=torch.bool, device=scores.device)
    gone = absent[: scores.shape[0]].unsqueeze(-1) | absent
    scores = scores.masked_fill(gone & ~own, -math.inf).masked_fill(gone & own, 0)
    return scores, None if marks is None else marks & ~gone | own


def _smoothing(label_smoothing: float) -> float:
    if not (isinstance(label_smoothing, Real) and 0 <= float(label_smoothing) < 1):
        raise ValueError(f"label_smoothing is {label_smoothing!r}; it must be at least 0 and below 1")
    return float(label_smoothing)


def _numbered(classes: Tensor, size: int) -> Tensor:
    """Classes [N] as numbers that single precision tells apart; where those of the ``size`` examples stand counts."""
    if not size or max(map(abs, checks.read(*classes.aminmax(), default=math.inf))) < 1 << 24:
        return classes
    ordered = classes[:size].sort().values
    place = torch.searchsorted(ordered, classes).clamp_max(size - 1)
    return torch.where(ordered[place] == classes, place, size)


def _is_recorded(values: Tensor) -> bool:
    """Whether operations are recorded for other inputs, so that values must decide nothing."""
    return checks.is_traced(values) or checks.is_captured(values)


def _has_tangent(*values: object) -> bool:
    """Whether derivatives are taken in forward mode."""
    return any(unpack_dual(each).tangent is not None for each in values if isinstance(each, Tensor))  # type: ignore[no-untyped-call]


def _precision(scores: Tensor) -> torch.dtype:
    return torch.promote_types(scores.dtype, torch.float32)


def _loss(scores: Tensor, correction: _Correction, reduction: Reduction) -> Tensor:
    one_positive = correction.marks is None and not correction.smoothing
    shifted = correction.classes is None and (correction.log_q is None or correction.own)
    if (
        _is_recorded(scores)
        or (one_positive and shifted and scores.numel() <= SMALL)
        or _has_tangent(scores, correction.scale)
    ):
        return _formula(scores, correction, reduction)
    losses, *_ = _InPlace.apply(scores, correction.scale, correction, _factor(scores, correction, reduction))  # type: ignore[no-untyped-call]
    return reduce(losses, reduction)


def _formula(scores: Tensor, correction: _Correction, reduction: Reduction) -> Tensor:
    """The loss by its formula, which compilers fuse and ``torch.func`` transforms."""
    scale, law, own, classes, marks, smoothing, _, start = correction
    if isinstance(scale, Tensor):
        logits = divided(scores.clone(), scale.reciprocal(), correction.masked)  # a copy, so that scores are not kept
    else:
        logits = scores.to(_precision(scores)) * scale if scale != 1 else scores.to(_precision(scores))
    places = torch.arange(start, start + scores.shape[0], device=scores.device)
    if marks is None and classes is None and not smoothing and (law is None or own):
        return softmax_loss(logits if law is None else logits - law, places, reduction)
    positive = places.unsqueeze(-1) == torch.arange(scores.shape[1], device=scores.device) if marks is None else marks
    if law is not None:
        logits = logits - (law if own else torch.where(positive, 0, law))
    if classes is not None:
        logits = logits.masked_fill((classes[places].unsqueeze(-1) == classes) & ~positive, -math.inf)
    if marks is None and not smoothing:
        return softmax_loss(logits, places, reduction)
    target = positive.to(logits.dtype) / positive.sum(-1, keepdim=True)
    if smoothing:
        present = (logits.detach() > -math.inf).to(logits.dtype)
        target = (1 - smoothing) * target + smoothing * present / present.sum(-1, keepdim=True)
    log_p = torch.log_softmax(logits, -1).masked_fill(target == 0, 0)
    return reduce(-(log_p * target).sum(-1), reduction)


def _factor(scores: Tensor, correction: _Correction, reduction: Reduction) -> float | None:
    """By how much errors are multiplied before they are rounded to half precision; None to keep them exact.

    A gradient is then a power of 2 times them, rounded once (with a learned temperature twice), and all stay in the
    range of float16.
    """
    if scores.dtype == _precision(scores):
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
        ctx: Any, scores: Tensor, scale: float | Tensor, correction: _Correction, factor: float | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        exact = _precision(scores)
        # Rows in one piece, also where scores are transposed: the work in place below asks for it.
        error = torch.empty(scores.shape, dtype=scores.dtype if factor else exact, device=scores.device)
        losses = torch.empty(scores.shape[0], dtype=exact, device=scores.device)
        least = max(torch.finfo(error.dtype).tiny * torch.finfo(error.dtype).eps, torch.finfo(exact).tiny)
        slopes = torch.empty_like(losses) if isinstance(scale, Tensor) else None
        for start, stop in _blocks(scores, MANY):
            rows, kept = scores[start:stop], error[start:stop]
            block = torch.empty(rows.shape, dtype=exact, device=rows.device) if factor else kept
            losses[start:stop], there = _losses(rows, correction.rows(start, stop), block)
            if slopes is not None:
                slopes[start:stop] = (block * rows.masked_fill(rows == -math.inf, 0)).sum(-1)
            if factor:
                kept.copy_(block.mul_(factor))
            if there is not None:  # 0 marks the columns that are left out
                kept += there * least
        ctx.correction, ctx.factor, ctx.dtype = correction, factor or 1.0, scores.dtype
        ctx.save_for_backward(error, slopes, None if slopes is None else scale)
        ctx.set_materialize_grads(False)
        return losses, error, slopes

    @staticmethod
    def backward(
        ctx: Any, by_losses: Tensor | None, by_error: Tensor | None, by_slopes: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        error, slopes, scale = ctx.saved_tensors
        scale, again = ctx.correction.scale if scale is None else scale, by_error is not None or by_slopes is not None
        none = torch.zeros(error.shape[0], dtype=_precision(error), device=error.device)
        by_losses, by_slopes = (none if by is None else by for by in (by_losses, by_slopes))
        each = by_losses.unsqueeze(-1) * (scale / ctx.factor) + by_slopes.unsqueeze(-1) / ctx.factor
        by_scale = None if slopes is None else (by_losses * slopes).unsqueeze(-1)
        if error.dtype == each.dtype or torch.is_grad_enabled():
            total = error * each
        else:  # a CPU would make matrices in single precision
            total = torch.empty_like(error)
            for start, stop in _blocks(error):
                torch.mul(error[start:stop], each[start:stop], out=total[start:stop])
        if again:
            p = _probabilities(ctx, error)
            scores = 0.0 if slopes is None else _scores_of(p, ctx.correction, scale)
            moved = by_slopes.unsqueeze(-1) * scores
            moved = moved if by_error is None else moved + for_sums(by_error) * ctx.factor
            along = p * (moved - (p * moved).sum(-1, keepdim=True))
            total = total + along * scale
            by_scale = None if by_scale is None else by_scale + (scores * along).sum(-1, keepdim=True)
        return total.to(ctx.dtype), None if by_scale is None else by_scale.sum_to_size(scale.shape), None, None


def _losses(scores: Tensor, correction: _Correction, error: Tensor) -> tuple[Tensor, Tensor | float | None]:
    """The losses [B], and with smoothing 1 for columns there are; into a matrix the softmax less its target."""
    places = None if correction.marks is None else _places_of(correction.marks)
    _write_logits(scores, correction, places, error)
    ahead, there, smooth = _ahead_of_target(error, correction, places)
    torch.softmax(error, -1, out=error)
    p = error.diagonal(correction.start)
    losses, least = -p.log() if ahead is None else ahead - p.log(), torch.finfo(p.dtype).tiny
    if losses.shape[0] and not checks.read(p.amin())[0] >= least:  # beyond the precision of probabilities
        losses = torch.where(p >= least, losses, _formula(scores, correction, "none"))
    _add_target(error, correction, places, smooth, -1)
    return losses, there


def _probabilities(ctx: Any, error: Tensor) -> Tensor:
    """The softmax, of its error."""
    correction, smooth = ctx.correction, None
    places = None if correction.marks is None else _places_of(correction.marks)
    if correction.smoothing:
        there = (error != 0).to(_precision(error))
        smooth = there * (correction.smoothing / there.sum(-1, keepdim=True))
    error = error.clone() if ctx.factor == 1 else for_sums(error) / ctx.factor
    return _add_target(error, correction, places, smooth, 1)


def _scores_of(p: Tensor, correction: _Correction, scale: Tensor) -> Tensor:
    """The scores of a softmax, but for a constant of each row, on which no derivative depends."""
    logits, law = p.clamp_min(torch.finfo(p.dtype).tiny).log(), correction.log_q
    if law is not None and not correction.own:
        marks = correction.marks
        law = torch.where(torch.eye(*p.shape, dtype=torch.bool, device=p.device) if marks is None else marks, 0, law)
    return (logits if law is None else logits + law) / scale


def _add_target(
    matrix: Tensor, correction: _Correction, several: _Places | None, smooth: Tensor | float | None, sign: int
) -> Tensor:
    """The matrix with the target added ``sign`` times, in place."""
    share = sign * (1 - correction.smoothing)
    if smooth is not None:
        matrix += smooth if sign > 0 else -smooth
    if several is None:
        matrix.diagonal(correction.start).add_(share)
    else:
        part = (share / several.number.to(matrix.dtype))[several.row]
        matrix.index_put_((several.row, several.column), part, accumulate=True)
    return matrix


def _write_logits(scores: Tensor, correction: _Correction, several: _Places | None, logits: Tensor) -> None:
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
    places = None if several is None else (several.row, several.column)
    if law is not None and not correction.own:
        scale: Any = correction.scale
        if isinstance(scale, Tensor) and scale.ndim == 2:
            scale = scale[:, 0] if places is None else scale[places[0], 0]
        if places is None:
            logits.diagonal(correction.start).copy_(scores.diagonal(correction.start).to(dtype) * scale)
        else:
            logits[places] = scores[places].to(dtype) * scale
    if correction.classes is None:
        return
    classes = correction.classes.to(dtype)
    own = logits.diagonal(correction.start).clone() if places is None else logits[places]
    for start, stop in _blocks(scores):
        # 1 where classes are equal, and 0, as floats: a CPU compares and adds floats faster than it handles bool.
        equal = torch.empty(stop - start, classes.shape[0], dtype=dtype, device=scores.device)
        torch.eq(classes[correction.start :][start:stop].unsqueeze(-1), classes, out=equal)
        logits[start:stop].sub_(equal.mul_(torch.finfo(dtype).max), alpha=2)  # twice the largest number: -inf
    if places is None:
        logits.diagonal(correction.start).copy_(own)
    else:
        logits[places] = own


def _ahead_of_target(
    logits: Tensor, correction: _Correction, several: _Places | None
) -> tuple[Tensor | None, Tensor | float | None, Tensor | float | None]:
    """[B] the positive logit minus the mean under the target; with smoothing 1 for columns there are, and its share."""
    smoothing = correction.smoothing
    if several is None and not smoothing:
        return None, None, None
    own = logits.diagonal(correction.start)
    mean = own if several is None else several.mean(logits)
    if not smoothing:
        return own - mean, None, None
    there: Any = 1.0
    number, total = logits.shape[1], logits.sum(-1)
    if correction.classes is not None or not checks.read(total.amin())[0] > -math.inf:
        there = torch.gt(logits, -math.inf, out=torch.empty_like(logits))
        number = there.sum(-1, keepdim=True)
        total = logits.clamp_min(torch.finfo(logits.dtype).min).mul_(there).sum(-1)
    over_all = (total.unsqueeze(-1) / number).squeeze(-1)
    return own - (1 - smoothing) * mean - smoothing * over_all, there, there * (smoothing / number)


def _blocks(scores: Tensor, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Where blocks of rows begin and end, of ``most`` scores on a GPU, all without it."""
    size, columns = scores.shape
    step = max(1, (CELLS if scores.is_cpu else most or scores.numel()) // max(1, columns))
    for start in range(0, size, step):
        yield start, min(start + step, size)


def _classes(ids: checks.Values, scores: Tensor) -> Tensor:
    """The classes of the columns of scores, checked."""
    classes, columns = checks.integers("id", ids).to(scores.device), scores.shape[1]
    if classes.shape != (columns,):
        raise ValueError(f"ids have shape {tuple(classes.shape)}; there must be one for each of {columns} columns")
    return classes


def _temperature(scores: Tensor, temperature: float | Tensor) -> tuple[Tensor, float]:
    """Scores, and the number that they are still to be multiplied by: a learnable temperature needs a gradient."""
    given, masked = _checked(scores, temperature)
    return (divided(scores, given, masked), 1.0) if isinstance(given, Tensor) else (scores, 1 / given)


def _checked(scores: Tensor, temperature: float | Tensor) -> tuple[float | Tensor, bool]:
    """The temperature, a number or a tensor [1] or [B, 1], and whether a score may be -inf."""
    if isinstance(temperature, Tensor):
        by_row = temperature.numel() == scores.shape[0] and (
            temperature.shape == (scores.shape[0],) or temperature.shape == (scores.shape[0], 1)
        )
        if not (temperature.numel() == 1 or by_row) or not temperature.is_floating_point():
            raise ValueError(
                f"temperature is {temperature.dtype} of {tuple(temperature.shape)}; it must be one positive number, or "
                f"one for each of {len(scores)} rows, floating-point"
            )
        masked = 1.0
        if __debug__ and scores.numel():
            lowest = scores.detach().amin() == -math.inf
            masked, *bounds = checks.read(lowest, *temperature.detach().aminmax(), default=1.0)
            for bound in bounds:
                if not 0 < bound < math.inf:
                    raise ValueError(f"temperature is {bound!r}; it must be positive: learn its logarithm")
        shape = (1,) if temperature.numel() == 1 else (-1, 1)
        return temperature.reshape(shape).to(scores.device, _precision(scores)), bool(masked)
    number = checks.number("temperature", temperature)
    if 1 / number > torch.finfo(_precision(scores)).max:
        raise ValueError(f"temperature is {temperature!r}: no score divided by it is a number; take a larger one")
    return number, False


def _law(
    name: str, log_q: checks.Values | None, scores: Tensor, *shapes: tuple[int, ...], needed: bool
) -> Tensor | None:
    """A checked log law of columns, of each row's columns, or of rows, in the precision of the sums."""
    if log_q is None:
        if needed:
            raise ValueError(
                f"{name} is missing: give the log probability of a draw of each column (for in-batch columns the log "
                "frequency of the class among the labels), or correct='none' to learn log P/q"
            )
        return None
    law = checks.reals(name, log_q).detach()
    if not any(law.shape == shape for shape in shapes):  # a compiler follows == of sizes that it keeps open
        by_row = f", or [{shapes[1][0]}, {shapes[1][1]}] of them" if len(shapes) > 1 else ""
        raise ValueError(
            f"{name} has shape {tuple(law.shape)}; it must hold one log probability for each of {shapes[0][0]}{by_row}"
        )
    return law.to(scores.device, _precision(scores))


def _taken(law: Tensor | None, correct: Correct, marks: Tensor | None, columns: int | Tensor) -> Tensor | None:
    """The correction of the negatives: log q, or log(m q) with m the number of present columns that are negatives."""
    if law is None or correct == "none":
        return None
    if correct != "importance":
        return law
    number = columns - (1 if marks is None else marks.sum(-1, keepdim=True))
    if checks.is_traced(law) and not isinstance(number, Tensor):
        number = law.new_full((), number)  # its logarithm would fix the size of the batch
    if isinstance(number, Tensor):
        return law + number.clamp_min(1).to(law.dtype).log()
    return law + math.log(max(1, number))


def _same_rows(row_ids: checks.Values | None, size: int, device: torch.device) -> Tensor:
    if row_ids is None:
        raise ValueError("hits='mask' needs row_ids for the symmetric half: which examples are one and the same")
    ids = checks.integers("row id", row_ids).to(device)
    if ids.shape != (size,):
        raise ValueError(f"row_ids have shape {tuple(ids.shape)}; there must be one for each of {size} rows")
    return ids


def _check_scores(scores: Tensor) -> None:
    checks.floating("scores", scores, "[B, B + E]", 2)
    if scores.shape[1] < scores.shape[0]:
        raise ValueError(f"scores have shape {tuple(scores.shape)}; they need a column for each example")


def _check_loss(
    loss: Tensor,
    scores: Tensor,
    classes: Tensor,
    log_q: Tensor | None,
    row_log_q: Tensor | None = None,
    marks: Tensor | None = None,
) -> None:
    """Refuse an infinite loss and laws above 1 by what is wrong with the arguments; one transfer reads all."""
    largest = [law.max() for law in (log_q, row_log_q) if law is not None]
    worst, *likeliest = checks.read(loss.detach().max() if loss.ndim else loss.detach(), *largest)
    if not worst < math.inf or any(not each <= 1e-6 for each in likeliest):
        raise ValueError(_explain(scores.detach(), classes, log_q, row_log_q, marks))


def _explain(scores: Tensor, ids: Tensor, log_q: Tensor | None, row_log_q: Tensor | None, marks: Tensor | None) -> str:
    """What is wrong with arguments whose loss is not finite."""
    if bool(scores.isnan().any()):
        return "a score is NaN"
    if bool((scores == math.inf).any()) or bool((scores.diagonal() == -math.inf).any()):
        return "a score is +inf, or an example's own is -inf: an infinite loss has no gradient"
    if marks is not None and bool((scores[marks] == -math.inf).any()):
        return "the score of a positive is -inf: an infinite loss has no gradient"
    for name, law, *named in (("log_q", log_q, "id", ids), ("row_log_q", row_log_q, "row")):
        if law is not None and (fault := law_fault(name, law, *named)):
            return fault
    return "scores divided by the temperature are beyond their precision; take float64 or a larger temperature"
