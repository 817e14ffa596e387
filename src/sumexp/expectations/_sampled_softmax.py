r"""The sampled softmax with importance weights, exactly."""

import math
from inspect import unwrap

import torch
from torch import Tensor

from sumexp._checks import argument, floating, together, whole
from sumexp.expectations._integrals import Expectations, expect
from sumexp.expectations._laws import MOST_DRAWS, Method, drawn, flat
from sumexp.expectations._sums import extremes


def sampled_softmax(
    logits: Tensor, label: int, m: int, log_q: Tensor | None = None, tol: float = 1e-12, method: Method = "auto"
) -> Expectations:
    r"""Expectations of the sampled softmax of one label, its m negatives drawn from q with replacement.

    .. math:: \hat p = \frac1{1+X}, \quad X = \frac1m \sum_{j=1}^m \frac{e^{f_{y_j} - f_{label}}}{q_{y_j}},\quad
              -\log\hat p = \log(1+X), \qquad y_j \sim q \text{ on the negatives.}

    Args:
        logits: [..., classes] logits f of all classes; ``-inf`` masks a negative.
        label: the positive class; it is never drawn, and q is normalised over the others.
        m: number of negatives, 1 to 2^53.
        log_q: [classes] or [..., classes] logarithm of the proposal, up to a constant; uniform if None. Where it is
            ``-inf`` the class is never drawn, and X does not see it.
        tol: relative error asked for.
        method: see :func:`sumexp.expectations.with_replacement`.

    Returns:
        ``probability`` and ``loss`` are the expected probability and loss of the label, each with its variance.

    Raises:
        ValueError: if ``label`` is no class, or its logit infinite; if m is out of range, a logit or proposal no
            number, or no negative can be drawn.

    Source: Lin, Liu, Lin, equation (4); Rawat et al., equation (7).
    """
    m = whole("m", m, 1, MOST_DRAWS)
    argument("tol", tol, float)
    negatives, positive = split_label("logits", logits, label)
    if log_q is None:
        proposal, log_x = None, (negatives - positive).add_(math.log(logits.shape[-1] - 1) - math.log(m))
        (ends,) = extremes(log_x.detach())
    else:
        floating("log_q", log_q, "[..., classes]")
        if log_q.shape[-1] != logits.shape[-1]:
            given, classes = tuple(log_q.shape), logits.shape[-1]
            raise ValueError(f"log_q has shape {given}; give one entry for each of {classes} classes")
        together(logits=logits, log_q=log_q)
        proposal = torch.log_softmax(split_label("log_q", log_q, label)[0], -1)
        log_x = (negatives - positive).sub_(math.log(m)) - proposal
        proposal = proposal if proposal.shape[:-1].numel() == 1 else proposal.expand_as(log_x)
        ends, (least, _) = extremes(log_x.detach(), proposal.detach())
        if math.isnan(least):
            fault = "NaN or +inf, or -inf at every negative"
            raise ValueError(f"log_q holds {fault}; it must be the logarithm of a proposal")
        if least == -math.inf:
            log_x = torch.where(proposal > -math.inf, log_x, -math.inf)  # of what is never drawn
            (ends,) = extremes(log_x.detach())
    if logits.numel() and not -math.inf < ends[0] <= ends[1] < math.inf:
        _check(negatives, positive, label)
    law = drawn(log_x.shape[:-1], flat(log_x), m, proposal, method, ends)
    results: Expectations = unwrap(expect)(law, tol)
    return results


def split_label(name: str, values: Tensor, label: int) -> tuple[Tensor, Tensor]:
    """The entries of all other classes [..., classes - 1] and of the label [..., 1], float64."""
    floating(name, values, "[..., classes]")
    if (classes := values.shape[-1]) < 2:
        raise ValueError(f"{name} has {classes} classes; two are needed, the label and a negative")
    label = whole("label", label, 0, classes - 1)
    others = torch.cat([values[..., :label], values[..., label + 1 :]], -1).to(torch.float64)
    return others, values[..., label : label + 1].to(torch.float64)


def _check(negatives: Tensor, positive: Tensor, label: int) -> None:
    """Raise where the label's logit is not finite, or that of a negative no logit."""
    wrong = positive[~torch.isfinite(positive)]
    if len(wrong):
        raise ValueError(f"logits[..., {label}], the label's, holds {wrong[0].item()}; it must be finite")
    if not negatives.detach().amax().item() < math.inf:
        raise ValueError("logits holds nan or inf; logits must be finite, or -inf for a masked negative")
