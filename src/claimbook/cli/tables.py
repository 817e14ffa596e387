"""How the command line prints tables and sizes."""

import shutil
import sys
from collections.abc import Sequence

import typer

SHORT = 12
"""Digits of a key that are shown."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table whose last column is cut where the terminal ends; a file or pipe gets all of it."""
    widths = [max(len(row[n]) for row in (columns, *rows)) for n in range(len(columns))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for row in (columns, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        typer.echo(line if room is None or len(line) <= room else f"{line[: room - 3]}...")


def as_size(size: float) -> str:
    """kB, MB or GB, with one decimal."""
    for unit, length in (("GB", 1e9), ("MB", 1e6)):
        if size >= length:
            return f"{size / length:.1f} {unit}"
    return f"{size / 1e3:.1f} kB"
