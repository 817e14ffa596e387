r"""Intervals over seeds, and the rules by which chapters and the register decide from them.

They estimate the median over seeds of a method's number, or of the difference of two methods that share their seeds
(initial weights, data order, uniform numbers behind the noise). The mean is no alternative: where one run in ten
diverges, eight runs without such a run say nothing about it.

The interval for the median at confidence c covers two others: Student's
:math:`\bar d \pm t_{n-1,(1+c)/2}\,s/\sqrt n`, and from the sorted seeds :math:`d_{(k)}` to :math:`d_{(n+1-k)}` with
the largest k for which a sign test errs at most 1 - c. The second holds for every distribution, and needs
:math:`2^{1-n} \le 1-c`: 6 seeds at 95 %. With fewer, Student's interval is taken `WIDER` times as wide, for skewed
seeds. Runs that are all equal decide nothing.

The register's page prints :data:`RULES` with the error rates that ``benchmarks/decisions.py`` simulates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, stdtrit

Outcome: TypeAlias = Literal["less", "more", "alike", "undecided"]
"""What an interval says of a difference."""

Verdict: TypeAlias = Literal["shown", "excluded", "alike", "undecided"]
"""The verdict of an interval on a published range."""

Published: TypeAlias = tuple[float | None, float | None]
"""Lower and upper end of a published range; None is an open end."""

FAMILY_LEVEL = 0.05
"""Bound on the probability that any claim of a family gets a wrong verdict."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "longtail": (
        "negatives-f-const-tail", "negatives-f-beats-ce", "negatives-f-tail-weights", "negatives-f-relative-head",
        "negatives-f-q-matters", "negatives-f-limits", "negatives-fig-3", "negatives-fig-4-5", "negatives-fig-6",
    ),
    "retrieval": ("negatives-f-within-tail", "negatives-f-uniform-head", "negatives-fig-8"),
    "vae": ("perturb-f-vae",),
    "fits": ("perturb-fig-4", "perturb-fig-9"),
    "negatives": ("negatives-remark-6",),
    "catalogue": ("sumexp-gowalla-correction", "sumexp-gowalla-refined", "sumexp-gowalla-drift"),
}  # fmt: skip
"""The claims that the trained networks of a chapter decide."""

WIDER = 2.25
"""How many times as wide as Student's interval is that of seeds that are too few for a sign test."""

ROOM = 5.0
"""So many margins must be left on either side of a share for "no difference" to mean something."""


@dataclass(frozen=True)
class Interval:
    """The interval for the median of runs, one number for each seed.

    Attributes:
        runs: the numbers [n].
        confidence: probability that the interval covers the median.
        room: distance of the compared shares from 0 and 1; infinite for unbounded numbers.
    """

    runs: tuple[float, ...]
    confidence: float = 0.95
    room: float = math.inf

    @property
    def count(self) -> int:
        """The number of seeds n."""
        return len(self.runs)

    @property
    def mean(self) -> float:
        """The mean, which lies in the interval."""
        return float(_mean(np.sort(self.runs)))

    @property
    def low(self) -> float:
        """The interval's lower end."""
        return self._ends[0]

    @property
    def high(self) -> float:
        """Its upper end."""
        return self._ends[1]

    @cached_property
    def _ends(self) -> tuple[float, float]:
        low, high = ends(self.runs, self.confidence)
        return float(low), float(high)

    @property
    def sign(self) -> int:
        """1 if the interval is above zero, -1 if it is below, else 0."""
        return (int(self.low > 0) - int(self.high < 0)) * int(has_width(self.low, self.high))

    def at(self, confidence: float) -> "Interval":
        """The interval of the same runs at another confidence, in (0, 1)."""
        return replace(self, confidence=confidence)

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence is {self.confidence}; it must lie inside (0, 1)")
        if self.count < 2 or not np.isfinite(self.runs).all():
            raise ValueError(f"{self.count} runs {self.runs[:10]}: two or more finite numbers are needed")

    def __neg__(self) -> "Interval":
        return replace(self, runs=tuple(-run for run in self.runs))


def ends(runs: ArrayLike, confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends of the intervals of many experiments, each with a number per seed [..., n]."""
    runs = np.sort(runs)
    count, mean = runs.shape[-1], _mean(runs)
    variance = _mean((runs - mean[..., None]) ** 2) / (count - 1)
    reach = stdtrit(count - 1, (1 + confidence) / 2) * np.sqrt(variance)
    # How many seeds may lie beyond an end; -1 if even none errs too often.
    beyond = int((bdtr(np.arange(count), count, 0.5) <= (1 - confidence) / 2).sum()) - 1
    if beyond < 0:
        beyond, reach = 0, WIDER * reach
    return np.minimum(mean - reach, runs[..., beyond]), np.maximum(mean + reach, runs[..., -1 - beyond])


def _mean(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of sorted runs, to the last digit the mirror image of that of the negative runs."""
    return np.asarray((ordered + ordered[..., ::-1]).mean(-1) / 2)


def has_width(low: ArrayLike, high: ArrayLike) -> NDArray[np.bool_]:
    """Whether intervals have a width that is not rounding: runs that are all equal decide nothing."""
    return np.asarray(np.subtract(high, low) > 1e-9 * np.maximum(np.abs(low), np.abs(high)))


@dataclass(frozen=True)
class Decision:
    """The joint verdict on several differences, and the interval that decides it."""

    verdict: Verdict
    interval: Interval


@dataclass(frozen=True)
class Rule:
    """A rule in words: the question, the answer, and how often it is wrong at most."""

    question: str
    answer: str
    errs: str


RULES: tuple[Rule, ...] = (
    Rule(
        "does one method have less than another?",
        "`less` or `more` if the interval over paired seeds lies on that side of zero; `no difference` if it lies "
        "within the margin of zero, and five margins are left between both shares and 0 or 1; else `undecided`",
        "1 - confidence",
    ),
    Rule(
        "do all of k differences lie below zero?",
        "`holds` if each is `less`; `not reproduced` if one is `more` at k times the confidence's complement; "
        "else `open`",
        "half of 1 - confidence either way, however large k is",
    ),
    Rule(
        "does a number agree with a published range?",
        "`holds` if the interval lies within the range, and for a difference of shares five half-widths of the range "
        "are left between both shares and 0 or 1; `not reproduced` if it lies outside; else `open`",
        "1 - confidence",
    ),
    Rule(
        "at which confidence?",
        "a family of claims is what the runs of one chapter decide; with n of them each is decided at "
        "1 - 0.05/n (Bonferroni), so that no verdict waits for the others' runs",
        "5 % for one wrong verdict or more in a family",
    ),
)
"""What decides, in words: the chapters' tables and the register ask the same functions."""


def interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """The interval of independent runs, two or more finite numbers [n]; else a ValueError.

    >>> interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).low  # six runs all lie above the median in 1 of 64 experiments
    1.0
    """
    return Interval(tuple(np.asarray(values, dtype=np.float64).reshape(-1).tolist()), confidence)


def paired(first: ArrayLike, second: ArrayLike, confidence: float = 0.95, shares: bool = False) -> Interval:
    """The interval of ``first - second`` [n], paired by seed.

    ``shares`` are errors or recalls, which leave no room for a difference near 0 and 1.

    Raises:
        ValueError: as :func:`interval`, for different lengths, and if a mean share is outside [0, 1].
    """
    a, b = (np.asarray(values, dtype=np.float64).reshape(-1) for values in (first, second))
    if a.size != b.size:
        raise ValueError(f"{a.size} runs are paired with {b.size}; give both for the same seeds")
    apart = interval(a - b, confidence)
    if not shares:
        return apart
    means = [float(a.mean()), float(b.mean())]
    if not all(0 <= mean <= 1 for mean in means):
        raise ValueError(f"the mean shares are {means}; both must lie in [0, 1]")
    return replace(apart, room=min(min(mean, 1 - mean) for mean in means))


def family_confidence(family: str) -> float:
    """The confidence at which each claim of a family is decided: 1 - 0.05 / n for n of them (Bonferroni).

    >>> family_confidence("vae")
    0.95
    """
    if family not in FAMILIES:
        raise ValueError(f"family is {family!r}, expected one of {', '.join(FAMILIES)}")
    return 1 - FAMILY_LEVEL / len(FAMILIES[family])


def outcome(difference: Interval, margin: float = 0.0) -> Outcome:
    """What an interval says of a difference; differences within the ``margin`` (finite, >= 0) count as none.

    >>> outcome(interval([-0.31, -0.30, -0.29]), margin=0.01)
    'less'
    """
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin is {margin}; it must be a finite number, 0 or more")
    verdict = judge(difference.low, difference.high, (None, 0), margin, difference.room)
    return _OUTCOMES.get(verdict, verdict)  # type: ignore[arg-type]


_OUTCOMES: Mapping[Verdict, Outcome] = {"shown": "less", "excluded": "more"}
_ENDS = -math.inf, math.inf


def judge(
    low: float, high: float, published: Published | None, margin: float = 0.0, room: float | None = None
) -> Verdict:
    """What an interval from ``low`` to ``high`` says of the ``published`` range; without a range everything agrees.

    Within the ``margin`` around the only end of a half-open range a difference counts as none, if the shares lie
    `ROOM` margins from 0 and 1 (``room``). A closed range is shown if they lie `ROOM` times its half-width from there.

    >>> judge(-0.02, -0.01, (None, 0))
    'shown'
    >>> judge(0.4, 1.2, (0.9, 1.1))
    'undecided'
    """
    if published is None:
        return "shown"
    if not has_width(low, high):
        return "undecided"
    least, most = (infinity if end is None else end for infinity, end in zip(_ENDS, published, strict=True))
    half_open = math.isinf(most - least)
    has_room = room is None or room >= ROOM * (margin if half_open else (most - least) / 2)
    if half_open and any(end - margin < low and high < end + margin for end in (least, most)):
        return "alike" if has_room else "undecided"
    if high < least or low > most:
        return "excluded"
    return "shown" if least < low and high < most and (half_open or has_room) else "undecided"


def all_below(differences: Sequence[Interval], margin: float = 0.0, parts: int = 1) -> Decision:
    """Whether *all* expected differences, one or more intervals of one confidence c, lie below zero.

    They do if every interval does: then the highest upper end decides. They do not if one interval is above zero at ``1
    - (1 - c) / (k parts)``, for k intervals and ``parts`` such sets, each of which can exclude one claim. Either
    verdict is wrong with probability at most ``(1 - c) / 2``: one null interval stops the first, and k share the
    second. Differences within the ``margin`` count as none, and stop both.

    >>> low, wide = interval([-2.1, -2.0, -1.9]), interval([-9.0, 0.0, 9.0])
    >>> all_below([low, wide]).verdict, all_below([low]).verdict
    ('undecided', 'shown')
    """
    levels = {span.confidence for span in differences}
    if len(levels) != 1:
        raise ValueError(f"there are no differences of one confidence, but of {sorted(levels)}; give one at least")
    wide = 1 - (1 - levels.pop()) / (len(differences) * parts)
    outcomes = [outcome(span, margin) for span in differences]
    above = [span.at(wide) for span, kind in zip(differences, outcomes, strict=True) if kind == "more"]
    if above and (begins_highest := max(above, key=lambda span: span.low)).sign > 0:
        return Decision("excluded", begins_highest)

    def highest(*kinds: Outcome) -> Interval:
        spans = (span for span, kind in zip(differences, outcomes, strict=True) if kind in kinds)
        return max(spans, key=lambda span: span.high)

    if {"undecided", "more"} & set(outcomes):
        return Decision("undecided", highest("undecided", "more").at(wide))
    return Decision("alike", highest("alike")) if "alike" in outcomes else Decision("shown", highest("less"))


def all_above(differences: Sequence[Interval], margin: float = 0.0, parts: int = 1) -> Decision:
    """Whether *all* expected differences lie above zero: :func:`all_below` mirrored."""
    decided = all_below([-span for span in differences], margin, parts)
    return Decision(decided.verdict, -decided.interval)


def agreement(first: ArrayLike, second: ArrayLike) -> Interval:
    """Kendall's tau-b of two orders of the same n methods, seed by seed.

    ``first`` is [n] or [n, seeds], ``second`` [n, seeds]; equal numbers are ties, other shapes a ValueError. The
    interval is over seeds. It is no test of chance, as similar methods are not independent.

    >>> round(agreement([1, 2, 3, 4], [[1, 2], [2, 1], [3, 3], [4, 4]]).mean, 4)  # the second orders 5 of 6 pairs alike
    0.8333
    """
    b = np.asarray(second, dtype=np.float64)
    a = np.asarray(first, dtype=np.float64)
    if b.ndim != 2 or min(b.shape) < 2 or a.shape not in (b.shape, b.shape[:1]):
        raise ValueError(
            f"orders of shapes {a.shape} and {b.shape}; give [n] or [n, seeds], then [n, seeds] of two or more"
        )
    return interval((_signs(np.broadcast_to(a.reshape(len(b), -1), b.shape)) * _signs(b)).sum((1, 2)))


def _signs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The signs of all differences of [n, seeds] for each seed, over the root of their number: [seeds, n, n]."""
    signs = np.sign(values.T[:, :, None] - values.T[:, None, :])
    norm = np.sqrt(np.abs(signs).sum((1, 2), keepdims=True))
    result: NDArray[np.float64] = signs / np.where(norm > 0, norm, 1.0)  # all tied: no order, tau 0
    return result
