"""Losses over all classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import read
from sumexp.functional._arguments import NO_LABEL, Reduction, check_shape, for_sums, reduce


def cross_entropy(logits: Tensor, labels: checks.Values, *, reduction: Reduction = "mean") -> Tensor:
    r"""The softmax cross entropy :math:`\log\big(1 + \sum_{y'\ne y} e^{f_{y'} - f_y}\big)`.

    >>> functional.cross_entropy(torch.tensor([[2.0, 1.0, 0.0]]), [0])
    tensor(0.4076)

    Args:
        logits: [B, L] scores of all classes; -inf for a class that cannot be.
        labels: [B] each example's class.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: for shapes that do not fit, a label that is no class, NaN or +inf among the logits, a label whose
            logit is -inf, or the mean of an empty batch.

    Source: Rawat et al., equation (4); Stratos, equation (5).
    """
    classes = _check(logits, labels)
    return reduce(F.cross_entropy(for_sums(logits), classes, reduction="none", ignore_index=NO_LABEL), reduction)


def pairwise_margin(
    logits: Tensor, labels: checks.Values, log_rho: checks.Values, *, reduction: Reduction = "mean"
) -> Tensor:
    r"""The softmax cross entropy with pairwise margins.

    .. math:: \ell = \log\Big(1 + \sum_{y'\ne y} \rho_{yy'}\, e^{f_{y'} - f_y}\Big)

    One margin :math:`\delta` for all negatives is one subtracted from the label's own score: CosFace's is a
    constant, ArcFace's :func:`arcface_margin`, both times the scale of the cosines.

    >>> log_prior = torch.tensor([0.5, 0.25, 0.25]).log()
    >>> log_rho = functional.logit_adjusted(log_prior[:1], log_prior)
    >>> functional.pairwise_margin(torch.tensor([[2.0, 1.0, 0.0]]), [0], log_rho)
    tensor(0.2244)

    Args:
        logits: [B, L] scores of all classes.
        labels: [B] each example's class.
        log_rho: a number or broadcastable to [B, L], the margins; an example's own class has none, what stands there is
            ignored.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: as :func:`cross_entropy`, and for margins that do not broadcast or are NaN or +inf.

    Source: Rawat et al., equation (6).
    """
    checks.check_order("log_rho", log_rho)
    classes = _check(logits, labels)
    scores = for_sums(logits)
    margins = checks.reals("log_rho", log_rho).to(scores.device, scores.dtype)
    check_shape("log_rho", margins, scores.shape)
    margins = margins.expand(scores.shape).scatter(-1, classes.unsqueeze(-1), 0)
    return cross_entropy(scores + margins, classes, reduction=reduction)


def _check(logits: Tensor, labels: checks.Values) -> Tensor:
    """The labels, int64."""
    labels = checks.integers("label", labels).to(checks.floating("logits", logits, "[B, L]", 2).device)
    if labels.shape != logits.shape[:1]:
        raise ValueError(f"logits {tuple(logits.shape)} and labels {tuple(labels.shape)} must be [B, L] and [B]")
    if logits.shape[1] == 0:
        raise ValueError("the logits have no classes")
    if __debug__:
        checks.ids("label", labels, logits.shape[1])
    if __debug__ and labels.shape[0]:
        worst, lowest = read(logits.detach().max(), logits.detach().gather(-1, labels.unsqueeze(-1)).min())
        if not worst < torch.inf:
            raise ValueError(f"a logit is {worst}; logits must be finite, or -inf for a class that cannot be")
        if lowest == -torch.inf:
            raise ValueError("the logit of a label is -inf: an infinite loss has no gradient")
    return labels
