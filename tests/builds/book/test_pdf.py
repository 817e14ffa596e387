"""The book on paper: pages written by hand as the theme writes them, and three chapters with all that is no chapter."""

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, Playwright
from pypdf import PdfReader
from sphinx_external_toc.parsing import parse_toc_data, parse_toc_yaml

from sumexp.companion import CompanionError
from sumexp.companion.pipeline import pdf
from tests.builds.book.conftest import ROOT, tree

# The browser that `make pdf` prints with, which need not be the one that the other tests look with.
CHROMIUM = any(map(shutil.which, pdf.BROWSERS))
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")

SCRIPT = f'<script defer src="{(ROOT / "book/_static/print.js").as_uri()}"></script>'
WIDTH = 597
"""Of a sheet between its margins, in CSS pixels: ``--width`` of ``print.css``."""
CONFIG = "title: Two and two\nauthor: A. Writer\ncopyright: '2026'\n"
TOC = """format: jb-book
root: book/intro
parts:
  - caption: Chapters
    chapters: [{file: notebooks/one}, {file: notebooks/two}]
  - caption: Reference
    chapters:
      - {file: book/errata, sections: [{file: book/errata/one}]}
      - {file: book/api, sections: [{file: book/api/one}]}
"""


def page(name: str, title: str, body: str) -> str:
    return (
        f'<html><body><nav><a href="#">Menu</a></nav><article class="bd-article"><section id="{name}">'
        f'<h1>{title}<a class="headerlink" href="#{name}">#</a></h1>{body}</section></article><footer>Foot</footer>'
        "</body></html>"
    )


TO_TWO = '<p><a href="../notebooks/two.html#sum">Two</a> and <a href="api.html">x</a></p>'
TO_ONE = '<a href="one.html">1</a>'
WORDS = "in a title of so many words that it takes two lines"
SECTION = '<section id="sum"><h2>{}.1. Sum</h2>{}</section>'
LONG = "<p>Words that fill a sheet of paper, line by line.</p>" * 60
DRAWN = '<svg version="1.1"><defs><path id="m"/></defs><use href="#m" clip-path="url(#m)"/></svg>'
PAGES = {
    "book/intro": page("intro", "Intro", TO_TWO),
    "notebooks/one": page("one", "1. One", DRAWN + LONG + SECTION.format(1, '<p id="p">1</p>')),
    "notebooks/two": page("two", f"2. Two “é” {WORDS}", DRAWN + SECTION.format(2, TO_ONE)),
    "book/errata": page("errata", "Errata", '<p><a href="https://example.org/#x">there</a></p>'),
    "book/errata/one": page("one", "Errata: one", '<p><a href="../../notebooks/one.html#p">1</a></p>'),
    "book/api": page("api", "The package", ""),
    "book/api/one": page("one", "one", ""),
}  # fmt: skip
HEADINGS = [
    "Intro", "Chapters", "1. One", "1.1. Sum", f"2. Two “é” {WORDS}", "2.1. Sum", "Reference", "Errata", "Errata: one",
]  # fmt: skip


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose pages are rendered."""
    monkeypatch.chdir(tmp_path)
    for name, text in PAGES.items():
        file = tmp_path / "build/html" / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (tmp_path / "build/html/index.html").write_text("", "utf-8")
    (tmp_path / "build/html/_static").mkdir()
    for name in ("print.css", "print.js"):
        shutil.copy2(ROOT / "book/_static" / name, tmp_path / "build/html/_static")
    (tmp_path / "_config.yml").write_text(CONFIG, "utf-8")
    (tmp_path / "_toc.yml").write_text(TOC, "utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def printer(playwright: Playwright) -> Iterator[Browser]:
    with pdf.launch(playwright) as browser:
        yield browser


def written(folder: Path, body: str, head: str = "") -> Path:
    """A document of its own, with the script of the book."""
    file = folder / "book.html"
    file.write_text(f"<!doctype html><html><head>{head}{SCRIPT}</head><body>{body}</body></html>", "utf-8")
    return file


def sheet_of(printer: Browser, folder: Path, body: str, head: str = "") -> Page:
    """The same, laid out."""
    return pdf.lay_out(printer, written(folder, body, head))


def joined(printer: Browser, folder: Path, **pages: str) -> Page:
    """Pages of these names in ``p`` and with these texts, joined."""
    articles = (pdf.article(f'<article class="x">{text}</article>', f"p/{name}") for name, text in pages.items())
    return sheet_of(printer, folder, f'<nav class="contents"><ol></ol></nav>{"".join(articles)}', "<title>Book</title>")


def article(printer: Browser, folder: Path, text: str) -> str:
    """What is printed of a page with this text, within its own element."""
    sheet = joined(printer, folder, q=f"<h1>T</h1>{text}")
    html: str = sheet.evaluate("document.querySelector('article').innerHTML")
    sheet.close()
    return html.removeprefix("<h2>T</h2>")


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


def test_what_describes_the_package_is_no_part_of_the_printed_book() -> None:
    contents = {
        "format": "jb-book",
        "root": "book/intro",
        "parts": [
            {"caption": "A", "chapters": [{"file": "a", "sections": [{"file": "a/b"}]}]},
            {"caption": "B", "chapters": [{"file": "book/api", "sections": [{"file": "book/api/x"}]}, {"file": "c"}]},
            {"caption": "C", "chapters": [{"file": "book/api/y"}]},
        ],
    }
    listed = pdf.pages(parse_toc_data(contents))
    assert list(listed.items()) == [("book/intro", ""), ("a", "A"), ("a/b", ""), ("c", "B")]
    short = parse_toc_data({"format": "jb-book", "root": "i", "chapters": [{"file": "a"}]})
    assert pdf.pages(short) == {"i": "", "a": ""}


LINKS = {
    "#x": "#p/one:x",
    "two.html": "#p/two",
    "two.html#x": "#p/two:x",
    "../p/one.html#x": "#p/one:x",
    "https://example.org/two.html#x": "https://example.org/two.html#x",
}


@needs_chromium
def test_links_lead_within_the_document(printer: Browser, tmp_path: Path) -> None:
    text = "".join(f'<a href="{href}">to</a> ' for href in [*LINKS, "../_modules/sumexp/bias.html#f", "../two.html"])
    sheet = joined(printer, tmp_path, one=f'<h1 id="x">1</h1><p>{text}</p>', two='<h1 id="x">2</h1>')
    assert sheet.evaluate("[...document.querySelectorAll('p a')].map(one => one.getAttribute('href'))") == [
        *LINKS.values()
    ]
    # A link to a page that is not printed becomes its text.
    assert sheet.evaluate("document.querySelector('p').textContent") == "to " * 7
    sheet.close()


@needs_chromium
def test_ids_of_two_pages_do_not_meet_and_what_refers_to_them_follows(printer: Browser, tmp_path: Path) -> None:
    text = (
        '<svg aria-labelledby="t" viewBox="0 0 1 1"><title id="t">A</title><clipPath id="c"></clipPath>'
        '<path clip-path="url(#c)" style="fill: url(#c)"></path><use href="#t"></use><use href="#mark-holds"></use>'
        '<image href="data:image/png;base64,AA#"></image></svg><a href="#t">in</a> <a href="gone.html">out</a>'
    )
    assert article(printer, tmp_path, text) == (
        '<svg aria-labelledby="p/q:t" viewBox="0 0 1 1">'
        '<title id="p/q:t">A</title><clipPath id="p/q:c"></clipPath>'
        '<path clip-path="url(#p/q:c)" style="fill: url(#p/q:c)"></path><use href="#p/q:t"></use>'
        '<use href="#mark-holds"></use><image href="data:image/png;base64,AA#"></image></svg>'
        '<a href="#p/q:t">in</a> out'
    )
    other = '<h1>R</h1><a href="q.html#t">1</a><a class="x" href="q.html#gone">2</a>'
    with pytest.raises(CompanionError, match=r"lead nowhere once its pages are joined: #p/q:gone$"):
        joined(printer, tmp_path, q=f"<h1>Q</h1>{text}", r=other)


def test_what_pictures_are_drawn_of_stays_as_it_was_but_for_its_ids(book: Path) -> None:
    """Two pages' drawings, which have the same ids."""
    made = pdf.document()
    for name in ("notebooks/one", "notebooks/two"):
        drawn = f'<defs><path id="{name}:m"/></defs><use href="#{name}:m" clip-path="url(#{name}:m)"/>'
        assert made.count(f'<svg version="1.1">{drawn}</svg>') == 1


@needs_chromium
def test_what_is_for_a_screen_is_taken_away_and_what_is_folded_is_opened(printer: Browser, tmp_path: Path) -> None:
    assert article(
        printer,
        tmp_path,
        '<h2>U<a class="headerlink" href="#t">#</a></h2><script>1</script><div id="register-filters">x</div>'
        '<div class="cell" id="cell-f"><details class="admonition hide above-input"><pre>code</pre></details></div>'
        '<div class="cell"><details class="hide"><pre>code</pre></details><div class="cell_output">42</div></div>'
        '<details class="solution" id="s"><summary>Solution</summary><p>Because.</p></details>'
        '<p class="figure-source">Drawn <span class="in-cell">in <a href="#cell-f">this cell</a> </span>from '
        '<code>f</code>.<a href="f.csv" download>Data</a></p>'
        '<a aria-describedby="card-x">claim</a><div class="claim-cards"><div id="card-x">card</div></div>',
    ) == (
        '<h3>U</h3><div class="cell"><div class="cell_output">42</div></div>'
        '<div class="solution" id="p/q:s"><p class="summary">Solution</p><p>Because.</p></div>'
        '<p class="figure-source">Drawn from <code>f</code>.</p><a aria-describedby="card-x">claim</a>'
    )


@needs_chromium
def test_an_entry_of_the_register_keeps_its_statement_and_verdict(printer: Browser, tmp_path: Path) -> None:
    text = article(
        printer,
        tmp_path,
        '<section><h2>Graph</h2><details class="register-chapter"><svg></svg></details></section>'
        '<details class="register-claim"><summary><code>a-b</code> holds</summary><div id="claim-a-b">'
        '<p class="paper-says">One.</p><p class="corrected">Two.</p><p class="note">Why.</p>'
        '<p class="about">Tests</p></div></details>',
    )
    assert BeautifulSoup(text, "html.parser").get_text("|", strip=True) == "a-b|holds|One.|Two."


@needs_chromium
def test_running_heads_quote_what_titles_hold(printer: Browser, tmp_path: Path) -> None:
    sheet = joined(printer, tmp_path, a='<h1>Say "two" \\ “é”</h1>', b="<h1>Book</h1>")
    style = sheet.evaluate("document.querySelector('style').textContent")
    pages = sheet.evaluate("[...document.querySelectorAll('article')].map(one => one.style.page)")
    sheet.close()
    assert '@top-left { content: "Book"; } @top-right { content: "Say \\"two\\" \\\\ “é”"; }' in style
    assert '@page sheet-1 { @top-left { content: "Book"; } @top-right { content: ""; } }' in style  # not words twice
    assert pages == ["sheet-0", "sheet-1"]


@needs_chromium
def test_a_document_holds_all_pages_in_their_order(book: Path, printer: Browser) -> None:
    file = book / "build" / "book.html"
    file.write_text(pdf.document(), "utf-8")
    sheet = pdf.lay_out(printer, file)
    document = BeautifulSoup(sheet.content(), "html.parser")
    sheet.close()
    assert [text["id"] for text in document.select("article")] == list(PAGES)[:5]
    assert [tag.get_text() for tag in document.select("h1, h2, h3")] == HEADINGS
    assert [place["data-target"] for place in document.select(".contents .number")] == [
        "book/intro", "notebooks/one:part", "notebooks/one", "notebooks/one:sum", "notebooks/two", "notebooks/two:sum",
        "book/errata:part", "book/errata", "book/errata/one",
    ]  # fmt: skip
    assert document.select_one("#book\\/intro p a + a") is None  # the package's page is not printed
    assert "Menu" not in document.get_text()


def test_the_title_page_names_the_book_and_what_is_left_out() -> None:
    text = BeautifulSoup(pdf.front("A < B: five papers", "C & D", "2026", "1.2.3"), "html.parser").get_text("\n")
    assert text.split("\n")[:4] == ["A < B", "Five papers", "C & D", "Version 1.2.3, 2026"]
    assert "holds with correction" in text
    assert "Not printed are" in text


def test_dates_leave_blanks() -> None:
    made = b"<</Title (x)\n/CreationDate (D:20260101000000+00'00')\n/ModDate (D:20260101000000+00'00')>>"
    assert len(pdf.undated(made)) == len(made)
    assert pdf.undated(made).split() == [b"<</Title", b"(x)", b">>"]


DRAWINGS = "[...document.querySelectorAll('svg')].map(one => one.outerHTML)"


@needs_chromium
def test_a_book_on_paper(book: Path, playwright: Playwright, monkeypatch: pytest.MonkeyPatch, printer: Browser) -> None:
    monkeypatch.setattr("playwright.sync_api.sync_playwright", lambda: nullcontext(playwright))
    assert pdf.make() == Path("build/sumexp.pdf")
    made = (book / "build/sumexp.pdf").read_bytes()
    assert [file.name for file in (book / "build").iterdir() if "pdf" in file.name] == ["sumexp.pdf"]
    # Title, contents, introduction; the first chapter goes on for a second sheet or more.
    numbers = pdf.page_numbers(made)
    assert (numbers["book/intro"], numbers["notebooks/one"]) == (3, 4)
    assert numbers["notebooks/one:part"] == 4 < numbers["notebooks/one:sum"] < numbers["notebooks/two"]
    assert numbers["notebooks/two"] == numbers["notebooks/two:sum"] == numbers["book/errata"] - 1
    # Every link has its place, and the bookmarks are the headings.
    assert {"notebooks/two:sum", "notebooks/one:p", "notebooks/one"} <= links(made)
    assert links(made) - numbers.keys() == {"https://example.org/#x"}
    assert bookmarks(made) == set(HEADINGS)
    # A second printing is the same, byte by byte; the contents have the numbers of their sheets.
    file = book / "build/again" / "book.html"
    file.parent.mkdir()
    file.write_text(pdf.document(), "utf-8")
    sheet = pdf.lay_out(printer, file)
    drawn = sheet.evaluate(DRAWINGS)
    assert pdf.printed(sheet) == made
    assert len(drawn) > 2
    assert sheet.evaluate(DRAWINGS) == drawn  # pictures are taken out while sheets are counted
    shown = sheet.evaluate("[...document.querySelectorAll('.number')].map(one => [one.dataset.target, one.innerText])")
    sheet.close()
    assert len(shown) == 9
    assert shown == [[target, str(numbers[target])] for target, _ in shown]


@needs_chromium
def test_who_listens_hears_a_formula_as_it_was_written(printer: Browser, tmp_path: Path) -> None:
    """MathJax says that it is ready by a promise, and here it draws at the last moment."""
    sheet = sheet_of(
        printer,
        tmp_path,
        """<p id="place"></p><script>
        const math = [{ math: 'x^2', typesetRoot: document.getElementById('place') }];
        const drawn = new Promise(resolve => setTimeout(() => {
            math[0].typesetRoot.innerHTML = '<svg aria-hidden="true"></svg>';
            resolve();
        }, 100));
        window.MathJax = { startup: { promise: drawn, document: { math } } };
        </script>""",
    )
    assert sheet.evaluate("document.querySelector('svg')?.outerHTML") == '<svg aria-label="x^2"></svg>'
    sheet.close()


@needs_chromium
def test_what_is_too_wide_is_drawn_smaller(printer: Browser, tmp_path: Path) -> None:
    style = f'<link rel="stylesheet" href="{(ROOT / "book/_static/print.css").as_uri()}">'
    row = "".join(f"<td><code>{'name' * 8}</code></td>" for _ in range(5))
    text = f'<table><tr>{row}</tr></table></div><pre id="near">{"x" * 115}</pre><pre id="far">{"x" * 400}</pre>'
    sheet = sheet_of(printer, tmp_path, f'<article class="bd-article"><div>{text}</article>', style)
    right, *lines = sheet.evaluate("""() => [
        Math.max(...[...document.querySelectorAll('article *')].map(one => one.getBoundingClientRect().right)),
        ...['near', 'far'].map(id => document.getElementById(id).getBoundingClientRect().height)]""")
    sheet.close()
    assert right <= WIDTH + 1
    assert lines[0] < 30 < lines[1]  # one line drawn smaller, and one that is broken, as nobody could read it


@needs_chromium
def test_a_figure_that_no_longer_fits_lets_the_text_after_it_go_first(printer: Browser, tmp_path: Path) -> None:
    def block(name: str, height: int, tag: str = "p", style: str = "") -> str:
        return f'<{tag} id="{name}" class="{style}" style="margin: 0; height: {height}px">.</{tag}>'

    first = block("before", 700) + block("picture", 400, "div", "sumexp-figure")
    rest = block("short", 100) + block("tall", 300) + block("last", 50) + block("heading", 20, "h3")
    fits = block("small", 500) + block("other", 400, "div", "sumexp-figure") + block("after", 20)
    stays = block("above", 700) + block("formula", 400, "div", "math") + block("below", 20)  # which is no figure
    text = "".join(f"<article>{part}</article>" for part in (first + rest, fits, stays))
    sheet = sheet_of(printer, tmp_path, text)
    order = sheet.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    sheet.close()
    # 933 - 700 leave room for the short paragraph and not for the tall one, behind which nothing overtakes the figure.
    assert order == [
        "before",
        "short",
        "picture",
        "tall",
        "last",
        "heading",
        "small",
        "other",
        "after",
        "above",
        "formula",
        "below",
    ]


def test_only_who_prints_needs_playwright(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("playwright", "playwright.sync_api"):
        monkeypatch.setitem(sys.modules, name, None)
    assert runpy.run_path(pdf.__file__)["HEIGHT"] == pdf.HEIGHT


def test_without_pages_it_says_how_to_make_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompanionError, match=r"no pages in build/html to print; build the book first: make book"):
        pdf.make()


def test_a_page_that_is_not_rendered_yet_is_named(book: Path) -> None:
    (book / "build/html/notebooks/two.html").unlink()
    with pytest.raises(CompanionError, match=r"^build/html lacks notebooks/two; build the book anew: make book"):
        pdf.document()


def test_without_a_browser_it_says_what_to_install(
    book: Path, playwright: Playwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playwright.sync_api.sync_playwright", lambda: nullcontext(playwright))
    monkeypatch.setattr(pdf, "BROWSERS", ())
    monkeypatch.setattr(type(playwright.chromium), "executable_path", str(book / "none"))
    with pytest.raises(CompanionError, match=r"^no Chromium here .*: apt-get install chromium \(Debian"):
        pdf.make()
    assert not (book / "build/sumexp.pdf").exists()


PRINTABLE = pdf.pages(parse_toc_yaml(ROOT / "_toc.yml"))
LEFT_TO_PRINT = ("notebooks/bias", "notebooks/synthesis", "notebooks/vae")
"""The chapters that are laid out and printed here: typesetting all fourteen took a minute of processor."""
PRINTED = {page: part for page, part in PRINTABLE.items() if not page.startswith("notebooks/") or page in LEFT_TO_PRINT}
TEX = r"\\[a-zA-Z\[(]|\$[^$\s][^$]*\$"

WRITTEN = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, node =>
        node.parentElement.closest('pre, code, script, style, mjx-container') ? NodeFilter.FILTER_REJECT
                                                                             : NodeFilter.FILTER_ACCEPT);
    const found = [];
    while (walker.nextNode()) found.push(walker.currentNode.data);
    return found.join(' ');
}"""
WIDE = """width => [...document.querySelectorAll('body *')]
    .filter(one => !one.closest('svg *, mjx-container *') && one.getBoundingClientRect().right > width + 1)
    .map(one => one.outerHTML.slice(0, 100))"""
UNSET = """() => [...document.querySelectorAll('.math')].filter(one => !one.querySelector('mjx-container > svg use'))
    .map(one => one.outerHTML.slice(0, 100))"""
SPILLING = """() => [...document.querySelectorAll('body *')].filter(one => {
    const { display } = getComputedStyle(one);
    return display !== 'inline' && one.scrollWidth > one.clientWidth + 1 && !one.closest('svg, mjx-container');
}).map(one => one.outerHTML.slice(0, 100))"""


@pytest.fixture(scope="module")
def documents(executed_book: Path, html: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The whole book, and what of it is laid out and printed here."""
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(executed_book)
        (folder / "whole.html").write_text(pdf.document(), "utf-8")
        (folder / "part.html").write_text(pdf.document(PRINTED), "utf-8")
    return {name: folder / f"{name}.html" for name in ("whole", "part")}


@dataclass(frozen=True)
class Sheets:
    """The pages that are printed here, laid out: what is wrong with them, and the document."""

    page: Page
    wrong: dict[str, list[str]]
    kept: str


@pytest.fixture(scope="module")
def sheets(documents: dict[str, Path], printer: Browser) -> Sheets:
    page = pdf.lay_out(printer, documents["part"])
    wrong = {
        "not typeset": page.evaluate(UNSET),
        "raw": re.findall(TEX, page.evaluate(WRITTEN)),
        "wider than a sheet": page.evaluate(WIDE, WIDTH),
        "spilling": page.evaluate(SPILLING),
    }
    return Sheets(page, wrong, page.content())


@pytest.fixture(scope="module")
def made(sheets: Sheets) -> bytes:
    return pdf.printed(sheets.page)


@pytest.fixture(scope="module")
def text(documents: dict[str, Path], printer: Browser) -> BeautifulSoup:
    """The whole book, joined; its formulas are not typeset."""
    page = printer.new_page()
    page.route("**/mathjax/**", lambda route: route.abort())
    page.goto(documents["whole"].as_uri())
    assert page.evaluate("sumexpPrint.lost") == []
    joined = tree(page.content())
    page.close()
    return joined


@pytest.fixture(scope="module")
def printed(sheets: Sheets) -> BeautifulSoup:
    """What of the document is printed."""
    return tree(sheets.kept)


@pytest.fixture(scope="module")
def numbers(made: bytes) -> dict[str, int]:
    return pdf.page_numbers(made)


@needs_chromium
def test_every_page_has_its_bookmark_and_its_sheet(
    text: BeautifulSoup, printed: BeautifulSoup, made: bytes, numbers: dict[str, int]
) -> None:
    assert len(text.select("article h2")) == len(PRINTABLE)
    chapters = [tag.get_text() for tag in printed.select("article h2")]
    assert len(chapters) == len(PRINTED)
    assert set(chapters) <= bookmarks(made)
    places = [numbers[page] for page in PRINTED]
    assert sorted(set(places)) == places  # in their order, each on sheets of its own


@needs_chromium
def test_every_section_of_a_chapter_has_its_bookmark(printed: BeautifulSoup, made: bytes) -> None:
    found = printed.select('article[id^="notebooks/"] h3')
    sections = {" ".join(tag.get_text().split()) for tag in found if not tag.select(".math")}
    assert len(sections) > 15
    assert sections <= bookmarks(made)


@needs_chromium
def test_every_link_within_leads_somewhere(made: bytes, numbers: dict[str, int]) -> None:
    found = links(made)
    assert len(found & numbers.keys()) > 300
    # None leads to this machine.
    assert {re.sub(r"(?<=:).*", "", link) for link in found - numbers.keys()} <= {"http:", "https:"}


@needs_chromium
@pytest.mark.parametrize("what", ["not typeset", "raw", "wider than a sheet", "spilling"])
def test_pages_are_laid_out_for_sheets(sheets: Sheets, what: str) -> None:
    """As styles lay them out for the width of a sheet: the browser would print everything smaller."""
    assert sheets.wrong[what] == []


@needs_chromium
@pytest.mark.skipif(not shutil.which("pdftotext"), reason="no pdftotext here: install Debian's package 'poppler-utils'")
def test_the_text_of_the_pdf_has_no_raw_formula(made: bytes) -> None:
    printed = subprocess.run(["pdftotext", "-", "-"], input=made, capture_output=True, check=True).stdout.decode()
    assert "Biased by necessity" in printed
    assert not re.findall(r"\\\[|\\\(|\\frac|\\mathbb", printed)
    figures = [int(number) for number in re.findall(r"(?m)^Figure (\d+)\. ", printed)]
    assert max(figures) > 1
    assert all(number in (1, before + 1) for before, number in pairwise([0, *figures])), figures


@needs_chromium
def test_pictures_are_drawn_not_painted(text: BeautifulSoup, sheets: Sheets, made: bytes) -> None:
    """Only what a figure itself shows in pixels is an image."""
    own = len(re.findall(r'<image\b[^>]*href="data:|<img\b', sheets.kept))
    images = re.findall(rb"<</Type /XObject\n/Subtype /Image.*?>>", made, re.DOTALL)
    assert sum(b"/DeviceGray" not in image for image in images) <= own  # those in grey say what is transparent
    assert len(text.select(".sumexp-figure")) > 50


@needs_chromium
def test_what_is_folded_on_the_pages_is_open_or_left_out(text: BeautifulSoup) -> None:
    assert not text.select("details, .claim-card, script[src*='claims'], .register-graph, .above-input")
    exercises, solutions = text.select(".exercise.admonition[id]"), text.select("div.solution")
    assert 0 < len(solutions) <= len(exercises)
    assert all(len(solution.get_text(strip=True)) > len("Solution") for solution in solutions)
    claims = {str(link["href"]) for link in text.select("a.claim-link")}
    assert len(claims) > 100
    assert claims <= {f"#{tag['id']}" for tag in text.select(".register-claim [id]")}
