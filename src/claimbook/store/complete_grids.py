"""Which grids the store has whole: a mark for each data set, left by ``sumexp runs run``, that a build looks for.

A build that has all data would else train for hours what ``make runs`` is for. So a chapter of a grid trains, at
profile ``cpu``, only on what it falls back to, and shows a larger set once all runs on it are there.
"""

from collections.abc import Iterable

from claimbook.store import parts
from claimbook.store.computation import Computation
from claimbook.store.location import default

TRAINED_BEFORE = "cpu"
"""The profile whose builds wait for nothing that takes longer than minutes; the others train what is asked for."""


def mark(grid: str, source: str, profile: str, device: str) -> Computation:
    """What says that the store has all runs of a grid on a data set: its parts are those that the runs depend on."""
    code = parts.modules([f"sumexp.chapters.{grid}.grids"])
    return Computation("grid", f"{grid}-{source}", {"profile": profile, "device": device} | parts.data([source]) | code)


def trained(grid: str, names: Iterable[str], profile: str, device: str) -> list[str]:
    """The data sets on which a chapter shows models: at profile ``cpu`` those whose runs are all in the store.

    At the other profiles all of the names that are there: ``smoke`` trains for a moment, and who asks for ``paper``
    means it.
    """
    present = parts.present(names)
    if profile != TRAINED_BEFORE:
        return present
    store = default()
    return [name for name in present if store.find(mark(grid, name, profile, device)) is not None]


def states(grid: str, names: Iterable[str], profile: str, device: str) -> dict[str, str]:
    """A part of a chapter's key for each data set of its grid: whether it shows models that were trained on it."""
    chosen = trained(grid, names := tuple(names), profile, device)
    return {f"trained {name}": "yes" if name in chosen else "no" for name in names}
