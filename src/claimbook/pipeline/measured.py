"""Tables of what was measured: rows of ``src/sumexp/measured``, and of what executions cost.

A file has ``tables``: by title their rows, each of cells by head. A row with ``others`` is a task that others do, too:
its ``seconds`` and ``bytes``, those of each of the others, and the least seconds, ``floor``, where that is known.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from claimbook.authoring.results import typeset
from claimbook.pipeline.outputs import literal

Row = Mapping[str, Any]
File = Mapping[str, Any]
"""``tables``, and where there are such the ``machine`` that it was measured on and a ``note``."""

SPACE = "\N{NO-BREAK SPACE}"
NARROW = "\N{NARROW NO-BREAK SPACE}"
"""Between a number and its unit, which stay on one line."""
TIMES = f"{SPACE}×{SPACE}"  # no line ends within a number
TIME, OTHER = "time", "fastest other"
OF_TIME, OF_FLOOR, OF_MEMORY = "ours / best other", "ours / lower bound", "memory: ours / other"
EQUAL = 1.1
"""An other is faster where our time is more than this often its time: less is the machine's mood."""


def text(files: Sequence[File], title: str | None = None) -> str:
    """All tables of the files with their titles, or the table of the given title alone, in MyST."""
    tables = ((name, [*map(cells, rows)]) for file in files for name, rows in file["tables"].items())
    shown = (_table(rows) if title else _titled(name, rows) for name, rows in tables if title in (None, name))
    notes = (file["note"] for file in files if file.get("note"))
    return "\n\n".join(filter(None, (_machines(files), *shown, *notes)))


def slower(files: Sequence[File]) -> str:
    """The table of all rows in which another is faster, in MyST."""
    rows = ({"task": title, **cells(row)} for file in files for title, rows in file["tables"].items() for row in rows)
    heads = ("task", "size", OTHER, OF_TIME)
    return _table([{head: row[head] for head in heads} for row in rows if (row.get(OF_TIME) or 0) > EQUAL])


def cells(row: Row) -> Row:
    """A row as its table shows it: what others do, too, is held against the fastest of them, and against the floor."""
    if "others" not in row:
        return row
    name = min(row["others"], key=lambda other: float(row["others"][other]["seconds"]), default="")
    best = row["others"].get(name, {})
    return {
        "size": row["size"],
        TIME: row["seconds"],
        OTHER: name,
        OF_TIME: _quotient(row["seconds"], best.get("seconds")),
        OF_FLOOR: _quotient(row["seconds"], row.get("floor")),
        OF_MEMORY: _quotient(row.get("bytes"), best.get("bytes")),
    }


def _quotient(ours: float | None, other: float | None) -> float | None:
    return ours / other if ours and other else None


def _titled(title: str, rows: Sequence[Row]) -> str:
    """A title and its table; an other that is the fastest in all rows stands in the title, as phones are narrow."""
    names = {row.get(OTHER) for row in rows}
    if len(names) > 1 or not (name := names.pop()):
        return f"**{title}**\n\n{_table(rows)}"
    return f"**{title}**, compared with {name}\n\n{_table([{**row, OTHER: None} for row in rows])}"


def _table(rows: Sequence[Row]) -> str:
    """Rows of the same heads, without the columns that say nothing, or yes alone: a phone has room for five."""
    heads = [head for head in (rows[0] if rows else ()) if any(row[head] not in (None, "", "yes") for row in rows)]
    sides = (":" if any(isinstance(row[head], int | float) for row in rows) else "" for head in heads)
    lines = [heads, [f"---{side}" for side in sides], *([_shown(head, row[head]) for head in heads] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines if line)


def _machines(files: Sequence[File]) -> str:
    """On what it was measured, in a sentence; empty where no file says it."""
    machines = [file["machine"] for file in files if "machine" in file]
    gpus = [f" and {gpu}" if (gpu := machine.get("gpu")) else "" for machine in machines]
    kinds = {f"{machine['cores']} cores ({machine['cpu']}){gpu}" for machine, gpu in zip(machines, gpus, strict=True)}
    versions = sorted({str(machine["torch"]) for machine in machines})
    return f"Measured on {' and '.join(sorted(kinds))} with torch {', '.join(versions)}." if machines else ""


def _shown(head: str, cell: Any) -> str:
    """A cell in MyST."""
    if cell is None:
        return ""
    if head in FORMATS:
        return FORMATS[head](cell)
    if isinstance(cell, Mapping):
        cell = [f"{name}{SPACE}={SPACE}{'none' if value == '' else value}" for name, value in cell.items()]
    if isinstance(cell, list):
        return literal(", ".join(map(str, cell))) or "none"
    return f"{cell:,}" if isinstance(cell, int) else literal(typeset(str(cell))).replace(" × ", TIMES)


def _time(seconds: float) -> str:
    """Two digits and a unit that keeps them before the point, or near it."""
    unit, size = next(((unit, size) for unit, size in (("s", 1.0), ("ms", 1e-3)) if seconds >= size), ("µs", 1e-6))
    return f"{_two(seconds / size)}{NARROW}{unit}"


def _ratio(ratio: float) -> str:
    """``0.59``, and where it is far from 1, ``140`` or ``1/25,000``."""
    return f"1/{_two(1 / ratio)}" if ratio < 0.01 else _two(ratio)


def _two(value: float) -> str:
    """Two digits that count, without an exponent."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.{max(0, 1 - math.floor(math.log10(rounded)))}f}"


SECONDS = ("wall", "CPU", "CPU alone", "GPU")
FORMATS: Mapping[str, Callable[[Any], str]] = {
    TIME: _time,
    **dict.fromkeys((OF_TIME, OF_FLOOR, OF_MEMORY, "CPU / GPU"), _ratio),
    **dict.fromkeys(SECONDS, lambda seconds: f"{seconds:.1f}{SPACE}s"),
    "peak memory": lambda size: f"{size / 2**20:,.0f}{SPACE}MiB",
    "finished (UTC)": lambda moment: moment[:16].replace("T", " "),
    "notebook": lambda name: f"[{name}](../notebooks/{name})",
    "function": lambda name: f"`{name}`",
    "key": lambda key: key[:12],
}
"""How the cells under some heads are shown; the others as numbers with commas, lists with commas, texts as they are."""
