"""What of the store is fresh, what changed since the last entry, and what can go."""

import re
from collections.abc import Iterator
from pathlib import Path

from claimbook import BookError
from claimbook.pipeline import pages
from claimbook.pipeline import plan as plans
from claimbook.pipeline.inputs import declared_runs, notebook, parse, source_path
from claimbook.pipeline.plan import Plan
from claimbook.store import Computation, complete_grids, default, parts
from claimbook.store.settings import PROFILES

KINDS = ("notebook", "evidence", "run", "grid", "pages")


def everything(plan: Plan) -> dict[str, Computation]:
    """The chapters, the evidence of test modules and the pages, by name."""
    return {**plan.notebooks, **plan.evidence, "pages": pages.computation(plan)}


def why(name: str, plan: Plan) -> list[str]:
    """Whether a build would compute it again, and which of its parts changed since the last entry."""
    known = everything(plan)
    if name not in known:
        raise BookError(f"no {name!r} in the book; there are {', '.join(known)}")
    wanted = known[name]
    if entry := default().find(wanted):
        return [f"{name}: fresh, computed {entry.provenance.date} UTC in {entry.provenance.seconds:.1f} s"]
    earlier = default().entries(wanted.kind, wanted.name)
    if not earlier:
        return [f"{name}: missing, and never computed before"]
    same = [entry for entry in earlier if entry.computation.settings == wanted.settings]
    last = (same or earlier)[-1]
    changed = wanted.differences(last.computation)
    return [f"{name}: missing; since {last.provenance.date} UTC", *(f"  {change}" for change in changed)]


def leftovers() -> list[Path]:
    """What the store can do without: entries and checkpoints of other code or data, and what kills left half-written.

    What today's code would ask for at any profile, here or on a machine with a GPU, stays, and so do the last pages.
    """
    store, book = default(), plans.make(PROFILES[0], "cpu", "", stored=True)
    kept = {wanted.key for wanted in book.evidence.values()}
    for place in ({"profile": profile, "device": device} for profile in PROFILES for device in ("cpu", "cuda")):
        kept |= {notebook(name, place).key for name in book.notebooks}
        kept |= {mark.key for name in book.notebooks for mark in _marks(name, **place)}
    kept |= {entry.computation.key for entry in store.entries("pages")[-1:]}
    kept |= {run.key for run in parts.current(entry.computation for entry in store.entries("run"))}
    kept |= {f"{run.key}.checkpoint" for run in parts.current(_half_done()) if store.find(run) is None}
    paths = (path for kind in KINDS for path in store.root.glob(f"{kind}/*/*"))
    return sorted(path for path in paths if path.name not in kept and re.match(r"[0-9a-f]{64}(\.|$)", path.name))


def _marks(chapter: str, profile: str, device: str) -> Iterator[Computation]:
    """What says that grids of a chapter are whole."""
    for grid, sources in declared_runs(parse(source_path(chapter))).items():
        yield from (complete_grids.mark(grid, source, profile, device) for source in sources)


def _half_done() -> Iterator[Computation]:
    """The runs of all checkpoints that can be read."""
    from claimbook.store import checkpoints  # imports torch

    for path in default().root.glob("run/*/*.checkpoint"):
        try:
            yield checkpoints.read(path)[0]
        except Exception:  # of many kinds, from damaged files
            continue
