"""``claimbook why``, ``status`` and ``clean``: the entries of the store, why they are recomputed, which can go."""

from collections import Counter
from typing import Annotated

import typer

from claimbook.cli.book import Device, Profile
from claimbook.cli.tables import SHORT, as_size, print_table


def why_command(
    name: Annotated[str, typer.Argument(help="A chapter such as nce, a test module such as nce.test_gan, or pages.")],
    profile: Profile = "cpu",
    device: Device = "auto",
) -> None:
    """Say whether a build would compute it again, and which part of it changed since the last time."""
    from claimbook.pipeline import plan
    from claimbook.pipeline.why import why

    typer.echo("\n".join(why(name, plan.make(profile, device, "", stored=True))))


def status_command(profile: Profile = "cpu", device: Device = "auto") -> None:
    """Print how far every chapter, the evidence of every test module, the pages and the training runs are."""
    from claimbook.grids.jobs import asked
    from claimbook.pipeline import plan
    from claimbook.pipeline.why import status
    from claimbook.store.progress import as_time

    made = plan.make(profile, device, "", stored=True)
    lines = list(status(made, (run for name in made.notebooks for run in asked(name, made.profile, made.device))))
    rows = [
        (
            line.kind,
            line.name,
            line.status,
            "" if line.seconds is None else as_time(line.seconds),
            as_size(line.bytes),
            line.key[:SHORT] if line.kind == "run" else "",  # as `claimbook runs run --only` takes it
        )
        for line in lines
    ]
    print_table(("kind", "name", "state", "time", "size", "key"), rows)
    counts = Counter(line.status for line in lines)
    typer.echo(f"\n{', '.join(f'{number} {state}' for state, number in counts.items())}")


def clean_command(
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed.")] = False,
) -> None:
    """Remove from the store what no build of today's code and data needs, at any profile and on any device."""
    from claimbook.pipeline.why import leftovers, remove
    from claimbook.store import default
    from claimbook.store.entries import size

    entries = leftovers()
    if not entries:
        typer.echo(f"nothing to remove in {default().root}")
        return
    rows = [(path.parts[-3], path.name[:SHORT], as_size(size(path)), why, path.parent.name) for path, why in entries]
    print_table(("kind", "key", "size", "why", "name"), rows)
    if dry_run:
        return
    if not yes:
        typer.confirm(f"Remove these {len(entries)}?", abort=True)
    count, freed = remove(path for path, _ in entries)
    rest = "" if count == len(entries) else "; the others are being computed"
    typer.echo(f"removed {count} of {len(entries)}, {as_size(freed)}{rest}")
