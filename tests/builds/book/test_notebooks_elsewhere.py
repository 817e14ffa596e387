"""A notebook that readers take away runs outside of the book, and prints what stands in it.

``.ci/wheel`` runs this with the kernel of an environment that has no more than the notebook's first cell installs.
"""

import os
from pathlib import Path

import nbformat
from pytest_notebook.nb_regression import NBRegressionFixture
from pytest_notebook.post_processors import load_processor

from sumexp.companion.pipeline.notebook_export import install

CHAPTER = "bias.ipynb"  # prints much, takes little time, reads no file of the repository


def test_it_prints_what_stands_in_it(html: Path, tmp_path: Path, nb_regression: NBRegressionFixture) -> None:
    nb_regression.post_processors = ("coalesce_streams", "sumexp_printed")
    nb_regression.diff_ignore = ("/cells/*/source",)  # not part of what a notebook prints
    nb_regression.exec_env = {"SUMEXP_STORE": str(tmp_path), "SUMEXP_DATA": "", "XDG_CACHE_HOME": str(tmp_path)}
    nb_regression.exec_timeout = 600
    taken = nbformat.read(html / "notebooks" / CHAPTER, as_version=4)
    sources = [cell.source for cell in taken.cells if cell.cell_type == "code"]
    sources[0] = install(os.environ.get("SUMEXP_PACKAGE", ""))
    for name in nb_regression.post_processors:
        taken, _ = load_processor(name)(taken, {})
    for cell, source in zip(taken.cells, sources, strict=True):
        cell.source = source.replace('profile = "cpu"', 'profile = "smoke"')  # as when the book was built
    nbformat.write(taken, tmp_path / CHAPTER)
    nb_regression.check(str(tmp_path / CHAPTER))
