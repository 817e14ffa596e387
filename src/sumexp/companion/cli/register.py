"""``sumexp register``: print the register."""

from typing import Annotated

import typer


def register_command(
    chapter: Annotated[str | None, typer.Option(help="Only claims that this chapter decides.")] = None,
    verdict: Annotated[str | None, typer.Option(help="Only claims with this verdict.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the machine's form.")] = False,
) -> None:
    """Print every claim of the five papers with its verdict, computed from the last test run."""
