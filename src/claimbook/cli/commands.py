"""The commands of ``sumexp``, put together."""

from typing import Annotated

import typer

from claimbook.cli.book import book_command, notebook_app, pdf_command, step_command
from claimbook.cli.data import data_app
from claimbook.cli.register import register_command
from claimbook.cli.runs import runs_app
from claimbook.cli.store import clean_command, status_command, why_command
from sumexp import __version__

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help takes longer to import than most commands to run
    help="The Sum of Exponentials: build the book, run its notebooks, read its register, fetch its data, train its "
    "models.",
)
app.command("book")(book_command)
app.command("pdf")(pdf_command)
app.command("step", hidden=True)(step_command)
AUDIT = "What training with your sampled negatives ends at, and what to change: sumexp audit --help."
app.command("audit", help=AUDIT)(lambda: None)  # listed here, and run before all other commands: it needs no typer
app.command("why")(why_command)
app.command("status")(status_command)
app.command("clean")(clean_command)
app.add_typer(notebook_app, name="notebook")
app.command("register")(register_command)
app.add_typer(data_app, name="data")
app.add_typer(runs_app, name="runs")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sumexp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """What may stand before a command."""
