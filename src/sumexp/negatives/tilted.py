r"""The minima of debiased and hard negatives, with free scores and infinitely many negatives.

In one context P is the distribution of the positives and q that of the draws. A fraction :math:`\tau` of the draws are
positives, :math:`q=\tau P+(1-\tau)r`. *Debiased* losses contrast with :math:`r=(q-\tau P)/(1-\tau)`, the distribution
of the true negatives; *hard* ones weight a negative by :math:`e^{\beta f}`. With both, the loss of label y is

.. math:: \log\bigl(1+Q\,e^{-f_y}G\bigr),\qquad
          G = \frac{\mathbb E_r e^{(1+\beta)f}}{\mathbb E_r e^{\beta f}},

where Q is the weight of the negatives, here infinite. With :math:`v=e^f/G` and :math:`\rho=P/r` the stationary point
solves

.. math:: \rho_k = \kappa\,v_k^\beta\,\bigl((1+\beta)v_k-\beta\bigr),\qquad \kappa\,\mathbb E_r v^\beta=1 .

The right side increases in every admissible v, so *neither tau nor beta changes the order* of the classes by P/q.

- :math:`\beta=0`: :math:`f=\log(P/r)`, finite if and only if :math:`\tau<\min_k q_k/P_k`.
- :math:`\beta>0`: one solution, compressed at the top, :math:`f\approx\frac1{1+\beta}\log\rho`, with a floor
  :math:`v_k>\frac\beta{1+\beta}`.

Proofs: :doc:`/notebooks/since`. The public code differs: it has m draws and Q = m
(:func:`sumexp.negatives.hard.hard_minimum` is exact for that, without debiasing), estimates the positives' mean from
one positive, so that :math:`G` can be negative and is clamped, and takes :math:`\tau` for the fraction of positives
among the *tilted* draws, which is :math:`\tau\,\mathbb E_Pe^{\beta f}/\mathbb E_qe^{\beta f}`.

Sources: C.-Y. Chuang et al., Debiased Contrastive Learning, NeurIPS 2020; J. Robinson et al., Contrastive Learning with
Hard Negative Samples, ICLR 2021; their public code.
"""

import math
from numbers import Real

import torch
from scipy.optimize import brentq
from torch import Tensor

from sumexp.negatives.population import positive_laws


def tilted(log_p: Tensor, log_q: Tensor, *, tau: float = 0.0, beta: float = 0.0) -> Tensor:
    r"""The scores [classes] at the stationary point, :math:`f-\log G`, deterministic, in float64, without gradients.

    Args:
        log_p: [classes] law of the positives, positive.
        log_q: [classes] law of the draws, positive.
        tau: the share of draws that are positives, :math:`0\le\tau<\min q/P`.
        beta: hardness, at least 0.

    >>> log_p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    >>> log_q = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64).log()
    >>> tilted(log_p, log_q).exp().numpy().round(6).tolist()  # P / q
    [2.0, 1.2, 0.4]
    >>> tilted(log_p, log_q, tau=0.25).exp().numpy().round(6).tolist()  # P / r, of r = (q - P / 4) * 4 / 3
    [3.0, 1.285714, 0.333333]
    >>> tilted(log_p, log_q, beta=1.0).exp().numpy().round(3).tolist()  # above 1/2
    [1.257, 1.046, 0.753]
    """
    log_p, log_q = positive_laws(log_p, log_q)
    for name, value in (("tau", tau), ("beta", beta)):
        if not isinstance(value, Real):
            raise ValueError(f"{name} is {value!r}; it must be a number")
    most, share = (log_q - log_p).min().exp().item(), tau * (log_p - log_q).exp()  # of a class's draws, positives
    if not (0 <= tau < most and bool((share < 1).all())):
        raise ValueError(f"tau is {tau!r}; it must be >= 0 and less than min q/P, {most:.6g}: no law is left otherwise")
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta is {beta!r}; it must be a number >= 0")
    log_rest = log_q + torch.log1p(-share) - math.log1p(-tau)
    log_ratio = log_p - log_rest
    if beta == 0:
        return log_ratio

    def of_x(x: Tensor) -> Tensor:
        """log v, which is near 0 for large beta, to its digits."""
        return torch.log((x + beta) / (1 + beta)) if beta < 1 else torch.log1p((x - 1) / (1 + beta))

    def log_v(log_kappa: float) -> Tensor:
        """log v by Newton's method in log x, x = (1 + beta) v - beta: convex, with slopes from 1 to 1 + beta."""
        target = log_ratio - log_kappa
        log_x = target.clamp_min(0) / (1 + beta) + target.clamp_max(0) + beta * math.log1p(1 / max(beta, 1e-300))
        for _ in range(200):
            x = log_x.exp()
            step = (beta * of_x(x) + log_x - target) / (1 + beta * x / (x + beta))
            log_x = log_x - step
            if step.abs().max() < 1e-14:
                break
        return of_x(log_x.exp())

    def excess(log_kappa: float) -> float:
        return log_kappa + (log_rest + beta * log_v(log_kappa)).logsumexp(0).item()

    low, high = -1.0, 1.0
    while excess(low) > 0:
        low *= 2
    while excess(high) < 0:
        high *= 2
    return log_v(float(brentq(excess, low, high, xtol=1e-15, rtol=1e-14)))
