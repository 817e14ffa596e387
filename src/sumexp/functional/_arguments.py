"""What all losses do to their arguments: check them, choose the precision of the sums, reduce."""

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import read

Reduction = Literal["mean", "sum", "none"]
"""Mean over the batch, sum, or one loss for each example."""

REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


def reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    """The losses [B], their sum or their mean.

    Raises:
        ValueError: if the reduction is unknown, or the mean of an empty batch is asked for.
    """
    checks.choice("reduction", reduction, REDUCTIONS)
    match reduction:
        case "none":
            return losses
        case "sum":
            return losses.sum()
        case "mean":
            if not len(losses):
                raise ValueError("the batch is empty, so it has no mean; skip it, or use reduction='sum'")
            return losses.mean()


def for_sums(logits: Tensor) -> Tensor:
    """Logits in the precision in which sums of them are taken: at least float32."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


class Pair(NamedTuple):
    """The checked arguments of a sampled loss, in the precision of its sums.

    Attributes:
        positive: [B].
        negative: [B, m], 0 where it is left out.
        log_w: broadcastable to [B, m], the logarithms of the weights, -inf where left out; None where all are 1.
    """

    positive: Tensor
    negative: Tensor
    log_w: Tensor | None


def prepare(
    positive_logits: Tensor,
    negative_logits: Tensor,
    log_q: checks.Values | None = None,
    weights: checks.Values | None = None,
    hits: checks.Values | None = None,
    *,
    linear: bool = False,
) -> Pair:
    """Check the arguments of a sampled loss and take out its hits; all values are read back from the device at once.

    Args:
        positive_logits: [B].
        negative_logits: [B, m].
        log_q: broadcastable to [B, m].
        weights: broadcastable to [B, m].
        hits: broadcastable to [B, m]; what stands there of the others does not matter.
        linear: whether the weights themselves are needed, which may overflow, or only their logarithms.

    Raises:
        ValueError: for shapes that do not fit, m = 0, NaN, a positive of -inf, a negative of +inf, and outside the hits
            for weights that are negative or infinite and log_q that is above 0 or -inf.
    """
    _check_shapes(positive_logits, negative_logits)
    shape, device = negative_logits.shape, negative_logits.device
    positive, negative = for_sums(positive_logits), for_sums(negative_logits)
    log_w = None
    if weights is not None:
        weights = checks.reals("weights", weights).to(device)
        check_shape("weights", weights, shape)
        log_w = for_sums(weights.detach()).log()
    if log_q is not None:
        log_q = checks.reals("log_q", log_q).to(device)
        check_shape("log_q", log_q, shape)
        log_q = for_sums(log_q.detach())
        correction = -math.log(shape[1]) - log_q.masked_fill(log_q > 1e-6, math.nan)
        log_w = correction if log_w is None else log_w + correction
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
        if math.isnan(worst):
            raise ValueError("a logit is NaN")
        if worst == math.inf:
            raise ValueError("a positive logit is -inf or a negative one +inf: an infinite loss has no gradient")
        if not heaviest < (math.log(torch.finfo(negative.dtype).max) if linear else math.inf):
            raise ValueError(_explain(shape, log_q, weights, hits))
    return Pair(positive, negative, log_w if log_w is None else log_w.to(negative.dtype))


def _check_shapes(positive_logits: Tensor, negative_logits: Tensor) -> None:
    checks.floating("positive_logits", positive_logits, "[B]", 1)
    checks.floating("negative_logits", negative_logits, "[B, m]", 2)
    if negative_logits.shape[0] != positive_logits.shape[0]:
        raise ValueError(
            f"{positive_logits.shape[0]} positive logits and {negative_logits.shape[0]} rows of negatives: "
            "there must be one row for each example"
        )
    if negative_logits.shape[1] == 0:
        raise ValueError("m is 0: a sampled loss needs at least one negative for each example")


def _explain(shape: torch.Size, log_q: Tensor | None, weights: Tensor | None, hits: Tensor | None) -> str:
    """What is wrong with the weights of those that are not left out."""
    used = torch.ones(shape, dtype=torch.bool) if hits is None else ~hits.cpu().expand(shape)
    if weights is not None:
        w = weights.detach().cpu().expand(shape)[used]
        if len(wrong := w[~((w >= 0) & (w < math.inf))]):
            return f"weights must be finite numbers >= 0, got {wrong[0].item()!r}"
    if log_q is not None:
        q = log_q.cpu().expand(shape)[used]
        if len(wrong := q[~(q <= 1e-6)]):
            return f"log_q must hold logarithms of probabilities, got {wrong[0].item()!r}"
        if bool((q == -math.inf).any()):
            return (
                "log_q is -inf for a negative that is there: its class was never counted, and no weight makes up for "
                "it; give every class that can occur a positive probability (counts + 1), or mark the negative in hits"
            )
    return "a weight is beyond the precision of the logits; take float64, or clamp log_q"


def check_shape(name: str, values: Tensor, shape: torch.Size) -> None:
    """Check that values broadcast.

    Raises:
        ValueError: if they do not.
    """
    try:
        values.expand(shape)
    except RuntimeError:
        raise ValueError(f"{name} {tuple(values.shape)} does not broadcast to {tuple(shape)}") from None
