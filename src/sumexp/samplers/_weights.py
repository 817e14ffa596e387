r"""The weights of Table 1, elementwise: arguments broadcast, so that they serve [B, m] draws and [L] classes alike.

A sampled loss sums :math:`w_{yy'} e^{f_{y'} - f_y}` over the m negatives; pass ``weights=`` what is returned here, and
no ``log_q``: a sampled loss with ``log_q`` makes :func:`relative`'s weights by itself, and with
``correct="importance"`` those of :func:`importance`.

Source: Rawat et al., Table 1 and equation (16).
"""

import torch
from torch import Tensor

from sumexp import _checks as checks


def constant(log_q: checks.Values, num_negatives: int) -> Tensor:
    r""":math:`w_{yy'} = 1/m`, in the shape of ``log_q``.

    >>> samplers.constant(torch.tensor([0.5, 0.1]).log(), 4)
    tensor([0.2500, 0.2500])
    """
    return torch.full_like(checks.logs("log_q", log_q), 1 / _count(num_negatives))


def importance(log_q: checks.Values, num_negatives: int) -> Tensor:
    r""":math:`w_{yy'} = 1/(m\,q_{y'})`; infinite for a class that is never drawn.

    >>> samplers.importance(torch.tensor([0.5, 0.1]).log(), 4)
    tensor([0.5000, 2.5000])
    """
    return torch.exp(-checks.logs("log_q", log_q)) / _count(num_negatives)


def relative(log_q: checks.Values, positive_log_q: checks.Values) -> Tensor:
    r""":math:`w_{yy'} = q_y / q_{y'}`; it lacks the factor 1/m.

    >>> samplers.relative(torch.tensor([0.5, 0.1]).log(), torch.tensor(0.25).log())
    tensor([0.5000, 2.5000])

    Raises:
        ValueError: if a positive is never drawn: all of its weights were 0, and nothing would be learned from it.
    """
    log_q = checks.logs("log_q", log_q)
    positive = checks.onto(checks.logs("positive_log_q", positive_log_q), log_q.device)
    checks.together(log_q=log_q, positive_log_q=positive)
    for least in checks.read(positive.detach().min()) if positive.numel() and positive.is_cpu else ():
        if least == -torch.inf:
            raise ValueError(
                "positive_log_q holds -inf: a label that is never drawn has relative weights 0, so that nothing is "
                "learned from it; give every label a positive probability"
            )
    return torch.exp(positive - log_q)


def tail(
    log_q: checks.Values, num_negatives: int, log_prior: checks.Values, positive_log_prior: checks.Values
) -> Tensor:
    r""":math:`w_{yy'} = \pi_{y'} / (m\,q_{y'}\,\pi_y)`, which targets the logit-adjusted loss; 0 where its prior is.

    >>> samplers.tail(torch.tensor([0.5, 0.1]).log(), 4, torch.tensor([0.4, 0.2]).log(), torch.tensor(0.1).log())
    tensor([2., 5.])
    """
    log_q, laws = checks.logs("log_q", log_q), {"log_prior": log_prior, "positive_log_prior": positive_log_prior}
    prior, positive = (checks.onto(checks.logs(name, law), log_q.device) for name, law in laws.items())
    checks.together(log_q=log_q, log_prior=prior, positive_log_prior=positive)
    weights = torch.exp(prior - positive - log_q) / _count(num_negatives)
    return torch.where(prior == -torch.inf, 0.0, weights)


def _count(num_negatives: int) -> int:
    return checks.whole("num_negatives", num_negatives, 1, 1 << 53)
