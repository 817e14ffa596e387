"""Every link and picture of the site leads somewhere in it; ids are unique."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

import sumexp
from claimbook.pipeline.plan import chapters_of

ROOT = Path(__file__).parents[3]
CHAPTERS = chapters_of(ROOT / "_toc.yml")
LINKING = ("a", "link", "script", "img", "iframe")
OTHERS = re.compile(rf"<(?!/?(?:{'|'.join(LINKING)}|article)\b)(?![^>]*\sid=)[^>]*>")
"""Tags of which nothing is asked: nine in ten, most of them in code and drawings."""
Tag = tuple[str, dict[str, str]]


class Markup(HTMLParser):
    """What a page links to and loads, and its ids, read without making a tree of all its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.linking: list[Tag] = []
        self.ids: set[str] = set()
        self.within: list[str] = []
        """The ids in its articles."""
        self._depth = 0
        self.feed(OTHERS.sub("", text))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag in LINKING:
            self.linking.append((tag, attributes))
        if "id" in attributes:
            self.ids.add(attributes["id"])
            if self._depth:
                self.within.append(attributes["id"])
        self._depth += tag == "article"

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "article"


Pages = dict[Path, Markup]


@pytest.fixture(scope="module")
def pages(html: Path) -> Pages:
    files = [file for file in sorted(html.rglob("*.html")) if "_static" not in file.parts]
    return {file: Markup(file.read_text("utf-8")) for file in files}


def attribute(tag: Tag, *names: str) -> str:
    return next((tag[1][name] for name in names if name in tag[1]), "")


def broken(pages: Pages) -> list[str]:
    """Links from a page to a file that is not there, or to an id that its page does not have."""
    faults = []
    for page, markup in pages.items():
        for tag in markup.linking:
            target = attribute(tag, "href", "src")
            address, anchor = urldefrag(target)
            if not target or urlsplit(target).scheme:
                continue
            file = (page.parent / unquote(urlsplit(address).path)).resolve() if address else page
            if not file.exists():
                faults.append(f"{page.name}: {target}: no such file")
            elif anchor and file in pages and unquote(anchor) not in pages[file].ids:
                faults.append(f"{page.name}: {target}: no such id")
    return faults


def test_every_internal_link_resolves(pages: Pages) -> None:
    assert broken(pages) == []


def test_ids_are_unique_in_an_article(pages: Pages) -> None:
    assert any(markup.within for markup in pages.values())
    for page, markup in pages.items():
        counts = Counter(markup.within)
        assert {name for name, count in counts.items() if count > 1} == set(), page


def test_no_page_loads_anything_from_another_host(pages: Pages) -> None:
    loads = [
        attribute(tag, "src", "href")
        for markup in pages.values()
        for tag in markup.linking
        if tag[0] != "a" and (tag[0] != "link" or "stylesheet" in attribute(tag, "rel").split())
    ]
    assert [address for address in loads if urlsplit(address).scheme in ("http", "https")] == []
    assert loads


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_page_describes_the_module_of_every_chapter(chapter: str) -> None:
    module = chapter if chapter in sumexp.__all__ else f"chapters.{chapter}"
    assert f".. automodule:: sumexp.{module}\n" in (ROOT / "book" / "api" / f"{chapter}.md").read_text("utf-8")
