r"""The weights of Table 1, elementwise: arguments broadcast, so that they serve [B, m] draws and [L] classes alike.

A sampled loss sums :math:`w_{yy'} e^{f_{y'} - f_y}` over the m negatives; pass ``weights=`` what is returned here, and
no ``log_q``.

Source: Rawat et al., Table 1 and equation (16).
"""

import torch
from torch import Tensor

from sumexp import _checks as checks


def constant(log_q: checks.Values, m: int) -> Tensor:
    r""":math:`w_{yy'} = 1/m`, in the shape of ``log_q``."""
    return torch.full_like(checks.reals("log_q", log_q), 1 / checks.whole("m", m, 1, 1 << 53))


def importance(log_q: checks.Values, m: int) -> Tensor:
    r""":math:`w_{yy'} = 1/(m\,q_{y'})`; infinite for a class that is never drawn."""
    return torch.exp(-checks.reals("log_q", log_q)) / checks.whole("m", m, 1, 1 << 53)


def relative(log_q: checks.Values, log_q_positive: checks.Values) -> Tensor:
    r""":math:`w_{yy'} = q_y / q_{y'}`; 0 for a law that excludes the positive, and it lacks the factor 1/m."""
    own = checks.reals("log_q_positive", log_q_positive)
    return torch.where(own == -torch.inf, 0.0, torch.exp(own - checks.reals("log_q", log_q)))


def tail(log_q: checks.Values, m: int, log_prior: checks.Values, log_prior_positive: checks.Values) -> Tensor:
    r""":math:`w_{yy'} = \pi_{y'} / (m\,q_{y'}\,\pi_y)`, which targets the logit-adjusted loss; 0 where its prior is."""
    prior, own = checks.reals("log_prior", log_prior), checks.reals("log_prior_positive", log_prior_positive)
    weights = torch.exp(prior - own - checks.reals("log_q", log_q)) / checks.whole("m", m, 1, 1 << 53)
    return torch.where(prior == -torch.inf, 0.0, weights)
