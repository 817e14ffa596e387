"""Pages are the same bytes in each rendering, warnings are errors, and tables show what the build has found."""

import gc
import json
import shutil
from pathlib import Path
from typing import Any
from weakref import proxy

import pytest
from bs4 import BeautifulSoup

from claimbook import BookError
from claimbook.pipeline.rendering import render
from claimbook.register import Entry, to_json

# sphinx-external-toc looks at every object there is, and torch warns when one of its own is looked at.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op` is deprecated:FutureWarning")

SETTINGS = """title: Tiny
only_build_toc_files: true
execute: {execute_notebooks: "off"}
html: {use_multitoc_numbering: false}
latex: {use_jupyterbook_latex: false}
sphinx:
  recursive_update: true
  config:
    extensions: [myst_nb, jupyter_book, sphinx_external_toc, sphinx_book_theme, sphinx_comments]
    html_theme_options: {navbar_persistent: []}
    nb_ipywidgets_js: {}
"""
BOOK = Path(__file__).parents[3] / "book"
TOC = "format: jb-book\nroot: index\nchapters:\n"
PAGES = {name: f"# Page {name}\n\nIts words, and [another page](index.md).\n" for name in ("one", "two", "three")}


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    stage = tmp_path / "stage"
    stage.mkdir()
    (stage / "_config.yml").write_text(SETTINGS)
    (stage / "_toc.yml").write_text(TOC + "".join(f"- file: {name}\n" for name in PAGES))
    (stage / "index.md").write_text("# Tiny\n\nSee {doc}`two`.\n")
    for name, text in PAGES.items():
        (stage / f"{name}.md").write_text(text)
    return stage


def test_a_warning_is_an_error(stage: Path, tmp_path: Path) -> None:
    """Also where garbage waits: sphinx-external-toc asks every object for its class, and a dead proxy raises."""
    (stage / "three.md").write_text(f"{PAGES['three']}\nSee {{doc}}`nowhere`.\n")
    lost = {1, 2}  # of a class that can be referred to weakly
    cycle: list[object] = [proxy(lost)]
    cycle.append(cycle)
    gc.disable()
    try:
        del lost, cycle
        with pytest.raises(BookError, match=r"Sphinx says:\n  three\.md:5: WARNING: unknown document: 'nowhere'"):
            render(stage, tmp_path / "pages", jobs=1)
    finally:
        gc.enable()


def executions(wall: float) -> dict[str, Any]:
    """The tables of one execution as ``executions.json`` has them, shortened."""
    return {"tables": {"cost": [{"notebook": "bias", "wall": wall}], "origin": [], "versions": [{"package": "numpy"}]}}


WORDS = {"where": "eq. (1)", "paper_says": "$a=b$ in our words.", "corrected": "$a=-b$", "unjudged": "no test yet"}
JUDGED = {"verdict": "not judged", "says": "no test yet", "evidence": None, "tests": (), "erratum": ("B1",)}
ENTRY = Entry(id="bias-x", chapter="bias", kind="equation", **WORDS, **JUDGED)
(CLAIM,) = json.loads(to_json((ENTRY,)))
ERRATUM = (
    "# Errata\n\n(erratum-b1)=\n## B1. A sign\n\n**Weight:** misprint.\n\n"
    "**Printed.**\nA minus.\n\n**Lost in our text.**\nNothing.\n\n**Reading.**\nAs printed.\n"
)


@pytest.fixture
def tables(stage: Path) -> Path:
    """The book's pages of tables, in a book with one chapter and one page of errata."""
    settings = SETTINGS.replace("  recursive", "  local_extensions: {sumexp_book: book/_ext}\n  recursive")
    more = "sphinx_comments, sphinx_exercise, sphinx_proof, sumexp_book]"
    (stage / "_config.yml").write_text(settings.replace("sphinx_comments]", more))
    pages = ("notebooks/bias", "book/register", "book/executions", "book/errata/bias")
    (stage / "_toc.yml").write_text(TOC + "".join(f"- file: {name}\n" for name in pages))
    for folder in ("book/_data", "book/errata", "notebooks"):
        (stage / folder).mkdir(parents=True)
    shutil.copytree(BOOK / "_ext", stage / "book" / "_ext", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("register", "executions"):
        shutil.copy2(BOOK / f"{name}.md", stage / "book")
    (stage / "index.md").write_text("# Tiny\n")
    (stage / "notebooks" / "bias.md").write_text("# The chapter\n")
    (stage / "book" / "errata" / "bias.md").write_text(ERRATUM)
    put(stage, "register", [CLAIM])
    put(stage, "executions", executions(12.34))
    return stage


def put(stage: Path, name: str, value: Any) -> None:
    (stage / "book" / "_data" / f"{name}.json").write_text(json.dumps(value))


def read(file: Path) -> BeautifulSoup:
    return BeautifulSoup(file.read_text("utf-8"), "html.parser")


def test_pages_of_tables_show_what_the_build_has_found(tables: Path, tmp_path: Path) -> None:
    pages = tmp_path / "first"
    render(tables, pages, jobs=1)
    cells = [cell.get_text(" ", strip=True) for cell in read(pages / "book/executions.html").select("article td")]
    assert cells == ["bias", "12.3\xa0s", "numpy"]
    register = read(pages / "book/register.html")
    assert [link["href"] for link in register.select("#claims-bias a.internal")] == ["../notebooks/bias.html"]
    assert register.select("#claim-bias-x a[href='errata/bias.html#erratum-b1']")
    assert "lists 1 statements" in register.get_text()

    put(tables, "executions", executions(56.78))
    put(tables, "register", [CLAIM | {"kind": "theorem"}, CLAIM | {"id": "bias-y"}])
    (tables / "book" / "errata" / "bias.md").write_text(ERRATUM.replace("erratum-b1", "erratum-b2"))
    pages = tmp_path / "second"
    render(tables, pages, jobs=2)
    render(tables, tmp_path / "anew", jobs=1)
    assert files(pages) == files(tmp_path / "anew")
    assert "56.8\xa0s" in (pages / "book/executions.html").read_text("utf-8")
    register = read(pages / "book/register.html")
    assert "lists 2 statements" in register.get_text()
    assert not register.select("a[href*='erratum-b1']")
