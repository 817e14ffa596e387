"""What a figure draws as a table: every kind of mark, by hand, and nothing that is not data."""

import csv
import io

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from claimbook.authoring import series


def rows(fig: Figure) -> list[dict[str, str]]:
    found = list(csv.DictReader(io.StringIO(series.table(fig))))
    plt.close(fig)
    return found


def of(kind: str, found: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if value} for row in found if row["kind"] == kind]


def test_a_figure_of_two_panels_as_printed() -> None:
    fig, (left, right) = plt.subplots(1, 2)
    left.plot([1, 2], [0.1 + 0.2, -0.0], label="exact, $x^2$")
    left.axhline(0.25)
    left.text(1, 1, "a word")
    left.annotate("", (1, 1), (2, 2), arrowprops={"arrowstyle": "->"})
    left.set_title("one")
    right.scatter([3], [4], c=[0.5])
    right.legend(handles=[])
    text = series.table(fig)
    plt.close(fig)
    assert text == (
        "panel,series,kind,x,y,value\n"
        'one,"exact, $x^2$",line,1,0.3,\n'
        'one,"exact, $x^2$",line,2,0,\n'
        "one,2,line,,0.25,\n"
        "one,2,line,,0.25,\n"
        "panel 2,1,point,3,4,0.5\n"
    )


def test_bars_stand_where_they_end_and_begin() -> None:
    fig, (ax, lying) = plt.subplots(1, 2)
    ax.bar([1, 2], [3, -4], bottom=1, label="up")
    lying.barh(["a", "b"], [2, 5], left=[0, 1])
    found = of("bar", rows(fig))
    up, across = found[:2], found[2:]
    assert [(bar["series"], bar["x"], bar["y"], bar["base"]) for bar in up] == [
        ("up", "1", "4", "1"),
        ("up", "2", "-3", "1"),
    ]
    assert [(bar["x"], bar["y"], bar["base"]) for bar in across] == [("2", "0", "0"), ("6", "1", "1")]


def test_bars_of_error_bear_the_name_of_their_series_and_caps_are_no_data() -> None:
    fig, ax = plt.subplots()
    ax.errorbar([1, 2], [5, 6], [0.5, 1], capsize=2, label="mean")
    found = rows(fig)
    assert {row["series"] for row in found} == {"mean"}
    assert [(row["x"], row["y"]) for row in of("line", found)] == [("1", "5"), ("2", "6")]
    assert [(row["part"], row["x"], row["y"]) for row in of("segment", found)] == [
        ("1", "1", "4.5"),
        ("1", "1", "5.5"),
        ("2", "2", "5"),
        ("2", "2", "7"),
    ]


def test_a_polygon_is_data_where_it_has_the_coordinates_of_the_data() -> None:
    fig, ax = plt.subplots()
    ax.fill([0, 2, 1], [0, 0, 3], label="a triangle")
    ax.add_patch(Polygon([[0.1, 0.1], [0.9, 0.1], [0.5, 0.5]], transform=ax.transAxes))
    found = rows(fig)
    assert {row["series"] for row in found} == {"a triangle"}
    assert [(row["x"], row["y"]) for row in of("area", found)] == [("0", "0"), ("2", "0"), ("1", "3"), ("0", "0")]


def test_areas_steps_images_and_maps() -> None:
    fig, (one, two, three, four) = plt.subplots(1, 4)
    one.fill_between([0, 1], [1, 2], [3, 5])
    two.stairs([7, 8, 9], [0, 1, 3, 4])
    three.imshow(np.array([[0.25, 1], [0, -0.5]]))
    drawn = four.contourf([0, 1], [0, 1], [[0, 1], [0, 1]], levels=[0, 0.5, 1])
    fig.colorbar(drawn)
    found = rows(fig)
    assert {(row["x"], row["y"]) for row in of("area", found)} == {("0", "1"), ("1", "2"), ("0", "3"), ("1", "5")}
    assert [(row["x"], row["y"]) for row in of("step", found)] == [("0", "7"), ("1", "8"), ("3", "9"), ("4", "9")]
    assert [(row["y"], row["value"]) for row in of("pixels", found)] == [("0", "0.25 1"), ("1", "0 -0.5")]
    map_of = {value: {r["x"] for r in of("contour", found) if r["value"] == value} for value in ("0", "0.5")}
    assert map_of == {"0": {"0", "0.5"}, "0.5": {"0.5", "1"}}
    assert {row["panel"] for row in found} == {f"panel {number}" for number in range(1, 5)}  # no scale of colours


def test_of_a_picture_in_colours_each_pixel_has_the_mean_of_red_green_and_blue() -> None:
    fig, (one, two) = plt.subplots(1, 2)
    colours = np.array([[[0.1, 0.2, 0.6], [0.0, 0.5, 1.0]]])
    one.imshow(colours)
    two.imshow(np.concatenate([colours, [[[0.7], [0.0]]]], -1))  # how opaque it is does not count
    assert [row["value"] for row in of("pixels", rows(fig))] == ["0.3 0.5", "0.3 0.5"]


def test_a_figure_without_numbers_has_no_table() -> None:
    fig, ax = plt.subplots()
    ax.text(0.5, 0.5, "words")
    assert series.table(fig) == ""
    plt.close(fig)
