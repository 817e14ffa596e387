"""``claimbook book``, ``claimbook pdf`` and ``claimbook notebook run``: build the book, print it, run a notebook."""

import os
from pathlib import Path
from typing import Annotated

import typer

notebook_app = typer.Typer(no_args_is_help=True, help="Run a notebook with your parameters.")

Profile = Annotated[str, typer.Option(help="smoke (seconds), cpu, or paper (the published scale, on a GPU).")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
ALL = os.cpu_count() or 1
Cores = Annotated[int, typer.Option(min=1, help="How many cores to use.")]


def book_command(
    profile: Profile = "cpu",
    device: Device = "auto",
    cores: Cores = ALL,
    only: Annotated[str, typer.Option(help="Chapters to execute, separated by spaces; all by default.")] = "",
    stored: Annotated[str, typer.Option(help="1: render what the store has; partial: even without some.")] = "",
) -> None:
    """Build the book: execute what is out of date and render the pages."""
    from claimbook.pipeline import book

    typer.echo(f"the book: {book.build(profile, device, only, cores, stored=stored)}")


def step_command(step: str, argument: str) -> None:
    """Run a step of the planned build: notebook NAME, or pages CORES."""
    from claimbook.pipeline import book

    book.step(step, argument)


def pdf_command() -> None:
    """Print the pages that build/html has, with Chromium: build/sumexp.pdf."""
    from claimbook.pipeline import pdf

    typer.echo(f"the book on paper: {pdf.make()}")


@notebook_app.command("run")
def run_command(
    name: Annotated[str, typer.Argument(help="The chapter's name, such as expectations.")],
    parameters: Annotated[list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE")] = None,
    output: Annotated[Path | None, typer.Option(help="Where the executed notebook goes.")] = None,
) -> None:
    """Execute a notebook; the book and the store stay unchanged."""
    from shutil import copy2
    from tempfile import TemporaryDirectory

    from claimbook.pipeline import notebooks
    from claimbook.store import processes, progress

    values = notebooks.parameters(name, parameters or [])
    target = output or Path("build/run") / f"{name}.ipynb"
    processes.drive()
    with TemporaryDirectory() as folder, progress.step(name):
        made = notebooks.run(name, values, Path(folder), Path("build/logs") / f"run-{name}.log")
        target.parent.mkdir(parents=True, exist_ok=True)
        copy2(Path(folder, notebooks.EXECUTED), target)
    typer.echo(f"executed in {made.seconds:.1f} s: {target}")
