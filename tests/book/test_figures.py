"""Figures on pages: from the picture and its metadata in a notebook to what a reader sees and can follow."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from bs4 import BeautifulSoup
from sphinx.errors import ExtensionError

from tests.book.pages import CODE, displayed, markdown, render, write_notebook

TEXT = "# Chapter\n\nSee {ref}`fig-bar` and {ref}`the other <fig-line>`.\n"
Build: TypeAlias = Callable[..., tuple[BeautifulSoup, str]]


def shown(name: str, caption: str = "A bar.", source: str = "sumexp.datasets:files") -> dict[str, Any]:
    about = {"figure": name, "alt": "Words.", "caption": caption, "source": source, "provenance": "key 12 · seed 0"}
    return displayed({"image/svg+xml": [f'<svg role="img" id="{name}">', "<g/></svg>"]}, **about)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Render a chapter whose cells show these outputs; gives its page, and the warnings."""

    def build(*cells: list[dict[str, Any]], pages: Iterable[str] = ("chapter",)) -> tuple[BeautifulSoup, str]:
        for name in pages:
            code = (CODE | {"outputs": outputs} for outputs in cells)
            write_notebook(tmp_path / "notebooks" / f"{name}.ipynb", markdown(TEXT), *code)
        return render(tmp_path, "notebooks/chapter", "sumexp_book")

    return build


def test_a_figure_has_its_picture_caption_source_and_numbers(build: Build) -> None:
    page, warnings = build([shown("bar", "For *all* $x<1$, $y$, a & b.")], [shown("line", source="sumexp.a:B.c")])
    assert warnings == ""
    bar, line = page.select("figure.sumexp-figure")
    assert (bar["id"], line["id"]) == ("fig-bar", "fig-line")
    (drawn,) = bar.select("div.figure-picture[tabindex='0'] > *")
    assert str(drawn) == '<svg id="bar" role="img"><g></g></svg>'
    caption, below = bar.select("figcaption > p")
    assert caption.get_text() == "For all \\(x<1\\), \\(y\\), a & b. #"
    assert caption.select("em")
    links = ["#fig-bar", "#cell-bar", "../_modules/sumexp/datasets.html#files", "../_figures/bar.csv"]
    assert [link["href"] for link in bar.select("a")] == links
    words = "Drawn in this cell from sumexp.datasets.files. Data (CSV)."
    assert (below["class"], below.get_text()) == (["figure-source"], words)
    links = ["#cell-line", "../_modules/sumexp/a.html#B.c", "../_figures/line.csv"]
    assert [link["href"] for link in line.select("p.figure-source a")] == links


def test_references_print_a_figures_number_and_lead_to_it_and_to_its_cell(build: Build) -> None:
    page, _ = build([shown("line")], [], [shown("bar")])
    links = [(link.get_text(), link["href"]) for link in page.select("section > p a.reference")]
    assert links == [("Figure 2", "#fig-bar"), ("the other", "#fig-line")]
    assert [cell.get("id") for cell in page.select("div.cell")] == ["cell-line", None, "cell-bar"]


def test_a_picture_for_a_phone_stands_beside_that_for_a_desk(build: Build) -> None:
    both = shown("bar")
    both["metadata"]["sumexp"]["narrow"] = '<svg role="img" id="bar-narrow"><g/></svg>'
    page, warnings = build([both], [shown("line")])
    assert warnings == ""
    pictures = page.select("#fig-bar div.figure-picture > *")
    assert [(each["id"], each.get("class")) for each in pictures] == [("bar", None), ("bar-narrow", ["narrow"])]


def test_another_picture_is_left_as_it_is(build: Build) -> None:
    other = shown("bar") | {"metadata": {}}
    page, _ = build([other, shown("line")])
    (figure,) = page.select("figure")
    assert figure["id"] == "fig-line"
    assert len(page.select("img")) == 1


@pytest.mark.parametrize(("count", "pages"), [(1, ("chapter", "other")), (2, ("chapter",))])
def test_a_name_of_two_figures_stops_the_build(build: Build, count: int, pages: tuple[str, ...]) -> None:
    with pytest.raises(ExtensionError, match=f"{pages[-1]} shows a second figure named 'bar'"):
        build([shown("bar")] * count, pages=pages)
