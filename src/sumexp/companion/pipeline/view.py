"""The folder ``build/``: a view of the store, where a reader finds pages, notebooks, numbers and figures by name."""

from collections.abc import Mapping
from pathlib import Path
from shutil import copy2, copytree, rmtree

from sumexp.companion.pipeline.notebooks import EXECUTED, FIGURES, RESULTS
from sumexp.companion.pipeline.plan import BUILD
from sumexp.companion.register import outcomes
from sumexp.companion.store import Entry
from sumexp.companion.store.files import write_text

HTML = BUILD / "html"
PREVIEW = ".preview-"
"""How the names of folders begin in which first pages are made."""


def show(chapters: Mapping[str, Entry | None], evidence: Mapping[str, Entry | None], pages: Entry) -> None:
    """Let ``build/`` show these entries; what shows them already is left alone."""
    for name, entry in chapters.items():
        if entry is not None:
            _file(entry, EXECUTED, BUILD / "executed" / f"{name}.ipynb")
            _file(entry, RESULTS, BUILD / "results" / f"{name}.json")
            _folder(entry, FIGURES, BUILD / "figures" / name)
    known = {f"{name}.json" for name, entry in evidence.items() if entry is not None}
    for file in (BUILD / "evidence").glob("*.json"):
        if file.name not in known:
            file.unlink()
    for name, entry in evidence.items():
        if entry is not None:
            _file(entry, outcomes.FILE, BUILD / "evidence" / f"{name}.json")
    for table in ("register.json", "executions.json"):
        _file(pages, table, BUILD / table)
    _folder(pages, "html", HTML)


def swap(new: Path, place: Path) -> None:
    """Replace a folder by another with no moment when half of it is there."""
    old = place.with_name(f".{place.name}.old")
    rmtree(old, ignore_errors=True)
    if place.exists():
        place.replace(old)
    new.replace(place)
    rmtree(old, ignore_errors=True)


def _mark(place: Path) -> Path:
    return BUILD / ".view" / place.relative_to(BUILD)


def _is_shown(entry: Entry, place: Path) -> bool:
    mark = _mark(place)
    return place.exists() and mark.is_file() and mark.read_text("utf-8") == str(entry.path)


def _file(entry: Entry, name: str, place: Path) -> None:
    if not _is_shown(entry, place):
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f".{place.name}.part")
        copy2(entry.path / name, part)
        part.replace(place)
        write_text(_mark(place), str(entry.path))


def _folder(entry: Entry, name: str, place: Path) -> None:
    if not _is_shown(entry, place):
        part = place.with_name(f".{place.name}.part")
        rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        if (entry.path / name).is_dir():  # a remote keeps files, and so no empty folder
            copytree(entry.path / name, part, dirs_exist_ok=True)
        swap(part, place)
        write_text(_mark(place), str(entry.path))
