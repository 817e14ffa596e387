r"""The loss of a batch in which each example's class is a negative of the others: two towers, contrastive models."""

from __future__ import annotations

import math
from numbers import Real
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp import _lists as lists
from sumexp.functional._arguments import Correct, Reduction, divided, law_fault, precision, reduce
from sumexp.functional._batch_autograd import Correction, corrected_loss, is_recorded

InBatchHits = Literal["keep", "mask"]
"""What becomes of accidental hits, further columns of the example's own class: kept as negatives, or left out."""

CORRECTIONS, HITS = get_args(Correct), get_args(InBatchHits)


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
    distribution at random, and nearly so for fixed numbers of both. Hard negatives that a miner finds from the query
    alone, the label not left out, are such columns too, with a q for each row, [B, B + E]: E u is 1 at each of the
    row's own, plus, where all rows share them, B - 1 times the share of examples that have the class among theirs. No
    correction is known where the label is left out, or for those picked among the columns by their scores.

    With several ``positives`` :math:`P_i` of a row, its own column always among them, the loss is the mean over them of
    their softmax cross entropies, each among all columns:

    .. math:: \ell_i = \frac1{|P_i|}\sum_{p\in P_i}\log\sum_j e^{s_{ij} - s_{ip}}.

    Columns that are not named are negatives. ``negatives`` and ``importance`` leave the logits of all positives as they
    are, and m is the number of the other columns. A positive is never masked.

    With ``label_smoothing`` :math:`\varepsilon` the loss is :math:`1-\varepsilon` of this and :math:`\varepsilon` of
    the mean cross entropy over all columns that are neither left out nor of score -inf, as in ``F.cross_entropy``; the
    minimum is then no longer the truth.

    A batch of one example without further columns, as the last of an epoch can be, has loss 0 and no gradient.

    Forward and backward make two matrices of the size of the scores, one more where T is learned and log q differs by
    row, and more if ``symmetric``; ``F.cross_entropy`` makes three. The scores are not kept. Sums are taken in float32,
    and so are gradients of the second order, but for scores in half precision these have half its precision.

    >>> scores, ids = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), [5, 8]
    >>> functional.in_batch(scores, ids, log_q=torch.tensor([0.25, 0.5]).log())
    tensor(0.1319)

    Args:
        scores: [B, B + E] of examples and candidates, the examples' own on the diagonal; finite, or -inf off the
            diagonal for a candidate that cannot be.
        ids: [B + E] whole numbers, the classes of the columns: negative ones too, padding is for ``nn.InBatchSoftmax``.
        log_q: [B + E] log probability of a draw of each column's class, or [B, B + E] where it differs by row (laws of
            segments, or of a user's own catalogue); a constant: no gradient flows into it. It may be left out with
            ``correct="none"`` alone.
        correct: from which logits log q is subtracted: ``all`` logits; the ``negatives`` alone; ``importance``,
            :math:`\log(m q)` from the negatives only, m their number, B + E - 1 with one positive; ``none``.
        hits: ``keep`` accidental hits, the further columns of an example's own class, or ``mask`` them: leave them out.
        positives: [B, B + E] bool, which columns are positives of a row in addition to its own; or [B, P] whole
            numbers, the classes that are, padded by any class that is none (-1), or lists or sets of them, or
            ``ranking.Labels``; or a sparse matrix of marks.
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
        scores, scale = divided(scores.clone(), given, masked), 1.0  # a copy, so that scores are not kept
    law = _law("log_q", log_q, scores, (columns,), (size, columns), needed=correct != "none")
    rows = _law("row_log_q", row_log_q, scores, (size,), needed=False) if symmetric else None
    smoothing = _smoothing(label_smoothing)
    if absent is not None:
        law = None if law is None else without_absent(law, absent, size)
        rows = None if rows is None else rows.masked_fill(absent[:size], 0)

    def half(scores: Tensor, law: Tensor | None, equal: Tensor | None, marks: Tensor | None) -> Tensor:
        present = scores.shape[1] if absent is None else scores.shape[1] - absent[: scores.shape[1]].sum()
        taken = _taken(law, correct, marks, present)
        correction = Correction(scale, taken, correct == "all", equal, marks, smoothing, masked)
        return corrected_loss(scores, correction, reduction if absent is None else "none")

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


def _marks(positives: checks.Values, classes: Tensor, size: int) -> Tensor:
    """[B, N] bool, the positives of each row, by marks or by classes; a row's own column is one."""
    columns = classes.shape[0]
    if (marked := lists.entries("positives", positives := lists.listed(positives))) is not None:
        positives = torch.zeros(len(marked[0]), 1 + marked[2][1], dtype=torch.bool, device="cpu")
        positives = positives.scatter(1, marked[0].cpu() + 1, True)[:, 1:]
    given = lists.pad_lists("positives", positives, -1)
    if given.dtype not in (torch.bool, torch.int32, torch.int64):
        raise ValueError(f"positives are {given.dtype}: marks must be bool, as positives > 0, and classes int64")
    given = given.to(classes.device)
    marks = torch.eye(size, columns, dtype=torch.bool, device=given.device)
    if given.dtype == torch.bool:
        if given.shape != (size, columns):
            raise ValueError(
                f"positives have shape {tuple(given.shape)}; marks are one for each of [{size}, {columns}] scores"
            )
        return given | marks
    if given.ndim != 2 or given.shape[0] != size:
        raise ValueError(f"positives have shape {tuple(given.shape)}; classes must be [{size}, P], padded by -1")
    if given.shape == (size, columns) and given.numel() > 1:
        least, most = checks.read(*given.aminmax(), default=math.inf)
        if least >= 0 and most <= 1:
            raise ValueError(
                f"positives are whole numbers 0 and 1, one for each of [{size}, {columns}] scores: marks must be bool, "
                "as positives == 1; to name the classes 0 and 1, pad by a column of -1"
            )
    if is_recorded(classes):
        return (given.unsqueeze(-1) == classes).any(1) | marks
    # The columns of a class stand side by side among those in its order.
    ordered, order = classes.sort()
    first, last = (torch.searchsorted(ordered, given.long().flatten(), right=right) for right in (False, True))
    number = last - first
    row = torch.arange(size, device=classes.device).repeat_interleave(given.shape[1]).repeat_interleave(number)
    place = torch.arange(row.shape[0], device=classes.device)
    marks[row, order[place + (last - number.cumsum(0)).repeat_interleave(number)]] = True
    return marks


def _without(scores: Tensor, marks: Tensor | None, absent: Tensor) -> tuple[Tensor, Tensor | None]:
    """Scores in which absent columns cannot be; absent rows, whatever stands there, have loss 0 and no gradient."""
    diagonal = torch.eye(*scores.shape, dtype=torch.bool, device=scores.device)
    gone = absent[: scores.shape[0]].unsqueeze(-1) | absent
    scores = scores.masked_fill(gone & ~diagonal, -math.inf).masked_fill(gone & diagonal, 0)
    return scores, None if marks is None else marks & ~gone | diagonal


def _smoothing(label_smoothing: float) -> float:
    if not (isinstance(label_smoothing, Real) and 0 <= float(label_smoothing) < 1):
        raise ValueError(f"label_smoothing is {label_smoothing!r}; it must be at least 0 and below 1")
    return float(label_smoothing)


def _numbered(classes: Tensor, size: int) -> Tensor:
    """Classes [N] as numbers that single precision tells apart; where those of the ``size`` examples stand counts."""
    if not size or max(map(abs, checks.read(*classes.aminmax()))) < 1 << 24:
        return classes
    ordered = classes[:size].sort().values
    place = torch.searchsorted(ordered, classes).clamp_max(size - 1)
    return torch.where(ordered[place] == classes, place, size)


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
        by_row = temperature.shape == (scores.shape[0],) or temperature.shape == (scores.shape[0], 1)
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
        return temperature.reshape(shape).to(scores.device, precision(scores)), bool(masked)
    number = checks.number("temperature", temperature)
    if 1 / number > torch.finfo(precision(scores)).max:
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
    return law.to(scores.device, precision(scores))


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
    """Refuse an infinite loss and laws that are no logarithms, by what is wrong; one transfer reads all."""
    above = [checks.is_above_one(law) for law in (log_q, row_log_q) if law is not None]
    worst, *wrong = checks.read(loss.detach().max() if loss.ndim else loss.detach(), *above)
    if not worst < math.inf or any(wrong):
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
