r"""Perturb-Argmax probabilities of many rows at once, in float32 or float64: one grid for all rows.

:mod:`sumexp.perturb.argmax` has nodes for each row and works in logarithms, to full accuracy. Training needs thousands
of rows a step, but no digits of probabilities below 1e-6 (float32) or 1e-18 (float64). So all rows share a trapezoid
rule in the place u of the winner, measured from the row's largest parameter: with
:math:`x_i = (\theta_i-\max_j\theta_j)/s \le 0`,

.. math::
    p_i = \int r_i P\,du,\qquad r_i = \frac{f(u-x_i)}{F(u-x_i)},\qquad P = \prod_j F(u-x_j) \le F(u),

so that nothing is lost left of where F is negligible, and no F underflows right of it. The integrand is analytic; the
more classes, the narrower it can be and the finer the step. The logistic's falls like :math:`e^{-u}` on the right,
where u grows exponentially. The Jacobian is the Laplacian of :mod:`sumexp.perturb.race`: its product with a vector
takes the same nodes and no graph. A class of parameter -inf never wins. Values are not checked, which would stop a GPU:
a row with NaN, +inf, or no finite logit gives NaN.

In graphs and under ``torch.func`` the same integrals are plain operations, differentiable any number of times.

All functions raise the errors of :func:`probabilities`.

Source: Cohen Indelman and Hazan, equation (3).
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from sumexp._checks import first_order, has_tangent, is_traced
from sumexp.perturb._checks import pieces
from sumexp.perturb.noises import Gaussian, Gumbel, Logistic

Common: TypeAlias = Gumbel | Gaussian | Logistic
"""The noises that have a common grid; the Gumbel has the softmax."""

BLOCK = {"cpu": 1 << 18, "cuda": 1 << 25}
"""Values of the integrand held at once: enough for a core's cache, and to keep a GPU busy."""


@dataclass(frozen=True)
class Rule:
    r"""A trapezoid rule in t, with places :math:`u(t)` in units of the noise's scale.

    Attributes:
        low: the left end.
        tail: the share of a probability beyond the right end is smaller.
        coarsest: the step for few classes.
        step: the step for K classes is at most :math:`\mathrm{step}\cdot K^{-\mathrm{power}}`.
        power: of K.
        growth: a in :math:`u = t + e^{a(t-\log K-\mathrm{onset})}/a`; 0 for :math:`u = t`.
        onset: how far right of log K, where the largest of K equals lies, u begins to grow.
    """

    low: float
    tail: float
    coarsest: float
    step: float
    power: float
    growth: float = 0.0
    onset: float = 0.0

    def width(self, classes: int) -> float:
        """The step for a number of classes."""
        return min(self.coarsest, self.step * math.pow(classes, -self.power))


# Measured against argmax.quadrature for 2 to 200 classes: errors up to 1e-6 and 1e-12 of each probability.
_RULES: dict[tuple[type[Common], torch.dtype], Rule] = {
    (Gaussian, torch.float32): Rule(low=-7.0, tail=1e-8, coarsest=0.5, step=0.8, power=0.25),
    (Gaussian, torch.float64): Rule(low=-12.5, tail=1e-17, coarsest=0.3, step=0.45, power=0.25),
    (Logistic, torch.float32): Rule(low=-22.0, tail=1e-8, coarsest=0.8, step=0.9, power=0.1, growth=0.75, onset=2.0),
    (Logistic, torch.float64): Rule(low=-60.0, tail=1e-17, coarsest=0.4, step=0.5, power=0.1, growth=0.75, onset=2.0),
}


def probabilities(theta: Tensor, noise: Common) -> Tensor:
    r""":math:`\mathbb P(i = \arg\max_j(\theta_j+\gamma_j))`, equation (3).

    ``theta`` is [..., K], float32 or float64, with -inf for a class that never wins; the location of ``noise`` does not
    matter. The probabilities have the shape and type of ``theta`` and are differentiable once.

    Raises:
        ValueError: if theta is of another type or has no class or row, or the noise is another.
    """
    if isinstance(_checked(theta, noise), Gumbel):
        return torch.softmax(theta / noise.scale, -1)
    if is_traced(theta) or has_tangent(theta):
        return _plain(theta, noise)
    return cast(Tensor, _Probabilities.apply(theta, noise))  # type: ignore[no-untyped-call]


def log_probabilities(theta: Tensor, noise: Common) -> Tensor:
    r"""Their logarithms: -inf where theta is, else at least half the logarithm of the least normal number.

    This floor (1e-19 in float32, 1e-154 in float64) keeps :math:`q\log q` and its gradient finite: there the gradient
    is 0, and between it and 1e-6 (1e-18) digits are lost. For a loss of single logarithms take
    :class:`sumexp.distributions.PerturbArgmax`, whose ``log_prob`` has no floor. The Gumbel has none.
    """
    if isinstance(_checked(theta, noise), Gumbel):
        return torch.log_softmax(theta / noise.scale, -1)
    return _floored(probabilities(theta, noise)).log().masked_fill(theta == -math.inf, -math.inf)


def negative_entropy(theta: Tensor, noise: Common) -> Tensor:
    r""":math:`\sum_i q_i\log q_i` of these probabilities; [...], differentiable once.

    The gradient, the Laplacian times :math:`\log q`, is computed with the value, from the same nodes.
    """
    _checked(theta, noise)
    return divergence(theta, torch.zeros_like(theta), noise)


def divergence(theta: Tensor, log_p: Tensor, noise: Common) -> Tensor:
    r""":math:`\sum_i q_i(\log q_i - \log p_i)` of these probabilities from a law p; [...], differentiable once.

    ``log_p`` broadcasts to ``theta`` [..., K] and is of its type. It is infinite where p has a 0 and q has none.
    """
    noise = _checked(theta, noise)
    if log_p.dtype != theta.dtype:
        raise ValueError(f"log_p is {log_p.dtype}, theta {theta.dtype}; they must be of one type")
    try:
        log_p = log_p.expand_as(theta)
    except RuntimeError:
        raise ValueError(f"log_p {tuple(log_p.shape)} does not broadcast to theta {tuple(theta.shape)}") from None
    if isinstance(noise, Gumbel):
        log_q = torch.log_softmax(theta / noise.scale, -1)
        return (log_q.exp() * (log_q - log_p).masked_fill(theta == -math.inf, 0.0)).sum(-1)
    if is_traced(theta) or has_tangent(theta, log_p):
        q = _plain(theta, noise)
        gap = _floored(q).log() - log_p
        return (q * gap.masked_fill(gap.isinf() & (q == 0), 0.0)).sum(-1)
    if torch.is_grad_enabled() and (theta.requires_grad or log_p.requires_grad):
        return cast(Tensor, _Divergence.apply(theta, log_p, noise))  # type: ignore[no-untyped-call]
    return _by_rows(theta, noise, lambda race, other: race.divergence(other)[1], log_p).squeeze(-1)


def _plain(theta: Tensor, noise: Common) -> Tensor:
    """The probabilities by plain operations: nothing in place, all nodes in the graph."""
    nodes, weights = _grid(noise, theta.shape[-1], theta)
    place = (nodes + (theta.amax(-1, keepdim=True).detach() - theta).unsqueeze(-1) / noise.scale).movedim(-1, -2)
    if isinstance(noise, Gaussian):
        cdf = torch.erfc(place.clamp_max(40.0) * -math.sqrt(0.5)) / 2  # of inf it has no second derivative
        least = math.sqrt(torch.finfo(place.dtype).tiny)
        density = place.clamp_max(math.sqrt(-2 * math.log(least))).square().mul(-0.5).exp()
        ratio = torch.where(density > 1.01 * least, density, 0.0) / (math.sqrt(2 * math.pi) * cdf)
    else:
        cdf, ratio = torch.sigmoid(place), torch.sigmoid(-place)
    return (ratio * (cdf.log().sum(-1).exp() * weights).unsqueeze(-1)).sum(-2)


class _Probabilities(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, theta: Tensor, noise: Common) -> Tensor:
        ctx.save_for_backward(theta)
        ctx.noise = noise
        return _by_rows(theta, noise, lambda race: race.probabilities)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (theta,) = ctx.saved_tensors
        product = _by_rows(theta, ctx.noise, lambda race, v: race.laplacian_product(v), grads[0])
        return product / ctx.noise.scale, None


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, theta: Tensor, log_p: Tensor, noise: Common) -> Tensor:
        def value_and_gradients(race: "_Race", other: Tensor) -> Tensor:
            gap, value = race.divergence(other)
            return torch.cat([value, race.laplacian_product(gap), race.probabilities])

        results = _by_rows(theta, noise, value_and_gradients, log_p)
        classes = theta.shape[-1]
        ctx.save_for_backward(results[..., 1 : 1 + classes] / noise.scale, results[..., 1 + classes :])
        return results[..., 0]

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        slope, q = ctx.saved_tensors
        grad = grads[0].unsqueeze(-1)
        return grad * slope, -grad * q, None


class _Race:
    """The integrands on the nodes: ratio r [K, M, rows], weight times P [M, rows], their product.

    The classes lead and the rows are last, so that every product and sum runs along contiguous rows.
    """

    def __init__(self, x: Tensor, noise: Common, nodes: Tensor, weights: Tensor) -> None:
        place = nodes.unsqueeze(-1) - x.unsqueeze(1)
        if isinstance(noise, Gaussian):
            cdf = torch.erfc(place * -math.sqrt(0.5))  # twice the distribution function
            # Densities below 1e-19 (1e-154) count as 0: exp takes 40 times as long where it underflows.
            least = math.sqrt(torch.finfo(place.dtype).tiny)
            density = place.clamp_max_(math.sqrt(-2 * math.log(least))).square_().mul_(-0.5).exp_()
            self.ratio = torch.threshold_(density, 1.01 * least, 0.0).mul_(math.sqrt(2 / math.pi)).div_(cdf)
            cdf /= 2
        else:
            cdf = torch.sigmoid(place)
            self.ratio = place.neg_().sigmoid_()
        self.measure = cdf.prod(0).mul_(weights.unsqueeze(-1))
        self.won = torch.mul(self.ratio, self.measure, out=cdf)
        self.probabilities = self.won.sum(1)

    def divergence(self, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """log q - log p [K, rows], 0 where both are 0, and its mean [1, rows]."""
        gap = _floored(self.probabilities).log() - log_p
        gap = gap.masked_fill(gap.isinf() & (self.probabilities == 0), 0.0)
        return gap, (self.probabilities * gap).sum(0, keepdim=True)

    def laplacian_product(self, v: Tensor) -> Tensor:
        """The Laplacian times v [K, rows]; see :meth:`sumexp.perturb.race.Race.laplacian_product`."""
        # Subtracting a constant changes nothing; the likeliest class's value costs its large terms no digits.
        v = v - v.gather(0, self.probabilities.argmax(0, keepdim=True))
        total = (self.won * self.ratio.sum(0)).sum(1)
        along = (self.won * (self.ratio * v.unsqueeze(1)).sum(0)).sum(1)
        return v * total - along


def _grid(noise: Common, classes: int, theta: Tensor) -> tuple[Tensor, Tensor]:
    """The nodes u and the weights of the rule, of the type of theta."""
    rule = _RULES[type(noise), theta.dtype]
    step, beyond = rule.width(classes), math.log(classes / rule.tail)
    high = math.sqrt(2 * beyond) if isinstance(noise, Gaussian) else beyond
    most = math.ceil((high - rule.low) / step)
    if not rule.growth:
        nodes = rule.low + step * torch.arange(most + 1, dtype=theta.dtype, device=theta.device)
        return nodes, torch.full_like(nodes, step)
    begin = math.log(classes) + rule.onset

    def place(i: int) -> float:
        t = rule.low + step * i
        return t + math.exp(rule.growth * (t - begin)) / rule.growth

    # In a graph all: a search would tie it to the number of classes.
    last = most if is_traced(theta) else bisect_left(range(most), high, key=place)
    t = rule.low + step * torch.arange(last + 1, dtype=theta.dtype, device=theta.device)
    grown = (rule.growth * (t - begin)).exp()
    return t + grown / rule.growth, step * (1 + grown)


def _by_rows(theta: Tensor, noise: Common, work: Callable[..., Tensor], *extra: Tensor) -> Tensor:
    """``work(race, ...)`` [columns, rows] in chunks of rows, as [..., columns]."""
    classes = theta.shape[-1]
    nodes, weights = _grid(noise, classes, theta)
    x = (theta.detach() - theta.detach().amax(-1, keepdim=True)) / noise.scale
    rows = BLOCK.get(theta.device.type, BLOCK["cpu"]) // (classes * len(nodes))
    chunks = zip(*(pieces(part.reshape(-1, classes), rows) for part in (x, *extra)), strict=True)
    parts = [
        work(_Race(part.T.contiguous(), noise, nodes, weights), *(more.T for more in rest)) for part, *rest in chunks
    ]
    return torch.cat(parts, -1).T.reshape(*theta.shape[:-1], -1)


def _floored(q: Tensor) -> Tensor:
    return q.clamp_min(math.sqrt(torch.finfo(q.dtype).tiny))


def _checked(theta: Tensor, noise: Common) -> Common:
    if not isinstance(theta, Tensor) or theta.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"theta must be a float32 or float64 tensor, got {getattr(theta, 'dtype', type(theta))}")
    if theta.ndim == 0 or theta.numel() == 0:
        raise ValueError(f"theta has shape {tuple(theta.shape)}; it must hold a row of at least one class")
    if not isinstance(noise, Gumbel | Gaussian | Logistic):
        raise ValueError(f"{noise} has no common grid; use sumexp.perturb.argmax")
    return noise
