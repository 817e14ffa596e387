r"""The Perturb-Softmax's integrands on the nodes :math:`u = \log t`, from one table per noise and temperature.

All classes share the function :math:`L`, so it is tabulated once: on cells as wide as the step, at Chebyshev points.
The node :math:`u_k` and the class :math:`x_j = \theta_j/\tau` meet at :math:`s = u_k + x_j`; as cells and steps agree,
the place inside the cell depends on j only, and the values on all nodes are one small product of Lagrange's weights
with a window of the table.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sumexp.perturb import checks, heavy
from sumexp.perturb.noises import Cauchy, Discrete, Gaussian, Gumbel, Logistic
from sumexp.perturb.race import Race
from sumexp.perturb.transforms import Noise, Transform

STEP = 0.25
"""With e^{-tY}, Y >= 0, bounded by 1 in Re t > 0, the trapezoid rule in log t errs by about exp(-pi^2/step) = 7e-18."""
POINTS = 11
LEAST = -300.0
"""Classes further below the largest, in units of max(tau, 1), count as if they stood there."""
BLOCK = 1 << 19
"""Numbers in a tensor [rows, d, K] held at a time."""


@dataclass(frozen=True)
class Table:
    """log L and log(A/L) on cells of width ``step``, the first of which begins at ``low + below * step``.

    Attributes:
        low: the first node u_0, all x being <= 0.
        step: distance of the nodes.
        count: number of nodes K.
        below: number of cells left of u_0, negative.
        log: [POINTS, cells]; log_ratio: the same.
    """

    low: float
    step: float
    count: int
    below: int
    log: Tensor
    log_ratio: Tensor

    @property
    def nodes(self) -> Tensor:
        """The nodes u, [K]."""
        return self.low + self.step * torch.arange(self.count, dtype=torch.float64, device=self.log.device)

    def race(self, x: Tensor) -> Race:
        """The integrands for x [..., d], all <= 0."""
        flat = x.reshape(-1)
        windows = [part.unfold(1, self.count, 1) for part in (self.log, self.log_ratio)]
        columns: list[list[Tensor]] = []
        for block in checks.pieces(flat, BLOCK // (2 * POINTS * self.count)):
            if torch.is_grad_enabled() and (x.requires_grad or self.log.requires_grad):
                columns.append(list(checkpoint(self._look_up, block, *windows, use_reentrant=False)))
            else:
                columns.append(list(self._look_up(block, *windows)))
        log, log_ratio = (torch.cat(column).reshape(*x.shape, self.count) for column in zip(*columns, strict=True))
        return Race(log, log_ratio, torch.full((), math.log(self.step), dtype=x.dtype, device=x.device))

    def _look_up(self, x: Tensor, *windows: Tensor) -> tuple[Tensor, ...]:
        x = x.clamp_min((self.below + 1) * self.step)
        cell = torch.floor(x.detach() / self.step)
        place = 2 * (x / self.step - cell) - 1
        # The last cell has no window of its own right of it: x = 0 is the right end of the cell before.
        at_end = cell >= 0
        cell, place = cell - at_end.to(cell.dtype), place + 2 * at_end.to(place.dtype)
        index = cell.to(torch.int64) - self.below
        weights = lagrange(place)
        return tuple(
            torch.bmm(weights.unsqueeze(-2), window[:, index].transpose(0, 1)).squeeze(-2) for window in windows
        )


def chebyshev(device: torch.device) -> Tensor:
    """The Chebyshev points of the first kind on [-1, 1]."""
    k = torch.arange(POINTS, dtype=torch.float64, device=device)
    return torch.cos(math.pi * (2 * k + 1) / (2 * POINTS))


def lagrange(place: Tensor) -> Tensor:
    """Lagrange's weights of the Chebyshev points at ``place``, [n, POINTS]."""
    points = chebyshev(place.device)
    gaps = points.unsqueeze(-1) - points + torch.eye(POINTS, dtype=points.dtype, device=place.device)
    factors = (place.unsqueeze(-1) - points).unsqueeze(-2).expand(-1, POINTS, -1)
    kept = torch.where(torch.eye(POINTS, dtype=torch.bool, device=place.device), 1.0, factors)
    return (kept / gaps).prod(-1)


@dataclass(frozen=True)
class HeavyTails:
    """Nodes for Cauchy noise; no table."""

    noise: Noise
    tau: Tensor
    count: int

    def race(self, x: Tensor) -> Race:
        """The integrands for x [..., d], all <= 0."""
        u, log_weights = heavy.nodes(-x, max(1.0, 1 / self.tau.item()))
        parts = self.noise.transform(x.unsqueeze(-1) + u.unsqueeze(-2), self.tau)
        return Race(parts.log, parts.log_first, log_weights)


def grid(noise: Noise, tau: Tensor, classes: int, least: float, device: torch.device) -> "Table | HeavyTails":
    """The nodes that serve x in [least, 0]."""
    if isinstance(noise, Cauchy):
        return HeavyTails(noise, tau.to(device), heavy.count(classes, -least, max(1.0, 1 / tau.item())))
    return table(noise, tau, classes, least, device)


def step_of(noise: Noise, tau: float, classes: int) -> float:
    """The step: wider where the noise, in units of tau, is wide and analytic itself, finer where it has atoms."""
    if isinstance(noise, Discrete):
        return STEP / 2  # log L bends sharply between atoms far apart
    if isinstance(noise, Gaussian):  # the largest of many Gaussians is confined to about 1/sqrt(2 log d)
        return STEP * max(1.0, noise.scale / tau / math.sqrt(1 + 2 * math.log(classes)))
    return STEP * max(1.0, noise.scale / tau) if isinstance(noise, Gumbel | Logistic) else STEP


@lru_cache(maxsize=64)
def edges(noise: Noise, tau: float, classes: int) -> tuple[float, float]:
    """Where the integrands begin (classes together have 1 - L < 1e-17) and end (L < 1e-17) for the largest class."""
    scale = torch.tensor(tau, dtype=torch.float64)

    def at(s: float) -> Transform:
        return noise.transform(torch.tensor([s], dtype=torch.float64), scale)

    low, high = -4.0, 4.0
    while at(low).log_first.item() > -41 - math.log(classes):
        low *= 1.15
    while at(high).log.item() > -40:
        high = high + 1 if high < 12 else high * 1.1
    return low, high


def table(noise: Noise, tau: Tensor, classes: int, least: float, device: torch.device) -> Table:
    """The table that serves x in [least, 0]; kept between calls where no gradient in tau is asked for."""
    size = max(1024, 1 << (classes - 1).bit_length())  # few tables serve all numbers of classes
    step = step_of(noise, tau.item(), size)
    # Rounded, so that the next step of a descent finds it again.
    reach = max(least, LEAST * max(1.0, 1 / tau.item()))
    below = 32 * math.floor(reach / step / 32) - 32
    if tau.requires_grad and torch.is_grad_enabled():
        return _build(noise, tau.to(device), size, below, step)
    return _kept(noise, tau.item(), size, below, step, str(device))


@lru_cache(maxsize=16)
def _kept(noise: Noise, tau: float, classes: int, below: int, step: float, device: str) -> Table:
    with torch.no_grad():
        return _build(noise, torch.tensor(tau, dtype=torch.float64, device=device), classes, below, step)


def _build(noise: Noise, tau: Tensor, classes: int, below: int, step: float) -> Table:
    low, high = edges(noise, tau.item(), classes)
    count = math.ceil((high - low) / step) + 1
    cells = torch.arange(below, count, dtype=torch.float64, device=tau.device)
    s = low + step * (cells + (chebyshev(tau.device).unsqueeze(-1) + 1) / 2)
    parts = noise.transform(s, tau)
    return Table(low, step, count, below, parts.log, parts.log_first)
