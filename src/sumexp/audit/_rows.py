r"""The classes of a table of counts as rows, and the truths of an audit, assumed or from scores.

Without scores P(y|x) is unknown. The audit then assumes :math:`P_y \propto \pi_ye^{\sigma z_y}` with independent normal
z: :math:`\sigma` is the spread of :math:`\log P(y\mid x)/\pi(y)`, and at :math:`\sigma = 0` the context carries no
information. Classes with one count and nearly one law form a lot. For a large lot one multinomial draw gives the number
of classes in each narrow cell of z, so that ten million classes become some hundred thousand rows. A row has the mean
law of its lot: sums over classes are exact, and the error is of the second order of a lot's width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sumexp.audit._setup import AuditError, Setup, positive_number

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MANY = 500
"""Lots with more classes use cells of z."""

WIDTHS = (0.01, 0.02, 0.04, 0.08)
"""Widths in nats of a lot's law: the first with at most `MOST_ROWS` rows, or the last. Bins are wider than each."""

MOST_ROWS = 1 << 19
"""The largest number of rows for a narrow width."""

SPAN = 1000.0
"""The largest plausible range in nats of the scores of one example."""

DEPTH = 100.0
"""Lower scores are raised to so many nats below the best: e^-100 of its probability changes no digit, and lower ones
would leave the range of floats in the integrals."""

UNIT = 0.01
"""Scores that sum to 1 within this, and are not negative, are probabilities in half precision."""

EDGES = np.linspace(-6.5, 6.5, 261)
"""Cells of z, .05 wide: their midpoints give the moments of the law within 10^-3."""


@dataclass(frozen=True)
class Rows:
    """Classes, or parts of lots."""

    number: Floats  # [rows] classes in the row
    lot: Integers  # [rows] their lot
    prior: Floats  # [rows] the share of the labels of each of them
    group: Integers  # [rows] 0 head, 1 torso, 2 tail; -1 for a class without labels
    z: Floats  # [rows] standard normal numbers, NaN for given truths
    place: Integers  # [classes] the lot of each class
    first: Integers  # [lots] a class of each lot

    def of(self, setup: Setup) -> Setup:
        """The scheme with its laws (and table) on the rows."""
        table, law = (None if each is None else self._mean(each) for each in (setup.table, setup.law))
        return replace(setup, q=np.stack([self._mean(q) for q in setup.q]), table=table, law=law)

    def _mean(self, values: Floats) -> Floats:
        """[rows] the mean over the lot of each row, of values [classes]."""
        means = values[self.first]
        if not np.array_equal(means[self.place], values):
            means = np.bincount(self.place, weights=values) / np.bincount(self.place)
        return np.asarray(means[self.lot])

    def truth(self, sigma: float) -> Floats:
        r"""[rows] the law of each class, :math:`P \propto \pi e^{\sigma z}`."""
        with np.errstate(divide="ignore"):
            logits = np.where(self.prior > 0, np.log(self.prior) + sigma * self.z, -np.inf)
        p = np.exp(logits - logits.max())
        return np.asarray(p / (self.number @ p))


def groups(counts: NDArray[Any]) -> Integers:
    """Head, torso, tail: the most frequent classes with a third of the labels, the next third, the rest; [classes].

    Classes of equal count share a group; a class that is never a label has none (-1).
    """
    values, number = np.unique(counts, return_counts=True)
    labels = values * number.astype(np.float64)
    before = (labels.sum() - np.cumsum(labels)) / labels.sum()  # the share of what is more frequent
    group = np.zeros(len(counts), dtype=np.int64)
    for end in (1 / 3, 2 / 3):
        group += counts < values[before < end].min()
    group[counts == 0] = -1
    return group


def assumed(counts: NDArray[Any], prior: Floats, log_laws: Sequence[Floats] = (), seed: int = 0) -> Rows:
    """Rows for assumed truths, with z of a seed.

    ``log_laws``, each [classes], are logarithms of a law or a table by which classes of one count may differ; -inf for
    a class that is never drawn.
    """
    generator = np.random.default_rng(seed)
    first, place, size = _lots(counts, log_laws)
    single = np.flatnonzero(size[place] == 1)
    parts = [(np.ones(len(single)), place[single], generator.standard_normal(len(single)))]
    chance = np.diff(ndtr(EDGES))
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    for lot in np.flatnonzero(size > 1):
        if not counts[first[lot]]:  # no label: z does not matter
            parts.append((size[[lot]].astype(float), np.array([lot]), np.zeros(1)))
            continue
        drawn = generator.multinomial(int(size[lot]), chance / chance.sum())
        occupied = drawn > 0
        parts.append((drawn[occupied].astype(float), np.full(int(occupied.sum()), lot), middle[occupied]))
    number, lots, z = (np.concatenate(x) for x in zip(*parts, strict=True))
    return Rows(number, lots, prior[first][lots], groups(counts)[first][lots], z, place, first)


def _lots(counts: NDArray[Any], log_laws: Sequence[Floats]) -> tuple[Integers, Integers, Integers]:
    """Lots of many classes with one count and one narrow cell of each law; few such classes are lots of one class.

    Each lot's first class, the lot of each class, and the size of each lot.
    """
    alike = np.unique(counts, return_index=True, return_inverse=True, return_counts=True)[1:]
    first, place, size = alike
    for width in WIDTHS:
        first, place, size = alike
        for log_law in log_laws:
            first, place, size = _parted((first, place, size), log_law, width)
        if np.where(size > MANY, len(EDGES) - 1, size).sum() <= MOST_ROWS:
            break
    many = size > MANY
    single = np.flatnonzero(~many[place])
    place = (np.cumsum(many) - 1)[place]
    place[single] = many.sum() + np.arange(len(single))
    return np.append(first[many], single), place, np.append(size[many], np.ones_like(single))


def _parted(
    lots: tuple[Integers, Integers, Integers], log_law: Floats, width: float
) -> tuple[Integers, Integers, Integers]:
    """Lots, split by the cells of a law; classes with -inf are never with others."""
    first, place, _ = lots
    cell = np.floor(log_law / width)
    if np.array_equal(cell[first][place], cell):
        return lots
    least, most = cell[np.isfinite(cell)].min() - 1, cell.max()
    cell = np.maximum(cell, least) - least
    key = place * int(most - least + 1) + cell.astype(np.int64)
    return np.unique(key, return_index=True, return_inverse=True, return_counts=True)[1:]


def given(counts: NDArray[Any], prior: Floats) -> Rows:
    """A row for each class, for truths from scores."""
    ids = np.arange(len(counts))
    return Rows(np.ones(len(counts)), ids, prior, groups(counts), np.full(len(counts), np.nan), ids, ids)


def posteriors(scores: NDArray[Any], temperature: float, classes: int) -> Floats:
    r"""[examples, classes] :math:`\operatorname{softmax}(\text{scores}/\tau)`, the truths by the scores."""
    temperature = positive_number("temperature", temperature)
    if scores.ndim != 2 or scores.shape[1] != classes or not len(scores):
        raise AuditError(f"scores have shape {scores.shape}; they must be [examples, {classes}], one for each class")
    logits = scores.astype(np.float64) / temperature
    if scores.min() >= 0 and np.allclose(scores.sum(-1, dtype=np.float64), 1, atol=UNIT):
        raise AuditError("the scores of each example are >= 0 and sum to 1: probabilities; give their logarithms")
    wrong = np.argwhere(~np.isfinite(logits))
    if len(wrong):
        row, column = wrong[0]
        raise AuditError(f"the score of example {row} for class {column} is {scores[row, column]}; it must be finite")
    span = np.ptp(logits, axis=-1)
    if span.max() > SPAN:
        raise AuditError(
            f"the scores of example {span.argmax()} span {span.max():.4g} nats at temperature {temperature:g}; their "
            f"softmax is audited up to {SPAN:g}: is the temperature right?"
        )
    p = np.exp(np.maximum(logits - logits.max(-1, keepdims=True), -DEPTH))
    return np.asarray(p / p.sum(-1, keepdims=True))


def spread(p: Floats, prior: Floats) -> float:
    r"""The spread of :math:`\log P(y\mid x)/\pi(y)` over y from :math:`\pi`, in nats."""
    part = (p > 0) & (prior > 0)
    values, weight = np.log(p[part] / prior[part]), prior[part] / prior[part].sum()
    return float(np.sqrt(max(0.0, weight @ values**2 - (weight @ values) ** 2)))
