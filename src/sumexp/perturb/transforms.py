r"""The interface of a noise: density, distribution function, sampler, and the Laplace transform of its exponential.

Perturb-Softmax follows from a function of one variable. With :math:`s = \theta/\tau + \log t`,

.. math::
    L(s) = \mathbb E e^{-e^{s+\gamma/\tau}},\qquad A = -L' = \mathbb E e^{z-e^z},\qquad B = \mathbb E e^{2z-e^z},
    \qquad z = s + \gamma/\tau, \qquad A' = A - B .

Since :math:`e^{-e^z}` is the distribution function of a Gumbel variable G at -z, :math:`L(s)` is also
:math:`\mathbb P(\gamma + \tau G \le -\tau s)`: **Perturb-Softmax is Perturb-Argmax with the noise**
:math:`\gamma + \tau G`.

At temperatures above the noise's scale the expectation is over gamma: by the trapezoid rule if the density is analytic
(Gumbel, Gaussian, logistic), by Gauss-Legendre panels if it has an edge (uniform, exponential). Below, it is over G,

.. math::
    L(s) = \int F(\tau(z-s))\,e^{z-e^z}dz, \qquad A(s) = \tau\int f(\tau(z-s))\,e^{z-e^z}dz,

in units of the noise, so that the number of nodes does not grow as the temperature falls. (For Gumbel noise this is the
duality of temperatures tau and 1/tau.) Discrete noise is a finite sum, the Gumbel at tau = 1 a Bessel function, and the
Cauchy, with its heavy tails, uses G at all temperatures.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sumexp._checks import attributes
from sumexp.perturb._checks import pieces

STEP = 0.22
"""Step of the trapezoid rules, in units of the narrower of the noise and of tau: error about exp(-pi^2/step)."""
FLOOR = -1e5
"""The logarithm of 0, finite so that it can be interpolated."""
LOW, HIGH = -90.0, 6.0
"""The range of z = -G: beyond it e^z and exp(-e^z) are below e^-90."""
CACHED = 1 << 16
"""Numbers in a tensor [points, K] held at a time: in a core's cache it takes half the time."""


class Transform(NamedTuple):
    """log L, log(A/L) and log(B/L) at points s."""

    log: Tensor
    log_first: Tensor
    log_second: Tensor


class Reduced(NamedTuple):
    """A noise as ``loc + scale * standard``."""

    standard: "Noise"
    loc: float
    scale: float


class Noise(ABC):
    """A noise; the perturbations of the classes are independent copies of it."""

    finite_max: ClassVar[bool] = True
    """Whether the mean of the maximum of two copies is finite."""

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The ends of the support."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean, or NaN."""

    @property
    @abstractmethod
    def reduced(self) -> Reduced:
        """The noise as shift, scale and standard noise."""

    @abstractmethod
    def cdf(self, x: Tensor) -> Tensor:
        """The distribution function."""

    @abstractmethod
    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Independent draws, float64, on the generator's device."""

    @abstractmethod
    def transform(self, s: Tensor, tau: Tensor) -> Transform:
        r"""The Laplace transform of :math:`e^{(\theta+\gamma)/\tau}` at :math:`s = \theta/\tau + \log t`, of any shape.

        It is differentiable in s and in the scalar tau.
        """


def checked(noise: object) -> Noise:
    """The noise, or an error."""
    if not isinstance(noise, Noise):
        raise ValueError(
            f"noise is {noise!r}; give one of sumexp.perturb.noises, such as Gumbel() or Gaussian(scale=2.0)"
        )
    return noise


def mixture(s: Tensor, nodes: Tensor, log_weights: Tensor) -> Transform:
    """The transform of a finite sum: ``nodes`` are the values of gamma / tau, [K]."""
    flat = s.reshape(-1)
    parts = []
    for block in pieces(flat, CACHED // nodes.numel()):
        # The clamp changes nothing (exp(-e^50) is 0) and keeps the gradients finite.
        z = (block.unsqueeze(-1) + nodes).clamp_max(50.0)
        scaled = z.exp()
        terms = log_weights - scaled
        log, first, second = (torch.logsumexp(each, -1) for each in (terms, terms + z, terms + 2 * z))
        missing = -(log_weights.exp() * torch.expm1(-scaled)).sum(-1)  # 1 - L keeps the digits of L near 1
        parts.append([torch.where(missing < 0.5, torch.log1p(-missing.clamp_max(0.5)), log), first, second])
    log, first, second = (torch.cat(column).reshape(s.shape) for column in zip(*parts, strict=True))
    return Transform(log, first - log, second - log)


@dataclass(frozen=True)
class Continuous(Noise):
    """A noise with a density: ``loc + scale * (standard noise)``, with finite ``loc`` and positive ``scale``."""

    loc: float = 0.0
    scale: float = 1.0

    standard_support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    standard_mean: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        attributes(self)
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

    @property
    def reduced(self) -> Reduced:
        """Its standard noise, shift and scale."""
        return Reduced(type(self)(), self.loc, self.scale)

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
        return self.from_uniform(torch.rand(shape, dtype=torch.float64, device=generator.device, generator=generator))

    def from_uniform(self, v: Tensor) -> Tensor:
        """The quantiles at uniform numbers, float64; 0 and 1 are moved inside."""
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
    def _survival(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _from_logit(self, w: Tensor) -> Tensor: ...


class ByRule(Continuous):
    """A noise with a rule for the expectation over gamma; at low temperatures the expectation is over G."""

    cold: ClassVar[float] = 0.5
    """Temperatures below this multiple of the noise's scale take the expectation over G."""

    def _transform(self, s: Tensor, tau: Tensor) -> Transform:
        if tau.item() < self.cold:
            return blurred(self, s, tau, self._places)
        nodes, log_weights = self._rule(tau.item(), s.detach().min().item())
        nodes, log_weights = nodes.to(s.device), log_weights.to(s.device)
        return mixture(s, nodes / tau, log_weights)

    @abstractmethod
    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        """Nodes and log weights for all s >= low: [K], [K]."""

    def _places(self, s: Tensor, tau: Tensor) -> "Rule":
        """Nodes z, z - s and log weights of a rule over G: trapezoids, for smooth density and distribution function."""
        z = torch.arange(LOW, HIGH, STEP, dtype=s.dtype, device=s.device).unsqueeze(0)
        return z, z - s.unsqueeze(-1), torch.full_like(z, math.log(STEP))

    def _trapezoid(self, tau: float, low: float, high: float) -> tuple[Tensor, Tensor]:
        step = STEP * min(1.0, tau)
        count = max(2, math.ceil((high - low) / step)) + 1
        nodes = low + step * torch.arange(count, dtype=torch.float64, device="cpu")
        return nodes, self._log_density(nodes) + math.log(step)

    def _panels(self, tau: float, low: float, high: float) -> tuple[Tensor, Tensor]:
        cuts = [torch.full((1,), end, dtype=torch.float64, device="cpu") for end in (low, high)]
        (nodes,), (log_weights,) = between(cuts, min(4.0, 4.0 * tau), 32)
        return nodes, log_weights + self._log_density(nodes)


class Edged(ByRule):
    """A noise whose density has an edge at the left end of its support, and perhaps at the right one."""

    def _places(self, s: Tensor, tau: Tensor) -> "Rule":
        # An infinite end does not move with tau; inf / tau would have the derivative nan.
        ends = (s + end / tau if math.isfinite(end) else torch.full_like(s, end) for end in self.standard_support)
        low, high = (end.clamp(LOW, HIGH) for end in ends)
        nodes, log_weights = between([torch.full_like(low, LOW), low, high, torch.full_like(high, HIGH)], 4.0, 32)
        return nodes, nodes - s.unsqueeze(-1), log_weights


Rule = tuple[Tensor, Tensor, Tensor]
Places = Callable[[Tensor, Tensor], Rule]
AT_ONCE = 1 << 8
"""Points held at a time: with more, up to 5,000 nodes a point exceed the cache."""


def blurred(noise: Continuous, s: Tensor, tau: Tensor, places: Places) -> Transform:
    """The transform of a standard noise as an expectation over z = -G, for tau in units of the noise's scale.

    ``places`` gives nodes z, z - s and log weights for points [n]: [n or 1, K], [n, K] and [n or 1, K]. Computing z - s
    from z would lose digits.
    """
    parts = []
    for block in pieces(s.reshape(-1), AT_ONCE):
        z, gaps, log_weights = places(block, tau)
        x = tau * gaps
        log_weights = log_weights + z - z.exp()
        density = noise._log_density(x) + tau.log() + log_weights
        below = (noise._survival(x) * log_weights.exp()).sum(-1)  # 1 - L keeps the digits of L near 1
        log = torch.logsumexp(noise._log_cdf(x) + log_weights, -1)
        log = torch.where(below < 0.5, torch.log1p(-below.clamp_max(0.5)), log)
        first, second = torch.logsumexp(density, -1), torch.logsumexp(density + z, -1)
        log, first, second = (part.clamp_min(FLOOR) for part in (log, first, second))
        parts.append([log, first - log, second - log])
    return Transform(*(torch.cat(column).reshape(s.shape) for column in zip(*parts, strict=True)))


def log_or_none(weights: Tensor) -> Tensor:
    """Logarithms of weights of panels, some of which are empty."""
    return weights.clamp_min(torch.finfo(weights.dtype).tiny).log().masked_fill(weights <= 0, -math.inf)


def between(cuts: list[Tensor], width: float, order: int) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre panels of at most ``width`` between ascending cuts [n]: nodes and log weights [n, K]."""
    points, weights = (torch.from_numpy(part).to(cuts[0].device) for part in np.polynomial.legendre.leggauss(order))
    nodes, log_weights = [], []
    for low, high in pairwise(cuts):
        longest = (high - low).max().item()
        if longest <= 0:
            continue
        count = math.ceil(longest / width)
        half = ((high - low) / count / 2)[:, None, None]
        middle = low[:, None, None] + half * (2 * torch.arange(count, device=low.device)[:, None] + 1)
        nodes.append((middle + half * points).flatten(1))
        log_weights.append(log_or_none((half * weights).expand(-1, count, -1).flatten(1)))
    return torch.cat(nodes, -1), torch.cat(log_weights, -1)
