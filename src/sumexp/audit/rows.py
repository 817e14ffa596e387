r"""The classes of a table of counts as rows, and the truths that an audit assumes or is given.

Without scores nobody knows P(y|x). The audit then takes :math:`P_y \propto \pi_ye^{\sigma z_y}` with independent normal
z: :math:`\sigma` is the spread of :math:`\log P(y\mid x)/\pi(y)`, and :math:`\sigma = 0` says that the context tells
nothing. Where many classes have one count, how many of them fall into each narrow cell of z is one multinomial draw,
so that ten million classes become some ten thousand rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sumexp.audit.setup import AuditError, Setup

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MANY = 500
"""Classes of one count from which on they are put into cells of z."""

SPAN = 1000.0
"""Nats between the scores of one example from which on the temperature must be wrong."""

DEPTH = 100.0
"""Nats below the best score at which all that is lower is taken to stand: e^-100 of the best's probability moves no
digit, and beyond it the integrals run out of the range of floats."""

EDGES = np.linspace(-6.5, 6.5, 261)
"""Cells of z, .05 wide: their middles miss a moment of the law by less than 10^-3."""


@dataclass(frozen=True)
class Rows:
    """Classes, or lots of classes that are alike.

    Attributes:
        number: [rows] classes in the row.
        first: [rows] one of them.
        prior: [rows] the share of the labels that each of them has.
        group: [rows] 0 head, 1 torso, 2 tail; -1 for a class without labels.
        z: [rows] standard normal numbers, NaN where the truth is given.
    """

    number: Floats
    first: Integers
    prior: Floats
    group: Integers
    z: Floats

    def of(self, how: Setup) -> Setup:
        """The scheme with its laws (and table) on the rows."""
        table, law = (None if each is None else each[self.first] for each in (how.table, how.law))
        return replace(how, q=how.q[:, self.first], table=table, law=law)

    def truth(self, sigma: float) -> Floats:
        r"""[rows] the law of each class, :math:`P \propto \pi e^{\sigma z}`."""
        with np.errstate(divide="ignore"):
            logits = np.where(self.prior > 0, np.log(self.prior) + sigma * self.z, -np.inf)
        p = np.exp(logits - logits.max())
        return np.asarray(p / (self.number @ p))


def groups(counts: NDArray[Any]) -> Integers:
    """Head, torso, tail: the most frequent classes with a third of the labels, the next third, the rest; [classes].

    Classes of equal count are in one group; a class that never is a label is in none (-1).
    """
    order = np.argsort(-counts.astype(np.float64), kind="stable")
    share = np.cumsum(counts[order], dtype=np.float64)
    before = np.concatenate([[0.0], share[:-1]]) / share[-1]
    first = np.searchsorted(-counts[order].astype(np.float64), -counts[order].astype(np.float64))
    found = np.empty(len(counts), dtype=np.int64)
    found[order] = np.searchsorted([1 / 3, 2 / 3], before[first], side="right")
    found[counts == 0] = -1
    return found


def assumed(counts: NDArray[Any], prior: Floats, alike: bool, seed: int = 0) -> Rows:
    """Rows for assumed truths.

    Args:
        counts: [classes] how often each is a label.
        prior: [classes] their shares.
        alike: whether classes of equal count have the same law and table in every scheme that is looked at.
        seed: of z.
    """
    generator = np.random.default_rng(seed)
    group = groups(counts)
    if not alike:
        ids = np.arange(len(counts))
        return Rows(np.ones(len(counts)), ids, prior, group, generator.standard_normal(len(counts)))
    _, first, inverse, number = np.unique(counts, return_index=True, return_inverse=True, return_counts=True)
    few = number <= MANY
    single = np.flatnonzero(few[inverse])
    parts = [(np.ones(len(single)), single, generator.standard_normal(len(single)))]
    chance = np.diff(ndtr(EDGES))
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    for which in np.flatnonzero(~few):
        found = generator.multinomial(int(number[which]), chance / chance.sum())
        some = found > 0
        parts.append((found[some].astype(float), np.full(int(some.sum()), first[which]), middle[some]))
    members, ids, z = (np.concatenate(x) for x in zip(*parts, strict=True))
    return Rows(members, ids, prior[ids], group[ids], z)


def given(counts: NDArray[Any], prior: Floats) -> Rows:
    """One row for each class, for truths that come from scores."""
    nothing = np.full(len(counts), np.nan)
    return Rows(np.ones(len(counts)), np.arange(len(counts)), prior, groups(counts), nothing)


def posteriors(scores: NDArray[Any], temperature: float, classes: int) -> Floats:
    r"""[examples, classes] :math:`\operatorname{softmax}(\text{scores}/\tau)`, the truths that the scores stand for.

    Raises:
        AuditError: if the scores are no numbers [examples, classes], or the temperature is not positive.
    """
    if not 0 < temperature < np.inf:
        raise AuditError(f"temperature is {temperature!r}; it must be positive")
    if scores.ndim != 2 or scores.shape[1] != classes or not len(scores):
        raise AuditError(f"scores have shape {scores.shape}; they must be [examples, {classes}], one for each class")
    logits = scores.astype(np.float64) / temperature
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
