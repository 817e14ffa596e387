"""The minimum of a population loss by SciPy, the second way to `sumexp.negatives.consistency.minimiser`."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, root
from torch import Tensor

from sumexp.negatives import Losses, Scheme, implicit_loss


def implicit_losses(schemes: Sequence[Scheme]) -> Losses:
    """The exact implicit loss of each class as the label, from one scheme for each in order."""
    return lambda scores: torch.stack([implicit_loss(scores, scheme).loss for scheme in schemes])


def searched(of_scores: Losses, posterior: Tensor) -> Tensor:
    """The scores of least sum_y P(y) l(y, f), shifted to mean 0."""

    def risk(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = torch.tensor(point, requires_grad=True)
        value = posterior @ of_scores(scores)
        (slope,) = torch.autograd.grad(value, scores)
        return value.item(), slope.numpy()

    # Values of the risk settle its minimum to half their digits only; its slope settles the rest. Slopes sum to 0.
    start = minimize(risk, np.zeros(len(posterior)), jac=True, method="BFGS", options={"gtol": 1e-5})
    point = root(lambda at: risk(at)[1] + at.mean(), start.x, tol=1e-14).x
    assert np.abs(risk(point)[1]).max() <= 1e-10
    return torch.from_numpy(point - point.mean())
