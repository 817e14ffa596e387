r"""How the sum X is drawn, and its Laplace transform on the nodes of a rule.

For nodes t every law hands out :math:`\log L(t)` and, on the nodes where tX is not large, the *excess*
:math:`\log L(t) + t\,\mathbb EX \ge 0`, which keeps the digits that the first has lost where X is small or scatters
slightly. Both are sums over independent parts, so laws multiply by adding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Literal, Protocol

import torch
from torch import Tensor

from sumexp._checks import typed, whole
from sumexp.expectations._sums import class_sum, extremes
from sumexp.expectations._transforms import Independent, Transform, WithoutReplacement, WithReplacement
from sumexp.expectations.quadrature import Rule

Method = Literal["auto", "direct", "spread"]

MOST_DRAWS = 2**53
"""Beyond it double precision does not count."""

RECURSION_LIMIT = 2 * 10**10
"""Most steps (batch x classes x draws x nodes) of the recursion without replacement: minutes on one core."""


class Law(Protocol):
    """What :func:`sumexp.expectations.expect` needs to know of a law."""

    @property
    def shape(self) -> torch.Size:
        """Batch shape."""

    @property
    def device(self) -> torch.device:
        """Where the transform is computed."""

    @property
    def place(self) -> torch.device:
        """Where the expectations are to lie."""

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
            the sum is a convolution (much faster from 1,000 classes on); ``auto`` chooses.

    Raises:
        ValueError: if there is no class, a logit is NaN or +inf, q does not sum to 1 within 1e-6 or m is out of range.
    """
    m = whole("m", m, 0, MOST_DRAWS)
    rows, ends, _ = _checked(log_x, log_q, "log_q")
    law = drawn(log_x.shape[:-1], rows, m, log_q, method, ends)
    if law.log_q is not None:
        excess = law.sums.normaliser.exp().flatten() - 1
        if bool((excess.abs() > 1e-6).any()):
            worst = 1 + excess[excess.abs().argmax()].item()
            raise ValueError(f"q sums to {worst!r}, not 1; normalise it (torch.log_softmax of log_q does)")
    return law


def drawn(
    shape: torch.Size, rows: Tensor, m: int, log_q: Tensor | None, method: Method, ends: tuple[float, float]
) -> WithReplacement:
    """The law of :func:`with_replacement`, of checked log x [batch, classes] with its extremes."""
    weights = None if log_q is None else _shaped("log_q", log_q, (*shape, rows.shape[-1]))
    sums = class_sum(rows.detach(), None if weights is None else weights.detach(), method, ends)
    return WithReplacement(shape, rows, ends[1], weights, m, sums)


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
    rows, (_, largest), _ = _checked(log_x)
    batch, classes = rows.shape
    if m > classes:
        raise ValueError(f"m is {m}, but there are only {classes} classes to draw without replacement")
    steps = batch * classes * m * 200
    if steps > RECURSION_LIMIT:
        raise ValueError(
            f"{classes} classes and m = {m} take about {steps:.0e} steps without replacement, more than "
            f"{RECURSION_LIMIT:.0e}; use fewer draws, or with_replacement, whose expectations differ by O(m / classes)"
        )
    return WithoutReplacement(log_x.shape[:-1], rows, largest, m)


@typed
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
    rows, (_, largest), most = _checked(log_x, log_inclusion, "log_inclusion")
    inclusion = _shaped("log_inclusion", log_inclusion, log_x.shape)
    if most > 0:
        worst = inclusion.detach().max().exp().item()
        raise ValueError(f"an inclusion probability is {worst!r}; pass logarithms of numbers in [0, 1]")
    if inclusion.requires_grad and bool(((inclusion.detach() == 0) & (rows.detach() > 330)).any()):
        raise ValueError(
            f"log_x is {rows.detach().max().item():.0f}, and a class above 330 is certain: the gradient in its "
            "probability leaves double precision; detach log_inclusion, or shift the logits"
        )
    return Independent(log_x.shape[:-1], rows, largest, inclusion.expand_as(rows))


@typed
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
        log_max: X above ``exp(log_max)`` is so rare that it does not matter: the range of the quadrature
            starts at ``u = -log_max - log(100 / tol)``. A heavy tail needs a generous value.
        shape: batch shape.
        device: where the nodes are to lie.

    The mean counts as unknown, so the variances lose digits when X is much smaller than 1, or scatters slightly.
    """
    return _Laplace(torch.Size(shape), torch.device(device), log_max, log_laplace)


@typed
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
class _Laplace:
    shape: torch.Size
    device: torch.device
    log_max: float
    log_laplace: Callable[[Tensor], Tensor]

    @property
    def place(self) -> torch.device:
        return self.device

    @property
    def mean_value(self) -> Tensor:
        return torch.full((math.prod(self.shape),), math.inf, dtype=torch.float64, device=self.device)

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        log_value = self.log_laplace(rule.nodes(self.device))
        if log_value.shape != (*self.shape, rule.count) or log_value.dtype != torch.float64:
            raise ValueError(
                f"log_laplace returned shape {tuple(log_value.shape)} in {log_value.dtype}; expected "
                f"{(*self.shape, rule.count)} in float64: the batch shape, then the nodes"
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
    def place(self) -> torch.device:
        return self.laws[0].place

    @property
    def log_max(self) -> float:
        return max(law.log_max for law in self.laws) + math.log(len(self.laws))

    @property
    def mean_value(self) -> Tensor:
        return reduce(torch.add, (law.mean_value.to(self.device) for law in self.laws))

    def transform(self, rule: Rule, near: Tensor) -> Transform:
        parts = [law.transform(rule, near.to(law.device)) for law in self.laws]
        columns = ([part.to(self.device) for part in column] for column in zip(*parts, strict=True))
        return Transform(*(reduce(torch.add, column) for column in columns))


def flat(log_x: Tensor) -> Tensor:
    """In float64, the batch flattened to one dimension."""
    dense = isinstance(log_x, Tensor) and log_x.layout is torch.strided and not (log_x.is_nested or log_x.is_meta)
    if not dense or not log_x.is_floating_point():
        raise ValueError(
            f"log_x must be a dense tensor of floating-point logits, got {getattr(log_x, 'dtype', type(log_x))}"
        )
    if log_x.ndim == 0 or log_x.shape[-1] == 0:
        raise ValueError(f"log_x has shape {tuple(log_x.shape)}; its last dimension must hold at least one class")
    return log_x.to(torch.float64).reshape(log_x.shape[:-1].numel(), log_x.shape[-1])


def _checked(log_x: Tensor, weights: Tensor | None = None, name: str = "") -> tuple[Tensor, tuple[float, float], float]:
    """The rows of terms without NaN or +inf, their extremes, those of weight 0 as 0; and the largest log weight."""
    rows, most = flat(log_x), 0.0
    if weights is None:
        (ends,) = extremes(rows.detach())
    else:
        weights = _shaped(name, weights, log_x.shape).detach()
        ends, (least, most) = extremes(rows.detach(), weights)
        if math.isnan(least):
            raise ValueError(f"{name} holds NaN; it must hold logarithms of probabilities")
        if least == -math.inf:
            rows = torch.where((weights == -math.inf) & ~torch.isnan(rows), -math.inf, rows)
            (ends,) = extremes(rows.detach())
    if not ends[1] < math.inf:
        raise ValueError(f"log_x holds {ends[1]}; logits must be finite, or -inf for a term of value 0")
    return rows, ends, most


def _shaped(name: str, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Log probabilities for each row of log_x, which has the ``shape``, or for all: [1 or batch, classes], float64."""
    if not isinstance(values, Tensor) or not values.is_floating_point():
        raise ValueError(f"{name} must be a floating-point tensor, got {getattr(values, 'dtype', type(values))}")
    rows = values.shape[:-1].numel()
    if values.ndim == 0 or values.shape[-1] != shape[-1] or (rows != 1 and values.shape != shape):
        raise ValueError(f"{name} has shape {tuple(values.shape)}, which does not fit {tuple(shape)} of log_x")
    return values.to(torch.float64).reshape(rows, shape[-1])
