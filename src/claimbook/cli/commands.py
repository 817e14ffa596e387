"""The commands: build the book, run a notebook, read the register, compute training runs, look after the store."""

import os
from collections import Counter
from functools import partial
from pathlib import Path
from shutil import copy2
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Annotated

import typer
from tabulate import tabulate

from claimbook import BookError, register
from claimbook.pipeline import book, notebooks, pages, plan
from claimbook.store import Store, bundled, default, processes, progress
from claimbook.store.entries import size
from claimbook.store.settings import choice, resolve_device

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help takes longer to import than most commands to run
    help="Build the book, run its notebooks, read its register, train its models.",
)
notebook_app = typer.Typer(no_args_is_help=True, help="Run a notebook with your parameters.")
app.add_typer(notebook_app, name="notebook")
runs_app = typer.Typer(no_args_is_help=True, help="List and compute training runs.")
app.add_typer(runs_app, name="runs")

Profile = Annotated[str, typer.Option(help="smoke (tiny), cpu (minutes), or paper (the published scale, on a GPU).")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Cores = Annotated[int, typer.Option(min=1, help="How many cores to use.")]
ALL = os.cpu_count() or 1
Grid = Annotated[str, typer.Option(help="The chapter whose runs are meant, such as vae.")]
_table = partial(tabulate, tablefmt="plain", disable_numparse=True)


@app.command("book")
def book_command(
    profile: Profile = "cpu",
    device: Device = "auto",
    cores: Cores = ALL,
    only: Annotated[str, typer.Option(help="Chapters to execute, separated by spaces; all by default.")] = "",
    stored: Annotated[str, typer.Option(help="1: render what the store has; partial: even without some.")] = "",
) -> None:
    """Build the book: execute what is out of date and render the pages."""
    typer.echo(f"the book: {book.build(profile, device, only, cores, stored=stored)}")


@app.command("step", hidden=True)
def step_command(step: str, argument: str) -> None:
    """Run a step of the planned build: notebook NAME, or pages CORES."""
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
    output: Annotated[Path | None, typer.Option(dir_okay=False, help="Where the executed notebook goes.")] = None,
) -> None:
    """Execute a notebook; the book and the store stay unchanged."""
    values = notebooks.parameters(name, parameters or [])
    target = output or Path("build/run") / f"{name}.ipynb"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BookError(f"--output is {target}, and {error}; name a file in a folder that you can write to") from None
    processes.drive()
    with TemporaryDirectory() as folder, progress.step(name):
        made = notebooks.run(name, values, Path(folder), Path("build/logs") / f"run-{name}.log")
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
            (e.id, e.where.replace("$", ""), f"{e.verdict} ({e.evidence or 'no evidence'})", shorten(e.says, 120))
            for e in entries
        ]
        typer.echo(_table(shown, ("claim", "where", "verdict", "says")))
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
    made = plan.make(profile, device, "", stored=True)
    known = {**made.notebooks, **made.evidence, "pages": pages.computation(made)}
    for each in [choice("NAME", name, known)] if name else known:
        lines = book.why(each, known[each])
        typer.echo("\n".join(lines if name else lines[:1]))


@app.command("clean")
def clean_command() -> None:
    """Remove executed notebooks, outcomes of tests and pages from the store: the next build makes them again.

    Training runs stay.
    """
    sizes = {path: size(path) for kind in ("notebook", "evidence", "pages") for path in default().paths(kind)}
    gone = [path for path in sizes if default().remove(path)]
    freed = f"{sum(sizes[path] for path in gone) / 1e6:,.1f} MB"
    typer.echo(f"removed {len(gone)} of {len(sizes)} entries, {freed}; training runs stay: {default().root / 'run'}")


@runs_app.command("list")
def list_runs(grid: Grid, profile: Profile = "cpu", device: Device = "auto") -> None:
    """Print the runs of a grid, their states and the time that the missing runs take.

    Stated times are corrected by those of the finished runs.
    """
    from claimbook.grids import absent, differences, planned

    device = resolve_device(device, needed=False)
    runs, store, rows = planned(grid, profile, device), default(), []
    due, stated, taken = 0.0, 0.0, 0.0
    for (job, run), about in zip(runs, differences([job.config for job, _ in runs]), strict=True):
        if entry := store.find(run):
            stated, taken = stated + job.seconds[device], taken + entry.provenance.seconds
        else:
            due += job.seconds[device]
        state = "fresh" if entry else "half-done" if store.checkpoint(run).exists() else "missing"
        rows.append((run.key[:12], state, progress.as_time(entry.provenance.seconds) if entry else "", about))
    typer.echo(_table(rows, ("key", "state", "time", "settings")))
    missing = sum(row[1] != "fresh" for row in rows)
    speed = f"{len(rows) - missing} finished runs" if stated else "an H200" if device == "cuda" else "one core"
    time = progress.as_time(due * (taken / stated if stated else 1))
    typer.echo(f"\n{missing} of {len(rows)} runs to compute: {time} one after the other, at the speed of {speed}")
    if without := absent(grid, profile):
        typer.echo(f"data: without {', '.join(without)}; to have more runs: sumexp data fetch NAME")


@runs_app.command("run")
def run_runs(
    grid: Grid,
    profile: Profile = "cpu",
    device: Device = "auto",
    only: Annotated[str, typer.Option(metavar="KEY", help="Only the run whose key begins so, here.")] = "",
    cores: Cores = 1,
) -> None:
    """Compute the runs of a grid that are missing from the store."""
    from claimbook import grids

    device = resolve_device(device)
    if not only:
        count = grids.fill(grid, profile, device, cores)
        typer.echo(f"{grid}, profile {profile}: all {count} runs are in the store, {default().root}")
        return
    chosen = [job for job, wanted in grids.planned(grid, profile, device) if wanted.key.startswith(only)]
    if not chosen:
        raise BookError(f"no run of {grid}, profile {profile}, on {device} begins with {only!r}; see `runs list`")
    processes.follow()
    for job in chosen:
        grids.run(job, device)


@runs_app.command("write")
def write_runs(grid: Grid, profile: Profile = "cpu", device: Device = "auto") -> None:
    """Write the runs of a grid that the store has into the file that comes with the book."""
    from claimbook import grids

    count = grids.write(grid, profile, resolve_device(device, needed=False))
    typer.echo(f"{count} runs in {' and '.join(map(str, bundled.files(grid)))}")


@runs_app.command("check")
def check_runs(
    grid: Grid,
    runs: Annotated[int, typer.Option(min=1, help="How many: the shortest of each task, then others.")] = 3,
    device: Device = "auto",
) -> None:
    """Recompute some of the runs that come with the book, and compare; the exit code is 1 if any differs."""
    from claimbook import grids

    differ = False
    with TemporaryDirectory() as folder:
        for name, moved, far in grids.check(grid, resolve_device(device), Store(Path(folder)), runs):
            apart = "the same numbers" if moved == 0 else f"{moved:.1g} apart, relative"
            typer.echo(f"{name}: {apart}{', too far' * far}")
            differ |= far
    if differ:
        raise typer.Exit(1)
