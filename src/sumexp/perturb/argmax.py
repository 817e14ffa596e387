r"""Perturb-Argmax: which class has the largest :math:`\theta_j + \gamma_j`, exactly.

.. math::
    p_i = \int f(u-\theta_i)\prod_{j\ne i}F(u-\theta_j)\,du, \qquad
    \phi(\theta) = \mathbb E\max_j(\theta_j+\gamma_j), \qquad \nabla\phi = p .

The integrals are one-dimensional for every d. For noise that is unbounded above, the substitution
:math:`u = \theta_{\max} + Q(1/(1+e^{-w}))` with the quantile function Q gives exponential tails, for the trapezoid rule
in w. If the support ends, the integrand is smooth between the ends :math:`\theta_j + b`, and each piece has a
Gauss-Legendre rule (O(d) pieces, so O(d^2) work). Gumbel noise gives the softmax itself.

All functions raise the errors of :func:`probabilities`.

Source: Cohen Indelman and Hazan, equations (3), (11), (12), (14).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from sumexp._checks import first_order, has_tangent, is_transformed, refuse_batched, typed
from sumexp.perturb import _checks as checks
from sumexp.perturb import _heavy as heavy
from sumexp.perturb.noises import GUMBEL, Cauchy, Gaussian, Gumbel, Logistic
from sumexp.perturb.race import Race, laplacian
from sumexp.perturb.transforms import Continuous, Noise, checked

STEP = 0.15
BLOCK = 1 << 20
NODES = 1 << 22
"""Classes times nodes held at a time."""
MOST = 1 << 30
"""Classes times nodes of a row, up to a minute: each distinct end of a support adds a piece of 16 nodes."""
PIECES, ORDER = 16, 16
"""Gauss-Legendre: the range is cut at the ends of the supports and into 16 equal parts, 16 points each."""


@typed
def probabilities(theta: Tensor, noise: Noise = GUMBEL) -> Tensor:
    r""":math:`\mathbb P(i = \arg\max_j(\theta_j+\gamma_j))`, equation (3).

    ``theta`` and the probabilities, differentiable, are [..., d], d >= 2. Discrete noise has ties: see
    :mod:`sumexp.perturb.discrete`.

    Raises:
        ValueError: if theta has d < 2, no row or an entry that is not finite, the noise is discrete, or its support
            ends and there are more than some 8,000 classes of different parameters.
        NotImplementedError: for other noises than Gumbel under ``torch.func`` or in forward mode.
    """
    if isinstance(noise, Gumbel):
        return torch.softmax(checks.parameters(theta) / noise.scale, -1)
    return quadrature(theta, noise)


@typed
def quadrature(theta: Tensor, noise: Noise) -> Tensor:
    """The same by quadrature, also for Gumbel noise, which has a closed form."""
    _refuse_transforms(theta, noise)
    return _integral(checks.parameters(theta), noise, True, lambda race, _u: race.probabilities())


@typed
def potential(theta: Tensor, noise: Noise = GUMBEL) -> Tensor:
    r""":math:`\phi(\theta) = \mathbb E\max_j(\theta_j+\gamma_j)`, equation (11); [...].

    Raises:
        ValueError: for noise whose maximum has no finite mean (Cauchy).
    """
    if not checked(noise).finite_max:
        raise ValueError(f"E max is infinite for {noise}: only probabilities() exist")
    if isinstance(noise, Gumbel):
        theta = checks.parameters(theta)
        return noise.scale * torch.logsumexp(theta / noise.scale, -1) + noise.mean
    _refuse_transforms(theta, noise)
    return noise.reduced.loc + cast(Tensor, _Potential.apply(checks.parameters(theta), noise))  # type: ignore[no-untyped-call]


class _Integral(torch.autograd.Function):
    """The Jacobian of the law is a symmetric Laplacian: its backward pass is another integral, which has none."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, noise: Noise, is_law: bool, work: Any, *extra: Tensor) -> Tensor:
        ctx.save_for_backward(theta)
        ctx.noise, ctx.is_law = noise, is_law
        return _by_rows(theta, noise, work, *extra)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.is_law:
            raise RuntimeError(f"a Jacobian of {ctx.noise} has no derivatives: detach theta and v")
        refuse_batched(grads[0])
        (theta,) = ctx.saved_tensors
        return jacobian_product(theta, grads[0], ctx.noise), None, None, None


_integral: Callable[..., Tensor] = _Integral.apply


class _Potential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, theta: Tensor, noise: Noise) -> Tensor:
        ctx.save_for_backward(theta)
        ctx.noise = noise
        above = _by_rows(theta, noise, lambda race, u: (u * race.probability_per_node()).sum(-1, keepdim=True))
        return theta.amax(-1) + above.squeeze(-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (theta,) = ctx.saved_tensors
        return grads[0].unsqueeze(-1) * quadrature(theta, ctx.noise), None


@typed
def pair_weights(theta: Tensor, noise: Noise = GUMBEL) -> Tensor:
    r""":math:`w_{ij} = \int f(u-\theta_i)f(u-\theta_j)\prod_{l\ne i,j}F(u-\theta_l)\,du`, [..., d, d].

    The diagonal is meaningless. Differentiable for Gumbel noise only.
    """
    if isinstance(noise, Gumbel):
        p = probabilities(theta, noise)
        return p.unsqueeze(-1) * p.unsqueeze(-2) / noise.scale
    _refuse_transforms(theta, noise)
    return _integral(theta, noise, False, lambda race, _u: race.pairs())


@typed
def jacobian(theta: Tensor, noise: Noise = GUMBEL) -> Tensor:
    r"""The Hessian of :math:`\phi`, the Laplacian of :func:`pair_weights`: [..., d, d]."""
    return laplacian(pair_weights(theta, noise))


@typed
def jacobian_product(theta: Tensor, v: Tensor, noise: Noise = GUMBEL) -> Tensor:
    """The Jacobian times v [..., d] in O(d) memory, [..., d]; v is broadcast to theta. It is not differentiable."""
    _refuse_transforms(theta, noise)
    v = checks.direction(v, checks.parameters(theta))
    return _integral(theta, noise, False, lambda race, _u, part: race.laplacian_product(part), v)


def _refuse_transforms(theta: Tensor, noise: Noise) -> None:
    """Raise a NotImplementedError where the places of nodes cannot be read, and derivatives would be 0 in silence."""
    if is_transformed() or has_tangent(theta):
        raise NotImplementedError(
            f"torch.func and forward mode transform no quadrature of {noise}: give all rows at once, [..., d], and "
            "differentiate by .backward(), or take sumexp.perturb.batched"
        )


def _by_rows(theta: Tensor, noise: Noise, work: Callable[..., Tensor], *extra: Tensor) -> Tensor:
    """Apply ``work(race, u, ...)`` in chunks of rows; u are the nodes, measured from the largest parameter."""
    theta, noise = checks.parameters(theta), checked(noise)
    if not isinstance(noise, Continuous):
        raise ValueError(
            f"{noise} has ties: its law is not a function of theta everywhere; use sumexp.perturb.discrete"
        )
    classes = theta.shape[-1]
    x = (theta - theta.amax(-1, keepdim=True)).reshape(-1, classes)
    # A logistic race is flat between the best two, for all that are far below.
    spread = -(x.topk(2).values if isinstance(noise, Logistic) else x).min().item()
    noise = replace(noise, loc=0.0)  # a shift changes no law, and could cost digits
    bounded = math.isfinite(noise.support[1])
    if isinstance(noise, Cauchy):
        count = heavy.count(classes, spread, noise.scale)
    else:
        count = (classes + PIECES) * ORDER if bounded else _line(noise, classes, spread).numel()

    def of_rows(part: Tensor, *rest: Tensor) -> Tensor:
        if isinstance(noise, Cauchy):
            u, log_weights = heavy.nodes(part, noise.scale)
        else:
            u, log_weights = _pieces(part, noise) if bounded else _whole(part, noise, spread)
        if classes * u.shape[-1] > MOST:
            raise ValueError(
                f"theta has {classes:,} classes; with {noise}, whose support ends, they need {u.shape[-1]:,} nodes "
                "each: use fewer classes, equal parameters, or noise that is unbounded above"
            )

        def of_nodes(at: Tensor, log_weights: Tensor) -> Tensor:
            place = at.unsqueeze(-2) - part.unsqueeze(-1)
            log_cdf = noise.log_cdf(place)
            return work(Race(log_cdf, noise.log_density(place) - log_cdf, log_weights), at, *rest)

        size = max(1, NODES // part.numel())
        first, *others = map(of_nodes, *(torch.split(full, size, -1) for full in (u, log_weights.expand_as(u))))
        return sum(others, first)

    chunks = [checks.pieces(full.reshape(-1, classes), BLOCK // (classes * count)) for full in (x, *extra)]
    result = checks.joined((of_rows(*chunk) for chunk in zip(*chunks, strict=True)), len(x))
    return result.reshape(*theta.shape[:-1], *result.shape[1:])


def _line(noise: Continuous, classes: int, spread: float) -> Tensor:
    """The nodes w."""
    wide = spread / noise.scale
    # Left of -42 only classes far below the largest contribute; below e^-680 everything underflows.
    left = -42.0 - (min(wide**2 / 2 if wide < 40 else 640.0, 640.0) if isinstance(noise, Gaussian) else 0.0)
    left -= min(max(wide - 10, 0.0), 640.0) if isinstance(noise, Logistic) else 0.0
    right = 42.0 + math.log(classes)
    count = math.ceil((right - left) / STEP) + 1
    return left + STEP * torch.arange(count, dtype=torch.float64, device="cpu")


def _whole(x: Tensor, noise: Continuous, spread: float) -> tuple[Tensor, Tensor]:
    """Nodes u and log weights of the trapezoid rule in w, [rows, K]."""
    w = _line(noise, x.shape[-1], spread).to(x.device)
    place = noise.from_logit(w)
    log_weights = logsigmoid(w) + logsigmoid(-w) - noise.log_density(place) + math.log(STEP)
    return x.amax(-1, keepdim=True) + place, log_weights


def _pieces(x: Tensor, noise: Continuous) -> tuple[Tensor, Tensor]:
    """Nodes u and log weights of Gauss-Legendre rules between the ends of the supports, [rows, K]."""
    top = x.amax(-1, keepdim=True)
    low, high = top + noise.support[0], top + noise.support[1]
    above = high
    for _ in range(60):  # raise the lower end to where the product of all F is e^-60
        middle = (low + above) / 2
        empty = noise.log_cdf(middle - x).sum(-1, keepdim=True) < -60
        low, above = torch.where(empty, middle, low), torch.where(empty, above, middle)
    even = torch.linspace(0, 1, PIECES + 1, dtype=x.dtype, device=x.device)[:-1]
    ends = torch.cat([torch.maximum(x + noise.support[1], low), low + even * (high - low)], -1).sort(-1).values
    half = torch.diff(ends, dim=-1) / 2
    wide = (half > 0).any(0)  # between equal ends there is no piece
    half, begin = half[:, wide], ends[:, :-1][:, wide]
    points, weights = (torch.from_numpy(part).to(x.device) for part in np.polynomial.legendre.leggauss(ORDER))
    u = (begin + half).unsqueeze(-1) + half.unsqueeze(-1) * points
    u = torch.where(half.unsqueeze(-1) > 0, u, high.unsqueeze(-1))  # empty pieces: any place with finite values
    log_weights = half.log().unsqueeze(-1) + weights.log()
    return u.flatten(-2), log_weights.flatten(-2)
