"""The folder ``build/``: a view of the store, where a reader finds pages and executed notebooks by name."""

from collections.abc import Mapping
from pathlib import Path
from shutil import copy2, copytree, rmtree

from claimbook.pipeline.notebooks import EXECUTED
from claimbook.pipeline.plan import BUILD
from claimbook.store import Entry

HTML = BUILD / "html"


def show(chapters: Mapping[str, Entry | None], pages: Entry) -> None:
    """Let ``build/`` show these entries."""
    show_executed(chapters)
    for part in ("register.json", "executions.json", HTML.name):
        _put(pages.path / part, BUILD / part)


def show_executed(chapters: Mapping[str, Entry | None]) -> None:
    """Let ``build/`` show these executions of chapters."""
    for name, entry in chapters.items():
        if entry is not None:
            _put(entry.path / EXECUTED, BUILD / "executed" / f"{name}.ipynb")


def _put(source: Path, place: Path) -> None:
    """Copy a file or a folder to its place."""
    rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        copytree(source, place)
    else:
        copy2(source, place)
