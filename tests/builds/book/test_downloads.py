"""What readers take away: notebooks that read well anywhere, sources, the data of figures, places to run them."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import nbformat
import pytest
from jinja2 import Environment, FileSystemLoader

from claimbook.pipeline.notebook_export import MARKS, Book, glued, install, notebook, text
from claimbook.pipeline.plan import chapters_of
from tests.builds.book.conftest import tree_of

ROOT = Path(__file__).parents[3]
CHAPTERS = chapters_of(ROOT / "_toc.yml")
LINK = re.compile(r"\]\(((?!https?:)[^)\s]*\.html(?:#[^)\s]*)?)\)")
ROLE = re.compile(r"\{[a-z][a-z:_-]*\}`|(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
REGISTER = "../book/register.html#claim-"
BOOK = Book(
    address="tiny.html",
    resolve={"{ref}`fig-bar`": "[Figure 1](tiny.html#fig-bar)", "{eq}`tiny-eq`": "[(3.4)](x.html)"}.__getitem__,
    verdicts={"tiny-one": "holds", "tiny-two": "holds with correction"},
    macros={"E": r"\operatorname{\mathbb{E}}", "R": r"\mathbb{R}"},
    title="The Sum of Exponentials",
)
MEAN, THEOREM = r"\operatorname{\mathbb{E}}", ":::{prf:theorem} of Ash\n:label: tiny-thm\n"
VALUES = {"error": "3 × 10⁻¹³", "order": "It is $\\E x$ ({claim}`tiny-one`)."}


@pytest.mark.parametrize(
    "source, expected",
    [
        ("See {ref}`fig-bar`.", "See [Figure 1](tiny.html#fig-bar)."),
        ("an error of {glue:text}`error`", "an error of 3 × 10⁻¹³"),
        ("{glue:text}`unknown`", "…"),
        ("{glue:md}`order:myst`", rf"It is ${MEAN} x$ ([● tiny-one: holds]({REGISTER}tiny-one))."),
        ("({claim}`tiny-two`)", f"([◆ tiny-two: holds with correction]({REGISTER}tiny-two))"),
        ("[words](../book/intro.md#start)", "[words](../book/intro.html#start)"),
        ("[words](other.md)", "[words](other.html)"),
        ("[x](https://x.org/a.md)", "[x](https://x.org/a.md)"),
        (r"$\E x\in\R^n$, $\Ex$", r"$\operatorname{\mathbb{E}} x\in\mathbb{R}^n$, $\Ex$"),
        ("(a-label)=\n## Title", "## Title"),
        ("$$\nx\n$$ (tiny-eq)", "$$\nx\n\\tag{3.4}\n$$"),
        ("`` {ref}`x` `` and `a` and `{doc}`", "`` {ref}`x` `` and `a` and `{doc}`"),
        ("```python\n{ref}`x`\n```", "```python\n{ref}`x`\n```"),
        (f"{THEOREM}{{glue:text}}`error`\n:::", f"{THEOREM}3 × 10⁻¹³\n:::"),
    ],
)
def test_what_only_the_book_knows_is_filled_in_and_the_rest_is_left(source: str, expected: str) -> None:
    assert text(source, VALUES, BOOK) == expected


def test_every_verdict_has_a_mark_of_its_own() -> None:
    assert (MARKS["holds"], MARKS["refuted"], MARKS["open"], MARKS["not judged"]) == ("●", "✕", "○", "◌")
    assert len(set(MARKS.values())) == len(MARKS)


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source: str, *outputs: dict[str, Any], tags: tuple[str, ...] = ()) -> dict[str, Any]:
    parts = {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source, "execution_count": None}
    return {**parts, "outputs": list(outputs)}


def shown(data: dict[str, str], **mark: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {"sumexp": mark}}


ABOUT = {"figure": "bar", "alt": "A bar.", "caption": "For $x<1$ & more.", "source": "sumexp.a:f"}
ABOUT |= {"provenance": "key 12 · profile cpu"}
CHAPTER: dict[str, Any] = {
    "cells": [
        markdown("# Tiny\n\nIt is {glue:text}`error`, see {ref}`fig-bar`."),
        code('profile = "cpu"\ndevice = "auto"\nseed = 0', tags=("parameters", "hide-input")),
        code("draw()", shown({"image/svg+xml": '<svg role="img"><g/></svg>'}, **ABOUT)),
        code(
            "record()",
            shown({"application/papermill.record/text/plain": "'1,024'"}, result="error", value=1024),
            shown({"text/html": '<div class="by-hand" hidden></div>'}, interactive="bar"),
        ),
        code("print(1)", {"output_type": "stream", "name": "stdout", "text": "1\n"}),
    ],
    "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def test_a_notebook_stands_alone_and_is_a_notebook() -> None:
    page = notebook(CHAPTER, BOOK)
    nbformat.validate(nbformat.from_dict(page))
    title, origin, package, parameters, figure, record, printed = page["cells"]
    assert title["source"] == "# Tiny\n\nIt is 1,024, see [Figure 1](tiny.html#fig-bar)."
    assert "[The Sum of Exponentials](tiny.html)" in origin["source"]
    assert package["source"] == install("")
    assert parameters["source"] == 'profile = "cpu"\ndevice = "auto"\nseed = 0'
    assert parameters["metadata"]["jupyter"] == {"source_hidden": True}
    assert [output["data"] for output in figure["outputs"]] == [
        {"image/svg+xml": '<svg style="color: #000; background: #fff" role="img"><g/></svg>', "text/plain": "A bar."},
        dict.fromkeys(
            ("text/markdown", "text/plain"),
            "**[Figure 1](tiny.html#fig-bar).** For $x<1$ & more.\n\n"
            "Drawn from [`sumexp.a.f`](../_modules/sumexp/a.html#f) · key 12 · profile cpu",
        ),
    ]
    assert record["outputs"] == []
    assert printed["outputs"] == CHAPTER["cells"][4]["outputs"]
    assert CHAPTER["cells"][3]["outputs"]  # what was given is as it was


def test_links_lead_to_the_published_pages() -> None:
    published = replace(BOOK, address="https://x.org/book/notebooks/tiny.html")
    linked = text("({claim}`tiny-one`)", {}, published)
    assert linked.endswith("(https://x.org/book/book/register.html#claim-tiny-one))")


def test_glued_are_numbers_and_sentences() -> None:
    sentence = shown({"application/papermill.record/text/markdown": "So."}, sentence="order", text="So.")
    assert glued({"cells": [*CHAPTER["cells"], code("", sentence)]}) == {"error": "1,024", "order": "So."}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_notebook_asks_for_nothing_that_only_the_book_knows(html: Path, chapter: str) -> None:
    page = nbformat.read(html / "notebooks" / f"{chapter}.ipynb", as_version=4)
    nbformat.validate(page)
    assert page.metadata.kernelspec.name == "python3"
    prose = "\n".join(cell.source for cell in page.cells if cell.cell_type == "markdown")
    assert [role[0] for role in ROLE.finditer(prose) if role[0].startswith("{")] == []
    assert re.findall(r"\\(?:E|R|softmax|lse|rank)(?![a-zA-Z])", prose) == []  # what only the book's MathJax knows
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
        file = (html / "notebooks" / unquote(address or f"{chapter}.html")).resolve()
        assert file.is_file(), link
        if anchor and file not in ids:
            ids[file] = set(re.findall(r' id="([^"]+)"', file.read_text("utf-8")))
        assert not anchor or unquote(anchor) in ids[file], link
    assert links


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_formulas_are_numbered_as_on_the_page(html: Path, chapter: str) -> None:
    exported = json.loads((html / "notebooks" / f"{chapter}.ipynb").read_text("utf-8"))
    prose = "\n".join("".join(cell["source"]) for cell in exported["cells"] if cell["cell_type"] == "markdown")
    page = tree_of(html / "notebooks" / f"{chapter}.html")
    assert re.findall(r"\\tag\{([\d.]+)\}", prose) == [e.get_text().strip("()¶#") for e in page.select(".eqno")]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_figure_offers_its_data(html: Path, chapter: str) -> None:
    page = tree_of(html / "notebooks" / f"{chapter}.html")
    for figure in page.select("figure[id^=fig-]"):
        (link,) = figure.select("a[download]")
        with (html / "notebooks" / str(link["href"])).resolve().open(encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        assert len(set(head)) == len(head) > 1, figure["id"]
        assert rows
        assert {len(row) for row in rows} == {len(head)}


def test_a_known_figure_has_the_data_that_its_alt_text_says(html: Path) -> None:
    """The bars of one step: what is drawn of the label's share is what the alt text says."""
    with (html / "_figures" / "one-step.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    first = [float(row["share of the bar"]) for row in rows if row.get("base") == "0"]
    [shares] = set(re.findall(r"takes ([\d., ]+) of them", (html / "notebooks" / "synthesis.html").read_text("utf-8")))
    assert [f"{share:.3f}" for share in first] == shares.split(", ")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_page_offers_notebook_and_source_and_no_place_that_is_not_there(html: Path, chapter: str) -> None:
    file = html / "notebooks" / f"{chapter}.html"
    links = tree_of(file).select(".take-away a")
    assert [str(link["href"]).rpartition(".")[2] for link in links] == ["ipynb", "md"]
    for link in links:
        assert (file.parent / str(link["href"])).resolve().is_file()
    source = (html / "_sources" / "notebooks" / f"{chapter}.md").read_text("utf-8")
    assert source == (ROOT / "notebooks" / f"{chapter}.md").read_text("utf-8")
    assert not (html / "_sources" / "notebooks" / f"{chapter}.ipynb").exists()


def test_a_chapter_runs_in_a_browser_and_its_page_can_be_edited_where_the_repository_is_known() -> None:
    templates = Environment(loader=FileSystemLoader(ROOT / "book" / "_templates"))
    templates.globals |= {"pagename": "notebooks/bias", "repository": "https://github.com/a/b", "title": "Bias"}
    foot = templates.get_template("page-foot.html").render(author="A", docstitle="P", copyright="2026")
    assert 'href="https://github.com/a/b/edit/main/notebooks/bias.md"' in foot
    assert re.search(r"@incollection{sumexp-bias,\n  title = {Bias},\n  author = {{A}},", foot)
    places = templates.get_template("places.html").render()
    assert re.findall(r'href="([^"]*)"', places)[2:] == [
        "https://colab.research.google.com/github/a/b/blob/notebooks/ipynb/bias.ipynb",
        "https://mybinder.org/v2/gh/a/b/notebooks?urlpath=lab/tree/ipynb/bias.ipynb",
    ]


@pytest.mark.parametrize("page", ["book/intro", *(f"notebooks/{chapter}" for chapter in CHAPTERS)])
def test_a_page_says_how_to_cite_it(html: Path, page: str) -> None:
    soup = tree_of(html / f"{page}.html")
    (icon,) = soup.select("link[rel~=icon]")
    assert ((html / f"{page}.html").parent / str(icon["href"]).partition("?")[0]).resolve().is_file()
    (entry,) = soup.select(".page-foot .highlight pre")
    assert entry.get_text().strip().startswith("@incollection{sumexp-")
    assert not soup.select(".page-foot a[href^=http], .take-away a[href^=http]")  # no repository, no links to it
