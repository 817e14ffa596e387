r"""The Perturb-Softmax's integrands on the nodes :math:`u = \log t`, from one table per noise and temperature.

All classes share the function :math:`L`, so it is tabulated once, at Chebyshev points on cells as wide as the step.
Node :math:`u_k` and class :math:`x_j = \theta_j/\tau` need it at :math:`s = u_k + x_j`. The place inside the cell
depends on j only, so the values on all nodes are a product of Lagrange's weights with a window of the table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sumexp._checks import is_differentiated
from sumexp._tables import cached_table
from sumexp.perturb import _checks as checks
from sumexp.perturb import _heavy as heavy
from sumexp.perturb.noises import Cauchy, Discrete, Gaussian, Gumbel, Logistic
from sumexp.perturb.race import Race, RandomLaws
from sumexp.perturb.transforms import Edged, Noise, Transform

STEP = 0.25
"""With e^{-tY}, Y >= 0, bounded by 1 in Re t > 0, the trapezoid rule in log t errs by about exp(-pi^2/step) = 7e-18."""
POINTS = 11
LEAST = -300.0
"""Classes further below the largest, in units of max(tau, 1), count as if they stood there."""
BLOCK = 1 << 19
"""Numbers in a tensor [rows, d, K] held at a time."""
LEFT, WINDOW = 180, 200
"""Nodes left of an atom, and in all: from where e^u is e^-45 to where exp(-e^u) is e^-148."""
WIDEST = 200.0
"""Edges are resolved on the scale of tau, so that time and memory grow with the width of a noise that has them."""
MOST = 1 << 29
"""Terms of a row without a table, the transform's at each node and class: up to a minute and a half."""
PLACES = 1 << 25
"""Classes times nodes of a row without a table, all in memory: 3 to 5 GB."""


@dataclass(frozen=True)
class Table:
    """The transform on cells of width ``step``, the first of which begins at ``low + below * step``."""

    low: float  # the first node u_0; all x are <= 0
    step: float  # distance of the nodes
    count: int  # number of nodes K
    below: int  # minus the number of cells left of u_0
    columns: Transform  # log L, log(A/L) and log(B/L), [POINTS, cells] each

    def nodes(self, x: Tensor) -> Tensor:
        """The nodes u, [K]."""
        return self.low + self.step * torch.arange(self.count, dtype=x.dtype, device=x.device)

    def race(self, x: Tensor) -> Race:
        """The integrands for x [..., d], all <= 0."""
        log, log_ratio = self._looked_up(x, self.columns[:2])
        return Race(log, log_ratio, self._log_weight(x))

    def laws(self, x: Tensor) -> RandomLaws:
        """The same, with squares."""
        log, log_ratio, log_square = self._looked_up(x, self.columns)
        return RandomLaws(log, log_ratio, self._log_weight(x), log_square)

    def _log_weight(self, x: Tensor) -> Tensor:
        return torch.full((), math.log(self.step), dtype=x.dtype, device=x.device)

    def _looked_up(self, x: Tensor, parts: tuple[Tensor, ...]) -> list[Tensor]:
        first, weights = self._places(x.reshape(-1))
        looked_up = self._by_cells if x.device.type == "cpu" else self._one_by_one
        return [each.reshape(*x.shape, self.count) for each in looked_up(first, weights, parts)]

    def _by_cells(self, first: Tensor, weights: Tensor, parts: tuple[Tensor, ...]) -> list[Tensor]:
        """A product for each group of places with the same cells, [n, K]; the host has to know the groups."""
        order = first.argsort(stable=True)
        cells, sizes = first[order].unique_consecutive(return_counts=True)  # type: ignore[no-untyped-call]
        groups = list(zip(cells.tolist(), torch.split(weights[order], sizes.tolist()), strict=True))
        back = order.argsort()
        return [torch.cat([w @ part[:, cell : cell + self.count] for cell, w in groups])[back] for part in parts]

    def _one_by_one(self, first: Tensor, weights: Tensor, parts: tuple[Tensor, ...]) -> list[Tensor]:
        """A product for each place, [n, K], without waiting for the host; cells are recomputed for the gradient."""
        windows = [part.unfold(1, self.count, 1) for part in parts]

        def products(at: Tensor, w: Tensor) -> tuple[Tensor, ...]:
            return tuple(torch.bmm(w.unsqueeze(-2), each[:, at].transpose(0, 1)).squeeze(-2) for each in windows)

        rows = BLOCK // (3 * POINTS * self.count)
        blocks = zip(checks.pieces(first, rows), checks.pieces(weights, rows), strict=True)
        columns = [checkpoint(products, *block, use_reentrant=False, preserve_rng_state=False) for block in blocks]
        return [torch.cat(column) for column in zip(*columns, strict=True)]

    def _places(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The cell of the first node and the weights of the points in each cell, [n] and [n, POINTS]."""
        x = x.clamp_min((self.below + 1) * self.step)
        cell = torch.floor(x.detach() / self.step)
        place = 2 * (x / self.step - cell) - 1
        # x = 0 is the right end of the last cell with a window.
        at_end = cell >= 0
        cell, place = cell - at_end.to(cell.dtype), place + 2 * at_end.to(place.dtype)
        return cell.to(torch.int64) - self.below, lagrange(place)


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
class Direct:
    """Nodes for each row, and the transform instead of a table: for features far apart."""

    noise: Noise
    tau: Tensor
    count: int

    def nodes(self, x: Tensor) -> Tensor:
        """The nodes u, [..., K]."""
        return self._rule(x)[0]

    def race(self, x: Tensor) -> Race:
        """The integrands for x [..., d], all <= 0."""
        return self.laws(x)

    def laws(self, x: Tensor) -> RandomLaws:
        """The same, with squares."""
        u, log_weights = self._rule(x)
        log, log_ratio, log_square = self.noise.transform(x.unsqueeze(-1) + u.unsqueeze(-2), self.tau)
        return RandomLaws(log, log_ratio, log_weights, log_square)

    def _rule(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(self.noise, Discrete):
            x = x.detach()
            return windows(-(x.unsqueeze(-1) + self.noise.atoms(x) / self.tau.detach()).flatten(-2))
        return heavy.nodes(-x.detach(), max(1.0, 1 / self.tau.item()))


def windows(features: Tensor) -> tuple[Tensor, Tensor]:
    """The trapezoid rule near ``features`` [..., n], the places where some L falls: nodes and log weights [..., K].

    Left of a feature the integrand rises like e^u, right of it the class contributes nothing; of a stretch without
    features only the right end matters.
    """
    index = torch.arange(WINDOW, dtype=features.dtype, device=features.device)
    places = (torch.floor(features / STEP).unsqueeze(-1) + (index - LEFT)).flatten(-2).sort(-1).values
    again = torch.diff(places, dim=-1, prepend=places[..., :1] - 1) == 0
    log_weights = torch.full_like(places, math.log(STEP)).masked_fill(again, -math.inf)
    return places * STEP, log_weights


def grid(noise: Noise, tau: Tensor, classes: int, least: float, device: torch.device) -> "Table | Direct":
    """The nodes that serve x in [least, 0], for a noise without shift and of scale 1."""
    tau = tau.to(device)
    if isinstance(noise, Discrete | Cauchy):
        if isinstance(noise, Discrete):
            count = classes * len(noise.values) * WINDOW
        else:
            count = heavy.count(classes, -least, max(1.0, 1 / tau.item()))
        if classes * count > PLACES or classes * count * noise.terms(tau) > MOST:
            raise ValueError(
                f"theta has {classes:,} classes; with {type(noise).__name__} noise, at tau {tau.item():.3g} times its "
                f"scale, they need {count:,} nodes each and {noise.terms(tau):,} terms at each node, gigabytes or "
                "minutes of work: use fewer classes, or Gumbel, Gaussian or Logistic noise"
            )
        return Direct(noise, tau, count)
    if isinstance(noise, Edged) and tau.item() * WIDEST < 1:
        raise ValueError(
            f"tau is {tau.item():.3g} times the scale of {type(noise).__name__} noise; at least 1/{WIDEST:g} is needed "
            "for noise with edges. Below, argmax.probabilities(theta, noise) is the limit"
        )
    return table(noise, tau, classes, least, device)


@lru_cache(maxsize=64)
def edges(noise: Noise, tau: float, classes: int) -> tuple[float, float]:
    """Where the integrands begin (the classes' total 1 - L < 1e-17) and end (L < 1e-38) for the largest class.

    The right end also serves a class of probability 1e-20, which wins only where the largest is low.
    """
    scale = torch.tensor(tau, dtype=torch.float64, device="cpu")

    def begun(s: float) -> bool:
        part = noise.transform(scale.new_tensor([s]), scale)
        return part.log_first.item() > -41 - math.log(classes) + min(0.0, math.log(tau))

    def going_on(s: float) -> bool:
        return noise.transform(scale.new_tensor([s]), scale).log.item() > -87

    return -_beyond(lambda s: begun(-s)), _beyond(going_on)


def _beyond(inside: Callable[[float], bool]) -> float:
    """A place beyond which ``inside`` fails, to about 1e-3."""
    low, high = 0.0, 4.0
    while inside(high):
        low, high = high, 2 * high
    while high - low > max(0.25, 1e-3 * high):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return high


def table(noise: Noise, tau: Tensor, classes: int, least: float, device: torch.device) -> Table:
    """The table for x in [least, 0]; cached if no gradient in tau is needed."""
    size = max(1024, 1 << (classes - 1).bit_length())  # so that few tables serve all numbers of classes
    step = STEP  # wider where the noise, in units of tau, is wide and analytic
    if isinstance(noise, Gumbel | Gaussian | Logistic):
        # The largest of many Gaussians is confined to about 1/sqrt(2 log d).
        narrower = math.sqrt(1 + 2 * math.log(size)) if isinstance(noise, Gaussian) else 1
        step = STEP * max(1.0, 1 / tau.item() / narrower)
    # Rounded, so that the next step of a descent finds it in the cache.
    reach = max(least, LEAST * max(1.0, 1 / tau.item()))
    below = 32 * math.floor(reach / step / 32) - 32
    if is_differentiated(tau):
        return _build(noise, tau, size, below, step)
    return _kept(noise, tau.item(), size, below, step, str(device))


@cached_table(64)
def _kept(noise: Noise, tau: float, classes: int, below: int, step: float, device: str) -> Table:
    return _build(noise, torch.tensor(tau, dtype=torch.float64, device=device), classes, below, step)


def _build(noise: Noise, tau: Tensor, classes: int, below: int, step: float) -> Table:
    low, high = edges(noise, tau.item(), classes)
    count = math.ceil((high - low) / step) + 1
    cells = torch.arange(below, count, dtype=torch.float64, device=tau.device)
    s = low + step * (cells + (chebyshev(tau.device).unsqueeze(-1) + 1) / 2)
    return Table(low, step, count, below, noise.transform(s, tau))
