"""Laws on the classes from which negatives are drawn."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from sumexp import checks
from sumexp.samplers import alias


class Sampler(Protocol):
    """A law q on the classes 0..classes-1."""

    @property
    def classes(self) -> int:
        """Number of classes L."""

    def log_prob(self, ids: Tensor) -> Tensor:
        """Log probability of each class, float64, in the shape of ``ids``; -inf for a class that is never drawn."""

    def sample(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""


class Uniform:
    r""":math:`q_y = 1/L`.

    A draw is a random integer of 62 bits modulo L, so that no class is favoured by more than :math:`L\,2^{-62}`
    (``torch.randint`` reduces 32 bits, which at 10^8 classes favours some by two per cent).

    Args:
        classes: number of classes L, >= 1.
        device: where draws are made.

    Raises:
        ValueError: if there is no class.
    """

    def __init__(self, classes: int, device: torch.device | str = "cpu") -> None:
        self.classes = checks.whole("classes", classes, 1, alias.MOST)
        self.device = torch.device(device)

    def log_prob(self, ids: Tensor) -> Tensor:
        """Log probability of each class, float64."""
        return torch.full(ids.shape, -math.log(self.classes), dtype=torch.float64, device=ids.device)

    def sample(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""
        return alias.bits(shape, generator, self.device).remainder_(self.classes)


class LogUniform:
    r""":math:`q_y = \log\frac{y+2}{y+1} \big/ \log(L+1)`: nearly Zipf's law, for classes sorted by falling frequency.

    Drawn by inversion, :math:`y = \lfloor e^{u \log(L+1)} \rfloor - 1`, with no table at all.

    Args:
        classes: number of classes L, >= 1.
        device: where draws are made.

    Raises:
        ValueError: if there is no class.
    """

    def __init__(self, classes: int, device: torch.device | str = "cpu") -> None:
        self.classes = checks.whole("classes", classes, 1, alias.MOST)
        self.device = torch.device(device)

    def log_prob(self, ids: Tensor) -> Tensor:
        """Log probability of each class, float64."""
        return torch.log(torch.log1p(1 / (ids.to(torch.float64) + 1)) / math.log1p(self.classes))

    def sample(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""
        u = torch.rand(tuple(shape), generator=generator, dtype=torch.float64, device=self.device)
        # Rounding can reach the open end of the range.
        return u.mul_(math.log1p(self.classes)).exp_().to(torch.int64).sub_(1).clamp_(0, self.classes - 1)


class Mixture:
    r""":math:`q = \sum_i \alpha_i q^{(i)}`: every draw first chooses a law, then a class from it.

    (To take fixed numbers :math:`m_i` of negatives from each law instead, draw from each and join the results with the
    mixture's ``log_prob`` for :math:`\alpha_i = m_i/m`: the expected counts :math:`m q_y` are the same.)

    Args:
        samplers: laws on the same classes.
        proportions: their shares, non-negative, of sum 1.

    Raises:
        ValueError: if there is no law, or the laws have different classes, or the shares do not sum to 1.
    """

    def __init__(self, samplers: Sequence[Sampler], proportions: Sequence[float]) -> None:
        sizes = sorted({sampler.classes for sampler in samplers})
        if len(sizes) != 1:
            raise ValueError(f"the laws of a mixture must have one number of classes, got {sizes}")
        if len(samplers) != len(proportions):
            raise ValueError(f"{len(samplers)} laws and {len(proportions)} proportions: give one for each")
        self.classes = sizes[0]
        self.samplers = tuple(samplers)
        self.proportions = checks.law("proportions", torch.tensor(proportions, dtype=torch.float64))

    def log_prob(self, ids: Tensor) -> Tensor:
        """Log probability of each class, float64."""
        parts = torch.stack([sampler.log_prob(ids) for sampler in self.samplers], -1)
        return torch.logsumexp(parts + self.proportions.log().to(parts.device), -1)

    def sample(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""
        first = self.samplers[0].sample(shape, generator)
        u = torch.rand(tuple(shape), generator=generator, dtype=torch.float64, device=first.device)
        chosen = torch.bucketize(u, self.proportions.cumsum(0)[:-1].to(u.device), right=True)
        for i, sampler in enumerate(self.samplers[1:], start=1):
            mine = chosen == i
            first[mine] = sampler.sample((int(mine.sum()),), generator)
        return first
