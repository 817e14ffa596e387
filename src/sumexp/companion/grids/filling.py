"""Having Snakemake compute the runs of a grid: on this machine, several side by side, or on a cluster."""

import math
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, nullcontext, redirect_stderr, suppress
from importlib.util import find_spec
from pathlib import Path

from tqdm import tqdm

from sumexp.companion import CompanionError, build
from sumexp.companion.authoring import runs
from sumexp.companion.grids.costs import estimates
from sumexp.companion.grids.jobs import Job, jobs_of, look
from sumexp.companion.grids.leftovers import remove
from sumexp.companion.notebooks import choice, resolve_device

SNAKEFILE = Path("runs.smk")


def fill(
    grid: str, profile: str, device: str, *, cores: int, executor: str = "", submitted: int = 20, options: str = ""
) -> None:
    """Have Snakemake compute what the cache lacks of a grid.

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
    wanted = {job.place(device): job for job in jobs_of(grid, profile)}
    for entry in wanted:
        if look(entry)[0] == "damaged":  # Snakemake would take it for finished
            remove(entry)
    lacking = [entry for entry in wanted if not runs.exists(entry)]
    if not lacking:
        return
    log = runs.root_of() / "logs" / f"{grid}-{profile}-{device}.log"
    arguments = _arguments(grid, profile, device, cores, executor, submitted, options)
    together = executor or (device == "cpu" and cores >= 2 * min(wanted[entry].threads for entry in lacking))
    with runs.writing(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
    if executor:
        os.environ.pop(build.DRIVER, None)  # a process of this machine, of which another one knows nothing
    else:
        os.environ[build.DRIVER] = str(os.getpid())
    if together:
        os.environ["TQDM_DISABLE"] = "1"  # of the runs, whose bars would write over one another
    with (
        log.open("w", encoding="utf-8") as output,
        _bar(lacking, f"{grid}, {profile}") if together else nullcontext(),
        redirect_stderr(output),
        suppress(SystemExit),
    ):
        _snakemake(arguments)
    if lacking := [entry for entry in wanted if not runs.exists(entry)]:
        raise CompanionError(
            f"{len(lacking)} of {len(wanted)} runs are not finished: see above, and {log}. What is finished is kept, "
            "and killed runs go on from their checkpoints: give the same command again"
        )


def resolve(device: str, executor: str = "") -> str:
    """``cpu`` or ``cuda``; for the machines of a cluster it has to be said, since they are not this one.

    Raises:
        CompanionError: if the device is unknown, or ``auto`` for a cluster, or not there.
    """
    return choice(f"device for EXECUTOR={executor}", device, ("cpu", "cuda")) if executor else resolve_device(device)


def _arguments(
    grid: str, profile: str, device: str, cores: int, executor: str, submitted: int, options: str
) -> list[str]:
    if not SNAKEFILE.is_file():
        raise CompanionError(f"no {SNAKEFILE} here ({Path.cwd()}); run this from the project's root")
    for name, number in (("CORES", cores), ("JOBS", submitted)):
        if number < 1:
            raise CompanionError(f"{name} is {number}; expected 1 or more")
    if executor and find_spec(f"snakemake_executor_plugin_{executor.replace('-', '_')}") is None:
        raise CompanionError(
            f"EXECUTOR is {executor!r}, which is not installed; run: "
            f"{sys.executable} -m pip install snakemake-executor-plugin-{executor}"
        )
    # A run is there whole or not at all, and under a lock while it is computed, so that Snakemake need not care for
    # half-written outputs, nor for what it did before.
    always = "--rerun-triggers mtime --ignore-incomplete --keep-incomplete --keep-going --nolock"
    if executor:
        where = f"--executor {executor} --jobs {submitted} --retries 2 --latency-wait 60"
    else:
        where = f"--cores {cores} --resources gpu=1 --latency-wait 0"
    config = ["--config", f"grid={grid}", f"profile={profile}", f"device={device}"]
    return ["--snakefile", str(SNAKEFILE.absolute()), *always.split(), *where.split(), *shlex.split(options), *config]


def _snakemake(arguments: Sequence[str]) -> None:
    """Run Snakemake in this process, so that the two end together, with its records in the cache, which is theirs."""
    from snakemake.cli import main

    _fix_folders()
    with chdir(runs.root_of()):
        main(arguments)


def _fix_folders() -> None:
    """Let the folders of runs and data be the same ones for processes that start elsewhere."""
    for name in ("SUMEXP_RUNS", "SUMEXP_DATA"):
        if name in os.environ:
            os.environ[name] = str(Path(os.environ[name]).expanduser().absolute())


@contextmanager
def _bar(entries: Sequence[Path], title: str) -> Iterator[None]:
    """Show how many of the runs are finished, whoever computes them."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(1):
            show()

    def show() -> None:
        bar.n = sum(map(runs.exists, entries))
        bar.refresh()

    with tqdm(total=len(entries), desc=title, unit="run") as bar:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            show()


class Rules:
    """What the rules of the Snakefile need to know of a grid."""

    def __init__(self, grid: str, profile: str, device: str) -> None:
        _fix_folders()
        self.root = runs.root_of()
        self._jobs = {job.place(device).name: job for job in jobs_of(grid, profile)}
        self._estimates = estimates(grid, device)

    def outputs(self) -> list[str]:
        """What the cache holds when it has the whole grid."""
        return [f"{job.name}/{key}/SHA256SUMS" for key, job in self._jobs.items()]

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
