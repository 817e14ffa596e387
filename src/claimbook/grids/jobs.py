"""The runs of a grid, as the modules ``X.grids`` of the package declare them, and computing them in parallel."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import import_module
from typing import Any

from claimbook import BookError, project
from claimbook.authoring import runs
from claimbook.pipeline import scheduler
from claimbook.pipeline.scheduler import Task
from claimbook.store import Computation, Store, complete_grids, default, parts
from claimbook.store.provenance import Meter
from claimbook.store.settings import PROFILES, choice
from claimbook.tasks import Grid, Job


@cache
def grids() -> Mapping[str, Grid]:
    """All grids by name: what the modules ``X.grids`` of the package declare."""
    packages = sorted(file.parent.name for file in project.folder(project.declared("grids")).glob("*/grids.py"))
    modules = (import_module(complete_grids.module(package)) for package in packages)
    return {name: grid for module in modules for name, grid in module.GRIDS.items()}


def run(job: Job, device: str, store: Store | None = None) -> runs.Run:
    """The run of a job: from the store, or computed now."""
    return runs.computed(job.task, job.config, data=job.data, device=device, store=store)


def jobs_of(grid: str, profile: str) -> tuple[Job, ...]:
    """The runs of a grid with the data sets that are there."""
    choice("GRID", grid, grids())
    choice("PROFILE", profile, PROFILES)
    return grids()[grid](profile, lambda name: bool(parts.present([name])))


def computations(jobs: Sequence[Job], device: str) -> list[Computation]:
    """What each job computes; the code of a task is looked up once."""
    code = {task: parts.modules([task.__module__]) for task in {job.task for job in jobs}}
    return [runs.computation(job.task, job.config, data=job.data, device=device, code=code[job.task]) for job in jobs]


def planned(grid: str, profile: str, device: str) -> list[tuple[Job, Computation]]:
    """The runs of a grid and what they compute."""
    jobs = jobs_of(grid, profile)
    return list(zip(jobs, computations(jobs, device), strict=True))


def fill(grid: str, profile: str, device: str, cores: int) -> int:
    """Compute the runs of a grid that are missing from the store; returns how many runs the grid has.

    For each data set all of whose runs are there, the store gets a mark, so that chapters show them.
    """
    tasks, jobs = missing(grid, profile, device), jobs_of(grid, profile)
    if failed := scheduler.run(tasks, cores):
        raise BookError(
            f"{len(failed)} of {len(jobs)} runs are not finished, see above. Finished runs are kept and killed runs "
            "resume from their checkpoints: repeat the command"
        )
    for source in {name for job in jobs for name in job.data}:
        leave_mark(grid, source, profile, device)
    return len(jobs)


def missing(grid: str, profile: str, device: str) -> list[Task]:
    """The runs of a grid missing from the store, the longest first, so that no core idles at the end."""
    command = ("runs", "run", "--grid", grid, "--profile", profile, "--device", device, "--only")
    longest = sorted(planned(grid, profile, device), key=lambda pair: pair[0].seconds[device], reverse=True)
    return [
        Task(wanted, (*command, wanted.key), device == "cuda")
        for _, wanted in longest
        if default().find(wanted) is None
    ]


def leave_mark(grid: str, source: str, profile: str, device: str) -> None:
    """Record in the store that it has all runs of a grid on a data set, if it has."""
    store, meter, mark = default(), Meter(), complete_grids.mark(grid, source, profile, device)
    if not store.missing(computations(grids()[grid](profile, source.__eq__), device)):
        with store.locked(mark), store.writing(mark) as (_, seal):
            seal(meter.read(device, (source,)))


def absent(grid: str, profile: str) -> list[str]:
    """The data sets that the grid would use if they were there."""
    wanted = {name for job in grids()[grid](profile, lambda name: True) for name in job.data}
    return sorted(wanted.difference(parts.present(wanted)))


def differences(configs: Sequence[Any]) -> list[str]:
    """For each config the settings that it does not share with all the others, such as ``noise=gumbel steps=3``."""
    settings = [{name: str(value) for name, value in asdict(config).items()} for config in configs]
    names = dict.fromkeys(name for each in settings for name in each)
    varying = [name for name in names if len({each.get(name) for each in settings}) > 1]
    return [" ".join(f"{name}={each[name][:60]}" for name in varying if name in each) for each in settings]
