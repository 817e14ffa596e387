"""What a build computes: the notebooks and test modules of the book, what each depends on, and the plan of a build."""

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sphinx_external_toc.parsing import parse_toc_yaml

from claimbook import BookError, project
from claimbook.register import outcomes
from claimbook.store import Computation, complete_grids, parts
from claimbook.store.computation import digest
from claimbook.store.settings import PROFILES, choice, resolve_device

BUILD = Path("build")
PLAN = BUILD / "plan.json"
FINISHED = BUILD / ".finished"
"""What the last build that came to its end was made from."""
TOC = Path("_toc.yml")
NOTEBOOKS = Path("notebooks")
THREADS = 1
"""For every notebook, whatever the machine and CORES: sums in another order are other bytes."""


@dataclass(frozen=True)
class Source:
    """A notebook: what its front matter declares under ``sumexp``, its code cells, the defaults of its parameters."""

    declared: Mapping[str, Any]
    code: tuple[str, ...]
    parameters: Mapping[str, object]


def source_path(name: str) -> Path:
    """The file of a notebook."""
    path = NOTEBOOKS / f"{name}.md"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in NOTEBOOKS.glob("*.md"))) or "none; run it in the project's root"
        raise BookError(f"no notebook {name!r} in {NOTEBOOKS}/; there are: {known}")
    return path


def parse(path: Path) -> Source:
    """Read a MyST notebook."""
    return _parsed(path.read_text("utf-8"))


@cache
def _parsed(text: str) -> Source:
    import jupytext  # takes a second

    notebook = jupytext.reads(text, "md:myst")
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    first = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", ())]
    if len(first) > 1:  # papermill sets those of the first, and the others undo it
        raise BookError(f"{len(first)} cells are tagged 'parameters'; expected one: {first}")
    nodes = (node for node in ast.parse("".join(first)).body if isinstance(node, ast.Assign | ast.AnnAssign))
    assigned = [(node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value) for node in nodes]
    try:
        values = {ast.unparse(name): ast.literal_eval(value) for name, value in assigned if value}
    except ValueError:
        raise BookError(f"a parameter is not a plain value such as 0 or 'cpu': {first[0]}") from None
    return Source(notebook.metadata.get("sumexp") or {}, tuple(cell.source for cell in cells), values)


def notebook(name: str, parameters: Mapping[str, object]) -> Computation:
    """The execution of a notebook: its code, parameters, data, import closure and dependencies' versions; not prose.

    Of ``parameters`` those count that the notebook has: a chapter that trains nothing has no ``device``. Of a chapter
    that shows the runs of a grid it depends, too, on which data sets have theirs in the store.
    """
    path = source_path(name)
    source = parse(path)
    place = str(parameters.get("profile", "cpu")), str(parameters.get("device", "cpu"))
    measured = {file.stem: file for file in measurements()}
    trained = [complete_grids.states(grid, names, *place) for grid, names in declared_runs(source).items()]
    return Computation(
        "notebook",
        name,
        {"code": digest(*source.code), "threads": str(THREADS)}
        | {f"parameter {key}": str(value) for key, value in parameters.items() if key in source.parameters}
        | parts.data(declared(path, "data", parts.datasets()))
        | parts.files({f"measured {name}": measured[name] for name in declared(path, "measured", measured)})
        | dict(item for states in trained for item in states.items())
        # What a notebook draws its pictures with is imported by it; how it is run is not.
        | parts.modules(reached := parts.imports(*source.code))
        | parts.versions(reached, *source.code),
    )


def declared(path: Path, kind: str, known: Collection[str]) -> tuple[str, ...]:
    """What a notebook's front matter names: ``sumexp: {data: [...], measured: [...]}``."""
    names = tuple(parse(path).declared.get(kind) or ())
    if unknown := [str(name) for name in names if name not in known]:
        raise BookError(f"{path} declares {kind}: {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def declared_runs(source: Source) -> dict[str, tuple[str, ...]]:
    """By grid, the data sets whose runs a notebook shows if available: ``sumexp: {runs: {GRID: [...]}}``."""
    return {grid: tuple(names) for grid, names in (source.declared.get("runs") or {}).items()}


def measurements() -> list[Path]:
    """The files of what was measured."""
    return sorted(project.folder(project.declared("measured")).glob("*.json")) if project.declared("measured") else []


def pages_of(toc: Path) -> list[str]:
    """The pages of a table of contents, in its order."""
    if not toc.is_file():
        raise BookError(f"no {toc} here ({Path.cwd()}); run this from the project's root")
    return list(parse_toc_yaml(toc))


def chapters_of(toc: Path) -> list[str]:
    """The names of the notebooks in a table of contents, in its order."""
    return [page.removeprefix(f"{NOTEBOOKS}/") for page in pages_of(toc) if page.startswith(f"{NOTEBOOKS}/")]


class Plan(BaseModel):
    """All chapters, those that are selected to be executed, and all test modules with claims.

    It is made once and handed to the steps of a build in a file.
    """

    profile: str
    device: str
    notebooks: Mapping[str, Computation]
    selected: tuple[str, ...]
    evidence: Mapping[str, Computation]


def make(profile: str, device: str, only: str, *, stored: bool = False) -> Plan:
    """Work out what the book in the present folder consists of; ``only`` has the chapters to execute, all if empty.

    Where nothing will be executed (``stored``), the device need not be here.
    """
    choice("PROFILE", profile, PROFILES)
    device = resolve_device(device, needed=not stored)
    names = chapters_of(TOC)
    selected = tuple(choice("ONLY", name, names) for name in only.split()) or tuple(names)
    return Plan(
        profile=profile,
        device=device,
        notebooks={name: notebook(name, {"profile": profile, "device": device}) for name in names},
        selected=selected,
        evidence=outcomes.computations(),
    )
