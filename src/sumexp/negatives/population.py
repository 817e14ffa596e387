r"""The scores that minimise a loss over a population, which show the classes it favours.

At a given x the *population minimiser* of a loss minimises :math:`\sum_y P(y\mid x)\,\ell(y, f)` over the scores f. If
it scores a rare label above a frequent label of equal posterior, the loss favours the tail. The pairwise-margin bound
of a sampling scheme and its exact implicit loss need not agree.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import typed
from sumexp.functional._full import pairwise_margin

Losses = Callable[[Tensor], Tensor]
"""Scores [classes] to the loss of each class as the label, [classes]; convex, and unchanged by a common shift."""


@typed
def margin_losses(log_rho: Tensor) -> Losses:
    r"""The pairwise-margin loss of each class as the label, for :math:`\log\rho` [classes, classes] or what broadcasts.

    Source: Rawat et al., equation (6).
    """

    def of_scores(scores: Tensor) -> Tensor:
        labels = torch.arange(len(scores), device=scores.device)
        return pairwise_margin(scores.expand(len(scores), -1), labels, log_rho, reduction="none")

    return of_scores


def positive_laws(log_p: Tensor, log_q: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithms of the laws of labels and of one draw, [classes] each, in float64 and without gradients.

    Raises:
        ValueError: if a sum is not 1, a probability is below 1e-299, the shapes differ or there is one class.
    """
    log_p, log_q = checks.log_law("log_p", log_p.detach()), checks.log_law("log_q", log_q.detach())
    wrong = log_p.shape != log_q.shape or log_p.ndim != 1 or len(log_p) < 2
    if wrong or not torch.minimum(log_p, log_q).min() > -690:  # the reciprocals must be finite
        shapes = f"log_p {tuple(log_p.shape)} and log_q {tuple(log_q.shape)}"
        raise ValueError(f"{shapes} must be positive laws on the same classes, two or more; leave out any below 1e-299")
    return log_p, log_q
