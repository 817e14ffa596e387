"""The rendered pages as one document to be printed: in the order of the contents, every link within it."""

import json
import re
from collections.abc import Collection
from html import escape
from importlib.metadata import metadata
from itertools import count
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import urlsplit

import matplotlib
import yaml
from bs4 import BeautifulSoup, Tag
from sphinx_external_toc.api import SiteMap
from sphinx_external_toc.parsing import parse_toc_yaml

import sumexp
from sumexp.companion import CompanionError
from sumexp.companion.pipeline.plan import TOC
from sumexp.companion.pipeline.view import HTML
from sumexp.companion.register import VERDICTS, page

CONFIG = Path("_config.yml")
FONTS = {
    "Book Text": ("STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralItalic.ttf", "STIXGeneralBolIta.ttf"),
    "Book Code": ("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf"),
}
"""Fonts that come with matplotlib, so that the book looks the same wherever it is printed."""
LEFT_OUT = ("book/api",)
"""Pages whose names begin so are not printed: they describe the package, function by function."""
BRIEF = ("book/errata/", "book/results", "book/register")
"""Pages whose names begin so stand in the contents without their sections: pages before them list what these are."""
STYLES = ("pygments.css", "claims.css", "register.css", "custom.css", "print.css")
"""Of the pages' style sheets those that paper needs; the last lays out what the theme does on a screen."""
SCREEN = (
    "script, link, svg:has(> symbol), .headerlink, .claim-cards, .toctree-wrapper, [id$=':register-filters'], "
    "a[download], details.hide, .by-hand, svg.narrow, "
    "section:has(> .register-chapter), .register-claim :is(.note, .about)"
)
"""What a page has for a screen: navigation, what opens or scrolls, code that is folded away, graphs to click in."""

_DRAWING = re.compile(r'(<svg\b[^>]*\bversion="1\.1"[^>]*>)(.*?)(?=</svg>)', re.DOTALL)
"""What matplotlib drew: marks and graphs, which pages draw themselves, have no version."""
_ASIDE = re.compile("\ue000(\\d+)\ue000")
_OWN = re.compile(r'(\sid="|\bhref="#(?!mark-)|\burl\(#)')
_LABELS = re.compile(r'(?<=\saria-labelledby=")[^"]+')
_HEADING = re.compile(r"(?<=<h)[1-5]\b|(?<=</h)[1-5]\b")
_FOLDED_CELL = re.compile(r'\s+in\s*<a\b[^>]*\bhref="#cell-[^"]*"[^>]*>[^<]*</a>')
"""Where a figure's source names the cell that draws it, which is folded away or stands just above."""
_MATHS = re.compile(r"<script>window\.MathJax = .*?</script>", re.DOTALL)


def pages(contents: SiteMap) -> dict[str, str]:
    """The pages that are printed, in their order, each with the title of the part that it begins, if any."""
    printed = [name for name in contents if not name.startswith(LEFT_OUT)]
    begins = {next(filter(printed.__contains__, part.items), ""): part.caption or "" for part in contents.root.subtrees}
    return {name: begins.get(name, "") for name in printed}


def article(html: str, name: str, printed: Collection[str]) -> tuple[str, list[Tag]]:
    """What a page says, for paper, with its headings: its ids bear its name, it stands below the title of a part.

    Args:
        html: the page.
        name: its name, such as ``notebooks/bias``.
        printed: the names of all pages that are printed; a link to another one becomes its text.
    """
    text = html[html.index("<article") : html.rindex("</article>")] + "</article>"
    text = _OWN.sub(rf"\g<1>{name}:", _FOLDED_CELL.sub("", text))
    text = _LABELS.sub(lambda ids: " ".join(f"{name}:{one}" for one in ids[0].split()), text)
    text = _HEADING.sub(lambda level: str(int(level[0]) + 1), text)
    # What pictures are drawn of is most of a page, and takes most of the time to read.
    drawings = [drawing[2] for drawing in _DRAWING.finditer(text)]
    number = count()
    tree = BeautifulSoup(_DRAWING.sub(lambda drawing: f"{drawing[1]}\ue000{next(number)}\ue000", text), "html.parser")
    for tag in tree.select(SCREEN):
        tag.decompose()
    for cell in tree.select(".cell"):
        if not cell.get_text(strip=True) and not cell.find(["svg", "img"]):
            cell.decompose()
    for summary in tree.select("details > summary"):
        summary.name, summary["class"] = "p", "summary"
    for folded in tree.select("details"):
        folded.name = "div"
    for link in tree.select("a[href]"):
        target = resolved(str(link["href"]), name, printed)
        if target is None:
            link.unwrap()
        else:
            link["href"] = target
    tree.select("article")[0]["id"] = name
    whole = _ASIDE.sub(lambda mark: drawings[int(mark[1])], tree.decode(formatter="minimal"))
    return whole, tree.select("h2, h3")


def line(level: int, target: str, title: str) -> str:
    """A line of the table of contents; the place of the page's number is empty, and names what it is the number of.

    Args:
        level: 1 for a part, 2 for a chapter, 3 for a section.
        target: the id that it leads to.
        title: as HTML.
    """
    return (
        f'<li class="level-{level}"><a href="#{target}"><span class="entry">{title}</span>'
        f'<span class="number" data-target="{target}"></span></a></li>'
    )


def resolved(href: str, name: str, printed: Collection[str]) -> str | None:
    """Where a page's link leads in the joined document; ``None`` if to a page that it lacks."""
    address = urlsplit(href)
    if address.scheme or address.netloc or not address.path:
        return href
    target = normpath(join(dirname(name), address.path)).removesuffix(".html")
    return f"#{target}:{address.fragment}".removesuffix(":") if target in printed else None


def dangling(html: str) -> list[str]:
    """Links of a document that lead nowhere in it."""
    ids = set(re.findall(r'\sid="([^"]*)"', html))
    return sorted({f"#{target}" for target in re.findall(r'<a\b[^>]*\shref="#([^"]*)"', html) if target not in ids})


def running_head(number: int, name: str, title: str, book: str) -> str:
    """A style sheet that gives a page of the book a kind of sheet, with the chapter's title at its head."""
    left, right = (json.dumps(text, ensure_ascii=False) for text in (book, title if title != book else ""))
    return (
        f"@page sheet-{number} {{ @top-left {{ content: {left}; }} @top-right {{ content: {right}; }} }}\n"
        f'article[id="{name}"] {{ page: sheet-{number}; }}'
    )


def front(title: str, author: str, year: str, version: str) -> str:
    """The title page: what the book is, what its marks mean, and what of its pages is not printed.

    Args:
        title: of the book, with a subtitle after a colon.
        author: whose it is.
        year: when it was written.
        version: of the package.
    """
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


def font_faces(folder: Path) -> str:
    """A style sheet that names the fonts of a folder as ``print.css`` does."""
    styles = ("", "font-weight: bold;", "font-style: italic;", "font-weight: bold; font-style: italic;")
    return "\n".join(
        f'@font-face {{ font-family: "{family}"; src: url("{(folder / file).resolve().as_uri()}"); {style} }}'
        for family, files in FONTS.items()
        for file, style in zip(files, styles, strict=False)
    )


def document() -> str:
    """The pages that ``build/html`` has as one HTML document.

    Raises:
        CompanionError: if a page is not rendered, or a link within the book leads nowhere.
    """
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    listed, title = pages(parse_toc_yaml(TOC)), config["title"]
    if absent := [name for name in listed if not (HTML / f"{name}.html").exists()]:
        raise CompanionError(f"{HTML} lacks {', '.join(absent)}; build the book anew: make book, or sumexp book")
    lines: list[str] = []
    styles = [font_faces(Path(matplotlib.get_data_path(), "fonts", "ttf"))]
    body: list[str] = []
    for number, (name, part) in enumerate(listed.items()):
        html, headings = article((HTML / f"{name}.html").read_text("utf-8"), name, listed)
        styles.append(running_head(number, name, headings[0].get_text(), title))
        if part:
            lines.append(line(1, f"part-{number}", escape(part)))
            html = html.replace(">", f'><h1 id="part-{number}">{escape(part)}</h1>', 1)
        for heading in headings[:1] if name.startswith(BRIEF) else headings:
            section = heading.find_parent("section", id=True)
            target = str(section["id"]) if section and heading is not headings[0] else name
            lines.append(line(int(heading.name[1]), target, heading.decode_contents().strip()))
        body.append(html)
    contents = '<nav class="contents" aria-label="Contents"><div class="contents-title">Contents</div><ol>'
    text = "\n".join((contents, *lines, "</ol></nav>", *body))
    if lost := dangling(text):
        raise CompanionError(f"links of the book that lead nowhere once its pages are joined: {', '.join(lost)}")
    static = (HTML / "_static").resolve().as_uri()
    maths = _MATHS.search((HTML / f"{next(iter(listed))}.html").read_text("utf-8"))
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en" data-theme="light"><head><meta charset="utf-8">',
            f"<title>{escape(title)}</title>",
            *(f'<link rel="stylesheet" href="{static}/{name}">' for name in STYLES),
            *("<style>", *styles, "</style>"),
            maths[0] if maths else "",
            f'<script src="{static}/print.js"></script>',
            f'<script defer src="{static}/mathjax/startup.js"></script>' if maths else "",
            f"</head>\n<body>\n{page.symbols()}",
            front(metadata("sumexp")["Summary"], config["author"], config["copyright"], sumexp.__version__),
            f"{text}</body></html>\n",
        )
    )
