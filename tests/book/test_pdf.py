"""The whole book on paper, as `make pdf` prints it from the rendered pages."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Page, Playwright

from sumexp.companion.pipeline import pdf, print_html
from tests.book.conftest import ROOT, tree
from tests.companion.pipeline.test_pdf import outline

# The browser that `make pdf` prints with, which need not be the one that the other tests look with.
pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, pdf.BROWSERS)), reason="no Chromium here: install Debian's package 'chromium'"
)

PAGES = [
    page for part in print_html.parts(yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))) for page in part.pages
]
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
def document(project: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        return pdf.document()


@pytest.fixture(scope="module")
def sheet(document: str, playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file = tmp_path_factory.mktemp("paper") / "book.html"
    file.write_text(document, "utf-8")
    browser = pdf.launch(playwright)
    yield pdf.lay_out(browser, file)
    browser.close()


@pytest.fixture(scope="module")
def made(sheet: Page) -> bytes:
    return pdf.printed(sheet)


@pytest.fixture(scope="module")
def text(document: str) -> BeautifulSoup:
    return tree(document)


@pytest.fixture(scope="module")
def numbers(made: bytes) -> dict[str, int]:
    return pdf.page_numbers(made)


def test_every_page_has_its_bookmark_and_its_sheet(text: BeautifulSoup, made: bytes, numbers: dict[str, int]) -> None:
    chapters = [tag.get_text() for tag in text.select("article h2")]
    assert len(chapters) == len(PAGES)
    assert set(chapters) <= outline(made).keys()
    places = [numbers[page] for page in PAGES]
    assert sorted(set(places)) == places  # in their order, each on sheets of its own


def test_every_section_of_a_chapter_has_its_bookmark(text: BeautifulSoup, made: bytes) -> None:
    found = text.select('article[id^="notebooks/"] h3')
    sections = {" ".join(tag.get_text().split()) for tag in found if not tag.select(".math")}
    assert len(sections) > 50
    assert sections <= outline(made).keys()


def test_every_link_within_leads_somewhere(made: bytes, numbers: dict[str, int]) -> None:
    links = set(re.findall(rb"/Dest /(\S+)", made))
    assert len(links) > 300
    there = {name.encode() for name in numbers}
    assert {re.sub(rb"#([0-9A-F]{2})", lambda one: bytes([int(one[1], 16)]), link) for link in links} <= there
    assert b"/URI (file:" not in made  # nor to this machine


def test_formulas_are_typeset_and_none_is_left_raw(sheet: Page) -> None:
    assert sheet.evaluate(UNSET) == []
    assert not re.findall(TEX, sheet.evaluate(WRITTEN))


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="no pdftotext here: install Debian's package 'poppler-utils'")
def test_the_text_of_the_pdf_has_no_raw_formula(made: bytes) -> None:
    printed = subprocess.run(["pdftotext", "-", "-"], input=made, capture_output=True, check=True).stdout.decode()
    assert "Biased by necessity" in printed
    assert not re.findall(r"\\\[|\\\(|\\frac|\\mathbb", printed)


def test_pictures_are_drawn_not_painted(document: str, made: bytes) -> None:
    """Only what a figure itself shows in pixels is an image."""
    own = len(re.findall(r'<image\b[^>]*href="data:|<img\b', document))
    images = re.findall(rb"<</Type /XObject\n/Subtype /Image.*?>>", made, re.DOTALL)
    assert sum(b"/DeviceGray" not in image for image in images) <= own  # those in grey say what is transparent
    assert document.count('class="sumexp-figure"') > 50


def test_nothing_is_wider_than_a_sheet(sheet: Page) -> None:
    """As styles lay it out for the width of a sheet; the browser would print everything smaller."""
    assert sheet.evaluate(WIDE, pdf.WIDTH) == []
    assert sheet.evaluate(SPILLING) == []


def test_what_is_folded_on_the_pages_is_open_or_left_out(text: BeautifulSoup) -> None:
    assert not text.select("details, .claim-card, script[src*='claims'], .register-graph, .above-input")
    exercises, solutions = text.select(".exercise.admonition[id]"), text.select("div.solution")
    assert 0 < len(solutions) <= len(exercises)
    assert all(len(solution.get_text(strip=True)) > len("Solution") for solution in solutions)
    claims = {str(link["href"]) for link in text.select("a.claim-link")}
    assert len(claims) > 100
    assert claims <= {f"#{tag['id']}" for tag in text.select(".register-claim [id]")}
