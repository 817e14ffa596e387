"""The book on paper: pages written by hand as the theme writes them, and one chapter with all that is no chapter."""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Playwright
from pypdf import PdfReader
from sphinx_external_toc.parsing import parse_toc_yaml

from claimbook import BookError
from claimbook.pipeline import pdf
from tests.builds.book.conftest import ROOT

needs_chromium = pytest.mark.skipif(
    not any(map(shutil.which, pdf.BROWSERS)), reason="no Chromium here: install Debian's package 'chromium'"
)
CONFIG = "title: Two and two\nauthor: A. Writer\ncopyright: '2026'\n"
TOC = """format: jb-book
root: book/intro
parts:
  - caption: Chapters
    chapters: [{file: notebooks/one}, {file: notebooks/two}]
  - caption: Reference
    chapters: [{file: book/errata}, {file: book/api, sections: [{file: book/api/one}]}]
"""


def page(name: str, title: str, body: str) -> str:
    return (
        f'<html><body><nav><a href="#">Menu</a></nav><article class="bd-article"><section id="{name}">'
        f'<h1>{title}<a class="headerlink" href="#{name}">#</a></h1>{body}</section></article></body></html>'
    )


LINKS = '<p><a href="../notebooks/two.html#sum">Two</a>, <a href="api.html">not printed</a></p>'
LONG = "<p>Words that fill a sheet of paper, line by line.</p>" * 60
DRAWN = '<svg version="1.1"><defs><path id="m"/></defs><use href="#m" clip-path="url(#m)"/></svg>'
FOLDED = (
    '<details class="hide"><summary>Show</summary><pre>code</pre></details>'
    '<details class="solution"><summary>Solution</summary><p>Because.</p></details>'
)
SECTION = '<section id="sum"><h2>{0}.1. Sum</h2><p><a href="one.html#sum">One</a></p></section>'
PAGES = {
    "book/intro": page("intro", "Intro", LINKS),
    "notebooks/one": page("one", "1. One", DRAWN + LONG + FOLDED + SECTION.format(1)),
    "notebooks/two": page("two", "2. Two “é”", DRAWN + SECTION.format(2)),
    "book/errata": page("errata", "Errata", '<p><a href="https://example.org/#x">there</a></p>'),
    "book/api": page("api", "The package", ""),
    "book/api/one": page("one", "one", ""),
}
HEADINGS = ["Intro", "Chapters", "1. One", "1.1. Sum", "2. Two “é”", "2.1. Sum", "Reference", "Errata"]


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose pages are rendered."""
    monkeypatch.chdir(tmp_path)
    for name, text in (PAGES | {"index": ""}).items():
        file = tmp_path / "build/html" / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (tmp_path / "build/html/_static").mkdir()
    for name in ("print.css", "print.js"):
        shutil.copy2(ROOT / "book/_static" / name, tmp_path / "build/html/_static")
    (tmp_path / "_config.yml").write_text(CONFIG, "utf-8")
    (tmp_path / "_toc.yml").write_text(TOC, "utf-8")
    return tmp_path


def bookmarks(made: bytes) -> set[str]:
    def titles(outline: Sequence[Any]) -> Iterator[str]:
        for entry in outline:
            yield from titles(entry) if isinstance(entry, list) else [str(entry.title)]

    return set(titles(PdfReader(BytesIO(made)).outline))


def links(made: bytes) -> set[str]:
    """Where the links of a PDF lead: to named places, and elsewhere by address."""
    annotations = [note.get_object() for page in PdfReader(BytesIO(made)).pages for note in page.get("/Annots", ())]
    places = {note["/Dest"].removeprefix("/") for note in annotations if "/Dest" in note}
    return places | {note["/A"]["/URI"] for note in annotations if "/URI" in note.get("/A", {})}


def text(made: bytes) -> str:
    return " ".join(" ".join(page.extract_text() for page in PdfReader(BytesIO(made)).pages).split())


@needs_chromium
def test_a_book_on_paper(book: Path, playwright: Playwright, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playwright.sync_api.sync_playwright", lambda: nullcontext(playwright))
    assert pdf.make() == Path("build/sumexp.pdf")
    made = (book / "build/sumexp.pdf").read_bytes()
    assert [file.name for file in (book / "build").iterdir() if "pdf" in file.name] == ["sumexp.pdf"]
    # Title, contents, introduction; the first chapter goes on for a second sheet or more.
    numbers = pdf.page_numbers(made)
    assert (numbers["book/intro"], numbers["notebooks/one"]) == (3, 4)
    assert numbers["notebooks/one"] < numbers["notebooks/one:sum"] < numbers["notebooks/two"] < numbers["book/errata"]
    # Every link has its place, links to other hosts stay, and the bookmarks are the headings.
    assert {"notebooks/two:sum", "notebooks/one:sum"} <= links(made)
    assert links(made) - numbers.keys() == {"https://example.org/#x"}
    assert bookmarks(made) == set(HEADINGS)
    said = text(made)
    assert "Because." in said
    assert not any(word in said for word in ("Menu", "Show code", "The package"))


def test_ids_of_two_pages_do_not_meet(book: Path) -> None:
    made = pdf.document()
    for name in ("notebooks/one", "notebooks/two"):
        drawn = f'<defs><path id="{name}:m"/></defs><use href="#{name}:m" clip-path="url(#{name}:m)"/>'
        assert made.count(f'<svg version="1.1">{drawn}</svg>') == 1


@needs_chromium
def test_a_lost_link_is_named(book: Path, playwright: Playwright, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playwright.sync_api.sync_playwright", lambda: nullcontext(playwright))
    (book / "build/html/book/intro.html").write_text(PAGES["book/intro"].replace("#sum", "#gone"), "utf-8")
    with pytest.raises(BookError, match=r"lead nowhere once its pages are joined: #notebooks/two:gone$"):
        pdf.make()


def test_missing_pages_and_a_missing_browser_are_named(
    book: Path, playwright: Playwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playwright.sync_api.sync_playwright", lambda: nullcontext(playwright))
    with monkeypatch.context() as without:
        without.setattr(pdf, "BROWSERS", ())
        without.setattr(type(playwright.chromium), "executable_path", str(book / "none"))
        with pytest.raises(BookError, match=r"^no Chromium here .*: apt-get install chromium \(Debian"):
            pdf.make()
    (book / "build/html/notebooks/two.html").unlink()
    with pytest.raises(BookError, match=r"^build/html lacks notebooks/two; build the book anew: make book"):
        pdf.document()
    shutil.rmtree(book / "build/html")
    with pytest.raises(BookError, match=r"no pages in build/html to print; build the book first: make book"):
        pdf.make()


@pytest.fixture(scope="module")
def made(executed_book: Path, html: Path, playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The book with one of its chapters: typesetting all of them takes a minute of processor."""
    listed = pdf.pages(parse_toc_yaml(ROOT / "_toc.yml"))
    some = {name: part for name, part in listed.items() if not name.startswith("notebooks/") or name.endswith("/bias")}
    file = tmp_path_factory.mktemp("paper") / "book.html"
    with pytest.MonkeyPatch.context() as patch, pdf.launch(playwright) as browser:
        patch.chdir(executed_book)
        file.write_text(pdf.document(some), "utf-8")
        return pdf.printed(browser, file)


@needs_chromium
def test_the_printed_book_has_its_formulas_figures_and_links(made: bytes, html: Path) -> None:
    said = text(made)
    assert "Biased by necessity" in said
    assert not re.findall(r"\\\[|\\\(|\\frac|\\mathbb", said)
    chapter = BeautifulSoup((html / "notebooks/bias.html").read_text("utf-8"), "html.parser")
    assert len(set(re.findall(r"Figure (\d+)\. ", said))) >= len(chapter.select("figure")) > 0
    numbers = pdf.page_numbers(made)
    assert len(links(made) & numbers.keys()) > 100
    assert {re.sub(r"(?<=:).*", "", link) for link in links(made) - numbers.keys()} <= {"http:", "https:"}
