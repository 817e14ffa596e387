"""The book as a reader gets it: built once, at profile smoke and without any data set, in a copy of the project."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sumexp.companion.build import chapters_of

ROOT = Path(__file__).parents[2]
CHAPTERS = chapters_of(ROOT / "_toc.yml")
SOURCES = (
    "_config.yml",
    "_toc.yml",
    "Snakefile",
    "constraints.txt",
    "book",
    "notebooks",
    "claims",
    "benchmarks",
    "tests",
)


def step(project: Path, *arguments: str) -> None:
    """Run one step of the build in a project, without data or earlier runs, so that it is the same everywhere."""
    environment = {name: value for name, value in os.environ.items() if name not in ("SUMEXP_DATA", "SUMEXP_DRIVER")}
    nothing = project / "nothing"
    environment |= {"XDG_CACHE_HOME": str(nothing), "SUMEXP_RUNS": str(nothing / "runs"), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "sumexp.companion.build", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with every notebook executed."""
    place = tmp_path_factory.mktemp("project")
    for name in SOURCES:
        _copy(ROOT / name, place / name)
    for chapter in CHAPTERS:
        step(place, "notebook", "smoke", "cpu", "", chapter)
    return place


@pytest.fixture(scope="session")
def html(project: Path) -> Path:
    """The folder of the rendered pages."""
    step(project, "html", "smoke", "cpu", "")
    return project / "build" / "html"
