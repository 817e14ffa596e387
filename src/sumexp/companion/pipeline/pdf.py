"""The book on paper, ``build/sumexp.pdf``: the pages, joined, printed by Chromium.

It prints twice: once to learn on which sheet each section begins, and once more with these numbers in the contents.
"""

import re
import shutil
from html import escape
from importlib.metadata import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sumexp.companion import CompanionError
from sumexp.companion.pipeline.plan import BUILD, TOC
from sumexp.companion.pipeline.view import HTML

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

PDF = BUILD / "sumexp.pdf"
CONFIG = Path("_config.yml")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH = 597
"""Of a sheet between its margins, in CSS pixels: ``--width`` of ``print.css``."""
SHEET = 794
"""With its margins: the width that styles ask about on paper (``@media (min-width: ...)``)."""
HEIGHT = 933
"""Of a sheet between its margins, in CSS pixels."""
FONTS = {
    "Book Text": ("STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralItalic.ttf", "STIXGeneralBolIta.ttf"),
    "Book Code": ("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf"),
}
"""Fonts that come with matplotlib, so that the book looks the same wherever it is printed."""

_OBJECT = re.compile(rb"^(\d+) 0 obj\n(.*?)\nendobj$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(rb"/([^\s/\[\]<>()]+) \[(\d+) 0 R /XYZ")
_DATE = re.compile(rb"/(?:CreationDate|ModDate) \([^)]*\)")
_ESCAPED = re.compile(rb"#([0-9A-Fa-f]{2})")

TYPESET = """async () => {
    await window.MathJax?.startup.promise;
    await document.fonts.ready;
    // A reader who listens hears a formula as it was written.
    for (const formula of window.MathJax?.startup.document.math ?? []) {
        const drawn = formula.typesetRoot.querySelector('svg');
        drawn.removeAttribute('aria-hidden');
        drawn.setAttribute('aria-label', formula.math);
    }
}"""
FIT = """() => {
    // What is wider than the place where it stands is drawn smaller: paper does not scroll. Lines of code that could
    // not be read then are broken instead.
    const wide = [], LEAST = 0.75;
    document.body.classList.add('measured');
    for (const pre of document.querySelectorAll('pre')) {
        const scale = pre.clientWidth / (pre.scrollWidth + 1 + parseFloat(getComputedStyle(pre).paddingRight));
        if (pre.scrollWidth > pre.clientWidth && scale > LEAST) wide.push([pre, scale]);
    }
    document.body.classList.remove('measured');
    for (const one of document.querySelectorAll('mjx-container, table')) {
        const place = one.parentElement.closest('p, li, dd, td, th, figcaption, div, section');
        if (!place) continue;
        const { paddingLeft, paddingRight } = getComputedStyle(place);
        const room = place.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
        const width = (one.querySelector(':scope > svg') ?? one).getBoundingClientRect().width;
        if (width > room + 0.5) wide.push([one, room / width]);
    }
    for (const [one, scale] of wide) one.style.zoom = scale;
    return wide.length;
}"""
FLOAT = """height => {
    // A figure that no longer fits on its sheet would leave the rest of it white: text that follows goes there first.
    // On which sheet a thing will lie is estimated; where that is wrong a figure stands a paragraph later, no more.
    const WHOLE = 'h3, h4, h5, .sumexp-figure, .cell_input, .cell_output .output:not(:has(.sumexp-figure)), tr, ' +
        'div.math, .admonition:is(.exercise, .theorem, .definition, .corollary, .lemma, .proposition)';
    const TEXT = 'p, ul, ol, div.math';
    const alone = (figure) => {
        const cell = figure.closest('.cell');
        return cell && cell.querySelector('.cell_input') ? null : cell ?? figure;
    };
    let moved = 0;
    for (const article of document.querySelectorAll('article')) {
        const top = article.getBoundingClientRect().top;
        let white = 0, end = 0;
        const left = (one) => height - (one.getBoundingClientRect().top - top + white) % height;
        for (const one of [...article.querySelectorAll(WHOLE)]) {
            if (one.getBoundingClientRect().bottom <= end) continue;  // within one that was looked at
            const more = /^H/.test(one.tagName) ? 60 : 0;  // two lines below a heading
            const needs = () => Math.min(height, one.getBoundingClientRect().height + more);
            const block = one.matches('.sumexp-figure') ? alone(one) : null;
            while (block && needs() > left(one) && block.nextElementSibling?.matches(TEXT) &&
                   block.nextElementSibling.getBoundingClientRect().height < left(one)) {
                block.before(block.nextElementSibling);
                moved += 1;
            }
            if (needs() > left(one)) white += left(one);
            end = one.getBoundingClientRect().bottom;
        }
    }
    return moved;
}"""
BLANK = """() => {
    // Taken out, not hidden: the browser works out styles of what is hidden, too.
    window.drawn = new Map();
    for (const svg of document.querySelectorAll('svg:not(svg svg, :has(symbol))')) {
        const parts = document.createDocumentFragment();
        parts.append(...svg.childNodes);
        drawn.set(svg, parts);
    }
}"""
DRAW = """() => {
    for (const [svg, parts] of drawn) svg.append(parts);
}"""
NUMBER = """numbers => {
    for (const place of document.querySelectorAll('[data-target]')) place.textContent = numbers[place.dataset.target];
}"""


def page_numbers(pdf: bytes) -> dict[str, int]:
    """On which page each named place lies, counted from 1.

    Reads the objects as Chromium writes them: each by itself, none compressed but streams.
    """
    objects = {int(found[1]): found[2] for found in _OBJECT.finditer(pdf)}
    catalog = next(text for text in objects.values() if b"/Type /Catalog" in text)

    def leaves(number: int) -> list[int]:
        kids = re.search(rb"/Kids \[([^\]]*)\]", objects[number])
        return [leaf for kid in re.findall(rb"(\d+) 0 R", kids[1]) for leaf in leaves(int(kid))] if kids else [number]

    def referred(name: bytes) -> int:
        found = re.search(rb"/%b (\d+) 0 R" % name, catalog)
        if found is None:
            raise ValueError(f"the PDF's catalog has no {name.decode()}")
        return int(found[1])

    order = {leaf: place for place, leaf in enumerate(leaves(referred(b"Pages")), 1)}
    named = _NAMED.findall(objects[referred(b"Dests")])
    return {_ESCAPED.sub(lambda m: bytes([int(m[1], 16)]), name).decode(): order[int(page)] for name, page in named}


def undated(pdf: bytes) -> bytes:
    """The same PDF without the time at which it was made; blanks keep every object where the table says it is."""
    return _DATE.sub(lambda found: b" " * len(found[0]), pdf)


def font_faces(folder: Path) -> str:
    """A style sheet that names the fonts of a folder as ``print.css`` does."""
    styles = ("", "font-weight: bold;", "font-style: italic;", "font-weight: bold; font-style: italic;")
    return "\n".join(
        f'@font-face {{ font-family: "{family}"; src: url("{(folder / file).resolve().as_uri()}"); {style} }}'
        for family, files in FONTS.items()
        for file, style in zip(files, styles, strict=False)
    )


def front(title: str, author: str, year: str, version: str) -> str:
    """The title page: what the book is, what its marks mean, and what of its pages is not printed.

    Args:
        title: of the book, with a subtitle after a colon.
        author: whose it is.
        year: when it was written.
        version: of the package.
    """
    from sumexp.companion.register import VERDICTS, page

    name, _, subtitle = title.partition(": ")
    return (
        f'<div class="title-page"><div class="book-title">{escape(name)}</div>'
        f'<div class="book-subtitle">{escape(subtitle[:1].upper() + subtitle[1:])}</div>'
        f'<div class="book-authors">{escape(author)}<br>Version {escape(version)}, {escape(year)}</div>'
        f'<div class="book-about"><p>{"".join(map(page.badge, VERDICTS))}</p>'
        "<p>These marks stand at words whose claim was checked, and lead to its entry in the register, near the end. "
        "Figures, theorems and exercises are numbered within a chapter; solutions stand below their exercises.</p>"
        "<p>This is the printed form of the book’s pages. Not printed are: the description of the package’s functions; "
        "code that the pages fold away, which loads, draws and keeps the books; "
        "and of the register the notes, tests and graphs.</p></div></div>"
    )


def document() -> str:
    """The pages that ``build/html`` has as one HTML document, which `lay_out` opens.

    Raises:
        CompanionError: if a page is not rendered, or a link within the book leads nowhere.
    """
    import matplotlib
    import yaml

    import sumexp
    from sumexp.companion.pipeline import print_html

    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    fonts = font_faces(Path(matplotlib.get_data_path(), "fonts", "ttf"))
    cover = front(metadata("sumexp")["Summary"], config["author"], config["copyright"], sumexp.__version__)
    listed = print_html.parts(yaml.safe_load(TOC.read_text("utf-8")))
    return print_html.joined(HTML, listed, config["title"], cover, fonts)


def lay_out(browser: "Browser", file: Path) -> "Page":
    """Open a document as on sheets of paper, formulas typeset, all as wide as its place, figures where they fit."""
    page = browser.new_page(viewport={"width": SHEET, "height": SHEET})
    page.set_default_timeout(0)  # hundreds of sheets take their time on a slow machine
    page.emulate_media(media="print", color_scheme="light")
    page.goto(file.resolve().as_uri())
    page.evaluate(TYPESET)
    page.evaluate(FIT)
    page.evaluate(FLOAT, HEIGHT)
    return page


def printed(page: "Page") -> bytes:
    """A document laid out as PDF: with bookmarks, and with numbers of sheets where it asks for them.

    Each element with ``data-target`` is given the number of the sheet where that id lies.
    """
    page.evaluate(BLANK)  # pictures keep their places, which say on which sheet all others are
    page.evaluate(NUMBER, page_numbers(_pdf(page, final=False)))
    page.evaluate(DRAW)
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

    if not (HTML / "index.html").exists():
        raise CompanionError(f"there are no pages in {HTML} to print; build the book first: make book, or sumexp book")
    with sync_playwright() as playwright, TemporaryDirectory(dir=BUILD, prefix=".pdf-") as folder:
        browser = launch(playwright)
        file, part = Path(folder, "book.html"), Path(folder, PDF.name)
        file.write_text(document(), "utf-8")
        part.write_bytes(printed(lay_out(browser, file)))
        part.replace(PDF)
        browser.close()
    return PDF
