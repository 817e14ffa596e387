"""What a build would do, and why: what of the store is fresh, what changed since the last entry, what can go."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from claimbook import BookError
from claimbook.pipeline import pages
from claimbook.pipeline import plan as plans
from claimbook.pipeline.inputs import declared_runs, notebook, parse, source_path
from claimbook.pipeline.plan import Plan
from claimbook.store import Computation, Entry, Status, Store, complete_grids, default, parts
from claimbook.store.entries import CHECKPOINT, PART, size, whole
from claimbook.store.settings import PROFILES

KINDS = ("notebook", "evidence", "run", "grid", "pages")
"""Of what a build computes."""
DAMAGED = "damaged"


@dataclass(frozen=True)
class Line:
    """A computation, its state and the cost of its entry; the key tells runs of a task apart."""

    kind: str
    name: str
    key: str
    status: Status
    seconds: float | None = None
    bytes: int = 0


def status(plan: Plan, runs: Iterable[Computation] = ()) -> list[Line]:
    """Every chapter, the evidence of every test module, the pages, and the runs of today's code and data.

    Of the runs that are not there those that are half done, damaged, or given: which ones a chapter asks for besides
    those of its grid, is known when it is executed.
    """
    store = default()
    rendering = pages.computation(plan, pages.chapters(plan), pages.evidence(plan))
    lines = [_line(store, one) for one in (*plan.notebooks.values(), *plan.evidence.values(), rendering)]
    there, damaged = _survey(store, ["run"])
    lines += [Line("run", path.parent.name, path.name, "damaged", bytes=size(path)) for path in damaged]
    lines += [_line(store, one) for one in parts.current(there)]
    for path, fault in _checkpoints(store):
        if not fault or fault == DAMAGED:
            state: Status = "running" if store.is_running(path.stem) else "damaged" if fault else "half-done"
            lines.append(Line("run", path.parent.name, path.stem, state, bytes=size(path)))
    listed = {line.key for line in lines}
    return lines + [_line(store, one) for one in runs if one.key not in listed]


def _survey(store: Store, kinds: Iterable[str]) -> tuple[list[Computation], list[Path]]:
    """What the entries of some kinds hold, and the folders of the damaged ones."""
    found = {path: whole(path) for kind in kinds for path in store.paths(kind)}
    damaged = [path for path, entry in found.items() if entry is None]
    return [entry.computation for entry in found.values() if entry], damaged


def _marks(chapters: Iterable[str], profile: str, device: str) -> Iterator[Computation]:
    """What says that grids of the chapters are whole."""
    for name in chapters:
        for grid, sources in declared_runs(parse(source_path(name))).items():
            yield from (complete_grids.mark(grid, source, profile, device) for source in sources)


def _line(store: Store, one: Computation) -> Line:
    state, entry = _look(store, one)
    seconds, taken = (entry.provenance.seconds, entry.size) if entry else (None, 0)
    return Line(one.kind, one.name, one.key, state, seconds, taken)


def _look(store: Store, one: Computation) -> tuple[Status, Entry | None]:
    """How far it is, and its entry if that is fresh."""
    state = store.status(one)
    return state, store.find(one) if state == "fresh" else None


def why(name: str, plan: Plan) -> list[str]:
    """Whether a chapter, the evidence of a test module or the pages would be computed again, and what changed."""
    store = default()
    rendering = pages.computation(plan, pages.chapters(plan), pages.evidence(plan))
    known = {**plan.notebooks, **plan.evidence, "pages": rendering}
    if name not in known:
        raise BookError(f"no {name!r} in the book; there are {', '.join(known)}")
    wanted = known[name]
    said = _changes(store, name, wanted)
    if name in plan.notebooks and store.find(wanted) is not None:
        text = f"file notebooks/{name}.md"
        last = store.entries("pages", "book")
        if store.find(rendering) is None and last and last[-1].computation.parts.get(text) != rendering.parts[text]:
            said += ["  its text changed since the pages were rendered: they are rendered again, nothing is executed"]
    return said


def _changes(store: Store, name: str, wanted: Computation) -> list[str]:
    state, entry = _look(store, wanted)
    if entry is not None:
        made = entry.provenance
        return [f"{name}: fresh, computed {made.finished[:16].replace('T', ' ')} UTC in {made.seconds:.1f} s"]
    earlier = store.entries(wanted.kind, wanted.name)
    if not earlier:
        return [f"{name}: {state}, and nothing of it was ever computed"]
    # The latest entry of the same parameters, if any.
    last = ([entry for entry in earlier if _settings(entry.computation) == _settings(wanted)] or earlier)[-1]
    when = last.provenance.finished[:16].replace("T", " ")
    return [f"{name}: {state}; since {when} UTC", *(f"  {one}" for one in wanted.differences(last.computation))]


def _settings(one: Computation) -> dict[str, str]:
    return {name: value for name, value in one.parts.items() if name.startswith("parameter ")}


def leftovers() -> list[tuple[Path, str]]:
    """What the store can do without, and why.

    Never what is running, nor what the code of today would ask for at any profile, here or on a machine with a GPU.
    """
    store = default()
    book = plans.make(PROFILES[0], "cpu", "", stored=True)
    kept = {one.key for one in book.evidence.values()}
    settings = [{"profile": profile, "device": device} for profile in PROFILES for device in ("cpu", "cuda")]
    kept |= {notebook(name, values).key for name in book.notebooks for values in settings}
    kept |= {one.key for values in settings for one in _marks(book.notebooks, **values)}
    kept |= {entry.computation.key for entry in store.entries("pages", "book")[-pages.KEPT :]}
    there, damaged = _survey(store, KINDS)
    kept |= {one.key for one in parts.current(one for one in there if one.kind == "run")}
    found = [(path, DAMAGED) for path in damaged]
    found += [(store.path(one), "of other code or data") for one in there if one.key not in kept]
    halves = sorted(store.root.glob(f"*/*/*{PART}"))
    found += [(path, "half-written by a process that was killed") for path in halves]
    found += [(path, fault) for path, fault in _checkpoints(store) if fault]
    return [(path, why) for path, why in found if not store.is_running(path.name.partition(".")[0])]


def _checkpoints(store: Store) -> Iterator[tuple[Path, str]]:
    """The state of each half-done run, and why it can go; empty if a run would go on from it."""
    from claimbook.store import checkpoints

    for path in sorted(store.root.glob(f"run/*/*{CHECKPOINT}")):
        try:
            one, *_ = checkpoints.read(path)
        except Exception:  # of many kinds, from damaged files
            yield path, DAMAGED
            continue
        if store.find(one) is not None:
            yield path, "of a run that is finished"
        else:
            current = one.key == path.stem and any(parts.current([one]))
            yield path, "" if current else "of other code or data"


def remove(paths: Iterable[Path]) -> tuple[int, int]:
    """Remove `leftovers`: how many are gone, and their bytes; what a process has begun to compute stays."""
    store, taken = default(), {path: size(path) for path in paths}
    gone = [path for path in taken if store.remove(path)]
    return len(gone), sum(taken[path] for path in gone)
