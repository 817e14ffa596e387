"""The book on paper, ``build/sumexp.pdf``: the pages, joined, printed by Chromium.

It prints twice: once to learn on which sheet each section begins, and once more with these numbers in the contents.
"""

import re
import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sumexp.companion import CompanionError
from sumexp.companion.pipeline.plan import BUILD
from sumexp.companion.pipeline.view import HTML

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

PDF = BUILD / "sumexp.pdf"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 597, 933
"""Of a sheet between its margins, in CSS pixels: see ``--width`` and ``margin`` of ``print.css``."""
SHEET = 794
"""With its margins: the width that styles ask about on paper (``@media (min-width: ...)``)."""

_DATE = re.compile(rb"/(?:CreationDate|ModDate) \([^)]*\)")


def page_numbers(pdf: bytes) -> dict[str, int]:
    """On which page each named place lies, counted from 1."""
    from pypdf import PdfReader

    reader = PdfReader(BytesIO(pdf))
    places = {name: reader.get_destination_page_number(place) for name, place in reader.named_destinations.items()}
    return {name.removeprefix("/"): number + 1 for name, number in places.items() if number is not None}


def undated(pdf: bytes) -> bytes:
    """The same PDF without the time at which it was made; blanks keep every object where the table says it is."""
    return _DATE.sub(lambda found: b" " * len(found[0]), pdf)


def lay_out(browser: "Browser", file: Path) -> "Page":
    """Open a document as on sheets of paper; its script (``print.js``) lays it out."""
    page = browser.new_page(viewport={"width": SHEET, "height": SHEET})
    page.set_default_timeout(0)  # hundreds of sheets take their time on a slow machine
    page.emulate_media(media="print", color_scheme="light")
    page.goto(file.resolve().as_uri())
    page.evaluate("height => sumexpPrint.layOut(height)", HEIGHT)
    return page


def printed(page: "Page") -> bytes:
    """A document laid out as PDF: with bookmarks, and with numbers of sheets where it asks for them.

    Each element with ``data-target`` is given the number of the sheet where that id lies.
    """
    page.evaluate("sumexpPrint.blank()")  # pictures keep their places, which say on which sheet all others are
    page.evaluate("sheets => sumexpPrint.number(sheets)", page_numbers(_pdf(page, final=False)))
    return undated(_pdf(page, final=True))


def _pdf(page: "Page", *, final: bool) -> bytes:
    """What is only to be looked at needs neither bookmarks nor tags, which take as long as all the rest."""
    return page.pdf(outline=final, tagged=final, prefer_css_page_size=True, print_background=True)


def launch(playwright: "Playwright") -> "Browser":
    """Start the Chromium of this machine, or one that Playwright has fetched.

    Raises:
        CompanionError: if there is neither.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None and not Path(playwright.chromium.executable_path).exists():
        raise CompanionError(
            "no Chromium here to print the book with; install one: apt-get install chromium (Debian, Ubuntu), "
            "or: python -m playwright install chromium"
        )
    return playwright.chromium.launch(executable_path=found)


def make() -> Path:
    """Print the pages that ``build/html`` has; returns the PDF, which appears whole or not at all.

    Raises:
        CompanionError: if a page or the browser is not there, or a link within the book leads nowhere.
    """
    from playwright.sync_api import sync_playwright

    from sumexp.companion.pipeline import print_html

    if not (HTML / "index.html").exists():
        raise CompanionError(f"there are no pages in {HTML} to print; build the book first: make book, or sumexp book")
    with sync_playwright() as playwright, TemporaryDirectory(dir=BUILD, prefix=".pdf-") as folder:
        browser = launch(playwright)
        file, part = Path(folder, "book.html"), Path(folder, PDF.name)
        file.write_text(print_html.document(), "utf-8")
        part.write_bytes(printed(lay_out(browser, file)))
        part.replace(PDF)
        browser.close()
    return PDF
