r"""How the sum X is drawn, and its Laplace transform on the nodes of a rule.

For nodes t every law hands out :math:`\log L(t)` and, on the nodes where tX is not large, the *excess*
:math:`\log L(t) + t\,\mathbb EX \ge 0`, which keeps the digits that the first has lost where X is small or scatters
slightly. Both are sums over independent parts, so laws multiply by adding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sumexp.checks import whole
from sumexp.expectations.kernels import bend, decay, growth, log1p_bend
from sumexp.expectations.quadrature import Rule
from sumexp.expectations.sums import SLIGHT, ClassSum, blocks, class_sum

Method = Literal["auto", "direct", "spread"]

CERTAIN = -700.0
"""log(1 - pi) of a certain coin where its own gradient is asked for: with 0 in its place the product over classes would
underflow to 0 and hide what the other classes have. Sums above e^330 would notice; they are refused there."""

MOST_DRAWS = 2**53
"""Beyond it double precision does not count."""

VECTOR = 32
"""Nodes that torch adds up side by side: a sum over classes adds in one order on the first of them, however many there
are in whole vectors."""

RECURSION_LIMIT = 2 * 10**10
"""Most steps (batch x classes x draws x nodes) of the recursion without replacement: minutes on one core."""


class Transform(NamedTuple):
    """A law on the nodes: log L [batch, nodes], excess [batch, nodes] (0 where it is not wanted), EX [batch]."""

    log_value: Tensor
    excess: Tensor
    mean: Tensor


def apply(function: type[torch.autograd.Function], *arguments: object) -> tuple[Tensor, ...]:
    """``function.apply``, which torch leaves without types."""
    outputs: tuple[Tensor, ...] = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return outputs


class Law(Protocol):
    """What :func:`sumexp.expectations.expect` needs to know of a law."""

    @property
    def shape(self) -> torch.Size:
        """Batch shape."""

    @property
    def device(self) -> torch.device:
        """Where the tensors lie."""

    @property
    def log_max(self) -> float:
        """Logarithm of an upper bound of X, over the whole batch."""

    @property
    def mean_value(self) -> Tensor:
        """EX without gradient, [batch]; infinite where it is unknown or infinite."""

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        """The transform on the rule's nodes; ``near`` [batch, nodes] says where the excess is wanted."""


def with_replacement(log_x: Tensor, m: int, log_q: Tensor | None = None, method: Method = "auto") -> Law:
    r"""X is the sum of m terms drawn independently: :math:`L(t) = \big(\sum_y q_y e^{-t x_y}\big)^m`.

    Args:
        log_x: [..., classes] logarithms of the terms; ``-inf`` is a term of value 0.
        m: number of draws, 0 to 2^53.
        log_q: [classes] or [..., classes] log probabilities of a draw; uniform if None. Where it is ``-inf`` the
            class is never drawn, and its term may be anything.
        method: ``direct`` sums over all classes at every node; ``spread`` first spreads them on a grid in log x, where
            the sum is a convolution (much faster from some thousand classes on); ``auto`` chooses.

    Raises:
        ValueError: if there is no class, a logit is NaN or +inf, q does not sum to 1 within 1e-6 or m is out of range.
    """
    m = whole("m", m, 0, MOST_DRAWS)
    rows = _flat(log_x)
    probabilities = None if log_q is None else _rows("log_q", log_q, rows)
    rows = _checked(rows, probabilities)
    sums = class_sum(rows.detach(), None if probabilities is None else probabilities.detach(), method)
    total = torch.ones(1) if log_q is None else sums.normaliser.exp()
    if bool(((total - 1).abs() > 1e-6).any()):
        worst = total.flatten()[(total - 1).abs().argmax()].item()
        raise ValueError(f"q sums to {worst!r}, not 1; normalise it (torch.log_softmax of log_q does)")
    return _WithReplacement(log_x.shape[:-1], rows, probabilities, m, sums)


def without_replacement(log_x: Tensor, m: int) -> Law:
    r"""X is the sum over a uniform m-subset of the classes: :math:`L(t) = e_m(e^{-tx_1},\dots,e^{-tx_n})/\binom nm`.

    The elementary symmetric polynomial comes by the positive recursion over classes
    :math:`E^{(i)}_j = \frac{i-j}i E^{(i-1)}_j + \frac ji e^{-tx_i}E^{(i-1)}_{j-1}`, and 1 - L and the excess by
    recursions of their own that are just as positive. It takes classes x m x nodes steps.

    Args:
        log_x: [..., classes] logarithms of the terms; ``-inf`` is a term of value 0.
        m: size of the subset, 0 <= m <= classes.

    Raises:
        ValueError: if a logit is NaN or +inf, m is out of range, or the recursion would take more than 2e10 steps.
    """
    m = whole("m", m, 0, MOST_DRAWS)
    rows = _checked(_flat(log_x))
    batch, classes = rows.shape
    if m > classes:
        raise ValueError(f"m is {m}, but there are only {classes} classes to draw without replacement")
    steps = batch * classes * m * 200
    if steps > RECURSION_LIMIT:
        raise ValueError(
            f"{classes} classes and m = {m} take about {steps:.0e} steps without replacement, more than "
            f"{RECURSION_LIMIT:.0e}; use fewer draws, or with_replacement, whose expectations differ by O(m / classes)"
        )
    return _WithoutReplacement(log_x.shape[:-1], rows, m)


def independent(log_x: Tensor, log_inclusion: Tensor) -> Law:
    r"""X sums the classes that are included, each by its own coin: :math:`L(t) = \prod_y(1-\pi_y+\pi_ye^{-tx_y})`.

    Args:
        log_x: [..., classes] logarithms of the terms; ``-inf`` is a term of value 0.
        log_inclusion: [classes] or [..., classes] logarithms of the inclusion probabilities. Where it is ``-inf`` the
            class is never included, and its term may be anything.

    Raises:
        ValueError: if there is no class, a logit is NaN or +inf, or an inclusion probability exceeds 1; if a certain
            class has a term above e^330 and the gradient in its probability is asked for.
    """
    rows = _flat(log_x)
    inclusion = _rows("log_inclusion", log_inclusion, rows)
    rows = _checked(rows, inclusion)
    if bool((inclusion.detach() > 0).any()):
        worst = inclusion.detach().max().exp().item()
        raise ValueError(f"an inclusion probability is {worst!r}; pass logarithms of numbers in [0, 1]")
    if inclusion.requires_grad and bool(((inclusion.detach() == 0) & (rows.detach() > 330)).any()):
        raise ValueError(
            f"log_x is {rows.detach().max().item():.0f}, and a class above 330 is certain: the gradient in its "
            "probability leaves double precision; detach log_inclusion, or shift the logits"
        )
    return _Independent(log_x.shape[:-1], rows, inclusion.expand_as(rows))


def laplace(
    log_laplace: Callable[[Tensor], Tensor],
    log_max: float,
    shape: tuple[int, ...] = (),
    device: torch.device | str = "cpu",
) -> Law:
    r"""X is given by its Laplace transform alone, for instance a product of known ones.

    Args:
        log_laplace: maps the nodes :math:`u` [nodes] to :math:`\log L(e^u)` [\*shape, nodes], relatively accurate where
            it is near 0; its gradient is autograd's.
        log_max: X above :math:`e^{\text{log\_max}}` is so rare that it does not matter: the range of the quadrature
            starts at :math:`u = -\text{log\_max} - \log(100/\text{tol})`. A heavy tail needs a generous value.
        shape: batch shape.
        device: where the nodes are to lie.

    The mean counts as unknown, so the variances lose digits when X is much smaller than 1, or scatters slightly.
    """
    return _Laplace(torch.Size(shape), torch.device(device), log_max, log_laplace)


def product(*laws: Law) -> Law:
    """X is the sum of independent sums, each with a law of its own and all with the same batch shape.

    Raises:
        ValueError: if there is none, or the batch shapes differ.
    """
    shapes = sorted({tuple(law.shape) for law in laws})
    if len(shapes) != 1:
        raise ValueError(f"the laws of a product must have one batch shape, got {shapes}")
    return _Product(laws)


@dataclass(frozen=True)
class _OverClasses:
    """What the laws over a list of classes share."""

    shape: torch.Size
    log_x: Tensor

    @property
    def device(self) -> torch.device:
        return self.log_x.device

    @cached_property
    def largest(self) -> float:
        return self.log_x.detach().max().item() if self.log_x.numel() else -math.inf


@dataclass(frozen=True)
class _WithReplacement(_OverClasses):
    log_q: Tensor | None
    m: int
    sums: ClassSum

    @property
    def log_max(self) -> float:
        return math.log(self.m) + self.largest if self.m else -math.inf

    @property
    def mean_value(self) -> Tensor:
        return self.m * self.sums.mean

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        return Transform(*apply(_Mixture, self.log_x, self.log_q, self.sums, self.m, rule, near))


class _Mixture(torch.autograd.Function):
    """The transform of m independent draws; the backward pass computes its kernels again instead of keeping them."""

    @staticmethod
    def forward(
        ctx: Any, log_x: Tensor, log_q: Tensor | None, sums: ClassSum, m: int, rule: Rule, near: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        t = rule.nodes(log_x.device).exp()
        missing = sums.at_nodes(growth, rule)  # 1 - M
        # Where most of M is gone, 1 - M has lost its digits.
        log_one = torch.where(
            missing < 0.5,
            torch.log1p(-missing.clamp_max(0.5)),
            sums.at_nodes(decay, rule).clamp_min(torch.finfo(torch.float64).tiny).log(),
        )
        excess = torch.zeros_like(log_one)
        if bool(near.any()):
            first = (slice(None), slice(_near_nodes(near)))
            excess[first] = torch.where(near[first], sums.excess(rule, missing[first], log_one[first]), 0.0)
        ctx.sums, ctx.m, ctx.rule = sums, m, rule
        ctx.save_for_backward(log_x, missing, log_one, near, t)
        return m * log_one, m * excess, m * sums.mean

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g_value: Tensor, g_excess: Tensor, g_mean: Tensor) -> tuple[Tensor | None, ...]:
        log_x, missing, log_one, near, t = ctx.saved_tensors
        sums, rule = ctx.sums, ctx.rule
        q = sums.probabilities()
        one = log_one.exp() if ctx.m else torch.ones_like(log_one)
        # At most one of the two has a gradient on any node.
        per_value = g_value / one
        per_excess = torch.where(near, g_excess, 0.0) / one
        g_log_x = g_log_q = None
        if ctx.needs_input_grad[0]:
            linear = g_mean - (per_excess * missing * t).sum(-1)
            terms = [(lambda s: s * decay(s), -per_value), (lambda s: s * growth(s), per_excess)]
            g_log_x = ctx.m * q * (sums.at_classes(terms, rule) + linear.unsqueeze(-1) * log_x.exp())
        if ctx.needs_input_grad[1]:
            terms = [(growth, -per_value - per_excess * missing), (bend, torch.where(near, g_excess, 0.0))]
            per_log_q = ctx.m * q * (sums.at_classes(terms, rule) + g_mean.unsqueeze(-1) * log_x.exp())
            g_log_q = per_log_q - q * per_log_q.sum(-1, keepdim=True)
        return g_log_x, g_log_q, None, None, None, None


def _near_nodes(near: Tensor) -> int:
    """How many first nodes hold every near one, in whole vectors; a GPU takes all rather than wait for the number."""
    if near.device.type != "cpu":
        return near.shape[-1]
    return math.ceil(int(near.any(0).sum()) / VECTOR) * VECTOR


@dataclass(frozen=True)
class _Independent(_OverClasses):
    log_inclusion: Tensor

    @property
    def log_max(self) -> float:
        return self.largest + math.log(self.log_x.shape[-1])

    @cached_property
    def mean_value(self) -> Tensor:
        return torch.exp(self.log_x.detach() + self.log_inclusion.detach()).sum(-1)

    def transform(self, rule: Rule, near: Tensor) -> Transform:
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
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g_value: Tensor, g_excess: Tensor) -> tuple[Tensor | None, ...]:
        log_x, log_pi, near = ctx.saved_tensors
        u = ctx.rule.nodes(log_x.device)
        g_excess = torch.where(near, g_excess, 0.0)
        g_log_x, g_log_pi = torch.empty_like(log_x), torch.empty_like(log_x)
        for rows, columns in blocks(log_x, ctx.rule.count):
            s = torch.exp(log_x[rows, columns].unsqueeze(-1) + u)
            pi, out, missing, log_left = _coin(s, log_pi[rows, columns].unsqueeze(-1), ctx.floor)
            value, extra = g_value[rows].unsqueeze(-2), g_excess[rows].unsqueeze(-2)
            kept = torch.exp(-s - log_left)  # e^{-s} / (1 - pi + pi e^{-s})
            share = growth(s) * torch.exp(-log_left)
            g_log_x[rows, columns] = (pi * s * (extra * out * share - value * kept)).sum(-1)
            g_log_pi[rows, columns] = (pi * (extra * (bend(s) - missing * share) - value * share)).sum(-1)
        return g_log_x, g_log_pi, None, None


def _coin(s: Tensor, log_pi: Tensor, floor: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """pi, 1 - pi, pi (1 - e^{-s}) and log(1 - pi + pi e^{-s}), with log(1 - pi) not below the floor."""
    pi, out = log_pi.exp(), -torch.expm1(log_pi)
    return pi, out, pi * growth(s), torch.logaddexp(out.log().clamp_min(floor), log_pi - s)


@dataclass(frozen=True)
class _WithoutReplacement(_OverClasses):
    m: int

    @property
    def log_max(self) -> float:
        return math.log(self.m) + self.largest if self.m else -math.inf

    @property
    def mean_value(self) -> Tensor:
        return self.m * self.log_x.detach().exp().mean(-1)

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        batch, classes = self.log_x.shape
        t = rule.nodes(self.device).exp()
        x = self.log_x.exp()
        # Of the sum over a uniform j-subset of the first i classes, j = 0..m: L, 1 - L, L - 1 + t EX.
        start = x.new_zeros(batch, self.m + 1, rule.count)
        states = (start + 1, start, start)
        length = max(1, math.isqrt(classes))
        for first in range(0, classes, length):
            block = x[:, first : first + length]
            mean_before = x[:, :first].mean(-1) if first else x.new_zeros(batch)
            states = checkpoint(_add_classes, *states, block, mean_before, t, first, use_reentrant=False)
        value, missing, remainder = (state[:, self.m] for state in states)
        tiny = torch.finfo(torch.float64).tiny
        close, mean = missing < 0.5, self.m * x.mean(-1)
        log_value = torch.where(close, torch.log1p(-missing.clamp_max(0.5)), value.clamp_min(tiny).log())
        by_mean = log_value + t * mean.unsqueeze(-1)
        excess = torch.where(near, torch.where(close, remainder + log1p_bend(missing.clamp_max(0.5)), by_mean), 0.0)
        return Transform(log_value, self._centred(excess, t, near), mean)

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
            found = excess.detach().clone()
            found[slight] = torch.where(near[slight], _centred_excess(deviation, self.m, t), 0.0)
            found = torch.where(torch.isfinite(found), found, excess)
        return found + (excess - excess.detach())


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


@dataclass(frozen=True)
class _Laplace:
    shape: torch.Size
    device: torch.device
    log_max: float
    log_laplace: Callable[[Tensor], Tensor]

    @property
    def mean_value(self) -> Tensor:
        return torch.full((math.prod(self.shape),), math.inf, dtype=torch.float64, device=self.device)

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        log_value = self.log_laplace(rule.nodes(self.device))
        if log_value.shape != (*self.shape, rule.count):
            raise ValueError(
                f"log_laplace returned shape {tuple(log_value.shape)}; expected {(*self.shape, rule.count)}: "
                "the batch shape, then the nodes"
            )
        log_value = log_value.reshape(-1, rule.count)
        return Transform(log_value, torch.zeros_like(log_value), self.mean_value)


@dataclass(frozen=True)
class _Product:
    laws: tuple[Law, ...]

    @property
    def shape(self) -> torch.Size:
        return self.laws[0].shape

    @property
    def device(self) -> torch.device:
        return self.laws[0].device

    @property
    def log_max(self) -> float:
        return max(law.log_max for law in self.laws) + math.log(len(self.laws))

    @property
    def mean_value(self) -> Tensor:
        return reduce(torch.add, (law.mean_value for law in self.laws))

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        parts = [law.transform(rule, near) for law in self.laws]
        return Transform(*(reduce(torch.add, column) for column in zip(*parts, strict=True)))


def _flat(log_x: Tensor) -> Tensor:
    """In float64, the batch flattened to one dimension."""
    if not isinstance(log_x, Tensor) or not log_x.is_floating_point():
        raise ValueError(f"log_x must be a tensor of floating-point logits, got {getattr(log_x, 'dtype', type(log_x))}")
    if log_x.ndim == 0 or log_x.shape[-1] == 0:
        raise ValueError(f"log_x has shape {tuple(log_x.shape)}; its last dimension must hold at least one class")
    return log_x.to(torch.float64).reshape(log_x.shape[:-1].numel(), log_x.shape[-1])


def _checked(log_x: Tensor, log_weights: Tensor | None = None) -> Tensor:
    """The terms without NaN or +inf; those of weight 0 count as 0."""
    if log_weights is not None:
        log_x = torch.where((log_weights == -math.inf) & ~torch.isnan(log_x), -math.inf, log_x)
    worst = log_x.detach().max().item() if log_x.numel() else 0.0
    if math.isnan(worst) or worst == math.inf:
        raise ValueError(f"log_x holds {worst}; logits must be finite, or -inf for a term of value 0")
    return log_x


def _rows(name: str, values: Tensor, log_x: Tensor) -> Tensor:
    """Log probabilities beside ``log_x``: [1 or batch, classes], float64, without NaN."""
    if not isinstance(values, Tensor) or not values.is_floating_point():
        raise ValueError(f"{name} must be a floating-point tensor, got {getattr(values, 'dtype', type(values))}")
    if values.ndim == 0 or values.shape[-1] != log_x.shape[-1] or values.shape[:-1].numel() not in (1, len(log_x)):
        raise ValueError(f"{name} has shape {tuple(values.shape)}, which does not fit {tuple(log_x.shape)} of log_x")
    rows = values.to(torch.float64).reshape(values.shape[:-1].numel(), values.shape[-1])
    if bool(torch.isnan(rows.detach()).any()):
        raise ValueError(f"{name} holds NaN; it must hold logarithms of probabilities")
    return rows
