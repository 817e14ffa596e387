"""``claimbook runs``: what the store holds of training runs, what a grid lacks and costs, and computing it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from claimbook.cli.book import Cores, Device, Profile
from claimbook.cli.tables import SHORT, as_size, print_table

if TYPE_CHECKING:
    from claimbook.store import Computation, Entry
    from claimbook.tasks import Job

runs_app = typer.Typer(help="List, show and compute training runs.", no_args_is_help=True)

Grid = Annotated[str, typer.Option(help="The chapter whose runs are meant, such as vae.")]


@runs_app.command("list")
def list_command(grid: Grid = "", profile: Profile = "cpu", device: Device = "auto") -> None:
    """Print the runs in the store; with --grid, those of the grid, and how far each is."""
    from claimbook.grids.jobs import computations, jobs_of, kind_of
    from claimbook.grids.labels import differences
    from claimbook.store import default

    store = default()
    if grid:
        jobs = jobs_of(grid, profile)
        both = zip(computations(jobs, kind_of(device)), differences([job.config for job in jobs]), strict=True)
        rows = [(run.key[:SHORT], store.status(run), *_cost(store.find(run)), about) for run, about in both]
        print_table(("key", "state", "date", "time", "size", "device", "settings"), rows)
        return
    entries = store.entries("run")
    stored = [(run.computation.key[:SHORT], *_cost(run), run.computation.name) for run in entries]
    print_table(("key", "date", "time", "size", "device", "task"), stored)
    typer.echo(f"\n{len(entries)} runs, {as_size(sum(run.size for run in entries))}, in {store.root}")


@runs_app.command("show")
def show_command(key: Annotated[str, typer.Argument(help="The run's key, or the first digits of it.")]) -> None:
    """Print a run as JSON: its settings, its surroundings, its numbers and its history."""
    import json
    from dataclasses import asdict

    from claimbook import BookError
    from claimbook.authoring import runs
    from claimbook.store import default
    from claimbook.store.entries import read

    store = default()
    matching = [path for path in store.paths("run") if path.name.startswith(key)]
    if len(matching) != 1:
        raise BookError(f"{len(matching)} runs in {store.root} begin with {key!r}; see: claimbook runs list")
    entry = read(matching[0])
    run = runs.read(entry)
    record = {
        "task": entry.computation.name,
        "key": run.key,
        "path": str(entry.path),
        "config": run.config,
        "provenance": asdict(run.provenance),
        "metrics": run.metrics,
        "arrays": {name: f"{array.dtype} {list(array.shape)}" for name, array in run.arrays.items()},
        "history": {name: column.tolist() for name, column in run.history.items()},
    }
    typer.echo(json.dumps(record, indent=1))


@runs_app.command("run")
def run_command(
    grid: Grid,
    profile: Profile = "cpu",
    device: Device = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, and what it costs.")] = False,
    only: Annotated[str, typer.Option(metavar="KEY", help="Only the run whose key begins so, here.")] = "",
    cores: Cores = 1,
) -> None:
    """Compute the runs of a grid that the store lacks."""
    from claimbook import BookError
    from claimbook.grids.filling import fill, leave_marks
    from claimbook.grids.jobs import jobs_of, kind_of
    from claimbook.store import default
    from claimbook.store.settings import resolve_device

    wanted = jobs_of(grid, profile)
    if dry_run:
        _dry_run(grid, profile, kind_of(device), only)
        return
    device = resolve_device(device)
    if only:
        if not (chosen := _chosen(wanted, device, only)):
            raise BookError(f"no run of the grid {grid}, profile {profile}, on {device} begins with {only!r}")
        _here(chosen, device)
    else:
        fill(grid, profile, device, cores)
        leave_marks(grid, profile, device)
        typer.echo(f"{grid}, profile {profile}: all {len(wanted)} runs are in the store, {default().root}")


@runs_app.command("write")
def write_command(grid: Grid, profile: Profile = "cpu", device: Device = "auto") -> None:
    """Write the runs of a grid that the store has into the file that comes with the book."""
    from claimbook.grids import results
    from claimbook.grids.jobs import kind_of
    from claimbook.store import bundled

    count = results.write(grid, profile, kind_of(device))
    sizes = " and ".join(f"{path} ({as_size(path.stat().st_size)})" for path in bundled.files(grid))
    typer.echo(f"{count} runs in {sizes}")


@runs_app.command("check")
def check_command(
    grid: Grid,
    runs: Annotated[int, typer.Option(help="How many: the shortest of each task, then others.")] = 3,
    device: Device = "auto",
) -> None:
    """Compute some of the runs that come with the book again, and compare; the exit code is 1 if one differs."""
    from tempfile import TemporaryDirectory

    from claimbook.grids import results
    from claimbook.grids.jobs import kind_of
    from claimbook.store import Store

    with TemporaryDirectory() as folder:
        found = results.check(grid, kind_of(device), Store(Path(folder)), runs)
    for name, moved, far in found:
        typer.echo(f"{name}: {'the same numbers' if moved == 0 else f'{moved:.1g} apart, relative'}{', too far' * far}")
    if any(far for *_, far in found):
        raise typer.Exit(1)


def _here(chosen: "Sequence[tuple[Job, Computation]]", device: str) -> None:
    """Compute in this process what the store lacks."""
    from claimbook.grids.jobs import run
    from claimbook.store import processes, progress

    if processes.driver():  # a shell may end before what it started by nohup
        processes.bind()
    for job, wanted in chosen:
        with progress.step(f"{job.name.partition('.')[2]} {wanted.key[:SHORT]}"):
            run(job, device)


def _chosen(jobs: "Sequence[Job]", device: str, only: str) -> "list[tuple[Job, Computation]]":
    """The jobs whose keys begin so, with what they compute."""
    from claimbook.grids.jobs import computations

    both = zip(jobs, computations(jobs, device), strict=True)
    return [(job, wanted) for job, wanted in both if wanted.key.startswith(only)]


def _dry_run(grid: str, profile: str, device: str, only: str) -> None:
    """Print what is to be computed, how long it will take and how much disk; nothing is written."""
    from claimbook.grids.costs import estimates
    from claimbook.grids.jobs import absent, jobs_of
    from claimbook.grids.labels import differences
    from claimbook.store import default
    from claimbook.store.progress import as_time

    store, chosen = default(), _chosen(jobs_of(grid, profile), device, only)
    costs, rows, due = estimates(grid, device, store), [], []
    for (job, run), about in zip(chosen, differences([job.config for job, _ in chosen]), strict=True):
        state, seconds, size = store.status(run), costs[job.name].seconds(job), costs[job.name].size
        rows.append((run.key[:SHORT], state, as_time(seconds), as_size(size), about))
        if state not in ("fresh", "running"):
            due.append((seconds, size))
    print_table(("key", "state", "time", "disk", "settings"), rows)
    hours = sum(seconds for seconds, _ in due) / 3600
    cores = max((job.threads for job, _ in chosen), default=0)
    unit = "GPU hours" if device == "cuda" else f"hours on {cores} core{'s' * (cores != 1)}"
    typer.echo(f"\n{grid}, profile {profile}, device {device}: {len(due)} of {len(chosen)} runs to compute")
    typer.echo(f"time: {float(f'{hours:.2g}'):,.12g} {unit}")
    typer.echo(f"disk: {as_size(sum(size for _, size in due))} in {store.root}")
    for name in dict.fromkeys(job.name for job, _ in chosen):
        n, reference = costs[name].finished, "an H200" if device == "cuda" else "one core"
        source = f"{n} finished run{'s' * (n != 1)} on {device}" if n else f"the grid's figures for {reference}"
        typer.echo(f"estimate: {name} from {source}")
    if lacking := absent(grid, profile):
        typer.echo(f"data: without {', '.join(lacking)}; to have more runs: sumexp data fetch NAME")


def _cost(entry: "Entry | None") -> tuple[str, str, str, str]:
    """Of a run: date, time, size and device, as far as they are known."""
    from claimbook.store.progress import as_time

    if entry is None:
        return "", "", "", ""
    made = entry.provenance
    return made.finished[:16].replace("T", " "), as_time(made.seconds), as_size(entry.size), made.device.split(" ")[0]
