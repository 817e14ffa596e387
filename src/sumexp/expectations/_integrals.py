r"""From a transform on the nodes to expectations and variances, each accurate relative to itself.

*Jensen gaps.* With :math:`\mu = \mathbb EX` the difference :math:`L(t) - e^{-t\mu}` is not negative, so that

.. math::
    \mathbb E\frac1{1+X} - \frac1{1+\mu} = \int_0^\infty e^{-t}\,(L - e^{-t\mu})\,dt, \qquad
    \log(1+\mu) - \mathbb E\log(1+X) = \int_0^\infty e^{-t}\,(L - e^{-t\mu})\,\frac{dt}t

are integrals of non-negative functions. By Taylor's formula :math:`L - e^{-t\mu} = t^2\psi(t)` with the Laplace
transform :math:`\psi` of a non-negative measure, so that the bound on the trapezoid rule holds for them too, with
powers 3 and 2.

*Variances.* Choose c by :math:`\log(1+c) = \mathbb E\log(1+X)`; then
:math:`\int e^{-t}(L - e^{-tc})\,dt/t = 0`, and :math:`\log L` being convex, :math:`D = L - e^{-tc}` changes sign once,
at some :math:`t_*`, so that

.. math::
    \operatorname{Var}\log(1+X) = 2\int_0^\infty e^{-t}\,(\log t - \log t_*)\,D(t)\,\frac{dt}t, \qquad
    \operatorname{Var}\frac1{1+X} = \int_0^\infty e^{-t}\,(t - t_*)\,D(t)\,dt,

the second with c chosen by :math:`1/(1+c) = \mathbb E\,1/(1+X)`. Both integrands are non-negative. D itself comes from
the *excess* :math:`\log L + t\mu \ge 0`, which the laws build from centred terms, and from :math:`\mu - c`, which the
Jensen gaps give: so a variance keeps its digits however small X is, and however slightly it scatters.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from numpy import euler_gamma
from torch import Tensor

from sumexp._checks import first_order, typed
from sumexp.expectations._laws import Law
from sumexp.expectations._transforms import Transform, apply
from sumexp.expectations.quadrature import Rule, rule

NEAR = 80.0
"""Up to t EX = 80 differences are taken by the excess; beyond it a sum that scatters slightly has L < e^-79, whose
rounding is nothing compared with a variance 1e-24 times the squared mean."""


@dataclass(frozen=True)
class Expectations:
    r"""Exact expectations of one sum X; every tensor has the law's batch shape, float64, and carries gradients.

    Attributes:
        probability: :math:`\mathbb E[1/(1+X)]`.
        loss: :math:`\mathbb E\log(1+X)`.
        probability_variance: :math:`\operatorname{Var}[1/(1+X)]`.
        loss_variance: :math:`\operatorname{Var}\log(1+X)`.
        probability_gap: :math:`\mathbb E[1/(1+X)] - 1/(1+\mathbb EX) \ge 0`; NaN where the mean is unknown (`laplace`).
        loss_gap: :math:`\log(1+\mathbb EX) - \mathbb E\log(1+X) \ge 0`; NaN where the mean is unknown.
        error: bound on the relative error of ``probability``, ``loss`` and the gaps by discretisation and truncation
            (rounding comes on top: some 1e-15 for the first two); for the variances an estimate of the same size.
        nodes: number of quadrature nodes.

    Gaps and variances are accurate relative to themselves, however slightly X scatters. Only where a sum k times the
    others has a probability p below 1e-6, a variance has a larger relative error, up to 1e-15 times min(k, 1/p).
    The *gradients* are sums of terms that nearly cancel where X scatters slightly: with the coefficient of variation v
    they lose about -log10(v) digits.
    """

    probability: Tensor
    loss: Tensor
    probability_variance: Tensor
    loss_variance: Tensor
    probability_gap: Tensor
    loss_gap: Tensor
    error: float
    nodes: int

    @property
    def probability_square(self) -> Tensor:
        r""":math:`\mathbb E[1/(1+X)^2]`."""
        return self.probability.square() + self.probability_variance

    @property
    def loss_square(self) -> Tensor:
        r""":math:`\mathbb E\log^2(1+X)`."""
        return self.loss.square() + self.loss_variance


@typed
def expect(law: Law, tol: float = 1e-12) -> Expectations:
    r"""Expectations of 1/(1+X) and log(1+X) and their variances, deterministic, to a relative error ``tol``.

    Args:
        law: how X is drawn; see :mod:`sumexp.expectations`.
        tol: relative error asked for; step and range of the quadrature follow from it.

    Returns:
        The expectations, with the batch shape of the law, differentiable in the law's tensors (first order).

    Raises:
        ValueError: if ``tol`` is out of range.
        RuntimeError: in a backward pass that is to be differentiated again.
    """
    return integrate(law, rule(tol, law.log_max))


@typed
def integrate(law: Law, rule: Rule) -> Expectations:
    """The same as :func:`expect`, on the nodes of a given rule.

    Raises:
        ValueError: if the law spreads its classes and the rule's step is no multiple of the grid's.
    """
    t = rule.nodes(law.device).exp()
    reach = t * law.mean_value.unsqueeze(-1)
    # Where tX is small the gradient too is taken through the excess, which keeps the digits of small sums.
    near, split = reach < NEAR, reach < 0.5
    outputs = apply(_Moments, *law.transform(rule, near), t, rule.step, near, split)
    probability, loss, probability_variance, loss_variance, probability_gap, loss_gap = (
        out.to(law.place).reshape(law.shape) for out in outputs
    )
    return Expectations(
        probability, loss, probability_variance, loss_variance, probability_gap, loss_gap, rule.bound, rule.count
    )


class _Moments(torch.autograd.Function):
    """(log L, excess, mean) on the nodes -> (probability, loss, their variances, their Jensen gaps)."""

    @staticmethod
    def forward(
        ctx: Any,
        log_value: Tensor,
        excess: Tensor,
        mean: Tensor,
        t: Tensor,
        step: float,
        near: Tensor,
        split: Tensor,
    ) -> tuple[Tensor, ...]:
        value, missing = log_value.exp(), -torch.expm1(log_value)
        places = torch.stack([t.log(), t]).unsqueeze(1)
        weight = step * torch.exp(-t)  # e^{-t} dt / t
        weights = torch.stack([weight, weight * t]).unsqueeze(1)  # of the loss and of the probability
        probability, (loss, rest) = (weights[1] * value).sum(-1), (weights * missing).sum(-1)
        known = torch.isfinite(mean)
        at_mean = torch.exp(-torch.where(known, mean, 0.0).unsqueeze(-1) * t)
        above = torch.where(near, at_mean * torch.expm1(torch.where(near, excess, 0.0)), value - at_mean).clamp_min(0)
        loss_gap, probability_gap = torch.where(known, (weights * above).sum(-1), math.nan)
        # Both levels c by what is not negative, and EX - c by the gaps.
        levels = torch.stack([torch.expm1(loss), rest / probability])
        lags = (1 + mean) * torch.stack([-torch.expm1(-loss_gap), probability_gap / probability])
        differences = _difference(Transform(log_value, excess, mean), t, near, levels, lags)
        crossing = places.expand_as(differences).gather(-1, _crossing(differences))
        loss_variance, probability_variance = (weights * (places - crossing) * differences).sum(-1).clamp_min(0)
        loss_difference, probability_difference = differences
        ctx.save_for_backward(value, probability, loss, loss_difference, probability_difference, t, split, mean)
        ctx.step = step
        return probability, loss, probability_variance, 2 * loss_variance, probability_gap, loss_gap

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        value, probability, loss, loss_difference, probability_difference, t, split, mean = ctx.saved_tensors
        small, (*_, g_probability_gap, g_loss_gap) = mean < 0.5, grads
        # The gaps are probability - 1 / (1 + EX) and log(1 + EX) - loss.
        at_mean = g_probability_gap / (1 + mean).square() + g_loss_gap / (1 + mean)
        grads = (grads[0] + g_probability_gap, grads[1] - g_loss_gap, *grads[2:4])
        g_probability, g_loss, g_probability_variance, g_loss_variance = (g.unsqueeze(-1) for g in grads)
        probability, loss, weight = probability.unsqueeze(-1), loss.unsqueeze(-1), ctx.step * torch.exp(-t)
        # d(output) = sum over nodes of coefficient * d log L.
        plain = (g_probability * t - g_loss) * weight
        for_probability_variance = g_probability_variance * weight * t * (t - 2 * probability)
        for_loss_variance = g_loss_variance * 2 * weight * (euler_gamma + t.log() + loss)
        coefficient = (plain + for_probability_variance + for_loss_variance) * value
        # On split nodes d log L = d excess - t d mean.
        summed = (torch.where(split, -coefficient, 0.0) * t).sum(-1)
        # Where X is small, a variance's part of that sum is a covariance that nearly cancels; it vanishes when L is
        # replaced by e^{-tc}, over all nodes: taking that off first keeps its digits.
        covariance = -(for_probability_variance * probability_difference + for_loss_variance * loss_difference) * t
        beyond = torch.where(split, -plain, for_probability_variance + for_loss_variance) * value * t
        g_mean = torch.where(small, (covariance + beyond).sum(-1), summed) + at_mean
        zero = torch.zeros((), dtype=t.dtype, device=t.device)
        for_value, for_excess = torch.where(split, zero, coefficient), torch.where(split, coefficient, zero)
        return for_value, for_excess, g_mean, None, None, None, None


def _difference(transform: Transform, t: Tensor, near: Tensor, level: Tensor, lag: Tensor) -> Tensor:
    """L - e^{-t c} [..., batch, nodes] for c = ``level``, where ``lag`` = EX - c has more digits than c itself.

    Its logarithmic form log L + t c equals excess - t lag; of the two the one with the smaller terms keeps more digits.
    """
    shift, late = level.unsqueeze(-1) * t, lag.unsqueeze(-1) * t
    by_excess = near & (torch.maximum(transform.excess, late) < torch.maximum(-transform.log_value, shift))
    exponent = torch.where(by_excess, transform.excess - late, transform.log_value + shift)
    near = torch.exp(-shift) * torch.expm1(exponent.clamp(-1, 1))
    return torch.where(exponent.abs() < 1, near, transform.log_value.exp() - torch.exp(-shift))


def _crossing(difference: Tensor) -> Tensor:
    """The first node after the minimum at which the difference is positive, [..., 1]; any node near it serves."""
    order = torch.arange(difference.shape[-1], device=difference.device)
    positive = (difference > 0) & (order > difference.argmin(-1, keepdim=True))
    return positive.to(torch.int8).argmax(-1, keepdim=True)
