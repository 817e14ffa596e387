"""The command line, ``sumexp``."""

import sys

import typer

from sumexp.companion import CompanionError
from sumexp.companion.cli.book import book_command, notebook_app
from sumexp.companion.cli.data import data_app
from sumexp.companion.cli.register import register_command
from sumexp.companion.cli.runs import runs_app
from sumexp.companion.cli.store import clean_command, status_command, store_app, why_command

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The Sum of Exponentials: build the book, run its notebooks, read its register, fetch its data, train its "
    "models.",
)
app.command("book")(book_command)
app.command("why")(why_command)
app.command("status")(status_command)
app.command("clean")(clean_command)
app.add_typer(notebook_app, name="notebook")
app.command("register")(register_command)
app.add_typer(data_app, name="data")
app.add_typer(runs_app, name="runs")
app.add_typer(store_app, name="store")


def main() -> None:
    """Run the command line; an error of the person's input is one message on stderr and exit code 1."""
    from sumexp.datasets import DataError

    try:
        app()
    except (CompanionError, DataError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
