"""What each chapter's notebook cost and was made from: ``executions.json``, and the line under a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sumexp.companion.store import Entry


def tables(entries: Sequence[Entry]) -> dict[str, list[dict[str, Any]]]:
    """The rows of executed notebooks: their ``cost``, their ``origin``, and the ``versions`` they were made with."""
    made = [(entry.computation, entry.provenance) for entry in entries]
    versions = sorted({item for _, one in made for item in one.versions.items()})
    return {
        "cost": [
            {
                "notebook": computation.name,
                "wall": one.seconds,
                "CPU": one.cpu_seconds,
                "peak memory": one.peak_memory,
                "device": one.device,
                "finished (UTC)": one.finished,
            }
            for computation, one in made
        ],
        "origin": [
            {
                "notebook": computation.name,
                "parameters": dict(one.more["parameters"]),
                "data sets present": list(one.data),
                "key": computation.key,
            }
            for computation, one in made
        ],
        "versions": [{"package": name, "version": number} for name, number in versions],
    }


def provenance(entry: Entry) -> str:
    """The line under a figure: what it was made from, nothing of when and how long."""
    values: Mapping[str, object] = entry.provenance.more["parameters"]
    parts = (f"{name} {'none' if value == '' else value}" for name, value in values.items())
    return " · ".join((f"key {entry.computation.key[:12]}", *parts))
