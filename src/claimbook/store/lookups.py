"""Which training runs were looked for and are not there: what rests on them is decided again once they are."""

from claimbook.store.computation import Computation
from claimbook.store.entries import Entry
from claimbook.store.location import default

_LACKING: set[str] = set()


def look(run: Computation) -> Entry | None:
    """The entry of a training run; its lack is noted, for `take`."""
    entry = default().find(run)
    if entry is None:
        _LACKING.add(f"{run.kind}/{run.name}/{run.key}")
    return entry


def take() -> list[str]:
    """The runs that `look` has not found since the last call, as paths below the root of a store."""
    lacking = sorted(_LACKING)
    _LACKING.clear()
    return lacking
