"""Every link and picture of the site leads somewhere in it; ids are unique."""

from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag

from sumexp.companion.build.sources import chapters_of

ROOT = Path(__file__).parents[2]
CHAPTERS = chapters_of(ROOT / "_toc.yml")
Pages = dict[Path, BeautifulSoup]


@pytest.fixture(scope="module")
def pages(html: Path) -> Pages:
    files = [file for file in sorted(html.rglob("*.html")) if "_static" not in file.parts]
    return {file: BeautifulSoup(file.read_text("utf-8"), "html.parser") for file in files}


def attribute(tag: Tag, *names: str) -> str:
    return next((str(tag[name]) for name in names if tag.has_attr(name)), "")


def broken(pages: Pages) -> list[str]:
    """Links from a page to a file that is not there, or to an id that its page does not have."""
    ids = {page: {str(tag["id"]) for tag in soup.find_all(id=True)} for page, soup in pages.items()}
    faults = []
    for page, soup in pages.items():
        for tag in soup.find_all(["a", "link", "script", "img"]):
            target = attribute(tag, "href", "src")
            address, anchor = urldefrag(target)
            if not target or urlsplit(target).scheme:
                continue
            file = (page.parent / unquote(urlsplit(address).path)).resolve() if address else page
            if not file.exists():
                faults.append(f"{page.name}: {target}: no such file")
            elif anchor and file in ids and unquote(anchor) not in ids[file]:
                faults.append(f"{page.name}: {target}: no such id")
    return faults


def test_every_internal_link_resolves(pages: Pages) -> None:
    assert broken(pages) == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.touch()
    text = '<a id="here" href="#there">a</a> <a href="#here">b</a> <img src="gone.png"> <a href="https://x.org/">c</a>'
    faults = broken({page: BeautifulSoup(text, "html.parser")})
    assert faults == ["page.html: #there: no such id", "page.html: gone.png: no such file"]


def test_ids_are_unique_in_an_article(pages: Pages) -> None:
    for page, soup in pages.items():
        counts = Counter(str(tag["id"]) for article in soup.find_all("article") for tag in article.find_all(id=True))
        # sphinx-proof gives every proof without a label these; nothing links to them.
        assert {name for name, count in counts.items() if count > 1} <= {"proof", "proof-content"}, page


def test_no_page_loads_anything_from_another_host(pages: Pages) -> None:
    loads = [
        attribute(tag, "src", "href")
        for soup in pages.values()
        for tag in soup.find_all(["script", "img", "iframe", "link"])
        if tag.name != "link" or "stylesheet" in tag.get_attribute_list("rel")
    ]
    assert [address for address in loads if urlsplit(address).scheme in ("http", "https")] == []
    assert loads


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_page_describes_the_module_of_every_chapter(chapter: str) -> None:
    assert f".. automodule:: sumexp.{chapter}\n" in (ROOT / "book" / "api" / f"{chapter}.md").read_text("utf-8")
