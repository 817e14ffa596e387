r"""From a transform on the nodes to expectations and variances, with gradients that do not cancel.

Variances come as integrals of a non-negative function. Choose c by :math:`\log(1+c) = \mathbb E\log(1+X)`; then
:math:`\int e^{-t}(L - e^{-tc})\,dt/t = 0`, and :math:`\log L` being convex, :math:`D = L - e^{-tc}` changes sign once,
at some :math:`t_*`, so that

.. math::
    \operatorname{Var}\log(1+X) = 2\int_0^\infty e^{-t}\,(\log t - \log t_*)\,D(t)\,\frac{dt}t, \qquad
    \operatorname{Var}\frac1{1+X} = \int_0^\infty e^{-t}\,(t - t_*)\,D(t)\,dt,

the second with c chosen by :math:`1/(1+c) = \mathbb E\,1/(1+X)`. Both integrands are non-negative: nothing cancels,
however small X is.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sumexp.expectations.kernels import bend
from sumexp.expectations.laws import Law, Transform, apply
from sumexp.expectations.quadrature import Rule, rule

EULER = 0.57721566490153286061


@dataclass(frozen=True)
class Expectations:
    r"""Exact expectations of one sum X; every tensor has the law's batch shape, float64, and carries gradients.

    Attributes:
        inverse: :math:`\mathbb E[1/(1+X)]`.
        log: :math:`\mathbb E\log(1+X)`.
        inverse_variance: :math:`\operatorname{Var}[1/(1+X)]`.
        log_variance: :math:`\operatorname{Var}\log(1+X)`.
        error: bound on the relative error of ``inverse`` and ``log`` by discretisation and truncation (rounding, some
            1e-15, comes on top); for the variances an estimate of the same size.
        nodes: number of quadrature nodes.
    """

    inverse: Tensor
    log: Tensor
    inverse_variance: Tensor
    log_variance: Tensor
    error: float
    nodes: int

    @property
    def inverse_square(self) -> Tensor:
        r""":math:`\mathbb E[1/(1+X)^2]`."""
        return self.inverse.square() + self.inverse_variance

    @property
    def log_square(self) -> Tensor:
        r""":math:`\mathbb E\log^2(1+X)`."""
        return self.log.square() + self.log_variance


def expect(law: Law, tol: float = 1e-12) -> Expectations:
    r"""Expectations of 1/(1+X) and log(1+X) and their variances, deterministic, to a relative error ``tol``.

    Args:
        law: how X is drawn; see :mod:`sumexp.expectations`.
        tol: relative error asked for; step and range of the quadrature follow from it.

    Returns:
        The expectations, with the batch shape of the law, differentiable in the law's tensors (first order).

    Raises:
        ValueError: if ``tol`` is out of range.
    """
    return integrate(law, rule(tol, law.log_max))


def integrate(law: Law, rule: Rule) -> Expectations:
    """The same as :func:`expect`, on the nodes of a given rule.

    Raises:
        ValueError: if the law spreads its classes and the rule's step is no multiple of the grid's.
    """
    t = rule.nodes(law.device).exp()
    # Left of this the transform is known by its excess over the mean term, which keeps the digits of small sums.
    split = t * law.mean_value.unsqueeze(-1) < 0.5
    outputs = apply(_Moments, *law.transform(rule, split), t, rule.step, split)
    inverse, log, inverse_variance, log_variance = (output.reshape(law.shape) for output in outputs)
    return Expectations(inverse, log, inverse_variance, log_variance, rule.bound, rule.count)


class _Moments(torch.autograd.Function):
    """(log L, excess, mean) on the nodes -> (inverse, log, inverse_variance, log_variance)."""

    @staticmethod
    def forward(
        ctx: Any, log_value: Tensor, excess: Tensor, mean: Tensor, t: Tensor, step: float, split: Tensor
    ) -> tuple[Tensor, ...]:
        value = log_value.exp()
        weight = step * torch.exp(-t)  # e^{-t} dt / t
        inverse = (weight * t * value).sum(-1)
        log = (weight * -torch.expm1(log_value)).sum(-1)
        moved = Transform(log_value, excess, mean)
        remainder = _remainder(moved, t, split)
        # c of the log: EX - c = (EX - E log) - (c - E log); both differences are positive and of second order.
        log_gap = torch.where(mean < 0.5, (weight * remainder).sum(-1) - bend(-log), mean - torch.expm1(log))
        log_difference = _difference(moved, t, split, torch.expm1(log), log_gap)
        # c of the inverse: with A = E[1/(1+X)] - 1 + EX, EX - c = (A (1 + EX) - EX^2) / E[1/(1+X)].
        odd = (weight * t * remainder).sum(-1)
        inverse_level = 1 / inverse - 1
        inverse_gap = torch.where(mean < 0.5, (odd * (1 + mean) - mean.square()) / inverse, mean - inverse_level)
        inverse_difference = _difference(moved, t, split, inverse_level, inverse_gap)
        log_t = t.log()
        cross_log, cross_inverse = _crossing(log_difference, t), _crossing(inverse_difference, t)
        log_variance = 2 * (weight * (log_t - cross_log.log()) * log_difference).sum(-1)
        inverse_variance = (weight * t * (t - cross_inverse) * inverse_difference).sum(-1)
        ctx.save_for_backward(value, inverse, log, log_difference, inverse_difference, t, split, mean < 0.5)
        ctx.step = step
        return inverse, log, inverse_variance.clamp_min(0), log_variance.clamp_min(0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        value, inverse, log, log_difference, inverse_difference, t, split, small = ctx.saved_tensors
        g_inverse, g_log, g_inverse_variance, g_log_variance = (g.unsqueeze(-1) for g in grads)
        inverse, log, weight = inverse.unsqueeze(-1), log.unsqueeze(-1), ctx.step * torch.exp(-t)
        # d(output) = sum over nodes of coefficient * d log L.
        plain = (g_inverse * t - g_log) * weight
        for_inverse_variance = g_inverse_variance * weight * t * (t - 2 * inverse)
        for_log_variance = g_log_variance * 2 * weight * (EULER + t.log() + log)
        coefficient = (plain + for_inverse_variance + for_log_variance) * value
        # On split nodes d log L = d excess - t d mean.
        summed = (torch.where(split, -coefficient, 0.0) * t).sum(-1)
        # Where X is small, a variance's part of that sum is a covariance that nearly cancels; it vanishes when L is
        # replaced by e^{-tc}, over all nodes: taking that off first keeps its digits.
        covariance = -(for_inverse_variance * inverse_difference + for_log_variance * log_difference) * t
        beyond = torch.where(split, -plain, for_inverse_variance + for_log_variance) * value * t
        g_mean = torch.where(small, (covariance + beyond).sum(-1), summed)
        zero = torch.zeros((), dtype=t.dtype, device=t.device)
        return torch.where(split, zero, coefficient), torch.where(split, coefficient, zero), g_mean, None, None, None


def _remainder(transform: Transform, t: Tensor, split: Tensor) -> Tensor:
    """L - 1 + t EX, as a sum of non-negative terms on split nodes."""
    shift = torch.where(torch.isfinite(transform.mean), transform.mean, 0.0).unsqueeze(-1) * t
    inside = torch.exp(-shift) * torch.expm1(torch.where(split, transform.excess, 0.0)) + bend(shift)
    return torch.where(split, inside, torch.expm1(transform.log_value) + shift)


def _difference(transform: Transform, t: Tensor, split: Tensor, level: Tensor, gap: Tensor) -> Tensor:
    """L - e^{-t c}, where c = ``level`` and ``gap`` = EX - c is known to more digits than c itself.

    Its logarithmic form log L + t c equals excess - t gap; of the two the one with the smaller terms keeps more digits.
    """
    shift, lag = level.unsqueeze(-1) * t, gap.unsqueeze(-1) * t
    by_excess = split & (torch.maximum(transform.excess, lag) < torch.maximum(-transform.log_value, shift))
    exponent = torch.where(by_excess, transform.excess - lag, transform.log_value + shift)
    near = torch.exp(-shift) * torch.expm1(exponent.clamp(-1, 1))
    return torch.where(exponent.abs() < 1, near, transform.log_value.exp() - torch.exp(-shift))


def _crossing(difference: Tensor, t: Tensor) -> Tensor:
    """The first node after the minimum at which the difference is positive, [..., 1]; any node near it serves."""
    order = torch.arange(t.numel(), device=t.device)
    positive = (difference > 0) & (order > difference.argmin(-1, keepdim=True))
    return t[positive.to(torch.int8).argmax(-1)].unsqueeze(-1)
