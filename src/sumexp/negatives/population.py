r"""The scores that minimise a loss over a population, which show the classes it favours.

At one x the *population minimiser* of a loss minimises :math:`\sum_y P(y\mid x)\,\ell(y, f)` over the scores f. If it
scores a rare label above a frequent one at equal posteriors, where the cross entropy's has equal scores, the loss
favours the tail. The pairwise-margin bound of a sampling scheme and its exact implicit loss need not agree.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, root
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import typed
from sumexp.functional._full import pairwise_margin
from sumexp.negatives.implicit import implicit_loss
from sumexp.negatives.schemes import Scheme

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


@typed
def implicit_losses(schemes: Sequence[Scheme]) -> Losses:
    r"""The exact implicit loss of each class as the label, from one scheme for each.

    Raises:
        ValueError: if the schemes' labels are not 0, 1, 2, ... in order.
    """
    if not schemes or [scheme.label for scheme in schemes] != list(range(len(schemes))):
        raise ValueError(f"labels are {[scheme.label for scheme in schemes]}; give one scheme for each class, in order")

    def of_scores(scores: Tensor) -> Tensor:
        return torch.stack([implicit_loss(scores, scheme).loss for scheme in schemes])

    return of_scores


@typed
def population_minimiser(of_scores: Losses, posterior: Tensor, tol: float = 1e-10) -> Tensor:
    r"""The scores of least :math:`\sum_y P(y\mid x)\,\ell(y,f)`, shifted to mean 0, [classes].

    Args:
        of_scores: the loss of each class, see :func:`margin_losses` and :func:`implicit_losses`.
        posterior: [classes] :math:`P(y\mid x)`, all positive.
        tol: largest coordinate of the gradient at the result.

    Raises:
        ValueError: if the posterior is no law with full support (the minimum then lies at infinity), or the search does
            not reach ``tol``.
    """
    p = _positive(posterior)

    def risk(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = torch.tensor(point, dtype=torch.float64, device=p.device, requires_grad=True)
        value = p @ of_scores(scores)
        (slope,) = torch.autograd.grad(value, scores)
        return value.item(), slope.cpu().numpy()

    def condition(point: NDArray[np.float64]) -> NDArray[np.float64]:
        return risk(point)[1] + float(point.mean())  # slopes sum to 0, so that both parts vanish together

    # Values of the risk settle its minimum to half their digits only; its slope settles the rest.
    start = minimize(risk, np.zeros(len(p)), jac=True, method="BFGS", options={"gtol": 1e-5})
    point = root(condition, start.x, tol=1e-14).x
    slope = float(np.abs(risk(point)[1]).max())
    if not slope <= tol:
        raise ValueError(f"the search stopped at a slope of {slope:.1e}; is the loss convex, its minimum finite?")
    scores = torch.from_numpy(point).to(p.device)
    return scores - scores.mean()


def positive_laws(log_p: Tensor, log_q: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithms of the laws of labels and of one draw, [classes] each, in float64 and without gradients.

    Raises:
        ValueError: if one does not sum to 1 or has a class of probability 0, the shapes differ or there is one class.
    """
    log_p, log_q = checks.log_law("log_p", log_p.detach()), checks.log_law("log_q", log_q.detach())
    if log_p.shape != log_q.shape or log_p.ndim != 1 or len(log_p) < 2 or not bool((log_p + log_q).isfinite().all()):
        shapes = f"log_p {tuple(log_p.shape)} and log_q {tuple(log_q.shape)}"
        raise ValueError(f"{shapes} must be positive laws on the same classes, two or more; leave out classes of law 0")
    return log_p, log_q


def _positive(posterior: Tensor) -> Tensor:
    """The posterior in float64, of full support: else the minimum lies at infinity."""
    p = checks.law("posterior", posterior.detach())
    if not bool((p > 0).all()):
        raise ValueError("the posterior of a class is 0; give a positive law")
    return p
