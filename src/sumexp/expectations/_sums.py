r"""Sums over classes :math:`\sum_y q_y f(t_k x_y)` at every node, and their adjoints, by two algorithms.

:class:`DirectSum` evaluates f for every class and node. :class:`SpreadSum` uses that the sum is a convolution in
:math:`\log x`: it spreads the classes once on a grid, with local polynomial weights, and evaluates f once per
*difference* of node and grid point. Each tests the other.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp._checks import has_tangent, is_transformed
from sumexp._tables import cached_table
from sumexp.expectations._arrays import Array, alike, light, namespace, strided, tensor, zeros
from sumexp.expectations._kernels import Kernel, bend, decay, growth, log1p_bend
from sumexp.expectations.quadrature import GRID, Rule, places

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

TABLE = -760 * 64, 712 * 64
"""Grid points from which, and up to which, tables of kernels reach: from e^-760 = 0 on."""

THREE = growth, decay, bend
"""What a forward pass sums."""

WIDEST = 200.0
"""Widest range of log x that is spread: beyond it (masked logits, say) the direct sum is taken."""


class DirectSum:
    """Sums over classes with the probabilities q, on the nodes of a rule: f at every class and node, in chunks."""

    def __init__(self, log_x: Tensor, log_q: Tensor | None) -> None:
        """Take log x [batch, classes] and log q [batch or 1, classes], uniform if None, without gradients."""
        self.log_x = log_x
        self.log_q = log_q
        self.home = log_x.device
        """Where sums on the nodes are computed."""

    @cached_property
    def normaliser(self) -> Tensor:
        """log Σ q before normalisation, [batch or 1, 1]; for uniform q the logarithm of the number of classes."""
        if self.log_q is None:
            return self.log_x.new_full((1, 1), math.log(self.log_x.shape[-1]))
        total = self.log_q.new_full((len(self.log_q),), -math.inf)
        for rows, columns in blocks(self.log_q):
            total[rows] = torch.logaddexp(total[rows], torch.logsumexp(self.log_q[rows, columns], -1))
        return total.unsqueeze(-1)

    def probabilities(self, rows: slice = WHOLE, columns: slice = WHOLE) -> Tensor:
        """The probabilities q of a block, [rows or 1, columns or 1]."""
        normaliser = self.normaliser[rows if len(self.normaliser) > 1 else WHOLE]
        if self.log_q is None:
            return torch.exp(-normaliser)
        return torch.exp(self.log_q[rows if len(self.log_q) > 1 else WHOLE, columns] - normaliser)

    @cached_property
    def mean(self) -> Tensor:
        """Σ q x, [batch]."""
        total = self.log_x.new_zeros(self.log_x.shape[0])
        for rows, columns in blocks(self.log_x):
            total[rows] += (self.probabilities(rows, columns) * self.log_x[rows, columns].exp()).sum(-1)
        return total

    def at_nodes(self, f: Kernel, rule: Rule, nodes: slice = WHOLE) -> Array:
        """Σ_y q_y f(t_k x_y) on some of the nodes, [batch, nodes]."""
        u = rule.nodes(self.log_x.device)[nodes]
        total = self.log_x.new_zeros(self.log_x.shape[0], len(u))
        for rows, columns in blocks(self.log_x, rule.count):
            values = f(torch.exp(self.log_x[rows, columns].unsqueeze(-1) + u))
            total[rows] += (self.probabilities(rows, columns).unsqueeze(-1) * values).sum(-2)
        return light(total, count=len(total) * rule.count)[0]

    def excess(self, rule: Rule, missing: Array, log_one: Array) -> Array:
        """log Σ q e^{-tx} + t Σ q x >= 0 of one draw, [batch, wanted], wherever t Σ q x < 500 (inf or NaN beyond).

        Given are 1 - M and log M, M = Σ q e^{-tx}, on the first nodes, those on which it is wanted. It is
        log(1 + Σ q bend(t (x - Σ q x))): a sum of non-negative terms, since the deviations have mean 0.
        """
        t = rule.nodes(self.log_x.device)[: missing.shape[-1]].exp()
        log_mean = torch.where(self.mean > 0, self.mean, 1.0).log().unsqueeze(-1)
        drift = torch.zeros_like(self.mean)
        for rows, columns in blocks(self.log_x):
            drift[rows] += (self.probabilities(rows, columns) * self._deviation(log_mean, rows, columns)).sum(-1)
        total = self.log_x.new_zeros(missing.shape)
        for rows, columns in blocks(self.log_x, rule.count):
            deviation = self._deviation(log_mean, rows, columns) - drift[rows].unsqueeze(-1)
            values = bend(deviation.unsqueeze(-1) * t)
            total[rows] += (self.probabilities(rows, columns).unsqueeze(-1) * values).sum(-2)
        return alike(total.log1p(), missing)

    def _deviation(self, log_mean: Tensor, rows: slice, columns: slice) -> Tensor:
        """x - e^{log_mean}, relatively accurate where they are near each other."""
        log_x, log_mean = self.log_x[rows, columns], log_mean[rows]
        ratio, middle = log_x - log_mean, log_mean.exp()
        return torch.where(ratio.abs() < 1, middle * torch.expm1(ratio), log_x.exp() - middle)

    def at_classes(self, terms: Sequence[tuple[Kernel, Array]], rule: Rule) -> Tensor:
        """Σ_k Σ_terms coefficient_k f(t_k x_y), [batch, classes], without q; coefficients are [batch, nodes]."""
        u = rule.nodes(self.log_x.device)
        terms = [(f, tensor(coefficients)) for f, coefficients in terms]
        result = torch.empty_like(self.log_x)
        for rows, columns in blocks(self.log_x, rule.count):
            s = torch.exp(self.log_x[rows, columns].unsqueeze(-1) + u)
            result[rows, columns] = reduce(add, (torch.einsum("bck,bk->bc", f(s), c[rows]) for f, c in terms))
        return result


class SpreadSum(DirectSum):
    """The classes spread on a grid in log x; f once per difference of node and grid point."""

    def __init__(self, log_x: Tensor, log_q: Tensor | None, low: float, high: float, masked: bool) -> None:
        """Spread the classes, whose finite logarithms lie in [low, high]; ``masked`` if there are others."""
        super().__init__(log_x, log_q)
        self.low = math.floor(low / GRID) * GRID - POINTS * GRID
        self.masked = masked
        self.size = math.ceil((high - self.low) / GRID) + POINTS
        if len(log_x) * self.size <= ON_HOST:
            self.home = torch.device("cpu")
        self.masses, self.zero_mass = self._spread()
        self._on_nodes: tuple[Rule, Array] | None = None

    @cached_property
    def _grid(self) -> Array:
        """x at the grid points."""
        return self._tabulated(torch.positive, self.low / GRID, self.size)

    @cached_property
    def mean(self) -> Tensor:
        """Σ q x, [batch]."""
        return tensor(self.masses @ self._grid)

    @cached_property
    def _scatter(self) -> Array:
        """(Standard deviation / mean)^2 of a term, [batch]; a rare one counts by its probability at most."""
        log_x = alike(GRID * np.arange(self.size), self.masses)
        middle = (self.masses * log_x).sum(-1) / self.masses.sum(-1)
        return (self.masses * namespace(log_x).tanh(log_x - middle[:, None]) ** 2).sum(-1) + self.zero_mass

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
        batch, copies, given = len(self.log_x), _copies(self.log_x, self.size), self.log_q is not None
        moments = self.log_x.new_zeros(POWERS + given, batch, self.size * copies)
        parts = moments.unbind()
        for rows, columns in blocks(self.log_x):
            cell, offset = self._place(rows, columns)
            if copies > 1:
                turns = torch.arange(cell.shape[1], device=cell.device)
                cell.mul_(copies).add_(turns.bitwise_and_(copies - 1))
                del turns
            mass = coarse = (self.probabilities(rows, columns) if given else offset.new_ones(())).expand_as(offset)
            if given:
                coarse = mass.mul(2.0**52).round_().mul_(2.0**-52)
                parts[POWERS][rows].scatter_add_(-1, cell, mass - coarse)
            parts[0][rows].scatter_add_(-1, cell, coarse)
            for power in range(1, POWERS):
                mass = mass * offset if power == 1 else mass.mul_(offset)
                parts[power][rows].scatter_add_(-1, cell, mass)
        if copies > 1:
            moments = moments.view(-1, batch, self.size, copies).sum(-1)
        if given:
            moments[0] += moments[POWERS]
        return moments[:POWERS].to(self.home)

    def _spread(self) -> tuple[Array, Array]:
        """Masses on the grid, and the mass of the classes with x = 0.

        A class in a cell adds q times polynomials of its offset, so the moments of the offsets in each cell are enough.
        """
        batch, classes = self.log_x.shape
        (moments,) = light(self._moments(), count=batch * self.size)
        zero_mass = moments[0, :, 0] * 1.0
        moments[:, :, 0] = 0
        points = (alike(point_weights(self.home), moments) @ moments.reshape(POWERS, -1)).reshape(-1)
        # The weight of point j belongs j - POINTS / 2 + 1 cells on; there is no class near either end of a row.
        strides = batch * self.size - 1, self.size, 1
        masses = strided(points, (POINTS, batch, self.size), strides, POINTS // 2 - 1).sum(0)
        share = 1 / classes if self.log_q is None else 1.0
        return masses * share, zero_mass * share

    def _tabulated(self, f: Kernel, start: float, count: int) -> Array:
        """f at e^{k GRID} for k from ``start`` on, [..., count]: from a table, where these are points of the grid."""
        least, most = TABLE
        if start.is_integer() and least <= start <= most - count:
            return alike(table(f, self.home)[..., int(start) - least :][..., :count], self.masses)
        k = start + torch.arange(count, dtype=torch.float64, device=self.home)
        return alike(f(torch.exp(GRID * k)), self.masses)

    def _products(self, f: Kernel, rule: Rule, nodes: slice = WHOLE) -> tuple[Array, int]:
        """f at the product s = t x of every difference of node and grid point, and the cells of the grid.

        A step of the rule is ``stride`` grid steps. The values are [..., nodes and cells, stride]: entry (a, b) is at
        log s = log t_first + low + (a stride + b) GRID.
        """
        stride, (first, stop, _) = round(rule.step / GRID), nodes.indices(rule.count)
        if stride * GRID != rule.step:
            raise ValueError(f"step is {rule.step!r}; spreading needs a multiple of 1/{1 / GRID:.0f}, or use 'direct'")
        cells = math.ceil(self.size / stride)
        start, rows = (rule.low + self.low) / GRID + first * stride, stop - first + cells - 1
        values = self._tabulated(f, start, rows * stride)
        return values.reshape(*values.shape[:-1], rows, stride), cells

    def at_nodes(self, f: Kernel, rule: Rule, nodes: slice = WHOLE) -> Array:
        """See :class:`DirectSum`. Where all nodes cost as much as some, three kernels are summed together."""
        if f not in THREE or not isinstance(self.masses, np.ndarray):
            return self._sum(f, rule, nodes)
        if self._on_nodes is None or self._on_nodes[0] is not rule:
            self._on_nodes = rule, self._sum(three, rule, WHOLE)
        return self._on_nodes[1][THREE.index(f)][:, nodes]

    def _sum(self, f: Kernel, rule: Rule, nodes: slice) -> Array:
        values, cells = self._products(f, rule, nodes)
        batch, (*several, width, stride) = len(self.masses), values.shape
        masses = zeros((batch, cells * stride), self.masses)
        masses[:, : self.size] = self.masses
        # [batch and cell a, cell a' of the values]; node k sums a' = a + k
        products, size = masses.reshape(-1, stride) @ values.swapaxes(-1, -2), cells * width
        strides = *(batch * size for _ in several), size, width + 1, 1
        total = strided(products, (*several, batch, cells, width - cells + 1), strides).sum(-2)
        return total + self.zero_mass[:, None] * self._at_zero(f)[..., None, None] if self.masked else total

    def _at_zero(self, f: Kernel) -> Array:
        """The kernel at 0."""
        return alike(table(f, self.home)[..., 0], self.masses)

    def excess(self, rule: Rule, missing: Array, log_one: Array) -> Array:
        """Σ q bend(tx) - bend(-log M) or log M + t Σ q x; by the direct sum where the terms scatter slightly."""
        xp, mean, wanted = namespace(missing), alike(self.mean, missing), slice(missing.shape[-1])
        bent, t = self.at_nodes(bend, rule, wanted), alike(places(rule)[1, wanted], missing)
        by_mean = log_one + mean[:, None] * t
        result = xp.where(missing < 0.5, bent + log1p_bend(missing.clip(max=0.5)), by_mean)
        slight = self._scatter < SLIGHT
        if slight.any():
            rows = tensor(slight).to(self.log_x.device)
            log_q = self.log_q if self.log_q is None or len(self.log_q) == 1 else self.log_q[rows]
            result[slight] = DirectSum(self.log_x[rows], log_q).excess(rule, missing[slight], log_one[slight])
        return result

    def at_classes(self, terms: Sequence[tuple[Kernel, Array]], rule: Rule) -> Tensor:
        """See :class:`DirectSum`."""
        parts = [self._at_grid(f, alike(coefficients, self.masses), rule) for f, coefficients in terms]
        on_grid, at_zero = (reduce(add, column) for column in zip(*parts, strict=True))
        # Of each cell the polynomial in the offset, [powers, batch, cells].
        batch, width = len(self.log_x), self.size + POINTS - 1
        around = zeros((batch, width), on_grid)
        around[:, POINTS // 2 - 1 :][:, : self.size] = on_grid
        near = strided(around, (batch, self.size, POINTS), (width, 1, 1)).reshape(-1).reshape(-1, POINTS)
        coefficients = (alike(point_weights(self.home), near).T @ near.T).reshape(POWERS, batch, self.size)
        coefficients[0, :, 0] = at_zero
        polynomials = tensor(coefficients).to(self.log_x.device)
        result = torch.empty_like(self.log_x)
        for rows, columns in blocks(self.log_x):
            cell, offset = self._place(rows, columns)
            total = polynomials[-1, rows].gather(-1, cell)
            for power in reversed(range(POWERS - 1)):
                total.mul_(offset).add_(polynomials[power, rows].gather(-1, cell))
            result[rows, columns] = total
        return result

    def _at_grid(self, f: Kernel, coefficients: Array, rule: Rule) -> tuple[Array, Array]:
        """Σ_k coefficient_k f(t_k e^{g_j}) at every grid point j, and Σ_k coefficient_k f(0)."""
        values, cells = self._products(f, rule)
        batch, width = len(coefficients), len(values)
        shifted = zeros((batch, cells, width), coefficients)
        strided(shifted, (batch, cells, rule.count), (cells * width, width + 1, 1))[...] = coefficients[:, None]
        on_grid = (shifted.reshape(-1, width) @ values).reshape(batch, -1)[:, : self.size]
        return on_grid, self._at_zero(f) * coefficients.sum(-1)


def three(s: Tensor) -> Tensor:
    """The kernels in THREE, [3, ...]."""
    return torch.stack([f(s) for f in THREE])


@cached_table(32)
def table(f: Kernel, device: torch.device) -> Tensor:
    """The kernel at e^{k GRID}, k in TABLE, [..., k]; only to be read. The first, at e^{k GRID} = 0, is f(0)."""
    values: Tensor = f(torch.exp(GRID * torch.arange(*TABLE, dtype=torch.float64, device="cpu")))
    return values.to(device)


def class_sum(log_x: Tensor, log_q: Tensor | None, method: str, ends: tuple[float, float] | None = None) -> DirectSum:
    """The algorithm asked for; ``auto`` spreads where this takes less time.

    ``ends`` are the :func:`extremes` of log x.
    """
    if method == "direct" or not log_x.numel():
        return DirectSum(log_x, log_q)
    low, high = extremes(log_x)[0] if ends is None else ends
    if masked := low == -math.inf:
        parts = (log_x[block] for block in blocks(log_x))
        low = min(torch.where(part == -math.inf, math.inf, part).min().item() for part in parts)
        low, high = (low, high) if low <= high else (0.0, 0.0)
    narrow = high - low <= WIDEST
    if method == "spread":
        if not narrow:
            raise ValueError(f"log_x spans {high - low:.0f}, too wide to spread (at most {WIDEST:.0f}); use 'direct'")
    elif method != "auto":
        raise ValueError(f"method is {method!r}; it must be 'auto', 'direct' or 'spread'")
    elif not narrow or log_x.shape[-1] <= max(400 / min(len(log_x), 2), 10 * (high - low)):
        return DirectSum(log_x, log_q)
    return SpreadSum(log_x, log_q, low, high, masked)


def refuse_transforms(*values: object) -> None:
    """Raise a NotImplementedError in forward mode and under ``torch.func``, which lets no numbers be read."""
    if is_transformed() or has_tangent(*values):
        raise NotImplementedError(
            "torch.func and forward mode transform no exact expectation: give all rows at once, [B, L], and "
            "differentiate by .backward() or torch.autograd.grad"
        )


def extremes(*tensors: Tensor) -> list[tuple[float, float]]:
    """Smallest and largest entry of each, read in one transfer: NaN if there is one; (inf, -inf) of none."""
    refuse_transforms()
    ends = [torch.aminmax(values) if values.numel() else values.new_tensor([math.inf, -math.inf]) for values in tensors]
    numbers = torch.stack([end for pair in ends for end in pair]).tolist()
    return list(zip(numbers[::2], numbers[1::2], strict=True))


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
    """Copies of each grid point, a sixteenth of the classes at most in all: a GPU's additions to one number queue."""
    most = min(256, log_x.shape[-1] // (16 * size)) if log_x.device.type != "cpu" else 1
    return 1 << max(0, most.bit_length() - 1)


@cached_table(8)
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
    others = [np.array([other for other in points if other != point]) for point in points]
    return np.array([np.poly(rest)[::-1] / np.prod(point - rest) for point, rest in zip(points, others, strict=True)])
