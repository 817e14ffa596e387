"""``sumexp runs``: what the cache of training runs holds, what a grid lacks and costs, and computing it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sumexp.companion.grids.jobs import Job

runs_app = typer.Typer(help="List, show, compute and clean up cached training runs.", no_args_is_help=True)

Grid = Annotated[str, typer.Option(help="The chapter whose runs are meant, such as vae.")]
Profile = Annotated[str, typer.Option(help="smoke, cpu or paper.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
SHORT = 12
"""Digits of a key that are shown."""


@runs_app.command("list")
def list_command(grid: Grid = "", profile: Profile = "cpu", device: Device = "auto") -> None:
    """Print the runs in the cache; with --grid, those of the grid, and how far each is."""
    from sumexp.companion.authoring import runs
    from sumexp.companion.grids.jobs import entries, jobs_of, kind_of, look, size
    from sumexp.companion.grids.labels import differences

    if grid:
        wanted = jobs_of(grid, profile)
        where = [job.place(kind_of(device)) for job in wanted]
        about = differences([job.config for job in wanted])
        rows = [(*_row(entry), text) for entry, text in zip(where, about, strict=True)]
        _table(("key", "state", "date", "time", "size", "device", "settings"), rows)
    else:
        found = [entry for entry in entries(runs.root_of()) if look(entry)[0] != "missing"]
        _table(("key", "state", "date", "time", "size", "device", "task"), [(*_row(e), e.parent.name) for e in found])
        typer.echo(f"\n{len(found)} runs, {_bytes(size(runs.root_of()))}, in {runs.root_of()}")


@runs_app.command("show")
def show_command(
    key: Annotated[str, typer.Argument(help="The run's key, or the first digits of it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the machine's form, with the whole history.")] = False,
) -> None:
    """Print a run: its settings, its surroundings, its numbers and the last rows of its history."""
    import json

    from sumexp.companion import CompanionError
    from sumexp.companion.authoring import runs
    from sumexp.companion.grids.jobs import entries, look

    root = runs.root_of()
    matching = [entry for entry in entries(root) if entry.name.startswith(key)]
    if len(matching) != 1:
        some = ", ".join(entry.name[: max(SHORT, len(key) + 4)] for entry in matching[:5])
        what = f"{len(matching)} runs begin with {key!r} ({some})" if matching else f"no run begins with {key!r}"
        raise CompanionError(f"{what} in {root}; see: sumexp runs list")
    [entry] = matching
    run = runs.read(entry)
    if run is None:
        raise CompanionError(f"the run {entry.name} is {look(entry)[0]}: there is nothing to show")
    if as_json:
        history = {name: column.tolist() for name, column in run.history.items()}
        record = {"task": entry.parent.name, "key": run.key, "config": run.config, "environment": run.environment}
        typer.echo(json.dumps(record | {"metrics": run.metrics, "history": history}, indent=1))
        return
    typer.echo(f"{entry.parent.name}\n{entry}")
    for title, values in (("config", run.config), ("environment", run.environment), ("metrics", run.metrics)):
        typer.echo(f"\n{title}:")
        for name, value in values.items():
            typer.echo(f"  {name}: {_value(value)}")
    typer.echo("\narrays:")
    for name, array in run.arrays.items():
        typer.echo(f"  {name}: {array.dtype} {list(array.shape)}")
    if run.history:
        rows = list(zip(*(column.tolist() for column in run.history.values()), strict=True))
        typer.echo(f"\nhistory, the last of {len(rows)} rows:")
        _table(list(run.history), [[f"{value:.6g}" for value in row] for row in rows[-5:]])


@runs_app.command("run")
def run_command(
    grid: Grid,
    profile: Profile = "cpu",
    device: Device = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, and what it costs.")] = False,
    only: Annotated[str, typer.Option(metavar="KEY", help="Only the run whose key begins so.")] = "",
    cores: Annotated[int, typer.Option(help="Run side by side what fits on so many cores; 0: one by one.")] = 0,
    executor: Annotated[str, typer.Option(help="Have Snakemake hand the runs to a cluster, such as slurm.")] = "",
    jobs: Annotated[int, typer.Option(help="How many runs are handed to the cluster at a time.")] = 20,
    options: Annotated[str, typer.Option(help="More options for Snakemake.")] = "",
) -> None:
    """Compute the runs of a grid that the cache lacks."""
    from sumexp.companion import CompanionError
    from sumexp.companion.authoring import runs
    from sumexp.companion.grids.filling import fill, resolve
    from sumexp.companion.grids.jobs import jobs_of, kind_of

    wanted = jobs_of(grid, profile)
    if dry_run:
        kind = kind_of(device)
        _dry_run(grid, profile, kind, [job for job in wanted if job.place(kind).name.startswith(only)])
        return
    if cores or executor:
        if only:
            raise CompanionError("--only is for runs one by one; leave out --cores and --executor")
        fill(grid, profile, device, cores=cores or 1, executor=executor, submitted=jobs, options=options)
    else:
        device = resolve(device)
        chosen = [job for job in wanted if job.place(device).name.startswith(only)]
        if not chosen:
            raise CompanionError(f"no run of the grid {grid}, profile {profile}, on {device} begins with {only!r}")
        _one_by_one(chosen, device)
    if not only:
        typer.echo(f"{grid}, profile {profile}: all {len(wanted)} runs are in the cache, {runs.root_of()}")


@runs_app.command("clean")
def clean_command(
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed.")] = False,
) -> None:
    """Remove what is damaged, half-written or made by other code or data; never what is running or still asked for."""
    from sumexp.companion.authoring import runs
    from sumexp.companion.grids.jobs import size
    from sumexp.companion.grids.leftovers import leftovers, remove

    found = leftovers(runs.root_of())
    if not found:
        typer.echo(f"nothing to remove in {runs.root_of()}")
        return
    _table(
        ("key", "size", "why", "task"),
        [(_short(path), _bytes(size(path)), why, path.parent.name) for path, why in found],
    )
    if dry_run:
        return
    if not yes:
        typer.confirm(f"Remove these {len(found)}?", abort=True)
    removed = sum(remove(path) for path, _ in found)
    typer.echo(f"removed {removed} of {len(found)}" + ("" if removed == len(found) else "; the others run again"))


def _one_by_one(jobs: "Sequence[Job]", device: str) -> None:
    """Compute what the cache lacks; first what no other process computes, then see how that ended.

    Raises:
        CompanionError: if a run failed; the others were computed.
    """
    import traceback

    from sumexp.companion import CompanionError
    from sumexp.companion.authoring import runs
    from sumexp.companion.build import end_with_driver
    from sumexp.companion.grids.jobs import is_running
    from sumexp.datasets import DataError

    end_with_driver()
    lacking = [job for job in jobs if not runs.exists(job.place(device))]
    failed = 0
    for number, job in enumerate(sorted(lacking, key=lambda job: is_running(job.place(device))), 1):
        label = f"{job.name} {job.place(device).name[:SHORT]}"
        if len(lacking) > 1:
            typer.echo(f"run {number} of {len(lacking)}: {label}", err=True)
        try:
            job.run(device)
        except (CompanionError, DataError) as error:
            typer.echo(f"error: {label}: {error}", err=True)
            failed += 1
        except Exception:  # the other runs may do
            typer.echo(f"error: {label} failed:\n{traceback.format_exc()}", err=True)
            failed += 1
    if failed:
        raise CompanionError(f"{failed} of {len(lacking)} runs failed, see above; what is finished is kept")


def _dry_run(grid: str, profile: str, device: str, jobs: "Sequence[Job]") -> None:
    """Print what is to be computed, how long it will take and how much disk; nothing is written."""
    from sumexp.companion.authoring import runs
    from sumexp.companion.grids.costs import estimates
    from sumexp.companion.grids.jobs import absent, look
    from sumexp.companion.grids.labels import differences

    where = [job.place(device) for job in jobs]
    states = [look(entry)[0] for entry in where]
    about = differences([job.config for job in jobs])
    costs = estimates(grid, device)
    seconds = [costs[job.name].seconds(job) for job in jobs]
    sizes = [costs[job.name].size for job in jobs]
    keys = [entry.name[:SHORT] for entry in where]
    rows = list(zip(keys, states, map(_time, seconds), map(_bytes, sizes), about, strict=True))
    _table(("key", "state", "time", "disk", "settings"), rows)
    due = [number for number, state in enumerate(states) if state not in ("finished", "running")]
    hours = sum(seconds[number] for number in due) / 3600
    cores = max((job.threads for job in jobs), default=0)
    unit = "GPU hours" if device == "cuda" else f"hours on {cores} core{'s' * (cores != 1)}"
    typer.echo(f"\n{grid}, profile {profile}, device {device}: {len(due)} of {len(jobs)} runs to compute")
    typer.echo(f"time: {hours:.2g} {unit}")
    typer.echo(f"disk: {_bytes(sum(sizes[number] for number in due))} in {runs.root_of()}")
    for name in dict.fromkeys(job.name for job in jobs):
        source = f"measured on {n} finished runs" if (n := costs[name].finished) else "assumed, as no run is finished"
        typer.echo(f"rate: {name} {costs[name].rate:.1e} operations a second, {source} on {device}")
    if lacking := absent(grid, profile):
        typer.echo(f"data: without {', '.join(lacking)}; to have more runs: sumexp data fetch NAME")


def _row(entry: Path) -> tuple[str, ...]:
    """Of a run: key, state, date, time, size and device, as far as they are known."""
    from sumexp.companion.grids.jobs import checkpoint_of, look, size

    state, record = look(entry)
    environment = record["environment"] if record else {}
    known = ("date", "seconds", "device") if environment else ()
    disk = sum(map(size, (entry, checkpoint_of(entry), entry.with_suffix(".part"))))
    date, seconds, device = (environment[name] for name in known) if known else ("", None, "")
    return (
        entry.name[:SHORT],
        state,
        date[:16].replace("T", " "),
        "" if seconds is None else _time(seconds),
        _bytes(disk),
        device,
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table whose last column is cut where the terminal ends; a file or pipe gets all of it."""
    import shutil
    import sys

    widths = [max(len(row[n]) for row in (columns, *rows)) for n in range(len(columns))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for row in (columns, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        typer.echo(line if room is None or len(line) <= room else f"{line[: room - 3]}...")


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _bytes(size: float) -> str:
    for unit, length in (("GB", 1e9), ("MB", 1e6)):
        if size >= length:
            return f"{size / length:.1f} {unit}"
    return f"{size / 1e3:.1f} kB"


def _short(path: Path) -> str:
    key, dot, suffix = path.name.partition(".")
    return key[:SHORT] + dot + suffix


def _value(value: Any) -> str:
    """A setting on one line, cut where it is long."""
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]} ... ({len(text)} characters; --json has all)"
