"""What each chapter's notebook cost and was made from: ``executions.json``, its tables, the line under a figure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sumexp.companion.store import Entry

_SPACE = "\N{NO-BREAK SPACE}"


def record(entry: Entry) -> dict[str, Any]:
    """The provenance of one executed notebook, as JSON has it."""
    made = entry.provenance
    return {
        "notebook": entry.computation.name,
        "key": entry.computation.key,
        "parameters": dict(made.more["parameters"]),
        "device": made.device,
        "seconds": made.seconds,
        "cpu_seconds": made.cpu_seconds,
        "peak_memory": made.peak_memory,
        "finished": made.finished,
        "data": list(made.data),
        "versions": dict(made.versions),
    }


def provenance(entry: Entry) -> str:
    """The line under a figure: what it was made from, nothing of when and how long."""
    values: Mapping[str, object] = entry.provenance.more["parameters"]
    told = (f"{name} {_said(value)}" for name, value in values.items())
    return " · ".join((f"key {entry.computation.key[:12]}", *told))


def _said(parameter: object) -> object:
    """An empty text shows nothing."""
    return "none" if parameter == "" else parameter


def cost(records: Iterable[Mapping[str, Any]]) -> str:
    """The table of what each execution cost, in MyST."""
    rows = (
        (
            _page(one),
            f"{one['seconds']:.1f}{_SPACE}s",
            f"{one['cpu_seconds']:.1f}{_SPACE}s",
            f"{one['peak_memory'] / 2**20:,.0f}{_SPACE}MiB",
            one["device"],
            f"{datetime.fromisoformat(one['finished']):%Y-%m-%d %H:%M}",
        )
        for one in records
    )
    return table(
        {"notebook": "", "wall": ":", "CPU": ":", "peak memory": ":", "device": "", "finished (UTC)": ""}, rows
    )


def origin(records: Iterable[Mapping[str, Any]]) -> str:
    """The table of what each execution was made from, in MyST."""
    rows = (
        (
            _page(one),
            ", ".join(f"{name}{_SPACE}={_SPACE}{_said(value)}" for name, value in one["parameters"].items()),
            ", ".join(one["data"]) or "none",
            one["key"][:12],
        )
        for one in records
    )
    return table({"notebook": "", "parameters": "", "data sets present": "", "key": ""}, rows)


def versions(records: Iterable[Mapping[str, Any]]) -> str:
    """The versions of what they were executed with."""
    found = sorted({f"{name} {number}" for one in records for name, number in one["versions"].items()})
    return f"With {', '.join(found)}." if found else "Nothing is executed yet."


def kills(campaign: Mapping[str, Any]) -> str:
    """The table of a campaign of ``benchmarks/kills.py``, and what it found of a full disk, in MyST."""
    rows = [
        (
            name,
            str(campaign[part]["kills"]),
            f"{campaign[part]['latest end, seconds']:.1f}{_SPACE}s",
            str(campaign[part]["entries"]),
        )
        for name, part in (("the book", "book"), ("a grid of training runs", "grid"))
    ]
    found = table(
        {"killed": "", "kills": ":", "latest end after a kill": ":", "most entries after a kill, all whole": ":"}, rows
    )
    disk = campaign["full disk"]
    if not disk["tried"]:
        return found
    said = "named the full disk" if disk["said so"] else "did not name the full disk"
    return (
        f"{found}\nOn a disk that held half of what it needs a grid ended with exit code {disk['exit code']}, {said}, "
        f"and left {disk['whole entries']} entries, all whole.\n"
    )


def _page(one: Mapping[str, Any]) -> str:
    return f"[{one['notebook']}](../notebooks/{one['notebook']})"


def table(head: Mapping[str, str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns end with ``:`` where they are flush right."""
    lines = [list(head), [f"---{side}" for side in head.values()], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
