"""Cached training runs: each is computed once, and lies under a key of everything that its result depends on.

A run is a task (a function of a module of the package) and its config (a dataclass). Its key is made of the config, the
code that the task's module can reach, the SHA-256 of the data sets it reads, the kind of device and the number of
threads. The result is a folder ``<root>/<module>.<task>/<key>`` of ``arrays.npz``, ``history.npz``, ``run.json``
and their ``SHA256SUMS``, which appears whole or not at all. Beside it, under the same key, lie the lock of who computes
it and the checkpoint from which a killed one goes on.
"""

import json
import logging
import multiprocessing
import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import file_digest
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile

import numpy as np
import pooch
import torch
from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from tqdm import tqdm

from sumexp import datasets
from sumexp.companion import CompanionError
from sumexp.companion.keys import code_digest, digest
from sumexp.runtime import Arrays, Result, State, Task

Config = TypeVar("Config")

_FILES = ("arrays.npz", "history.npz", "run.json")
_PACKAGES = ("sumexp", "torch", "numpy", "scipy", "scikit-learn")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """A finished run, as it lies on the disk.

    Attributes:
        key: its name in the cache, 64 hex digits.
        config: the config it was computed with, as JSON.
        metrics: its numbers.
        environment: versions, device, threads, data sets, date, seconds (of a run that was killed, those up to its
            checkpoint too) and peak memory (of the process, to the end of the run).
        arrays: its arrays.
        history: its columns, such as a number per epoch; none if the task keeps no history.
    """

    key: str
    config: Mapping[str, Any]
    metrics: Mapping[str, float]
    environment: Mapping[str, Any]
    arrays: Arrays
    history: Arrays


def cached(
    task: Task[Config],
    config: Config,
    *,
    data: Sequence[str] = (),
    device: str = "cpu",
    threads: int = 2,
    root: str | Path | None = None,
    save_every: float = 30.0,
    bar: bool = True,
) -> Run:
    """The run of ``task`` with ``config``: read from the cache if it is there, else computed and kept.

    The arrays are the same in both cases, since a fresh run is read back. Two processes that ask for one run at once
    compute it once. An entry that turns out damaged is computed again. A resumable task goes on where it was killed.

    Args:
        task: what to compute.
        config: its dataclass of settings; its fields' types are checked.
        data: the data sets that the task reads; it can read no others.
        device: ``cpu`` or ``cuda``.
        threads: how many threads torch uses, whatever the machine has: sums depend on it in the last digit.
        root: the cache, see `root_of`.
        save_every: seconds between two checkpoints, at least.
        bar: whether to show how far it is.

    Raises:
        CompanionError: if a field of the config has a wrong type or value, or the cache cannot be written.
        DataError: if a data set is unknown or undeclared, or is needed and absent.
    """
    entry = path_of(task, config, data=data, device=device, threads=threads, root=root)
    if (run := read(entry)) is not None:
        return run
    with locked(entry):
        if (run := read(entry)) is not None:  # another process was quicker
            return run
        with _surroundings(threads, data):
            checkpoint = _Checkpoint(entry, json.loads(_validated(config)), device, threads, data, save_every)
            progress = partial(tqdm, desc=task.__qualname__, disable=not bar)
            result = task(config, device=device, progress=progress, checkpoint=checkpoint)
            record = checkpoint.record()
        record["metrics"] = {name: float(value) for name, value in result.metrics.items()}
        with writing(entry):
            _publish(entry, result, record)
            checkpoint.path.unlink(missing_ok=True)
    if (run := read(entry)) is None:
        raise CompanionError(f"the run {entry} is damaged just after it was written; is the disk in order?")
    return run


def cached_all(
    task: Task[Config],
    configs: Sequence[Config],
    *,
    data: Callable[[Config], Sequence[str]] = lambda config: (),
    device: str = "cpu",
    threads: int = 1,
    root: str | Path | None = None,
) -> list[Run]:
    """The runs of `cached` for several configs, in their order; on a CPU as many are computed side by side as fit.

    Two runs of one thread each, in two processes, are as quick as one after the other on two threads where a core is
    the machine's own, and many times quicker where other work disturbs: threads that share a run wait for the slowest.

    Args:
        task: what to compute.
        configs: a config for each run.
        data: the data sets that the run of a config reads.
        device: ``cpu`` or ``cuda``, where one runs at a time.
        threads: how many threads each run uses.
        root: the cache, see `root_of`.

    Raises:
        CompanionError: as `cached`.
        DataError: as `cached`.
    """
    settings: dict[str, Any] = {"device": device, "threads": threads, "root": root}
    missing = [one for one in configs if not exists(path_of(task, one, data=data(one), **settings))]
    workers = min(len(missing), max(1, (os.cpu_count() or 1) // threads))
    if workers > 1 and torch.device(device).type == "cpu":
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            pending = [pool.submit(_compute, task, one, data=data(one), **settings) for one in missing]
            try:
                for done in tqdm(as_completed(pending), desc=task.__qualname__, total=len(pending), unit="run"):
                    done.result()
            finally:
                pool.shutdown(cancel_futures=True)
    return [cached(task, one, data=data(one), **settings) for one in configs]


def _compute(task: Task[Any], config: object, **settings: Any) -> None:
    """Put the run into the cache; the arrays need not travel between processes."""
    cached(task, config, bar=False, **settings)  # bars of several processes write over one another


def path_of(
    task: Task[Config],
    config: Config,
    *,
    data: Sequence[str] = (),
    device: str = "cpu",
    threads: int = 2,
    root: str | Path | None = None,
    code: str = "",
) -> Path:
    """The folder where the run that `cached` gives for these arguments lies, or will lie.

    ``code`` is the digest of the task's code, where it is known.

    Raises:
        CompanionError: if a field of the config has a wrong type or value.
        DataError: if a data set is unknown or undeclared.
    """
    name = f"{task.__module__}.{task.__qualname__}"
    key = digest(
        name,
        _validated(config),
        code or code_digest([task.__module__]),
        *(file.sha256 for dataset in data for file in datasets.declared(dataset).files),
        torch.device(device).type,
        str(threads),
    )
    return root_of(root) / name / key


def root_of(root: str | Path | None = None) -> Path:
    """The cache: ``root``, else ``SUMEXP_RUNS``, else the folder ``runs`` in the user's cache folder."""
    if chosen := root or os.environ.get("SUMEXP_RUNS"):
        return Path(chosen).expanduser().absolute()
    return Path(pooch.os_cache("sumexp")) / "runs"


class _Checkpoint:
    """The state of a half-finished run, in a file beside its entry, with the run's config and surroundings."""

    def __init__(
        self, entry: Path, config: Mapping[str, Any], device: str, threads: int, data: Sequence[str], every: float
    ) -> None:
        self.path = entry.with_suffix(".checkpoint")
        self._config, self._device, self._threads, self._data, self._every = config, device, threads, data, every
        self._date, self._before = datetime.now(UTC), 0.0
        self._started = self._saved = time.perf_counter()

    def record(self) -> dict[str, Any]:
        """The run's config and environment so far; its seconds are those of killed processes too."""
        seconds = self._before + time.perf_counter() - self._started
        environment = _environment(self._device, self._threads, self._data, self._date, seconds)
        return {"config": self._config, "environment": environment}

    def load(self) -> State | None:
        """What a killed process saved last, its tensors on the run's device."""
        if not self.path.exists():
            return None
        try:
            saved = read_checkpoint(self.path, self._device)
            self._before, state = float(saved["environment"]["seconds"]), dict(saved["state"])
        except Exception as error:  # whatever is wrong with it, the run can start anew
            _log.warning("the checkpoint %s is damaged (%s); the run starts anew", self.path, _first_sentence(error))
            return None
        _log.warning("going on from a checkpoint, after %.0f s of computing", self._before)
        return state

    def save(self, state: State) -> None:
        """Put ``state`` in place of what was saved before, unless that was a moment ago."""
        if time.perf_counter() - self._saved < self._every:
            return
        part = self.path.with_suffix(".checkpoint.part")
        with writing(self.path):
            torch.save(self.record() | {"state": state}, part)
            part.replace(self.path)
        self._saved = time.perf_counter()


def read_checkpoint(path: Path, device: str = "cpu") -> dict[str, Any]:
    """What a checkpoint holds: the run's config, its environment so far, and the state of the task.

    Raises:
        Exception: of many kinds, if the file is damaged.
    """
    with ZipFile(path) as members:
        if damaged := members.testzip():  # torch does not compare checksums
            raise ValueError(f"its part {damaged} is not what was written")
    saved: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return saved


def _first_sentence(error: Exception) -> str:
    """What torch says of a checkpoint without its advice to load it in an unsafe way."""
    return str(error).partition(". ")[0] or type(error).__name__


def _validated(config: object) -> str:
    """The config as canonical JSON, its fields' types checked: a string is not taken for a number."""
    if not is_dataclass(config):
        raise CompanionError(f"a run's config must be a dataclass, got {config!r}")
    adapter = TypeAdapter(type(config))
    try:
        as_json = adapter.dump_json(config, warnings=False)
        valid = adapter.dump_python(adapter.validate_json(as_json, strict=True), mode="json")
    except PydanticSerializationError as error:
        raise CompanionError(f"{type(config).__name__} cannot be written as JSON: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'values'} = {fault['input']!r}: {fault['msg']}"
            for fault in error.errors(include_url=False)
        )
        raise CompanionError(f"{type(config).__name__}: {faults}") from error
    return json.dumps(valid, sort_keys=True)


def exists(entry: Path) -> bool:
    """Whether a run lies at ``entry``, damaged or not; Snakemake makes an empty folder before it starts a run."""
    return entry.is_dir() and any(entry.iterdir())


def read(entry: Path) -> Run | None:
    """The finished run that lies at ``entry``; None if there is none, or (with a note) a damaged one."""
    if not exists(entry):
        return None
    try:
        record = read_record(entry)
        arrays, history = (_load(entry / f"{name}.npz") for name in ("arrays", "history"))
        return Run(key=entry.name, arrays=arrays, history=history, **record)
    except (OSError, ValueError) as error:
        _log.warning("the cached run %s is damaged (%s); it will be computed again", entry, error)
        return None


def read_record(entry: Path) -> dict[str, Any]:
    """The config, metrics and environment of a finished run, all of whose files are what was written.

    Raises:
        OSError: if a file is absent.
        ValueError: if a file is damaged.
    """
    if (entry / "SHA256SUMS").read_text("ascii") != _checksums(entry):
        raise ValueError("its files are not those that were written")
    record: dict[str, Any] = json.loads((entry / "run.json").read_text("utf-8"))
    return record


def _load(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _publish(entry: Path, result: Result, record: Mapping[str, Any]) -> None:
    """Write a run beside ``entry``, then rename it into place; the caller holds the lock."""
    part = entry.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
    part.mkdir()
    np.savez(part / "arrays.npz", allow_pickle=False, **result.arrays)
    np.savez(part / "history.npz", allow_pickle=False, **result.history)
    (part / "run.json").write_text(json.dumps(record, indent=1), "utf-8")
    (part / "SHA256SUMS").write_text(_checksums(part), "ascii")
    if entry.exists():  # damaged, or read had returned it
        shutil.rmtree(entry)
    part.replace(entry)


def _checksums(entry: Path) -> str:
    """The SHA-256 of a run's files, in the form that ``sha256sum --check`` reads."""

    def line(name: str) -> str:
        with (entry / name).open("rb") as stream:
            return f"{file_digest(stream, 'sha256').hexdigest()}  {name}\n"

    return "".join(map(line, _FILES))


@contextmanager
def writing(entry: Path) -> Iterator[None]:
    """Say how to mend it where the cache cannot be written."""
    try:
        yield
    except OSError as error:
        raise CompanionError(f"cannot keep the run {entry}: {error}; name another folder by SUMEXP_RUNS") from error


@contextmanager
def locked(entry: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the entry's lock, which the system releases when the process ends, however it ends.

    Raises:
        CompanionError: if the cache cannot be written.
        Timeout: if another process holds the lock, and ``wait`` is false.
    """
    lock = FileLock(entry.with_suffix(".lock"))
    with writing(entry):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with suppress(Timeout):
            lock.acquire(timeout=0)
    if not lock.is_locked:
        if not wait:
            raise Timeout(lock.lock_file)
        _log.warning("waiting for another process that computes the run %s", entry)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _surroundings(threads: int, data: Sequence[str]) -> Iterator[None]:
    """Fix torch's threads, and let only the declared data be read: the key knows of no other."""
    before, declared = torch.get_num_threads(), os.environ.get("SUMEXP_DECLARED_DATA")
    torch.set_num_threads(threads)
    os.environ["SUMEXP_DECLARED_DATA"] = ",".join(data)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        os.environ.pop("SUMEXP_DECLARED_DATA")
        if declared is not None:
            os.environ["SUMEXP_DECLARED_DATA"] = declared


def _environment(device: str, threads: int, data: Sequence[str], started: datetime, seconds: float) -> dict[str, Any]:
    on_gpu = torch.device(device).type == "cuda"
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES},
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "machine": platform.platform(),
        "threads": threads,
        "data": list(data),
        "date": started.isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
        "peak_device_memory_bytes": torch.cuda.max_memory_allocated(device) if on_gpu else 0,
    }
