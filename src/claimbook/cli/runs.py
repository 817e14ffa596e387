"""``claimbook runs``: the training runs of a grid, the cost of the missing runs, and computing them."""

from pathlib import Path
from typing import Annotated

import typer

from claimbook.cli.book import Cores, Device, Profile
from claimbook.cli.tables import SHORT, as_size, print_table

runs_app = typer.Typer(help="List and compute training runs.", no_args_is_help=True)

Grid = Annotated[str, typer.Option(help="The chapter whose runs are meant, such as vae.")]


@runs_app.command("list")
def list_command(grid: Grid, profile: Profile = "cpu", device: Device = "auto") -> None:
    """Print the runs of a grid, and how far each is."""
    from claimbook.grids.jobs import computations, differences, jobs_of, kind_of
    from claimbook.store import default
    from claimbook.store.progress import as_time

    store, jobs, rows = default(), jobs_of(grid, profile), []
    for run, about in zip(computations(jobs, kind_of(device)), differences([job.config for job in jobs]), strict=True):
        cost, entry = ("", "", "", ""), store.find(run)
        if entry:
            made = entry.provenance
            date = made.finished[:16].replace("T", " ")
            cost = date, as_time(made.seconds), as_size(entry.size), made.device.split(" ")[0]
        rows.append((run.key[:SHORT], store.status(run), *cost, about))
    print_table(("key", "state", "date", "time", "size", "device", "settings"), rows)


@runs_app.command("run")
def run_command(
    grid: Grid,
    profile: Profile = "cpu",
    device: Device = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, and what it costs.")] = False,
    only: Annotated[str, typer.Option(metavar="KEY", help="Only the run whose key begins so, here.")] = "",
    cores: Cores = 1,
) -> None:
    """Compute the runs of a grid that are missing from the store."""
    from claimbook import BookError
    from claimbook.grids.filling import fill, leave_marks
    from claimbook.grids.jobs import computations, jobs_of, run
    from claimbook.store import default, processes
    from claimbook.store.settings import resolve_device

    if dry_run:
        _dry_run(grid, profile, device)
        return
    jobs, device = jobs_of(grid, profile), resolve_device(device)
    if not only:
        fill(grid, profile, device, cores)
        leave_marks(grid, profile, device)
        typer.echo(f"{grid}, profile {profile}: all {len(jobs)} runs are in the store, {default().root}")
        return
    both = zip(jobs, computations(jobs, device), strict=True)
    if not (chosen := [(job, wanted) for job, wanted in both if wanted.key.startswith(only)]):
        raise BookError(f"no run of the grid {grid}, profile {profile}, on {device} begins with {only!r}")
    processes.follow()
    for job, _ in chosen:
        run(job, device)


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
    """Recompute some of the runs that come with the book, and compare; the exit code is 1 if any differs."""
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


def _dry_run(grid: str, profile: str, device: str) -> None:
    """Print the runs of a grid and the time of those to be computed; nothing is written.

    Their stated times are corrected by the finished runs of the grid.
    """
    from claimbook.grids.jobs import absent, computations, jobs_of, kind_of
    from claimbook.store import default

    list_command(grid, profile, device)
    store, jobs, device = default(), jobs_of(grid, profile), kind_of(device)
    found = [(job.seconds[device], store.find(run)) for job, run in zip(jobs, computations(jobs, device), strict=True)]
    finished = [(seconds, entry.provenance.seconds) for seconds, entry in found if entry]
    factor = sum(taken for _, taken in finished) / sum(stated for stated, _ in finished) if finished else 1.0
    hours = factor * sum(seconds for seconds, entry in found if entry is None) / 3600
    cores = max((job.threads for job in jobs), default=0)
    unit = "GPU hours" if device == "cuda" else f"hours on {cores} core{'s' * (cores != 1)}"
    source = f"{len(finished)} finished runs" if finished else "an H200" if device == "cuda" else "one core"
    due = f"{len(jobs) - len(finished)} of {len(jobs)} runs to compute"
    typer.echo(f"\n{grid}, profile {profile}, device {device}: {due}")
    typer.echo(f"time: {float(f'{hours:.2g}'):,.12g} {unit}, by the speed of {source}")
    if missing := absent(grid, profile):
        typer.echo(f"data: without {', '.join(missing)}; to have more runs: sumexp data fetch NAME")
