"""``claimbook runs``: the training runs of a grid, the cost of the missing runs, and computing them."""

from pathlib import Path
from typing import Annotated

import typer

from claimbook.cli.options import SHORT, Cores, Device, Profile, as_size, print_table

runs_app = typer.Typer(help="List and compute training runs.", no_args_is_help=True)

Grid = Annotated[str, typer.Option(help="The chapter whose runs are meant, such as vae.")]


@runs_app.command("list")
def list_command(grid: Grid, profile: Profile = "cpu", device: Device = "auto") -> None:
    """Print the runs of a grid, their states and the time that the missing runs take.

    Stated times are corrected by those of the finished runs.
    """
    from claimbook.grids.jobs import absent, differences, planned
    from claimbook.store import default
    from claimbook.store.progress import as_time
    from claimbook.store.settings import resolve_device

    device = resolve_device(device, needed=False)
    runs, store, rows = planned(grid, profile, device), default(), []
    due, stated, taken = 0.0, 0.0, 0.0
    for (job, run), about in zip(runs, differences([job.config for job, _ in runs]), strict=True):
        if entry := store.find(run):
            stated, taken = stated + job.seconds[device], taken + entry.provenance.seconds
        else:
            due += job.seconds[device]
        state = "fresh" if entry else "half-done" if store.checkpoint(run).exists() else "missing"
        rows.append((run.key[:SHORT], state, as_time(entry.provenance.seconds) if entry else "", about))
    print_table(("key", "state", "time", "settings"), rows)
    missing = sum(row[1] != "fresh" for row in rows)
    speed = f"{len(rows) - missing} finished runs" if stated else "an H200" if device == "cuda" else "one core"
    time = as_time(due * (taken / stated if stated else 1))
    typer.echo(f"\n{missing} of {len(rows)} runs to compute: {time} one after the other, at the speed of {speed}")
    if without := absent(grid, profile):
        typer.echo(f"data: without {', '.join(without)}; to have more runs: sumexp data fetch NAME")


@runs_app.command("run")
def run_command(
    grid: Grid,
    profile: Profile = "cpu",
    device: Device = "auto",
    only: Annotated[str, typer.Option(metavar="KEY", help="Only the run whose key begins so, here.")] = "",
    cores: Cores = 1,
) -> None:
    """Compute the runs of a grid that are missing from the store."""
    from claimbook import BookError
    from claimbook.grids import jobs
    from claimbook.store import default, processes
    from claimbook.store.settings import resolve_device

    device = resolve_device(device)
    if not only:
        count = jobs.fill(grid, profile, device, cores)
        typer.echo(f"{grid}, profile {profile}: all {count} runs are in the store, {default().root}")
        return
    chosen = [job for job, wanted in jobs.planned(grid, profile, device) if wanted.key.startswith(only)]
    if not chosen:
        raise BookError(f"no run of the grid {grid}, profile {profile}, on {device} begins with {only!r}")
    processes.follow()
    for job in chosen:
        jobs.run(job, device)


@runs_app.command("write")
def write_command(grid: Grid, profile: Profile = "cpu", device: Device = "auto") -> None:
    """Write the runs of a grid that the store has into the file that comes with the book."""
    from claimbook.grids import results
    from claimbook.store import bundled
    from claimbook.store.settings import resolve_device

    count = results.write(grid, profile, resolve_device(device, needed=False))
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
    from claimbook.store import Store
    from claimbook.store.settings import resolve_device

    with TemporaryDirectory() as folder:
        compared = results.check(grid, resolve_device(device), Store(Path(folder)), runs)
    for name, moved, far in compared:
        typer.echo(f"{name}: {'the same numbers' if moved == 0 else f'{moved:.1g} apart, relative'}{', too far' * far}")
    if any(far for *_, far in compared):
        raise typer.Exit(1)
