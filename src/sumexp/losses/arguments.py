"""What all losses do to their arguments: check them, choose the precision of the sums, reduce."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from sumexp.checks import read

Reduction = Literal["mean", "sum", "none"]
"""Mean over the batch, sum, or one loss for each example."""


def reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    """The losses [B], their sum or their mean.

    Raises:
        ValueError: if the reduction is unknown, or the mean of an empty batch is asked for.
    """
    match reduction:
        case "none":
            return losses
        case "sum":
            return losses.sum()
        case "mean":
            if not len(losses):
                raise ValueError("the batch is empty, so it has no mean; skip it, or use reduction='sum'")
            return losses.mean()
    raise ValueError(f"reduction is {reduction!r}; expected one of {', '.join(get_args(Reduction))}")


def for_sums(logits: Tensor) -> Tensor:
    """Logits in the precision in which sums of them are taken: at least float32."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def check_pair(positive_logits: Tensor, negative_logits: Tensor) -> None:
    """Check shapes, types and values of the logits of a sampled loss.

    Raises:
        ValueError: if they are not [B] and [B, m] with m >= 1, or hold NaN, a positive of -inf or a negative of +inf.
    """
    for name, logits, ndim in (("positive_logits", positive_logits, 1), ("negative_logits", negative_logits, 2)):
        if not logits.is_floating_point() or logits.ndim != ndim:
            shape = "[B]" if ndim == 1 else "[B, m]"
            raise ValueError(f"{name} must be floating-point {shape}, got {logits.dtype} of {tuple(logits.shape)}")
    if negative_logits.shape[0] != positive_logits.shape[0]:
        raise ValueError(
            f"{positive_logits.shape[0]} positive logits and {negative_logits.shape[0]} rows of negatives: "
            "there must be one row for each example"
        )
    if negative_logits.shape[1] == 0:
        raise ValueError("m is 0: a sampled loss needs at least one negative for each example")
    if __debug__ and negative_logits.numel():
        # One number to read back, +inf or NaN if either side is out of order.
        worst = read(torch.maximum(-positive_logits.detach().min(), negative_logits.detach().max()))
        if math.isnan(worst):
            raise ValueError("a logit is NaN")
        if worst == math.inf:
            raise ValueError("a positive logit is -inf or a negative one +inf: an infinite loss has no gradient")


def log_weights(shape: torch.Size, log_q: Tensor | None, weights: Tensor | None, hits: Tensor | None) -> Tensor | None:
    """log w, broadcastable to [B, m], float64 or the precision given; None where all weights are 1.

    Raises:
        ValueError: if a shape does not fit [B, m], a weight is negative or NaN, log_q is NaN or above 0.
    """
    result = None
    if weights is not None:
        check_shape("weights", weights, shape)
        if __debug__ and weights.numel() and not (least := read(weights.detach().min())) >= 0:
            raise ValueError(f"weights must be numbers >= 0, got {least!r}")
        result = for_sums(weights.detach()).log()
    if log_q is not None:
        check_shape("log_q", log_q, shape)
        if __debug__ and log_q.numel() and not (most := read(log_q.detach().max())) <= 1e-6:
            raise ValueError(f"log_q must hold logarithms of probabilities, got {most!r}")
        correction = -math.log(shape[1]) - for_sums(log_q.detach())
        result = correction if result is None else result + correction
    if hits is not None:
        check_shape("hits", hits, shape)
        if hits.dtype != torch.bool:
            raise ValueError(f"hits must be bool, got {hits.dtype}; compare ids with labels")
        if result is None:
            result = torch.zeros((), device=hits.device)
        result = result.masked_fill(hits, -math.inf)
    return result


def check_shape(name: str, values: Tensor, shape: torch.Size) -> None:
    """Check that values broadcast.

    Raises:
        ValueError: if they do not.
    """
    try:
        values.expand(shape)
    except RuntimeError:
        raise ValueError(f"{name} {tuple(values.shape)} does not broadcast to {tuple(shape)}") from None
