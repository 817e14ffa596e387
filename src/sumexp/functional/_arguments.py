"""What all losses do with their arguments: check them, choose the precision of sums, reduce."""

import math
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import read

Reduction = Literal["mean", "sum", "none"]
"""Mean over the batch, sum, or one loss for each example."""

Correct = Literal["all", "negatives", "importance", "none"]
"""From which logits log q is subtracted: all, the negatives', the negatives' as log(m q), none."""

INSTEAD = "or say correct='importance', which needs none"

NO_LABEL = -(1 << 63)
"""The label that torch ignores: not -100, which a graph, where no label is read, would drop without a word."""

REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


def reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    """The losses, their sum or their mean."""
    checks.choice("reduction", reduction, REDUCTIONS)
    match reduction:
        case "none":
            return losses
        case "sum":
            return losses.sum()
        case "mean":
            if not losses.numel():
                raise ValueError("the batch is empty, so it has no mean; skip it, or use reduction='sum'")
            return losses.mean()


def softmax_loss(logits: Tensor, labels: Tensor, reduction: Reduction) -> Tensor:
    """The cross entropy of labels [...] by the softmax of logits [..., N], reduced by torch itself."""
    if not labels.numel():
        return reduce(logits.sum(-1), reduction)
    checks.choice("reduction", reduction, REDUCTIONS)
    flat, classes = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    loss = F.cross_entropy(flat, classes, reduction=reduction, ignore_index=NO_LABEL)
    return loss.view(labels.shape) if reduction == "none" else loss


def precision(values: Tensor) -> torch.dtype:
    """The type in which sums of values are taken: at least float32."""
    return torch.promote_types(values.dtype, torch.float32)


def for_sums(logits: Tensor) -> Tensor:
    """Logits in the precision in which sums of them are taken."""
    return logits.to(precision(logits))


def divided(scores: Tensor, temperature: float | Tensor, masked: bool = True) -> Tensor:
    """Scores over T, at least float32; scores of -inf add nothing to the gradient of T, where 0 times inf is NaN."""
    scores = for_sums(scores)
    if not masked or not isinstance(temperature, Tensor):
        return scores / temperature
    gone = scores == -math.inf
    return (scores.masked_fill(gone, 0) / temperature).masked_fill(gone, -math.inf)


def unit(vectors: Tensor) -> Tensor:
    """Vectors [..., d] divided by their lengths, whose squares may leave the range; zeros stay and have gradient 0."""
    if not vectors.shape[-1]:
        return vectors
    values = for_sums(vectors)
    largest = values.detach().abs().amax(-1, keepdim=True)
    zero = largest < torch.finfo(values.dtype).tiny  # denormal ones too: their gradients would be infinite
    values = values / largest.masked_fill(zero, 1)
    length: Tensor = torch.linalg.vector_norm(values.masked_fill(zero, 1), dim=-1, keepdim=True)
    return (values / length).masked_fill(zero, 0).to(vectors.dtype)


class Pair(NamedTuple):
    """The checked arguments of a sampled loss, in the precision of its sums."""

    positive: Tensor  # [B] or [B, T], corrected
    negative: Tensor  # [B, m] or [B, T, m], corrected, 0 where it is left out
    log_w: Tensor | None  # broadcastable to it, logarithms of the weights, -inf where left out; None where all are 1


def prepare(
    positive_logits: Tensor,
    negative_logits: Tensor,
    log_q: checks.Values | None = None,
    positive_log_q: checks.Values | None = None,
    correct: Correct = "all",
    weights: checks.Values | None = None,
    hits: checks.Values | None = None,
    *,
    linear: bool = False,
) -> Pair:
    """Check the arguments of a sampled loss, correct its logits and take out its accidental hits.

    Arguments and errors are those of :func:`sampled_softmax`; ``importance`` goes into the weights. ``linear`` says
    that the weights themselves are needed, which may overflow. All values are read back from the device at once.
    """
    _check_shapes(positive_logits, negative_logits)
    checks.choice("correct", correct, get_args(Correct))
    _check_given(log_q, positive_log_q, correct)
    shape, device = negative_logits.shape, negative_logits.device
    positive, negative = for_sums(positive_logits), for_sums(negative_logits)
    log_w = None
    if weights is not None:
        weights = checks.onto(checks.reals("weights", weights), device)
        check_shape("weights", weights, shape)
        log_w = for_sums(weights.detach()).log()
    if log_q is not None and correct != "none":
        law = _law("log_q", log_q, shape, device)
        if correct == "importance":
            # In a graph a logarithm in Python would fix the number of negatives.
            m = law.new_full((), shape[-1]).log() if checks.is_traced(law) else math.log(shape[-1])
            factor = -m - law
            log_w = factor if log_w is None else log_w + factor
        else:
            negative = negative - law.to(negative.dtype)
        if correct == "all" and positive_log_q is not None:
            label_law = _law("positive_log_q", positive_log_q, positive.shape, positive.device)
            positive = positive - label_law.masked_fill(label_law == -math.inf, math.nan).to(positive.dtype)
    if hits is not None:
        hits = checks.marks("hits", hits).to(device)
        check_shape("hits", hits, shape)
        # masked_fill and not a sum: what is left out may be NaN.
        negative = negative.masked_fill(hits, 0)
        log_w = torch.zeros((), dtype=negative.dtype, device=hits.device) if log_w is None else log_w
        log_w = log_w.masked_fill(hits, -math.inf)
    if __debug__ and negative.numel():
        logit = torch.maximum(-positive.detach().min(), negative.detach().max())
        worst, heaviest = read(logit, torch.full_like(logit, -math.inf) if log_w is None else log_w.max())
        most = math.log(torch.finfo(negative.dtype).max) if linear else math.inf
        if not (worst < math.inf and heaviest < most):
            raise ValueError(
                _explain_logits(positive_logits, negative_logits, hits)
                or _explain(shape, None if correct == "none" else log_q, positive_log_q, weights, hits)
            )
    return Pair(positive, negative, log_w if log_w is None else log_w.to(negative.dtype))


def _law(name: str, log_q: checks.Values, shape: torch.Size, device: torch.device) -> Tensor:
    """A log law as a constant, NaN where it is no logarithm, which the check of the logits then finds."""
    law = checks.onto(checks.reals(name, log_q), device)
    check_shape(name, law, shape)
    law = for_sums(law.detach())
    return law.masked_fill(checks.above_one(law), math.nan)


def _check_given(log_q: checks.Values | None, positive_log_q: checks.Values | None, correct: Correct) -> None:
    if log_q is None and (positive_log_q is not None or correct in ("negatives", "importance")):
        raise ValueError(
            "log_q is missing: give the log probability of a draw of each negative, or correct='all' without any "
            "log q, or correct='none'"
        )
    if log_q is not None and correct == "all" and positive_log_q is None:
        raise ValueError(
            "positive_log_q is missing: log q is subtracted from all logits, so give the log probability of a draw "
            "of each "
            "example's own class too, as sampler.log_prob(labels); or say correct='importance' (log(m q) off the "
            "negatives alone: the mean of the sum is the full softmax's) or correct='negatives'"
        )


def _check_shapes(positive_logits: Tensor, negative_logits: Tensor) -> None:
    if getattr(positive_logits, "ndim", 1) == 2 and getattr(negative_logits, "ndim", 3) != 3:
        raise ValueError(
            f"positive_logits must be a floating-point tensor [B], got {tuple(positive_logits.shape)}; one matrix of "
            "scores, in which the examples are one another's negatives, goes to in_batch(scores, ids)"
        )
    checks.floating("positive_logits", positive_logits, "[B] or [B, T]", 1, 2)
    checks.floating("negative_logits", negative_logits, "[B, m] or [B, T, m]", 2, 3)
    if negative_logits.device != positive_logits.device:
        raise ValueError(
            f"positive_logits is on {positive_logits.device} and negative_logits on {negative_logits.device}; they "
            "must be on one device"
        )
    if negative_logits.shape[:-1] != positive_logits.shape:
        raise ValueError(
            f"positive logits {tuple(positive_logits.shape)} and negatives {tuple(negative_logits.shape)}: there must "
            "be one row of negatives for each example, [B] and [B, m] or [B, T] and [B, T, m]"
        )
    if negative_logits.shape[-1] == 0:
        raise ValueError("there are 0 negatives: a sampled loss needs at least one negative for each example")


def _explain_logits(positive: Tensor, negative: Tensor, hits: Tensor | None) -> str | None:
    """What is wrong with the logits themselves of those that are not left out."""
    used = negative.detach() if hits is None else negative.detach().masked_fill(hits, 0)
    positive = positive.detach()
    if bool(positive.isnan().any()) or bool(used.isnan().any()):
        return "a logit is NaN"
    if bool((positive == -math.inf).any()) or bool((used == math.inf).any()):
        return "a positive logit is -inf or a negative one +inf: an infinite loss has no gradient"
    return None


def _explain(
    shape: torch.Size,
    log_q: checks.Values | None,
    positive_log_q: checks.Values | None,
    weights: Tensor | None,
    hits: Tensor | None,
) -> str:
    """What is wrong with the weights and the log probabilities of those that are not left out."""
    left_out = torch.zeros(shape, dtype=torch.bool, device="cpu") if hits is None else hits.cpu().expand(shape)
    if weights is not None:
        w = weights.detach().cpu().expand(shape)[~left_out]
        if len(wrong := w[~((w >= 0) & (w < math.inf))]):
            return f"weights must be finite numbers >= 0, got {wrong[0].item()!r}"
    laws = {"log_q": (log_q, "or mark the negative in hits"), "positive_log_q": (positive_log_q, INSTEAD)}
    for name, (given, instead) in laws.items() if log_q is not None else ():
        if given is not None:
            law = checks.reals(name, given).detach().cpu()
            if name == "log_q" and not bool(checks.above_one(law).all()):  # else no value is right
                law = law.expand(shape).masked_fill(left_out, 0)
            if fault := law_fault(name, law):
                return f"{fault}, {instead}" if "-inf" in fault else fault
    return "a weight is beyond the precision of the logits; take float64, or clamp log_q"


def law_fault(name: str, law: Tensor, kind: str = "column", ids: Tensor | None = None) -> str | None:
    """What is wrong with a log law of columns, or of ids: its first value that is above 0, NaN or -inf."""
    for at in (checks.above_one(law) | law.isnan()).nonzero().tolist()[:1]:
        place = f" at {at[0] if len(at) == 1 else tuple(at)}" if at else ""
        return f"{name} must hold logarithms of probabilities, got {law[tuple(at)].item()!r}{place}"
    for at in (law == -math.inf).nonzero().tolist()[:1]:
        column = at[-1] if at else 0
        return (
            f"{name} is -inf for {kind} {column if ids is None else int(ids[column])}, which was never counted: give "
            "all that can occur a positive probability (counts + 1)"
        )
    return None


def check_shape(name: str, values: Tensor, shape: torch.Size) -> None:
    """Check that values broadcast."""
    try:
        values.expand(shape)
    except RuntimeError:
        raise ValueError(f"{name} {tuple(values.shape)} does not broadcast to {tuple(shape)}") from None
