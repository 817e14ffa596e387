"""Training runs: those of the store, those that come with the book, and computing the others.

A run is a task (a function of the package) with its config (a dataclass). Its key has the config's fields, the code
that the task's module can reach, the data sets it reads, the kind of device and the number of threads. Its entry holds
``arrays.npz``, ``history.npz`` and ``run.json`` (config and metrics).
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import TypeAdapter

from claimbook import BookError, project
from claimbook.store import Computation, Entry, Store, bundled, default, parts, progress
from claimbook.store.checkpoints import Checkpoint
from claimbook.store.provenance import Provenance
from claimbook.tasks import Arrays, Result, Task

C = TypeVar("C")  # a config

_adapter = cache(TypeAdapter)

THREADS = 1
"""Of torch in every run: the last digit of sums depends on them."""
PARTS = "arrays", "history"


@dataclass(frozen=True)
class Run:
    """A finished run: its config is JSON, its history has columns, such as a number per epoch, or none."""

    key: str
    config: Mapping[str, Any]
    metrics: Mapping[str, float]
    provenance: Provenance
    arrays: Arrays
    history: Arrays
    brought: bundled.Bundled | None = None
    """What of the book's files it was read from."""


def computation(
    task: Task, config: object, *, data: Sequence[str] = (), device: str = "cpu", code: Mapping[str, str] | None = None
) -> Computation:
    """What `cached` computes for these arguments; ``code`` are the parts of the task's module, which take long to find.

    Raises `DataError` if a data set is unknown or undeclared.
    """
    for name in data:
        project.module("datasets").declared(name)
    settings = {f"config {name}": json.dumps(value, sort_keys=True) for name, value in validated(config).items()}
    place = {"device": torch.device(device).type, "threads": str(THREADS)}
    reached = parts.modules([task.__module__]) if code is None else dict(code)
    return Computation("run", f"{task.__module__}.{task.__qualname__}", settings | reached | parts.data(data) | place)


def cached(task: Task, config: object, *, data: Sequence[str] = (), **options: Any) -> Run:
    """The run of a config, by `cached_all`."""
    return cached_all(task, [config], data=lambda _: data, **options)[0]


def computed(
    task: Task, config: object, *, data: Sequence[str] = (), device: str = "cpu", store: Store | None = None
) -> Run:
    """The run of ``task`` with ``config``, read from the store or computed, kept there and read back.

    Processes that ask for a run at once compute it once, a damaged entry is recomputed, and a killed task resumes from
    its state, saved at most every 30 seconds. The task can read no data sets but those named. Raises `DataError` if a
    data set is unknown, undeclared or absent.
    """
    store = store or default()
    asked = computation(task, config, data=data, device=device)
    with store.locked(asked):
        if (entry := store.find(asked)) is None:  # else another process was quicker
            with _surroundings(data):
                checkpoint = Checkpoint(store, asked, device, every=30.0)
                bar = partial(progress.bar, what=task.__module__.partition(".")[2])
                try:
                    result = task(config, device=device, progress=bar, checkpoint=checkpoint)
                except torch.OutOfMemoryError as error:
                    raise BookError(_out_of_memory(asked.name, config, device)) from error
            is_gpu = torch.device(device).type == "cuda"
            memory = {"peak_device_memory": torch.cuda.max_memory_allocated(device)} if is_gpu else {}
            with store.writing(asked) as (folder, seal):
                _write(folder, config, result)
                seal(checkpoint.meter.read(device, tuple(data), **memory))
    if (entry := entry or store.find(asked)) is None:
        raise BookError(f"the run {store.path(asked)} is damaged just after it was written; is the disk in order?")
    return read(entry)


def cached_all(
    task: Task, configs: Sequence[C], *, data: Callable[[C], Sequence[str]] = lambda _: (), device: str = "cpu"
) -> list[Run]:
    """The runs of several configs, in their order: from the store, from the book, or `computed` now.

    Runs on the same data set come from one place: from the store if it has all of them, else from the book if it has
    all, else those that the store lacks are computed, one after another: `make runs` uses all cores.
    """
    code, read_by = parts.modules([task.__module__]), [tuple(data(config)) for config in configs]
    wanted = [
        computation(task, config, data=names, code=code, device=device)
        for config, names in zip(configs, read_by, strict=True)
    ]
    runs = [read(entry) if (entry := default().find(asked)) else None for asked in wanted]
    for names in set(read_by):
        places = [place for place, others in enumerate(read_by) if others == names]
        if not all(runs[place] for place in places):
            for place, run in zip(places, from_book([wanted[place] for place in places]) or (), strict=False):
                runs[place] = run
    return [
        run or computed(task, config, data=names, device=device)
        for run, config, names in zip(runs, configs, read_by, strict=True)
    ]


def brought(task: Task, configs: Sequence[C], *, data: Callable[[C], Sequence[str]] = lambda _: ()) -> list[Run]:
    """The runs of several configs that come with the book, such as some at another scale; none unless all do."""
    return from_book([computation(task, config, data=data(config), code={}) for config in configs]) or []


def from_book(wanted: Sequence[Computation]) -> list[Run] | None:
    """The runs that come with the book; None if one of them does not."""
    finished = [run for run in map(bundled.find, wanted) if run]
    if len(finished) < len(wanted):
        return None
    return [
        Run(b.key, b.line["config"], b.line["metrics"], b.provenance, b.arrays("arrays"), b.arrays("history"), b)
        for b in finished
    ]


def validated(config: object) -> dict[str, Any]:
    """The config as JSON, its fields' types checked: a string is not taken for a number."""
    if not is_dataclass(kind := type(config)):
        raise BookError(f"a run's config must be a dataclass, got {config!r}")
    adapter: TypeAdapter[Any] = _adapter(kind)
    try:
        text = adapter.dump_json(config, warnings=False)
        return dict(adapter.dump_python(adapter.validate_json(text, strict=True), mode="json"))
    except ValueError as error:  # of pydantic: a wrong type, or a value without a form in JSON
        raise BookError(f"{config!r}: {error}") from error


def read(entry: Entry) -> Run:
    """The run that an entry holds."""
    record = json.loads((entry.path / "run.json").read_text("utf-8"))
    arrays, history = (dict(np.load(entry.path / f"{part}.npz", allow_pickle=False)) for part in PARTS)
    return Run(entry.computation.key, record["config"], record["metrics"], entry.provenance, arrays, history)


def _write(folder: Path, config: object, result: Result) -> None:
    metrics = {name: float(value) for name, value in result.metrics.items()}
    for part in PARTS:
        np.savez(folder / f"{part}.npz", allow_pickle=False, **getattr(result, part))
    (folder / "run.json").write_text(json.dumps({"config": validated(config), "metrics": metrics}, indent=1), "utf-8")


def _out_of_memory(name: str, config: object, device: str) -> str:
    """What filled the GPU, and which option needs less."""
    free, total = torch.cuda.mem_get_info(device)
    held = (total - free - torch.cuda.memory_reserved(device)) / 2**30
    size = [f"{field}={value!r}"[:60] for field, value in vars(config).items() if field in ("batch", "members")]
    return (
        f"{name} ({', '.join(size)}) needs more memory than {device} has: {total / 2**30:.1f} GiB, of which other "
        f"processes hold {held:.1f}. End them, set CORES=1, or take a smaller PROFILE or DEVICE=cpu"
    )


@contextmanager
def _surroundings(data: Sequence[str]) -> Iterator[None]:
    """Fix torch's threads and default dtype, and let only the declared data be read: the key knows of no other."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    declared = os.environ.get("SUMEXP_DECLARED_DATA")
    torch.set_num_threads(THREADS)
    torch.set_default_dtype(torch.float32)
    os.environ["SUMEXP_DECLARED_DATA"] = ",".join(data)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        os.environ.pop("SUMEXP_DECLARED_DATA")
        if declared is not None:
            os.environ["SUMEXP_DECLARED_DATA"] = declared
