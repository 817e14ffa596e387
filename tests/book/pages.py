"""Pages of a few lines, rendered with the book's extensions."""

import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

EXTENSIONS = Path(__file__).parents[2] / "book" / "_ext"
CODE: dict[str, Any] = {"cell_type": "code", "source": "draw()", "outputs": [], "execution_count": None}


@cache
def extension(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXTENSIONS / f"sumexp_{name}.py"))


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source}


def displayed(data: dict[str, Any], **mark: Any) -> dict[str, Any]:
    """An output that the book's functions have marked."""
    return {"output_type": "display_data", "metadata": {"sumexp": mark}, "data": data}


def write_notebook(path: Path, *cells: dict[str, Any]) -> None:
    numbered = [{"metadata": {}, "id": f"cell-{n}"} | cell for n, cell in enumerate(cells)]
    metadata = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": numbered, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))


def render(place: Path, name: str, *extensions: str, **settings: Any) -> tuple[BeautifulSoup, str]:
    """A page, and the warnings of all pages."""
    settings |= {"root_doc": name, "extensions": ["myst_nb", *extensions], "nb_execution_mode": "off"}
    settings["myst_enable_extensions"] = ["colon_fence", "dollarmath"]
    log = place / "warnings"
    with pytest.MonkeyPatch.context() as path, log.open("w") as file, patch_docutils(None), docutils_namespace():
        path.syspath_prepend(str(EXTENSIONS))
        Sphinx(place, None, place / "html", place / "trees", "html", settings, None, file).build()
    return BeautifulSoup((place / "html" / f"{name}.html").read_text("utf-8"), "html.parser"), log.read_text()
