"""What each chapter's notebook cost and was made from: ``executions.json``, and the line under a figure."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sumexp.companion.store import Entry
from sumexp.companion.store.files import write_text


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
    return " · ".join((f"key {entry.computation.key[:12]}", *(f"{name} {value}" for name, value in values.items())))


def write_page(records: list[dict[str, Any]], stage_dir: Path) -> None:
    """Write ``book/executions.md`` into the staged book."""
    rows = "".join(f"| {' | '.join(_row(one))} |\n" for one in records)
    found = sorted({f"{name} {number}" for one in records for name, number in one["versions"].items()})
    page = (
        # Times differ from build to build: out of the search index, which would differ with them.
        "---\nnosearch: true\n---\n\n# Executions\n\n"
        "What each chapter's notebook cost when it was last executed. No other page differs between two builds of the "
        "same sources. The same stands in `build/executions.json`.\n\n"
        "| notebook | time | peak memory | device | parameters | key | finished |\n|---|--:|--:|---|---|---|---|\n"
        f"{rows}\nWith {', '.join(found) or 'nothing executed yet'}.\n"
    )
    write_text(stage_dir / "book" / "executions.md", page)


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"[{one['notebook']}](../notebooks/{one['notebook']})",
        f"{one['seconds']:.1f}\N{NO-BREAK SPACE}s",
        f"{one['peak_memory'] / 2**20:,.0f}\N{NO-BREAK SPACE}MiB",
        one["device"],
        ", ".join(f"{name} = {value}" for name, value in one["parameters"].items()),
        one["key"][:12],
        f"{datetime.fromisoformat(one['finished']):%Y-%m-%d %H:%M} UTC",
    )
