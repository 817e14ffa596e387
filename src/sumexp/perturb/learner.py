r"""Exact-gradient descent of KL to a target, projected onto a half space."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sumexp._checks import typed, whole
from sumexp.perturb import _checks as checks
from sumexp.perturb import softmax
from sumexp.perturb.noises import GUMBEL
from sumexp.perturb.representation import HalfSpace
from sumexp.perturb.transforms import Noise


@dataclass(frozen=True)
class Descent:
    """The last parameters [d], their law [d], and KL(target || law) before every step and at the end [steps + 1]."""

    theta: Tensor
    law: Tensor
    divergence: Tensor


@typed
def descend(
    target: Tensor,
    space: HalfSpace | None = None,
    noise: Noise = GUMBEL,
    tau: float = 1.0,
    steps: int = 400,
    rate: float = 2.0,
) -> Descent:
    r"""Minimise :math:`\mathrm{KL}(p^*\|\mathbb E\,\mathrm{softmax}((\theta+\gamma)/\tau))` from :math:`\theta=0`.

    The gradient :math:`-H(p^*/p)`, H the Hessian of the potential, is exact: what remains is what the set cannot
    represent.

    ``target`` is p* [d], in the open simplex; ``space`` the half space of the parameters, by default R^d.
    """
    p, steps = checks.target(target), whole("steps", steps, 0)
    theta = torch.zeros_like(p)
    divergences = []
    for _ in range(steps):
        law = softmax.mean(theta, noise, tau)
        divergences.append((p * (p / law).log()).sum())
        theta = theta + rate * softmax.hessian_product(theta, p / law, noise, tau)
        theta = theta if space is None else space.project(theta)
    law = softmax.mean(theta, noise, tau)
    divergences.append((p * (p / law).log()).sum())
    return Descent(theta, law, torch.stack(divergences))
