"""The notebooks as a reader of their source meets them."""

import ast
import shutil
from importlib import import_module
from pathlib import Path

import jupytext.cli
import pytest

from claimbook.pipeline.plan import chapters_of, declared_runs, parse

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


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_runs_that_a_chapter_looks_for_are_part_of_its_key(name: str) -> None:
    """What ``trained(GRID, NAMES, ...)`` asks for is what the front matter declares, and nothing else."""
    source = parse(ROOT / "notebooks" / f"{name}.md")
    nodes = [node for cell in source.code for node in ast.walk(ast.parse(cell))]
    assigned = [(node.targets[0], node.value) for node in nodes if isinstance(node, ast.Assign)]
    values = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
    asked = {}
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "trained":
            grid = ast.literal_eval(node.args[0])
            names = ast.unparse(values[ast.unparse(node.args[1])])  # such as tuple(grids.PLANS["paper"])
            asked[grid] = eval(names, {"grids": import_module(f"sumexp.chapters.{grid}.grids")})  # noqa: S307 - of the book
    assert asked == declared_runs(source)


def test_a_notebook_that_jupyter_saves_keeps_what_it_declares(tmp_path: Path) -> None:
    """Jupytext drops what it does not know of the front matter, unless it is configured to keep it."""
    for path in ("pyproject.toml", "notebooks/vae.md"):
        shutil.copy2(ROOT / path, tmp_path)
    jupytext.cli.jupytext(["--quiet", "--sync", str(tmp_path / "vae.md")])
    assert parse(tmp_path / "vae.md").declared == parse(ROOT / "notebooks/vae.md").declared != {}
