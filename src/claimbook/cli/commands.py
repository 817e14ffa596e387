"""The commands but ``runs``: build the book, run a notebook, read the register, look after the store."""

from collections import Counter
from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer

from claimbook.cli.options import ALL, Cores, Device, Profile, as_size, print_table
from claimbook.cli.runs import runs_app

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help takes longer to import than most commands to run
    help="Build the book, run its notebooks, read its register, train its models.",
)
notebook_app = typer.Typer(no_args_is_help=True, help="Run a notebook with your parameters.")
app.add_typer(notebook_app, name="notebook")
app.add_typer(runs_app, name="runs")
SAID = 120
"""Letters of what decides a claim: one that rests on runs names hundreds, which ``--json`` lists."""


@app.command("book")
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


@app.command("step", hidden=True)
def step_command(step: str, argument: str) -> None:
    """Run a step of the planned build: notebook NAME, or pages CORES."""
    from claimbook.pipeline import book

    book.step(step, argument)


@app.command("pdf")
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


@app.command("register")
def register_command(
    chapter: Annotated[str, typer.Option(help="Only the claims that this chapter decides.")] = "",
    verdict: Annotated[str, typer.Option(help="Only the claims with this verdict, such as open or refuted.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the machine's form, with the statements.")] = False,
) -> None:
    """Print the claims of the five papers and our own with their verdicts, computed from the tests as they last ran.

    The evidence is that of the last `make book`; without it, claims that have tests are open.
    The exit code is 1 if the tests of a listed claim fail.
    """
    from claimbook import register
    from claimbook.store.settings import choice

    if verdict:
        choice("--verdict", verdict, register.VERDICTS)
    claims, built = register.load(Path("claims")), Path("build/register.json")
    if chapter:
        choice("--chapter", chapter, dict.fromkeys(claim.chapter for claim in claims.values()))
    known = register.read_json(built) if built.exists() else ()
    ended = [test for entry in known if entry.id in claims for test in entry.tests]
    entries = tuple(
        entry
        for entry in register.decide(claims, ended)
        if chapter in ("", entry.chapter) and verdict in ("", entry.verdict)
    )
    if as_json:
        typer.echo(register.to_json(entries), nl=False)
    else:
        shown = [
            (e.id, e.where.replace("$", ""), f"{e.verdict} ({e.evidence or 'no evidence'})", shorten(e.says, SAID))
            for e in entries
        ]
        print_table(("claim", "where", "verdict", "says"), shown)
        counts = Counter(entry.verdict for entry in entries)
        typer.echo(f"\n{len(entries)} claims: {', '.join(f'{number} {verdict}' for verdict, number in counts.items())}")
    if any(entry.verdict == "failing" for entry in entries):
        raise typer.Exit(1)


@app.command("why")
def why_command(
    name: Annotated[str, typer.Argument(help="A chapter, test module (nce.test_gan), or pages; else all.")] = "",
    profile: Profile = "cpu",
    device: Device = "auto",
) -> None:
    """Say whether a build would compute it again and, of a single name, which part changed since the last time."""
    from claimbook.pipeline import book, plan
    from claimbook.store.settings import choice

    known = book.everything(plan.make(profile, device, "", stored=True))
    for each in [choice("NAME", name, known)] if name else known:
        lines = book.why(each, known[each])
        typer.echo("\n".join(lines if name else lines[:1]))


@app.command("clean")
def clean_command() -> None:
    """Remove executed notebooks, outcomes of tests and pages from the store: the next build makes them again.

    Training runs stay.
    """
    from claimbook.store import default
    from claimbook.store.entries import size

    sizes = {path: size(path) for kind in ("notebook", "evidence", "pages") for path in default().paths(kind)}
    gone = [path for path in sizes if default().remove(path)]
    freed = as_size(sum(sizes[path] for path in gone))
    typer.echo(f"removed {len(gone)} of {len(sizes)} entries, {freed}; training runs stay: {default().root / 'run'}")
