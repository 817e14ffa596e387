"""How the command line prints tables and sizes."""

from collections.abc import Sequence

import typer

SHORT = 12
"""Digits of a key that are shown."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns of texts."""
    from tabulate import tabulate

    typer.echo(tabulate(rows, columns, tablefmt="plain", disable_numparse=True))


def as_size(size: float) -> str:
    """MB with one decimal."""
    return f"{size / 1e6:,.1f} MB"
