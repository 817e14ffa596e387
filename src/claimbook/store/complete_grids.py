"""Which grids are whole: in the store, by a mark that ``claimbook runs run`` leaves for each data set, or in the book.

A build that has all data would otherwise train for hours what ``make runs`` is for. So at profile ``cpu`` a chapter
shows a data set once all runs on it are there, and trains only on what it falls back to.
"""

from collections.abc import Iterable

from claimbook import project
from claimbook.store import bundled, parts
from claimbook.store.computation import Computation
from claimbook.store.entries import default

TRAINED_BEFORE = "cpu"
"""The profile whose builds wait for nothing that takes longer than minutes; the others train what is asked for."""


def module(grid: str) -> str:
    """The module that declares the runs of a grid."""
    return f"{project.declared('grids')}.{grid}.grids"


def mark(grid: str, source: str, profile: str, device: str) -> Computation:
    """What says that the store has all runs of a grid on a data set: its parts are those that the runs depend on."""
    code = parts.modules([module(grid)])
    return Computation("grid", f"{grid}-{source}", {"profile": profile, "device": device} | parts.data([source]) | code)


def trained(grid: str, names: Iterable[str], profile: str, device: str, seed: int = 0) -> list[str]:
    """The data sets on which a chapter shows models: at profile ``cpu`` those with all runs.

    At the other profiles those that are there themselves: ``smoke`` trains for a moment, and ``paper`` is asked for.
    A grid has runs of one first seed; a reader's ``seed`` at ``cpu`` takes what the chapter falls back to.
    """
    if profile == TRAINED_BEFORE and seed:
        return []
    return [name for name in names if _origin(grid, name, profile, device)]


def states(grid: str, names: Iterable[str], profile: str, device: str) -> dict[str, str]:
    """Parts of a chapter's key: where the runs on each data set of its grid come from, if any, and the book's runs."""
    brought = parts.file_digest(path) if (path := bundled.files(grid)[0]).is_file() else "none"
    return {f"runs {grid}": brought} | {f"trained {n}": _origin(grid, n, profile, device) or "no" for n in names}


def _origin(grid: str, name: str, profile: str, device: str) -> str:
    """``store`` or ``book``, if it has the runs on a data set; at profiles that train, ``here`` if the data are."""
    if profile != TRAINED_BEFORE:
        return "here" * bool(parts.present([name]))
    if default().find(mark(grid, name, profile, device)):  # of data that are here: an absent set is another part
        return "store"
    return "book" if name in bundled.sources(grid, profile) else ""
