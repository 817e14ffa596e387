"""The book as a reader gets it: its notebooks executed as for all tests (`tests/executed.py`), rendered once."""

import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Playwright, sync_playwright

from claimbook.pipeline.plan import chapters_of
from tests.executed import ROOT, once, run

HERE = Path(__file__).parent
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
"""The first is the same browser without its own windows, which take a sixth of the time."""
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
OPTIONS = [*QUIET.split(), "--disable-component-update", "--disable-sync"]
BUILDS, LONGEST = "test_the_book_is_built", "test_pages.py"
CHAPTERS = chapters_of(ROOT / "_toc.yml")
RENDER = """
import os
from claimbook.pipeline import book

book.build("smoke", "cpu", "", os.cpu_count(), stored="partial")
"""


_DRAWING = re.compile(r"(<svg\b[^>]*>).*?(?=</svg>)", re.DOTALL)


def tree(text: str) -> BeautifulSoup:
    """A page without what its pictures are drawn of, which is most of it and takes most of the time to read."""
    return BeautifulSoup(_DRAWING.sub(r"\1", text), "html.parser")


@cache
def tree_of(file: Path) -> BeautifulSoup:
    """The same of a page that several tests look at."""
    return tree(file.read_text("utf-8"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The book is built first, by one worker, and read last: so that no other worker waits for it.

    What takes longest comes first, so that no worker is left with it at the end.
    """

    def reads(item: pytest.Item) -> bool:
        return HERE in item.path.parents and "executed_book" in getattr(item, "fixturenames", ())

    late = {item.path for item in items if reads(item)}  # whole modules: a worker has all tests of one

    def turn(item: pytest.Item) -> int:
        if item.path not in late:
            return 1
        return 0 if item.name == BUILDS else 2 if item.path.name == LONGEST else 3

    items.sort(key=turn)


@pytest.fixture(scope="session")
def html(executed_book: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the rendered pages, without the tests that decide claims, which run as tests."""
    return once(tmp_path_factory, "rendered", lambda place: run(place, "-c", RENDER)) / "build" / "html"


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """One for all pages: a second one beside it is refused."""
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """One for all pages."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
    yield browser
    browser.close()
