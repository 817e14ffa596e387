"""The perturbed laws as ``torch.distributions``, in place of ``RelaxedOneHotCategorical`` and ``OneHotCategorical``."""

import math
from typing import Any, ClassVar

import torch
from torch import Generator, Size, Tensor
from torch.distributions import Distribution, constraints

from sumexp.perturb import argmax, checks, softmax
from sumexp.perturb.noises import GUMBEL, Gaussian, Gumbel
from sumexp.perturb.transforms import Continuous, Noise


class _Perturbed(Distribution):
    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real_vector}

    def __init__(self, loc: Tensor, noise: Noise, validate_args: bool | None) -> None:
        checks.parameters(loc)
        self.loc = loc
        self.noise = noise
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=validate_args)

    def _perturb(self, sample_shape: Size | list[int] | tuple[int, ...], generator: Generator | None) -> Tensor:
        r"""loc + gamma, [\*sample_shape, ..., d]."""
        shape = self._extended_shape(torch.Size(sample_shape))
        if generator is None:
            device = self.loc.device
            generator = (
                torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator
            )
        return self.loc + self.noise.sample(tuple(shape), generator).to(self.loc)


class PerturbSoftmax(_Perturbed):
    r"""The law of :math:`\mathrm{softmax}((\theta+\gamma)/\tau)` on the open simplex.

    With Gumbel noise it is ``RelaxedOneHotCategorical(temperature, logits=loc)``; ``mean`` and ``variance`` are exact.

    Args:
        loc: parameters [..., d].
        temperature: a scalar > 0.
        noise: law of each perturbation.

    Raises:
        ValueError: if loc has d < 2 or an entry that is not finite, or the temperature is not a finite number > 0.
    """

    has_rsample = True
    support = constraints.simplex

    def __init__(
        self,
        loc: Tensor,
        temperature: float | Tensor = 1.0,
        noise: Noise = GUMBEL,
        validate_args: bool | None = None,
    ) -> None:
        checks.temperature(temperature)
        self.temperature = temperature
        super().__init__(loc, noise, validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean, exact, differentiable, [..., d]."""
        return softmax.mean(self.loc, self.noise, self.temperature).to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate, exact, [..., d]."""
        mean = softmax.mean(self.loc, self.noise, self.temperature)
        spread = softmax.hessian_diagonal(self.loc, self.noise, self.temperature) * self.temperature
        return (mean - spread - mean.square()).to(self.loc.dtype)

    def rsample(
        self, sample_shape: Size | list[int] | tuple[int, ...] = (), generator: Generator | None = None
    ) -> Tensor:
        r"""Reparameterised draws [\*sample_shape, ..., d]."""
        return torch.softmax(self._perturb(sample_shape, generator) / self.temperature, -1)

    def sample(
        self, sample_shape: Size | list[int] | tuple[int, ...] = (), generator: Generator | None = None
    ) -> Tensor:
        r"""Draws without gradient [\*sample_shape, ..., d]."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator)

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density in the first d - 1 coordinates; closed for Gumbel and Gaussian noise.

        With :math:`y = \tau\log x - \theta` it is
        :math:`(d-1)\log\tau - \sum_i\log x_i + \log\int\prod_if(y_i+c)\,dc`.

        Raises:
            NotImplementedError: for other noises.
        """
        if self._validate_args:
            self._validate_sample(value)
        log_x, d = value.log(), value.shape[-1]
        y = self.temperature * log_x - self.loc
        if isinstance(self.noise, Gumbel):
            z = y / self.noise.scale
            shape = -(d - 1) * math.log(self.noise.scale) + math.lgamma(d) - z.sum(-1) - d * torch.logsumexp(-z, -1)
        elif isinstance(self.noise, Gaussian):
            z = (y - y.mean(-1, keepdim=True)) / self.noise.scale
            constant = math.log(2 * math.pi) / 2 + math.log(self.noise.scale)
            shape = -z.square().sum(-1) / 2 - (d - 1) * constant - math.log(d) / 2
        else:
            raise NotImplementedError(
                f"the density of the relaxed draw is closed for Gumbel and Gaussian noise only, not for {self.noise}"
            )
        log_tau = torch.as_tensor(self.temperature, dtype=value.dtype, device=value.device).log()
        return (d - 1) * log_tau - log_x.sum(-1) + shape


class PerturbArgmax(_Perturbed):
    r"""The law of the one-hot vector of :math:`\arg\max_j(\theta_j+\gamma_j)`.

    With Gumbel noise it is ``OneHotCategorical(logits=loc)``.

    Args:
        loc: parameters [..., d].
        noise: law of each perturbation, one with a density.

    Raises:
        ValueError: if loc has d < 2 or an entry that is not finite, or the noise is discrete.
    """

    has_rsample = False
    support = constraints.one_hot

    def __init__(self, loc: Tensor, noise: Noise = GUMBEL, validate_args: bool | None = None) -> None:
        if not isinstance(noise, Continuous):
            raise ValueError(f"{noise} has ties; PerturbArgmax needs a noise with a density")
        super().__init__(loc, noise, validate_args)

    @property
    def mean(self) -> Tensor:
        """The class probabilities, exact, differentiable, [..., d]."""
        return argmax.probabilities(self.loc, self.noise).to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate, [..., d]."""
        return self.mean * (1 - self.mean)

    def sample(
        self, sample_shape: Size | list[int] | tuple[int, ...] = (), generator: Generator | None = None
    ) -> Tensor:
        r"""One-hot draws [\*sample_shape, ..., d]."""
        with torch.no_grad():
            winner = self._perturb(sample_shape, generator).argmax(-1)
            return torch.nn.functional.one_hot(winner, self.event_shape[0]).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of a one-hot vector [..., d]."""
        if self._validate_args:
            self._validate_sample(value)
        return (self.mean.log() * value).sum(-1)
