"""The rendered pages in a real browser, opened as files: what a reader sees, in the light, in the dark, on a phone."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest
from playwright.sync_api import Browser

from tests.builds.book.browsing import (
    API,
    CHAPTERS,
    DESKTOP,
    ERRATA,
    JOINED,
    PAGES,
    PATIENCE,
    PHONE,
    TOC,
    Visit,
    axe,
    visit,
)
from tests.builds.book.conftest import CHROMIUM

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")
with_axe = pytest.mark.skipif(axe is None, reason="no axe-core here: install axe-playwright-python")

Seen = Callable[[str], Visit]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of a class looks at each of its pages."""
    if "name" in metafunc.fixturenames and not metafunc.definition.get_closest_marker("parametrize"):
        metafunc.parametrize("name", metafunc.cls.NAMES)


@pytest.fixture(scope="class")
def seen(browser: Browser, html: Path) -> Seen:
    """Visit a page once and keep what was seen."""
    return cache(lambda name: visit(browser, html, name))


class AnyPage:
    """What holds of every page."""

    NAMES: ClassVar[Sequence[str]]

    def test_every_formula_is_typeset(self, seen: Seen, name: str) -> None:
        formulas = seen(name).formulas
        wrong = ("raw", "untypeset", "faulty", "unknown")
        assert {what: formulas[what] for what in wrong} == {what: [] for what in wrong}

    def test_a_page_asks_no_other_host_and_nothing_goes_wrong(self, seen: Seen, name: str) -> None:
        assert Counter(url.split(":")[0] for url in seen(name).requests).keys() <= {"file", "data", "blob"}
        assert seen(name).complaints == []

    def test_a_page_fits_a_phone(self, seen: Seen, name: str) -> None:
        assert seen(name).too_wide == []
        assert seen(name).width <= PHONE["width"]

    @with_axe
    def test_axe_finds_nothing(self, seen: Seen, name: str) -> None:
        assert not any(seen(name).faults.values()), seen(name).faults


class TestChapters(AnyPage):
    NAMES = CHAPTERS


def alone(page: str) -> bool:
    """Whether it is not looked at as part of another."""
    return not any(page in others for others in JOINED.values())


class TestJoinedPages(AnyPage):
    NAMES = tuple(filter(alone, (*API, *ERRATA)))

    def test_all_of_its_pages_are_looked_at(self, seen: Seen, name: str, html: Path) -> None:
        files = [html / f"{page}.html" for page in (name, *JOINED.get(name, ()))]
        articles = [file.read_text("utf-8").partition("<article")[2].partition("</article>")[0] for file in files]
        assert seen(name).formulas["places"] == sum(text.count('class="math ') for text in articles) > 0


class TestOtherPages(AnyPage):
    NAMES = tuple(page for page in PAGES if page not in (*CHAPTERS, *API, *ERRATA))


def test_the_first_page_is_the_introduction(browser: Browser, html: Path) -> None:
    page = browser.new_page(viewport=DESKTOP)
    page.set_default_timeout(PATIENCE)
    page.goto((html / "index.html").as_uri())
    page.wait_for_url(f"**/{TOC['root']}.html")
    page.close()
