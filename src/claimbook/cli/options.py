"""Options that several commands have, and how the command line prints tables and sizes."""

import os
from collections.abc import Sequence
from typing import Annotated

import typer

Profile = Annotated[str, typer.Option(help="smoke (seconds), cpu, or paper (the published scale, on a GPU).")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Cores = Annotated[int, typer.Option(min=1, help="How many cores to use.")]
ALL = os.cpu_count() or 1
SHORT = 12
"""Digits of a key that are shown."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns of texts."""
    from tabulate import tabulate

    typer.echo(tabulate(rows, columns, tablefmt="plain", disable_numparse=True))


def as_size(size: float) -> str:
    """MB with one decimal."""
    return f"{size / 1e6:,.1f} MB"
