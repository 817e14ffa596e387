"""Laws on the classes from which negatives are drawn."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from sumexp import _checks as checks
from sumexp.samplers import _alias as alias
from sumexp.samplers._base import Law, Tabulated, by_class, dimensions


class Sampler(Protocol):
    """A law q on the classes 0..classes-1."""

    @property
    def classes(self) -> int:
        """Number of classes L."""

    def log_prob(self, ids: Tensor) -> Tensor:
        """Log probability of each class, float64, in the shape of ``ids``; -inf for a class that is never drawn."""

    def sample(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""


def log_q_of(sampler: Sampler, ids: Tensor) -> Tensor:
    """Log probability of valid ids, float64; our laws skip the check of bounds, which would synchronise a GPU."""
    return sampler._log_prob(ids) if isinstance(sampler, Law) else checks.widest(sampler.log_prob(ids))


class Uniform(Law):
    r""":math:`q_y = 1/L`.

    A draw is a random integer of 62 bits modulo L, so that no class is favoured by more than :math:`L\,2^{-62}`
    (``torch.randint`` reduces 32 bits, which at 10^8 classes favours some by two per cent).

    >>> samplers.Uniform(4).log_prob([0, 3]).exp()
    tensor([0.2500, 0.2500], dtype=torch.float64)

    Args:
        classes: number of classes L, >= 1.
        device: where draws are made.

    Raises:
        ValueError: if there is no class.
    """

    def __init__(self, classes: int, device: torch.device | str = "cpu") -> None:
        super().__init__(checks.whole("classes", classes, 1, alias.MOST), device)

    def _log_prob(self, ids: Tensor) -> Tensor:
        return torch.full(ids.shape, -math.log(self.classes), dtype=checks.wide(ids.device), device=ids.device)

    def sample(self, shape: int | Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""
        return alias.bits(shape, generator, self.device).remainder_(self.classes)


class LogUniform(Law):
    r""":math:`q_y = \log\frac{y+2}{y+1} \big/ \log(L+1)`: nearly Zipf's law, for classes sorted by falling frequency.

    Drawn by inversion, :math:`y = \lfloor e^{u \log(L+1)} \rfloor - 1`, with no table at all. Class 0 must be the
    most frequent: on ids in another order it is some law, whose :math:`\log q` is right, but no longer close to the
    frequencies. For those, :func:`unigram` takes the counts.

    >>> samplers.LogUniform(3).log_prob([0, 1, 2]).exp()
    tensor([0.5000, 0.2925, 0.2075], dtype=torch.float64)

    Args:
        classes: number of classes L, >= 1.
        device: where draws are made.
        counts: [L] how often each class occurs, to check that they fall; they make no other difference.

    Raises:
        ValueError: if there is no class, or the counts rise somewhere.
    """

    def __init__(
        self, classes: int, device: torch.device | str = "cpu", *, counts: checks.Values | None = None
    ) -> None:
        super().__init__(checks.whole("classes", classes, 1, alias.MOST), device)
        if counts is not None:
            _check_falling(by_class("counts", counts), self.classes)

    def _log_prob(self, ids: Tensor) -> Tensor:
        return torch.log(torch.log1p(1 / (ids.to(checks.wide(ids.device)) + 1)) / math.log1p(self.classes))

    def sample(self, shape: int | Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""
        u = alias.uniform(shape, generator, self.device)
        # Rounding can reach the open end of the range.
        drawn = u.mul_(math.log1p(self.classes)).exp_().to(torch.int64).sub_(1).clamp_(0, self.classes - 1)
        return drawn.to(self.device)


class Mixture(Tabulated):
    r""":math:`q = \sum_i \alpha_i q^{(i)}`: every draw first chooses a law, then a class from it.

    (To take fixed numbers :math:`m_i` of negatives from each law instead, draw from each and join the results with the
    mixture's ``log_prob`` for :math:`\alpha_i = m_i/m`: the expected counts :math:`m q_y` are the same.)

    ``Categorical(mixture.log_prob(torch.arange(L)).exp())`` is the same law, with one table in place of several laws.

    >>> law = samplers.Mixture([samplers.Uniform(4), samplers.Categorical([1.0, 0, 0, 0])], [0.5, 0.5])
    >>> law.log_prob([0, 1]).exp()
    tensor([0.6250, 0.1250], dtype=torch.float64)

    Args:
        samplers: laws on the same classes.
        proportions: their shares, non-negative, of sum 1.

    Raises:
        ValueError: if there is no law, or the laws have different classes, or the shares do not sum to 1.
    """

    proportions: Tensor

    def __init__(self, samplers: Sequence[Sampler], proportions: Sequence[float]) -> None:
        checks.argument("samplers", samplers, Sequence[Sampler])
        sizes = sorted({sampler.classes for sampler in samplers})
        if len(sizes) != 1:
            raise ValueError(f"the laws of a mixture must have one number of classes, got {sizes}")
        if len(samplers) != len(proportions):
            raise ValueError(f"{len(samplers)} laws and {len(proportions)} proportions: give one for each")
        shares = checks.law("proportions", checks.reals("proportions", proportions))
        super().__init__(sizes[0], getattr(samplers[0], "device", "cpu"))
        self.samplers = tuple(samplers)
        self._hold(alias.whole_units(shares))
        for i, sampler in enumerate(samplers):
            if isinstance(sampler, nn.Module):
                self.add_module(f"law{i}", sampler)

    def _spread(self, device: torch.device) -> None:
        self.proportions = checks.onto(self._integers.double() * 2.0**-alias.BITS, device)
        self._ends = self._integers.cumsum(0)[:-1].to(device)

    def _is_law(self, integers: Tensor) -> bool:
        return len(integers) == len(self.samplers) and bool((integers >= 0).all()) and int(integers.sum()) == alias.FULL

    def extra_repr(self) -> str:
        """The options and their values."""
        return f"classes={self.classes}, proportions={[round(n / alias.FULL, 6) for n in self._integers.tolist()]}"

    def _log_prob(self, ids: Tensor) -> Tensor:
        parts = torch.stack([log_q_of(sampler, ids) for sampler in self.samplers], -1)
        return torch.logsumexp(parts + self.proportions.to(parts.device, parts.dtype).log(), -1)

    def sample(self, shape: int | Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""
        shape = dimensions(shape)
        first = self.samplers[0].sample(shape, generator)
        bits = alias.bits(shape, generator, first.device)
        chosen = torch.bucketize(bits, self._ends.to(bits.device), right=True)
        for i, sampler in enumerate(self.samplers[1:], start=1):
            drawn = chosen == i
            # A graph, and what is mapped over, has shapes that no draw decides.
            if checks.is_traced(drawn):
                first = torch.where(drawn, sampler.sample(shape, generator), first)
                continue
            if number := int(drawn.sum()):
                first[drawn] = sampler.sample((number,), generator)
        return first


def _check_falling(counts: Tensor, classes: int) -> None:
    if counts.shape != (classes,):
        raise ValueError(f"counts have shape {tuple(counts.shape)}; there must be one for each of {classes} classes")
    rising = (~(counts[1:] <= counts[:-1])).nonzero().flatten()
    if len(rising):
        first = int(rising[0])
        raise ValueError(
            f"class {first + 1} occurs {counts[first + 1].item():g} times and class {first}, before it, "
            f"{counts[first].item():g}: LogUniform is for classes sorted by falling frequency; number them by "
            "counts.argsort(descending=True), or take samplers.unigram(counts, 1)"
        )
