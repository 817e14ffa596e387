r"""Parameter sets that represent every law, or each law once.

A set :math:`\Theta`, convex or not, is *complete*, :math:`\nabla f(\Theta) \supseteq \mathrm{ri}\,\Delta`, if and only
if :math:`\Theta + \mathbb R\mathbf 1 = \mathbb R^d`: for Perturb-Softmax with every noise, for Perturb-Argmax with
noise whose density is positive everywhere (Theorem 4.1, corrected; proof: :doc:`/notebooks/perturb`).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from sumexp._checks import attributes, typed
from sumexp.perturb import _checks as checks
from sumexp.perturb import argmax, softmax
from sumexp.perturb.noises import GUMBEL
from sumexp.perturb.transforms import Noise

ROUNDING = 1e-12


@dataclass(frozen=True)
class HalfSpace:
    r""":math:`\{\theta : \langle normal,\theta\rangle \le bound\}`; the paper's false theorem fails on (1, 1, -2).

    Raises:
        ValueError: if the normal or the bound is not finite, or the normal is 0.
    """

    normal: tuple[float, ...]
    bound: float = 0.0

    def __post_init__(self) -> None:
        attributes(self)
        if not all(math.isfinite(value) for value in (*self.normal, self.bound)) or not any(self.normal):
            raise ValueError(f"normal is {self.normal}, bound {self.bound}; both must be finite, the normal not 0")

    @property
    def complete(self) -> bool:
        r"""Whether :math:`\Theta+\mathbb R\mathbf 1=\mathbb R^d`: whether sum(normal) is not 0, up to rounding."""
        return abs(math.fsum(self.normal)) > ROUNDING * math.fsum(map(abs, self.normal))

    def contains(self, theta: Tensor) -> Tensor:
        """Whether the points [..., d] lie in it, up to rounding."""
        terms = theta.to(torch.float64) * self._normal(theta)
        return terms.sum(-1) <= self.bound + ROUNDING * terms.abs().sum(-1).clamp_min(1.0)

    def project(self, theta: Tensor) -> Tensor:
        """The nearest point of the half space, [..., d]."""
        normal = self._normal(theta)
        point = theta.to(torch.float64)
        excess = ((point * normal).sum(-1, keepdim=True) - self.bound).clamp_min(0)
        return (point - excess * normal / normal.square().sum()).to(theta.dtype)

    def _normal(self, theta: Tensor) -> Tensor:
        checks.parameters(theta)
        if theta.shape[-1] != len(self.normal):
            raise ValueError(f"theta has {theta.shape[-1]} classes, the half space {len(self.normal)}")
        return torch.tensor(self.normal, dtype=torch.float64, device=theta.device)


@typed
def nearest_attained(target: Tensor, space: HalfSpace, noise: Noise = GUMBEL, tau: float = 1.0) -> tuple[Tensor, float]:
    """The law of the half space nearest to a target it cannot reach, and its Euclidean distance (three classes).

    The search is over the image of the boundary, which has one parameter up to shifts.

    Raises:
        ValueError: if the number of classes is not three, or the half space is complete.
    """
    p = checks.target(target).detach()
    if p.shape != (3,) or space.complete:
        raise ValueError(f"needs three classes and a half space whose normal sums to 0, got {space}, {tuple(p.shape)}")
    normal = torch.tensor(space.normal, dtype=torch.float64, device=p.device)
    along = torch.linalg.cross(normal, torch.ones_like(normal))
    along, origin = along / along.norm(), normal * space.bound / normal.square().sum()

    def distance(t: float) -> float:
        return float((softmax.mean(origin + t * along, noise, tau) - p).norm())

    starts = np.linspace(-10, 10, 41)
    best = min(starts, key=distance)
    optimum = optimize.minimize_scalar(
        distance, bounds=(best - 0.5, best + 0.5), method="bounded", options={"xatol": 1e-12}
    )
    return softmax.mean(origin + float(optimum.x) * along, noise, tau), float(optimum.fun)


@typed
def smallest_eigenvalue(theta: Tensor, noise: Noise = GUMBEL, tau: float | None = 1.0) -> Tensor:
    r"""The least eigenvalue of the Hessian on :math:`\{\sum v_i = 0\}`, [...]; positive where the map is one-to-one.

    ``tau`` is the temperature of Perturb-Softmax, or None for Perturb-Argmax.
    """
    matrix = argmax.jacobian(theta, noise) if tau is None else softmax.hessian(theta, noise, tau)
    eigenvalues: Tensor = torch.linalg.eigvalsh(matrix)
    return eigenvalues[..., 1]
