r"""The worth of a negative: the variance of estimates by relative weights with hits kept.

At the minimum :math:`f = \log P` the loss of m draws is a correctly specified conditional likelihood, that of the
position of the true class among the m + 1 candidates. So the covariance of its gradient is its Hessian,

.. math:: V_m = H_m = m\sum_{a<b} P_aP_bJ_{ab}\,(e_a-e_b)(e_a-e_b)^\top, \qquad
          J_{ab} = \mathbb E\frac1{r_a+r_b+R_{m-1}} = \int_0^\infty e^{-t(r_a+r_b)}M(t)^{m-1}\,dt

with r = P/q, :math:`R_k` the sum of k draws' r and :math:`M(t) = \sum_y q_ye^{-tr_y}`. The estimate from N examples has
the asymptotic variance :math:`H_m^+/N`, and :math:`H_m` rises with m.
"""

import math

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.negatives.population import positive_laws


def information(log_p: Tensor, log_q: Tensor, m: int) -> Tensor:
    r"""The Hessian of the risk at its minimum, which is the covariance of one example's gradient, [classes, classes].

    ``log_p`` and ``log_q`` [classes] are the positive laws of labels and of one draw; m is from 1 to 2^53.
    """
    m = checks.whole("m", m, 1, 1 << 53)
    p, q = (law.exp() for law in positive_laws(log_p, log_q))
    r = p / q
    # In u = log t the integrand is analytic for |Im u| < pi/2, where the trapezoid rule of this step leaves 1e-16.
    step = 0.25
    low, high = -38 - math.log(m * r.max().item()), math.log(40 / r.min().item())
    u = torch.arange(low, high, step, dtype=torch.float64, device=r.device)
    terms = torch.exp(-u.exp().unsqueeze(-1) * r)  # [nodes, classes]
    mean, lost = terms @ q, torch.expm1(-u.exp().unsqueeze(-1) * r) @ q
    log_m = torch.where(mean < 0.5, mean.log(), torch.log1p(lost))  # each to all its digits
    weight = step * torch.exp(u + (m - 1) * log_m)
    pairs = m * torch.outer(p, p) * (terms.T @ (weight.unsqueeze(-1) * terms))
    pairs.fill_diagonal_(0)
    return torch.diag(pairs.sum(-1)) - pairs


def full_information(log_p: Tensor) -> Tensor:
    r"""The same for the full softmax, :math:`\operatorname{diag}P - PP^\top`, [classes, classes]."""
    p = checks.log_law("log_p", log_p).exp()
    pairs = torch.outer(p, p).fill_diagonal_(0)  # no difference 1 - p
    return torch.diag(pairs.sum(-1)) - pairs


def variance(information: Tensor) -> Tensor:
    """The variance of the estimate times N, [classes, classes]: the inverse on scores that sum to 0."""
    # The score of the best known class held at 0: the others' variances keep their digits, however rare a class is.
    best = information.clone().fill_diagonal_(0).abs().sum(-1).argmax()
    free = torch.arange(len(information), device=information.device) != best
    free_pairs, inverse = torch.outer(free, free), torch.zeros_like(information)
    root = torch.linalg.cholesky(information[free][:, free])
    inverse[free_pairs] = torch.cholesky_inverse(root).flatten()
    means = inverse.mean(0)
    return inverse - means - means.unsqueeze(-1) + means.mean()
