"""Losses of a list with several relevant items."""

from __future__ import annotations

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import read
from sumexp.functional._arguments import Reduction, for_sums, reduce


def listnet(logits: Tensor, targets: checks.Values, *, reduction: Reduction = "mean") -> Tensor:
    r"""The ListNet loss: the cross entropy between a label distribution and the softmax of the scores.

    .. math:: \ell = -\sum_i t_i \log p_i, \qquad t_i = \frac{g_i}{\sum_j g_j}, \qquad p = \mathrm{softmax}(z)

    For 0/1 relevance it is :math:`-\frac1R\sum_{i\in\mathrm{Rel}}\log p_i`, the mean of the softmax cross entropies of
    the R relevant items, each taken for the only one; with R = 1 it is the softmax cross entropy.

    >>> functional.listnet(torch.tensor([[2.0, 1.0, 0.0]]), [[1, 0, 1]])
    tensor(1.4076)

    Args:
        logits: [B, L]; -inf for an item that cannot be, unless it is relevant.
        targets: [B, L] bool, or gains >= 0, constants that are normalised in float64; at least one is positive.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: for shapes that do not fit, NaN or +inf, a list without relevant item, a relevant item with logit
            -inf, a negative gain, or the mean of an empty batch.

    Source: the ranking post, ListNet loss; Bruch et al. (2019).
    """
    gains = _check(logits, targets)
    # Dividing by the largest first: no sum of gains can overflow.
    gains = gains / gains.amax(-1, keepdim=True)
    log_p = torch.log_softmax(for_sums(logits), -1)
    shares = (gains / gains.sum(-1, keepdim=True)).to(log_p.dtype)
    return reduce(-(shares * log_p.masked_fill(gains == 0, 0)).sum(-1), reduction)


def marginal(logits: Tensor, relevant: checks.Values, *, reduction: Reduction = "mean") -> Tensor:
    r"""The marginal loss :math:`-\log\sum_{i\in\mathrm{Rel}} p_i`, which is *no* bound of the log rank for R > 1.

    What it bounds is :math:`\log\big(1 + \frac{r-1}R\big)`, with r the rank of the first of the R relevant items.

    >>> functional.marginal(torch.tensor([[2.0, 1.0, 0.0]]), [[True, False, True]])
    tensor(0.2807)

    Args:
        logits: [B, L].
        relevant: [B, L] bool.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: as :func:`listnet`.
    """
    gains = _check(logits, relevant)
    log_p = torch.log_softmax(for_sums(logits), -1)
    return reduce(-log_p.masked_fill(gains == 0, -torch.inf).logsumexp(-1), reduction)


def _check(logits: Tensor, targets: checks.Values) -> Tensor:
    """The gains, in float64."""
    targets = checks.onto(checks.tensor("targets", targets), checks.floating("logits", logits, "[B, L]", 2).device)
    if targets.shape != logits.shape or targets.is_complex():
        raise ValueError(
            f"logits {tuple(logits.shape)} ({logits.dtype}) and targets {tuple(targets.shape)} ({targets.dtype}) must "
            "both be real numbers [B, L]"
        )
    if logits.shape[1] == 0:
        raise ValueError("the lists have no items")
    gains = targets.detach().to(checks.wide(targets.device))
    if __debug__ and logits.shape[0]:
        z = logits.detach()
        empty = (gains == 0).all(-1)
        own_scores = z.masked_fill(gains == 0, 0)
        highest, least, most, lowest, lacking = read(z.max(), gains.min(), gains.max(), own_scores.min(), empty.any())
        if not highest < torch.inf:
            raise ValueError("a logit is NaN or +inf; logits must be finite, or -inf for an item that cannot be")
        if not (least >= 0 and most < torch.inf):
            raise ValueError("targets must be finite numbers >= 0")
        if lacking:
            raise ValueError(f"list {int(empty.nonzero()[0])} has no relevant item; leave such lists out")
        if lowest == -torch.inf:
            raise ValueError("a relevant item has the logit -inf: an infinite loss has no gradient")
    return gains
