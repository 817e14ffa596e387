"""The perturbed laws as ``torch.distributions``, in place of ``RelaxedOneHotCategorical`` and ``OneHotCategorical``."""

import math
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Size, Tensor
from torch.distributions import Distribution, constraints, register_kl

from sumexp.perturb import _checks as checks
from sumexp.perturb import argmax, softmax
from sumexp.perturb.noises import GUMBEL, Gaussian, Gumbel
from sumexp.perturb.transforms import Continuous, Noise, checked

__all__ = ["PerturbArgmax", "PerturbSoftmax"]

Shape = Size | list[int] | tuple[int, ...]

FEW = 16
"""Classes: as many numbers as one operation of a CPU takes at most."""


class _Perturbed(Distribution):
    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real_vector}

    def __init__(self, loc: Tensor, noise: Noise, validate_args: bool | None) -> None:
        checks.shaped(loc)
        self.loc = loc
        self.noise = checked(noise)
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)
        # The check of finite parameters is the only one made of their values, and made once.
        self._validate_args = type(self)._validate_args if validate_args is None else validate_args
        if self._validate_args:
            checks.parameters(loc)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """The same laws for a batch of another shape, of shared memory."""
        new = type(self).__new__(type(self)) if _instance is None else _instance
        batch_shape = torch.Size(batch_shape)
        new.__dict__.update({key: value for key, value in self.__dict__.items() if key not in new.__dict__})
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new._batch_shape = batch_shape
        return new

    def _perturb(self, sample_shape: Shape, generator: Generator | None) -> Tensor:
        r"""loc + gamma, [\*sample_shape, ..., d], in single precision at least."""
        shape = self._extended_shape(torch.Size(sample_shape))
        if generator is None:
            device = self.loc.device
            generator = (
                torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator
            )
        loc = self.loc.to(torch.promote_types(self.loc.dtype, torch.float32))
        return loc + _draws(self.noise, shape, generator, loc.dtype).to(loc.device)


def _draws(noise: Noise, shape: Size, generator: Generator, dtype: torch.dtype) -> Tensor:
    """Independent draws: in ``dtype`` where torch draws the noise or its uniforms, else quantiles in float64.

    Uniforms of p bits (24 or 53) end the tails of the Gumbel noise where :math:`2^{-p}` of its mass is left.
    """
    drawn = torch.empty(shape, dtype=dtype, device=generator.device)
    match noise:
        case Gumbel():
            drawn.uniform_(generator=generator).clamp_min_(torch.finfo(dtype).eps / 4)  # half a step, for 0
            drawn.log_().neg_().log_().neg_()
        case Gaussian():
            drawn.normal_(generator=generator)
        case _:
            return noise.sample(tuple(shape), generator).to(dtype)
    standard = noise.loc == 0 and noise.scale == 1
    return drawn if standard else drawn.mul_(noise.scale).add_(noise.loc)


class PerturbSoftmax(_Perturbed):
    r"""The law of :math:`\mathrm{softmax}((\theta+\gamma)/\tau)` on the open simplex.

    With Gumbel noise it is ``RelaxedOneHotCategorical(temperature, logits=loc)``; ``mean`` and ``variance`` are exact.

    Args:
        loc: parameters [..., d].
        temperature: a scalar > 0.
        noise: law of each perturbation.
        validate_args: whether values are checked, here and in ``log_prob``; without, neither reads them.

    Raises:
        ValueError: if loc has d < 2 or an entry that is not finite, the temperature is not a finite number > 0, or the
            noise is none.
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
        self.temperature = temperature
        super().__init__(loc, noise, validate_args)
        if self._validate_args:
            checks.temperature(temperature)

    @property
    def mean(self) -> Tensor:
        """The mean, exact, differentiable, [..., d]."""
        return softmax.mean(self.loc, self.noise, self.temperature).to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate, exact, [..., d]; see :func:`sumexp.perturb.softmax.variance`."""
        return softmax.variance(self.loc, self.noise, self.temperature).to(self.loc.dtype)

    def rsample(self, sample_shape: Shape = (), generator: Generator | None = None) -> Tensor:
        r"""Reparameterised draws [\*sample_shape, ..., d]; what underflows is the smallest normal number, not 0."""
        drawn: Tensor = _softmax(self._perturb(sample_shape, generator) / self.temperature).to(self.loc.dtype)
        return drawn.clamp_min(torch.finfo(drawn.dtype).tiny)

    def sample(self, sample_shape: Shape = (), generator: Generator | None = None) -> Tensor:
        r"""Draws without gradient [\*sample_shape, ..., d]."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator)

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density in the first d - 1 coordinates, closed for Gumbel and Gaussian noise; -inf on the boundary.

        With :math:`y = \tau\log x - \theta` it is
        :math:`(d-1)\log\tau - \sum_i\log x_i + \log\int\prod_if(y_i+c)\,dc`.

        Raises:
            NotImplementedError: for other noises.
        """
        if self._validate_args:
            self._validate_sample(value)
        outside = (value <= 0).any(-1)
        log_x, d = value.masked_fill(value <= 0, 1.0).log(), value.shape[-1]
        y = self.temperature * log_x - self.loc
        if isinstance(self.noise, Gumbel):
            z = y / self.noise.scale
            shape = -z.sum(-1) - d * torch.logsumexp(-z, -1)
        elif isinstance(self.noise, Gaussian):
            z = (y - y.mean(-1, keepdim=True)) / self.noise.scale
            shape = -z.square().sum(-1) / 2
        else:
            raise self._not_closed("density")
        constant = self._log_constant().to(value)
        return (shape + constant - log_x.sum(-1)).masked_fill(outside, -math.inf)

    def entropy(self) -> Tensor:
        r"""The differential entropy in the first d - 1 coordinates, exact for Gumbel and Gaussian noise; [...].

        In :math:`-\mathbb E\log` of the density the mean of :math:`\sum_i\log x_i` is
        :math:`(\sum_i\theta_i + d\,\mathbb E\gamma - df(\theta))/\tau` with the potential f; the rest is constant.

        Raises:
            NotImplementedError: for other noises.
        """
        d = self.event_shape[0]
        theta = self.loc.to(torch.float64)
        rest = theta + self.noise.mean - softmax.potential(theta, self.noise, self.temperature).unsqueeze(-1)
        log_x = rest.sum(-1) / self.temperature
        if isinstance(self.noise, Gumbel):  # E of -sum g - d log sum e^-g over standard g, with e^-g exponential
            shape = -d * math.fsum(1 / k for k in range(1, d))
        elif isinstance(self.noise, Gaussian):
            shape = -(d - 1) / 2
        else:
            raise self._not_closed("entropy")
        return (log_x - shape - self._log_constant().to(log_x)).to(self.loc.dtype)

    def _log_constant(self) -> Tensor:
        """The part of the log density that depends on the number of classes, the temperature and the noise only."""
        d, scale = self.event_shape[0], self.noise.reduced.scale
        log_tau = torch.as_tensor(self.temperature, dtype=torch.float64).log()
        if isinstance(self.noise, Gumbel):
            return (d - 1) * (log_tau - math.log(scale)) + math.lgamma(d)
        return (d - 1) * (log_tau - math.log(scale) - math.log(2 * math.pi) / 2) - math.log(d) / 2

    def _not_closed(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"the {what} of the relaxed draw is closed for Gumbel and Gaussian noise only, not for {self.noise}"
        )


class PerturbArgmax(_Perturbed):
    r"""The law of the one-hot vector of :math:`\arg\max_j(\theta_j+\gamma_j)`.

    With Gumbel noise it is ``OneHotCategorical(logits=loc)``.

    Args:
        loc: parameters [..., d].
        noise: law of each perturbation, one with a density.
        validate_args: as for :class:`PerturbSoftmax`.

    Raises:
        ValueError: if loc has d < 2 or an entry that is not finite, or the noise is none or discrete.
    """

    has_rsample = False
    has_enumerate_support = True
    support = constraints.one_hot

    def __init__(self, loc: Tensor, noise: Noise = GUMBEL, validate_args: bool | None = None) -> None:
        if not isinstance(checked(noise), Continuous):
            raise ValueError(f"{noise} has ties; PerturbArgmax needs a noise with a density")
        super().__init__(loc, noise, validate_args)

    @property
    def mean(self) -> Tensor:
        """The class probabilities, exact, differentiable, [..., d]."""
        return self._probabilities().to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate, [..., d]."""
        p = self._probabilities()
        top = p.detach().argmax(-1, keepdim=True)
        others = p.scatter(-1, top, 0.0).sum(-1, keepdim=True)  # 1 - p loses its digits for the likeliest class
        return (p * (1 - p).scatter(-1, top, others)).to(self.loc.dtype)

    @property
    def mode(self) -> Tensor:
        """The likeliest vector, that of the largest parameter (of the first among equals), [..., d]."""
        return self._one_hot(self.loc.argmax(-1))

    def sample(self, sample_shape: Shape = (), generator: Generator | None = None) -> Tensor:
        r"""One-hot draws [\*sample_shape, ..., d]."""
        with torch.no_grad():
            return self._one_hot(self._perturb(sample_shape, generator).argmax(-1))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of a one-hot vector [..., d]; -inf for a class that cannot win."""
        if self._validate_args:
            self._validate_sample(value)
        logits = self._log_probabilities()
        # 0 log 0 would be NaN: the others' logarithms are left out.
        return logits.masked_fill(value == 0, 0.0).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy, [...]."""
        parts: Tensor = torch.special.entr(self._probabilities())
        return parts.sum(-1).to(self.loc.dtype)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The one-hot vectors, [d, ..., d]."""
        d = self.event_shape[0]
        vectors = torch.eye(d, dtype=self.loc.dtype, device=self.loc.device)
        vectors = vectors.reshape(d, *[1] * len(self.batch_shape), d)
        return vectors.expand(d, *self.batch_shape, d) if expand else vectors

    def _probabilities(self) -> Tensor:
        return argmax.probabilities(self.loc, self.noise)

    def _log_probabilities(self) -> Tensor:
        """In the type of loc; taken of what does not underflow there."""
        if isinstance(self.noise, Gumbel):
            return torch.log_softmax(self.loc / self.noise.scale, -1)
        return self._probabilities().log().to(self.loc.dtype)

    def _one_hot(self, winner: Tensor) -> Tensor:
        hot: Tensor = torch.nn.functional.one_hot(winner, self.event_shape[0])
        return hot.to(self.loc.dtype)


def _softmax(scores: Tensor) -> Tensor:
    """Along the last dimension; across rows where a CPU has so few classes that one row fills no vector register."""
    few = scores.device.type == "cpu" and scores.ndim > 1 and scores.shape[-1] < FEW
    return torch.softmax(scores.mT, -2).mT.contiguous() if few else torch.softmax(scores, -1)


@register_kl(PerturbArgmax, PerturbArgmax)  # type: ignore[no-untyped-call, untyped-decorator]
def _between_argmaxes(first: PerturbArgmax, second: PerturbArgmax) -> Tensor:
    p, q = first._probabilities(), second._probabilities()
    result: Tensor = torch.special.xlogy(p, p) - torch.special.xlogy(p, q)
    return result.sum(-1).to(first.loc.dtype)


@register_kl(PerturbSoftmax, PerturbSoftmax)  # type: ignore[no-untyped-call, untyped-decorator]
def _between_softmaxes(first: PerturbSoftmax, second: PerturbSoftmax) -> Tensor:
    """Closed between Gaussian noises: both are normal laws of the log ratios, on the vectors of sum zero."""
    if not (isinstance(first.noise, Gaussian) and isinstance(second.noise, Gaussian)):
        raise NotImplementedError(
            f"KL between relaxed draws is closed for Gaussian noise on both sides, not for {first.noise}, "
            f"{second.noise}"
        )
    centres, scales = [], []
    for law in (first, second):
        theta = law.loc.to(torch.float64) / law.temperature
        centres.append(theta - theta.mean(-1, keepdim=True))
        scales.append(law.noise.reduced.scale / torch.as_tensor(law.temperature, dtype=torch.float64).to(theta.device))
    ratio = (scales[0] / scales[1]).square()
    apart = ((centres[0] - centres[1]) / scales[1]).square().sum(-1)
    return (((first.event_shape[0] - 1) * (ratio - 1 - ratio.log()) + apart) / 2).to(first.loc.dtype)
