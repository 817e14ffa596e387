"""The Laplace transforms of the laws over a list of classes, with their gradients."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sumexp._checks import first_order
from sumexp.expectations._arrays import alike, light, namespace, tensor, zeros
from sumexp.expectations._kernels import bend, decay, gain, growth, log1p_bend, shrink
from sumexp.expectations._sums import SLIGHT, WHOLE, DirectSum, blocks, refuse_transforms
from sumexp.expectations.quadrature import Rule, places

CERTAIN = -700.0
"""Least log(1 - pi) in a coin's transform where its own gradient is asked for: with 1 - pi = 0 the product over classes
would underflow to 0 and hide what the other classes have. Sums above e^330 would notice; they are refused there."""

TINY = torch.finfo(torch.float64).tiny

VECTOR = 32
"""Nodes that torch adds up side by side: a sum over classes adds in one order on the first of them, however many there
are in whole vectors."""


class Transform(NamedTuple):
    """A law on the nodes: log L [batch, nodes], excess [batch, nodes] (0 where it is not wanted), EX [batch]."""

    log_value: Tensor
    excess: Tensor
    mean: Tensor


def apply(function: type[torch.autograd.Function], *arguments: object) -> tuple[Tensor, ...]:
    """``function.apply``, which torch leaves without types."""
    refuse_transforms(*arguments)
    return cast(tuple[Tensor, ...], function.apply(*arguments))  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _OverClasses:
    """What the laws over a list of classes share."""

    shape: torch.Size
    log_x: Tensor
    largest: float

    @property
    def device(self) -> torch.device:
        return self.log_x.device

    @property
    def place(self) -> torch.device:
        return self.log_x.device


@dataclass(frozen=True)
class WithReplacement(_OverClasses):
    """The sum of m independent draws."""

    log_q: Tensor | None
    m: int
    sums: DirectSum

    @property
    def device(self) -> torch.device:
        """Where the sums on the nodes are computed."""
        return self.sums.home

    @property
    def log_max(self) -> float:
        """Logarithm of an upper bound of X."""
        return math.log(self.m) + self.largest if self.m else -math.inf

    @cached_property
    def mean_value(self) -> Tensor:
        """EX without gradient, [batch]."""
        return self.m * self.sums.mean if self.m else self.log_x.new_zeros(self.log_x.shape[0], device=self.device)

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        """The transform on the rule's nodes."""
        return Transform(*apply(_Mixture, self.log_x, self.log_q, self.sums, self.m, rule, near))


class _Mixture(torch.autograd.Function):
    """The transform of m independent draws; the backward pass computes its kernels again instead of keeping them."""

    @staticmethod
    @np.errstate(all="ignore")
    def forward(
        ctx: Any, log_x: Tensor, log_q: Tensor | None, sums: DirectSum, m: int, rule: Rule, near: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.m = m
        if not m:  # X is 0; with no largest sum the nodes lie where a single term has overflowed
            ctx.save_for_backward(log_x, log_q)
            nothing = log_x.new_zeros(log_x.shape[0], rule.count, device=sums.home)
            return nothing, nothing.clone(), nothing[:, 0].clone()
        missing = sums.at_nodes(growth, rule)  # 1 - M
        xp, wanted, gone, first, last = namespace(missing), alike(near, missing), missing >= 0.5, WHOLE, WHOLE
        if sums.home.type == "cpu":  # a GPU takes all rather than wait for the numbers
            # The first nodes, up to the last near one, and the last, from the first that is gone on, in whole vectors.
            count, kept = gone.shape[-1], int((~gone).all(0).sum())
            first = slice(math.ceil(int(wanted.any(0).sum()) / VECTOR) * VECTOR)
            last = slice(count if kept == count else kept // VECTOR * VECTOR, None)
        log_one, (gone, wanted) = xp.log1p(-missing.clip(max=0.5)), (gone[:, last], wanted[:, first])
        if last.start != missing.shape[-1]:  # where most of M is gone, 1 - M has lost its digits
            value = sums.at_nodes(decay, rule, last)
            log_one[:, last] = xp.where(gone, xp.log(value.clip(min=TINY)), log_one[:, last])
        excess = zeros(missing.shape, missing)
        if wanted.any():
            excess[:, first] = xp.where(wanted, sums.excess(rule, missing[:, first], log_one[:, first]), 0.0)
        ctx.sums, ctx.rule = sums, rule
        ctx.save_for_backward(log_x, log_q, tensor(missing), tensor(log_one), near)  # log q is read by the sums
        return tensor(m * log_one), tensor(m * excess), m * sums.mean

    @staticmethod
    @first_order
    @np.errstate(all="ignore")
    def backward(ctx: Any, g_value: Tensor, g_excess: Tensor, g_mean: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.m:
            none = [None if value is None else torch.zeros_like(value) for value in ctx.saved_tensors]
            return *none, None, None, None, None
        log_x, _, *saved = ctx.saved_tensors
        given = light(*saved, g_value, g_excess, count=g_value.numel())
        sums, rule, (missing, log_one, near, per_value, per_excess) = ctx.sums, ctx.rule, given
        xp, q, gone = namespace(missing), sums.probabilities(), missing >= 0.5
        single = xp.exp(log_one)
        per_value, beyond = per_value / single, xp.where(near, per_excess, 0.0)
        per_excess = beyond / single
        g_log_x = g_log_q = None
        if ctx.needs_input_grad[0]:
            # In units of the mean: for terms of e^400, t^2 underflows.
            unit = torch.where(sums.mean > 0, sums.mean, 1.0)
            # Where M is small, s (M - e^{-s}) without the 1 of either.
            moved = xp.where(gone, -beyond, per_excess * missing)
            moved = moved * (alike(places(rule)[1], missing) * alike(unit, missing)[:, None])
            linear, unit = (v.to(log_x.device).unsqueeze(-1) for v in (g_mean * unit - tensor(moved.sum(-1)), unit))
            terms = [(shrink, -per_value - xp.where(gone, per_excess, 0.0)), (gain, xp.where(gone, 0.0, per_excess))]
            g_log_x = ctx.m * q * (sums.at_classes(terms, rule) + linear * (log_x.exp() / unit))
        if ctx.needs_input_grad[1]:
            # A constant has no effect on q: where M is small, e^{-s} for 1 - e^{-s}.
            grown = per_value + per_excess * missing
            terms = [(growth, xp.where(gone, 0.0, -grown)), (decay, xp.where(gone, grown, 0.0)), (bend, beyond)]
            drift = g_mean.to(log_x.device).unsqueeze(-1) * log_x.exp()
            per_log_q = ctx.m * q * (sums.at_classes(terms, rule) + drift)
            g_log_q = per_log_q - q * per_log_q.sum(-1, keepdim=True)
        return g_log_x, g_log_q, None, None, None, None


@dataclass(frozen=True)
class Independent(_OverClasses):
    """The sum of the classes that independent coins include."""

    log_inclusion: Tensor

    @property
    def log_max(self) -> float:
        """Logarithm of an upper bound of X."""
        return self.largest + math.log(self.log_x.shape[-1])

    @cached_property
    def mean_value(self) -> Tensor:
        """EX without gradient, [batch]."""
        return torch.exp(self.log_x.detach() + self.log_inclusion.detach()).sum(-1)

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        """The transform on the rule's nodes."""
        mean = torch.exp(self.log_x + self.log_inclusion).sum(-1)
        log_value, excess = apply(_Coins, self.log_x, self.log_inclusion, rule, near)
        return Transform(log_value, excess, mean)


class _Coins(torch.autograd.Function):
    """The transform of independent inclusion, summed over classes in chunks, computed again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, log_x: Tensor, log_pi: Tensor, rule: Rule, near: Tensor) -> tuple[Tensor, Tensor]:
        ctx.rule, ctx.floor = rule, CERTAIN if ctx.needs_input_grad[1] else -math.inf
        ctx.save_for_backward(log_x, log_pi, near)
        u = rule.nodes(log_x.device)
        log_value = log_x.new_zeros(log_x.shape[0], rule.count)
        excess = torch.zeros_like(log_value)
        for rows, columns in blocks(log_x, rule.count):
            s = torch.exp(log_x[rows, columns].unsqueeze(-1) + u)
            pi, out, missing, log_left = _coin(s, log_pi[rows, columns].unsqueeze(-1), ctx.floor)
            log_value[rows] += torch.where(missing < 0.5, torch.log1p(-missing.clamp_max(0.5)), log_left).sum(-2)
            # X less its mean is (1 - pi) x or -pi x.
            excess[rows] += torch.log1p(pi * bend(out * s) + out * bend(-pi * s)).sum(-2)
        return log_value, torch.where(near, excess, 0.0)

    @staticmethod
    @first_order
    def backward(ctx: Any, g_value: Tensor, g_excess: Tensor) -> tuple[Tensor | None, ...]:
        log_x, log_pi, near = ctx.saved_tensors
        u = ctx.rule.nodes(log_x.device)
        g_excess = torch.where(near, g_excess, 0.0)
        g_log_x, g_log_pi = torch.empty_like(log_x), torch.empty_like(log_x)
        for rows, columns in blocks(log_x, ctx.rule.count):
            s = torch.exp(log_x[rows, columns].unsqueeze(-1) + u)
            pi, out, missing, log_left = _coin(s, log_pi[rows, columns].unsqueeze(-1), ctx.floor)
            value, extra = g_value[rows].unsqueeze(-2), g_excess[rows].unsqueeze(-2)
            if ctx.needs_input_grad[0]:
                kept = torch.exp(-s - log_left)  # e^{-s} / (1 - pi + pi e^{-s})
                # (1 - pi) / (1 - pi + pi e^{-s}) <= 1 as one exponential: the inverse of the denominator overflows
                # where the coin is certain, and 0 times infinity is NaN.
                lost = growth(s) * torch.exp(out.log() - log_left)
                g_log_x[rows, columns] = (pi * s * (extra * lost - value * kept)).sum(-1)
            if ctx.needs_input_grad[1]:
                share = growth(s) * torch.exp(-log_left)  # finite: `floor` holds log_left above CERTAIN
                g_log_pi[rows, columns] = (pi * (extra * (bend(s) - missing * share) - value * share)).sum(-1)
        return g_log_x if ctx.needs_input_grad[0] else None, g_log_pi if ctx.needs_input_grad[1] else None, None, None


def _coin(s: Tensor, log_pi: Tensor, floor: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """pi, 1 - pi, pi (1 - e^{-s}) and log(1 - pi + pi e^{-s}), with log(1 - pi) not below the floor."""
    pi, out = log_pi.exp(), -torch.expm1(log_pi)
    return pi, out, pi * growth(s), torch.logaddexp(out.log().clamp_min(floor), log_pi - s)


@dataclass(frozen=True)
class WithoutReplacement(_OverClasses):
    """The sum over a uniform m-subset."""

    m: int
    log_max = WithReplacement.log_max

    @property
    def mean_value(self) -> Tensor:
        """EX without gradient, [batch]."""
        return self.m * self.log_x.detach().exp().mean(-1)

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        """The transform on the rule's nodes."""
        batch, classes = self.log_x.shape
        # In units of the largest term: for terms of e^400, t^2 underflows in the backward pass.
        nodes, unit = rule.nodes(self.device), self.log_x.detach().amax(-1, keepdim=True).clamp_min(-700.0)
        t, x = torch.exp(nodes + unit), torch.exp(self.log_x - unit)
        # Of the sum over a uniform j-subset of the first i classes, j = 0..m: L, 1 - L, L - 1 + t EX.
        start = x.new_zeros(batch, self.m + 1, rule.count)
        states = (start + 1, start, start)
        length = max(1, math.isqrt(classes))
        for first in range(0, classes, length):
            block = x[:, first : first + length]
            mean_before = x[:, :first].mean(-1) if first else x.new_zeros(batch)
            states = checkpoint(_add_classes, *states, block, mean_before, t.unsqueeze(1), first, use_reentrant=False)
        value, missing, remainder = (state[:, self.m] for state in states)
        close, mean = missing < 0.5, self.m * x.mean(-1, keepdim=True)
        log_value = torch.where(close, torch.log1p(-missing.clamp_max(0.5)), value.clamp_min(TINY).log())
        by_mean = log_value + t * mean
        excess = torch.where(near, torch.where(close, remainder + log1p_bend(missing.clamp_max(0.5)), by_mean), 0.0)
        return Transform(log_value, self._centred(excess, nodes.exp(), near), (mean * unit.exp()).squeeze(-1))

    def _centred(self, excess: Tensor, t: Tensor, near: Tensor) -> Tensor:
        """The excess, from centred terms where X scatters slightly: there the others cancel."""
        log_x, classes = self.log_x.detach(), self.log_x.shape[1]
        deviation = log_x.exp()
        log_mean = deviation.mean(-1, keepdim=True).log()
        scatter = torch.expm1(log_x - log_mean).square().mean(-1) * (classes - self.m)
        slight = near.any(-1) & (scatter < SLIGHT * self.m * max(1, classes - 1))
        if not bool(slight.any()):
            return excess
        deviation = torch.expm1(log_x[slight] - log_mean[slight])
        deviation = (deviation - deviation.mean(-1, keepdim=True)) * log_mean[slight].exp()
        with torch.no_grad():
            centred = excess.detach().clone()
            centred[slight] = torch.where(near[slight], _centred_excess(deviation, self.m, t), 0.0)
            centred = torch.where(torch.isfinite(centred), centred, excess)
        return centred + (excess - excess.detach())


def _centred_excess(deviation: Tensor, m: int, t: Tensor) -> Tensor:
    r"""log E e^{-t(X - EX)} for uniform m-subsets of deviations [batch, classes] that sum to 0, [batch, nodes].

    For j-subsets of the first i classes, :math:`1+C` of them by whether class i is in (with probability j/i): either
    way the rest is a smaller subset, centred again, and the two means differ by :math:`\delta`, class i less the mean
    of those before it. Every term is non-negative. The other n - m classes deviate by as much to the other side.
    """
    classes = deviation.shape[1]
    if 2 * m > classes:
        m, deviation = classes - m, -deviation
    centred = deviation.new_zeros(deviation.shape[0], m + 1, len(t))
    mean = deviation.new_zeros(deviation.shape[0], 1, 1)
    draws = torch.arange(m + 1, dtype=t.dtype, device=t.device).view(1, -1, 1)
    for i in range(1, classes + 1):
        delta = deviation[:, i - 1].view(-1, 1, 1) - mean
        taken = (draws / i).clamp_max(1.0)
        into, past = delta * (1 - taken) * t, -delta * taken * t
        with_class = bend(into) + torch.exp(-into) * centred.roll(1, 1)
        without = bend(past) + torch.exp(-past) * centred
        centred = torch.lerp(without, with_class, taken)
        mean = mean + delta / i
    return centred[:, m].log1p()


def _add_classes(
    value: Tensor, missing: Tensor, remainder: Tensor, block: Tensor, mean: Tensor, t: Tensor, first: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the classes of a block into the recursion, one by one; every term is non-negative."""
    draws = torch.arange(value.shape[1], dtype=t.dtype, device=t.device)
    for offset in range(block.shape[1]):
        i = first + offset + 1
        x = block[:, offset].view(-1, 1, 1)
        taken = (draws / i).clamp_max(1.0).view(1, -1, 1)  # probability that class i is in the j-subset
        before = (draws - 1).clamp_min(0.0).view(1, -1, 1) * mean.view(-1, 1, 1)  # mean of the other j - 1 terms
        s = x * t
        e, g = decay(s), growth(s)
        with_class = (
            e * value.roll(1, 1),
            g + e * missing.roll(1, 1),
            e * remainder.roll(1, 1) + bend(s) + before * t * g,
        )
        without = (value, missing, remainder)
        value, missing, remainder = (torch.lerp(old, new, taken) for old, new in zip(without, with_class, strict=True))
        mean = mean + (block[:, offset] - mean) / i
    return value, missing, remainder
