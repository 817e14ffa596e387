"""What readers take away: notebooks that read well anywhere, sources, the data of figures, places to run them."""

import csv
import json
import re
import runpy
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import nbformat
import pytest

from sumexp.companion.pipeline.inputs import chapters_of
from sumexp.companion.pipeline.notebook_export import BRANCH, install, leftovers
from tests.book.conftest import tree_of

ROOT = Path(__file__).parents[2]
CHAPTERS = chapters_of(ROOT / "_toc.yml")
EXTENSION = ROOT / "book" / "_ext" / "sumexp_downloads.py"
LINK = re.compile(r"\]\((\.\./[^)\s]+)\)")


@pytest.fixture(scope="module")
def extension() -> dict[str, Any]:
    return runpy.run_path(str(EXTENSION))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_notebook_has_nothing_of_the_books_markup(html: Path, chapter: str) -> None:
    page = nbformat.read(html / "notebooks" / f"{chapter}.ipynb", as_version=4)
    nbformat.validate(page)
    assert page.metadata.kernelspec.name == "python3"
    assert leftovers(page) == []
    text = "\n".join(cell.source for cell in page.cells if cell.cell_type == "markdown")
    assert re.findall(r"\\(?:E|R|softmax|lse|rank)(?![a-zA-Z])", text) == []  # what only the book's MathJax knows
    (first, *_) = (cell.source for cell in page.cells if cell.cell_type == "code")
    assert first == install("")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_its_links_lead_to_the_pages_beside_it(html: Path, chapter: str) -> None:
    page = json.loads((html / "notebooks" / f"{chapter}.ipynb").read_text("utf-8"))
    texts = ["".join(cell["source"]) for cell in page["cells"] if cell["cell_type"] == "markdown"]
    texts += [o["data"].get("text/markdown", "") for c in page["cells"] for o in c.get("outputs", ()) if "data" in o]
    links = {link for text in texts for link in LINK.findall(text)}
    ids: dict[Path, set[str]] = {}
    for link in links:
        address, anchor = urldefrag(link)
        file = (html / "notebooks" / unquote(address)).resolve()
        assert file.is_file(), link
        if anchor and file not in ids:
            ids[file] = set(re.findall(r' id="([^"]+)"', file.read_text("utf-8")))
        assert not anchor or unquote(anchor) in ids[file], link
    assert links


KINDS = "(?:Theorem|Definition|Corollary|Lemma|Exercise)"
"""What is counted and referred to by its number; tables of a paper are counted, too, and nothing refers to them."""


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_references_are_called_as_on_the_page(html: Path, chapter: str) -> None:
    """What a notebook calls its theorems, exercises and formulas is what Sphinx has called them."""
    notebook = json.loads((html / "notebooks" / f"{chapter}.ipynb").read_text("utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    page = tree_of(html / "notebooks" / f"{chapter}.html")
    titles = [title.get_text() for title in page.select("article span.caption-number")]
    counted = [title.strip() for title in titles if re.match(rf"{KINDS} \d", title.strip())]
    assert counted
    assert re.findall(rf"(?m)^ *> \*\*({KINDS} [\d.]+)", text) == counted
    assert re.findall(r"\\tag\{([\d.]+)\}", text) == [e.get_text().strip("()¶#") for e in page.select(".eqno")]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_figure_offers_its_data(html: Path, chapter: str) -> None:
    page = tree_of(html / "notebooks" / f"{chapter}.html")
    for figure in page.select("figure[id^=fig-]"):
        (link,) = figure.select("a[download]")
        with (html / "notebooks" / str(link["href"])).resolve().open(encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        assert head[:3] == ["panel", "series", "kind"], figure["id"]
        assert rows
        assert {len(row) for row in rows} == {len(head)}


def test_a_known_figure_has_the_data_that_its_chapter_prints(html: Path, project: Path) -> None:
    """The bars of one step: what is drawn of the label's share is what the chapter prints below."""
    with (html / "_figures" / "one-step.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    first = [float(row["x"]) for row in rows if row["kind"] == "bar" and float(row["base"]) == 0]
    executed = json.loads((project / "build" / "executed" / "synthesis.ipynb").read_text("utf-8"))
    printed = "".join(
        "".join(output.get("text", "")) for cell in executed["cells"] for output in cell.get("outputs", ())
    )
    shares = re.findall(r"(?m)^(?:softmax|sampled|contrasted|reweighted|ranked|perturbed) +([\d.]+)", printed)[:6]
    assert [f"{share:.4f}" for share in first] == shares


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_menu_offers_notebook_and_source_and_no_place_that_is_not_there(html: Path, chapter: str) -> None:
    file = html / "notebooks" / f"{chapter}.html"
    page = tree_of(file)
    menu = page.select(".dropdown-download-buttons a")
    assert [link.get_text(strip=True) for link in menu] == [".ipynb", ".md"]
    for link in menu:
        assert (file.parent / str(link["href"])).resolve().is_file()
    source = (html / "_sources" / "notebooks" / f"{chapter}.md").read_text("utf-8")
    assert source == (ROOT / "notebooks" / f"{chapter}.md").read_text("utf-8")
    assert not page.select(".dropdown-launch-buttons")  # the book names no repository
    assert not (html / "_sources" / "notebooks" / f"{chapter}.ipynb").exists()


def test_a_chapter_runs_in_a_browser_where_the_repository_is_known(extension: dict[str, Any]) -> None:
    launches = extension["launches"]
    assert launches("", "bias") == launches("https://git.example.org/a/b", "bias") == {}
    assert launches("https://github.com/a/b", "bias") == {
        "Colab": f"https://colab.research.google.com/github/a/b/blob/{BRANCH}/ipynb/bias.ipynb",
        "Binder": f"https://mybinder.org/v2/gh/a/b/{BRANCH}?urlpath=lab/tree/ipynb/bias.ipynb",
    }


def test_authors_are_named_as_in_a_sentence(extension: dict[str, Any]) -> None:
    authors = extension["authors"]
    assert [authors(["Ash", "Birch", "Cole"][:many]) for many in (1, 2, 3)] == ["Ash", "Ash and Birch", "Ash et al."]


@pytest.mark.parametrize("page", ["book/intro", *(f"notebooks/{chapter}" for chapter in CHAPTERS)])
def test_a_link_to_a_page_shows_what_it_is(html: Path, page: str) -> None:
    soup = tree_of(html / f"{page}.html")
    said = {str(tag.get("property") or tag.get("name")): str(tag["content"]) for tag in soup.select("meta[content]")}
    assert said["og:title"]
    assert len(said["og:description"].split()) > 5
    assert "og:image" not in said  # no address, no picture
    (icon,) = soup.select("link[rel~=icon]")
    assert ((html / f"{page}.html").parent / str(icon["href"]).partition("?")[0]).resolve().is_file()
    (entry,) = soup.select(".page-foot .highlight pre")
    assert entry.get_text().startswith("@incollection{sumexp-")
    assert not soup.select(".page-foot a[href^=http]")  # no repository, no links to it
