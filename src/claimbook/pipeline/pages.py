"""The pages: what they are made from, rendering them, and ``build/``, which shows the store by name."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copy2, copytree, rmtree
from typing import Any

from claimbook import register
from claimbook.pipeline import staging
from claimbook.pipeline.notebooks import EXECUTED
from claimbook.pipeline.plan import BUILD, NOTEBOOKS, TOC, Plan, measurements
from claimbook.pipeline.rendering import render
from claimbook.pipeline.staging import DATA
from claimbook.register import outcomes
from claimbook.store import Computation, Entry, default, parts
from claimbook.store.entries import write_text
from claimbook.store.provenance import Meter

CLAIMS = Path("claims")
STAGE = BUILD / "stage"
"""The sources as Sphinx reads them."""
HTML = BUILD / "html"
KEPT = 8
"""How many renderings the store keeps: each is large, and going back to it costs nothing."""

COST = {"wall": "seconds", "CPU": "cpu_seconds", "peak memory": "peak_memory"}
COST |= {"device": "device", "finished (UTC)": "finished"}

Shown = Mapping[str, Entry | None]


def stored(wanted: Mapping[str, Computation]) -> dict[str, Entry | None]:
    """For each chapter its execution, or for each test module its evidence; None where there is none yet."""
    return {name: default().find(computation) for name, computation in wanted.items()}


def computation(plan: Plan) -> Computation:
    """The rendering: the files that pages are made from, and the entries they show.

    The package counts as it stands, since pages show docstrings and code.
    """
    files, shown, decided = sources(), stored(plan.notebooks), stored(plan.evidence)
    entries = {f"chapter {name}": entry.computation.key if entry else "none" for name, entry in shown.items()}
    # The same tests may end otherwise when they are run again.
    files |= {f"evidence {name}": entry.path / outcomes.FILE for name, entry in decided.items() if entry}
    settings = {"parameter profile": plan.profile, "parameter device": plan.device}
    return Computation("pages", "book", settings | parts.files(files) | parts.files([parts.PINS]) | entries)


def sources() -> dict[str, Path]:
    """The files that pages are made from, by their names in the project; those of the package wherever it lies."""
    packages = ((Path(folder), "*") for folder in parts.PACKAGES.values())
    folders = ((Path("book"), "*"), (NOTEBOOKS, "*.md"), *packages, (CLAIMS, "*.yml"))
    files = {
        str(file.relative_to(folder.parent)): file
        for folder, pattern in folders
        for file in sorted(folder.rglob(pattern))
        if file.is_file() and "__pycache__" not in file.parts
    }
    return files | {str(path): path for path in (Path("_config.yml"), TOC, *measurements())}


def make(plan: Plan, jobs: int) -> None:
    """Render the pages and keep them in the store, with ``register.json`` and ``executions.json``."""
    store, wanted = default(), computation(plan)
    with store.locked(wanted):
        if store.find(wanted) is None:
            meter = Meter()
            with store.writing(wanted) as (folder, seal):
                _render(plan, folder, jobs)
                seal(meter.read())
    for entry in store.entries("pages")[:-KEPT]:
        if entry.computation.key != wanted.key:  # by a clock that was set back the newest is the oldest
            store.remove(entry.path)


def _render(plan: Plan, folder: Path, jobs: int) -> None:
    """Lay out the book and render it into ``folder``, with what it says of the register and of executions as JSON."""
    shown, decided = stored(plan.notebooks), stored(plan.evidence)
    staging.stage(STAGE, shown)
    ended = [test for entry in decided.values() for test in outcomes.read(entry)]
    entries = register.decide(register.load(CLAIMS), ended)
    write_text(folder / "register.json", register.to_json(entries))
    executed = executions([entry for entry in shown.values() if entry is not None])
    write_text(folder / "executions.json", json.dumps({"tables": executed}, indent=1) + "\n")
    for table in (folder / "register.json", folder / "executions.json", *measurements()):
        copy2(table, STAGE / DATA)
    render(STAGE, folder / "html", jobs=jobs)


def executions(entries: Sequence[Entry]) -> dict[str, list[dict[str, Any]]]:
    """The rows of executed notebooks: their ``cost``, their ``origin``, and the ``versions`` they were made with."""
    cost, origin, versions = [], [], set()
    for entry in entries:
        name, made = {"notebook": entry.computation.name}, entry.provenance
        cost.append(name | {head: getattr(made, field) for head, field in COST.items()})
        origin.append(name | dict(made.more) | {"data sets present": made.data, "key": entry.computation.key})
        versions |= set(made.versions.items())
    return {"cost": cost, "origin": origin, "versions": [{"package": p, "version": v} for p, v in sorted(versions)]}


def show(chapters: Shown, pages: Entry) -> None:
    """Let ``build/`` show these entries."""
    show_executed(chapters)
    for part in ("register.json", "executions.json", HTML.name):
        _put(pages.path / part, BUILD / part)


def show_executed(chapters: Shown) -> None:
    """Let ``build/`` show these executions of chapters."""
    for name, entry in chapters.items():
        if entry is not None:
            _put(entry.path / EXECUTED, BUILD / "executed" / f"{name}.ipynb")


def _put(source: Path, place: Path) -> None:
    """Copy a file or a folder to its place."""
    rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    (copytree if source.is_dir() else copy2)(source, place)
