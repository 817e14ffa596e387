"""The noise distributions: density, distribution function, quantiles, and the rule for the Laplace transform."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import torch
from numpy import euler_gamma
from torch import Tensor

from sumexp._checks import attributes, is_differentiated, is_transformed
from sumexp.perturb._bessel import log_k0, log_x_k1
from sumexp.perturb.transforms import (
    HIGH,
    LOW,
    ByRule,
    Continuous,
    Edged,
    Noise,
    Places,
    Reduced,
    Rule,
    Transform,
    blurred,
    log_or_none,
    mixture,
)

FAR = 5.0
"""Right of z = 5 all of exp(-e^z), exp(2 z - e^z) lie below 1e-60."""


def _reach(tau: float, low: float) -> float:
    """Right end of a rule for a tail e^{-x}: past e^-42, and past z = FAR at the lowest s if e^{2 x/tau} needs it."""
    spare = 1 - 2 / tau
    return min(max(42.0, tau * (FAR - low)), 42 / spare if spare > 0 else math.inf)


@dataclass(frozen=True)
class Gumbel(ByRule):
    r"""Gumbel noise, distribution function :math:`e^{-e^{-x}}`; ``mean_zero()`` shifts it by Euler's constant."""

    standard_mean: ClassVar[float] = euler_gamma

    @classmethod
    def mean_zero(cls, scale: float = 1.0) -> "Gumbel":
        """The paper's Gumbel noise, shifted to mean 0."""
        return cls(-euler_gamma * scale, scale)

    def _log_density(self, z: Tensor) -> Tensor:
        return -z - torch.exp(-z)

    def _log_cdf(self, z: Tensor) -> Tensor:
        return -torch.exp(-z)

    def _survival(self, z: Tensor) -> Tensor:
        return -torch.expm1(-torch.exp(-z))

    def _from_logit(self, w: Tensor) -> Tensor:
        return -torch.log(torch.nn.functional.softplus(-w, threshold=40))

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._trapezoid(tau, -4.7, _reach(tau, low))

    def _transform(self, s: Tensor, tau: Tensor) -> Transform:
        if tau.item() != 1 or is_differentiated(tau) or is_transformed():
            return super()._transform(s, tau)
        # e^gamma = 1/E with E exponential: with x = 2 e^{s/2}, L = x K1(x), A = x^2 K0(x) / 2, B = x^3 K1(x) / 4.
        x = 2 * torch.exp(s / 2)
        log = log_x_k1(x)
        return Transform(log, math.log(2) + s + log_k0(x) - log, s)


@dataclass(frozen=True)
class Gaussian(ByRule):
    """Normal noise."""

    def _log_density(self, z: Tensor) -> Tensor:
        return -z.square() / 2 - math.log(2 * math.pi) / 2

    def _log_cdf(self, z: Tensor) -> Tensor:
        result: Tensor = torch.special.log_ndtr(z)
        return result

    def _survival(self, z: Tensor) -> Tensor:
        result: Tensor = torch.special.erfc(z * math.sqrt(0.5)) / 2
        return result

    def _from_logit(self, w: Tensor) -> Tensor:
        beyond: Tensor = torch.special.ndtri(torch.sigmoid(-w.abs()))
        return -torch.sign(w) * beyond

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._trapezoid(tau, -14.0, max(10.0, min(10 + 2 / tau, tau * (FAR - low))))


@dataclass(frozen=True)
class Logistic(ByRule):
    r"""Logistic noise, distribution function :math:`1/(1+e^{-x})`."""

    def _log_density(self, z: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(z) + torch.nn.functional.logsigmoid(-z)

    def _log_cdf(self, z: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(z)

    def _survival(self, z: Tensor) -> Tensor:
        return torch.sigmoid(-z)

    def _from_logit(self, w: Tensor) -> Tensor:
        return w

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._trapezoid(tau, -90.0, _reach(tau, low))


@dataclass(frozen=True)
class Exponential(Edged):
    r"""Exponential noise, density :math:`e^{-x}` on :math:`x \ge 0`."""

    standard_support: ClassVar[tuple[float, float]] = (0.0, math.inf)
    standard_mean: ClassVar[float] = 1.0

    def _log_density(self, z: Tensor) -> Tensor:
        return torch.where(z >= 0, -z, -math.inf)

    def _log_cdf(self, z: Tensor) -> Tensor:
        inside = torch.where(z > 0, z, 1.0)
        return torch.where(z > 0, torch.log(-torch.expm1(-inside)), -math.inf)

    def _survival(self, z: Tensor) -> Tensor:
        return torch.exp(-z.clamp_min(0.0))

    def _from_logit(self, w: Tensor) -> Tensor:
        return torch.nn.functional.softplus(w, threshold=40)

    def _rule(self, tau: float, low: float) -> tuple[Tensor, Tensor]:
        return self._panels(tau, 0.0, _reach(tau, low))


@dataclass(frozen=True)
class Uniform(Edged):
    """Uniform noise on [-1, 1] (times ``scale``, plus ``loc``)."""

    standard_support: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    cold: ClassVar[float] = 0.01

    def _log_density(self, z: Tensor) -> Tensor:
        return torch.full_like(z, -math.log(2)).masked_fill(z.abs() > 1, -math.inf)

    def _log_cdf(self, z: Tensor) -> Tensor:
        inside = torch.where(z > -1, z.clamp_max(1.0), 0.0)
        return torch.where(z > -1, torch.log((inside + 1) / 2), -math.inf)

    def _survival(self, z: Tensor) -> Tensor:
        return (1 - z.clamp(-1.0, 1.0)) / 2

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

    def _survival(self, z: Tensor) -> Tensor:
        return torch.atan2(torch.ones_like(z), z) / math.pi

    def _from_logit(self, w: Tensor) -> Tensor:
        return torch.sign(w) / torch.tan(math.pi * torch.sigmoid(-w.abs()))

    def _transform(self, s: Tensor, tau: Tensor) -> Transform:
        tau = tau.clamp_max(1e15)  # beyond, the noise is negligible
        return blurred(self, s, tau, self._places(tau))

    def terms(self, tau: Tensor) -> int:
        """The number of terms of the transform at each point."""
        place, tau = torch.zeros(1, dtype=torch.float64, device="cpu"), tau.detach().cpu().clamp_max(1e15)
        return self._places(tau)(place, tau)[0].shape[-1]

    def _places(self, tau: Tensor) -> Places:
        return _even if tau.item() < 4 else _octaves


def _even(s: Tensor, tau: Tensor) -> Rule:
    step = 0.15 * min(1.0, 1 / tau.item())  # F has poles at distance 1/tau
    z = torch.arange(-45, HIGH, step, dtype=s.dtype, device=s.device).unsqueeze(0)
    return z, z - s.unsqueeze(-1), torch.full_like(z, math.log(step))


def _octaves(s: Tensor, tau: Tensor) -> Rule:
    """Panels for a distribution function with poles at distance 1/tau from z = s, cut at distances that double."""
    near = 2.0 ** torch.arange(-1, math.ceil(math.log2(tau.item())) + 1, dtype=s.dtype, device=s.device) / tau
    near = torch.cat([-near.flip(0), near]).expand(len(s), -1)
    at = s.detach().unsqueeze(-1)
    even = torch.arange(LOW, HIGH + 1, dtype=s.dtype, device=s.device) - at
    cuts = torch.cat([even, near.clamp(LOW - at, HIGH - at)], -1).sort(-1).values  # measured from s: no digit is lost
    half = torch.diff(cuts) / 2
    points, weights = (torch.from_numpy(part).to(s.device) for part in np.polynomial.legendre.leggauss(12))
    gaps = (cuts[:, :-1] + half).unsqueeze(-1) + half.unsqueeze(-1) * points
    gaps = gaps.flatten(1)
    # The nodes do not move with s.
    return at + gaps, gaps + (at - s.unsqueeze(-1)), log_or_none((half.unsqueeze(-1) * weights).flatten(1))


@dataclass(frozen=True)
class Discrete(Noise):
    """Finitely many distinct values, and their probabilities: positive, of sum 1."""

    values: tuple[float | Fraction, ...]
    weights: tuple[float | Fraction, ...]

    def __post_init__(self) -> None:
        attributes(self)
        if not self.values or len(self.values) != len(self.weights):
            raise ValueError(f"{len(self.values)} values and {len(self.weights)} weights; give one weight a value")
        if len(set(self.values)) < len(self.values) or not all(map(math.isfinite, self.values)):
            raise ValueError(f"values are {self.values}; they must be finite and distinct")
        weights = [float(weight) for weight in self.weights]
        if not all(weight > 0 for weight in weights) or not abs(math.fsum(weights) - 1) <= 1e-12:
            raise ValueError(f"weights are {self.weights}; they must be positive and sum to 1")

    @property
    def support(self) -> tuple[float, float]:
        """The least and the largest value."""
        return float(min(self.values)), float(max(self.values))

    @property
    def reduced(self) -> Reduced:
        """The largest value split off, as the shift."""
        top = Fraction(max(self.values))  # exactly: rounded, two values could become one
        return Reduced(Discrete(tuple(Fraction(value) - top for value in self.values), self.weights), float(top), 1.0)

    @property
    def mean(self) -> float:
        """The mean."""
        return float(sum(value * weight for value, weight in zip(self.values, self.weights, strict=True)))

    def cdf(self, x: Tensor) -> Tensor:
        """The distribution function, continuous from the right."""
        return (self._weights(x) * (x.unsqueeze(-1) >= self.atoms(x))).sum(-1)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Independent draws."""
        like = torch.empty(0, dtype=torch.float64, device=generator.device)
        count = math.prod(shape)  # multinomial refuses to draw none
        drawn = torch.multinomial(self._weights(like), max(1, count), replacement=True, generator=generator)
        return self.atoms(like)[drawn[:count]].reshape(shape)

    def transform(self, s: Tensor, tau: Tensor) -> Transform:
        """The finite sum; see :class:`Noise`."""
        return mixture(s, self.atoms(s) / tau, self._weights(s).log())

    def terms(self, tau: Tensor) -> int:
        """The number of terms of the transform at each point."""
        return len(self.values)

    def atoms(self, like: Tensor) -> Tensor:
        """The values, float64 on the device of ``like``."""
        return torch.tensor([float(value) for value in self.values], dtype=torch.float64, device=like.device)

    def _weights(self, like: Tensor) -> Tensor:
        return torch.tensor([float(weight) for weight in self.weights], dtype=torch.float64, device=like.device)


def point_mass(value: float = 0.0) -> Discrete:
    """Noise of scale 0: Perturb-Softmax is the softmax, Perturb-Argmax the argmax with its ties."""
    return Discrete((value,), (1,))


def signs() -> Discrete:
    """The paper's discrete noise, uniform on -1 and 1."""
    return Discrete((-1, 1), (Fraction(1, 2), Fraction(1, 2)))


GUMBEL = Gumbel()
"""The default noise."""

Family: TypeAlias = Literal["gaussian", "gumbel", "logistic"]
FAMILIES: Mapping[Family, type[Gaussian | Gumbel | Logistic]] = {
    "gaussian": Gaussian,
    "gumbel": Gumbel,
    "logistic": Logistic,
}
"""The noises that the settings of training runs name."""
