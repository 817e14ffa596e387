"""Notebooks that readers take away run in an empty folder, and print what stands in them.

pytest-notebook executes and compares them: all of them in ``.ci/wheel``, with the kernel of an environment that has no
more than a notebook's first cell installs, else two, as `test_standin` executes most of the others. Training runs
come from the store that executed the book.
"""

import os
from pathlib import Path

import nbformat
import pytest
from pytest_notebook.nb_regression import NBRegressionFixture
from pytest_notebook.post_processors import load_processor

from claimbook.pipeline.notebook_export import install
from claimbook.store import default
from tests.builds.book.conftest import CHAPTERS

PACKAGE = os.environ.get("SUMEXP_PACKAGE", "")
"""What the first cell installs, in ``.ci/wheel``."""


@pytest.mark.parametrize("chapter", CHAPTERS if PACKAGE else ["expectations", "vae"])
def test_it_prints_what_stands_in_it(
    html: Path, tmp_path: Path, nb_regression: NBRegressionFixture, chapter: str
) -> None:
    file = tmp_path / f"{chapter}.ipynb"
    nb_regression.post_processors = ("coalesce_streams", "claimbook_printed")
    nb_regression.diff_ignore = ("/cells/*/source", "/cells/0/outputs")  # where it installs, pip prints a note
    store = str(default().root)
    nb_regression.exec_env = {"SUMEXP_STORE": store, "SUMEXP_DATA": "", "XDG_CACHE_HOME": str(tmp_path)}
    nb_regression.exec_env["CUDA_VISIBLE_DEVICES"] = ""  # the default device, "auto", is then the CPU everywhere
    nb_regression.exec_cwd = str(tmp_path)
    nb_regression.exec_timeout = 600
    taken = nbformat.read(html / "notebooks" / file.name, as_version=4)
    sources = [cell.source for cell in taken.cells if cell.cell_type == "code"]
    sources[0] = install(PACKAGE)
    for name in nb_regression.post_processors:
        taken, _ = load_processor(name)(taken, {})
    for cell, source in zip(taken.cells, sources, strict=True):
        cell.source = source.replace('profile = "cpu"', 'profile = "smoke"')  # as when the book was built
    nbformat.write(taken, file)
    nb_regression.check(str(file))
