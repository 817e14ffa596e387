r"""Sums over classes :math:`\sum_y q_y f(t_k x_y)` at every node, and their adjoints, by two algorithms.

:class:`DirectSum` evaluates f for every class and node. :class:`SpreadSum` uses that the sum is a convolution in
:math:`\log x`: it spreads the classes once on a grid, with local polynomial weights, and evaluates f once per
*difference* of node and grid point. Each tests the other.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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

POINTS = 10
"""Grid points a class is spread on."""

POWERS = 6
"""Coefficients of a point's weight, a polynomial in the class's offset: with a grid step of 1/64 the error of a kernel
of height 1 is about 1e-16."""

SLIGHT = 1e-4
"""Least (standard deviation / mean)^2 of a term whose excess is taken from spread masses: below it they lose digits."""

ON_HOST = 1 << 18
"""Grid points up to which what comes after spreading is done on the host: each of some hundred steps on so few numbers
would wait for a GPU's launch."""

MOST_COPIES = 256
"""Copies of a grid point among which a GPU adds by turns."""

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
    def at_nodes(self, f: Kernel, rule: Rule, nodes: slice = WHOLE) -> Tensor:
        """Σ_y q_y f(t_k x_y) on some of the nodes, [batch, nodes]."""

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

    def at_nodes(self, f: Kernel, rule: Rule, nodes: slice = WHOLE) -> Tensor:
        """See :class:`ClassSum`."""
        u = rule.nodes(self.log_x.device)[nodes]
        total = self.log_x.new_zeros(self.log_x.shape[0], len(u))
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

    def __init__(self, log_x: Tensor, log_q: Tensor | None, low: float, high: float, masked: bool) -> None:
        """Spread the classes, whose finite logarithms lie in [low, high]; ``masked`` if there are others."""
        super().__init__(log_x, log_q)
        self.low = low - POINTS * GRID
        self.masked = masked
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

    def _place(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
        """Of each class: its grid cell, and its offset from the cell's middle in [-1/2, 1/2].

        The cell of the lowest class is POINTS, or by rounding the one before it; classes with x = 0 are in the middle
        of cell 0.
        """
        position = torch.rsub(self.log_x[rows, columns], -self.low / GRID, alpha=-1 / GRID)
        if self.masked:
            position.clamp_min_(0.5)
        cell = position.long()
        return cell, position.sub_(cell).sub_(0.5)

    def _moments(self) -> Tensor:
        """Σ q offset^power of each cell's classes, [powers, batch, cells].

        Uniform classes are counted, which is exact; other q are added in two parts, of which the first, a multiple of
        2^-52, is added without rounding: a million equal terms one by one would cost five digits.
        """
        batch, copies = len(self.log_x), _copies(self.log_x, self.size)
        moments = self.log_x.new_zeros(POWERS + 1, batch, self.size * copies)
        for rows, columns in blocks(self.log_x):
            cell, offset = self._place(rows, columns)
            if copies > 1:
                turn = torch.arange(cell.shape[1], device=cell.device).bitwise_and_(copies - 1)
                cell = cell.mul_(copies).add_(turn)
            mass = self.probabilities(rows, columns) if self.log_q is not None else offset.new_ones(())
            mass = coarse = mass.expand_as(offset)
            if self.log_q is not None:
                coarse = mass.mul(2.0**52).round_().mul_(2.0**-52)
                moments[0, rows].scatter_add_(-1, cell, mass - coarse)
            moments[POWERS, rows].scatter_add_(-1, cell, coarse)
            for power in range(1, POWERS):
                mass = mass * offset if power == 1 else mass.mul_(offset)
                moments[power, rows].scatter_add_(-1, cell, mass)
        if copies > 1:
            moments = moments.view(POWERS + 1, batch, self.size, copies).sum(-1)
        moments[0] += moments[POWERS]
        return moments[:POWERS].to(self.home)

    def _spread(self) -> tuple[Tensor, Tensor]:
        """Masses on the grid, and the mass of the classes with x = 0.

        A class in a cell adds q times polynomials of its offset, so the moments of the offsets in each cell are enough.
        """
        moments = self._moments()
        batch, classes = self.log_x.shape
        zero_mass = moments[0, :, 0].clone()
        moments[:, :, 0] = 0
        points = (point_weights(self.home) @ moments.view(POWERS, -1)).view(-1)
        # The weight of point j belongs j - POINTS / 2 + 1 cells on; there is no class near either end of a row.
        stride = batch * self.size - 1
        masses = points.as_strided((POINTS, batch, self.size), (stride, self.size, 1), POINTS // 2 - 1).sum(0)
        share = 1 / classes if self.log_q is None else 1.0
        return masses * share, zero_mass * share

    def _products(self, rule: Rule) -> Tensor:
        """The product s = t x of every difference of node and grid point, [node and grid cells, stride].

        A step of the rule is ``stride`` grid steps; entry (a, b) is at log s = rule.low + low + (a stride + b) GRID.
        """
        stride = round(rule.step / GRID)
        if stride * GRID != rule.step:
            raise ValueError(f"step is {rule.step!r}; spreading needs a multiple of 1/{1 / GRID:.0f}, or use 'direct'")
        cells = math.ceil(self.size / stride) + rule.count - 1
        if self._nodes is None or self._nodes[0] != rule:
            steps = torch.arange(cells * stride, dtype=torch.float64, device=self.home)
            self._nodes = rule, (rule.low + self.low + GRID * steps).exp_().view(cells, stride)
        return self._nodes[1]

    def _at_zero(self, f: Kernel) -> Tensor:
        """The kernel at 0, [1]."""
        return f(torch.zeros(1, dtype=torch.float64, device=self.home))

    def at_nodes(self, f: Kernel, rule: Rule, nodes: slice = WHOLE) -> Tensor:
        """See :class:`ClassSum`."""
        s, (first, stop, _) = self._products(rule), nodes.indices(rule.count)
        masses = pad(self.masses, (0, -self.size % s.shape[1]))
        masses = masses.view(len(masses), -1, s.shape[1])  # [batch, cell, place in the cell]
        # [batch, cell a, cell a' of the values]; node k sums a' = a + k
        products = masses @ f(s[first : stop + masses.shape[1] - 1]).T
        batch, cells, width = products.shape
        total = products.as_strided((batch, cells, stop - first), (cells * width, width + 1, 1)).sum(1)
        return total + (self._at_zero(f) * self.zero_mass).unsqueeze(-1) if self.masked else total

    def excess(self, rule: Rule, missing: Tensor, log_one: Tensor) -> Tensor:
        """Σ q bend(tx) - bend(-log M) or log M + t Σ q x; by the direct sum where the terms scatter slightly."""
        wanted = missing.shape[-1]
        by_mean = log_one + self.mean.unsqueeze(-1) * rule.nodes(self.home)[:wanted].exp()
        bent = self.at_nodes(bend, rule, slice(wanted))
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
        on_grid, at_zero = (sum_terms(column) for column in zip(*parts, strict=True))
        # Of each cell the polynomial in the offset, [powers, batch, cells].
        near = pad(on_grid, (POINTS // 2 - 1, POINTS // 2)).unfold(-1, POINTS, 1)
        polynomials = (near @ point_weights(self.home)).movedim(-1, 0)
        polynomials[0, :, 0] = at_zero.squeeze(-1)
        polynomials = polynomials.to(self.log_x.device)
        result = torch.empty_like(self.log_x)
        for rows, columns in blocks(self.log_x):
            cell, offset = self._place(rows, columns)
            total = polynomials[-1, rows].gather(-1, cell)
            for power in reversed(range(POWERS - 1)):
                total.mul_(offset).add_(polynomials[power, rows].gather(-1, cell))
            result[rows, columns] = total
        return result

    def _at_grid(self, f: Kernel, coefficients: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
        """Σ_k coefficient_k f(t_k e^{g_j}) at every grid point j, and Σ_k coefficient_k f(0)."""
        values = f(self._products(rule))
        cells = values.shape[0] - rule.count + 1
        shifted = coefficients.new_zeros(len(coefficients), cells, values.shape[0])
        size, width = shifted.stride(0), shifted.stride(1)
        shifted.as_strided((len(coefficients), cells, rule.count), (size, width + 1, 1)).copy_(
            coefficients.unsqueeze(1)
        )
        on_grid = (shifted @ values).view(len(coefficients), -1)[:, : self.size]
        return on_grid, self._at_zero(f) * coefficients.sum(-1, keepdim=True)


def class_sum(log_x: Tensor, log_q: Tensor | None, method: str, ends: tuple[float, float] | None = None) -> ClassSum:
    """The algorithm asked for; ``auto`` spreads where this takes less time.

    ``ends`` are the :func:`extremes` of log x.
    """
    if method == "direct" or not log_x.numel():
        return DirectSum(log_x, log_q)
    least = extremes(log_x)[0] if ends is None else ends[0]
    low, high = finite_range(log_x) if ends is None or least == -math.inf else ends
    narrow = high - low <= WIDEST
    if method == "spread":
        if not narrow:
            raise ValueError(f"log_x spans {high - low:.0f}, too wide to spread (at most {WIDEST:.0f}); use 'direct'")
    elif method != "auto":
        raise ValueError(f"method is {method!r}; it must be 'auto', 'direct' or 'spread'")
    elif not narrow or log_x.shape[-1] <= max(400 / min(len(log_x), 2), 10 * (high - low)):
        return DirectSum(log_x, log_q)
    return SpreadSum(log_x, log_q, low, high, masked=least == -math.inf)


def extremes(values: Tensor) -> tuple[float, float]:
    """Smallest and largest entry, NaN if there is one; (inf, -inf) of none."""
    if not values.numel():
        return math.inf, -math.inf
    low, high = torch.stack(torch.aminmax(values)).tolist()
    return low, high


def finite_range(log_x: Tensor) -> tuple[float, float]:
    """Smallest and largest finite entry; (0, 0) if there is none."""
    low, high = extremes(log_x)
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


def _copies(log_x: Tensor, size: int) -> int:
    """Copies of each grid point, a power of two, small beside the classes: a GPU's additions to one number queue."""
    most = min(MOST_COPIES, log_x.shape[-1] // (16 * size)) if log_x.device.type != "cpu" else 1
    return 1 << max(0, most.bit_length() - 1)


def sum_terms(terms: Sequence[Tensor]) -> Tensor:
    """The sum of at least one tensor."""
    return torch.stack(list(terms)).sum(0) if len(terms) > 1 else terms[0]


@cache
def point_weights(device: torch.device) -> Tensor:
    """Row j: coefficients, lowest first, of the weight of point j in the offset from the cell's middle, float64.

    It has at the Chebyshev points of the cell the values of the Lagrange polynomial of point j.
    """
    points = [Fraction(2 * j + 1 - POINTS, 2) for j in range(POINTS)]
    inner = [Fraction(math.cos(math.pi * (i + 0.5) / POWERS)) / 2 for i in range(POWERS)]
    values = np.array([[x**power for x in inner] for power in range(POINTS)])
    weights = (_lagrange(points) @ values @ _lagrange(inner)).astype(np.float64)
    return torch.from_numpy(weights).to(device)


def _lagrange(points: Sequence[Fraction]) -> NDArray[Any]:
    """Row j: coefficients, lowest first, of the Lagrange polynomial of point j."""
    rows = []
    for point in points:
        polynomial = np.ones(1, dtype=object)
        for other in points:
            if other != point:
                polynomial = np.convolve(polynomial, np.array([-other, 1])) / (point - other)
        rows.append(polynomial)
    return np.array(rows)


def _normaliser(log_x: Tensor, log_q: Tensor | None) -> Tensor:
    """log Σ exp(log_q), [batch or 1, 1]; for uniform q the logarithm of the number of classes."""
    if log_q is None:
        return log_x.new_full((1, 1), math.log(log_x.shape[-1]))
    total = log_q.new_full((len(log_q),), -math.inf)
    for rows, columns in blocks(log_q):
        total[rows] = torch.logaddexp(total[rows], torch.logsumexp(log_q[rows, columns], -1))
    return total.unsqueeze(-1)
