"""Having Snakemake compute the runs of a grid: on this machine, several side by side, or on a cluster."""

import math
import os
import shlex
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

from sumexp.companion import CompanionError
from sumexp.companion.grids.costs import estimates
from sumexp.companion.grids.jobs import by_source, computations, jobs_of
from sumexp.companion.pipeline import workflow
from sumexp.companion.pipeline.settings import choice, resolve_device
from sumexp.companion.store import default, processes, progress
from sumexp.companion.store.complete_grids import mark
from sumexp.companion.store.entries import output_of
from sumexp.companion.store.provenance import Meter
from sumexp.jobs import Job


def fill(
    grid: str, profile: str, device: str, *, cores: int, executor: str = "", submitted: int = 20, options: str = ""
) -> None:
    """Have Snakemake compute what the store lacks of a grid.

    Args:
        grid: its name.
        profile: its profile.
        device: ``auto``, ``cpu`` or ``cuda``; not ``auto`` with an executor, since other machines compute.
        cores: of this machine, without an executor.
        executor: the executor plugin, such as ``slurm``.
        submitted: how many runs are handed to the executor at a time.
        options: more of Snakemake's command-line options.

    Raises:
        CompanionError: on wrong input, or if some run could not be computed.
    """
    device = resolve(device, executor)
    store = default()
    wanted = computations(jobs_of(grid, profile), device)
    lacking = store.lacking(wanted)
    if not lacking:
        return
    log = store.root / "logs" / f"{grid}-{profile}-{device}.log"
    chosen = _options(cores, executor, submitted, options)
    _fix_folders()
    config = {"grid": grid, "profile": profile, "device": device}
    title = f"{grid}, {profile}"
    shown = nullcontext() if executor else progress.shown(title, len(lacking), lambda: sum(map(store.has, lacking)))
    if executor:
        os.environ.pop(processes.DRIVER, None)  # other machines know no process of this one
    else:
        processes.drive()
    with store.guarded(log), shown:
        workflow.run("runs", config, store.root, log, chosen)
    if lacking := [one for one in wanted if not store.has(one)]:
        raise CompanionError(
            f"{len(lacking)} of {len(wanted)} runs are not finished: see above, and {log}. What is finished is kept, "
            "and killed runs go on from their checkpoints: give the same command again"
        )


def leave_marks(grid: str, profile: str, device: str) -> list[str]:
    """Say in the store on which data sets it has all runs of a grid, for the chapters to show them; gives their names.

    Args:
        grid: its name.
        profile: its profile.
        device: ``cpu`` or ``cuda``.

    Raises:
        CompanionError: if there is no such grid or profile, or the store cannot be written.
    """
    store, whole, meter = default(), [], Meter()
    for source, jobs in by_source(grid, profile).items():
        wanted = computations(jobs, device)
        if any(store.find(one) is None for one in wanted):
            continue
        whole.append(source)
        said = mark(grid, source, profile, device)
        with store.locked(said):
            if store.find(said) is None:
                with store.writing(said) as (folder, seal):
                    (folder / "runs.txt").write_text("".join(f"{one.name} {one.key}\n" for one in wanted), "utf-8")
                    seal(meter.read(device, (source,)))
    return whole


def resolve(device: str, executor: str = "") -> str:
    """``cpu`` or ``cuda``; for the machines of a cluster it has to be said, since they are not this one.

    Raises:
        CompanionError: if the device is unknown, or ``auto`` for a cluster, or not there.
    """
    return choice(f"device for EXECUTOR={executor}", device, ("cpu", "cuda")) if executor else resolve_device(device)


def _options(cores: int, executor: str, submitted: int, options: str) -> list[str]:
    for name, number in (("CORES", cores), ("JOBS", submitted)):
        if number < 1:
            raise CompanionError(f"{name} is {number}; expected 1 or more")
    if executor and find_spec(f"snakemake_executor_plugin_{executor.replace('-', '_')}") is None:
        raise CompanionError(
            f"EXECUTOR is {executor!r}, which is not installed; run: "
            f"{sys.executable} -m pip install snakemake-executor-plugin-{executor}"
        )
    if executor:
        where = f"--executor {executor} --jobs {submitted} --retries 2 --latency-wait 60"
    else:
        where = f"--cores {cores} --resources gpu=1 --latency-wait 0"
    return [*where.split(), *shlex.split(options)]


def _fix_folders() -> None:
    """Let the store, its remote and the data be the same ones for processes that start elsewhere."""
    os.environ["SUMEXP_STORE"] = str(default().root)
    if remote := os.environ.get("SUMEXP_REMOTE"):
        from sumexp.companion.store.remote import Remote

        os.environ["SUMEXP_REMOTE"] = Remote(remote).address
    if "SUMEXP_DATA" in os.environ:
        os.environ["SUMEXP_DATA"] = str(Path(os.environ["SUMEXP_DATA"]).expanduser().absolute())


class Rules:
    """What the rules of the workflow need to know of a grid."""

    def __init__(self, grid: str, profile: str, device: str) -> None:
        jobs = jobs_of(grid, profile)
        wanted = computations(jobs, device)
        self._wanted = {one.key: one for one in wanted}
        self._jobs = {one.key: job for one, job in zip(wanted, jobs, strict=True)}
        self._estimates = estimates(grid, device, default())

    def shortest_first(self) -> list[tuple[str, str]]:
        """The key of each run, and the file by which the store has it."""
        ordered = sorted(self._jobs.items(), key=lambda one: self._estimates[one[1].name].seconds(one[1]))
        return [(key, output_of(self._wanted[key])) for key, _ in ordered]

    def job(self, key: str) -> Job:
        """The run of this key.

        Raises:
            CompanionError: if the grid has none: the code has changed since Snakemake was started.
        """
        if key not in self._jobs:
            raise CompanionError(f"no run {key} in the grid; has the code or the data changed since it was submitted?")
        return self._jobs[key]

    def minutes(self, key: str) -> int:
        """How long a cluster should let it run: three times the estimate, and ten minutes."""
        job = self.job(key)
        return 10 + math.ceil(3 * self._estimates[job.name].seconds(job) / 60)
