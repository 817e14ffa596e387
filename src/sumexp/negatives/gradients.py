r"""The stochastic gradient of the sampled cross entropy in the logits: its exact mean, bias and variance.

If class l is drawn :math:`n_l` times, the gradient has coordinates :math:`g_l = n_l x_l/(1+X)`; that of the label is
minus the sum of all others. The counts are multinomial, so given the draws of l the rest are draws of the same kind,
and with :math:`\frac1{1+X} = \int e^{-t(1+X)}dt`, :math:`\frac1{(1+X)^2} = \int te^{-t(1+X)}dt`,

.. math::
    \mathbb E g_l &= m q_l x_l \int_0^\infty e^{-t(1+x_l)} M(t)^{m-1}\,dt, \\
    \mathbb E g_S^2 &= \int_0^\infty t e^{-t} \big( m A_S(t)\, M(t)^{m-1} + m(m-1)\, B_S(t)^2\, M(t)^{m-2} \big)\,dt

for the sum :math:`g_S` over a set S of classes, :math:`A_S = \sum_{l\in S} q_l x_l^2 e^{-tx_l}`,
:math:`B_S = \sum_{l\in S} q_l x_l e^{-tx_l}`. All integrands are positive.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sumexp import expectations
from sumexp._checks import typed
from sumexp.expectations._arrays import Array
from sumexp.expectations._kernels import decay, shrink
from sumexp.expectations._sums import blocks, class_sum
from sumexp.negatives.implicit import log_terms
from sumexp.negatives.schemes import Scheme


@dataclass(frozen=True)
class GradientMoments:
    r"""Mean and variance of the stochastic gradient, exactly; float64, without gradients.

    Attributes:
        mean: [..., classes] the gradient of the exact implicit loss; that of the label is negative.
        variance: [..., classes] of each coordinate.
        bias: [..., classes] the mean minus the gradient of the full cross entropy, softmax minus one-hot.
    """

    mean: Tensor
    variance: Tensor
    bias: Tensor

    @property
    def bias_norm(self) -> Tensor:
        """Euclidean length of the bias, [...]."""
        return self.bias.square().sum(-1).sqrt()

    @property
    def deviation(self) -> Tensor:
        """Root of the summed variances, [...]: the typical length of gradient minus mean."""
        return self.variance.sum(-1).sqrt()


@typed
def gradient_moments(logits: Tensor, scheme: Scheme) -> GradientMoments:
    """Mean, bias and variance of every coordinate of the stochastic gradient in the logits [..., classes].

    The relative error of means and second moments is 1e-13; that of a variance is relative to the second moment.
    """
    log_x, log_q, shape = _rows(logits, scheme)
    law = expectations.with_replacement(log_x, scheme.m, log_q)
    rule, powers = _powers(law, scheme.m)
    weight = _weight(rule, log_x)
    sums = class_sum(log_x, log_q, "auto")
    q = log_q.exp()
    mean = scheme.m * q * sums.at_classes([(shrink, weight * powers[0])], rule)
    second = scheme.m * q * sums.at_classes([(_twice, weight * powers[0])], rule)
    pairs = sums.at_classes([(_once_squared, weight * powers[1])], rule)
    second = second + float(scheme.m) * (scheme.m - 1) * q.square() * pairs
    variance = (second - mean.square()).clamp_min(0)
    # The label: minus the sum of the others, -(1 - 1/(1+X)) unless its own draws count too.
    others = torch.arange(scheme.classes, device=log_x.device) != scheme.label
    of_others = _group(log_x, log_q, others, scheme.m, rule, powers)
    mean[:, scheme.label], variance[:, scheme.label] = -of_others[0], of_others[1]
    full = torch.softmax(logits.detach().to(torch.float64), -1)
    full[..., scheme.label] -= 1
    return GradientMoments(mean.view(shape), variance.view(shape), mean.view(shape) - full)


@typed
def group_moments(logits: Tensor, scheme: Scheme, groups: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of the gradient weight :math:`g_S = \sum_{l\in S} g_l` on groups of negatives.

    ``logits`` are [..., classes], ``groups`` [groups, classes] bool, in which the label does not count; mean and
    variance are [..., groups].
    """
    if groups.dtype != torch.bool or groups.ndim != 2 or groups.shape[-1] != scheme.classes:
        raise ValueError(f"groups is {groups.dtype} {tuple(groups.shape)}; give bool [groups, {scheme.classes}]")
    log_x, log_q, shape = _rows(logits, scheme)
    law = expectations.with_replacement(log_x, scheme.m, log_q)
    rule, powers = _powers(law, scheme.m)
    groups = groups.clone()
    groups[:, scheme.label] = False
    moments = [torch.stack(_group(log_x, log_q, group, scheme.m, rule, powers)) for group in groups]
    mean, variance = torch.stack(moments, -1).view(2, *shape[:-1], len(groups))
    return mean, variance


def _rows(logits: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor, torch.Size]:
    """log x [batch, classes], log q [batch or 1, classes], and the shape of the batch with classes."""
    log_x = log_terms(logits.detach(), scheme)
    log_q = scheme.log_q.detach() if scheme.log_q.ndim == 1 else scheme.log_q.detach().expand_as(log_x)
    return log_x.reshape(-1, scheme.classes), log_q.reshape(-1, scheme.classes), log_x.shape


def _powers(law: expectations.Law, m: int) -> tuple[expectations.Rule, tuple[Tensor, Tensor]]:
    """The rule, and M^(m-1) and M^(m-2) on its nodes, [batch, nodes]."""
    rule = expectations.rule(1e-13, law.log_max)
    split = torch.zeros(len(law.mean_value), rule.count, dtype=torch.bool, device=law.device)
    log_one = law.transform(rule, split).log_value / m
    return rule, (torch.exp((m - 1) * log_one), torch.exp(max(m - 2, 0) * log_one))


def _group(
    log_x: Tensor, log_q: Tensor, group: Tensor, m: int, rule: expectations.Rule, powers: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Mean and variance of a group's gradient weight, [batch] each."""
    u = rule.nodes(log_x.device)
    once, twice = (log_x.new_zeros(len(log_x), rule.count) for _ in range(2))  # t B, t^2 A
    some_x, some_q = log_x[:, group], log_q[:, group].expand(len(log_x), -1).exp()
    for rows, columns in blocks(some_x, rule.count) if some_x.shape[1] else ():
        s, q = torch.exp(some_x[rows, columns].unsqueeze(-1) + u), some_q[rows, columns].unsqueeze(-1)
        once[rows] += (q * shrink(s)).sum(-2)
        twice[rows] += (q * _twice(s)).sum(-2)
    weight = _weight(rule, log_x)
    mean = m * (weight * once * powers[0]).sum(-1)
    second = (weight * (m * twice * powers[0] + float(m) * (m - 1) * once.square() * powers[1])).sum(-1)
    return mean, (second - mean.square()).clamp_min(0)


def _weight(rule: expectations.Rule, log_x: Tensor) -> Tensor:
    """e^{-t} dt / t: a power of t goes with each x, so that huge terms do not overflow."""
    return rule.step * torch.exp(-rule.nodes(log_x.device).exp())


def _once_squared(s: Array) -> Array:
    """(s e^{-s})^2 of s = t x."""
    return shrink(s).square()


def _twice(s: Array) -> Array:
    """s^2 e^{-s}."""
    return (s * decay(s / 2)).square()
