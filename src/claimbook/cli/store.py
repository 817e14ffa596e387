"""``claimbook why``, ``status`` and ``clean``: the entries of the store, and why they are recomputed."""

from typing import Annotated

import typer

from claimbook.cli.book import Device, Profile
from claimbook.cli.tables import as_size, print_table


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
