"""Findings on Gowalla, by the runs in the store. Which comparison decides what: `sumexp.chapters.catalogue.grids`."""

from functools import cache
from itertools import product
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from sumexp.chapters import intervals
from sumexp.chapters.catalogue import Config, grids, summary, train
from sumexp.chapters.catalogue.grids import Method
from sumexp.chapters.intervals import Interval
from tests.complete import Complete, State, largest, verdicts

CONFIDENCE = intervals.family_confidence("catalogue")
"""Of each interval that decides: three claims share 5 %."""


@cache
def decisive_runs() -> Complete[Config] | None:
    return largest(train, lambda profile: grids.decisive("gowalla", grids.PLANS[profile]["gowalla"]), grids.data)


@pytest.fixture
def runs() -> Complete[Config]:
    runs = decisive_runs()
    if runs is None:
        pytest.skip("not all runs of the profiles cpu or paper on Gowalla are in the store: make runs GRID=catalogue")
    return runs


@pytest.fixture
def table(runs: Complete[Config]) -> summary.Table:
    return summary.summaries((config, run.arrays) for config, run in zip(runs.configs, runs.runs, strict=True))


def beside_kept(table: summary.Table, form: Method) -> list[Interval]:
    return [summary.difference(table, form, number, CONFIDENCE) for number in (True, False)]


@pytest.mark.claim("sumexp-gowalla-correction", shows="statement", evidence="experiment")
def test_towers_without_a_correction_find_less(finding: State, runs: Complete[Config], table: summary.Table) -> None:
    decided = intervals.all_below(beside_kept(table, Method("none")), grids.ALIKE)
    finding(decided.interval, (None, 0), margin=grids.ALIKE, data="gowalla", **runs.stated)


@pytest.mark.claim("sumexp-gowalla-refined", shows="statement", evidence="experiment")
def test_refined_and_kept_are_within_a_point(finding: State, runs: Complete[Config], table: summary.Table) -> None:
    point, gaps = (-grids.ALIKE, grids.ALIKE), beside_kept(table, Method("refined"))
    # A model that lies outside decides, then one that leaves it open, then the widest.
    said = [intervals.judge(gap.low, gap.high, point, room=gap.room) for gap in gaps]
    rank = [(each == "excluded", each != "shown", max(-d.low, d.high)) for each, d in zip(said, gaps, strict=True)]
    finding(gaps[rank.index(max(rank))], point, margin=0.0, data="gowalla", **runs.stated)


@pytest.mark.claim("sumexp-gowalla-drift", shows="statement", evidence="experiment")
def test_log_q_once_more_finds_more_public_and_fewer_held_pairs(
    finding: State, runs: Complete[Config], table: summary.Table
) -> None:
    kept = table[summary.KEPT, True]
    held, public = ([summary.of(kept, which, served) for served in ("f", "f + log q")] for which in ("held", "public"))
    gains = [intervals.paired(*pair, CONFIDENCE, shares=True) for pair in (public[::-1], held)]
    decided = intervals.all_above(gains, grids.ALIKE)
    finding(decided.interval, (0, None), margin=grids.ALIKE, data="gowalla", **runs.stated)


@pytest.mark.parametrize("recall, none, refined, more, verdict", [
    # Of kept; what the others gain, with a bias and without; log q once more on public and on held pairs.
    (0.3, (-0.05, -0.04), (-0.001, 0.002), (0.05, -0.04), "shown shown shown"),
    (0.3, (-0.05, 0.04), (0.02, 0.001), (0.05, 0.04), "excluded excluded excluded"),
    (0.3, (-0.05, 0.0), (0.0, 0.0097), (0.001, -0.04), "alike undecided alike"),
    (0.04, (-0.03, 0.002), (0.0, 0.0001), (0.001, -0.02), "undecided undecided undecided"),  # no room
])  # fmt: skip
def test_which_answers_the_rules_give(recall: float, none: Any, refined: Any, more: Any, verdict: str) -> None:
    seeds, finding, runs = np.arange(5) / 1e4, Mock(), Mock(stated={})
    both = product(map(Method, ("none", "refined", "kept")), (True, False))
    table = {method: np.full((5, 5), recall) for method in both}
    for place, number in enumerate((True, False)):
        table[Method("none"), number][:, 0] += none[place] + seeds
        table[Method("refined"), number][:, 0] += refined[place] + seeds
        table[summary.KEPT, True][:, (3, 1)[place]] += more[place] + seeds
    test_towers_without_a_correction_find_less(finding, runs, table)
    test_refined_and_kept_are_within_a_point(finding, runs, table)
    test_log_q_once_more_finds_more_public_and_fewer_held_pairs(finding, runs, table)
    assert verdicts(finding) == verdict
