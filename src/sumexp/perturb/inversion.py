r"""From a probability vector to its parameters, by Newton's method.

The map from :math:`\{\theta : \sum_i\theta_i = 0\}` to the open simplex is a bijection, for Perturb-Softmax with any
noise and for Perturb-Argmax with noise of positive density. Its Jacobian is the Laplacian H of
:mod:`sumexp.perturb.race`. A Newton step solves :math:`H\delta = p - q(\theta)` and is halved until
:math:`\sum_i(p_i-q_i)^2/p_i` falls.
"""

from collections.abc import Callable
from functools import partial

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

    Targets and parameters are [..., d], without gradients; the relative error of every probability is below 1e-12.

    Raises:
        ValueError: if a target is not in the open simplex, or Newton's method does not converge.
    """
    p = checks.target(p)
    start = p.log() * checks.temperature(tau).item()
    return _rows(p, start, partial(softmax.mean, noise=noise, tau=tau), partial(softmax.hessian, noise=noise, tau=tau))


@typed
def argmax_parameters(p: Tensor, noise: Noise = GUMBEL) -> Tensor:
    r"""The :math:`\theta` of sum zero with :math:`\mathbb P(i = \arg\max_j(\theta_j+\gamma_j)) = p_i`.

    Raises:
        ValueError: as :func:`softmax_parameters`, and for noise without a density, where the law is no function.
    """
    noise = checked(noise)
    if not isinstance(noise, Continuous):
        raise ValueError(f"{noise} has no density: its Perturb-Argmax is a step function and reaches few targets")
    p = checks.target(p)
    start = noise.from_logit(torch.logit(p, eps=2.0**-1022).clamp_max(37.0))
    return _rows(p, start, partial(argmax.probabilities, noise=noise), partial(argmax.jacobian, noise=noise))


def _rows(p: Tensor, start: Tensor, law: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Tensor:
    rows = zip(p.reshape(-1, p.shape[-1]), start.reshape(-1, p.shape[-1]), strict=True)
    with torch.no_grad():
        return torch.stack([_newton(row / row.sum(), first, law, slope) for row, first in rows]).reshape(p.shape)


def _newton(p: Tensor, start: Tensor, law: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Tensor:
    def residual(theta: Tensor) -> tuple[Tensor, float]:
        # The likeliest class from the others: its rounding would drown what rare ones have.
        difference = (p - law(theta)).index_fill(0, likeliest, 0.0)
        difference = difference.index_fill(0, likeliest, -difference.sum().item())
        return difference, (difference.square() / p).sum().item()

    # In p^{-1/2} H p^{-1/2} rare classes weigh as much as frequent ones; its kernel is sqrt(p).
    scale, likeliest = p.rsqrt(), p.argmax(0, keepdim=True)
    kernel = torch.outer(p.sqrt(), p.sqrt())
    guesses = (part * (start - start.mean()) for part in (1.0, 0.7, 0.0))
    theta = min(guesses, key=lambda guess: (law(guess).clamp_min(1e-300) / p).log().abs().max().item())
    difference, merit = residual(theta)
    for _ in range(100):
        matrix = scale.unsqueeze(-1) * slope(theta) * scale
        matrix = matrix + kernel * matrix.diagonal().mean()
        step = scale * torch.linalg.solve_ex(matrix, scale * difference).result
        step = step - step.mean()
        if not bool(step.isfinite().all()):
            break  # a flat region
        length = 1.0
        while length > 1e-12:
            moved, now = residual(theta + length * step)
            if now < merit:
                break
            length /= 2
        else:
            break  # no further gain: rounding, or a flat region
        theta, difference, merit = theta + length * step, moved, now
    worst = (difference / p).abs().max().item()
    if not worst < TOLERANCE:
        raise ValueError(f"Newton's method stopped at a relative error of {worst:.1e} for the target {p.tolist()}")
    return theta
