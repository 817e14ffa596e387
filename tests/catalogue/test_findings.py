"""Findings on Gowalla, by the runs in the store. Which comparison decides what: `sumexp.chapters.catalogue.grids`."""

from collections.abc import Sequence
from functools import cache

import pytest

from sumexp.chapters import intervals
from sumexp.chapters.catalogue import Config, grids, summary, train
from sumexp.chapters.catalogue.grids import Method
from sumexp.chapters.intervals import Interval
from tests.complete import Complete, State, largest

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
    widest: Sequence[Interval] = sorted(beside_kept(table, Method("refined")), key=lambda gap: max(-gap.low, gap.high))
    finding(widest[-1], (-grids.ALIKE, grids.ALIKE), margin=0.0, data="gowalla", **runs.stated)


@pytest.mark.claim("sumexp-gowalla-drift", shows="statement", evidence="experiment")
def test_log_q_once_more_finds_more_public_and_fewer_held_pairs(
    finding: State, runs: Complete[Config], table: summary.Table
) -> None:
    kept = table[summary.KEPT, True]
    held, public = ([summary.of(kept, which, served) for served in ("f", "f + log q")] for which in ("held", "public"))
    gains = [intervals.paired(public[1], public[0], CONFIDENCE), intervals.paired(held[0], held[1], CONFIDENCE)]
    decided = intervals.all_above(gains, grids.ALIKE)
    finding(decided.interval, (0, None), margin=grids.ALIKE, data="gowalla", **runs.stated)
