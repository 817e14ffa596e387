r"""Any law on L classes by Walker's alias table, in integers: the law reported is exactly the law drawn.

Probabilities become integers :math:`w_y` that sum to :math:`2^{62}` (the nearest ones; at least 1 where q is positive).
The table has :math:`K = 2^c \ge L` columns of :math:`T = 2^{62-c}` units. Column k holds a threshold and an alias, in
one 64-bit word: of its units, those below the threshold belong to class k, the others to the alias. A draw takes 62
random bits, c to choose a column and the rest to choose a unit: one random word and one place in memory, whatever L.

The table is made on the CPU by NumPy, so that it does not depend on the order of a device's sums, and without a loop:
taken in order, light classes (:math:`w < T`) have running deficits D, heavy ones
running surpluses E; who fills whose column is a search of the one in the other.

Source: Walker (1977) for the table; Hübschle-Schneider and Sanders (2019) for building it from prefix sums.
"""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.samplers._base import Tabulated, by_class, dimensions

BITS = 62
"""Random bits of a draw: the most whose sums stay inside int64."""

FULL = 1 << BITS
"""The units of a table."""

MOST = 1 << 31
"""Classes that a law can have."""

CHUNK = 1 << 16
"""Draws made at a time on a CPU: their intermediate results stay in its cache."""


class Categorical(Tabulated):
    r"""Draws from any law q in constant time each, after a set-up in time and memory proportional to L.

    >>> law = samplers.Categorical([0.5, 0.25, 0.25])
    >>> law.sample((2, 3)).shape
    torch.Size([2, 3])
    >>> law.log_prob([0, 2]).exp()
    tensor([0.5000, 0.2500], dtype=torch.float64)

    Args:
        q: [L] probabilities; they must sum to 1 within what their precision explains, and are divided by their sum.

    Attributes:
        log_q: [L] log probabilities of the law that is drawn, float64: those of q rounded to multiples of 2^-62.
        table: [K] int64, threshold and alias of each column; ``state_dict`` holds it.

    Raises:
        ValueError: if q is empty, not one-dimensional, negative, NaN or infinite, or does not sum to 1.
    """

    log_q: Tensor
    table: Tensor

    def __init__(self, q: checks.Values) -> None:
        q = by_class("q", q)
        super().__init__(len(q), q.device)
        self._hold(build(whole_units(checks.law("q", q.detach().cpu()))))

    def _spread(self, device: torch.device) -> None:
        self.table = self._integers.to(device)
        q = drawn_units(self._integers)[: self.classes].double() * 2.0**-BITS
        self.log_q = checks.onto(q.log(), device)

    def _is_law(self, integers: Tensor) -> bool:
        size = _columns(self.classes)
        if len(integers) != 1 << size or not bool(((integers >= 0) & (integers >> size < FULL >> size)).all()):
            return False
        return not bool(drawn_units(integers)[self.classes :].any())

    def _log_prob(self, ids: Tensor) -> Tensor:
        log_q = self.log_q.to("meta") if ids.is_meta else self.log_q  # whence no number comes back
        return checks.onto(take(log_q, ids.to(log_q.device)), ids.device)

    def sample(self, shape: int | Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""
        drawn = bits(shape, generator, self.table.device)
        look_up(self.table, self.table.shape[0], drawn.view(-1))
        return drawn


def unigram(counts: checks.Values, power: float = 0.75) -> Categorical:
    r""":math:`q_y \propto n_y^{\text{power}}` for counts :math:`n_y`: 1 is the unigram law, 0.75 the habit of word2vec.

    The classes may stand in any order; :class:`LogUniform` needs no counts, but classes sorted by them.

    >>> samplers.unigram([16, 1, 0]).log_prob([0, 1, 2]).exp()
    tensor([0.8889, 0.1111, 0.0000], dtype=torch.float64)

    Args:
        counts: [L] how often each class occurs; a class of count 0 is never drawn.
        power: any finite exponent. 1 is the law of in-batch columns, 0 uniform over the classes that occur; a negative
            one draws rare classes more often, as Caselles-Dupré et al. (2018) found best for some recommendations.

    Raises:
        ValueError: if a count is negative, NaN or infinite, all are 0, or the power is not finite.
    """
    if isinstance(power, bool) or not isinstance(power, Real) or not math.isfinite(power):
        raise ValueError(f"power is {power!r}; it must be a finite number")
    counts = by_class("counts", counts)
    weights = counts.detach().cpu().to(torch.float64)
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise ValueError(f"counts must be finite numbers >= 0, got {checks.describe(weights)}")
    if not bool((weights > 0).any()):
        raise ValueError("all counts are 0: there is no class to draw")
    # Dividing by the one of the largest power first: no power can overflow, and none that underflows is 0.
    occurs = weights > 0
    largest = weights.max() if power > 0 else weights[occurs].min()
    weights = torch.where(occurs, (weights / largest).pow(float(power)).clamp_min(2.0**-BITS), 0)
    return Categorical(checks.onto(weights / weights.sum(), counts.device))


def bits(shape: int | Sequence[int], generator: torch.Generator | None, device: torch.device) -> Tensor:
    r"""Uniform integers of 62 random bits, int64 [\*shape]."""
    return torch.randint(FULL, dimensions(shape), **_source(generator, device), device=device)


def uniform(shape: int | Sequence[int], generator: torch.Generator | None, device: torch.device) -> Tensor:
    r"""Numbers in [0, 1), float64 [\*shape]; on the CPU where the device has no double precision."""
    # A compiler rounds its numbers to 24 bits, which miss most of 10^7 classes.
    if checks.wide(device) == torch.float64 and not torch.compiler.is_compiling():
        return torch.rand(dimensions(shape), **_source(generator, device), dtype=torch.float64, device=device)
    return checks.double(bits(shape, generator, device) >> BITS - 53) * 2.0**-53


def _source(generator: torch.Generator | None, device: torch.device) -> dict[str, Any]:
    """The keyword of a generator, which torch does not take with a size that a compiler keeps open."""
    if (given := checks.source(generator)) is None:
        return {}
    if given.device.type != device.type and device.type != "meta":
        raise ValueError(
            f"generator is on {given.device}, but draws are made on {device}: take torch.Generator(device)"
        )
    return {"generator": given}


def whole_units(q: Tensor) -> Tensor:
    """Integers that sum to 2^62, nearest to q 2^62 for a q on the CPU, and positive where q is."""
    checks.whole("classes", len(q), 1, MOST)
    units = torch.round(q * 2.0**BITS).to(torch.int64)
    units = torch.where(q > 0, units.clamp_min(1), 0)
    # What rounding left over is less than one part in 10^9 of the most probable class, which takes it.
    units[units.argmax()] += FULL - units.sum()
    return units


def build(units: Tensor) -> Tensor:
    """The alias table of integers that sum to 2^62."""
    columns = _columns(len(units))
    full = FULL >> columns
    weights = np.zeros(1 << columns, np.int64)
    weights[: len(units)] = units.numpy()
    light, heavy = (np.flatnonzero(part) for part in (weights < full, weights >= full))
    spent = np.zeros(len(light) + 1, np.int64)
    np.cumsum(full - weights[light], out=spent[1:])
    surplus = np.cumsum(weights[heavy] - full)

    # A light class keeps its weight; the heavy one whose surplus is not yet spent on those before it fills it up.
    threshold, alias = weights, np.empty_like(weights)
    alias[light] = heavy[np.searchsorted(surplus, spent[:-1], side="right")]
    # A heavy class ends with what the last light one it fills leaves of it, and the next heavy one fills it up.
    left = full + surplus - spent[np.searchsorted(spent, surplus)]
    whole = left == full
    threshold[heavy] = np.where(whole, 0, left)
    alias[heavy] = np.where(whole, heavy, np.roll(heavy, -1))
    return torch.from_numpy((threshold << columns) | alias)


def drawn_units(table: Tensor) -> Tensor:
    """The integers of which a table on the CPU was made: [K], 0 beyond the classes."""
    columns = _columns(len(table))
    threshold = table >> columns
    return threshold.index_add_(0, table & (len(table) - 1), (FULL >> columns) - threshold)


def _columns(size: int) -> int:
    """Bits that choose a column."""
    return (size - 1).bit_length()


def look_up(table: Tensor, size: int, drawn: Tensor, start: Tensor | None = None) -> None:
    """Replace random bits by classes, in place, by a table of a size; of bits [B, m] by those at ``start`` [B, 1]."""
    if drawn.is_cpu and not checks.is_traced(drawn) and drawn.numel() > CHUNK:
        step = max(1, CHUNK * len(drawn) // drawn.numel())
        for at in range(0, len(drawn), step):
            _look_up(table, size, drawn[at : at + step], start if start is None else start[at : at + step])
    else:
        _look_up(table, size, drawn, start)


def _look_up(table: Tensor, size: int, drawn: Tensor, start: Tensor | None) -> None:
    columns = _columns(size)
    column = drawn >> (BITS - columns)
    word = take(table, column if start is None else column + start)
    unit = drawn & ((FULL >> columns) - 1)
    drawn.copy_(torch.where(unit < (word >> columns), column, word & (size - 1)))


def below(most: Tensor, drawn: Tensor) -> Tensor:
    """Of 62 random bits a number below ``most``, of at most 62 bits: the first of the 124 bits of their product."""
    half = BITS // 2
    low, first, second = (1 << half) - 1, drawn >> half, most >> half
    across = (drawn & low) * (most & low) >> half
    return first * second + ((first * (most & low) + (drawn & low) * second + across) >> half)


def take(values: Tensor, places: Tensor) -> Tensor:
    """``values[places]`` in one dimension, of which a CPU is slower."""
    return values.index_select(0, places.flatten()).view(places.shape)
