"""The book as a reader gets it: built once, at profile smoke and without any data set, in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from filelock import FileLock
from playwright.sync_api import Browser, Playwright, sync_playwright

from sumexp.companion.pipeline.inputs import chapters_of
from sumexp.companion.store import default

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
"""The first is the same browser without its own windows, which take a sixth of the time."""
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
OPTIONS = [*QUIET.split(), "--disable-component-update", "--disable-sync"]
BUILDS, LONGEST = "test_the_book_is_built", ("test_pages.py", "test_pdf.py")
CHAPTERS = chapters_of(ROOT / "_toc.yml")
EXECUTE = """
import os
from sumexp.companion.pipeline import book, plan, workflow

made, machines = plan.make("smoke", "cpu", ""), workflow.Machines(os.cpu_count())  # the other workers wait
made.write(plan.PLAN)
book.execute(made, machines)
book.build("smoke", "cpu", "", machines, stored=True)
"""
SOURCES = (
    "_config.yml",
    "_toc.yml",
    "constraints.txt",
    "book",
    "notebooks",
    "claims",
    "benchmarks",
    "tests",
    "workflow",
)


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
        return HERE in item.path.parents and "project" in getattr(item, "fixturenames", ())

    late = {item.path for item in items if reads(item)}  # whole modules: a worker has all tests of one

    def turn(item: pytest.Item) -> int:
        if item.path not in late:
            return 1
        return 0 if item.name == BUILDS else 2 if item.path.name in LONGEST else 3

    items.sort(key=turn)


def sumexp(project: Path, *arguments: str) -> None:
    """Run Python in a project, without data, so that it is the same everywhere, and with the user's store."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUMEXP_")}
    environment |= {"XDG_CACHE_HOME": str(project / "cache"), "PYTHONHASHSEED": "0"}
    environment["SUMEXP_STORE"] = str(default().root)  # what another build has executed is not executed again
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def _build(place: Path) -> None:
    """Execute every notebook, then render: without the tests that decide claims, which run as tests."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name in SOURCES:
        _copy(ROOT / name, place / name)
    sumexp(place, "-c", EXECUTE)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, built; workers that run side by side share it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    place, finished = shared / "project", shared / "project-is-built"
    with FileLock(shared / "project.lock"):
        if not finished.exists():
            _build(place)
            finished.touch()
    return place


@pytest.fixture(scope="session")
def html(project: Path) -> Path:
    """The folder of the rendered pages."""
    return project / "build" / "html"


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
