r"""The sampled decoupled loss :math:`\phi(f_y) + \sum_{y'\in\mathcal N} w_{yy'}\varphi(-f_{y'})`: exact moments.

It is linear in the sample, so mean and variance have closed forms, for any margin loss :math:`\varphi`.
"""

import math

import torch
from torch import Tensor

from sumexp._checks import typed
from sumexp.negatives.schemes import Scheme, exclude


@typed
def moments(negative_losses: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of the negative part :math:`\sum_{y'\in\mathcal N} w_{yy'}\varphi_{y'}`.

    .. math::
        \mathbb E = \sum_{y'} \rho_{yy'}\varphi_{y'}, \qquad
        \operatorname{Var} = m\sum_{y'} q_{y'}\Big(w_{yy'}\varphi_{y'} - \frac{\mathbb E}m\Big)^2
        = \sum_{y'} w_{yy'}\rho_{yy'}\varphi_{y'}^2 - \frac{\mathbb E^2}m .

    The centred form keeps its digits where the printed one cancels. Both are [...], differentiable in
    ``negative_losses``, the finite values :math:`\varphi(-f_{y'})` [..., classes].

    Source: Rawat et al., Lemma 1, (9) and (10).
    """
    if negative_losses.ndim == 0 or negative_losses.shape[-1] != scheme.classes:
        raise ValueError(f"negative_losses has shape {tuple(negative_losses.shape)}; expected {scheme.classes} classes")
    if not bool(torch.isfinite(negative_losses).all()):
        raise ValueError("a value of the margin loss is NaN or infinite")
    half = scheme.log_q / 2  # w may overflow where q w does not
    mean = ((scheme.log_q + scheme.log_w).exp() * negative_losses).sum(-1, keepdim=True)
    centred = (half + scheme.log_w).exp() * negative_losses - half.exp() * mean
    return scheme.m * mean.squeeze(-1), scheme.m * centred.square().sum(-1)


@typed
def least_variance_law(negative_losses: Tensor, log_rho: Tensor, label: int) -> Tensor:
    r"""The law of minimum variance for given margins, log q [..., classes]: :math:`q^*_{y'} \propto \rho|\varphi|`.

    For margin losses, which are not negative, the variance with :math:`w = \rho/(mq)` is then exactly 0. A negative of
    loss 0 is never drawn; give :func:`sumexp.negatives.targeting` a ``log_rho`` of -inf for it. Both
    ``negative_losses`` :math:`\varphi` and ``log_rho`` are [..., classes]; ``label`` gets probability 0.

    Source: Rawat et al., Proposition 5, equation (17).
    """
    if not (negative_losses.ndim and log_rho.ndim) or negative_losses.shape[-1] != log_rho.shape[-1]:
        shapes = f"negative_losses {tuple(negative_losses.shape)} and log_rho {tuple(log_rho.shape)}"
        raise ValueError(f"{shapes} must both be [..., classes]")
    if not bool(negative_losses.isfinite().all()) or not bool((log_rho < math.inf).all()):
        raise ValueError("a value of the margin loss is infinite, or a factor of the margins is")
    log_product = log_rho + negative_losses.to(torch.float64).abs().log()
    return exclude(log_product, label)
