"""The book's Sphinx extension: figures that can be referred to, each name once; lines that break where they may."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils import nodes
from docutils.utils import new_document

EXTENSION = Path(__file__).parents[2] / "book" / "_ext" / "sumexp_book.py"


class Labels:
    """What the extension uses of Sphinx's standard domain."""

    def __init__(self) -> None:
        self.labels: dict[str, tuple[str, str, str]] = {}

    def note_hyperlink_target(self, name: str, page: str, target: str, title: str) -> None:
        self.labels[name] = (page, target, title)


def cell(figure: str) -> nodes.container:
    output = nodes.raw("", f'<figure id="fig-{figure}" class="sumexp-figure">', format="html")
    return nodes.container("", nodes.container("", output, classes=["cell_output"]), classes=["cell", "docutils"])


def named(labels: Labels, page: str, *figures: str) -> nodes.document:
    """A page with these figures, as the extension leaves it."""
    document = new_document(page)
    document.extend(cell(figure) for figure in figures)
    environment = SimpleNamespace(get_domain=lambda _: labels, docname=page, doc2path=lambda name: f"{name}.ipynb")
    runpy.run_path(str(EXTENSION))["name_figures"](SimpleNamespace(env=environment), document)
    return document


def test_punctuation_stays_with_its_formula() -> None:
    document = new_document("page")
    document += nodes.paragraph(
        "", "", nodes.Text("Let "), nodes.math("", "x"), nodes.Text("). And "), nodes.math("", "y"), nodes.Text(" too")
    )
    runpy.run_path(str(EXTENSION))["keep_punctuation"](None, document)
    (paragraph,) = document.children
    kept, free = paragraph.children[1], paragraph.children[3]
    assert paragraph.astext() == "Let x). And y too"
    assert (kept.astext(), kept["classes"]) == ("x).", ["nobreak"])
    assert isinstance(free, nodes.math)


def test_a_figure_can_be_referred_to_and_its_cell_found() -> None:
    labels = Labels()
    page = named(labels, "notebooks/bias", "error", "time")
    assert labels.labels == {
        "fig-error": ("notebooks/bias", "fig-error", "Figure 1"),
        "fig-time": ("notebooks/bias", "fig-time", "Figure 2"),
    }
    assert [child["ids"] for child in page.children] == [["cell-error"], ["cell-time"]]


@pytest.mark.parametrize("other", ["notebooks/bias", "notebooks/nce"])
def test_a_second_figure_of_one_name_is_a_warning_which_fails_the_build(other: str, monkeypatch: Any) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(
        "sphinx.util.logging.SphinxLoggerAdapter.warning",
        lambda self, message, *values, **options: warnings.append(message % values),
    )
    labels = Labels()
    named(labels, "notebooks/bias", "error")
    named(labels, other, "error")
    assert warnings == ["figure 'error': notebooks/bias.ipynb has one of this name, take another"]
