r"""The pairwise-margin losses :math:`\log(1+\sum_{y'\ne y}\rho_{yy'}e^{f_{y'}-f_y})`, and whom they favour.

:math:`\log\rho_{yy'}` is a margin: the loss of :math:`f` with :math:`\rho` is the cross entropy of y after lowering
:math:`f_y` against each :math:`f_{y'}` by it. Whom a loss favours shows in its *population minimiser*: the scores that
minimise :math:`\sum_y P(y\mid x)\,\ell(y,f)`. At equal posteriors the cross entropy gives equal scores; a loss that
scores a rare label above a frequent one there favours the tail.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

Losses = Callable[[Tensor], Tensor]
"""Scores [classes] to the loss of each class as the label, [classes]; convex, and unchanged by a common shift."""


def adaptive(log_prior: Tensor, labels: Tensor, largest: float = 0.5) -> Tensor:
    r"""Margins of the adaptive loss (LDAM): :math:`\log\rho_{yy'} = C\,\pi_y^{-1/4}`, [..., classes].

    Args:
        log_prior: [classes] logarithm of the label law.
        labels: [...] the positives.
        largest: the margin of the rarest class, which sets C.

    Raises:
        ValueError: if a class has probability 0.

    Source: Cao et al. (2019); Rawat et al., section 2.1, where rho stands for its logarithm.
    """
    log_prior = _prior(log_prior)
    margin = largest * torch.exp((log_prior.min() - log_prior) / 4)
    return margin[labels].unsqueeze(-1).expand(*labels.shape, len(log_prior))


def equalised(log_prior: Tensor, labels: Tensor, power: float = 1.0) -> Tensor:
    r"""Margins of an equalised loss: :math:`\rho_{yy'} = \pi_{y'}^{\text{power}}`, [..., classes].

    Within-batch sampling with constant weights has it, with power 1, as its bound (13).

    Raises:
        ValueError: if a class has probability 0.

    Source: Tan et al. (2020); Rawat et al., section 2.1.
    """
    log_prior = _prior(log_prior)
    return (power * log_prior).expand(*labels.shape, len(log_prior))


def logit_adjusted(log_prior: Tensor, labels: Tensor) -> Tensor:
    r"""Margins of the logit-adjusted loss: :math:`\rho_{yy'} = \pi_{y'}/\pi_y`, [..., classes].

    Its population minimiser is :math:`f_y = \log P(y\mid x) - \log\pi_y` up to a constant.

    Raises:
        ValueError: if a class has probability 0.

    Source: Menon et al. (2020); Rawat et al., section 2.1.
    """
    log_prior = _prior(log_prior)
    return log_prior - log_prior[labels].unsqueeze(-1)


def margin_losses(log_rho: Tensor) -> Losses:
    r"""The pairwise-margin loss of every class as the label, for :math:`\log\rho` [classes, classes]; its diagonal is idle.

    Raises:
        ValueError: if ``log_rho`` is not square, or holds NaN or +inf off its diagonal.

    Source: Rawat et al., equation (6).
    """  # noqa: E501
    if log_rho.ndim != 2 or log_rho.shape[0] != log_rho.shape[1]:
        raise ValueError(f"log_rho has shape {tuple(log_rho.shape)}; give one row and one column per class")
    off = log_rho.to(torch.float64).clone()
    off.fill_diagonal_(0)
    if not bool((off < math.inf).all()):
        raise ValueError("log_rho holds NaN or +inf; rho is finite and not negative (-inf is rho = 0)")

    def losses(scores: Tensor) -> Tensor:
        return torch.logsumexp(off + scores, -1) - scores

    return losses


def population_minimiser(losses: Losses, posterior: Tensor, tol: float = 1e-9) -> Tensor:
    r"""The scores of least :math:`\sum_y P(y\mid x)\,\ell(y,f)`, shifted to mean 0, [classes].

    Args:
        losses: the loss of every class; :func:`margin_losses`, or the exact implicit losses stacked.
        posterior: [classes] :math:`P(y\mid x)`, all positive.
        tol: largest coordinate of the gradient at the result.

    Raises:
        ValueError: if the posterior is no law with full support (the minimum then lies at infinity), or the search does
            not reach ``tol``.
    """
    p = posterior.detach().to(torch.float64)
    if not bool((p > 0).all()) or abs(p.sum().item() - 1) > 1e-6:
        raise ValueError(f"posterior sums to {p.sum().item()!r}, least {p.min().item()!r}; give a positive law")

    def risk(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        value = p @ losses(scores)
        (slope,) = torch.autograd.grad(value, scores)
        return value.item(), slope.numpy()

    result = minimize(risk, np.zeros(len(p)), jac=True, method="BFGS", options={"gtol": tol / 10, "maxiter": 2000})
    slope = float(np.abs(result.jac).max())
    if not slope <= tol:
        raise ValueError(f"the search stopped at a slope of {slope:.1e}; is the loss convex, its minimum finite?")
    scores = torch.from_numpy(result.x)
    return scores - scores.mean()


def _prior(log_prior: Tensor) -> Tensor:
    log_prior = log_prior.to(torch.float64)
    if not bool(torch.isfinite(log_prior).all()):
        raise ValueError("every class needs positive probability: log_prior must be finite")
    return log_prior
