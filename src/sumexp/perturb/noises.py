r"""The noises: density, distribution function, sampler, and the Laplace transform of :math:`e^{(\theta+\gamma)/\tau}`.

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
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sumexp.perturb.bessel import log_k0, log_x_k1
from sumexp.perturb.checks import pieces

EULER = 0.57721566490153286061
STEP = 0.22
"""Step of the trapezoid rules, in units of the narrower of the noise and of tau: error about exp(-pi^2/step)."""
FAR = 5.0
"""Right of z = 5 all of exp(-e^z), exp(2 z - e^z) lie below 1e-60."""


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

    def _transform(self, s: Tensor, tau: Tensor) -> Transform:
        nodes, log_weights = self._rule(tau.item(), s.detach().min().item())
        nodes, log_weights = nodes.to(s.device), log_weights.to(s.device)
        return mixture(s, nodes / tau, log_weights)

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        """Nodes and log weights that serve all s >= low: [K], [K]."""
        raise NotImplementedError

    def _trapezoid(self, tau: float, low: float, high: float) -> tuple[Tensor, Tensor]:
        step = STEP * min(1.0, tau)
        nodes = low + step * torch.arange(max(2, math.ceil((high - low) / step)) + 1, dtype=torch.float64)
        return nodes, self._log_density(nodes) + math.log(step)

    def _panels(self, tau: float, low: float, high: float) -> tuple[Tensor, Tensor]:
        nodes, log_weights = gauss_legendre(low, high, min(4.0, 4.0 * tau))
        return nodes, log_weights + self._log_density(nodes)

    @abstractmethod
    def _log_density(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _log_cdf(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _from_logit(self, w: Tensor) -> Tensor: ...


def gauss_legendre(low: float, high: float, width: float, order: int = 32) -> tuple[Tensor, Tensor]:
    """Composite Gauss-Legendre rule on [low, high] in panels no wider than ``width``: nodes and log weights."""
    count = max(1, math.ceil((high - low) / width))
    points, weights = np.polynomial.legendre.leggauss(order)
    half = (high - low) / count / 2
    centres = low + half * (2 * torch.arange(count, dtype=torch.float64) + 1)
    nodes = (centres.unsqueeze(-1) + half * torch.from_numpy(points)).reshape(-1)
    return nodes, torch.from_numpy(np.log(weights * half)).repeat(count)


def _reach(tau: float, low: float) -> float:
    """Right end of a rule for a tail e^{-x}: past e^-42, past z = FAR at the lowest s if e^{2 x/tau} asks for it."""
    spare = 1 - 2 / tau
    return min(max(42.0, tau * (FAR - low)), 42 / spare if spare > 0 else math.inf)


@dataclass(frozen=True)
class Gumbel(Continuous):
    r"""Gumbel noise, distribution function :math:`e^{-e^{-x}}`; ``mean_zero()`` shifts it by Euler's constant."""

    standard_mean: ClassVar[float] = EULER

    @classmethod
    def mean_zero(cls, scale: float = 1.0) -> "Gumbel":
        """The paper's Gumbel noise, shifted to mean 0."""
        return cls(-EULER * scale, scale)

    def _log_density(self, z: Tensor) -> Tensor:
        return -z - torch.exp(-z)

    def _log_cdf(self, z: Tensor) -> Tensor:
        return -torch.exp(-z)

    def _from_logit(self, w: Tensor) -> Tensor:
        return -torch.log(torch.nn.functional.softplus(-w, threshold=40))

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._trapezoid(tau, -4.0, _reach(tau, low))

    def _transform(self, s: Tensor, tau: Tensor) -> Transform:
        if tau.item() != 1 or tau.requires_grad:
            return super()._transform(s, tau)
        # e^gamma = 1/E with E exponential: with x = 2 e^{s/2}, L = x K1(x), A = x^2 K0(x) / 2, B = x^3 K1(x) / 4.
        x = 2 * torch.exp(s / 2)
        log = log_x_k1(x)
        return Transform(log, math.log(2) + s + log_k0(x) - log, s)


@dataclass(frozen=True)
class Gaussian(Continuous):
    """Normal noise."""

    def _log_density(self, z: Tensor) -> Tensor:
        return -z.square() / 2 - math.log(2 * math.pi) / 2

    def _log_cdf(self, z: Tensor) -> Tensor:
        result: Tensor = torch.special.log_ndtr(z)
        return result

    def _from_logit(self, w: Tensor) -> Tensor:
        beyond: Tensor = torch.special.ndtri(torch.sigmoid(-w.abs()))
        return -torch.sign(w) * beyond

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._trapezoid(tau, -10.0, max(10.0, min(10 + 2 / tau, tau * (FAR - low))))


@dataclass(frozen=True)
class Logistic(Continuous):
    r"""Logistic noise, distribution function :math:`1/(1+e^{-x})`."""

    def _log_density(self, z: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(z) + torch.nn.functional.logsigmoid(-z)

    def _log_cdf(self, z: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(z)

    def _from_logit(self, w: Tensor) -> Tensor:
        return w

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._trapezoid(tau, -42.0, _reach(tau, low))


@dataclass(frozen=True)
class Exponential(Continuous):
    r"""Exponential noise, density :math:`e^{-x}` on :math:`x \ge 0`."""

    standard_support: ClassVar[tuple[float, float]] = (0.0, math.inf)
    standard_mean: ClassVar[float] = 1.0

    def _log_density(self, z: Tensor) -> Tensor:
        return torch.where(z >= 0, -z, -math.inf)

    def _log_cdf(self, z: Tensor) -> Tensor:
        inside = torch.where(z > 0, z, 1.0)
        return torch.where(z > 0, torch.log(-torch.expm1(-inside)), -math.inf)

    def _from_logit(self, w: Tensor) -> Tensor:
        return torch.nn.functional.softplus(w, threshold=40)

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._panels(tau, 0.0, _reach(tau, low))


@dataclass(frozen=True)
class Uniform(Continuous):
    """Uniform noise on [-1, 1] (times ``scale``, plus ``loc``)."""

    standard_support: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def _log_density(self, z: Tensor) -> Tensor:
        return torch.full_like(z, -math.log(2)).masked_fill(z.abs() > 1, -math.inf)

    def _log_cdf(self, z: Tensor) -> Tensor:
        return torch.log((z.clamp(-1.0, 1.0) + 1) / 2)

    def _from_logit(self, w: Tensor) -> Tensor:
        return torch.tanh(w / 2)

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._panels(tau, -1.0, 1.0)


@dataclass(frozen=True)
class Cauchy(Continuous):
    """Cauchy noise: no mean, and no finite expected log-sum-exp or maximum; the laws themselves exist."""

    finite_max: ClassVar[bool] = False
    standard_mean: ClassVar[float] = math.nan

    def _log_density(self, z: Tensor) -> Tensor:
        return -torch.log1p(z.square()) - math.log(math.pi)

    def _log_cdf(self, z: Tensor) -> Tensor:
        return torch.log(torch.atan2(torch.ones_like(z), -z) / math.pi)

    def _from_logit(self, w: Tensor) -> Tensor:
        return torch.sign(w) / torch.tan(math.pi * torch.sigmoid(-w.abs()))

    def _transform(self, s: Tensor, tau: Tensor) -> Transform:
        # L = E F(x), A = tau E f(x), B = A + tau^2 E f'(x) with x = -tau (s + G) and G standard Gumbel.
        step = 0.15 * min(1.0, 1 / tau.item())  # F has poles at distance 1/tau
        nodes = -4.0 + step * torch.arange(math.ceil(46 / step), dtype=torch.float64, device=s.device)
        weights = torch.exp(-nodes - torch.exp(-nodes)) * step
        parts = []
        for block in pieces(s.reshape(-1), (1 << 20) // nodes.numel()):
            x = -tau * (block.unsqueeze(-1) + nodes)
            density = 1 / (math.pi * (1 + x.square()))
            slope = -2 * x * density / (1 + x.square())
            first = tau * (density * weights).sum(-1)
            second = first + tau.square() * (slope * weights).sum(-1)
            parts.append(((self._log_cdf(x).exp() * weights).sum(-1), first, second))
        value, first, second = (torch.cat(column).reshape(s.shape) for column in zip(*parts, strict=True))
        return Transform(value.log(), (first / value).log(), (second / value).log())


@dataclass(frozen=True)
class Discrete(Noise):
    """Finitely many values.

    Attributes:
        values: the atoms, distinct.
        weights: their probabilities, positive, of sum 1.

    Raises:
        ValueError: if the two do not fit or are no law.
    """

    values: tuple[float | Fraction, ...]
    weights: tuple[float | Fraction, ...]

    def __post_init__(self) -> None:
        if not self.values or len(self.values) != len(self.weights):
            raise ValueError(f"{len(self.values)} values and {len(self.weights)} weights; give one weight a value")
        if len(set(self.values)) < len(self.values) or not all(map(math.isfinite, self.values)):
            raise ValueError(f"values are {self.values}; they must be finite and distinct")
        if min(map(float, self.weights)) <= 0 or abs(sum(map(float, self.weights)) - 1) > 1e-12:
            raise ValueError(f"weights are {self.weights}; they must be positive and sum to 1")

    @property
    def support(self) -> tuple[float, float]:
        """The least and the largest value."""
        return float(min(self.values)), float(max(self.values))

    @property
    def mean(self) -> float:
        """The mean."""
        return float(sum(value * weight for value, weight in zip(self.values, self.weights, strict=True)))

    def cdf(self, x: Tensor) -> Tensor:
        """The distribution function, continuous from the right."""
        return (self._weights(x) * (x.unsqueeze(-1) >= self._values(x))).sum(-1)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Independent draws."""
        like = torch.empty(0, dtype=torch.float64, device=generator.device)
        drawn = torch.multinomial(self._weights(like), math.prod(shape), replacement=True, generator=generator)
        return self._values(like)[drawn].reshape(shape)

    def transform(self, s: Tensor, tau: Tensor) -> Transform:
        """The finite sum; see :class:`Noise`."""
        return mixture(s, self._values(s) / tau, self._weights(s).log())

    def _values(self, like: Tensor) -> Tensor:
        return torch.tensor([float(value) for value in self.values], dtype=torch.float64, device=like.device)

    def _weights(self, like: Tensor) -> Tensor:
        return torch.tensor([float(weight) for weight in self.weights], dtype=torch.float64, device=like.device)


def point_mass(value: float = 0.0) -> Discrete:
    """Noise of scale 0: Perturb-Softmax is then the softmax itself, Perturb-Argmax the argmax with its ties."""
    return Discrete((value,), (1,))


def signs() -> Discrete:
    """The paper's discrete noise, uniform on -1 and 1."""
    return Discrete((-1, 1), (Fraction(1, 2), Fraction(1, 2)))
