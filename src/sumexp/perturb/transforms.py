r"""What a noise offers: density, distribution function, sampler, and the Laplace transform of its exponential.

For the Perturb-Softmax everything follows from one function of one variable. With :math:`s = \theta/\tau + \log t`,

.. math::
    L(s) = \mathbb E e^{-e^{s+\gamma/\tau}},\qquad A = -L' = \mathbb E e^{z-e^z},\qquad B = \mathbb E e^{2z-e^z},
    \qquad z = s + \gamma/\tau, \qquad A' = A - B .

Since :math:`e^{-e^z}` is the distribution function of a Gumbel variable G at -z, :math:`L(s)` is also
:math:`\mathbb P(\gamma + \tau G \le -\tau s)`: **Perturb-Softmax is Perturb-Argmax with the noise**
:math:`\gamma + \tau G`.

The expectation over the noise is a sum over nodes, each noise with the rule that fits it: the trapezoid rule where the
density is analytic (Gumbel, Gaussian, logistic), Gauss-Legendre panels where it has an edge (uniform, exponential), the
finite sum for discrete noise. The Gumbel's at tau = 1 is a Bessel function; for the Cauchy's tails the expectation is
taken over G instead, of its distribution function.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sumexp.perturb.checks import pieces

STEP = 0.22
"""Step of the trapezoid rules, in units of the narrower of the noise and of tau: error about exp(-pi^2/step)."""


class Transform(NamedTuple):
    """log L, log(A/L) and log(B/L) at the points s asked for."""

    log: Tensor
    log_first: Tensor
    log_second: Tensor


class Noise(ABC):
    """One noise; the perturbations of the classes are independent copies of it.

    Attributes:
        support: the ends of the smallest interval that carries the noise.
        mean: its mean, NaN where there is none.
        finite_max: whether the mean of the maximum of two copies is finite.
    """

    finite_max: ClassVar[bool] = True

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The ends of the smallest interval that carries the noise."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean, NaN where there is none."""

    @abstractmethod
    def cdf(self, x: Tensor) -> Tensor:
        """The distribution function."""

    @abstractmethod
    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Independent draws, float64, on the generator's device."""

    @abstractmethod
    def transform(self, s: Tensor, tau: Tensor) -> Transform:
        r"""The Laplace transform of :math:`e^{(\theta+\gamma)/\tau}` at :math:`s = \theta/\tau + \log t`.

        Args:
            s: points, any shape, float64.
            tau: temperature, scalar; the result is differentiable in both.
        """


def mixture(s: Tensor, nodes: Tensor, log_weights: Tensor) -> Transform:
    """The transform of a finite sum: ``nodes`` are the values of gamma / tau, [K]."""
    flat = s.reshape(-1)
    parts = []
    for block in pieces(flat, (1 << 20) // nodes.numel()):
        # The clamp changes nothing (exp(-e^50) is 0) and keeps the gradients finite.
        z = (block.unsqueeze(-1) + nodes).clamp_max(50.0)
        scaled = z.exp()
        log, first, second = (torch.logsumexp(log_weights - scaled + power * z, -1) for power in range(3))
        missing = -(log_weights.exp() * torch.expm1(-scaled)).sum(-1)  # 1 - L keeps the digits of L near 1
        parts.append([torch.where(missing < 0.5, torch.log1p(-missing.clamp_max(0.5)), log), first, second])
    log, first, second = (torch.cat(column).reshape(s.shape) for column in zip(*parts, strict=True))
    return Transform(log, first - log, second - log)


@dataclass(frozen=True)
class Continuous(Noise):
    """A noise with a density: ``loc + scale * (standard noise)``.

    Attributes:
        loc: shift.
        scale: positive factor.

    Raises:
        ValueError: if ``loc`` is not finite, or ``scale`` not finite and positive.
    """

    loc: float = 0.0
    scale: float = 1.0

    standard_support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    standard_mean: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.loc):
            raise ValueError(f"loc is {self.loc}; it must be finite")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale is {self.scale}; it must be finite and > 0. A noise of scale 0 is point_mass()")

    @property
    def support(self) -> tuple[float, float]:
        """The ends of the support."""
        low, high = self.standard_support
        return self.loc + self.scale * low, self.loc + self.scale * high

    @property
    def mean(self) -> float:
        """The mean."""
        return self.loc + self.scale * self.standard_mean

    def log_density(self, x: Tensor) -> Tensor:
        """Logarithm of the density; -inf off the support."""
        return self._log_density((x - self.loc) / self.scale) - math.log(self.scale)

    def log_cdf(self, x: Tensor) -> Tensor:
        """Logarithm of the distribution function, with its digits in the left tail."""
        return self._log_cdf((x - self.loc) / self.scale)

    def cdf(self, x: Tensor) -> Tensor:
        """The distribution function."""
        return self.log_cdf(x).exp()

    def from_logit(self, w: Tensor) -> Tensor:
        r"""The quantile at :math:`1/(1+e^{-w})`, with its digits in both tails."""
        return self.loc + self.scale * self._from_logit(w)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Independent draws, float64, by the quantile function."""
        v = torch.rand(shape, dtype=torch.float64, device=generator.device, generator=generator)
        return self.from_logit(torch.logit(v.clamp(2.0**-54, 1 - 2.0**-53)))

    def transform(self, s: Tensor, tau: Tensor) -> Transform:
        """The Laplace transform and its derivatives; see :class:`Noise`."""
        return self._transform(s + self.loc / tau, tau / self.scale)

    @abstractmethod
    def _transform(self, s: Tensor, tau: Tensor) -> Transform: ...

    @abstractmethod
    def _log_density(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _log_cdf(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _from_logit(self, w: Tensor) -> Tensor: ...


class ByRule(Continuous):
    """A noise over which the expectation is a sum over the nodes of a rule."""

    def _transform(self, s: Tensor, tau: Tensor) -> Transform:
        nodes, log_weights = self._rule(tau.item(), s.detach().min().item())
        nodes, log_weights = nodes.to(s.device), log_weights.to(s.device)
        return mixture(s, nodes / tau, log_weights)

    @abstractmethod
    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        """Nodes and log weights that serve all s >= low: [K], [K]."""

    def _trapezoid(self, tau: float, low: float, high: float) -> tuple[Tensor, Tensor]:
        step = STEP * min(1.0, tau)
        nodes = low + step * torch.arange(max(2, math.ceil((high - low) / step)) + 1, dtype=torch.float64)
        return nodes, self._log_density(nodes) + math.log(step)

    def _panels(self, tau: float, low: float, high: float) -> tuple[Tensor, Tensor]:
        nodes, log_weights = gauss_legendre(low, high, min(4.0, 4.0 * tau))
        return nodes, log_weights + self._log_density(nodes)


def gauss_legendre(low: float, high: float, width: float, order: int = 32) -> tuple[Tensor, Tensor]:
    """Composite Gauss-Legendre rule on [low, high] in panels no wider than ``width``: nodes and log weights."""
    count = max(1, math.ceil((high - low) / width))
    points, weights = np.polynomial.legendre.leggauss(order)
    half = (high - low) / count / 2
    centres = low + half * (2 * torch.arange(count, dtype=torch.float64) + 1)
    nodes = (centres.unsqueeze(-1) + half * torch.from_numpy(points)).reshape(-1)
    return nodes, torch.from_numpy(np.log(weights * half)).repeat(count)
