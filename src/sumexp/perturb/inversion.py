r"""From a probability vector to its parameters, by Newton's method.

On the open simplex the map from :math:`\{\theta : \sum_i\theta_i = 0\}` to probabilities is one-to-one and onto, for
Perturb-Softmax with any noise and for Perturb-Argmax with noise whose density is positive; its Jacobian is the
Laplacian H of :mod:`sumexp.perturb.race`. A Newton step solves :math:`H\delta = p - q(\theta)` and is halved until the
residual, measured by :math:`\sum_i(p_i-q_i)^2/p_i`, falls.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from sumexp._checks import typed
from sumexp.perturb import _checks as checks
from sumexp.perturb import argmax, softmax
from sumexp.perturb.noises import GUMBEL
from sumexp.perturb.transforms import Continuous, Noise, checked

TOLERANCE = 1e-12


@typed
def softmax_parameters(p: Tensor, noise: Noise = GUMBEL, tau: float = 1.0) -> Tensor:
    r"""The :math:`\theta` of sum zero with :math:`\mathbb E\,\mathrm{softmax}((\theta+\gamma)/\tau) = p`.

    Args:
        p: targets [..., d] in the open simplex.
        noise: law of each perturbation.
        tau: temperature.

    Returns:
        Parameters [..., d], such that every probability is met to a relative 1e-12.

    Raises:
        ValueError: if a target is no probability vector or lies on the boundary, or Newton's method does not arrive.
    """
    p = checks.target(p)
    start = p.log() * checks.temperature(tau).item()
    return _rows(
        p, start, lambda theta: softmax.mean(theta, noise, tau), lambda theta: softmax.hessian(theta, noise, tau)
    )


@typed
def argmax_parameters(p: Tensor, noise: Noise = GUMBEL) -> Tensor:
    r"""The :math:`\theta` of sum zero with :math:`\mathbb P(i = \arg\max_j(\theta_j+\gamma_j)) = p_i`.

    Raises:
        ValueError: as :func:`softmax_parameters`, and for noise without a density, where the law is no function.
    """
    noise = checked(noise)
    if not isinstance(noise, Continuous):
        raise ValueError(f"{noise} has no density: its Perturb-Argmax is a step function, which reaches few targets")
    p = checks.target(p)
    start = noise.from_logit(torch.logit(p))
    return _rows(
        p, start, lambda theta: argmax.probabilities(theta, noise), lambda theta: argmax.jacobian(theta, noise)
    )


def _rows(p: Tensor, start: Tensor, law: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Tensor:
    rows = zip(p.reshape(-1, p.shape[-1]), start.reshape(-1, p.shape[-1]), strict=True)
    with torch.no_grad():
        return torch.stack([_newton(row / row.sum(), first, law, slope) for row, first in rows]).reshape(p.shape)


def _newton(p: Tensor, start: Tensor, law: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Tensor:
    def residual(theta: Tensor) -> tuple[Tensor, float]:
        difference = p - law(theta)
        return difference, (difference.square() / p).sum().item()

    # In p^{-1/2} H p^{-1/2} small classes weigh as much as large ones; its kernel is sqrt(p).
    scale = p.rsqrt()
    kernel = torch.outer(p.sqrt(), p.sqrt())
    theta = min((start - start.mean(), torch.zeros_like(start)), key=lambda guess: residual(guess)[1])
    difference, merit = residual(theta)
    for _ in range(100):
        matrix = scale.unsqueeze(-1) * slope(theta) * scale
        matrix = matrix + kernel * matrix.diagonal().mean()
        step = scale * torch.linalg.solve(matrix, scale * difference)
        step = step - step.mean()
        length = 1.0
        while length > 1e-12:
            moved, now = residual(theta + length * step)
            if now < merit:
                break
            length /= 2
        else:
            break  # nothing is gained any more: rounding, or a flat region
        theta, difference, merit = theta + length * step, moved, now
    worst = (difference / p).abs().max().item()
    if not worst < TOLERANCE:
        raise ValueError(f"Newton's method stopped at a relative error of {worst:.1e} for the target {p.tolist()}")
    return theta
