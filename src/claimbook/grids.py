"""The runs that chapters ask for, declared by the modules ``X.grids`` of the package.

They are computed here before a build, in parallel. Those that come with the book are written from the store, and
checked by computing some of them again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from claimbook import BookError, project
from claimbook.authoring import runs
from claimbook.pipeline import scheduler
from claimbook.pipeline.scheduler import Task
from claimbook.store import Computation, Store, bundled, complete_grids, default, parts
from claimbook.store.complete_grids import TRAINED_BEFORE
from claimbook.store.provenance import Meter, device_name
from claimbook.store.settings import PROFILES, choice
from claimbook.tasks import Arrays, Grid, Job

METRICS, NUMBERS = 0.02, 1e-6
"""How far, relative to itself, another machine may move a metric of a training, and the arrays of an exact task."""


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


def write(grid: str, profile: str, device: str) -> int:
    """Write the runs of a profile into the file of a grid, from the store; how many there are.

    They are of today's code or another, as each says. A run that only the file has stays; at ``cpu`` none may lack.
    """
    choice("GRID", grid, grids())
    jobs, lines = grids()[grid](profile, lambda name: True), list[tuple[Mapping[str, Any], Arrays, Arrays]]()
    entries = [entry for name in {job.name for job in jobs} for entry in default().entries("run", name)]
    stored = {bundled.identity(e.computation): e for e in entries if e.computation.parts["device"] == device}
    for job, wanted in zip(jobs, computations(jobs, device), strict=True):
        entry, before = stored.get(bundled.identity(wanted)), bundled.find(wanted)
        if entry is not None:
            run = runs.read(entry)
            about: dict[str, Any] = {"task": wanted.name, "key": entry.computation.key}
            about |= {"code": bundled.code_of(entry.computation.parts), "data": parts.declared(job.data)}
            about |= {"config": {name: json.loads(text) for name, text in wanted.named("config ").items()}}
            about |= {"metrics": dict(run.metrics), "provenance": asdict(run.provenance) | {"machine": ""}}
            lines.append((about, job.condense(run.arrays), run.history))
        elif before is not None and before.line["profile"] == profile:
            lines.append((before.line, before.arrays("arrays"), before.arrays("history")))
        elif profile == TRAINED_BEFORE:
            raise BookError(f"the store lacks a run of {wanted.name}: make runs GRID={grid}")
    bundled.write(grid, profile, lines)
    return len(lines)


def check(grid: str, device: str, store: Store, count: int) -> Iterator[tuple[str, float, bool]]:
    """Compute ``count`` runs of a grid again, the shortest of each task first; how far each moved, and if too far.

    At the end it is noted in the file if all agree. Raises `BookError` if the grid has no file, or no data are here.
    """
    if not bundled.record(grid)["runs"]:
        raise BookError(f"no runs of the grid {grid} come with the book; there are: {', '.join(bundled.grids())}")
    moves, codes = [], {}
    asked = planned(grid, TRAINED_BEFORE, device)
    both = [(job, bundle) for job, wanted in asked if (bundle := bundled.find(wanted))]
    if not both:
        raise BookError(f"the data of the grid {grid} are not here: {', '.join(absent(grid, TRAINED_BEFORE))}")
    for job, bundle in _shortest(both, count):
        again = run(job, device, store)
        moved = _moved(bundle, again.metrics, job.condense(again.arrays))
        agrees = moved <= (METRICS if again.metrics else NUMBERS)  # NaN does not
        moves.append(moved if agrees else np.nan)
        codes[job.name] = bundled.code(job.name)
        yield f"{job.name} {bundle.key[:12]}", moved, not agrees
    if not np.isnan(moves).any() and codes.keys() == {job.name for job, _ in both}:
        about = {"code": codes, "runs": len(moves), "difference": max(moves)}
        date = datetime.now(UTC).date().isoformat()
        bundled.add_check(grid, about | {"date": date, "device": device_name(device)})


def _shortest(both: Sequence[tuple[Job, bundled.Bundled]], count: int) -> list[tuple[Job, bundled.Bundled]]:
    """The shortest run of each task, the task with most runs first; then the shortest others."""
    ordered = sorted(both, key=lambda pair: pair[0].seconds["cpu"])
    first = {job.name: (job, run) for job, run in reversed(ordered)}
    leading = [first[name] for name, _ in Counter(job.name for job, _ in both).most_common()]
    return [*leading, *(pair for pair in ordered if pair not in leading)][:count]


def _moved(bundle: bundled.Bundled, metrics: Mapping[str, float], arrays: Arrays) -> float:
    """The largest relative difference of the metrics or, of a task without any, of its arrays of numbers."""
    before, now = (bundle.line["metrics"], metrics) if metrics else (bundle.arrays("arrays"), arrays)
    both = [(np.asarray(before[name]), np.asarray(value)) for name, value in now.items()]
    both = [(a, b) for a, b in both if np.issubdtype(b.dtype, np.number)]
    return float(np.max([np.abs(a - b).max(initial=0) / (np.abs(a).max(initial=0) or 1) for a, b in both]))
