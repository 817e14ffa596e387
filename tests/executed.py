"""The notebooks, executed once for all tests: at profile smoke and without any data set, in a copy of the project."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from claimbook.store import default

ROOT = Path(__file__).parents[1]
EXECUTE = """
import os
import sys
from claimbook.pipeline import book, pages, plan, staging
from claimbook.store.entries import write_text

made = plan.make("smoke", "cpu", sys.argv[1])
write_text(plan.PLAN, made.model_dump_json())
book.execute(made, os.cpu_count())  # the other workers wait
shown = pages.stored(made.notebooks)
pages.show_executed(shown)
for name, entry in shown.items():
    staging.chapter(name, entry)  # has the words that it guards
"""
SOURCES = ("_config.yml", "_toc.yml", "constraints.txt", "book", "notebooks", "claims", "benchmarks", "tests")


def run(project: Path, *arguments: str) -> None:
    """Run Python in a project, without data, so that it is the same everywhere, and with the user's store."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUMEXP_")}
    environment |= {"XDG_CACHE_HOME": str(project / "cache"), "PYTHONHASHSEED": "0"}
    environment["SUMEXP_STORE"] = str(default().root)  # what another build has executed is not executed again
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that one worker makes and all share; one left half done is made anew."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    place, finished = shared / "book", shared / f"{name}.finished"
    with FileLock(shared / f"{name}.lock"):
        if not finished.exists():
            make(place)
            finished.touch()
    return place


def _execute(place: Path, chapters: str) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, place / name)
    run(place, "-c", EXECUTE, chapters)


@pytest.fixture(scope="session")
def executed_book(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose notebooks are executed, those that the selected tests read."""
    chapters = " ".join(_chapters(request.session.items))
    return once(tmp_path_factory, "executed", lambda place: _execute(place, chapters))


def _chapters(items: list[pytest.Item]) -> set[str]:
    """The chapters that tests read; none if a test reads the whole book."""
    waiting = [item for item in items if _waits(item)]
    read = {item.callspec.params.get("chapter", "") if hasattr(item, "callspec") else "" for item in waiting}
    return set() if "" in read or any("html" in item.fixturenames for item in waiting) else read


def _waits(item: pytest.Item) -> bool:
    return "executed_book" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for the notebooks comes first: one worker executes them while the others go on."""
    items.sort(key=lambda item: not _waits(item))
