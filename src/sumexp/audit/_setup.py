r"""The training to audit: the source of negatives, the correction of the logits, the rule for hits.

A sampler is a name, such as ``within-batch``, ``unigram:0.75`` or ``distinct:log-uniform``, or a law: a tensor, an
object with ``log_prob`` and ``classes``, or a function of class ids. Each becomes pools of draws with replacement, or
one set: the union of m draws, or the first m distinct ids.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor

from sumexp import _checks as checks
from sumexp.negatives.consistency import factors
from sumexp.negatives.race import inclusion
from sumexp.samplers import Hits, LogUniform, Sampler, log_inclusion

Floats = NDArray[np.float64]

Weights = Literal["none", "constant", "importance", "negatives", "relative", "added", "tail", "arrival"]
"""What a negative weighs: see :func:`log_weights`."""

MOST_SPAN = 100.0
"""The largest range in nats of a table of log q."""

EXACT = 2_000
"""Classes up to which the probability to be among m distinct ids is an exact integral."""

Kind = Literal["draws", "union", "distinct"]
"""Draws with replacement, the set of classes among them, or the first so many distinct ones."""

Law = str | Tensor | Floats | Sampler | Callable[[Tensor], Tensor]
"""A sampler by name, a law [classes], an object with ``classes`` and ``log_prob``, or class numbers to log q."""

NAMES = (
    "uniform, log-uniform, unigram[:POWER], within-batch, within-batch-union, mixed, cross-batch:KEPT, "
    "cross-device:DEVICES, union:LAW, distinct:LAW"
)


BATCHES = {
    "within-batch": "draws",
    "cross-batch:": "draws",
    "cross-device:": "draws",
    "within-batch-union": "union",
    "mixed": "mixed",
}
"""How samplers draw that take the labels of examples."""


class AuditError(ValueError):
    """An argument or file cannot be audited; the message names the value, its place and the fix."""


@dataclass(frozen=True)
class Setup:
    """A way of training with sampled negatives."""

    name: str  # of the sampler, as it was given
    q: Floats  # [pools, classes] law of one draw from each pool; for a set the probabilities that it holds the classes
    m: Floats  # [pools] draws from each; for a set its expected size
    kind: Kind  # of the negatives
    weights: Weights  # of the negatives; see log_weights
    hits: Hits  # the rule for draws of the label
    table: Floats | None = None  # [classes] the user's log q; None if it is the true one
    law: Floats | None = None  # [classes] of one draw, for a set; None otherwise
    asked: int | None = None  # number of draws of a union, or of distinct ids; None otherwise

    @property
    def is_set(self) -> bool:
        """Whether the negatives are one set."""
        return self.kind != "draws"

    @property
    def negatives(self) -> float:
        """The number of negatives, expected where it is random."""
        return float(self.m.sum())

    @property
    def log_q(self) -> Floats:
        """[classes] log of the share of negatives that a class is expected to be."""
        count = self.q[0] if self.is_set else self.m @ self.q
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(count / self.negatives))

    @property
    def title(self) -> str:
        """The scheme in a few words."""
        words = {
            "none": "no correction",
            "constant": "weight 1/m",
            "importance": "log mq subtracted from negatives",
            "negatives": "log q subtracted from negatives",
            "relative": "log q subtracted from all logits",
            "added": "log q added to all logits",
            "tail": "tail weights",
            "arrival": "log(1 - exp(-qT)) subtracted from all logits",
        }
        hits = {"keep": "kept", "mask": "masked", "redraw": "redrawn"}[self.hits]
        table = ", given log q" if self.table is not None else ""
        return f"{self.name}, {words[self.weights]}{table}, hits {hits}"

    def draws(self, m: int, number: Floats) -> "Setup":
        """The same with m draws, at least one of each pool, or where the ids of a set are to differ with a set of m.

        The shares of several pools stay. A column of the laws stands for ``number`` classes.
        """
        if self.law is None:
            return replace(self, m=self.m * (m / self.negatives))
        held = _distinct(self.law, m, number) if self.kind == "distinct" else _union(self.law, m)
        return replace(
            self, q=held[None], m=np.array([float(m) if self.kind == "distinct" else number @ held]), asked=m
        )

    def with_weights(self, weights: Weights, hits: Hits) -> "Setup":
        """The same negatives, weighted and treated otherwise, with the true log q."""
        return replace(self, weights=weights, hits=hits, table=None)


def read_setup(
    prior: Floats, sampler: Law, weights: Weights, hits: Hits, m: int | None, batch: int | None, table: object = None
) -> Setup:
    """Check and read the options of a training, those of :func:`sumexp.audit.audit`; ``prior`` is the labels' law."""
    for name, value, allowed in (("weights", weights, get_args(Weights)), ("hits", hits, get_args(Hits))):
        if value not in allowed:
            raise AuditError(f"{name} is {value!r}; expected one of {', '.join(allowed)}")
    if table is not None and weights in ("none", "constant"):
        raise AuditError(
            f"log_q is given, but weights {weights!r} subtract nothing from the logits: choose the weights that use it"
        )
    others = batch is not None and whole_number("batch", batch, 2) - 1
    named = sampler if isinstance(sampler, str) else ""
    if named in ("within-batch", "within-batch-union") and others and m is not None and m != others:
        raise AuditError(
            f"m is {m} and batch {batch}; within a batch of {batch} there are {others} negatives: give one"
        )
    pool, colon, size = named.partition(":")
    if pool in ("cross-batch", "cross-device"):
        number_of = "kept" if pool == "cross-batch" else "devices"
        try:
            more = whole_number(number_of, int(size), 1)
        except ValueError as error:
            raise AuditError(f"{pool} needs a whole number of {number_of}, as in {pool}:8, not {size!r}") from error
        if batch is None or others is None:
            raise AuditError(f"{named} needs batch, the examples of one batch on one device")
        joined = others + more if pool == "cross-batch" else batch * more - 1
        if m is not None and m != joined:
            raise AuditError(f"m is {m}, but {named} with batch {batch} gives {joined} negatives: leave m out")
        others = joined
    if named == "mixed" and (not others or m is None):
        raise AuditError("mixed negatives need batch, the batch size, and m, the number of uniform ones")
    if m is None and not others:
        raise AuditError("m is not given: pass the negatives per example (-m 255) or the batch size (--batch 256)")
    if m is not None and others and pool + colon not in BATCHES:
        raise AuditError(f"m is {m} and batch {batch}; the batch changes nothing for this sampler: leave batch out")
    draws = whole_number("m", others if m is None and others and named != "mixed" else m, 1)
    kind, law = _read(sampler, prior)
    scheme = Setup(named or "given distribution", law[None], np.array([float(draws)]), "draws", weights, hits)
    if kind == "mixed":
        q, m_of_pools = np.stack([prior, np.full_like(prior, 1 / len(prior))]), np.array([float(others), float(draws)])
        scheme = replace(scheme, q=q, m=m_of_pools)
    elif kind != "draws":
        scheme = replace(scheme, kind=cast(Kind, kind), law=law).draws(draws, np.ones_like(law))
    if hits == "redraw" and scheme.q.max() >= 1:
        raise AuditError("a class is drawn with certainty: as a label it leaves no negative to draw again")
    if weights == "arrival" and (kind != "distinct" or hits != "mask" or table is not None):
        raise AuditError(
            f"weights 'arrival' are those of samplers.distinct: they need a sampler distinct:LAW, hits masked and no "
            f"log_q; the sampler is {named or 'a law'}, hits {hits!r}"
        )
    if weights == "arrival" and draws + 2 > (law > 0).sum():
        raise AuditError(f"m is {draws}, with {int((law > 0).sum())} classes that can be drawn; arrival needs m + 2")
    if scheme.is_set and hits == "redraw":
        raise AuditError("a set of distinct ids is not drawn again for one label; hits are mask or keep")
    return scheme if table is None else replace(scheme, table=_table(table, scheme))


def log_weights(setup: Setup, log_q: Floats, table: Floats, prior: Floats) -> tuple[Floats, Floats]:
    r"""The two factors of the weights, :math:`\log w_{yy'} = a_y + b_{y'}`, for classes or for bins of classes.

    ============  =======================================================================
    weights       what is subtracted from the logits, and the weight of a negative
    ============  =======================================================================
    none          nothing: :math:`w = 1`, as in InfoNCE or a plain in-batch softmax
    constant      :math:`w = 1/m`
    importance    :math:`\log(mq)` from the negatives: :math:`w = 1/(mq_{y'})`
    negatives     :math:`\log q` from the negatives: :math:`w = 1/q_{y'}`
    relative      :math:`\log q` from all: :math:`w = q_y/q_{y'}`
    added         :math:`\log q` added to all: :math:`w = q_{y'}/q_y`
    tail          :math:`w = \pi_{y'}/(mq_{y'}\pi_y)`
    arrival       those of :func:`sumexp.samplers.distinct`, which know the time of the next arrival
    ============  =======================================================================

    With redrawn hits, importance and tail weights use the law of the draws, :math:`q_{y'}/(1-q_y)`, instead of
    :math:`q_{y'}`; a training that subtracts a table of :math:`\log(mq)` there passes it as ``log_q``.

    ``log_q`` is the logarithm of the share of negatives, ``table`` the user's, ``prior`` the law of the labels.
    """
    zero = np.zeros_like(log_q)
    match setup.weights:
        case "none":
            return zero, zero
        case "negatives":
            return zero, -table
        case "importance" if setup.table is not None:
            return zero, -table
        case "added":
            return -table, table
    kind = "relative" if setup.weights == "arrival" else setup.weights  # over independent members that is what it is
    a, b = factors(kind, torch.from_numpy(table), 1, hits=setup.hits, prior=torch.from_numpy(np.log(prior)))
    # m enters as a factor alone, since it need not be an integer
    return a.numpy() - (0.0 if kind == "relative" else math.log(setup.negatives)), b.numpy()


def law_of(sampler: Law, prior: Floats) -> Floats:
    """The law of one draw, [classes], of a sampler that draws one by one."""
    kind, q = _read(sampler, prior)
    if kind != "draws":
        raise AuditError(f"candidates are drawn one by one; {sampler!r} is not a law of one draw")
    return q


def _read(sampler: Law, prior: Floats) -> tuple[str, Floats]:
    """How a sampler draws, and the law of one draw, [classes]."""
    if not isinstance(sampler, str):
        return "draws", _given(sampler, len(prior))
    first, colon, rest = sampler.partition(":")
    if first in ("union", "distinct"):
        return first, _named(rest, prior)
    if first + colon in BATCHES:  # labels of other batches and devices are draws from the same law
        return BATCHES[first + colon], _named("unigram", prior)
    return "draws", _named(sampler, prior)


def _named(name: str, prior: Floats) -> Floats:
    first, colon, _ = name.partition(":")
    if name == "uniform":
        return np.full_like(prior, 1 / len(prior))
    if name == "log-uniform":
        return np.asarray(LogUniform(len(prior)).log_prob(torch.arange(len(prior))).exp().numpy())
    if first == "unigram":
        exponent = parameter(name, "the power of unigram", "unigram:0.75") if colon else 1.0
        # relative to the largest count, so that a high power ends at 0 and not at 0/0
        weight = (prior / prior.max()) ** exponent * (prior > 0)
        return np.asarray(weight / weight.sum())
    raise AuditError(f"no sampler {name!r}; there are {NAMES}, or a distribution")


def _given(sampler: Tensor | Floats | Sampler | Callable[[Tensor], Tensor], classes: int) -> Floats:
    ids = torch.arange(classes)
    if isinstance(sampler, Tensor | np.ndarray):
        try:
            values, logs = checks.held("the law q", checks.tensor("the law q", sampler)).detach().cpu(), False
        except ValueError as error:
            raise AuditError(str(error)) from error
    else:
        call = getattr(sampler, "log_prob", sampler)
        if not callable(call):
            raise AuditError(
                f"the sampler is {type(sampler).__name__}; give a name, a law or a function of ids to log q"
            )
        known = getattr(sampler, "classes", classes)
        if known != classes:
            raise AuditError(f"the sampler has {known:,} classes, the counts {classes:,}; give one for each")
        try:
            values, logs = torch.as_tensor(call(ids)).detach().cpu(), True
        except Exception as error:  # the user's code may raise anything
            what = f"{type(error).__name__}: {error}"
            raise AuditError(f"the sampler fails for the ids 0..{classes - 1}: {what}") from error
    if values.shape != (classes,):
        raise AuditError(f"the sampler gives shape {tuple(values.shape)} for {classes} ids; it must be ({classes},)")
    if values.is_floating_point() and values.dtype not in checks.FLOATS:  # float8
        values = values.float()
    try:
        law = checks.log_law("log q of the sampler", values).exp() if logs else checks.law("the law q", values)
    except ValueError as error:
        raise AuditError(str(error)) from error
    return np.asarray(law.numpy(), dtype=np.float64)


def _union(q: Floats, m: int) -> Floats:
    """The probability that a class is among m draws."""
    log_q = torch.from_numpy(np.log(np.maximum(q, 1e-300)))
    return np.asarray(np.exp(log_inclusion(log_q, m).numpy()) * (q > 0))


def _distinct(q: Floats, m: int, number: Floats) -> Floats:
    r"""The probability that a class is among the first m distinct ids.

    It is exact for up to :data:`EXACT` classes, each by itself. Beyond them it is :math:`1-e^{-q_iT}`, where T is such
    that the sum is m (Rosén, 1972); with 2,001 to 20,000 classes that is off by less than 1 % for m of 20 or more, and
    by less than 10 % for two.
    """
    drawable = q > 0
    drawn = int(number[drawable].sum())
    if m >= drawn:
        raise AuditError(f"m is {m}, but only {drawn} classes can be drawn: there are no {m} distinct negatives")
    held = np.zeros_like(q)
    if drawn == len(q[drawable]) <= EXACT:
        held[drawable] = inclusion(torch.from_numpy(np.log(q[drawable])), m).numpy()
        return held

    def more(log_time: float) -> float:
        return float(number @ -np.expm1(-q * math.exp(log_time))) - m

    log_time = brentq(more, math.log(m) - 1, math.log(m + 50) - math.log(q[drawable].min()), xtol=1e-13)
    return np.asarray(-np.expm1(-q * math.exp(log_time)))


def _table(table: object, setup: Setup) -> Floats:
    if isinstance(table, str):  # the right table with small values raised
        if not table.startswith("clipped:"):
            raise AuditError(f"log_q is {table!r}; give [classes] numbers, or clipped:LEAST")
        least = parameter(table, "the least probability of clipped", "clipped:1e-6", 1e-300, 1.0)
        return np.maximum(setup.log_q, math.log(least))
    values = np.asarray(table, dtype=np.float64)
    classes = setup.q.shape[-1]
    if values.shape != (classes,):
        raise AuditError(f"log_q has shape {values.shape}; it must hold one number for each of {classes} classes")
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        place = int(wrong[0])
        raise AuditError(f"log_q is {values[place]} for class {place}; add one to each count, or leave the class out")
    span, whole = np.ptp(values), (values == values.round()).all()
    if span > MOST_SPAN or (values.min() >= 0 and (abs(values.sum() - 1) < 0.01 or (whole and span > 0))):
        ends = f"{values.min():.4g} to {values.max():.4g}"
        raise AuditError(f"log_q runs from {ends}, as probabilities or counts do; give their logarithms")
    return values


def parameter(name: str, what: str, example: str, least: float = 0.0, most: float = 1e300) -> float:
    """The number after the colon of a name."""
    text = name.partition(":")[2]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise AuditError(f"{what} is {text!r}; it is a number from {least:g} to {most:g}, as in {example}")
    return value


def positive_number(name: str, value: object) -> float:
    """A positive, finite number, or an array or tensor of one, which may require a gradient."""
    try:
        return checks.number(name, value.item() if isinstance(value, Tensor | np.ndarray) and not value.ndim else value)
    except (ValueError, RuntimeError) as error:
        raise AuditError(str(error)) from error


def whole_number(name: str, value: object, least: int) -> int:
    """A whole number, at least ``least``."""
    try:
        return checks.whole(name, value, least)
    except ValueError as error:
        raise AuditError(str(error)) from error


@dataclass(frozen=True)
class Rates:
    """Shares between 0 and 1."""

    any_hit: float  # probability that one of the negatives is the label, over all labels
    never_drawn: int  # number of classes that are labels but never negatives
    never_labels: float  # their share of the labels


def rates(prior: Floats, setup: Setup) -> Rates:
    r"""Accidental hits, :math:`\sum_y\pi_y\big(1-\prod_i(1-q^{(i)}_y)^{m_i}\big)`, and one-sided classes."""
    if setup.is_set:
        hit = setup.q[0]
    else:
        with np.errstate(divide="ignore"):
            hit = -np.expm1(setup.m @ np.log1p(-np.minimum(setup.q, 1.0)))
    if setup.weights == "arrival":  # the label takes no part
        hit = np.zeros_like(hit)
    lost = (prior > 0) & ~(setup.q.max(0) > 0)
    return Rates(float(prior @ hit), int(lost.sum()), float(prior[lost].sum()))
