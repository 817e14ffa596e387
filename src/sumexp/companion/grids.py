"""The grids of runs that chapters ask for: what the cache has of them, what the rest costs, and how to compute it.

A chapter asks for the runs of its grid one by one (`sumexp.companion.runs.cached`); here the same runs are computed
before the book is built, on this machine or on a cluster, in any order and in as many processes as there are.
"""

import math
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext, redirect_stderr, suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

import torch
from filelock import Timeout
from pydantic import TypeAdapter
from tqdm import tqdm

from sumexp import datasets
from sumexp.companion import CompanionError, build, runs
from sumexp.companion.keys import code_digest
from sumexp.companion.notebooks import PROFILES, THREADS, choice, resolve_device

State: TypeAlias = Literal["finished", "running", "half-done", "damaged", "missing"]
Present: TypeAlias = Callable[[str], bool]

RATES: Mapping[str, float] = MappingProxyType({"cpu": 2e10, "cuda": 2e12})
"""Operations a second, by kind of device, that are assumed where no finished run tells."""

SIZE = 1e6
"""Bytes of a run, assumed where no finished run tells."""

SNAKEFILE = Path("runs.smk")


@dataclass(frozen=True)
class Job:
    """A run of a grid.

    Attributes:
        task: what computes it.
        config: its settings.
        data: the data sets that it reads.
        threads: how many it uses.
        work: floating-point operations that it takes.
    """

    task: Callable[..., runs.Result]
    config: Any
    data: tuple[str, ...] = ()
    threads: int = THREADS
    work: float = 0.0

    @property
    def name(self) -> str:
        """The task, as the cache names it."""
        return f"{self.task.__module__}.{self.task.__qualname__}"

    def place(self, device: str) -> Path:
        """Where it lies in the cache, or will lie."""
        code = _code(self.task.__module__)
        return runs.place(self.task, self.config, data=self.data, device=device, threads=self.threads, code=code)

    def run(self, device: str) -> runs.Run:
        """The run: from the cache, or computed now."""
        return runs.cached(self.task, self.config, data=self.data, device=device, threads=self.threads)


@cache
def _code(module: str) -> str:
    """The digest of what this process has imported, or will: it takes long for many runs."""
    return code_digest([module])


def _vae(profile: str, there: Present) -> tuple[Job, ...]:
    from sumexp.vae import grids, training
    from sumexp.vae.config import Source

    stacks = grids.grid(profile, [name for name in get_args(Source) if there(name)])
    return tuple(Job(training.train, stack, grids.data(stack), work=grids.work(stack)) for stack in stacks)


def _fits(profile: str, there: Present) -> tuple[Job, ...]:
    from sumexp.fits import protocols, training

    return tuple(Job(training.train, config, work=training.work(config)) for config in protocols.grid(profile))


GRIDS: Mapping[str, Callable[[str, Present], tuple[Job, ...]]] = MappingProxyType({"vae": _vae, "fits": _fits})
"""For each grid the function that gives its runs, from the profile and what tells whether a data set is there."""


def jobs(grid: str, profile: str) -> tuple[Job, ...]:
    """The runs of a grid with the data sets that are there.

    Raises:
        CompanionError: if there is no such grid or profile.
    """
    choice("GRID", grid, GRIDS)
    choice("PROFILE", profile, PROFILES)
    return GRIDS[grid](profile, present)


def present(name: str) -> bool:
    """Whether the data set is there."""
    try:
        return datasets.available(name)
    except datasets.DataError:
        return False


def absent(grid: str, profile: str) -> list[str]:
    """The data sets that the grid would use if they were there."""
    wanted = {name for job in GRIDS[grid](profile, lambda name: True) for name in job.data}
    return sorted(name for name in wanted if not present(name))


def look(entry: Path) -> tuple[State, Mapping[str, Any] | None]:
    """How far the run that belongs at ``entry`` is, and its record, from its checkpoint if it is half-done."""
    if is_running(entry):
        return "running", None
    try:
        if runs.exists(entry):
            return "finished", runs.read_record(entry)
        if (checkpoint := checkpoint_of(entry)).exists():
            return "half-done", runs.read_checkpoint(checkpoint)
    except Exception:  # of many kinds, from damaged files
        return "damaged", None
    return "missing", None


def is_running(entry: Path) -> bool:
    """Whether a process computes the run."""
    if not entry.with_suffix(".lock").exists():
        return False
    try:
        with runs.locked(entry, wait=False):
            return False
    except Timeout:
        return True


def checkpoint_of(entry: Path) -> Path:
    """Where the state of a half-finished run lies."""
    return entry.with_suffix(".checkpoint")


def size(path: Path) -> int:
    """The bytes of a file, or of all that is in a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def entries(root: Path) -> list[Path]:
    """Every run in the cache: finished, half-finished or in pieces."""
    found = {path.with_name(path.name.partition(".")[0]) for path in root.glob("*.*/*") if path.suffix != ".lock"}
    return sorted(entry for entry in found if re.fullmatch("[0-9a-f]{64}", entry.name))


# What it costs.


@dataclass(frozen=True)
class Estimate:
    """What a run of a task costs on a kind of device.

    Attributes:
        finished: the number of finished runs that the rest was measured on; 0 where it is assumed.
        rate: operations a second.
        size: bytes.
    """

    finished: int
    rate: float
    size: float

    def seconds(self, job: Job) -> float:
        """How long the run takes, by itself on its device."""
        return job.work / self.rate


def estimates(grid: str, device: str) -> dict[str, Estimate]:
    """For each task of a grid what its runs cost, from those that are finished at any profile.

    The rate is all their operations over all their seconds, so that long runs count most: short ones take their time to
    start.
    """
    kind = torch.device(device).type
    measured: dict[str, dict[Path, tuple[float, float]]] = {}
    for job in (job for profile in PROFILES for job in GRIDS[grid](profile, present)):
        found = measured.setdefault(job.name, {})
        entry = job.place(device)
        how_far, record = look(entry)
        if how_far == "finished" and record:
            found[entry] = job.work, record["environment"]["seconds"]
    return {
        name: Estimate(
            finished=len(found),
            rate=_rate(found.values()) if found else RATES[kind],
            size=sum(map(size, found)) / len(found) if found else SIZE,
        )
        for name, found in measured.items()
    }


def _rate(measured: Iterable[tuple[float, float]]) -> float:
    work, seconds = map(sum, zip(*measured, strict=True))
    return work / max(seconds, 1e-3)


def differences(configs: Sequence[Any]) -> list[str]:
    """In a few words for each config what it does not share with all the others."""
    leaves = [_leaves(asdict(config)) for config in configs]
    names = list(dict.fromkeys(name for each in leaves for name in each))
    varying = [name for name in names if len({each.get(name) for each in leaves}) > 1]
    last = [name.rpartition(".")[2] for name in varying]
    short = {name: end if last.count(end) == 1 else name for name, end in zip(varying, last, strict=True)}
    return [" ".join(f"{short[n]}={_words(each[n])}" for n in varying if n in each) for each in leaves]


def _leaves(value: Any, name: str = "") -> dict[str, tuple[Any, ...]]:
    """The different values that lie below each name, whatever list they lie in."""
    match value:
        case dict():
            pairs = [pair for key, below in value.items() for pair in _leaves(below, f"{name}.{key}").items()]
        case list() | tuple():
            pairs = [pair for below in value for pair in _leaves(below, name).items()]
        case _:
            return {name.removeprefix("."): (value,)}
    found: dict[str, dict[Any, None]] = {}
    for key, values in pairs:
        found.setdefault(key, {}).update(dict.fromkeys(values))
    return {key: tuple(values) for key, values in found.items()}


def _words(values: tuple[Any, ...]) -> str:
    if len(values) > 2 and all(type(value) is int for value in values):
        low, high = min(values), max(values)
        if high - low == len(values) - 1:
            return f"{low}-{high}"
    return ",".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)


# What can go.


def leftovers(root: Path) -> list[tuple[Path, str]]:
    """What the cache can do without, and why: never what is running, nor what the code of today would ask for."""
    found = []
    for entry in entries(root):
        how_far, record = look(entry)
        if how_far == "running":
            continue
        checkpoint = checkpoint_of(entry)
        parts = (entry.with_suffix(".part"), checkpoint.with_suffix(".checkpoint.part"))
        found += [(path, "half-written by a process that was killed") for path in parts if path.exists()]
        if runs.exists(entry) and checkpoint.exists():
            found.append((checkpoint, "of a run that is finished"))
        if (runs.exists(entry) or checkpoint.exists()) and not (record and _is_current(entry, record)):
            why = "of other code or data" if record else "damaged"
            found.append((entry if runs.exists(entry) else checkpoint, why))
    return found


def _is_current(entry: Path, record: Mapping[str, Any]) -> bool:
    """Whether the task as it is now, asked for this config, would look for it here."""
    module, _, name = entry.parent.name.rpartition(".")
    environment = record["environment"]
    try:
        task = getattr(import_module(module), name)
        config = TypeAdapter(next(iter(get_type_hints(task).values()))).validate_python(record["config"])
        device = "cpu" if environment["device"] == "cpu" else "cuda"
        data, threads = environment["data"], environment["threads"]
        return runs.place(task, config, data=data, device=device, threads=threads, root=entry.parents[1]) == entry
    except (ImportError, AttributeError, LookupError, ValueError, CompanionError, datasets.DataError):
        return False


def remove(path: Path) -> bool:
    """Remove one of the `leftovers`; whether it is gone: it stays if a process has begun to compute its run."""
    entry = path.with_name(path.name.partition(".")[0])
    try:
        with runs.locked(entry, wait=False):
            if path.is_dir():
                rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except Timeout:
        return False
    return True


# On this machine, several side by side, or on a cluster.


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
    wanted = {job.place(device): job for job in jobs(grid, profile)}
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


def meant(device: str) -> str:
    """``cpu`` or ``cuda``, whether or not it is here.

    Raises:
        CompanionError: if the device is unknown.
    """
    return device if device in ("cpu", "cuda") else resolve_device(device)


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


def end_with_driver() -> None:
    """End this process as soon as the driver that started it is gone: one that was killed cannot end it."""
    if driver := os.environ.get(build.DRIVER):
        threading.Thread(target=build._end_with, args=(int(driver),), daemon=True).start()


class Rules:
    """What the rules of the Snakefile need to know of a grid."""

    def __init__(self, grid: str, profile: str, device: str) -> None:
        _fix_folders()
        self.root = runs.root_of()
        self._jobs = {job.place(device).name: job for job in jobs(grid, profile)}
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
