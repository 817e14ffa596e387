"""The grids of all chapters: each run once, on available data, at a cost that grows with the profile."""

import pytest

from claimbook.grids import grids
from claimbook.store import bundled
from claimbook.store.settings import PROFILES
from sumexp import datasets

SETS = tuple(datasets.DATASETS)


@pytest.mark.parametrize("name", sorted(grids()))
def test_each_run_is_asked_for_once_on_available_data(name: str) -> None:
    for profile in PROFILES:
        for available in ((), *((dataset,) for dataset in SETS), SETS):
            jobs = grids()[name](profile, available.__contains__)
            assert 0 < len({(job.name, job.config) for job in jobs}) == len(jobs)
            assert {dataset for job in jobs for dataset in job.data} <= set(() if profile == "smoke" else available)


@pytest.mark.parametrize("name", sorted(grids()))
def test_a_larger_profile_costs_more(name: str) -> None:
    for device in ("cpu", "cuda"):
        costs = [sum(job.seconds[device] for job in grids()[name](profile, SETS.__contains__)) for profile in PROFILES]
        assert 0 < costs[0] < costs[1] < costs[2]
    with pytest.raises(ValueError, match=r"profile is 'huge'[;,] expected one of smoke, cpu, paper"):
        grids()[name]("huge", SETS.__contains__)


@pytest.mark.parametrize("name", sorted(grids()))
def test_stated_costs_are_those_of_the_runs_that_come_with_the_book(name: str) -> None:
    lines = [line for line in bundled.record(name)["runs"] if line["profile"] == "cpu"]
    taken = sum(line["provenance"]["cpu_seconds"] for line in lines)
    stated = sum(job.seconds["cpu"] for job in grids()[name]("cpu", bundled.sources(name, "cpu").__contains__))
    assert 0.6 < stated / taken < 1.6
