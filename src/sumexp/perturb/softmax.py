r"""Perturb-Softmax: :math:`p = \mathbb E\,\mathrm{softmax}((\theta+\gamma)/\tau)` and its potential, exactly.

.. math::
    f(\theta) = \tau\,\mathbb E\log\sum_je^{(\theta_j+\gamma_j)/\tau}, \qquad \nabla f = p, \qquad
    \nabla^2f = \tfrac1\tau\big(\mathrm{diag}(p) - \mathbb E[\mathrm{softmax}\,\mathrm{softmax}^\top]\big).

All are integrals over :math:`u = \log t` from :math:`1/Y = \int_0^\infty e^{-tY}dt` with
:math:`Y = \sum_je^{(\theta_j+\gamma_j)/\tau}`; deterministic, batched over [..., d], in float64 on the device of
``theta``. The perturbations are i.i.d. Memory is bounded by chunks of rows; time grows like 1/tau below the scale of a
noise with edges, and with the number of atoms. Parameters are clamped at 300 max(scale of the noise, tau) below the
largest (e^-300 of its weight, for light tails).

All functions raise the errors of :func:`mean`.

Source: Cohen Indelman and Hazan, equations (4), (6), (7).
"""

from collections.abc import Callable

import torch
from numpy import euler_gamma
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sumexp._checks import is_transformed, typed
from sumexp.perturb import _checks as checks
from sumexp.perturb._nodes import BLOCK, Direct, Table, grid
from sumexp.perturb.noises import GUMBEL
from sumexp.perturb.race import laplacian
from sumexp.perturb.transforms import Noise, checked


@typed
def mean(theta: Tensor, noise: Noise = GUMBEL, tau: float | Tensor = 1.0) -> Tensor:
    r""":math:`\mathbb E\,\mathrm{softmax}((\theta+\gamma)/\tau)`, equation (4).

    ``theta`` and the probabilities are [..., d], d >= 2, ``tau`` is a scalar; differentiable in both. The relative
    error is about 1e-13 down to probabilities of 1e-20; below, only the absolute error is as small.

    Raises:
        ValueError: if theta has d < 2, no row or an entry that is not finite, tau is not a finite number > 0 or is too
            small for a noise with edges, there are too many classes for Cauchy or discrete noise (more than a few
            hundred), or the probabilities do not sum to 1.
    """
    p = _by_rows(theta, noise, tau, lambda nodes, x: nodes.race(x).probabilities())
    total = p.detach().sum(-1).flatten()
    worst = total[(total - 1).abs().argmax()].item()
    if not abs(worst - 1) < 1e-6:
        raise ValueError(
            f"the probabilities sum to {worst}: the nodes do not serve {noise} at tau = {tau}; please report it"
        )
    return p


@typed
def potential(theta: Tensor, noise: Noise = GUMBEL, tau: float | Tensor = 1.0) -> Tensor:
    r""":math:`f(\theta) = \tau\,\mathbb E\log\sum_je^{(\theta_j+\gamma_j)/\tau}`, equation (6); [...].

    Raises:
        ValueError: for noise whose maximum has no finite mean (Cauchy), where f is infinite.
    """
    if not checked(noise).finite_max:
        raise ValueError(
            f"the expected log-sum-exp is infinite for {noise}, as E max is; the mean of the softmax exists: use mean()"
        )
    scale = checks.temperature(tau)
    top = checks.parameters(theta).amax(-1)
    inner = _by_rows(theta, noise, tau, _log_sum_exp).squeeze(-1)
    return top.detach() + scale.to(inner.device) * inner + noise.reduced.loc


@typed
def variance(theta: Tensor, noise: Noise = GUMBEL, tau: float | Tensor = 1.0) -> Tensor:
    r""":math:`\operatorname{Var}p_i` of the random softmax p, [..., d]; never negative.

    The absolute error is about 1e-14 of :math:`\mathbb E p_i^2`, for the likeliest class of
    :math:`\mathbb E(1-p_i)^2`. Where tau is far above the scale of the noise, that can exceed the variance.
    """
    return _by_rows(theta, noise, tau, lambda nodes, x: nodes.laws(x).variances())


@typed
def pair_moments(theta: Tensor, noise: Noise = GUMBEL, tau: float | Tensor = 1.0) -> Tensor:
    r""":math:`\mathbb E[p_ip_j]` for i != j, [..., d, d]; the diagonal is meaningless."""
    return _by_rows(theta, noise, tau, lambda nodes, x: nodes.race(x).pairs())


@typed
def hessian(theta: Tensor, noise: Noise = GUMBEL, tau: float | Tensor = 1.0) -> Tensor:
    r""":math:`\nabla^2f = \frac1\tau(\mathrm{diag}(\mathbb Ep) - \mathbb E[pp^\top])`, [..., d, d].

    It is the Laplacian of the weights :math:`\mathbb E[p_ip_j]/\tau > 0`, so that its kernel is exact.
    """
    weights = pair_moments(theta, noise, tau)
    return laplacian(weights) / checks.temperature(tau).to(weights.device)


@typed
def hessian_product(theta: Tensor, v: Tensor, noise: Noise = GUMBEL, tau: float | Tensor = 1.0) -> Tensor:
    r""":math:`\nabla^2f\,v` in O(d) memory and time, [..., d]; v is broadcast to theta."""
    theta = checks.parameters(theta)
    v = checks.direction(v, theta)
    product = _by_rows(theta, noise, tau, lambda nodes, x, y: nodes.race(x).laplacian_product(y), v)
    return product / checks.temperature(tau).to(theta.device)


@typed
def mean_and_pull(
    theta: Tensor, slope: Callable[[Tensor], Tensor], noise: Noise = GUMBEL, tau: float | Tensor = 1.0
) -> tuple[Tensor, Tensor]:
    r"""In one pass the mean p and :math:`\nabla^2f\,s(p)`, the gradient in theta of a function with gradient s(p) in p.

    ``slope`` is s, from rows [n, d] of the mean.
    """

    def work(nodes: Table | Direct, x: Tensor) -> Tensor:
        race = nodes.race(x)
        p = race.probabilities()
        return torch.stack([p, race.laplacian_product(slope(p))], -2)

    p, pulled = _by_rows(theta, noise, tau, work).unbind(-2)
    return p, pulled / checks.temperature(tau).to(p.device)


@typed
def hessian_diagonal(theta: Tensor, noise: Noise = GUMBEL, tau: float | Tensor = 1.0) -> Tensor:
    r"""The diagonal of the Hessian, :math:`(\mathbb Ep_i - \mathbb Ep_i^2)/\tau`, in O(d) memory, [..., d]."""
    diagonal = _by_rows(theta, noise, tau, lambda nodes, x: nodes.race(x).diagonal())
    return diagonal / checks.temperature(tau).to(diagonal.device)


def _log_sum_exp(nodes: Table | Direct, x: Tensor) -> Tensor:
    """E lse(x + gamma/tau), [rows, 1]: lse + G is the maximum of x + gamma/tau + G_j, which has distribution P(-u)."""
    return -(nodes.nodes(x) * nodes.race(x).probability_per_node()).sum(-1, keepdim=True) - euler_gamma


def _by_rows(theta: Tensor, noise: Noise, tau: float | Tensor, work: Callable[..., Tensor], *extra: Tensor) -> Tensor:
    """Apply ``work(table, x, ...)`` to x = (theta - max)/tau in chunks of rows, recomputed in the backward pass."""
    theta, scale, reduced = checks.parameters(theta), checks.temperature(tau), checked(noise).reduced
    classes = theta.shape[-1]
    x = (theta - theta.detach().amax(-1, keepdim=True)) / scale.to(theta.device)
    relative = checks.temperature(scale / reduced.scale)  # in units of the noise's scale
    nodes = grid(reduced.standard, relative, classes, x.detach().min().item(), theta.device)
    rows = max(1, BLOCK // (classes * nodes.count))
    inputs = [checks.pieces(part.reshape(-1, classes), rows) for part in (x, *extra)]
    chunks = zip(*inputs, strict=True)
    if torch.is_grad_enabled() and (x.requires_grad or scale.requires_grad) and not is_transformed():
        result = torch.cat([checkpoint(work, nodes, *chunk, use_reentrant=False) for chunk in chunks])
    else:
        result = checks.joined((work(nodes, *chunk) for chunk in chunks), x.numel() // classes)
    return result.reshape(*theta.shape[:-1], *result.shape[1:])
