r"""What repeated runs decide: intervals over seeds, and the rules by which chapters and the register read them.

For n runs with mean :math:`\bar d` and standard deviation s, :math:`\bar d \pm t_{n-1,(1+c)/2}\,s/\sqrt n` covers the
expected value with probability c if the runs are normal. Two methods that share their seeds (initial weights, order of
the data, uniform numbers behind the noise) are compared by the differences seed by seed.

:data:`RULES` says in words what the functions decide and how often each errs; the page of the register prints it, and
`tests/test_intervals.py` holds each rate against simulated runs of known truth.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

Outcome: TypeAlias = Literal["less", "more", "alike", "no room", "undecided"]
"""What an interval says of a difference."""

Verdict: TypeAlias = Literal["shown", "excluded", "alike", "undecided"]
"""What an interval says of what is published."""

Published: TypeAlias = tuple[float | None, float | None]
"""The least and the most of what is published; None is an open end."""

FAMILY_LEVEL = 0.05
"""The probability with which at least one claim of a family gets a wrong verdict is at most this."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "longtail": (
        "negatives-f-const-tail", "negatives-f-beats-ce", "negatives-f-tail-weights", "negatives-f-relative-head",
        "negatives-f-q-matters", "negatives-f-limits", "negatives-fig-3", "negatives-fig-4-5", "negatives-fig-6",
    ),
    "retrieval": ("negatives-f-uniform-head", "negatives-fig-8"),
    "vae": ("perturb-f-vae",),
    "fits": (
        "perturb-table1-discrete", "perturb-table1-binomial", "perturb-table1-poisson", "perturb-table1-negbin",
        "perturb-fig-4", "perturb-fig-9",
    ),
    "negatives": ("negatives-remark-6",),
    "catalogue": ("sumexp-gowalla-correction", "sumexp-gowalla-refined", "sumexp-gowalla-drift"),
}  # fmt: skip
"""The claims that are decided side by side: those that the trained networks of one chapter decide."""

POWER = 0.8
"""The probability with which a difference counts as one that a design could have seen."""

ROOM = 5.0
"""So many margins must be left on either side of a share for "no difference" to mean something."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its t interval.

    Attributes:
        mean: the mean.
        low: the interval's lower end.
        high: its upper end.
        sd: standard deviation of one run (n - 1 in the denominator).
        count: number of seeds n.
        confidence: probability that the interval covers the expected value.
    """

    mean: float
    low: float
    high: float
    sd: float
    count: int
    confidence: float = 0.95

    @property
    def half_width(self) -> float:
        """Half the interval's width."""
        return (self.high - self.low) / 2

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies on one side of zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def at(self, confidence: float) -> "Interval":
        """The interval of the same runs at another confidence.

        Raises:
            ValueError: if the confidence is not inside (0, 1).
        """
        if confidence == self.confidence:
            return self
        reach = _reach(self.sd, self.count, confidence)
        return Interval(self.mean, self.mean - reach, self.mean + reach, self.sd, self.count, confidence)

    def seen(self, power: float = POWER) -> float:
        r"""The true difference that a design of so many seeds, of this spread, shows with this probability.

        .. math:: (t_{n-1,(1+c)/2} + t_{n-1,\text{power}})\,s/\sqrt n,

        which is the usual approximation of what the noncentral t law says.

        Raises:
            ValueError: if the power is not inside (0, 1).
        """
        if not 0 < power < 1:
            raise ValueError(f"power is {power}; it must lie inside (0, 1)")
        further = float(stdtrit(self.count - 1, power)) * self.sd / math.sqrt(self.count)
        return _reach(self.sd, self.count, self.confidence) + further


@dataclass(frozen=True)
class Decision:
    """What several differences say together.

    Attributes:
        verdict: ``shown``, ``excluded``, ``alike`` or ``undecided``.
        interval: the one that decides it.
    """

    verdict: Verdict
    interval: Interval


@dataclass(frozen=True)
class Rank:
    """How far two orders of the same methods agree.

    Attributes:
        correlation: Kendall's tau-b of each seed: its interval over seeds. It says how far other seeds move it.
        p: the share of the permutations of the methods whose mean tau is as far from 0 on the same side: whether it is
            significantly different from chance. Twice the smaller tail, at most 1.
    """

    correlation: Interval
    p: float

    @property
    def sign(self) -> int:
        """1 or -1 where the agreement is significantly different from chance at `FAMILY_LEVEL`, else 0."""
        return int(np.sign(self.correlation.mean)) if self.p <= FAMILY_LEVEL else 0


@dataclass(frozen=True)
class Rule:
    """A rule in words.

    Attributes:
        question: what is asked.
        answer: when it is answered, and how.
        errs: how often the answer is wrong, at most.
    """

    question: str
    answer: str
    errs: str


RULES: tuple[Rule, ...] = (
    Rule(
        "does one method have less than another?",
        "`less` or `more` if the interval over paired seeds lies on that side of zero and not within the margin; "
        "`no difference` if it lies within the margin; else `undecided`. The chapter's table and the register ask "
        "the same function at the same confidence",
        "1 - confidence, if the runs are normal",
    ),
    Rule(
        "is there no difference?",
        "`no difference` is said only where both shares leave five margins of room on either side; else it is *no "
        "room*, and decides nothing",
        "half of 1 - confidence where the true difference is a margin or more",
    ),
    Rule(
        "do all of k differences lie below zero?",
        "`holds` if each is `less`; `not reproduced` if one is `more` at k times the confidence's complement; "
        "else `open`",
        "half of 1 - confidence either way, however large k is",
    ),
    Rule(
        "does a number agree with a published range?",
        "`holds` if the interval lies within the range; `not reproduced` if it lies outside; where it does both, it "
        "decides nothing, so that a wide interval shows nothing",
        "1 - confidence",
    ),
    Rule(
        "does a prediction have the order of the methods?",
        "Kendall's tau, the mean over seeds, against all permutations of the predictions (9,999 random ones of more "
        "than 7 methods); significantly different from chance if p is at most 5 %. The interval over seeds is shown "
        "too, and decides nothing",
        "5 % where the prediction knows nothing",
    ),
    Rule(
        "at which confidence?",
        "a family is the claims that the runs of one chapter decide; with n of them each is decided at "
        "1 - 0.05/n (Bonferroni), so that no verdict waits for the others' runs",
        "5 % for one wrong verdict or more in a family",
    ),
)
"""What decides, in words."""


def interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """The t interval of the mean of independent runs.

    Args:
        values: one number a seed [n], n >= 2.
        confidence: probability that the interval covers the expected value.

    Raises:
        ValueError: if there are fewer than two values, one is not finite, or the confidence is not inside (0, 1).

    >>> interval([1.0, 2.0, 3.0]).mean
    2.0
    """
    runs = _finite(values)
    sd, mean = float(runs.std(ddof=1)), float(runs.mean())
    reach = _reach(sd, runs.size, confidence)
    return Interval(mean, mean - reach, mean + reach, sd, runs.size, confidence)


def paired(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Interval:
    """The t interval of the mean of ``first - second``, paired by seed.

    Args:
        first: one number a seed [n].
        second: the same seeds in the same order [n].
        confidence: probability that the interval covers the expected difference.

    Raises:
        ValueError: as :func:`interval`, and if the two have different lengths.
    """
    a, b = _finite(first), _finite(second)
    if a.size != b.size:
        raise ValueError(f"{a.size} runs are paired with {b.size}; give both for the same seeds")
    return interval(a - b, confidence)


def family_confidence(family: str) -> float:
    """The confidence at which each claim of a family is decided: 1 - 0.05 / n for n of them (Bonferroni).

    Raises:
        ValueError: if there is no such family.

    >>> family_confidence("vae")
    0.95
    """
    if family not in FAMILIES:
        raise ValueError(f"family is {family!r}, expected one of {', '.join(FAMILIES)}")
    return 1 - FAMILY_LEVEL / len(FAMILIES[family])


def outcome(difference: Interval, margin: float = 0.0, room: float = math.inf) -> Outcome:
    """What an interval says of a difference; the only rule for "no difference".

    Args:
        difference: the interval.
        margin: a difference that is nearer to zero is none.
        room: how far the compared shares lie from 0 and 1 (:func:`room`); infinite for what has no ends.

    Raises:
        ValueError: if the margin is negative or not finite.

    >>> outcome(interval([-0.31, -0.30, -0.29]), margin=0.01)
    'less'
    """
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin is {margin}; it must be a finite number, 0 or more")
    if -margin < difference.low and difference.high < margin:
        return "alike" if room >= ROOM * margin else "no room"
    return {-1: "less", 1: "more"}.get(difference.sign, "undecided")  # type: ignore[return-value]


def room(*shares: ArrayLike) -> float:
    """How far the mean shares (errors, recalls) of both methods lie from 0 and from 1, at least.

    Raises:
        ValueError: if there is none, or a mean lies outside [0, 1].

    >>> round(room([0.98, 1.0], [0.9, 0.9]), 6)
    0.01
    """
    means = [float(np.asarray(one, dtype=np.float64).mean()) for one in shares]
    if not means or not all(0 <= mean <= 1 for mean in means):
        raise ValueError(f"the mean shares are {means}; give one or more, each in [0, 1]")
    return min(min(mean, 1 - mean) for mean in means)


def judge(low: float, high: float, published: Published | None, margin: float = 0.0) -> Verdict:
    """What an interval says of what is published.

    Args:
        low: the interval's lower end.
        high: its upper end.
        published: the range that is published; None if nothing is, and then all agrees.
        margin: about the only end of a half-open range, within which nothing is said: a difference so small is none.

    >>> judge(-0.02, -0.01, (None, 0))
    'shown'
    >>> judge(0.4, 1.2, (0.9, 1.1))
    'undecided'
    """
    least, most = (None, None) if published is None else published
    if (least is None) != (most is None):
        end = most if least is None else least
        assert end is not None
        if end - margin < low and high < end + margin:
            return "alike"
    if (least is not None and high < least) or (most is not None and low > most):
        return "excluded"
    within = (least is None or least < low) and (most is None or high < most)
    return "shown" if within else "undecided"


def all_below(differences: Sequence[Interval], margin: float = 0.0, parts: int = 1) -> Decision:
    """Whether *all* expected differences lie below zero.

    They do if every interval does: then the one that reaches highest decides. They do not if one lies above zero at
    ``1 - (1 - c) / (k parts)`` for k differences: then it is the one that begins highest. Either verdict is wrong with
    at most half of ``1 - c``, however many differences there are: the first because one null interval suffices to stop
    it, the second because k of them share it.

    Args:
        differences: intervals of one confidence c, at least one.
        margin: differences within it are none, and stop both verdicts.
        parts: how many such sets of differences decide one claim, each of which can exclude it.

    Raises:
        ValueError: if there is none, or they have several confidences.

    >>> low, wide = interval([-2.1, -2.0, -1.9]), interval([-9.0, 0.0, 9.0])
    >>> all_below([low, wide]).verdict, all_below([low]).verdict
    ('undecided', 'shown')
    """
    levels = {one.confidence for one in differences}
    if len(levels) != 1:
        raise ValueError(f"there are no differences of one confidence, but of {sorted(levels)}; give one at least")
    wide = 1 - (1 - levels.pop()) / (len(differences) * parts)
    said = [outcome(one, margin) for one in differences]
    above = [one.at(wide) for one, is_said in zip(differences, said, strict=True) if is_said == "more"]
    if above and (begins_highest := max(above, key=lambda one: one.low)).sign > 0:
        return Decision("excluded", begins_highest)

    def highest(*kinds: Outcome) -> Interval:
        return max((one for one, is_said in zip(differences, said, strict=True) if is_said in kinds), key=_high)

    if {"undecided", "more"} & set(said):
        return Decision("undecided", highest("undecided", "more").at(wide))
    return Decision("alike", highest("alike")) if "alike" in said else Decision("shown", highest("less"))


def _high(one: Interval) -> float:
    return one.high


def all_above(differences: Sequence[Interval], margin: float = 0.0, parts: int = 1) -> Decision:
    """Whether *all* expected differences lie above zero: :func:`all_below` mirrored."""
    decided = all_below([_mirrored(one) for one in differences], margin, parts)
    return Decision(decided.verdict, _mirrored(decided.interval))


def seen_by_all(differences: Iterable[Interval], power: float = POWER) -> float:
    """The difference that every one of several designs shows with this probability: the largest of theirs."""
    return max(one.seen(power) for one in differences)


def agreement(first: ArrayLike, second: ArrayLike, seed: int = 0) -> Rank:
    """Kendall's tau-b of two orders of the same n methods, seed by seed, and its p value by permuting the methods.

    Args:
        first: of each method a number, or one a seed [n] or [n, seeds]; equal numbers are ties.
        second: of the same methods [n, seeds].
        seed: of the random permutations, taken where there are more than 7 methods.

    Raises:
        ValueError: if there are fewer than two methods or seeds, or the shapes do not fit.

    >>> agreement([1, 2, 3, 4], [[1, 1], [2, 2], [3, 3], [4, 4]]).p  # 1 of the 24 permutations, and its mirror image
    0.08333333333333333
    """
    from scipy import stats  # takes longer to import than the register's command to run

    b = np.asarray(second, dtype=np.float64)
    a = np.asarray(first, dtype=np.float64)
    if b.ndim != 2 or min(b.shape) < 2 or a.shape not in (b.shape, b.shape[:1]):
        raise ValueError(
            f"orders of shapes {a.shape} and {b.shape}; give [n] or [n, seeds], then [n, seeds] of two or more"
        )
    first_signs, second_signs = _signs(np.broadcast_to(a.reshape(len(b), -1), b.shape)), _signs(b)
    taus = (first_signs * second_signs).sum((1, 2))

    def mean_tau(order: NDArray[np.int64], axis: int = -1) -> NDArray[np.float64]:
        moved = first_signs[:, order[..., :, None], order[..., None, :]]
        mean: NDArray[np.float64] = np.einsum("s...ij,sij->...", moved, second_signs) / len(second_signs)
        return mean

    alone = a.ndim == 1  # then all seeds permute one table
    if alone:
        first_signs, second_signs = first_signs[:1], second_signs.mean(0, keepdims=True)
    test = stats.permutation_test(
        (np.arange(len(b)),), mean_tau, permutation_type="pairings", vectorized=True, n_resamples=9_999,
        batch=max(1, 2_000_000 // (len(b) ** 2 * len(second_signs))), rng=np.random.default_rng(seed),
    )  # fmt: skip
    return Rank(interval(taus), min(1.0, float(test.pvalue)))


def _signs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each seed the signs of all differences of [n, seeds], over the root of their number: [seeds, n, n]."""
    signs = np.sign(values.T[:, :, None] - values.T[:, None, :])
    norm = np.sqrt(np.abs(signs).sum((1, 2), keepdims=True))
    result: NDArray[np.float64] = signs / np.where(norm > 0, norm, 1.0)  # all tied: no order, tau 0
    return result


def _mirrored(one: Interval) -> Interval:
    return Interval(-one.mean, -one.high, -one.low, one.sd, one.count, one.confidence)


def _reach(sd: float, count: int, confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must lie inside (0, 1)")
    return float(stdtrit(count - 1, (1 + confidence) / 2)) * sd / math.sqrt(count)


def _finite(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    runs = np.asarray(values, dtype=np.float64).reshape(-1)
    if runs.size < 2 or not np.isfinite(runs).all():
        raise ValueError(f"{runs.size} runs {runs.tolist()[:10]}: two or more finite numbers are needed")
    return runs
