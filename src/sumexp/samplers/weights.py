r"""The weights of Table 1, elementwise: arguments broadcast, so that they serve [B, m] draws and [L] classes alike.

A sampled loss sums :math:`w_{yy'} e^{f_{y'} - f_y}` over the m negatives; pass ``weights=`` what is returned here, and
no ``log_q``.

Source: Rawat et al., Table 1 and equation (16).
"""

import torch
from torch import Tensor

from sumexp import checks


def constant(log_q: Tensor, m: int) -> Tensor:
    r""":math:`w_{yy'} = 1/m`, in the shape of ``log_q``."""
    return torch.full_like(log_q, 1 / checks.whole("m", m, 1, 1 << 53))


def importance(log_q: Tensor, m: int) -> Tensor:
    r""":math:`w_{yy'} = 1/(m\,q_{y'})`; infinite for a class that is never drawn."""
    return torch.exp(-log_q) / checks.whole("m", m, 1, 1 << 53)


def relative(log_q: Tensor, log_q_positive: Tensor) -> Tensor:
    r""":math:`w_{yy'} = q_y / q_{y'}`; 0 for a law that excludes the positive, and it lacks the factor 1/m."""
    return torch.where(log_q_positive == -torch.inf, 0.0, torch.exp(log_q_positive - log_q))


def tail(log_q: Tensor, m: int, log_prior: Tensor, log_prior_positive: Tensor) -> Tensor:
    r""":math:`w_{yy'} = \pi_{y'} / (m\,q_{y'}\,\pi_y)`, which targets the logit-adjusted loss; 0 where its prior is."""
    weights = torch.exp(log_prior - log_prior_positive - log_q) / checks.whole("m", m, 1, 1 << 53)
    return torch.where(log_prior == -torch.inf, 0.0, weights)
