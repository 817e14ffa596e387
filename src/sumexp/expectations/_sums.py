r"""Sums over classes :math:`\sum_y q_y f(t_k x_y)` at every node, and their adjoints, by two algorithms.

:class:`DirectSum` evaluates f for every class and node. :class:`SpreadSum` uses that the sum is a convolution in
:math:`\log x`: it spreads the classes once on a grid, with local Lagrange weights, and evaluates f once per
*difference* of node and grid point. Each tests the other.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sumexp.expectations._kernels import bend, log1p_bend
from sumexp.expectations.quadrature import GRID, Rule

Kernel = Callable[[Tensor], Tensor]
"""A function of s = t x, element by element."""

CHUNK = {"cpu": 1 << 14, "cuda": 1 << 25}
"""Elements of one temporary. 128 KiB stay in a core's cache, and are too few for torch to divide among threads that
would then wait for one another (twice as slow on a busy machine); 256 MiB keep a GPU busy."""

WHOLE = slice(None)

POINTS = 6
"""Grid points a class is spread on: with a grid step of 1/256 the interpolation error is about 1e-16."""

SLIGHT = 1e-4
"""Least (standard deviation / mean)^2 of a term whose excess is taken from spread masses: below it they lose digits."""

ON_HOST = 1 << 18
"""Grid points up to which what comes after spreading is done on the host: each of some hundred steps on so few numbers
would wait for a GPU's launch."""

WIDEST = 200.0
"""Widest range of log x that is spread: beyond it (masked logits, say) the direct sum is taken."""


class ClassSum(ABC):
    """Sums over classes with the probabilities q, on the nodes of a rule."""

    def __init__(self, log_x: Tensor, log_q: Tensor | None) -> None:
        """Take log x [batch, classes] and log q [batch or 1, classes], uniform if None, without gradients."""
        self.log_x = log_x
        self.log_q = log_q
        self.normaliser = _normaliser(log_x, log_q)
        """log Σ q before normalisation, [batch or 1, 1]."""
        self.home = log_x.device
        """Where sums on the nodes are computed."""

    def probabilities(self, rows: slice = WHOLE, columns: slice = WHOLE) -> Tensor:
        """The probabilities q of a block, [rows or 1, columns or 1]."""
        normaliser = self.normaliser[rows if len(self.normaliser) > 1 else WHOLE]
        if self.log_q is None:
            return torch.exp(-normaliser)
        return torch.exp(self.log_q[rows if len(self.log_q) > 1 else WHOLE, columns] - normaliser)

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Σ q x, [batch]."""

    @abstractmethod
    def at_nodes(self, f: Kernel, rule: Rule) -> Tensor:
        """Σ_y q_y f(t_k x_y), [batch, nodes]."""

    @abstractmethod
    def excess(self, rule: Rule, missing: Tensor, log_one: Tensor) -> Tensor:
        """log Σ q e^{-tx} + t Σ q x >= 0 of one draw, [batch, wanted], wherever t Σ q x < 500 (inf or NaN beyond).

        Given are 1 - M and log M, M = Σ q e^{-tx}, on the first nodes, those on which it is wanted.
        """

    @abstractmethod
    def at_classes(self, terms: Sequence[tuple[Kernel, Tensor]], rule: Rule) -> Tensor:
        """Σ_k Σ_terms coefficient_k f(t_k x_y), [batch, classes], without q; coefficients are [batch, nodes]."""


class DirectSum(ClassSum):
    """f at every class and node, in chunks."""

    @cached_property
    def mean(self) -> Tensor:
        """Σ q x, [batch]."""
        total = self.log_x.new_zeros(self.log_x.shape[0])
        for rows, columns in blocks(self.log_x):
            total[rows] += (self.probabilities(rows, columns) * self.log_x[rows, columns].exp()).sum(-1)
        return total

    def at_nodes(self, f: Kernel, rule: Rule) -> Tensor:
        """See :class:`ClassSum`."""
        u = rule.nodes(self.log_x.device)
        total = self.log_x.new_zeros(self.log_x.shape[0], rule.count)
        for rows, columns in blocks(self.log_x, rule.count):
            values = f(torch.exp(self.log_x[rows, columns].unsqueeze(-1) + u))
            total[rows] += (self.probabilities(rows, columns).unsqueeze(-1) * values).sum(-2)
        return total

    def excess(self, rule: Rule, missing: Tensor, log_one: Tensor) -> Tensor:
        """log(1 + Σ q bend(t (x - Σ q x))): a sum of non-negative terms, since the deviations have mean 0."""
        t = rule.nodes(self.log_x.device)[: missing.shape[-1]].exp()
        log_mean = torch.where(self.mean > 0, self.mean, 1.0).log().unsqueeze(-1)
        drift = torch.zeros_like(self.mean)
        for rows, columns in blocks(self.log_x):
            drift[rows] += (self.probabilities(rows, columns) * self._deviation(log_mean, rows, columns)).sum(-1)
        total = torch.zeros_like(missing)
        for rows, columns in blocks(self.log_x, rule.count):
            deviation = self._deviation(log_mean, rows, columns) - drift[rows].unsqueeze(-1)
            values = bend(deviation.unsqueeze(-1) * t)
            total[rows] += (self.probabilities(rows, columns).unsqueeze(-1) * values).sum(-2)
        return total.log1p()

    def _deviation(self, log_mean: Tensor, rows: slice, columns: slice) -> Tensor:
        """x - e^{log_mean}, relatively accurate where they are near each other."""
        log_x, log_mean = self.log_x[rows, columns], log_mean[rows]
        ratio, middle = log_x - log_mean, log_mean.exp()
        return torch.where(ratio.abs() < 1, middle * torch.expm1(ratio), log_x.exp() - middle)

    def at_classes(self, terms: Sequence[tuple[Kernel, Tensor]], rule: Rule) -> Tensor:
        """See :class:`ClassSum`."""
        u = rule.nodes(self.log_x.device)
        result = torch.empty_like(self.log_x)
        for rows, columns in blocks(self.log_x, rule.count):
            s = torch.exp(self.log_x[rows, columns].unsqueeze(-1) + u)
            result[rows, columns] = sum_terms([torch.einsum("bck,bk->bc", f(s), c[rows]) for f, c in terms])
        return result


class SpreadSum(ClassSum):
    """The classes spread on a grid in log x; f once per difference of node and grid point."""

    def __init__(self, log_x: Tensor, log_q: Tensor | None, low: float, high: float) -> None:
        """Spread the classes, whose finite logarithms lie in [low, high]; see :class:`ClassSum`."""
        super().__init__(log_x, log_q)
        self.low = low - POINTS * GRID
        self.size = math.ceil((high - self.low) / GRID) + POINTS
        if len(log_x) * self.size <= ON_HOST:
            self.home = torch.device("cpu")
        self.masses, self.zero_mass = self._spread()
        self._nodes: tuple[Rule, Tensor] | None = None

    @cached_property
    def _grid(self) -> Tensor:
        """x at the grid points."""
        return (self.low + GRID * torch.arange(self.size, dtype=torch.float64, device=self.home)).exp()

    @cached_property
    def mean(self) -> Tensor:
        """Σ q x, [batch]."""
        return self.masses @ self._grid

    def _place(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Of each class: its grid cell, its offset from the cell's middle in [-1/2, 1/2], and whether x > 0."""
        position = (self.log_x[rows, columns] - self.low).mul_(1 / GRID)
        present = position != -math.inf
        position = position.clamp_min_(float(POINTS))
        cell = position.floor()
        return cell.long(), position.sub_(cell).sub_(0.5), present

    def _spread(self) -> tuple[Tensor, Tensor]:
        """Masses on the grid, and the mass of the classes with x = 0.

        A class in a cell adds q times the Lagrange polynomials of its offset, so the moments of the offsets in each
        cell are enough. Uniform classes are counted, which is exact; other q are added in two parts, of which the
        first, a multiple of 2^-52, is added without rounding: a million equal terms one by one would cost five digits.
        """
        batch = self.log_x.shape[0]
        moments = self.log_x.new_zeros(POINTS + 1, batch, self.size)
        zero_mass = self.log_x.new_zeros(batch)
        for rows, columns in blocks(self.log_x):
            cell, offset, present = self._place(rows, columns)
            if self.log_q is None:
                mass = present.to(torch.float64)
                zero_mass[rows] += mass.shape[-1] - mass.sum(-1)
            else:
                q = self.probabilities(rows, columns).expand_as(offset)
                mass = torch.where(present, q, 0.0)
                zero_mass[rows] += (q - mass).sum(-1)
            coarse = mass if self.log_q is None else mass.mul(2.0**52).round_().mul_(2.0**-52)
            moments[POINTS, rows].scatter_add_(-1, cell, coarse)
            if self.log_q is not None:
                moments[0, rows].scatter_add_(-1, cell, mass - coarse)
            for power in range(1, POINTS):
                mass.mul_(offset)
                moments[power, rows].scatter_add_(-1, cell, mass)
        moments, zero_mass = moments.to(self.home), zero_mass.to(self.home)
        moments[0] += moments[POINTS]
        coefficients = torch.tensor(lagrange_coefficients(), dtype=moments.dtype, device=self.home)
        points = torch.einsum("jp,pbg->jbg", coefficients, moments[:POINTS])
        masses = sum_terms([points[j].roll(j + 1 - POINTS // 2, -1) for j in range(POINTS)])
        share = 1 / self.log_x.shape[-1] if self.log_q is None else 1.0
        return masses * share, zero_mass * share

    def _values(self, f: Kernel, rule: Rule) -> tuple[Tensor, Tensor]:
        """The kernel at every difference of node and grid point, [node and grid cells, stride], and at 0.

        A step of the rule is ``stride`` grid steps; entry (a, b) is f at log s = rule.low + low + (a stride + b) GRID.
        """
        stride = round(rule.step / GRID)
        if stride * GRID != rule.step:
            raise ValueError(f"step is {rule.step!r}; spreading needs a multiple of 1/{1 / GRID:.0f}, or use 'direct'")
        cells = math.ceil(self.size / stride) + rule.count - 1
        if self._nodes is None or self._nodes[0] != rule:
            steps = torch.arange(cells * stride + 1, dtype=torch.float64, device=self.home)
            s = (rule.low + self.low + GRID * steps).exp_()
            s[-1] = 0
            self._nodes = rule, s
        values = f(self._nodes[1])
        return values[:-1].view(cells, stride), values[-1]

    def at_nodes(self, f: Kernel, rule: Rule) -> Tensor:
        """See :class:`ClassSum`."""
        values, at_zero = self._values(f, rule)
        masses = pad(self.masses, (0, -self.size % values.shape[1]))
        masses = masses.view(len(masses), -1, values.shape[1])  # [batch, cell, place in the cell]
        products = masses @ values.T  # [batch, cell a, cell a' of the values]; node k sums a' = a + k
        batch, cells, width = products.shape
        diagonals = products.as_strided((batch, cells, rule.count), (cells * width, width + 1, 1))
        return diagonals.sum(1) + (at_zero * self.zero_mass).unsqueeze(-1)

    def excess(self, rule: Rule, missing: Tensor, log_one: Tensor) -> Tensor:
        """Σ q bend(tx) - bend(-log M) or log M + t Σ q x; by the direct sum where the terms scatter slightly."""
        wanted = missing.shape[-1]
        by_mean = log_one + self.mean.unsqueeze(-1) * rule.nodes(self.home)[:wanted].exp()
        bent = self.at_nodes(bend, rule)[:, :wanted]
        result = torch.where(missing < 0.5, bent + log1p_bend(missing.clamp_max(0.5)), by_mean)
        ratio = self._grid / torch.where(self.mean > 0, self.mean, 1.0).unsqueeze(-1)
        slight = (self.masses * (ratio - 1).square()).sum(-1) + self.zero_mass < SLIGHT
        if bool(slight.any()):
            place = self.log_x.device
            rows = slight.to(place)
            log_q = self.log_q if self.log_q is None or len(self.log_q) == 1 else self.log_q[rows]
            direct = DirectSum(self.log_x[rows], log_q)
            result[slight] = direct.excess(rule, missing[slight].to(place), log_one[slight].to(place)).to(self.home)
        return result

    def at_classes(self, terms: Sequence[tuple[Kernel, Tensor]], rule: Rule) -> Tensor:
        """See :class:`ClassSum`."""
        parts = [self._at_grid(f, coefficients, rule) for f, coefficients in terms]
        place, lagrange = self.log_x.device, lagrange_coefficients()
        on_grid, at_zero = (sum_terms(column).to(place) for column in zip(*parts, strict=True))
        result = torch.empty_like(self.log_x)
        for rows, columns in blocks(self.log_x):
            cell, offset, present = self._place(rows, columns)
            total = torch.zeros_like(offset)
            for j in range(POINTS):
                weight = torch.full_like(offset, lagrange[j][-1])
                for coefficient in reversed(lagrange[j][:-1]):
                    weight.mul_(offset).add_(coefficient)
                total += weight.mul_(on_grid[rows].gather(-1, cell + (j + 1 - POINTS // 2)))
            result[rows, columns] = torch.where(present, total, at_zero[rows])
        return result

    def _at_grid(self, f: Kernel, coefficients: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
        """Σ_k coefficient_k f(t_k e^{g_j}) at every grid point j, and Σ_k coefficient_k f(0)."""
        values, at_zero = self._values(f, rule)
        cells = values.shape[0] - rule.count + 1
        shifted = coefficients.new_zeros(len(coefficients), cells, values.shape[0])
        size, width = shifted.stride(0), shifted.stride(1)
        shifted.as_strided((len(coefficients), cells, rule.count), (size, width + 1, 1)).copy_(
            coefficients.unsqueeze(1)
        )
        on_grid = (shifted @ values).view(len(coefficients), -1)[:, : self.size]
        return on_grid, at_zero * coefficients.sum(-1, keepdim=True)


def class_sum(log_x: Tensor, log_q: Tensor | None, method: str) -> ClassSum:
    """The algorithm asked for; ``auto`` spreads once the grid is smaller than the list of classes."""
    if method == "direct" or not log_x.numel():
        return DirectSum(log_x, log_q)
    low, high = finite_range(log_x)
    narrow = high - low <= WIDEST
    if method == "spread":
        if not narrow:
            raise ValueError(f"log_x spans {high - low:.0f}, too wide to spread (at most {WIDEST:.0f}); use 'direct'")
        return SpreadSum(log_x, log_q, low, high)
    if method != "auto":
        raise ValueError(f"method is {method!r}; it must be 'auto', 'direct' or 'spread'")
    worthwhile = narrow and log_x.shape[-1] > max(2000.0, 0.2 * (high - low) / GRID)
    return SpreadSum(log_x, log_q, low, high) if worthwhile else DirectSum(log_x, log_q)


def finite_range(log_x: Tensor) -> tuple[float, float]:
    """Smallest and largest finite entry; (0, 0) if there is none."""
    low, high = torch.stack(torch.aminmax(log_x)).tolist()
    if low == -math.inf:
        parts = (log_x[block] for block in blocks(log_x))
        low = min(torch.where(part == -math.inf, math.inf, part).min().item() for part in parts)
    return (low, high) if low <= high else (0.0, 0.0)


def blocks(log_x: Tensor, depth: int = 1) -> Iterator[tuple[slice, slice]]:
    """Blocks of rows and columns that make, with ``depth`` values each, about one CHUNK: temporaries stay small."""
    batch, classes = log_x.shape
    chunk = CHUNK.get(log_x.device.type, CHUNK["cuda"])
    columns = max(1, min(classes, chunk // depth))
    rows = max(1, chunk // (depth * columns))
    for row in range(0, batch, rows):
        for column in range(0, classes, columns):
            yield slice(row, row + rows), slice(column, column + columns)


def sum_terms(terms: Sequence[Tensor]) -> Tensor:
    """The sum of at least one tensor."""
    return torch.stack(list(terms)).sum(0) if len(terms) > 1 else terms[0]


@cache
def lagrange_coefficients() -> tuple[tuple[float, ...], ...]:
    """Row p: coefficients, lowest first, of the Lagrange polynomial of point p in the offset from the cell's middle."""
    points = [p - (POINTS - 1) / 2 for p in range(POINTS)]
    rows = []
    for point in points:
        polynomial = np.ones(1)
        for other in points:
            if other != point:
                polynomial = np.convolve(polynomial, [-other, 1.0]) / (point - other)
        rows.append(tuple(polynomial.tolist()))
    return tuple(rows)


def _normaliser(log_x: Tensor, log_q: Tensor | None) -> Tensor:
    """log Σ exp(log_q), [batch or 1, 1]; for uniform q the logarithm of the number of classes."""
    if log_q is None:
        return log_x.new_full((1, 1), math.log(log_x.shape[-1]))
    total = log_q.new_full((len(log_q),), -math.inf)
    for rows, columns in blocks(log_q):
        total[rows] = torch.logaddexp(total[rows], torch.logsumexp(log_q[rows, columns], -1))
    return total.unsqueeze(-1)
