"""Intervals over seeds, against the t table and against simulation."""

import re
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sumexp.chapters import intervals


def test_an_interval_by_hand() -> None:
    """1, 2, 3: mean 2, sd 1; Student's t with 2 degrees of freedom has the 97.5 % point 4.302653."""
    found = intervals.interval([1, 2, 3])
    assert (found.mean, found.sd, found.count) == (2, 1, 3)
    assert found.half_width == pytest.approx(4.302653 / sqrt(3), rel=1e-6)
    assert found.low == 2 - found.half_width
    assert found.sign == 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9), st.floats(0.5, 0.999))
def test_a_paired_interval_is_that_of_the_t_test(values: list[float], confidence: float) -> None:
    """The second way: scipy's paired t test, inverted."""
    other = np.linspace(0, 1, len(values))
    found = intervals.paired(values, other, confidence)
    if found.sd < 1e-9 * (1 + abs(found.mean)):  # scipy warns of a spread that is all rounding
        return
    against = stats.ttest_rel(values, other).confidence_interval(confidence)
    assert (found.low, found.high) == pytest.approx((against.low, against.high), rel=1e-9, abs=1e-9)


def test_the_interval_covers_as_often_as_it_says() -> None:
    """20,000 intervals from 5 normal runs: 95 % within 5 standard errors, a false alarm in 2 of 10^6 runs."""
    draws = np.random.default_rng(0).normal(1.0, 2.0, (20_000, 5))
    covered = np.mean([(found := intervals.interval(row)).low < 1 < found.high for row in draws])
    assert abs(covered - 0.95) < 5 * sqrt(0.95 * 0.05 / 20_000)


def test_the_sign() -> None:
    assert intervals.interval([1.0, 1.1, 0.9]).sign == 1
    assert intervals.paired([1, 2, 3.1], [2, 3, 4]).sign == -1


@pytest.mark.parametrize("values", [[], [1.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_too_few_or_bad_values_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="two or more finite numbers"):
        intervals.interval(values)


def test_unequal_pairs_and_bad_confidence_are_refused() -> None:
    with pytest.raises(ValueError, match="3 runs are paired with 2"):
        intervals.paired([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match=r"confidence is 1\.5"):
        intervals.interval([1, 2], 1.5)


def spread(mean: float, half: float, confidence: float = 0.95) -> intervals.Interval:
    """Five runs whose interval has this middle and half-width."""
    unit = intervals.interval([-2, -1, 0, 1, 2], confidence)
    return intervals.interval(mean + np.arange(-2, 3) * (half / unit.half_width), confidence)


def test_an_interval_at_another_confidence_is_that_of_the_same_runs() -> None:
    runs = [0.3, 0.1, 0.25, 0.7]
    assert intervals.interval(runs).at(0.99) == intervals.interval(runs, 0.99)
    # One of nine: t of 4 degrees at 1 - 0.05/18 is 5.4366 in the place of 2.7764.
    assert intervals.family_confidence("longtail") == 1 - 0.05 / 9
    wide = spread(0, 1).at(intervals.family_confidence("longtail"))
    assert wide.half_width == pytest.approx(5.4366 / 2.7764, rel=1e-4)
    with pytest.raises(ValueError, match="family is 'towers', expected one of longtail"):
        intervals.family_confidence("towers")


def test_families_are_the_claims_of_experiments() -> None:
    """Each claim that a test decides by an experiment is in one family, that of the folder of its test."""
    marked: dict[str, set[str]] = {}
    for path in Path(__file__).parent.glob("*/test_*.py"):
        found = re.findall(r'mark\.claim\("([^"]+)", shows="\w+", evidence="experiment"\)', path.read_text("utf-8"))
        marked.setdefault(path.parent.name, set()).update(found)
    assert {family: set(claims) for family, claims in intervals.FAMILIES.items()} == {
        folder: claims for folder, claims in marked.items() if claims
    }


def test_outcomes_of_one_difference() -> None:
    assert intervals.outcome(spread(-0.02, 0.01), 0.01) == "less"
    assert intervals.outcome(spread(0.02, 0.01), 0.01) == "more"
    assert intervals.outcome(spread(-0.02, 0.03), 0.01) == "undecided"
    # negatives-fig-4-5: off zero, and smaller than what counts. The table said so and the register did not.
    assert intervals.outcome(spread(-0.0028, 0.0016), 0.01) == "alike"
    assert intervals.outcome(spread(-0.0028, 0.0016)) == "less"
    assert (
        intervals.outcome(intervals.Interval(0, -0.01, 0.005, 1, 5), 0.01) == "undecided"
    )  # on the edge is not within
    with pytest.raises(ValueError, match="margin is -1"):
        intervals.outcome(spread(0, 1), -1)


def test_no_difference_needs_room() -> None:
    # Tails that err in 99.93 %: 0.0007 are left, and a margin of one point cannot be seen within them.
    left = intervals.room(np.full(5, 0.9993), np.full(5, 0.98))
    assert left == pytest.approx(0.0007)
    assert intervals.outcome(spread(0.0, 0.001), 0.01, left) == "no room"
    assert intervals.outcome(spread(0.0, 0.001), 0.01, 0.05) == "alike"  # five margins are enough
    assert intervals.outcome(spread(-0.3, 0.1), 0.01, left) == "less"  # what shows needs none
    assert intervals.room([0.02]) == pytest.approx(0.02)
    with pytest.raises(ValueError, match=r"mean shares are \[1.5\]"):
        intervals.room([1.5])


@pytest.mark.parametrize("low, high, published, verdict", [
    (-2, -1, (None, 0), "shown"), (1, 2, (None, 0), "excluded"), (-1, 2, (None, 0), "undecided"),
    (1, 2, (0, None), "shown"), (-2, -1, (0, None), "excluded"), (-0.2, -0.1, (None, 0), "alike"),
    (0.4, 0.6, (0, 1), "shown"), (-1, 3, (0, 1), "undecided"), (2, 3, (0, 1), "excluded"),
    (0.4, 1.6, (1, 1), "undecided"), (5, 6, None, "shown"),
])  # fmt: skip
def test_what_is_published_is_met_excluded_or_neither(
    low: float, high: float, published: intervals.Published | None, verdict: str
) -> None:
    assert intervals.judge(low, high, published, margin=0.3) == verdict


def test_all_lie_below_zero_if_each_does_and_not_if_one_lies_above() -> None:
    assert intervals.all_below([spread(-3, 1), spread(-2, 1)]) == intervals.Decision("shown", spread(-2, 1))
    # Two look for what excludes: the interval of one at 97.5 % is 1.26 times as wide.
    found = intervals.all_below([spread(0, 9), spread(2, 1)])
    assert (found.verdict, found.interval) == ("excluded", spread(2, 1).at(0.975))
    assert intervals.all_below([spread(0, 9), spread(1.1, 1)]).verdict == "undecided"
    # The wide one begins lowest, and is undecided all the same.
    assert intervals.all_below([spread(-0.015, 0.005), spread(0, 0.05)]).verdict == "undecided"
    assert intervals.all_below([spread(-3, 1), spread(-0.2, 0.1)], margin=0.5).verdict == "alike"
    assert intervals.all_above([spread(3, 1), spread(2, 1)]) == intervals.Decision("shown", spread(2, 1))
    assert intervals.all_above([spread(-2, 1), spread(0, 9)]).verdict == "excluded"
    assert intervals.all_above([spread(0.015, 0.005), spread(0, 0.05)]).verdict == "undecided"
    for refused in ([], [spread(0, 1), spread(0, 1, 0.9)]):
        with pytest.raises(ValueError, match="no differences of one confidence"):
            intervals.all_below(refused)


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(0.01, 2)), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([1, 3]),
)
def test_the_interval_that_decides_says_by_itself_what_was_decided(
    drawn: list[tuple[float, float]], margin: float, parts: int
) -> None:
    """The register reads that interval alone: it must come to the same verdict."""
    differences = [spread(*one) for one in drawn]
    below, above = intervals.all_below(differences, margin, parts), intervals.all_above(differences, margin, parts)
    assert intervals.judge(below.interval.low, below.interval.high, (None, 0), margin) == below.verdict
    assert intervals.judge(above.interval.low, above.interval.high, (0, None), margin) == above.verdict
    # Not both: nothing lies below and above zero.
    assert (below.verdict, above.verdict) != ("shown", "shown")
    if len(differences) == 1:
        said = {"less": "shown", "more": "excluded"}.get(outcome := intervals.outcome(differences[0], margin), outcome)
        assert below.verdict == said or (said == "excluded" and parts > 1)


# -- stated error rates, by simulation: seeds are fixed; bounds leave 5 standard errors, a false alarm in 10^6 runs ----

TIMES = 2000


def rate(happened: list[bool]) -> float:
    return float(np.mean(happened))


def slack(level: float) -> float:
    return 5 * sqrt(level * (1 - level) / TIMES)


def decisions(middles: list[float], spreads: list[float], margin: float = 0.0) -> list[str]:
    """Of experiments with five seeds of differences with these true means: whether all lie below zero."""
    runs = np.random.default_rng(0).normal(middles, spreads, (TIMES, 5, len(middles)))
    return [intervals.all_below([intervals.interval(one) for one in each.T], margin).verdict for each in runs]


def test_one_null_difference_among_clear_ones_passes_for_below_as_rarely_as_an_interval_misses() -> None:
    # Looking at the interval that begins highest alone errs in 82 % here; the spreads must differ to show it.
    said = decisions([-0.5, -0.5, 0.0], [0.1, 0.1, 1.0])
    assert rate([one == "shown" for one in said]) < 0.025 + slack(0.025)


def test_many_differences_just_below_zero_are_excluded_as_rarely_as_one() -> None:
    # Eight differences of nothing, all of which "lie below" at the edge: without its share each excludes in 2.5 %,
    # and one of eight in 18 %.
    said = decisions([-1e-9] * 8, [1.0] * 8)
    assert rate([one == "excluded" for one in said]) < 0.025 + slack(0.025)


def test_all_below_is_seen_as_often_as_the_design_says() -> None:
    # One true difference as large as a design of this spread sees with probability 0.8; the formula, with the true
    # spread, is an approximation, of which 0.05 is left.
    unit = spread(0, 1)
    runs = np.random.default_rng(1).normal(-unit.seen() / unit.sd, 1.0, (TIMES, 5))
    seen = rate([intervals.interval(each).sign == -1 for each in runs])
    assert abs(seen - 0.8) < 0.05 + slack(0.8)
    assert unit.seen() == pytest.approx((stats.t.ppf(0.975, 4) + stats.t.ppf(0.8, 4)) * unit.sd / sqrt(5))
    with pytest.raises(ValueError, match="power is 1"):
        unit.seen(power=1)


def test_no_difference_is_said_of_a_whole_margin_as_rarely_as_stated() -> None:
    # A true difference of one margin, half a margin of spread: within the margin in at most 2.5 %.
    runs = np.random.default_rng(2).normal(0.01, 0.005, (TIMES, 5))
    said = [intervals.outcome(intervals.interval(each), 0.01) for each in runs]
    assert rate([one == "alike" for one in said]) < 0.025 + slack(0.025)
    # It can be said, too: of no difference with a fifth of the margin as spread, nearly always.
    runs = np.random.default_rng(3).normal(0.0, 0.002, (TIMES, 5))
    assert rate([intervals.outcome(intervals.interval(each), 0.01) == "alike" for each in runs]) > 0.95


def test_a_published_range_is_neither_shown_nor_excluded_wrongly_more_often_than_stated() -> None:
    # The truth lies on the edge of the range: either verdict is wrong there, and each has 2.5 %.
    runs = np.random.default_rng(4).normal(1.0, 0.1, (TIMES, 5))
    said = [intervals.judge((one := intervals.interval(each)).low, one.high, (0.0, 1.0)) for each in runs]
    for wrong in ("shown", "excluded"):
        assert rate([one == wrong for one in said]) < 0.025 + slack(0.025)
    # Five runs of a wide spread show nothing about a narrow range, where "their interval meets it" is always said.
    wide = np.random.default_rng(5).normal(1.0, 1.0, (TIMES, 5))
    ends = [(one.low, one.high) for one in map(intervals.interval, wide)]
    assert rate([intervals.judge(*one, (0.9, 1.1)) == "shown" for one in ends]) < 0.01


def test_a_family_has_a_wrong_verdict_as_rarely_as_stated() -> None:
    # Nine claims of one null difference each. At 95 % each, some verdict would be wrong in 1 - 0.95^9 = 37 %.
    confidence = intervals.family_confidence("longtail")
    runs = np.random.default_rng(6).normal(0.0, 1.0, (TIMES, 9, 5))
    reach = stats.t.ppf((1 + confidence) / 2, 4) * runs.std(-1, ddof=1) / sqrt(5)
    assert rate(list((np.abs(runs.mean(-1)) > reach).any(-1))) < 0.05 + slack(0.05)
    assert intervals.interval(runs[0, 0], confidence).half_width == pytest.approx(reach[0, 0])


def test_a_prediction_that_knows_nothing_is_told_from_chance_as_rarely_as_stated() -> None:
    # Six methods that differ, five seeds that hardly do: the interval over seeds lies off zero nearly always, whatever
    # the prediction; the permutation p is at most 5 % in at most 5 %. 300 experiments: a bound of 5 standard errors.
    rng = np.random.default_rng(7)
    by_seeds, by_permutation = [], []
    for _ in range(300):
        measured = rng.normal(size=(6, 1)) + 0.05 * rng.normal(size=(6, 5))
        rank = intervals.agreement(rng.normal(size=6), measured)
        by_seeds.append(rank.correlation.sign != 0 or rank.correlation.sd == 0)
        by_permutation.append(rank.sign != 0)
    assert rate(by_seeds) > 0.5
    assert rate(by_permutation) < 0.05 + 5 * sqrt(0.05 * 0.95 / 300)


def test_the_agreement_of_two_orders_against_scipy_and_by_hand() -> None:
    rng = np.random.default_rng(8)
    predicted, measured = rng.normal(size=12).round(), rng.normal(size=(12, 3))  # with ties
    rank = intervals.agreement(predicted, measured)
    taus = [stats.kendalltau(predicted, one).statistic for one in measured.T]
    assert rank.correlation == intervals.interval(taus) or rank.correlation.mean == pytest.approx(np.mean(taus))
    # Of one order, seen twice, scipy's exact p value of tau is by the same permutations.
    order = rng.permutation(6)
    twice = intervals.agreement(np.arange(6), np.stack([order, order], 1))
    assert twice.p == pytest.approx(stats.kendalltau(np.arange(6), order, method="exact").pvalue)
    assert intervals.agreement([1, 1, 1], [[1, 2], [2, 1], [3, 3]]).correlation.mean == 0  # no order
    with pytest.raises(ValueError, match=r"orders of shapes \(2,\) and \(3, 2\)"):
        intervals.agreement([1, 2], np.zeros((3, 2)))
