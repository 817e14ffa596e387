"""Finished runs that come with the book: for each grid a file with a line for each run, and a file of their arrays.

``measured/runs/GRID.json`` has a line for each run, ``GRID.npz`` the arrays that chapters read. They are found by task,
settings and checksums of the data, on a machine that has neither the data nor a store. `Bundled.is_stale` says whether
their code has changed since, unless ``claimbook runs check`` has found some of them the same with today's.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from claimbook import BookError, project
from claimbook.store import parts
from claimbook.store.computation import Computation, digest
from claimbook.store.entries import write_text
from claimbook.store.provenance import Provenance
from claimbook.tasks import Arrays

FOLDER = project.folder(project.declared("measured") or "claimbook") / "runs"


@dataclass(frozen=True)
class Bundled:
    """A run of a file: its line there, and which of the file's runs it is; ``key`` is that of its entry in a store."""

    grid: str
    number: int
    line: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The key of the run in the store that it was taken from."""
        return str(self.line["key"])

    @property
    def provenance(self) -> Provenance:
        """How it was computed."""
        return Provenance(**{**self.line["provenance"], "data": tuple(self.line["provenance"]["data"])})

    @property
    def is_stale(self) -> bool:
        """Whether it was computed with other code than today's, and no check has found the same since."""
        task, checks = self.line["task"], record(self.grid)["checks"]
        return code(task) not in [self.line["code"], *(check["code"].get(task) for check in checks)]

    def arrays(self, part: str) -> Arrays:
        """Its ``arrays``, or its ``history``."""
        prefix, stored = f"{self.number}/{part}/", _arrays(self.grid)
        return {name.removeprefix(prefix): stored[name] for name in stored if name.startswith(prefix)}


def grids() -> list[str]:
    """The grids that have a file."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def files(grid: str) -> tuple[Path, Path]:
    """The lines of a grid, and its arrays."""
    return FOLDER / f"{grid}.json", FOLDER / f"{grid}.npz"


@cache
def record(grid: str) -> Mapping[str, Any]:
    """What the file of a grid holds; nothing if there is none."""
    path, _ = files(grid)
    return json.loads(path.read_text("utf-8")) if path.is_file() else {"checks": [], "runs": []}


@cache
def _arrays(grid: str) -> Mapping[str, NDArray[Any]]:
    with np.load(files(grid)[1], allow_pickle=False) as stored:
        return dict(stored)


def sources(grid: str, profile: str) -> list[str]:
    """The data sets that the runs of a profile in a file have read."""
    return sorted({name for line in record(grid)["runs"] if line["profile"] == profile for name in line["data"]})


def find(wanted: Computation) -> Bundled | None:
    """The run of the same task and settings on the same data; None if no file has it."""
    return _known().get(identity(wanted))


def identity(wanted: Computation) -> str:
    """What a run has in common with itself on another machine, at another time: task, settings and declared data."""
    return _identity(wanted.name, wanted.named("config "), parts.declared(wanted.named("data ")))


@cache
def code(task: str) -> str:
    """A digest of the code that a task can reach today; empty if it is gone."""
    try:
        return code_of(parts.modules([task.rpartition(".")[0]]))
    except BookError:
        return ""


def code_of(named: Mapping[str, str]) -> str:
    """A digest of those of the parts that are code."""
    return digest(*(text for item in sorted(named.items()) if item[0].startswith("module ") for text in item))


def origin(keys: Iterable[str]) -> str:
    """The origin of the runs with these keys if any came with the book; else empty."""
    runs = [run for run in _known().values() if run.key in set(keys)]
    changed = ", and its code has changed since" * any(run.is_stale for run in runs)
    return f"came with the book{changed}" if runs else ""


@cache
def _known() -> Mapping[str, Bundled]:
    runs = [Bundled(grid, number, line) for grid in grids() for number, line in enumerate(record(grid)["runs"])]
    return {_identity(run.line["task"], _texts(run.line["config"]), run.line["data"]): run for run in runs}


def _texts(config: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value, sort_keys=True) for name, value in config.items()}


def _identity(task: str, config: Mapping[str, str], data: Mapping[str, str]) -> str:
    return digest(task, *(text for item in (*sorted(config.items()), *sorted(data.items())) for text in item))


def write(grid: str, profile: str, runs: Sequence[tuple[Mapping[str, Any], Arrays, Arrays]]) -> None:
    """Write the runs of a profile into the file of a grid, of each its line, arrays and history; others stay."""
    path, arrays = files(grid)
    before = [Bundled(grid, number, line) for number, line in enumerate(record(grid)["runs"])]
    kept = [(run.line, run.arrays("arrays"), run.arrays("history")) for run in before if run.line["profile"] != profile]
    runs = [*kept, *(({"profile": profile, **line}, values, history) for line, values, history in runs)]
    path.parent.mkdir(parents=True, exist_ok=True)
    named = {
        f"{number}/{part}/{name}": value
        for number, (_, *both) in enumerate(runs)
        for part, values in zip(("arrays", "history"), both, strict=True)
        for name, value in values.items()
    }
    np.savez_compressed(temporary := arrays.with_suffix(".tmp.npz"), allow_pickle=False, **named)
    temporary.replace(arrays)
    checks = record(grid)["checks"] if {run.key for run in before} & {str(line["key"]) for line, *_ in runs} else []
    _write(path, {"checks": checks, "runs": [line for line, *_ in runs]})


def add_check(grid: str, check: Mapping[str, Any]) -> None:
    """Record that some runs of a file were recomputed; the last check counts."""
    path, _ = files(grid)
    _write(path, json.loads(path.read_text("utf-8")) | {"checks": [dict(check)]})
    record.cache_clear()


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """As JSON with a line for each run."""
    head = json.dumps({name: value for name, value in content.items() if name != "runs"}, indent=1)
    lines = ",\n  ".join(json.dumps(line, sort_keys=True) for line in content["runs"])
    write_text(path, f'{head[:-2]},\n "runs": [\n  {lines}\n ]\n}}\n')
