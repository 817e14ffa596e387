r"""The trapezoid rule in :math:`u = \log t`: step and range that a tolerance asks for."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp._checks import typed

GRID = 1 / 64
"""Step of the grid in log x on which classes are spread; every quadrature step is a multiple of it."""

VARIANCE_POWER = 3
"""The variances' integrands behave like t^3 e^{-t} dt/t where X is small: the step serves them too."""


@dataclass(frozen=True)
class Rule:
    """Nodes ``u_k = low + k * step`` for k < count, in u = log t, and the relative error they guarantee."""

    low: float
    step: float
    count: int
    bound: float

    def with_step(self, step: float) -> "Rule":
        """The same range with another step; ``bound`` keeps its share for truncation."""
        truncation = self.bound - discretisation_bound(self.step)
        count = math.ceil((self.count - 1) * self.step / step) + 1
        return Rule(self.low, step, count, discretisation_bound(step) + truncation)

    def nodes(self, device: torch.device | str = "cpu") -> Tensor:
        """The nodes u, shape [count], float64; ``low + step * k``, since a rounded step would cost two digits."""
        return self.low + self.step * torch.arange(self.count, dtype=torch.float64, device=device)


@lru_cache(maxsize=64)
def places(rule: Rule) -> NDArray[np.float64]:
    """log t, t, e^{-t} dt / t and e^{-t} dt at the nodes, [4, nodes]; only to be read."""
    u = rule.nodes().numpy()
    t = np.exp(u)
    weight = rule.step * np.exp(-t)
    return np.stack([u, t, weight, weight * t])


@typed
def discretisation_bound(step: float, power: int = 1) -> float:
    r"""Bound on the relative error of the infinite trapezoid rule for :math:`\int_0^\infty t^{p-1}e^{-t}\psi(t)\,dt`.

    .. math:: \min_{0<\theta<\pi/2}\; \frac{2}{\cos^p\theta\,(e^{2\pi\theta/h} - 1)},
        \qquad \tan\theta = \frac{2\pi}{ph},

    for every Laplace transform :math:`\psi` of a non-negative measure: on the ray :math:`t = re^{i\theta}` its modulus
    is at most :math:`\psi(r\cos\theta)`, so the integral of the modulus along the ray is at most
    :math:`\cos^{-p}\theta` times the integral itself, and the theorem on the trapezoid rule in a strip (Trefethen and
    Weideman 2014, Theorem 5.1) gives the bound. For E[1/(1+X)] and E log(1+X), p is 1 and X may be any law on X >= 0.

    Args:
        step: h, the distance of the nodes in u = log t.
        power: p >= 1.

    Raises:
        ValueError: if the step is not positive, the power below 1, or the bound above the range of floats.
    """
    if not (0 < step < math.inf and 1 <= power < math.inf):
        raise ValueError(f"step is {step!r}, power {power!r}; they must be finite, step > 0 and power >= 1")
    theta = math.atan(2 * math.pi / (power * step))
    turns = 2 * math.pi * theta / step
    if turns < 700 and (weight := math.cos(theta) ** power * math.expm1(turns)) > 1e-300:
        return 2 / weight
    # By logarithms, where a factor leaves the range of floats.
    rest = math.log(-math.expm1(-turns)) if turns > 0 else -math.inf
    log = math.log(2) - power * math.log(math.cos(theta)) - turns - rest
    if log > 709:
        raise ValueError(f"step is {step!r} and power {power}: the bound is above 1e307; take a smaller step")
    return math.exp(log)


@typed
def rule(tol: float, log_max: float) -> Rule:
    r"""The rule that keeps discretisation and truncation below a relative error ``tol``.

    Cutting :math:`t < \delta` loses at most the share :math:`\delta(1+X_{\max})` of either integral, cutting
    :math:`t > T` at most :math:`e^{-T}/(1-e^{-T})`; both get a hundredth of the tolerance, since the variances, which
    this rule also serves, have heavier ends.

    Args:
        tol: relative error asked for, in [1e-15, 0.1].
        log_max: logarithm of an upper bound of X.

    Raises:
        ValueError: if ``tol`` lies outside the range, or ``log_max`` is not below 700, where E[1/(1+X)] underflows.
    """
    if not 1e-15 <= tol <= 0.1:
        raise ValueError(f"tol is {tol!r}; ask for a relative error between 1e-15 and 0.1")
    if not log_max < 700:
        raise ValueError(f"log of the largest sum is {log_max!r}; it must be below 700 (shift or scale the logits)")
    step, discretised = _widest(tol)
    cut = math.log(100 / tol)
    low = -cut - max(0.0, log_max)
    high = math.log(cut + 3 * math.log(cut) + 5)
    count = math.ceil((high - low) / step) + 1
    # The nodes lie on the grid, up to 1/64 lower: t <= T e^{-1/64} is still above `cut`.
    return Rule(math.floor(low / GRID) * GRID, step, count, discretised + 2 * tol / 100)


@lru_cache(maxsize=64)
def _widest(tol: float) -> tuple[float, float]:
    """The widest step whose discretisation keeps below a tolerance, and the bound on that of E[1/(1+X)]."""
    step = max(k * GRID for k in range(8, 128) if discretisation_bound(k * GRID, VARIANCE_POWER) <= tol)
    return step, discretisation_bound(step)
