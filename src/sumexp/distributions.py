"""The perturbed laws as ``torch.distributions``, in place of ``RelaxedOneHotCategorical`` and ``OneHotCategorical``.

For Pyro derive a class from the law and from ``pyro.distributions.torch_distribution.TorchDistributionMixin``.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Size, Tensor
from torch.distributions import (
    Distribution,
    OneHotCategorical,
    biject_to,
    constraints,
    register_kl,
    transform_to,
    transforms,
)
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from sumexp._checks import double, is_differentiated, is_traced, is_transformed, onto, source, together, wide
from sumexp.perturb import _checks as checks
from sumexp.perturb import _rare as rare
from sumexp.perturb import argmax, batched, softmax
from sumexp.perturb.noises import GUMBEL, Exponential, Gaussian, Gumbel, Logistic
from sumexp.perturb.transforms import Continuous, Noise, checked

__all__ = ["PerturbSoftmax", "PerturbLogSoftmax", "PerturbArgmax", "PerturbArgmaxStraightThrough"]

Shape = Size | list[int] | tuple[int, ...]

FEW = 16
"""Classes: as many numbers as one operation of a CPU takes at most."""

RARE, RARE_SLOPE, LOST = 1e-6, 1e-3, 1e-290
"""Probabilities below have lost digits on the grid of single precision, so has the gradient of their logarithms, and in
double precision."""


def _least(dtype: torch.dtype) -> float:
    """The least entry of a draw: the smallest normal number, but in float16, where 16,384 classes would be below it."""
    return 2.0**-24 if dtype == torch.float16 else torch.finfo(dtype).tiny


class _Simplex(type(constraints.simplex)):  # type: ignore[misc]
    """The unit simplex, up to the rounding of its entries."""

    def check(self, value: Tensor) -> Tensor:
        """Which vectors are of it."""
        d, kind = value.shape[-1], torch.finfo(value.dtype)
        allowed = kind.eps * (8 + 4 * math.sqrt(d)) + d * _least(value.dtype)
        off = (value.sum(-1, dtype=_single(value.dtype)) - 1).abs()
        return (value >= 0).all(-1) & (off <= allowed)


_SIMPLEX = _Simplex()
for _registry in (biject_to, transform_to):
    _registry.register(_Simplex, lambda _: transforms.StickBreakingTransform())  # type: ignore[no-untyped-call]


class _Perturbed(Distribution):
    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real_vector}

    def __init__(self, loc: Tensor, noise: Noise | None, validate_args: bool | None) -> None:
        checks.shaped(loc, "loc")
        self.loc = loc
        self.noise = GUMBEL if noise is None else checked(noise)  # a default object cannot be traced
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)
        # The check of finite parameters is the only one made of their values, and made once.
        self._validate_args = type(self)._validate_args if validate_args is None else validate_args
        if self._validate_args:
            checks.finite(self._unmasked(loc), "loc")

    def _unmasked(self, loc: Tensor) -> Tensor:
        """The parameters, of which all must be finite."""
        return loc

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
        loc = self.loc.to(_single(self.loc.dtype))
        device = loc.device if (generator := source(generator)) is None else generator.device
        return loc + _draws(self.noise, shape, generator, loc.dtype, device).to(loc.device)


def _single(*dtypes: torch.dtype) -> torch.dtype:
    """The widest of some types, single precision at least."""
    return reduce(torch.promote_types, dtypes, torch.float32)


def _per_row(value: float | Tensor) -> float | Tensor:
    """Of [..., 1] one number for each row; scalars as they are."""
    return value.squeeze(-1) if isinstance(value, Tensor) and value.ndim else value


def _draws(noise: Noise, shape: Size, generator: Generator | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Independent draws: in ``dtype`` where torch draws the noise or its uniforms, else quantiles in float64.

    Uniforms of p bits (24 or 53) end the tails of the Gumbel noise where :math:`2^{-p}` of its mass is left.
    """
    # torch takes no generator, not even None, with a size that a compiler keeps open.
    given: dict[str, Any] = {} if generator is None else {"generator": generator}
    if isinstance(noise, Gumbel):
        drawn = torch.rand(shape, **given, dtype=dtype, device=device)
        drawn.clamp_min_(torch.finfo(dtype).eps / 4)  # half a step, for 0
        drawn.log_().neg_().log_().neg_()
    elif isinstance(noise, Gaussian):
        drawn = torch.randn(shape, **given, dtype=dtype, device=device)
    else:
        device = device if given or device.type == "cuda" else torch.device("cpu")
        if isinstance(noise, Continuous):
            drawn = torch.rand(shape, **given, dtype=wide(device), device=device)
            return noise.from_uniform(double(drawn.clamp_min_(torch.finfo(drawn.dtype).eps / 4))).to(dtype)
        cuda = device.type == "cuda"
        common = torch.cuda.default_generators[device.index or 0] if cuda else torch.default_generator
        return noise.sample(tuple(shape), generator or common).to(dtype)
    standard = noise.loc == 0 and noise.scale == 1
    return drawn if standard else drawn.mul_(noise.scale).add_(noise.loc)


class _Relaxed(_Perturbed):
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        temperature: float | Tensor = 1.0,
        noise: Noise | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(loc, noise, validate_args)
        if self._validate_args:
            self._check_temperature()

    def _check_temperature(self) -> None:
        tau, rows = self.temperature, (*self.batch_shape, 1)
        if not isinstance(tau, Tensor):
            checks.temperature(tau, "temperature")
        elif tau.numel() == 1:
            checks.temperature(double(tau).reshape(()), "temperature")
        elif tau.ndim > len(rows) or any(have not in (1, row) for have, row in zip(tau.shape[::-1], rows[::-1])):  # noqa: B905
            raise ValueError(
                f"temperature is of shape {tuple(tau.shape)}; give one number, or one for each row, {rows}"
            )
        else:
            for bound in double(tau.detach()).aminmax():
                checks.temperature(bound, "temperature")

    @property
    def _tau(self) -> float | Tensor:
        """A scalar, or [..., 1]."""
        tau = self.temperature
        if not isinstance(tau, Tensor):
            return tau
        return tau.reshape(()) if tau.numel() == 1 else tau.to(_single(self.loc.dtype))

    def _exact(self, moment: Callable[..., Tensor]) -> Tensor:
        """A moment of every row at its temperature, float64."""
        _refuse_graphs(self.noise, "; draws and densities are mapped")
        loc, tau, d = checks.parameters(double(self.loc), "loc"), self._tau, self.event_shape[0]
        tau = tau.to(loc.device) if isinstance(tau, Tensor) else tau
        if not isinstance(tau, Tensor) or not tau.ndim:
            return moment(loc, self.noise, tau)
        each = zip(loc.reshape(-1, d), tau.expand(*self.batch_shape, 1).reshape(-1), strict=True)
        rows = torch.stack([moment(row, self.noise, at) for row, at in each])
        return rows.reshape(*self.batch_shape, *rows.shape[1:])

    def rsample(self, sample_shape: Shape = (), generator: Generator | None = None) -> Tensor:
        r"""Reparameterised draws [\*sample_shape, ..., d]."""
        return self._point(self._perturb(sample_shape, generator) / self._tau)

    def sample(self, sample_shape: Shape = (), generator: Generator | None = None) -> Tensor:
        r"""Draws without gradient [\*sample_shape, ..., d]."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator)

    def _point(self, scores: Tensor) -> Tensor:
        """The draw of perturbed scores, in the type of loc."""
        raise NotImplementedError

    def _log_density(self, log_x: Tensor) -> Tensor:
        """The log density at the logarithms of a point, in log space: on the simplex less their sum."""
        y = self._tau * log_x - self.loc
        if isinstance(self.noise, Gumbel):
            z = y / self.noise.scale
            shape = -z.sum(-1) - z.shape[-1] * torch.logsumexp(-z, -1)
        elif isinstance(self.noise, Gaussian):
            shape = ((y - y.mean(-1, keepdim=True)) / self.noise.scale).square().sum(-1) / -2
        else:
            raise self._not_closed("density")
        constant = _per_row(self._log_constant())
        return shape + (constant.to(shape) if isinstance(constant, Tensor) else constant)

    def _log_entropy(self) -> float | Tensor:
        """The entropy in log space, which does not depend on loc."""
        d = self.event_shape[0]
        if isinstance(self.noise, Gumbel):  # E of -sum g - d log sum e^-g over standard g, with e^-g exponential
            shape = -d * math.fsum(1 / k for k in range(1, d))
        elif isinstance(self.noise, Gaussian):
            shape = -(d - 1) / 2
        else:
            raise self._not_closed("entropy")
        return -shape - _per_row(self._log_constant())

    def _mean_log(self) -> Tensor:
        r""":math:`\mathbb E\log x_i = (\theta_i+\mathbb E\gamma-f(\theta))/\tau` with the potential f."""
        f = self._exact(softmax.potential)
        tau = self._tau.to(f.device) if isinstance(self._tau, Tensor) else self._tau
        return (self.loc.to(f) + self.noise.mean - f.unsqueeze(-1)) / tau

    def _log_constant(self) -> float | Tensor:
        """The part of the log density that depends on the number of classes, the temperature and the noise only."""
        d, tau = self.event_shape[0], self._tau
        log_tau = tau.to(_single(tau.dtype)).log() if isinstance(tau, Tensor) else math.log(tau)
        log_ratio = log_tau - math.log(self.noise.reduced.scale)
        if isinstance(self.noise, Gumbel):
            return (d - 1) * log_ratio + math.lgamma(d)
        return (d - 1) * (log_ratio - math.log(2 * math.pi) / 2) - math.log(d) / 2

    def _not_closed(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"the {what} of the relaxed draw is closed for Gumbel and Gaussian noise only, not for {self.noise}"
        )


class PerturbSoftmax(_Relaxed):
    r"""The law of :math:`\mathrm{softmax}((\theta+\gamma)/\tau)` on the open simplex.

    With Gumbel noise it is ``RelaxedOneHotCategorical(temperature, logits=loc)``; ``mean`` and ``variance`` are exact.
    At low temperatures entries of a draw underflow. They are then the least normal number of the type of loc (2^-24 in
    float16), and ``log_prob`` is NaN. A loss with ``log_prob`` of draws needs :class:`PerturbLogSoftmax`.

    >>> law = PerturbSoftmax(torch.tensor([1.0, 0.0]), temperature=0.5)
    >>> law.mean, law.log_prob(torch.tensor([0.6, 0.4]))
    (tensor([0.7031, 0.2969]), tensor(-0.8072))

    Args:
        loc: parameters [..., d].
        temperature: > 0, a scalar or one for each row, [..., 1].
        noise: law of each perturbation; standard Gumbel if None.
        validate_args: whether values are checked, here and in ``log_prob``; without, neither reads them.

    Raises:
        ValueError: if loc has d < 2 or an entry that is not finite, the temperature is not a finite number > 0, or the
            noise is none.
        NotImplementedError: from ``log_prob`` and ``entropy``, for noises other than Gumbel and Gaussian.
    """

    support = _SIMPLEX

    @property
    def mean(self) -> Tensor:
        """The mean, exact, differentiable, [..., d]."""
        return self._exact(softmax.mean).to(self.loc)

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate, exact, [..., d]; see :func:`sumexp.perturb.softmax.variance`."""
        return self._exact(softmax.variance).to(self.loc)

    def _point(self, scores: Tensor) -> Tensor:
        drawn: Tensor = _softmax(scores).to(self.loc.dtype)
        return drawn.clamp_min(_least(drawn.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density in the first d - 1 coordinates, closed for Gumbel and Gaussian noise, in float32 at least.

        With :math:`y = \tau\log x - \theta` it is
        :math:`(d-1)\log\tau - \sum_i\log x_i + \log\int\prod_if(y_i+c)\,dc`. It is -inf where an entry is 0, and NaN
        where one has underflowed: a mean over such draws would be wrong without a sign of it.

        Raises:
            NotImplementedError: for other noises.
        """
        if self._validate_args and not is_traced(value):
            self._validate_sample(value)
        least = _least(value.dtype)
        lost = (value <= least) | (value == _least(self.loc.dtype)) | (value == _least(torch.float32))
        outside = value <= 0
        log_x = value.to(_single(value.dtype, self.loc.dtype)).masked_fill(outside, 1.0).log()
        # A product: where the value is NaN, so is the gradient.
        density = self._log_density(log_x) - log_x.sum(-1)
        density = density * torch.ones_like(density).masked_fill((lost & ~outside).any(-1), math.nan)
        return density.masked_fill(outside.any(-1), -math.inf)

    def entropy(self) -> Tensor:
        r"""The differential entropy in the first d - 1 coordinates, exact for Gumbel and Gaussian noise; [...].

        In :math:`-\mathbb E\log` of the density the mean of :math:`\sum_i\log x_i` is
        :math:`(\sum_i\theta_i + d\,\mathbb E\gamma - df(\theta))/\tau` with the potential f; the rest is constant.

        Raises:
            NotImplementedError: for other noises.
        """
        return (self._log_entropy() + onto(self._mean_log().sum(-1), self.loc.device)).to(self.loc)


class PerturbLogSoftmax(_Relaxed):
    r"""The law of :math:`\log\mathrm{softmax}((\theta+\gamma)/\tau)`, which underflows at no temperature.

    With Gumbel noise it is ``ExpRelaxedCategorical(temperature, logits=loc)``. ``log_prob(y)`` is that of
    :class:`PerturbSoftmax` at :math:`e^y` plus :math:`\sum_iy_i`, so that a divergence between two laws is the same for
    both, and so is its estimate by ``(q.log_prob(y) - p.log_prob(y)).mean()``.

    >>> law = PerturbLogSoftmax(torch.tensor([100.0, 0.0]), temperature=0.1)
    >>> law.log_prob(torch.tensor([0.0, -1000.0]))
    tensor(-3.6889)

    Arguments and errors are those of :class:`PerturbSoftmax`.
    """

    support = constraints.real_vector

    @property
    def mean(self) -> Tensor:
        """The mean of the logarithms, exact, [..., d]; see :func:`sumexp.perturb.softmax.potential`."""
        return self._mean_log().to(self.loc)

    def _point(self, scores: Tensor) -> Tensor:
        return torch.log_softmax(scores, -1).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density at logarithms of a point of the simplex, closed for Gumbel and Gaussian noise.

        Raises:
            NotImplementedError: for other noises.
        """
        if self._validate_args and not is_traced(value):
            self._validate_sample(value)
        return self._log_density(value.to(_single(value.dtype, self.loc.dtype)))

    def entropy(self) -> Tensor:
        """The differential entropy, exact for Gumbel and Gaussian noise; it does not depend on loc; [...].

        Raises:
            NotImplementedError: for other noises.
        """
        zero = self.loc.new_zeros(self.batch_shape, dtype=_single(self.loc.dtype))
        return (zero + self._log_entropy()).to(self.loc)


class PerturbArgmax(_Perturbed):
    r"""The law of the one-hot vector of :math:`\arg\max_j(\theta_j+\gamma_j)`.

    With Gumbel noise it is ``OneHotCategorical(logits=loc)``. In single precision, Gaussian and logistic noise go
    through :mod:`sumexp.perturb.batched`: mean, entropy and divergence to about 1e-6, for thousands of rows a step.
    Graphs and ``torch.func`` take these three noises, in double precision to 1e-12; with others give all rows at once,
    as loc [..., d]. ``log_prob`` and divergences keep their digits at any distance from the best class, but for
    divergences from a law with Gaussian noise in graphs: they are infinite if it gives a class less than e^-1500 or so.
    With Cauchy and uniform noise probabilities end where double precision does.

    >>> law = PerturbArgmax(torch.tensor([1.0, 0.0, 0.0]), Gaussian())
    >>> prior = torch.distributions.OneHotCategorical(logits=torch.zeros(3))
    >>> law.mean, torch.distributions.kl_divergence(law, prior)
    (tensor([0.6337, 0.1831, 0.1831]), tensor(0.1878))

    Args:
        loc: parameters [..., d]; -inf for a masked class, which never wins.
        noise: law of each perturbation, one with a density; standard Gumbel if None.
        validate_args: as for :class:`PerturbSoftmax`.

    Raises:
        ValueError: if loc has d < 2, NaN, +inf or a row without a finite entry, or the noise is none or discrete.
    """

    has_rsample = False
    has_enumerate_support = True
    support = constraints.one_hot

    def __init__(self, loc: Tensor, noise: Noise | None = None, validate_args: bool | None = None) -> None:
        super().__init__(loc, noise, validate_args)
        if not isinstance(self.noise, Continuous):
            raise ValueError(f"{noise} has ties; PerturbArgmax needs a noise with a density")

    def _unmasked(self, loc: Tensor) -> Tensor:
        return torch.where(loc == -math.inf, loc.amax(-1, keepdim=True), loc)

    @property
    def mean(self) -> Tensor:
        """The class probabilities, exact, differentiable, [..., d]."""
        return self._probabilities().to(self.loc)

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate, [..., d]."""
        p = _exact_probabilities(self.loc, self.noise)
        top = p.detach().argmax(-1, keepdim=True)
        others = p.scatter(-1, top, 0.0).sum(-1, keepdim=True)  # 1 - p loses its digits for the likeliest class
        return (p * (1 - p).scatter(-1, top, others)).to(self.loc)

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
        if self._validate_args and not is_traced(value):
            self._validate_sample(value)
        if isinstance(self.noise, Gaussian | Logistic) and is_traced(self.loc):
            loc, hot = torch.broadcast_tensors(double(self.loc), double(value))  # type: ignore[no-untyped-call]
            log_p = rare.log_probabilities(loc, self.noise, hot.argmax(-1)).squeeze(-1)
            return onto(log_p, self.loc.device).to(self.loc)
        # 0 log 0 would be NaN: the others' logarithms are left out.
        return self._log_probabilities(value != 0).masked_fill(value == 0, 0.0).sum(-1).to(self.loc)

    def entropy(self) -> Tensor:
        """The entropy, [...]."""
        if _is_batched(self):
            return -batched.negative_entropy(_on_grid(self.loc), self.noise).to(self.loc)  # type: ignore[arg-type]
        p = self._probabilities()
        parts: Tensor = torch.special.entr(p.masked_fill(p == 0, 1.0))  # of 0 it has no gradient
        return parts.sum(-1).to(self.loc)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The one-hot vectors, [d, ..., d]."""
        d = self.event_shape[0]
        vectors = torch.eye(d, dtype=self.loc.dtype, device=self.loc.device)
        vectors = vectors.reshape(d, *[1] * len(self.batch_shape), d)
        return vectors.expand(d, *self.batch_shape, d) if expand else vectors

    def _probabilities(self) -> Tensor:
        if _is_batched(self):
            return batched.probabilities(_on_grid(self.loc), self.noise)  # type: ignore[arg-type]
        if isinstance(self.noise, Gumbel):
            return torch.softmax(double(self.loc) / self.noise.scale, -1)
        return _exact_probabilities(self.loc, self.noise)

    def _log_probabilities(self, asked: Tensor) -> Tensor:
        """Taken of what does not underflow; right where they are ``asked`` for [..., d]."""
        if isinstance(self.noise, Gumbel):
            return torch.log_softmax(self.loc / self.noise.scale, -1)
        if is_traced(self.loc) and isinstance(self.noise, Gaussian | Logistic):
            return onto(rare.log_probabilities(double(self.loc), self.noise), self.loc.device)
        if not _is_batched(self):
            return onto(_exact_log_probabilities(self.loc, self.noise, asked), self.loc.device)
        alike = self.loc.reshape(-1, self.event_shape[0])[:1]
        if self.loc.numel() > alike.numel() and not is_differentiated(self.loc) and bool((self.loc == alike).all()):
            # A prior: one row stands for all.
            prior = PerturbArgmax(alike, self.noise, validate_args=False)
            log_p = prior._log_probabilities(asked.reshape(-1, self.event_shape[0]).any(0, keepdim=True))[0]
            return log_p.expand(self.loc.shape)
        p = self._probabilities()
        least = RARE_SLOPE if p.requires_grad else RARE
        low = (asked & (p.detach() < least)).sum_to_size(self.loc.shape) > 0
        log_p, rows = p.clamp_min(RARE).log(), low.any(-1)
        if bool(rows.any()):
            exact = _exact_log_probabilities(self.loc[rows], self.noise, low[rows]).to(log_p)
            log_p = log_p.masked_scatter(rows.unsqueeze(-1), exact)
        return log_p

    def _one_hot(self, winner: Tensor) -> Tensor:
        classes = torch.arange(self.event_shape[0], device=winner.device)
        return (winner.unsqueeze(-1) == classes).to(self.loc.dtype)


class PerturbArgmaxStraightThrough(PerturbArgmax):
    r"""The same with draws whose gradient is that of the probabilities, as ``OneHotCategoricalStraightThrough``.

    The gradient of a relaxed draw x instead, as of ``F.gumbel_softmax(hard=True)``, is that of
    ``hot + (x - x.detach())``, where x is ``PerturbSoftmax(loc, temperature).rsample()`` and hot its argmax.

    >>> law = PerturbArgmaxStraightThrough(torch.zeros(3, requires_grad=True))
    >>> law.rsample().sum().backward()
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = (), generator: Generator | None = None) -> Tensor:
        r"""One-hot draws [\*sample_shape, ..., d], the gradient that of the mean."""
        return self.sample(sample_shape, generator) + (self.mean - self.mean.detach())


def _is_batched(law: PerturbArgmax) -> bool:
    """Whether its numbers come from the common grid in single precision."""
    return isinstance(law.noise, (Gaussian, Logistic)) and law.loc.dtype != torch.float64


def _on_grid(values: Tensor) -> Tensor:
    """In a type of the common grid."""
    return values if values.dtype == torch.float64 else values.float()


def _exact_probabilities(loc: Tensor, noise: Noise) -> Tensor:
    """:func:`sumexp.perturb.argmax.probabilities`, 0 for classes of -inf; rows are grouped by their masks.

    Where values decide nothing, in graphs and under ``torch.func``, they come from the common grid.
    """
    loc = double(loc)
    if is_traced(loc) and isinstance(noise, Gumbel | Gaussian | Logistic):
        return batched.probabilities(loc, noise)
    _refuse_graphs(noise, ", or another noise")
    finite = loc > -math.inf
    if bool(finite.all()):
        return argmax.probabilities(loc, noise)
    rows, masks = loc.reshape(-1, loc.shape[-1]), finite.reshape(-1, loc.shape[-1])
    p = torch.zeros(rows.shape, dtype=torch.float64, device=loc.device)
    for mask in masks.unique(dim=0):  # type: ignore[no-untyped-call]
        alike = (masks == mask).all(-1)
        left = rows[alike][:, mask]
        part = argmax.probabilities(left, noise) if left.shape[1] > 1 else 0 * left + 1  # its gradient is 0
        p[alike.unsqueeze(-1) & mask] = part.flatten()
    return p.reshape(loc.shape)


def _exact_log_probabilities(loc: Tensor, noise: Noise, asked: Tensor) -> Tensor:
    """Their logarithms, right where they are ``asked`` for [..., d], also of what underflows."""
    p, loc = _exact_probabilities(loc, noise), double(loc)
    log_p, asked = _log(p), asked.to(p.device) & (p.detach() < LOST) & (loc > -math.inf)
    low = asked.sum_to_size(loc.shape) > 0
    if not isinstance(noise, Gaussian | Logistic | Exponential) or not bool(low.any()):
        return log_p
    *rows, won = low.nonzero(as_tuple=True)
    theta = loc[tuple(rows)].expand(len(won), -1)
    if isinstance(noise, Gaussian | Logistic):
        most = batched.BLOCK["cpu"] // (100 * loc.shape[-1])
        parts = zip(checks.pieces(theta, most), checks.pieces(won, most), strict=True)
        logs = [checkpoint(rare.log_probabilities, each, noise, at, use_reentrant=False) for each, at in parts]
        return log_p.masked_scatter(low, torch.cat(logs))
    # The exponential's falls by the distance from the best, where it would win as if it were one of these.
    below = theta.amax(-1, keepdim=True) - theta.gather(-1, won.unsqueeze(-1))
    best = _exact_probabilities(theta.scatter_add(-1, won.unsqueeze(-1), below), noise).gather(-1, won.unsqueeze(-1))
    return log_p.masked_scatter(low, best.log() - below / noise.scale)


def _refuse_graphs(noise: Noise, instead: str) -> None:
    """The places of a quadrature depend on values, which neither ``torch.func`` nor a compiler tells."""
    if is_transformed() or torch.compiler.is_compiling():
        raise NotImplementedError(
            f"torch.func maps no quadrature of {noise}: give all rows at once, loc [..., d], outside graphs{instead}"
        )


def _log(p: Tensor) -> Tensor:
    """Without a gradient below the least normal number, where 1/p overflows; -inf of 0."""
    return torch.where(p < torch.finfo(p.dtype).tiny, p.detach(), p).log()


def _softmax(scores: Tensor) -> Tensor:
    """Along the last dimension; across rows where a CPU has so few classes that one row fills no vector register."""
    few = scores.device.type == "cpu" and scores.ndim > 1 and scores.shape[-1] < FEW
    return torch.softmax(scores.mT, -2).mT.contiguous() if few else torch.softmax(scores, -1)


@register_kl(PerturbArgmax, PerturbArgmax)  # type: ignore[no-untyped-call, untyped-decorator]
def _between_argmaxes(first: PerturbArgmax, second: PerturbArgmax) -> Tensor:
    asked = torch.ones(second.event_shape, dtype=torch.bool, device=second.loc.device)
    return _from_law(first, second._log_probabilities(asked))


@register_kl(PerturbArgmax, OneHotCategorical)  # type: ignore[no-untyped-call, untyped-decorator]
def _from_categorical(first: PerturbArgmax, second: OneHotCategorical) -> Tensor:
    return _from_law(first, second.logits.masked_fill(second.probs == 0, -math.inf))


@register_kl(OneHotCategorical, PerturbArgmax)  # type: ignore[no-untyped-call, untyped-decorator]
def _of_categorical(first: OneHotCategorical, second: PerturbArgmax) -> Tensor:
    return _relative_entropy(first.probs, second._log_probabilities(first.probs > 0)).to(first.probs.dtype)


def _from_law(first: PerturbArgmax, log_q: Tensor) -> Tensor:
    r""":math:`\sum_ip_i(\log p_i-\log q_i)`, the type of loc."""
    together(loc=first.loc, log_q=log_q)
    shape = torch.broadcast_shapes(first.loc.shape, log_q.shape)  # type: ignore[no-untyped-call]
    if _is_batched(first):
        loc = _on_grid(first.loc).expand(shape)
        return batched.divergence(loc, log_q.to(loc), first.noise).to(first.loc)  # type: ignore[arg-type]
    return _relative_entropy(first._probabilities(), log_q).to(first.loc)


def _relative_entropy(p: Tensor, log_q: Tensor) -> Tensor:
    """Terms of p = 0 are 0, and so are their gradients."""
    together(p=p, log_q=log_q)
    return (p * (_log(p) - log_q.to(p.device)).masked_fill(p == 0, 0.0)).sum(-1)


@register_kl(PerturbSoftmax, PerturbSoftmax)  # type: ignore[no-untyped-call, untyped-decorator]
@register_kl(PerturbLogSoftmax, PerturbLogSoftmax)  # type: ignore[no-untyped-call, untyped-decorator]
def _between_softmaxes(first: _Relaxed, second: _Relaxed) -> Tensor:
    r"""Between Gaussian noises: both are normal laws of the log ratios, on the vectors of sum zero.

    Between Gumbel noises of one scale s and one temperature, with :math:`\delta=(\theta-\theta')/s` and standard
    exponentials: :math:`\sum_i\delta_i + d\,\mathbb E\log\sum_je^{-\delta_j}E_j - d\,\mathbb E\log\sum_jE_j`.
    """
    noises, d = (first.noise, second.noise), first.event_shape[0]
    theta, other = (double(law.loc) for law in (first, second))
    together(loc=theta, other_loc=other)
    taus = [
        double(tau).to(theta.device) if isinstance(tau, Tensor) else theta.new_tensor(tau)
        for tau in (first._tau, second._tau)
    ]
    scale, other_scale = (
        theta.new_tensor(law.noise.reduced.scale) / _per_row(tau)
        for law, tau in zip((first, second), taus, strict=True)
    )
    if all(isinstance(noise, Gaussian) for noise in noises):
        gap = theta / taus[0] - other / taus[1]
        apart = (gap - gap.mean(-1, keepdim=True)).square().sum(-1) / other_scale.square()
        ratio: Tensor = (scale / other_scale).square()
        return (((d - 1) * (ratio - 1 - ratio.log()) + apart) / 2).to(first.loc)
    tensors = any(isinstance(law._tau, Tensor) for law in (first, second))
    alike = bool((taus[0] == taus[1]).all()) if tensors else first._tau == second._tau
    lone = first.temperature is not second.temperature and any(map(is_differentiated, taus))
    same = alike and not lone and noises[0].reduced.scale == noises[1].reduced.scale
    if all(isinstance(noise, Gumbel) for noise in noises) and same:
        delta = (theta - other) / noises[0].reduced.scale
        total = _mean_log_sum(-delta) - torch.digamma(torch.tensor(d, dtype=torch.float64, device=theta.device))
        return (delta.sum(-1) + d * total).to(first.loc)
    raise NotImplementedError(
        "KL between relaxed draws is closed between Gaussian noises, and between Gumbel noises of one scale and one "
        "temperature (if learned, one tensor in both), not between "
        f"{first.noise} at {first.temperature} and {second.noise} at {second.temperature}"
    )


def _mean_log_sum(b: Tensor) -> Tensor:
    r""":math:`\mathbb E\log Y`, :math:`Y=\sum_je^{b_j}E_j` with standard exponentials, by the trapezoid rule; [...].

    It is :math:`\int(e^{-e^u}-\prod_j(1+e^{b_j+u})^{-1})du`, analytic in a strip of half width :math:`\pi/2`.
    """
    top = b.amax(-1, keepdim=True)
    u = torch.arange(-40.0, 40.0, 0.25, dtype=b.dtype, device=b.device)
    product = functional.softplus(b.unsqueeze(-1) - top.unsqueeze(-1) + u, threshold=40).sum(-2).neg().exp()
    return top.squeeze(-1) + 0.25 * (torch.exp(-u.exp()) - product).sum(-1)
