"""Runs that come with the book: written from the store, and checked by computing some of them again."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from claimbook import BookError
from claimbook.authoring import runs
from claimbook.grids.jobs import absent, planned
from claimbook.grids.jobs import run as computed
from claimbook.store import Computation, Store, bundled, default, parts
from claimbook.store.provenance import device_name
from claimbook.tasks import Arrays, Job

METRICS, NUMBERS = 0.02, 1e-6
"""How far, relative to itself, another machine may move a metric of a training, and the arrays of an exact task."""


def write(grid: str, profile: str, device: str) -> int:
    """Write the file of a grid from the store, which must have all its runs; how many there are.

    They are those on the data that are here, of today's code or another: each line says which.
    """
    pairs, lines = planned(grid, profile, device), []
    entries = [entry for name in {job.name for job, _ in pairs} for entry in default().entries("run", name)]
    stored = {bundled.identity(e.computation): e for e in entries if e.computation.parts["device"] == device}
    for job, wanted in pairs:
        entry = stored.get(bundled.identity(wanted))
        if entry is None:
            raise BookError(f"the store lacks a run of {wanted.name}: make runs GRID={grid}")
        run = runs.read(entry)
        lines.append((_line(job, entry.computation, run), job.condense(run.arrays), run.history))
    bundled.write(grid, profile, lines)
    return len(lines)


def _line(job: Job, wanted: Computation, run: runs.Run) -> dict[str, Any]:
    config = {name: json.loads(text) for name, text in wanted.named("config ").items()}
    about = {"task": wanted.name, "key": wanted.key, "code": bundled.code_of(wanted.parts), "config": config}
    about |= {"data": parts.declared(job.data)}
    return about | {"metrics": dict(run.metrics), "provenance": asdict(run.provenance) | {"machine": ""}}


def check(grid: str, device: str, store: Store, count: int) -> list[tuple[str, float, bool]]:
    """Compute ``count`` runs of a grid again, the shortest of each task first; how far each moved, and if too far.

    The result is noted in the file if all agree. Raises `BookError` if the grid has no file, or no data are here.
    """
    profile = bundled.record(grid)["profile"]
    if not profile:
        raise BookError(f"no runs of the grid {grid} come with the book; there are: {', '.join(bundled.grids())}")
    moves, codes = [], {}
    both = [(job, brought) for job, run in planned(grid, profile, device) if (brought := bundled.find(run))]
    if not both:
        raise BookError(f"the data of the grid {grid} are not here: {', '.join(absent(grid, profile))}")
    for job, brought in _shortest(both, count):
        run = computed(job, device, store)
        moved = _moved(brought, run.metrics, job.condense(run.arrays))
        agrees = moved <= (METRICS if run.metrics else NUMBERS)  # NaN does not
        moves.append((f"{job.name} {brought.key[:12]}", moved, not agrees))
        codes[job.name] = bundled.code(job.name)
    if not any(far for *_, far in moves) and codes.keys() == {job.name for job, _ in both}:
        about = {"code": codes, "runs": len(moves), "difference": max(moved for _, moved, _ in moves)}
        date = datetime.now(UTC).date().isoformat()
        bundled.add_check(grid, about | {"date": date, "device": device_name(device)})
    return moves


def _shortest(both: Sequence[tuple[Job, bundled.Bundled]], count: int) -> list[tuple[Job, bundled.Bundled]]:
    """The shortest run of each task, the task with most runs first; then the shortest others."""
    ordered = sorted(both, key=lambda pair: pair[0].seconds["cpu"])
    first = {job.name: (job, run) for job, run in reversed(ordered)}
    leading = [first[name] for name, _ in Counter(job.name for job, _ in both).most_common()]
    return [*leading, *(pair for pair in ordered if pair not in leading)][:count]


def _moved(brought: bundled.Bundled, metrics: Mapping[str, float], arrays: Arrays) -> float:
    """The largest relative difference of the metrics or, of a task without any, of its arrays of numbers."""
    before, now = (brought.line["metrics"], metrics) if metrics else (brought.arrays("arrays"), arrays)
    both = [(np.asarray(before[name]), np.asarray(value)) for name, value in now.items()]
    both = [(a, b) for a, b in both if np.issubdtype(b.dtype, np.number)]
    return float(np.max([np.abs(a - b).max(initial=0) / (np.abs(a).max(initial=0) or 1) for a, b in both]))
