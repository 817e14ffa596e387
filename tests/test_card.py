"""The project's card: the packages and the folders that it is to be made of, each with its work."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
WORK = {
    "jupyter-book": ("src/claimbook/pipeline/rendering.py", "from jupyter_book.sphinx import build_sphinx"),
    "jupytext": ("src/claimbook/pipeline/notebooks.py", "jupytext.read("),
    "matplotlib": ("src/claimbook/authoring/figures.py", "import matplotlib.pyplot as plt"),
    "numpy": ("src/sumexp/audit/_bins.py", "import numpy as np"),
    "papermill": ("src/claimbook/pipeline/notebooks.py", "papermill.execute_notebook("),
    "pytest-notebook": ("tests/builds/book/test_notebooks_elsewhere.py", "nb_regression.check("),
    "torch": ("src/sumexp/functional/_sampled.py", "import torch"),
}
"""A package's file and the line there that needs it: configures the pages, reads sources, draws, counts, executes,
executes elsewhere and compares, computes losses."""


@pytest.mark.parametrize("package", WORK)
def test_a_package_is_declared_pinned_and_at_work(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    assert package in {Requirement(line).name for lines in lists for line in lines}
    assert re.search(rf"(?m)^{package}==\S+$", (ROOT / "constraints.txt").read_text("utf-8"))
    file, line = WORK[package]
    assert line in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize("name", ["book", "_config.yml", "_toc.yml", "src", "notebooks", "tests", "environment.yml"])
def test_the_top_level_has_it(name: str) -> None:
    assert (ROOT / name).exists()
