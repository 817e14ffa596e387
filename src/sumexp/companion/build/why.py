"""What a build would do, and why: what of the store is fresh, what changed since the last entry, what can go."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from sumexp.companion.build import pages
from sumexp.companion.build import plan as plans
from sumexp.companion.build.plan import Plan
from sumexp.companion.build.settings import PROFILES
from sumexp.companion.build.sources import declared_runs, notebook, parse, source_path
from sumexp.companion.store import Computation, Entry, Status, Store, default, grids
from sumexp.companion.store.entries import DamagedError, read, size


@dataclass(frozen=True)
class Line:
    """One computation: what it is, how far it is, and what its entry cost.

    Attributes:
        kind: of computation.
        name: of it.
        status: how far it is.
        seconds: that it took; None if there is no entry.
        bytes: of its entry.
        key: that tells runs of one task apart.
    """

    kind: str
    name: str
    status: Status
    seconds: float | None
    bytes: int
    key: str


def status(plan: Plan, runs: Iterable[Computation] = ()) -> Iterator[Line]:
    """Every chapter, the evidence of every test module, the pages, and every run that today's code would ask for.

    Of runs that are not there, those given.
    """
    store = _here()
    wanted = [*plan.notebooks.values(), *plan.evidence.values()]
    wanted.append(pages.computation(plan, pages.chapters(plan, store), pages.evidence(plan, store)))
    for one in wanted:
        yield _line(store, one)
    for path in store.paths("run"):
        try:
            entry = read(path)
        except DamagedError:
            yield Line("run", path.parent.name, "damaged", None, size(path), path.name)
            continue
        if _is_current(entry):
            yield _line(store, entry.computation)
    for path in sorted(store.root.glob("run/*/*.checkpoint")):
        state: Status = "running" if store.is_running(path.stem) else "half-done"
        yield Line("run", path.parent.name, state, None, size(path), path.stem)
    for one in runs:
        if not (store.path(one).exists() or store.checkpoint(one).exists()):
            yield _line(store, one)


def needed(plan: Plan) -> list[Entry]:
    """The entries that a build shows, and the runs that the code of today would ask for."""
    store = _here()
    found = [store.find(one) for one in (*plan.notebooks.values(), *plan.evidence.values())]
    runs = [entry for entry in store.entries("run") if _is_current(entry)]
    marks = [store.find(one) for one in _marks(plan.notebooks, plan.profile, plan.device)]
    return [*(entry for entry in (*found, *marks) if entry is not None), *runs]


def _marks(chapters: Iterable[str], profile: str, device: str) -> Iterator[Computation]:
    """What says that grids of the chapters are whole."""
    for name in chapters:
        for grid, sources in declared_runs(parse(source_path(name))).items():
            yield from (grids.mark(grid, source, profile, device) for source in sources)


def _here() -> Store:
    """The store without its remote: to say what is here fetches nothing."""
    return Store(default().root)


def _line(store: Store, one: Computation) -> Line:
    state = store.status(one)
    entry = store.find(one) if state == "fresh" else None
    if entry is None:
        return Line(one.kind, one.name, state, None, 0, one.key)
    return Line(one.kind, one.name, state, entry.provenance.seconds, entry.size, one.key)


def why(name: str, plan: Plan) -> list[str]:
    """Whether a chapter, the evidence of a test module or the pages would be computed again, and what changed.

    Raises:
        CompanionError: if there is nothing of this name.
    """
    plans.check(name, plan)
    store = _here()
    shown, decided = pages.chapters(plan, store), pages.evidence(plan, store)
    rendering = pages.computation(plan, shown, decided)
    wanted = {**plan.evidence, **plan.notebooks, "pages": rendering}[name]
    said = _changes(store, name, wanted)
    if name in plan.notebooks and store.find(wanted) is not None:
        text = f"file notebooks/{name}.md"
        last = store.entries("pages", "book")
        if store.find(rendering) is None and last and last[-1].computation.parts.get(text) != rendering.parts[text]:
            said.append(
                "  its text changed since the pages were rendered: they are rendered again, nothing is executed"
            )
    return said


def _changes(store: Store, name: str, wanted: Computation) -> list[str]:
    state = store.status(wanted)
    if state == "fresh" and (entry := store.find(wanted)):
        made = entry.provenance
        return [f"{name}: fresh, computed {made.finished[:16].replace('T', ' ')} UTC in {made.seconds:.1f} s"]
    earlier = store.entries(wanted.kind, wanted.name)
    if not earlier:
        return [f"{name}: {state}, and nothing of it was ever computed"]
    last = _last(earlier, wanted)
    when = last.provenance.finished[:16].replace("T", " ")
    return [f"{name}: {state}; since {when} UTC", *(f"  {one}" for one in wanted.differences(last.computation))]


def _last(earlier: list[Entry], wanted: Computation) -> Entry:
    """The last entry of the same parameters, if there is one, else the last."""

    def settings(one: Computation) -> dict[str, str]:
        return {name: value for name, value in one.parts.items() if name.startswith("parameter ")}

    alike = [entry for entry in earlier if settings(entry.computation) == settings(wanted)]
    return (alike or earlier)[-1]


def leftovers() -> list[tuple[Path, str]]:
    """What the store can do without, and why.

    Never what is running, nor what the code of today would ask for at any profile, here or on a machine with a GPU.

    Raises:
        CompanionError: if there is no book here.
    """
    store, found = _here(), []
    book = plans.make(PROFILES[0], "cpu", "", stored=True)
    kept = {one.key for one in book.evidence.values()}
    settings = [{"profile": profile, "device": device} for profile in PROFILES for device in ("cpu", "cuda")]
    kept |= {notebook(name, values).key for name in book.notebooks for values in settings}
    kept |= {one.key for values in settings for one in _marks(book.notebooks, **values)}
    kept |= {entry.computation.key for entry in store.entries("pages", "book")[-pages.KEPT :]}
    for path in store.paths():
        if path.parts[-3] not in ("notebook", "evidence", "run", "grid", "pages") or store.is_running(path.name):
            continue
        try:
            entry = read(path)
        except DamagedError:
            found.append((path, "damaged"))
            continue
        if path.name not in kept and not (entry.computation.kind == "run" and _is_current(entry)):
            found.append((path, "of other code or data"))
    for path in sorted(store.root.glob("*/*/*.part")):
        if not store.is_running(path.name.partition(".")[0]):
            found.append((path, "half-written by a process that was killed"))
    found += _checkpoints(store)
    return found


def _checkpoints(store: Store) -> Iterator[tuple[Path, str]]:
    from sumexp.companion.store import checkpoints

    for path in sorted(store.root.glob("run/*/*.checkpoint")):
        if store.is_running(path.stem):
            continue
        try:
            saved: Any = checkpoints.read(path)
            one = Computation("run", saved["name"], saved["parts"])
        except Exception:  # of many kinds, from damaged files
            yield path, "damaged"
            continue
        if store.find(one) is not None:
            yield path, "of a run that is finished"
        elif one.key != path.stem or not _asks_for(one):
            yield path, "of other code or data"


def _is_current(entry: Entry) -> bool:
    return _asks_for(entry.computation)


def _asks_for(run: Computation) -> bool:
    """Whether the task as it is now, asked for this config with these data, would be this computation."""
    import json

    from pydantic import TypeAdapter

    from sumexp.companion.authoring import runs

    module, _, name = run.name.rpartition(".")
    try:
        task = getattr(import_module(module), name)
        values = {
            part[len("config ") :]: json.loads(text) for part, text in run.parts.items() if part.startswith("config ")
        }
        config = TypeAdapter(next(iter(get_type_hints(task).values()))).validate_python(values)
        data = [part.removeprefix("data ") for part in run.parts if part.startswith("data ")]
        device, threads = run.parts["device"], int(run.parts["threads"])
        return runs.computation(task, config, data=data, device=device, threads=threads).key == run.key
    except Exception:  # of many kinds: the task, its module, a field or a data set is gone
        return False


def remove(paths: Iterable[Path]) -> tuple[int, int]:
    """Remove `leftovers`: how many are gone, and their bytes; what a process has begun to compute stays."""
    store, count, freed = default(), 0, 0
    for path in paths:
        taken = size(path)
        if store.remove(path):
            count, freed = count + 1, freed + taken
    return count, freed
