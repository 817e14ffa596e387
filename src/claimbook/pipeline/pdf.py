"""The book as one PDF, ``build/PACKAGE.pdf``: each page as Chromium prints it, joined with bookmarks and links."""

import shutil
from io import BytesIO
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, NameObject

from claimbook import BookError, project
from claimbook.pipeline.pages import HTML
from claimbook.pipeline.plan import BUILD, TOC, pages_of

PDF = BUILD / f"{project.declared('package') or 'book'}.pdf"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LEFT_OUT = "book/api"
"""Pages whose names begin so are not printed: they describe the package, function by function."""


def printed(browser: Browser, file: Path) -> bytes:
    """One page as PDF; ``print.css`` and ``print.js`` prepare it for paper."""
    page = browser.new_page()
    page.set_default_timeout(0)  # hundreds of formulas take their time on a slow machine
    page.emulate_media(media="print", color_scheme="light")
    page.goto(file.resolve().as_uri())
    page.add_style_tag(path=HTML / "_static/print.css")
    page.evaluate((HTML / "_static/print.js").read_text("utf-8"))
    made = page.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
    page.close()
    return made


def make() -> Path:
    """Print the pages in ``build/html``; returns the PDF, which appears whole or not at all."""
    files = [HTML / f"{name}.html" for name in pages_of(TOC) if not name.startswith(LEFT_OUT)]
    if missing := [str(file) for file in files if not file.exists()]:
        raise BookError(f"no {missing[0]}; build the book first: make book, or claimbook book")
    if not (chromium := next(filter(None, map(shutil.which, BROWSERS)), None)):
        raise BookError("no Chromium here to print the book with; install it: apt-get install chromium (Debian)")
    joined, starts, part = PdfWriter(), {}, PDF.with_suffix(".part")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=chromium) as browser:
        for file in files:
            starts[file.resolve().as_uri()] = len(joined.pages)
            joined.append(BytesIO(printed(browser, file)))
    for link in (note.get_object() for page in joined.pages for note in page.annotations or ()):
        address = link.get("/A", {}).get("/URI", "").partition("#")[0]
        if address.startswith("file:"):  # to another page: its first sheet, or nowhere if it is not printed
            del link["/A"]
        if address in starts:
            place = joined.pages[starts[address]].indirect_reference
            link[NameObject("/Dest")] = ArrayObject([place, NameObject("/Fit")])
    joined.write(part)
    part.replace(PDF)
    return PDF
