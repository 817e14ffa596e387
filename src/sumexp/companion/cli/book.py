"""``sumexp book`` and ``sumexp notebook run``: build the book, run one notebook."""

import os
from pathlib import Path
from typing import Annotated

import typer

notebook_app = typer.Typer(no_args_is_help=True, help="Run one notebook with parameters of your own.")


def book_command(
    profile: Annotated[
        str, typer.Option(help="smoke (seconds), cpu, or paper (the published scale, on a GPU).")
    ] = "cpu",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    cores: Annotated[int, typer.Option(help="How many cores to use.")] = os.cpu_count() or 1,
    only: Annotated[str, typer.Option(help="Chapters to execute, separated by spaces; all by default.")] = "",
) -> None:
    """Build the book: execute what is out of date and render the pages."""
    from sumexp.companion import build

    typer.echo(f"the book: {build.book(profile, device, cores, only)}")


@notebook_app.command("run")
def run_command(
    name: Annotated[str, typer.Argument(help="The chapter's name, such as expectations.")],
    parameters: Annotated[list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE")] = None,
    output: Annotated[Path | None, typer.Option(help="Where the executed notebook goes.")] = None,
) -> None:
    """Execute one notebook; the book and its cache stay as they are."""
    from sumexp.companion import notebooks

    given = parameters or []
    values = notebooks.parameters(name, given)
    products = notebooks.Products(Path("build/run"), name)
    key = notebooks.key(name, values, given)
    execution = notebooks.run(name, values, products, key)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        products.executed.replace(output)
    typer.echo(f"executed in {execution.seconds:.1f} s: {output or products.executed}")
