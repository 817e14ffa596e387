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
from sumexp.perturb import argmax, discrete, softmax
from sumexp.perturb.noises import GUMBEL, Discrete
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
        normal, bound = self._scaled(theta)
        terms = theta * normal
        rounding = max(ROUNDING, 4 * torch.finfo(theta.dtype).eps)
        return terms.sum(-1) <= bound + rounding * terms.abs().sum(-1).clamp_min(1.0)

    def project(self, theta: Tensor) -> Tensor:
        """The nearest point of the half space, [..., d]."""
        normal, bound = self._scaled(theta)
        excess = ((theta * normal).sum(-1, keepdim=True) - bound).clamp_min(0)
        return (theta - excess * normal / normal.square().sum()).to(theta.dtype)

    def _scaled(self, theta: Tensor) -> tuple[Tensor, float]:
        """Normal, with 1 as its largest entry, and bound."""
        checks.parameters(theta)
        if theta.shape[-1] != len(self.normal):
            raise ValueError(f"theta has {theta.shape[-1]} classes, the half space {len(self.normal)}")
        largest = max(map(abs, self.normal))
        scaled = [value / largest for value in self.normal]
        return torch.tensor(scaled, dtype=torch.float64, device=theta.device), self.bound / largest


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
    normal, bound = space._scaled(p)
    along = torch.linalg.cross(normal, torch.ones_like(normal))
    along, origin = along / along.norm(), normal * bound / normal.square().sum()

    def distance(t: Tensor) -> Tensor:
        gaps: Tensor = softmax.mean(origin + t.unsqueeze(-1) * along, noise, tau) - p
        return gaps.square().sum(-1).sqrt()

    # Around the places where two classes tie, in units of what blurs their order.
    steps = discrete.ties(noise) if isinstance(noise, Discrete) else []
    ties = p.new_tensor([float(tie) for tie in steps or [0]]).unsqueeze(-1)
    units = np.sinh(np.linspace(-12, 12, 241 if noise.finite_max else 37))  # a law of the Cauchy takes half a second
    offsets = (tau if steps else max(tau, noise.reduced.scale)) * p.new_tensor(units)
    apart = along - along.roll(1)
    equal = ((origin.roll(1) - origin + ties) / apart)[:, apart.abs() > ROUNDING].flatten()
    places = equal.unsqueeze(-1) + offsets
    row, k = divmod(int(distance(places)[:, 1:-1].argmin()), len(offsets) - 2)
    low, best, high = places[row, k : k + 3]
    bounds = float(low - best), float(high - best)  # from the best on: the search ends at steps of 1e-8 of its numbers
    optimum = optimize.minimize_scalar(
        lambda t: float(distance(best + t)), bounds=bounds, method="bounded", options={"xatol": 1e-12}
    )
    return softmax.mean(origin + (best + float(optimum.x)) * along, noise, tau), float(optimum.fun)


@typed
def smallest_eigenvalue(theta: Tensor, noise: Noise = GUMBEL, tau: float | None = 1.0) -> Tensor:
    r"""The least eigenvalue of the Hessian on :math:`\{\sum v_i = 0\}`, [...]; positive where the map is one-to-one.

    ``tau`` is the temperature of Perturb-Softmax, or None for Perturb-Argmax.
    """
    matrix = argmax.jacobian(theta, noise) if tau is None else softmax.hessian(theta, noise, tau)
    eigenvalues: Tensor = torch.linalg.eigvalsh(matrix)
    return eigenvalues[..., 1]
