r"""The cost of an estimated q: the minimum of the loss with draws from q and :math:`\log\hat q` subtracted.

With :math:`\log\hat q` subtracted from every logit and hits kept the minimum is (theorem *consistent* of the chapter
:doc:`/notebooks/negatives`)

.. math:: f_y = \log P(y\mid x) + \delta_y + \text{const}, \qquad \delta = \log\hat q - \log q,

so a constant factor costs nothing.
"""

import math

import torch
from torch import Tensor

from sumexp import _checks as checks


def cost(log_p: Tensor, log_q: Tensor, estimate: Tensor) -> Tensor:
    r"""The divergence of the minimum from the truth, in closed form.

    .. math:: \mathrm{KL} = \log\mathbb E_P\, e^{\delta} - \mathbb E_P\,\delta

    For small errors this is half the variance of :math:`\delta` under P. With :class:`sumexp.nn.StreamingLogQ` by gaps
    at the rate :math:`\alpha` the variance is :math:`\alpha/2` for ids seen many more than :math:`1/\alpha` times, so
    that the cost is :math:`\alpha/4`, and about :math:`1/n` for an id seen n times, fewer than :math:`1/\alpha`.

    ``log_p`` is :math:`\log P(y\mid x)` [..., classes], ``log_q`` [classes] the law of one draw and ``estimate``
    [classes] the finite :math:`\log\hat q`, which need not sum to 1. Classes with P = 0 do not count. The
    result is [...], in nats, and ``inf`` if a class with P > 0 is never drawn.
    """
    truth, law = checks.log_law("log_p", log_p), checks.log_law("log_q", log_q)
    if estimate.shape != law.shape or not bool(estimate.isfinite().all()):
        raise ValueError(f"the estimate of log q must hold {tuple(law.shape)} finite numbers: give unseen classes one")
    occurs, p = truth > -math.inf, truth.exp()
    shift = torch.where(occurs, estimate - law, 0.0)
    likeliest = truth.argmax(-1, keepdim=True).expand(*shift.shape[:-1], 1)
    above = torch.where(occurs, shift - shift.gather(-1, likeliest), 0.0)
    centred = torch.where(occurs, above - (p * above).sum(-1, keepdim=True), 0.0)
    # The mean of a small exponential is 1 to many digits; that of a large one leaves the range of floats.
    near = torch.log1p((p * torch.expm1(centred.clamp_max(700))).sum(-1))
    near = near - near.detach().clamp_max(0)  # by rounding less than 0; a clamp would drop the derivatives
    nats = torch.where((centred < 700).all(-1), near, torch.logsumexp(truth + centred, -1))
    return torch.where((shift < math.inf).all(-1), nats, math.inf)
