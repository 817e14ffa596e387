"""The book on paper, ``build/PACKAGE.pdf``: the pages in one document, printed by Chromium.

``print.js`` joins the pages and lays them out. Chromium prints twice: once to learn on which sheet each section begins,
and once more with these numbers in the contents.
"""

import re
import shutil
from collections.abc import Mapping
from functools import partial
from html import escape
from importlib.metadata import metadata
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import matplotlib
import yaml
from sphinx_external_toc.api import SiteMap
from sphinx_external_toc.parsing import parse_toc_yaml

from claimbook import BookError, project
from claimbook.pipeline.plan import BUILD, TOC
from claimbook.pipeline.view import HTML
from claimbook.register import VERDICTS, page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

PDF = BUILD / f"{project.declared('package') or 'book'}.pdf"
CONFIG = Path("_config.yml")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SHEET = 794
"""Its width with its margins: the width that styles ask about on paper (``@media (min-width: ...)``)."""
FONTS = (
    ("Book Text", "STIXGeneral.ttf", ""),
    ("Book Text", "STIXGeneralBol.ttf", "font-weight: bold;"),
    ("Book Text", "STIXGeneralItalic.ttf", "font-style: italic;"),
    ("Book Text", "STIXGeneralBolIta.ttf", "font-weight: bold; font-style: italic;"),
    ("Book Code", "DejaVuSansMono.ttf", ""),
    ("Book Code", "DejaVuSansMono-Bold.ttf", "font-weight: bold;"),
)
"""Fonts that come with matplotlib, so that the book looks the same wherever it is printed."""
LEFT_OUT = "book/api"
"""Pages whose names begin so are not printed: they describe the package, function by function."""
STYLES = ("pygments.css", "claims.css", "register.css", "custom.css", "print.css")
"""Of the pages' style sheets those that paper needs; the last lays out what the theme does on a screen."""

_OWN = re.compile(r'(\sid="|\baria-labelledby="|\bhref="#(?!mark-)|\burl\(#)')
_MATHS = re.compile(r"<script>window\.MathJax = .*?</script>", re.DOTALL)


def pages(contents: SiteMap) -> dict[str, str]:
    """The pages that are printed, in their order, each with the title of the part that it begins, if any."""
    printed = [name for name in contents if not name.startswith(LEFT_OUT)]
    begins = {next(filter(printed.__contains__, part.items), ""): part.caption or "" for part in contents.root.subtrees}
    return {name: begins.get(name, "") for name in printed}


def article(html: str, name: str, part: str = "") -> str:
    """What a page says, to be joined with others: its ids bear its name, the part that it begins stands above it."""
    text = _OWN.sub(rf"\g<0>{name}:", html[html.index(">", html.index("<article")) + 1 : html.rindex("</article>")])
    title = part and f'<h1 class="part" id="{name}:part">{escape(part)}</h1>'
    return f'<article class="bd-article" id="{name}">{title}{text}</article>'


def front(title: str, author: str, year: str, version: str) -> str:
    """The title page: what the book is, and what its marks mean."""
    name, _, subtitle = title.partition(": ")
    return (
        f'<div class="title-page"><div class="book-title">{escape(name)}</div>'
        f'<div class="book-subtitle">{escape(subtitle[:1].upper() + subtitle[1:])}</div>'
        f'<div class="book-authors">{escape(author)}<br>Version {escape(version)}, {escape(year)}</div>'
        f'<div class="book-about"><p>{"".join(map(page.badge, VERDICTS))}</p><p>These marks stand at words whose claim '
        "was checked, and lead to its entry in the register, near the end. The description of the package, folded "
        "code, and the notes, tests and graphs of the register are not printed.</p></div></div>"
    )


def document(listed: Mapping[str, str] | None = None) -> str:
    """The pages that ``build/html`` has as one HTML document, for ``print.js`` to join."""
    listed = pages(parse_toc_yaml(TOC)) if listed is None else listed
    if absent := [name for name in listed if not (HTML / f"{name}.html").exists()]:
        raise BookError(f"{HTML} lacks {', '.join(absent)}; build the book anew: make book, or claimbook book")
    texts = {name: (HTML / f"{name}.html").read_text("utf-8") for name in listed}
    config, about = yaml.safe_load(CONFIG.read_text("utf-8")), metadata(project.declared("package"))
    maths = _MATHS.search(next(iter(texts.values())))
    static = (HTML / "_static").resolve().as_uri()
    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf").resolve().as_uri()
    faces = (
        f'@font-face {{ font-family: "{family}"; src: url("{fonts}/{file}"); {style} }}'
        for family, file, style in FONTS
    )
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en" data-theme="light"><head><meta charset="utf-8">',
            f"<title>{escape(config['title'])}</title>",
            *(f'<link rel="stylesheet" href="{static}/{name}">' for name in STYLES),
            *("<style>", *faces, "</style>"),
            maths[0] if maths else "",
            f'<script defer src="{static}/print.js"></script>',
            f'<script defer src="{static}/mathjax/startup.js"></script>' if maths else "",
            f"</head>\n<body>\n{page.symbols()}",
            front(about["Summary"], config["author"], config["copyright"], about["Version"]),
            '<nav class="contents" aria-label="Contents"><div class="contents-title">Contents</div><ol></ol></nav>',
            *(article(texts[name], name, part) for name, part in listed.items()),
            "</body></html>\n",
        )
    )


def page_numbers(pdf: bytes) -> dict[str, int]:
    """On which page each named place lies, counted from 1."""
    from pypdf import PdfReader

    reader = PdfReader(BytesIO(pdf))
    places = {name: reader.get_destination_page_number(place) for name, place in reader.named_destinations.items()}
    return {name.removeprefix("/"): number + 1 for name, number in places.items() if number is not None}


def printed(browser: "Browser", file: Path) -> bytes:
    """A document as PDF with bookmarks; ``print.js`` lays it out and gives each ``data-target`` its page's number."""
    page = browser.new_page(viewport={"width": SHEET, "height": SHEET})
    page.set_default_timeout(0)  # hundreds of sheets take their time on a slow machine
    page.emulate_media(media="print", color_scheme="light")
    page.goto(file.resolve().as_uri())
    if lost := page.evaluate("sumexpPrint.lost"):
        raise BookError(f"links of the book that lead nowhere once its pages are joined: {', '.join(lost)}")
    page.evaluate("sumexpPrint.layOut()")
    pdf = partial(page.pdf, prefer_css_page_size=True, print_background=True)
    page.evaluate("sheets => sumexpPrint.number(sheets)", page_numbers(pdf()))
    return pdf(outline=True, tagged=True)


def launch(playwright: "Playwright") -> "Browser":
    """Start the Chromium of this machine, or one that Playwright has fetched."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None and not Path(playwright.chromium.executable_path).exists():
        raise BookError(
            "no Chromium here to print the book with; install one: apt-get install chromium (Debian, Ubuntu), "
            "or: python -m playwright install chromium"
        )
    return playwright.chromium.launch(executable_path=found)


def make() -> Path:
    """Print the pages that ``build/html`` has; returns the PDF, which appears whole or not at all."""
    from playwright.sync_api import sync_playwright

    if not (HTML / "index.html").exists():
        raise BookError(f"there are no pages in {HTML} to print; build the book first: make book, or claimbook book")
    with sync_playwright() as playwright, TemporaryDirectory(dir=BUILD, prefix=".pdf-") as folder:
        browser = launch(playwright)
        file, part = Path(folder, "book.html"), Path(folder, PDF.name)
        file.write_text(document(), "utf-8")
        part.write_bytes(printed(browser, file))
        part.replace(PDF)
        browser.close()
    return PDF
