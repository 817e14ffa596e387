r"""The loss of a batch in which each example's class is a negative of the others: two towers, contrastive models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.functional._arguments import Correct, Reduction, for_sums, reduce

InBatchHits = Literal["keep", "mask"]
"""What becomes of accidental hits, further columns of the example's own class: kept as negatives, or left out."""

CELLS = 1 << 17
"""Scores whose hits are marked at a time on a CPU: the marks stay in its cache."""


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
    r"""The softmax cross entropy of each example's class among all columns of the batch, corrected by their law.

    .. math:: \ell_i = \log\sum_j e^{s_{ij} - s_{ii}}, \qquad s_{ij} = f_{ij}/T - \log q_{c_j}

    Row i is an example, column j a candidate of class :math:`c_j`; columns 0..B-1 are the examples' own classes, in
    their order, what follows are further negatives that all examples share.

    The defaults are those of the theorem in the chapter :doc:`/notebooks/negatives`, first part: the labels of the
    other examples are draws with replacement from the frequencies of the classes, and with :math:`\log q` taken off
    *all* logits and equal labels *kept* the minimum of the expected loss is :math:`f/T = \log P(y\mid x)` up to a
    constant, for every batch size. ``correct="negatives"`` or ``hits="mask"`` have other minima, which
    :mod:`sumexp.negatives.consistency` finds; ``correct="none"`` learns :math:`\log P/q`.

    Further columns drawn with replacement from the *same* law, as those of other batches or devices, change nothing in
    this. Columns of another law u, such as uniform ones, want one law for all: the mixture, for B in-batch and E
    further columns :math:`q = \frac{(B-1)\pi + E u}{B-1+E}`, in *every* column
    (``samplers.Mixture([pi, u], [(B - 1) / (B - 1 + E), E / (B - 1 + E)]).log_prob(ids)``). That is exact if each
    negative chooses its law by lot, and nearly so for fixed numbers of both; each column's *own* law, :math:`\pi` or u,
    is further off. Hard negatives are drawn by no known law: no correction is known to leave the minimum where it is.

    With several ``positives`` :math:`P_i` of a row, its own column always among them, the loss is the mean over them of
    their softmax cross entropies, each among all columns:

    .. math:: \ell_i = \frac1{|P_i|}\sum_{p\in P_i}\log\sum_j e^{s_{ij} - s_{ip}}.

    Columns that are not named are negatives. ``negatives`` and ``importance`` leave the logits of all positives as they
    are, and m is the number of the other columns. A positive is never masked.

    With ``label_smoothing`` :math:`\varepsilon` the loss is :math:`1-\varepsilon` of this and :math:`\varepsilon` of
    the mean cross entropy over all columns that are neither left out nor of score -inf, as in ``F.cross_entropy``; the
    minimum is then no longer the truth.

    Forward and backward make two matrices of the size of the scores; ``F.cross_entropy`` makes three.

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
        correct: what log q is taken off: ``all`` logits; the ``negatives`` alone; ``importance``, :math:`\log(m q)` off
            the negatives alone, m their number, B + E - 1 with one positive; ``none``.
        hits: ``keep`` accidental hits, the further columns of an example's own class, or ``mask`` them: leave them out.
        positives: [B, B + E] bool, which columns are positives of a row beside its own; or [B, P] whole numbers, the
            classes that are, padded by any class that is none (-1).
        label_smoothing: :math:`\varepsilon` in [0, 1).
        temperature: T > 0, a number or a learnable tensor of one element.
        symmetric: take the mean of this and of the same for columns, in which the examples are the candidates of the
            first B columns. There :math:`\log q` of the columns cancels; what counts is the law of the rows.
        row_ids: [B] what the rows are, to find hits among them (``symmetric`` with ``mask``).
        row_log_q: [B] log probability of a draw of each row, corrected as the columns are; without it rows count as
            equally frequent.
        reduction: ``mean``, ``sum`` or ``none``.

    Returns:
        A scalar, or [B] for ``none``, at least float32.

    Raises:
        ValueError: for shapes that do not fit, fewer than two columns, an unknown option, log q that is missing, NaN,
            above 0 or -inf, a temperature that is not positive, NaN or +inf among the scores, -inf on their diagonal,
            and the mean of an empty batch.

    Source: the chapter *negatives*, theorem "consistent"; Yi et al. (2019), section 3, for correcting in-batch scores.
    """
    checks.choice("correct", correct, get_args(Correct))
    checks.choice("hits", hits, get_args(InBatchHits))
    _check_scores(scores)
    size, columns = scores.shape
    scores, scale = _temperature(scores, temperature)
    law = _law("log_q", log_q, scores, (columns,), (size, columns), needed=correct != "none")
    classes = checks.integers("id", ids).to(scores.device)
    if classes.shape != (columns,):
        raise ValueError(f"ids have shape {tuple(classes.shape)}; there must be one for each of {columns} columns")
    marks = _numbered(classes, size) if hits == "mask" else None
    several = None if positives is None else _several(positives, classes, size)
    smoothing = _smoothing(label_smoothing)
    correction = _Correction(scale, _taken(law, correct, several), correct == "all", marks, several)
    losses, rows = _losses(scores, correction, smoothing), None
    if symmetric:
        rows = _law("row_log_q", row_log_q, scores, (size,), needed=False)
        same = _numbered(_same_rows(row_ids, size, scores.device), size) if hits == "mask" else None
        turned = None if several is None else _positives(several.mask[:, :size].T)
        column_options = _Correction(scale, _taken(rows, correct, turned), correct == "all", same, turned)
        losses = (losses + _losses(scores[:, :size].T, column_options, smoothing)) / 2
    if __debug__ and size:
        largest = [law.max() for law in (law, rows) if law is not None]
        worst, *likeliest = checks.read(losses.detach().max(), *largest)
        if not worst < math.inf or any(not each <= 1e-6 for each in likeliest):
            raise ValueError(_explain(scores.detach(), classes, law, rows, several))
    return reduce(losses, reduction)


class _Positives(NamedTuple):
    """Positives of each row, its own column among them.

    Attributes:
        mask: [B, N] bool.
        row: [K] rows of all positives.
        column: [K] their columns.
        share: [K] one over the number of positives of the row.
    """

    mask: Tensor
    row: Tensor
    column: Tensor
    share: Tensor


class _Correction(NamedTuple):
    """How scores become logits.

    Attributes:
        scale: the number that they are multiplied by.
        log_q: [N] taken off, or None.
        own: whether it is taken off the positives too.
        classes: [N] of :func:`_numbered`; columns equal to an example's own are left out; None to keep them.
        positives: several of a row; None where its own column is the only one.
    """

    scale: float
    log_q: Tensor | None
    own: bool
    classes: Tensor | None
    positives: _Positives | None


def _positives(mask: Tensor) -> _Positives:
    row, column = mask.nonzero().unbind(-1)
    return _Positives(mask, row, column, (1 / row.bincount().double())[row])


def _several(positives: checks.Values, classes: Tensor, size: int) -> _Positives:
    """The positives of each row, by marks or by classes."""
    given = checks.tensor("positives", positives).to(classes.device)
    if given.dtype == torch.bool:
        if given.shape != (size, len(classes)):
            raise ValueError(
                f"positives have shape {tuple(given.shape)}; marks are one for each of [{size}, {len(classes)}] scores"
            )
        mask = given.clone()
    else:
        named = checks.integers("positive", given)
        if named.ndim != 2 or len(named) != size:
            raise ValueError(f"positives have shape {tuple(named.shape)}; classes must be [{size}, P], padded by -1")
        mask = torch.zeros(size, len(classes), dtype=torch.bool, device=classes.device)
        for column in named.T:
            mask |= classes == column.unsqueeze(-1)
    mask.diagonal().fill_(True)
    return _positives(mask)


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


def _precision(scores: Tensor) -> torch.dtype:
    return torch.promote_types(scores.dtype, torch.float32)


def _logits(scores: Tensor, correction: _Correction, out: Tensor | None = None) -> Tensor:
    """Logits, at least float32, as a new tensor or in ``out``."""
    dtype = _precision(scores)
    law = torch.zeros(1, dtype=dtype, device=scores.device) if correction.log_q is None else correction.log_q
    if law.ndim == 2 and correction.scale == 1:
        logits = torch.sub(scores, law, out=out)
    else:
        logits = torch.add(-law, scores, alpha=correction.scale, out=out)
    several = correction.positives
    places = None if several is None else (several.row, several.column)
    if correction.log_q is not None and not correction.own:
        if places is None:
            logits.diagonal().copy_(scores.diagonal().to(dtype) * correction.scale)
        else:
            logits[places] = scores[places].to(dtype) * correction.scale
    if correction.classes is not None:
        classes = correction.classes.to(dtype)
        own = logits.diagonal().clone() if places is None else logits[places]
        for start, stop in _blocks(scores):
            # 1 where classes are equal, and 0, as floats: a CPU compares and adds floats faster than it handles bool.
            equal = torch.empty(stop - start, len(classes), dtype=dtype, device=scores.device)
            torch.eq(classes[start:stop].unsqueeze(-1), classes, out=equal)
            logits[start:stop].sub_(equal.mul_(torch.finfo(dtype).max), alpha=2)  # twice the largest number: -inf
        if places is None:
            logits.diagonal().copy_(own)
        else:
            logits[places] = own
    return logits


def _losses(scores: Tensor, correction: _Correction, smoothing: float) -> Tensor:
    if smoothing or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        # What a compiler fuses, and torch.func takes apart.
        logits = _logits(scores, correction)
        log_p = torch.log_softmax(logits, -1)
        losses = -log_p.diagonal()
        if correction.positives is not None:
            mask = correction.positives.mask
            losses = -log_p.masked_fill(~mask, 0).sum(-1) / mask.sum(-1)
        if smoothing:
            present = logits > -math.inf
            over_all = -log_p.masked_fill(~present, 0).sum(-1) / present.sum(-1)
            losses = (1 - smoothing) * losses + smoothing * over_all
        return losses
    fast: Tensor = _InPlace.apply(scores, correction)  # type: ignore[no-untyped-call]
    return fast


def _of_positives(values: Tensor, correction: _Correction) -> Tensor:
    """The mean over each row's positives of values [B, N]."""
    if correction.positives is None:
        return values.diagonal()
    _, row, column, share = correction.positives
    return torch.zeros_like(values[:, 0]).index_add_(0, row, values[row, column] * share.to(values.dtype))


class _InPlace(torch.autograd.Function):
    """The same with two matrices, where autograd would make four."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, correction: _Correction) -> Tensor:
        # Rows in one piece, also where scores are transposed: the work in place below asks for it.
        p = torch.empty(scores.shape, dtype=_precision(scores), device=scores.device)
        torch.softmax(_logits(scores, correction, out=p), -1, out=p)
        ctx.correction = correction
        ctx.save_for_backward(scores, p)
        ctx.save_for_forward(scores)
        return _negative_log(p, scores, correction)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        scores, p = ctx.saved_tensors
        share = gradient * ctx.correction.scale
        if torch.is_grad_enabled():  # this gradient is to be differentiated again
            p = torch.softmax(_logits(scores, ctx.correction), -1)
            if ctx.correction.positives is None:
                own = torch.eye(*scores.shape, dtype=p.dtype, device=p.device)
            else:
                mask = ctx.correction.positives.mask.to(p.dtype)
                own = mask / mask.sum(-1, keepdim=True)
            return ((p - own) * share.unsqueeze(-1)).to(scores.dtype), None
        score_gradient = p * share.unsqueeze(-1)
        if ctx.correction.positives is None:
            score_gradient.diagonal().sub_(share)
        else:
            _, row, column, part = ctx.correction.positives
            score_gradient.index_put_((row, column), -share[row] * part.to(share.dtype), accumulate=True)
        return score_gradient.to(scores.dtype), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        moved = for_sums(tangent) * ctx.correction.scale
        p = torch.softmax(_logits(ctx.saved_tensors[0], ctx.correction), -1)
        loss_tangent: Tensor = (p * moved).sum(-1) - _of_positives(moved, ctx.correction)
        return loss_tangent


def _negative_log(p: Tensor, scores: Tensor, correction: _Correction) -> Tensor:
    """The losses [B] by the softmax, also of examples whose own probability is beyond the precision."""
    own = p.diagonal()
    losses = -own.log()
    least = torch.finfo(p.dtype).tiny
    if len(own) and not own.is_meta and not own.amin() >= least:
        tiny = (own < least).nonzero().flatten()
        # log p = f_own - (f_best - log p_best), for the likeliest column, which is neither its own nor a hit.
        best = p[tiny].argmax(-1)
        losses[tiny] = _ahead(scores, correction, tiny, best) - p[tiny, best].log()
    if (several := correction.positives) is not None:
        # log p_p = log p_own - (f_own - f_p).
        behind = _ahead(scores, correction, several.row, several.column) * several.share.to(p.dtype)
        losses.index_add_(0, several.row, behind, alpha=-1)
    return losses


def _ahead(scores: Tensor, correction: _Correction, row: Tensor, column: Tensor) -> Tensor:
    """By how much logits at some places are above their rows' own."""
    dtype, law = _precision(scores), correction.log_q
    ahead = (scores[row, column].to(dtype) - scores[row, row].to(dtype)) * correction.scale
    if law is None:
        return ahead
    taken = law[column] if law.ndim == 1 else law[row, column]
    if correction.own:
        return ahead - (taken - (law[row] if law.ndim == 1 else law[row, row]))
    if correction.positives is not None:
        taken = taken.masked_fill(correction.positives.mask[row, column], 0)
    return ahead - taken.masked_fill(row == column, 0)


def _blocks(scores: Tensor) -> Iterator[tuple[int, int]]:
    """Where blocks of rows begin and end."""
    size, columns = scores.shape
    blocks = scores.device.type == "cpu" and not torch.compiler.is_compiling()
    step = max(1, CELLS // columns if blocks else size)
    for start in range(0, size, step):
        yield start, min(start + step, size)


def _temperature(scores: Tensor, temperature: float | Tensor) -> tuple[Tensor, float]:
    """Scores, and the number that they are still to be multiplied by: a learnable temperature needs a gradient."""
    if isinstance(temperature, Tensor):
        if temperature.numel() != 1 or not temperature.is_floating_point():
            raise ValueError(
                f"temperature is {temperature.dtype} of {tuple(temperature.shape)}; it must be one positive number, "
                "floating-point"
            )
        if __debug__ and not 0 < checks.read(temperature.detach().reshape(()), default=1.0)[0] < math.inf:
            raise ValueError(f"temperature is {temperature.item()!r}; it must be positive: learn its logarithm")
        return for_sums(scores) / temperature.reshape(()), 1.0
    scale = 1 / checks.number("temperature", temperature)
    if scale > torch.finfo(_precision(scores)).max:
        raise ValueError(f"temperature is {temperature!r}: no score divided by it is a number; take a larger one")
    return scores, scale


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
    law = checks.reals(name, log_q).detach().to(scores.device)
    if law.shape not in shapes:
        by_row = f", or [{shapes[1][0]}, {shapes[1][1]}] of them" if len(shapes) > 1 else ""
        raise ValueError(
            f"{name} has shape {tuple(law.shape)}; it must hold one log probability for each of {shapes[0][0]}{by_row}"
        )
    return law.to(_precision(scores))


def _taken(law: Tensor | None, correct: Correct, several: _Positives | None) -> Tensor | None:
    """What is taken off the negatives: log q, or log(m q), m the columns that are no positives."""
    if law is None or correct == "none":
        return None
    if correct != "importance":
        return law
    if several is None:
        return law + math.log(max(1, law.shape[-1] - 1))
    return law + (~several.mask).sum(-1, keepdim=True).clamp_min(1).to(law.dtype).log()


def _same_rows(row_ids: checks.Values | None, size: int, device: torch.device) -> Tensor:
    if row_ids is None:
        raise ValueError("hits='mask' needs row_ids for the symmetric half: which examples are one and the same")
    ids = checks.integers("row id", row_ids).to(device)
    if ids.shape != (size,):
        raise ValueError(f"row_ids have shape {tuple(ids.shape)}; there must be one for each of {size} rows")
    return ids


def _check_scores(scores: Tensor) -> None:
    checks.floating("scores", scores, "[B, B + E]", 2)
    if scores.shape[1] < max(2, len(scores)):
        raise ValueError(
            f"scores have shape {tuple(scores.shape)}; they need a column for each example, and two at least: a batch "
            "of one has no other classes to take negatives from"
        )


def _explain(
    scores: Tensor, ids: Tensor, log_q: Tensor | None, row_log_q: Tensor | None, several: _Positives | None
) -> str:
    """What is wrong with arguments whose loss is not finite."""
    if bool(scores.isnan().any()):
        return "a score is NaN"
    if bool((scores == math.inf).any()) or bool((scores.diagonal() == -math.inf).any()):
        return "a score is +inf, or an example's own is -inf: an infinite loss has no gradient"
    if several is not None and bool((scores == -math.inf)[several.mask].any()):
        return "the score of a positive is -inf: an infinite loss has no gradient"
    for name, law, what in (("log_q", log_q, ids), ("row_log_q", row_log_q, torch.arange(len(scores)))):
        if law is None:
            continue
        for place in (~(law <= 1e-6)).nonzero().tolist()[:1]:
            at = place[0] if len(place) == 1 else tuple(place)
            return f"{name} must hold logarithms of probabilities, got {law[tuple(place)].item()!r} at {at}"
        for place in (law == -math.inf).nonzero().tolist()[:1]:
            whose = f"{'id' if law is log_q else 'row'} {int(what[place[-1]])}"
            return (
                f"{name} is -inf for {whose}, which is in the batch: it was never counted, and no score makes up for "
                "it; give all that can occur a positive probability (counts + 1)"
            )
    return "scores divided by the temperature are beyond their precision; take float64 or a larger temperature"
