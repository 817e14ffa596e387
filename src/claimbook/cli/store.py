"""``claimbook why``, ``status`` and ``clean``: the entries of the store, why they are recomputed, which can go."""

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
    """Print which chapters, outcomes of test modules and pages are in the store, and how many training runs."""
    from claimbook.pipeline import plan
    from claimbook.pipeline.why import everything
    from claimbook.store import default

    wanted = list(everything(plan.make(profile, device, "", stored=True)).values())
    missing = default().missing(wanted)
    print_table(
        ("kind", "name", "state"),
        [(part.kind, part.name, "missing" if part in missing else "fresh") for part in wanted],
    )
    runs = len(default().paths("run"))
    typer.echo(f"\n{len(wanted) - len(missing)} of {len(wanted)} fresh; {runs} training runs in {default().root}")


def clean_command(
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """Remove from the store what no build of today's code and data needs, at any profile and on any device."""
    from claimbook.pipeline.why import leftovers
    from claimbook.store import default
    from claimbook.store.entries import size

    sizes = {path: size(path) for path in leftovers()}
    if not sizes:
        typer.echo(f"nothing to remove in {default().root}")
        return
    rows = [(path.parts[-3], path.name[:SHORT], as_size(taken), path.parent.name) for path, taken in sizes.items()]
    print_table(("kind", "key", "size", "name"), rows)
    if not yes:
        typer.confirm(f"Remove these {len(sizes)}?", abort=True)
    gone = [path for path in sizes if default().remove(path)]
    rest = "" if len(gone) == len(sizes) else "; the others are being computed"
    typer.echo(f"removed {len(gone)} of {len(sizes)}, {as_size(sum(sizes[path] for path in gone))}{rest}")
