"""The book on paper: three pages as the theme writes them, and a chapter of the book."""

import re
import shutil
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Playwright
from pypdf import PdfReader

from claimbook import BookError
from claimbook.pipeline import pdf
from tests.builds.book.conftest import ROOT

needs_chromium = pytest.mark.skipif(
    not any(map(shutil.which, pdf.BROWSERS)), reason="no Chromium here: install Debian's package 'chromium'"
)
TOC = """format: jb-book
root: book/intro
chapters: [{file: notebooks/one}, {file: notebooks/two}, {file: book/api, sections: [{file: book/api/one}]}]
"""


def page(title: str, body: str) -> str:
    return (
        f'<html><body><nav><a href="#">Menu</a></nav><article class="bd-article"><h1>{title}'
        f'<a class="headerlink" href="#">#</a></h1>{body}</article></body></html>'
    )


LINKS = '<a href="../notebooks/two.html#sum">Two</a> <a href="api.html">none</a> <a href="https://example.org/#x">x</a>'
FOLDED = (
    '<details class="hide"><summary>Show code</summary><pre>code</pre></details>'
    '<details class="solution"><summary>Solution</summary><p>Because.</p></details>'
)
SECTION = '<section id="sum"><h2>{0}.1. Sum</h2><p><a href="#sum">here</a></p></section>'
LONG = "<p>Words that fill a sheet of paper, line by line.</p>" * 60
PAGES = {
    "book/intro": page("Intro", LINKS),
    "notebooks/one": page("1. One", LONG + FOLDED + SECTION.format(1)),
    "notebooks/two": page("2. Two “é”", SECTION.format(2)),
}


@pytest.fixture
def book(tmp_path: Path, playwright: Playwright, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose pages are rendered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pdf, "sync_playwright", lambda: nullcontext(playwright))
    for name, text in PAGES.items():
        file = tmp_path / "build/html" / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (tmp_path / "build/html/_static").mkdir()
    for name in ("print.css", "print.js"):
        shutil.copy2(ROOT / "book/_static" / name, tmp_path / "build/html/_static")
    (tmp_path / "_toc.yml").write_text(TOC, "utf-8")
    return tmp_path


def text(made: PdfReader) -> str:
    return " ".join(" ".join(page.extract_text() for page in made.pages).split())


def titles(outline: list[Any]) -> list[Any]:
    return [titles(entry) if isinstance(entry, list) else entry.title for entry in outline]


@needs_chromium
def test_pages_are_joined_with_bookmarks_and_links(book: Path) -> None:
    assert pdf.make() == Path("build/sumexp.pdf")
    assert [file.name for file in (book / "build").iterdir()] == ["html", "sumexp.pdf"]
    made = PdfReader(book / "build/sumexp.pdf")
    last = len(made.pages) - 1
    assert last > 2  # the first chapter takes more than a sheet
    assert titles(made.outline) == ["Intro", "1. One", ["1.1. Sum"], "2. Two “é”", ["2.1. Sum"]]
    links = [[note.get_object() for note in page.get("/Annots", ())] for page in made.pages]
    two, unprinted, elsewhere = links[0]
    assert made.get_page_number(two["/Dest"][0].get_object()) == last
    assert not {"/A", "/Dest"} & unprinted.keys()
    assert elsewhere["/A"]["/URI"] == "https://example.org/#x"
    for number, name in ((last - 1, "one:sum"), (last, "two:sum")):
        [link] = links[number]
        assert link["/Dest"].removeprefix("/") == name
        assert made.get_destination_page_number(made.named_destinations[link["/Dest"]]) == number
    printed = text(made)
    assert "Because." in printed
    assert not any(word in printed for word in ("Menu", "Show code", "#"))


def test_missing_pages_and_a_missing_browser_are_named(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(pdf, "BROWSERS", ())
        with pytest.raises(BookError, match=r"^no Chromium here .*: apt-get install chromium \(Debian"):
            pdf.make()
    (book / "build/html/notebooks/two.html").unlink()
    with pytest.raises(BookError, match=r"^no build/html/notebooks/two.html; build the book first: make book"):
        pdf.make()


@needs_chromium
def test_a_printed_chapter_has_its_formulas_and_figures(
    html: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(html.parents[1])
    file = html / "notebooks/bias.html"
    printed = text(PdfReader(BytesIO(pdf.printed(browser, file))))
    assert "The bias of sampled softmax" in printed
    assert not re.findall(r"\\\[|\\\(|\\frac|\\mathbb", printed)
    chapter = BeautifulSoup(file.read_text("utf-8"), "html.parser")
    assert len(set(re.findall(r"Figure (\d+)\. ", printed))) >= len(chapter.select("figure")) > 0
