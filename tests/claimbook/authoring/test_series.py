"""What a figure draws as a table: every kind of mark, by hand, and nothing that is not data."""

import csv
import io
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from claimbook import BookError
from claimbook.authoring import series


def rows(fig: Figure) -> list[dict[str, str]]:
    table = list(csv.DictReader(io.StringIO(series.table(fig))))
    plt.close(fig)
    return table


def of(kind: str, table: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if value} for row in table if row.get("kind", kind) == kind]


def test_a_figure_of_two_panels_as_printed() -> None:
    fig, (left, right) = plt.subplots(1, 2)
    left.plot([1, 2], [0.1 + 0.2, -0.0], label="exact, $x^2$")
    left.axhline(0.25)
    left.text(1, 1, "a word")
    left.annotate("", (1, 1), (2, 2), arrowprops={"arrowstyle": "->"})
    left.set_title("one")
    right.scatter([3], [4])
    right.legend(handles=[])
    text = series.table(fig)
    plt.close(fig)
    assert text == (
        "panel,series,kind,x,y\n"
        'one,"exact, $x^2$",line,1,0.3\n'
        'one,"exact, $x^2$",line,2,0\n'
        "one,2,line,,0.25\n"
        "one,2,line,,0.25\n"
        "panel 2,1,point,3,4\n"
    )


def test_bars_stand_where_they_end_and_begin() -> None:
    fig, (ax, lying) = plt.subplots(1, 2)
    ax.bar([1, 2], [3, -4], bottom=1, label="up")
    lying.barh(["a", "b"], [2, 5], left=[0, 1])
    bars = of("bar", rows(fig))
    up, across = bars[:2], bars[2:]
    places = [(bar["series"], bar["x"], bar["y"], bar["base"]) for bar in up]
    assert places == [("up", "1", "4", "1"), ("up", "2", "-3", "1")]
    assert [(bar["x"], bar["name"], bar["base"]) for bar in across] == [("2", "a", "0"), ("6", "b", "1")]


def test_a_table_is_tidy_and_named_as_the_axes_are() -> None:
    """Two methods with an interval of two groups each, dodged as charts do it; the panels share the methods' axis."""
    fig, panels = plt.subplots(1, 2, sharey=True)
    for ax, title in zip(panels, ("mild", "sharp"), strict=True):
        for shift, group, mean in ((-0.2, "head", 5.0), (0.2, "tail", 6.0)):
            ax.errorbar([mean, mean + 1], [shift, 1 + shift], xerr=[[0.5, 1], [2, 1]], ls="", capsize=2, label=group)
        ax.set(title=title, xlabel="error (%)")
    panels[0].set_yticks([0, 1], ["softmax", "in\nbatch"])
    text = series.table(fig)
    plt.close(fig)
    assert text.splitlines()[:5] == [
        "panel,series,error (%),name,low,high",
        "mild,head,5,softmax,4.5,7",
        "mild,head,6,in batch,5,7",
        "mild,tail,6,softmax,5.5,8",
        "mild,tail,7,in batch,6,8",
    ]
    assert len(text.splitlines()) == 9
    assert "sharp,tail,7,in batch,6,8" in text


def test_numbers_along_an_axis_are_no_words_and_columns_differ() -> None:
    fig, ax = plt.subplots()
    ax.errorbar([1, 2], [5, np.nan], [0.5, 1])
    ax.set(xlabel="loss", ylabel="loss", xticks=[1, 2], xticklabels=["$10^{-1}$", "1,000"])
    text = series.table(fig)
    plt.close(fig)
    assert text == "loss (x),loss (y),low,high\n1,5,4.5,5.5\n2,,,\n"


def test_a_polygon_is_data_where_it_has_the_coordinates_of_the_data() -> None:
    fig, ax = plt.subplots()
    ax.fill([0, 2, 1], [0, 0, 3], label="a triangle")
    ax.add_patch(Polygon([[0.1, 0.1], [0.9, 0.1], [0.5, 0.5]], transform=ax.transAxes))
    table = rows(fig)
    assert {row["series"] for row in table} == {"a triangle"}
    assert [(row["x"], row["y"]) for row in of("area", table)] == [("0", "0"), ("2", "0"), ("1", "3"), ("0", "0")]


def test_areas_images_and_maps() -> None:
    fig, (first, second, third) = plt.subplots(1, 3)
    first.fill_between([0, 1], [1, 2], [3, 5])
    second.imshow(np.array([[0.25, 1], [0, -0.5]]))
    drawn = third.contourf([0, 1], [0, 1], [[0, 1], [0, 1]], levels=[0, 0.5, 1])
    fig.colorbar(drawn)
    table = rows(fig)
    assert {(row["x"], row["y"]) for row in of("area", table)} == {("0", "1"), ("1", "2"), ("0", "3"), ("1", "5")}
    assert [(row["y"], row["value"]) for row in of("pixels", table)] == [("0", "0.25 1"), ("1", "0 -0.5")]
    map_of = {value: {r["x"] for r in of("contour", table) if r["value"] == value} for value in ("0", "0.5")}
    assert map_of == {"0": {"0", "0.5"}, "0.5": {"0.5", "1"}}
    assert {row["panel"] for row in table} == {f"panel {number}" for number in range(1, 4)}  # no scale of colours


@pytest.mark.parametrize(
    ("draw", "data", "options"), [("errorbar", ([1], [1], [1]), {"fmt": "none"}), ("imshow", ([[[0, 0.5, 1]]],), {})]
)
def test_a_drawing_without_numbers_is_refused(draw: str, data: tuple[list[Any], ...], options: dict[str, str]) -> None:
    fig, ax = plt.subplots()
    getattr(ax, draw)(*data, **options)
    with pytest.raises(BookError, match="has no numbers for the CSV: draw intervals with ls=''"):
        series.table(fig)
    plt.close(fig)


def test_a_figure_without_numbers_has_no_table() -> None:
    fig, ax = plt.subplots()
    ax.text(0.5, 0.5, "words")
    assert series.table(fig) == ""
    plt.close(fig)
