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
from inspect import unwrap
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sumexp._checks import first_order, refuse_batched, typed
from sumexp.expectations._arrays import Array, alike, light, namespace, tensor
from sumexp.expectations._laws import Law
from sumexp.expectations._sums import refuse_transforms
from sumexp.expectations._transforms import Transform, apply
from sumexp.expectations.quadrature import Rule, places, rule

NEAR = 80.0
"""Up to t EX = 80 differences are taken by the excess; beyond it a sum that scatters slightly has L < e^-79, whose
rounding is nothing compared with a variance 1e-24 times the squared mean."""

LARGE = 1e100
"""Of larger means a gradient of Var[1/(1+X)] has t^3 on the nodes, which underflows."""


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
        error: bound on the relative error of ``probability`` and ``loss`` by discretisation and truncation (rounding
            comes on top: some 1e-15). That of the gaps is below the tolerance asked for.
        nodes: number of quadrature nodes.

    Gaps and variances are accurate relative to themselves, down to a coefficient of variation of X of 1e-12. Only where
    a sum k times the others has a probability p below 1e-6, a variance has a larger relative error, up to 5e-15 times
    min(k, 1/p): none of its digits hold for k and 1/p above 1e14.
    The *gradients* are sums of terms that nearly cancel where X scatters slightly: with the coefficient of variation v
    they lose about -log10(v) digits, those in log q about twice as many, with v that of one term.
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
    r"""Expectations of 1/(1+X) and log(1+X), deterministic, to a relative error ``tol``; their variances to 10 tol.

    Args:
        law: how X is drawn; see :mod:`sumexp.expectations`.
        tol: relative error asked for; step and range of the quadrature follow from it. Variances need 0.01 or less.

    Returns:
        The expectations, with the batch shape of the law, differentiable in the law's tensors (first order).

    Raises:
        ValueError: if ``tol`` is out of range.
        RuntimeError: in a backward pass that is to be differentiated again.
    """
    results: Expectations = unwrap(integrate)(law, unwrap(rule)(tol, law.log_max))
    return results


@typed
def integrate(law: Law, rule: Rule) -> Expectations:
    """The same as :func:`expect`, on the nodes of a given rule.

    Raises:
        ValueError: if the law spreads its classes and the rule's step is no multiple of the grid's.
    """
    refuse_transforms()
    (mean,) = light(law.mean_value, count=math.prod(law.shape) * rule.count)
    near = tensor(alike(places(rule)[1], mean) * mean[:, None] < NEAR)
    (stacked,) = apply(_Moments, *law.transform(rule, near), rule, near)
    stacked = stacked.to(law.place).reshape(6, *law.shape)
    six = [stacked[i] for i in range(6)] if stacked.requires_grad else stacked.unbind()
    return Expectations(six[0], six[1], six[2], six[3], six[4], six[5], rule.bound, rule.count)


class _Moments(torch.autograd.Function):
    """(log L, excess, mean) on the nodes -> the six tensors of :class:`Expectations`, [6, batch]."""

    @staticmethod
    @np.errstate(all="ignore")
    def forward(ctx: Any, log_value: Tensor, excess: Tensor, mean: Tensor, rule: Rule, near: Tensor) -> tuple[Tensor]:
        *of_sum, close = light(log_value, excess, mean, near, count=log_value.numel())
        law = Transform(*of_sum)
        xp, table = namespace(law.mean), alike(places(rule), law.mean)[:, None]
        nodes, weights, t = table[:2], table[2:], table[1]  # of the loss and of the probability
        value, missing = xp.exp(law.log_value), -xp.expm1(law.log_value)
        probability, (loss, rest) = (weights[1] * value).sum(-1), (weights * missing).sum(-1)
        at_mean = xp.exp(-law.mean[:, None] * t)
        above = xp.where(close, at_mean * xp.expm1(law.excess), value - at_mean).clip(min=0)
        gaps = xp.where(xp.isfinite(law.mean), (weights * above).sum(-1), math.nan)
        # Both levels c by what is not negative, and EX - c by the gaps.
        levels = xp.stack([xp.expm1(loss), rest / probability])
        lags = (1 + law.mean) * xp.stack([-xp.expm1(-gaps[0]), gaps[1] / probability])
        differences = _difference(law, t, close, levels, lags)
        # The first node after the minimum at which the difference is positive; any node near it serves.
        u = nodes[0, 0]
        after = (differences > 0) & (u > u[differences.argmin(-1)][..., None])
        crossing = xp.stack([place[0][k] for place, k in zip(nodes, (after * 1.0).argmax(-1), strict=True)])
        variances = (weights * (nodes - crossing[..., None]) * differences).sum(-1).clip(min=0)
        six = xp.stack([probability, loss, variances[1], 2 * variances[0], gaps[1], gaps[0]])
        ctx.rule = rule
        # Of the outputs a copy: the caller may change them.
        kept = map(tensor, (value, six[:2] * 1.0, differences, above, levels))
        ctx.save_for_backward(*kept, excess, near, mean)
        return (tensor(six),)

    @staticmethod
    @first_order
    @np.errstate(all="ignore")
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_batched(grads)
        saved = light(*(kept := ctx.saved_tensors), count=kept[0].numel())  # unpacked once, for checkpoints
        value, (probability, loss), differences, above, levels, excess, near, mean = saved
        xp, (log_t, t, weight, _), given = namespace(value), alike(places(ctx.rule), value), alike(grads, value)
        g_probability, g_loss, g_probability_variance, g_loss_variance, g_probability_gap, g_loss_gap = given[..., None]
        # d(output) = sum over nodes of coefficient * L * d log L, of a gap also of coefficient * t e^{-t mean} d mean.
        plain, for_gap = (g_probability * t - g_loss) * weight, (g_probability_gap * t + g_loss_gap) * weight
        of_loss = 2 * g_loss_variance * (np.euler_gamma + log_t + loss[:, None])
        for_variance = weight * xp.stack([of_loss, g_probability_variance * t * (t - 2 * probability[:, None])])
        # With d log L = d excess - t d mean: of a variance this vanishes where L is e^{-tc}, over all nodes;
        # taking that off keeps digits where the excess is small. d mean gets the smaller of two sums that cancel.
        at_level, at_mean = xp.exp(-levels[..., None] * t), xp.exp(-mean[:, None] * t)
        slight = near & (2 * excess < (t * mean[:, None]).clip(max=1))
        slight = xp.stack([slight, slight & (mean < LARGE)[:, None]])
        inside = xp.where(slight, for_variance * at_level, 0.0)
        moved, left = inside * t, xp.where(slight, 0.0, for_variance * at_level * t)
        by_left = abs(left).sum(-1) < abs(moved).sum(-1)
        for_mean = xp.where(by_left, left.sum(-1), -moved.sum(-1)).sum(0)
        of_variances = (for_variance * xp.where(slight, differences, value)).sum(0)
        for_value = plain * value + for_gap * xp.where(near, above, value) + of_variances
        for_excess = xp.where(near, for_gap * at_mean, 0.0) + inside.sum(0)
        return tensor(for_value), tensor(for_excess), tensor(for_mean), None, None


def _difference(transform: Transform, t: Array, near: Array, level: Array, lag: Array) -> Array:
    """L - e^{-t c} [..., batch, nodes] for c = ``level``, where ``lag`` = EX - c has more digits than c itself.

    Its logarithmic form log L + t c equals excess - t lag; of the two the one with the smaller terms keeps more digits.
    """
    xp, shift, late = namespace(t), level[..., None] * t, lag[..., None] * t
    by_excess = near & (xp.maximum(transform.excess, late) < xp.maximum(-transform.log_value, shift))
    exponent = xp.where(by_excess, transform.excess - late, transform.log_value + shift)
    near = xp.exp(-shift) * xp.expm1(exponent.clip(-1, 1))
    return xp.where(abs(exponent) < 1, near, xp.exp(transform.log_value) - xp.exp(-shift))
