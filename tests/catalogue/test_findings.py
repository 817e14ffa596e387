"""Findings on Gowalla, by the runs in the store. Which comparison decides what: `sumexp.chapters.catalogue.grids`."""

from collections.abc import Sequence

import pytest

from claimbook.register.model import State
from sumexp.chapters import intervals
from sumexp.chapters.catalogue import grids, summary
from sumexp.chapters.catalogue.grids import Method
from sumexp.chapters.intervals import Interval
from tests.catalogue.cached import Found, found

CONFIDENCE = intervals.family_confidence("catalogue")
"""Of each interval that decides: three claims share 5 %."""


def cached() -> Found:
    runs = found()
    if runs is None:
        pytest.skip("not all runs of the profiles cpu or paper on Gowalla are in the store: make runs GRID=catalogue")
    return runs


def state(
    finding: State, runs: Found, one: Interval, published: tuple[float | None, float | None], margin: float
) -> None:
    finding(one, published, margin=margin, data="gowalla", profile=runs.profile, keys=runs.keys)


def beside_kept(runs: Found, form: Method) -> list[Interval]:
    return [summary.difference(runs.table, form, number, CONFIDENCE) for number in (True, False)]


@pytest.mark.claim("sumexp-gowalla-correction", shows="statement", evidence="experiment")
def test_towers_without_a_correction_find_less(finding: State) -> None:
    runs = cached()
    decided = intervals.all_below(beside_kept(runs, Method("none")), grids.ALIKE)
    state(finding, runs, decided.interval, (None, 0), grids.ALIKE)


@pytest.mark.claim("sumexp-gowalla-refined", shows="statement", evidence="experiment")
def test_refined_and_kept_are_within_a_point(finding: State) -> None:
    runs = cached()
    widest: Sequence[Interval] = sorted(beside_kept(runs, Method("refined")), key=lambda one: max(-one.low, one.high))
    state(finding, runs, widest[-1], (-grids.ALIKE, grids.ALIKE), 0.0)


@pytest.mark.claim("sumexp-gowalla-drift", shows="statement", evidence="experiment")
def test_log_q_once_more_finds_more_public_and_fewer_held_pairs(finding: State) -> None:
    runs = cached()
    kept = runs.table[summary.KEPT, True]
    held, public = ([summary.of(kept, which, served) for served in ("f", "f + log q")] for which in ("held", "public"))
    gains = [intervals.paired(public[1], public[0], CONFIDENCE), intervals.paired(held[0], held[1], CONFIDENCE)]
    state(finding, runs, intervals.all_above(gains, grids.ALIKE).interval, (0, None), grids.ALIKE)
