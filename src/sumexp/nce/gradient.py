r"""The sampled cross entropy with importance weights and its expected gradient.

For logits :math:`\theta` over classes, a target t and a law q on the other classes,

.. math:: L = \log Z - \theta_t, \qquad \hat L = \log\hat Z - \theta_t, \qquad
    \hat Z = e^{\theta_t} + \frac1m\sum_{i\le m}\frac{e^{\theta_{n_i}}}{q(n_i)},\quad n_i\sim q .

The rational functions take the weights :math:`w = e^\theta` and enumerate all draws; they are the second way.

Source: Stratos, appendix C.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import torch
from torch import Tensor

from sumexp import expectations
from sumexp._checks import ids, typed, whole
from sumexp.nce._inputs import checked_law


@typed
def loss(theta: Tensor, target: int) -> Tensor:
    r""":math:`L(\theta) = \log Z(\theta) - \theta_t` for logits [..., classes], in float64.

    Raises:
        ValueError: if ``target`` is no class or the largest logit is not finite.
    """
    theta, target = _finite(theta, target)
    return -torch.log_softmax(theta, -1)[..., target]


@typed
def phi(theta: Tensor, target: int, draws: Tensor, log_q: Tensor) -> Tensor:
    r"""[..., m + 1] :math:`\phi_i = \theta_{n_i} - \log(m\,q(n_i))`, and last :math:`\phi_{m+1} = \theta_t`.

    Args:
        theta: [classes] logits.
        target: t.
        draws: [..., m] classes drawn, none of them the target.
        log_q: [classes] log probabilities of a draw, ``-inf`` at the target.

    Raises:
        ValueError: if there is no draw, the target is drawn or has q > 0, q is no law, or a class with q = 0 is drawn.
    """
    log_noise = _negative_law(log_q, _finite(theta, target)[0].shape[-1], target)
    draws = ids("draw", draws, len(log_noise))
    m = draws.shape[-1] if draws.ndim else 0
    if m < 1:
        raise ValueError("draws is empty; the sampled loss needs m >= 1 negatives")
    drawn = log_noise[draws]
    if bool((drawn == -math.inf).any()):
        raise ValueError("a class with q = 0 (or the target) is among the draws; it has no importance weight")
    last = theta[target].expand(*draws.shape[:-1], 1)
    return torch.cat([theta[draws] - drawn - math.log(m), last], -1)


def sampled_partition(theta: Tensor, target: int, draws: Tensor, log_q: Tensor) -> Tensor:
    r""":math:`\hat Z`, [...]; arguments and errors as for :func:`phi`."""
    return phi(theta, target, draws, log_q).exp().sum(-1)


def sampled_loss(theta: Tensor, target: int, draws: Tensor, log_q: Tensor) -> Tensor:
    r""":math:`\hat L = -\log\mathrm{softmax}_{m+1}(\phi)`, [...]; arguments and errors as for :func:`phi`."""
    return -torch.log_softmax(phi(theta, target, draws, log_q), -1)[..., -1]


@typed
def gradient(theta: Tensor, target: int) -> Tensor:
    r"""[..., classes] :math:`\nabla L = p_\theta - \mathbb 1_t`, in float64.

    Raises:
        ValueError: if ``target`` is no class or the largest logit is not finite.

    Source: Stratos, equation (6).
    """
    theta, target = _finite(theta, target)
    positive = torch.nn.functional.one_hot(torch.as_tensor(target, device=theta.device), theta.shape[-1])
    return torch.softmax(theta, -1) - positive


@typed
def expected_gradient(theta: Tensor, target: int, m: int, log_q: Tensor, tol: float = 1e-12) -> Tensor:
    r"""[classes] :math:`\nabla\,\mathbb E_{n\sim q^m}\hat L`, by the exact integral, for any m; q does not move.

    Raises:
        ValueError: if m < 1, ``target`` is no class, or q is no law or is positive at the target.

    Source: Stratos, equation (7).
    """
    log_noise = _negative_law(log_q, _finite(theta, target)[0].shape[-1], target)
    leaf = theta.detach().to(torch.float64).requires_grad_()
    mean = expectations.sampled_softmax(leaf, target, m, log_noise, tol).loss
    (slope,) = torch.autograd.grad(mean, leaf)
    return slope


@typed
def best_noise(theta: Tensor, target: int) -> Tensor:
    r"""[classes] log of :math:`q^*(n) \propto e^{\theta_n}` on the negatives, which makes :math:`\hat L = L`.

    Raises:
        ValueError: if ``target`` is no class, a logit is NaN or +inf, or no negative has a finite one.
    """
    logits, target = _finite(theta, target)
    others = logits.clone()
    others[..., target] = -math.inf
    highest = others.detach().amax(-1)
    if not bool(torch.isfinite(highest).all()):
        worst = highest[~torch.isfinite(highest)][0].item()
        raise ValueError(f"the largest logit of a negative is {worst}; one must be finite, and none NaN or +inf")
    return torch.log_softmax(others, -1)


def _finite(theta: Tensor, target: int) -> tuple[Tensor, int]:
    """The logits [..., classes] in float64, whose largest is finite, and the target among them.

    Raises:
        ValueError: if ``target`` is no class, or the largest logit is none.
    """
    target = whole("target", target, 0, theta.shape[-1] - 1 if theta.ndim else -1)
    highest = theta.detach().amax(-1)
    if not bool(torch.isfinite(highest).all()):
        raise ValueError(f"the largest logit is {highest[~torch.isfinite(highest)][0].item()}; it must be finite")
    return theta.to(torch.float64), target


def rational_draws(q: Sequence[Fraction], m: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """All sequences of m draws that can occur, with their probabilities."""
    for drawn in product((n for n, p in enumerate(q) if p), repeat=m):
        yield drawn, math.prod((q[n] for n in drawn), start=Fraction(1))


def rational_partition(w: Sequence[Fraction], target: int, drawn: Sequence[int], q: Sequence[Fraction]) -> Fraction:
    r""":math:`\hat Z` of the weights :math:`w = e^\theta`; ``q`` may be another law than the one drawn from."""
    return w[target] + sum((w[n] / q[n] for n in drawn), Fraction(0)) / len(drawn)


def rational_gradient(w: Sequence[Fraction], target: int) -> list[Fraction]:
    r""":math:`\nabla L` of the weights :math:`w = e^\theta`."""
    z = sum(w, Fraction(0))
    return [value / z - (x == target) for x, value in enumerate(w)]


def rational_expected_gradient(w: Sequence[Fraction], target: int, q: Sequence[Fraction], m: int) -> list[Fraction]:
    r""":math:`\nabla\,\mathbb E\hat L` of the weights :math:`w = e^\theta`: equation (7), corrected, over all draws.

    Raises:
        ValueError: if q is positive at the target, misses a negative, is negative or does not sum to 1, or m < 1.
    """
    if m < 1 or sum(q) != 1 or q[target] != 0 or any(p <= 0 for x, p in enumerate(q) if x != target):
        given = ", ".join(map(str, q))
        raise ValueError(f"m = {m}, q = ({given}): m >= 1 and a law positive on all classes but the target are needed")
    slope = [Fraction(0) - (x == target) for x in range(len(w))]
    for drawn, probability in rational_draws(q, m):
        z = rational_partition(w, target, drawn, q)
        slope[target] += probability * w[target] / z
        for n in drawn:
            slope[n] += probability * w[n] / (m * q[n]) / z
    return slope


def rational_best_noise(w: Sequence[Fraction], target: int) -> list[Fraction]:
    r""":math:`q^*` of the weights :math:`w = e^\theta`."""
    others = sum(w, Fraction(0)) - w[target]
    return [Fraction(0) if x == target else value / others for x, value in enumerate(w)]


def _negative_law(log_q: Tensor, classes: int, target: int) -> Tensor:
    target = whole("target", target, 0, classes - 1)
    log_noise = checked_law(log_q, classes)
    if log_noise[target] > -math.inf:
        chance = log_noise[target].exp().item()
        raise ValueError(f"q of the target {target} is {chance!r}, not 0; set log_q there to -inf and normalise")
    return log_noise
