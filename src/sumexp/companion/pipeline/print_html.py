"""The rendered pages as one document to be printed: in the order of the contents, every link within it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag

from sumexp.companion import CompanionError
from sumexp.companion.register.page import symbols

LEFT_OUT = ("book/api",)
"""Pages whose names begin so are not printed: they describe the package, function by function."""
BRIEF = ("book/errata/", "book/glance", "book/register")
"""Pages whose names begin so stand in the contents without their sections: pages before them list what these are."""
STYLES = ("pygments.css", "claims.css", "register.css", "custom.css", "print.css")
"""Of the pages' style sheets those that paper needs; the last lays out what the theme does on a screen."""
SCREEN = (
    "script, link, svg:has(> symbol), .headerlink, .claim-cards, .toctree-wrapper, #register-filters, a[download], "
    "details.hide, .by-hand, section:has(> .register-chapter), .register-claim :is(.note, .about)"
)
"""What a page has for a screen: navigation, what opens or scrolls, code that is folded away, graphs to click in."""

_DRAWING = re.compile(r'(<svg\b[^>]*\bversion="1\.1"[^>]*>)(.*?)(?=</svg>)', re.DOTALL)
"""What matplotlib drew: marks and graphs, which pages draw themselves, have no version."""
_OWN = re.compile(r"""(\bid="|\bhref="#|\burl\(#)""")
_ASIDE = re.compile("\ue000(\\d+)\ue000")
_CELL = re.compile(r"\s+in\s*$")
_TYPESETTING = """<script>
// MathJax would write each formula a second time, for screen readers, beside its picture.
window.MathJax.options = { ...window.MathJax.options, enableAssistiveMml: false };
</script>"""
_MATHS = re.compile(r"<script>window\.MathJax = .*?</script>", re.DOTALL)


@dataclass(frozen=True)
class Part:
    """Pages under one title; what stands before the first part has none."""

    title: str
    pages: tuple[str, ...]


def parts(contents: Mapping[str, Any]) -> list[Part]:
    """The parts of the printed book.

    Args:
        contents: what ``_toc.yml`` says.
    """
    found = contents.get("parts", [{"chapters": contents.get("chapters", ())}])
    listed = [Part(one.get("caption", ""), tuple(_files(one["chapters"]))) for one in found]
    return [Part("", (contents["root"],)), *listed]


def _files(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for entry in entries:
        if not entry["file"].startswith(LEFT_OUT):
            yield entry["file"]
            yield from _files(entry.get("sections", ()))


def article(html: str, page: str, drawings: list[str]) -> Tag:
    """What a page says, without the theme around it, and a mark where a picture was drawn.

    Args:
        html: the page.
        page: its name.
        drawings: gets what pictures are drawn of, most of a page, which nothing here looks at; its ids are those that
            `anchored` would give.
    """
    start, end = html.index("<article"), html.rindex("</article>") + len("</article>")

    def aside(found: re.Match[str]) -> str:
        drawings.append(_OWN.sub(rf"\g<1>{page}:", found[2]))
        return f"{found[1]}\ue000{len(drawings) - 1}\ue000"

    found = BeautifulSoup(_DRAWING.sub(aside, html[start:end]), "html.parser").article
    assert found is not None
    return found


def for_paper(text: Tag) -> Tag:
    """Take away what is for a screen, and open what is folded; returns the same element."""
    for tag in text.select(SCREEN):
        tag.decompose()
    for cell in text.select(".cell"):
        if not cell.get_text(strip=True) and not cell.find(["svg", "img"]):
            cell.decompose()
    for link in text.select('.figure-source a[href^="#cell-"]'):  # which is folded away, or stands just above
        before = link.previous_sibling
        if before is not None:
            before.replace_with(_CELL.sub("", str(before)))
        link.decompose()
    for folded in text.select("details"):
        folded.name = "div"
        folded.attrs.pop("open", None)
        summary = folded.find("summary", recursive=False)
        if isinstance(summary, Tag):
            summary.name, summary["class"] = "p", "summary"
    for tag in text.select("[tabindex]"):
        del tag["tabindex"]
    for tag in text.select("[aria-describedby]"):
        del tag["aria-describedby"]
    return text


def lowered(text: Tag) -> Tag:
    """Move headings one level down, as chapters stand below the title of their part; returns the same element."""
    for heading in text.select("h1, h2, h3, h4, h5"):
        heading.name = f"h{int(heading.name[1]) + 1}"
    return text


def anchored(text: Tag, page: str, pages: Sequence[str]) -> Tag:
    """Make ids unique in the book, and let links between its pages lead to them; returns the same element.

    A link to a page that is not printed becomes its text.

    Args:
        text: the article; its own id becomes the page's name.
        page: its name, such as ``notebooks/bias``.
        pages: the names of all pages that are printed.
    """
    for tag in text.find_all(True):
        for name, value in list(tag.attrs.items()):
            if name == "id":
                tag["id"] = f"{page}:{value}"
            elif name == "href" and tag.name != "a" and not str(value).startswith(("#mark-", "data:")):
                tag["href"] = str(value).replace("#", f"#{page}:", 1)
            elif name == "aria-labelledby":
                tag[name] = " ".join(f"{page}:{one}" for one in str(value).split())
            elif isinstance(value, str) and "url(#" in value:
                tag[name] = value.replace("url(#", f"url(#{page}:")
    for link in text.select("a[href]"):
        target = resolved(str(link["href"]), page, pages)
        if target is None:
            link.unwrap()
        else:
            link["href"] = target
    text["id"] = page
    return text


def resolved(href: str, page: str, pages: Sequence[str]) -> str | None:
    """Where a page's link leads in the joined document; ``None`` if to a page that it lacks."""
    parts_of = urlsplit(href)
    if parts_of.scheme or parts_of.netloc:
        return href
    path = normpath(join(dirname(page), parts_of.path)).removesuffix(".html") if parts_of.path else page
    if path not in pages:
        return None
    return f"#{path}:{parts_of.fragment}" if parts_of.fragment else f"#{path}"


def dangling(texts: Sequence[Tag]) -> list[str]:
    """Links among articles that lead nowhere."""
    ids = {str(tag["id"]) for text in texts for tag in (text, *text.select("[id]"))}
    links = {str(tag["href"]) for text in texts for tag in text.select('a[href^="#"]')}
    return sorted(link for link in links if link[1:] not in ids)


@dataclass(frozen=True)
class Heading:
    """A line of the contents.

    Attributes:
        level: 1 for a part, 2 for a chapter, 3 for a section.
        target: the id that it leads to.
        title: as HTML.
    """

    level: int
    target: str
    title: str


def headings(text: Tag) -> list[Heading]:
    """The titles of a page and of its sections, from headings that `lowered` has moved and `anchored` has named."""
    found = []
    for heading in text.select("h2, h3"):
        place = heading if heading.has_attr("id") else heading.find_parent(["section", "article"], id=True)
        if place is not None:
            target = str(text["id"]) if heading.name == "h2" else str(place["id"])
            found.append(Heading(int(heading.name[1]), target, heading.decode_contents().strip()))
    return found


def plain(title: str) -> str:
    """The text of a title that is HTML."""
    return BeautifulSoup(title, "html.parser").get_text()


def contents(lines: Sequence[Heading]) -> str:
    """The table of contents; the place of each page's number is empty, and names what it is the number of."""
    entries = "\n".join(
        f'<li class="level-{line.level}"><a href="#{escape(line.target)}"><span class="entry">{line.title}</span>'
        f'<span class="number" data-target="{escape(line.target)}"></span></a></li>'
        for line in lines
    )
    title = '<div class="contents-title">Contents</div>'
    return f'<nav class="contents" aria-label="Contents">{title}<ol>{entries}</ol></nav>'


def running_heads(titles: Mapping[str, str], book: str) -> str:
    """A style sheet that gives each page of the book a kind of sheet, with the chapter's title at its head.

    Args:
        titles: of the pages.
        book: the book's title.
    """
    rules = []
    for number, (page, title) in enumerate(titles.items()):
        left, right = (json.dumps(text, ensure_ascii=False) for text in (book, title if title != book else ""))
        rules.append(
            f"@page sheet-{number} {{ @top-left {{ content: {left}; }} @top-right {{ content: {right}; }} }}\n"
            f'article[id="{page}"] {{ page: sheet-{number}; }}'
        )
    return "\n".join(rules)


def joined(html: Path, listed: Sequence[Part], title: str, front: str, style: str) -> str:
    """The whole book as one HTML document.

    Args:
        html: the folder of the rendered pages.
        listed: the book's parts.
        title: the book's.
        front: the title page, as HTML.
        style: a style sheet beside those of the pages.

    Raises:
        CompanionError: if a page is not rendered, or a link within the book leads nowhere.
    """
    pages = [page for part in listed for page in part.pages]
    if absent := [page for page in pages if not (html / f"{page}.html").exists()]:
        raise CompanionError(f"{html} lacks {', '.join(absent)}; build the book anew: make book, or sumexp book")
    lines: list[Heading] = []
    titles: dict[str, str] = {}
    body: list[Tag] = []
    drawings: list[str] = []
    for number, part in enumerate(listed):
        if part.title:
            lines.append(Heading(1, f"part-{number}", escape(part.title)))
        for page in part.pages:
            text = article((html / f"{page}.html").read_text("utf-8"), page, drawings)
            text = anchored(lowered(for_paper(text)), page, pages)
            found = headings(text)
            lines += found[:1] if page.startswith(BRIEF) else found
            titles[page] = plain(found[0].title)
            if part.title and page == part.pages[0]:
                opening = BeautifulSoup(f'<h1 id="part-{number}">{escape(part.title)}</h1>', "html.parser")
                text.insert(0, opening)
            body.append(text)
    if lost := dangling(body):
        raise CompanionError(f"links of the book that lead nowhere once its pages are joined: {', '.join(lost)}")
    maths = _MATHS.search((html / f"{pages[0]}.html").read_text("utf-8"))
    static = (html / "_static").resolve().as_uri()
    styles = (f'<link rel="stylesheet" href="{static}/{name}">' for name in STYLES)
    texts = (_ASIDE.sub(lambda mark: drawings[int(mark[1])], text.decode(formatter="minimal")) for text in body)
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en" data-theme="light"><head><meta charset="utf-8">',
            f"<title>{escape(title)}</title>",
            *styles,
            f"<style>\n{style}\n{running_heads(titles, title)}\n</style>",
            *((maths[0], _TYPESETTING, f'<script defer src="{static}/mathjax/startup.js"></script>') if maths else ()),
            f"</head>\n<body>\n{symbols()}\n{front}\n{contents(lines)}",
            *texts,
            "</body></html>\n",
        )
    )
