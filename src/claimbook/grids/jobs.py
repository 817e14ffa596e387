"""The runs of a grid, as the modules ``X.grids`` of the package declare them, and what of them a chapter shows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import import_module
from typing import Any

from claimbook import project
from claimbook.authoring import runs
from claimbook.pipeline.inputs import declared_runs, parse, source_path
from claimbook.store import Computation, complete_grids, parts
from claimbook.store.complete_grids import trained
from claimbook.store.settings import PROFILES, choice, resolve_device
from claimbook.tasks import Grid, Job


@cache
def grids() -> Mapping[str, Grid]:
    """All grids by name: what the modules ``X.grids`` of the package declare."""
    packages = sorted(file.parent.name for file in project.folder(project.declared("grids")).glob("*/grids.py"))
    modules = (import_module(complete_grids.module(package)) for package in packages)
    return {name: grid for module in modules for name, grid in module.GRIDS.items()}


def run(job: Job, device: str) -> runs.Run:
    """The run of a job: from the store, or computed now."""
    return runs.computed(job.task, job.config, data=job.data, device=device, threads=job.threads)


def jobs_of(grid: str, profile: str) -> tuple[Job, ...]:
    """The runs of a grid with the data sets that are there."""
    choice("GRID", grid, grids())
    choice("PROFILE", profile, PROFILES)
    return grids()[grid](profile, lambda name: bool(parts.present([name])))


def by_source(grid: str, profile: str) -> dict[str, tuple[Job, ...]]:
    """For each data set that is there and the grid reads: its runs, were no other there."""
    read = dict.fromkeys(name for job in jobs_of(grid, profile) for name in job.data)
    return {source: grids()[grid](profile, source.__eq__) for source in read}


def computations(jobs: Sequence[Job], device: str) -> list[Computation]:
    """What each job computes; the code of a task is looked up once."""
    code = {task: runs.code_of(task) for task in {job.task for job in jobs}}
    return [
        runs.computation(one.task, one.config, data=one.data, device=device, threads=one.threads, code=code[one.task])
        for one in jobs
    ]


def asked(chapter: str, profile: str, device: str) -> list[Computation]:
    """The runs of its grid that a chapter shows, or would compute: at ``cpu`` on what the store has whole."""
    grid = grids().get(chapter)
    if grid is None:
        return []
    there = trained(chapter, declared_runs(parse(source_path(chapter))).get(chapter, ()), profile, device)
    return computations(grid(profile, there.__contains__), device)


def absent(grid: str, profile: str) -> list[str]:
    """The data sets that the grid would use if they were there."""
    wanted = {name for job in grids()[grid](profile, lambda name: True) for name in job.data}
    return sorted(wanted.difference(parts.present(wanted)))


def kind_of(device: str) -> str:
    """``cpu`` or ``cuda``, whether or not it is here."""
    return device if device in ("cpu", "cuda") else resolve_device(device)


def differences(configs: Sequence[Any]) -> list[str]:
    """For each config the settings that it does not share with all the others, such as ``noise=gumbel steps=3``."""
    settings = [{name: str(value) for name, value in asdict(config).items()} for config in configs]
    names = dict.fromkeys(name for each in settings for name in each)
    varying = [name for name in names if len({each.get(name) for each in settings}) > 1]
    return [" ".join(f"{name}={each[name][:60]}" for name in varying if name in each) for each in settings]
