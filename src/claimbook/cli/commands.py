"""The commands, put together."""

import typer

from claimbook.cli.book import book_command, notebook_app, pdf_command, step_command
from claimbook.cli.register import register_command
from claimbook.cli.runs import runs_app
from claimbook.cli.store import clean_command, status_command, why_command

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help takes longer to import than most commands to run
    help="Build the book, run its notebooks, read its register, train its models.",
)
app.command("book")(book_command)
app.command("pdf")(pdf_command)
app.command("step", hidden=True)(step_command)
app.command("why")(why_command)
app.command("status")(status_command)
app.command("clean")(clean_command)
app.add_typer(notebook_app, name="notebook")
app.command("register")(register_command)
app.add_typer(runs_app, name="runs")
