"""The notebooks as a reader of their source meets them."""

from pathlib import Path

import pytest

from sumexp.companion.build.sources import chapters_of, parse

ROOT = Path(__file__).parents[2]
CHAPTERS = chapters_of(ROOT / "_toc.yml")
LONGEST = 15


@pytest.mark.parametrize("name", CHAPTERS)
def test_cells_are_short(name: str) -> None:
    cells = parse(ROOT / "notebooks" / f"{name}.md").code
    long = [f"{len(cell.splitlines())} lines: {cell.splitlines()[0]}" for cell in cells if cell.count("\n") >= LONGEST]
    assert long == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_exercises_are_numbered_by_their_directive(name: str) -> None:
    text = (ROOT / "notebooks" / f"{name}.md").read_text("utf-8")
    assert ":class: exercise" not in text
    assert text.count("{exercise}") == text.count("{solution}") + text.count("{solution-start}") > 0
