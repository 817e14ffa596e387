"""A lighter SVG: fewer bytes, and nothing that the eye would miss."""

import io
import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from sumexp.companion.authoring import figures, light


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def lightened(inner: str) -> Element:
    root = ElementTree.fromstring(f"<svg width='504.25pt'>{inner}</svg>")
    light.lighten(root)
    return root


def text(inner: str) -> str:
    return "".join(ElementTree.tostring(each, encoding="unicode") for each in lightened(inner))


def points(d: str) -> list[list[float]]:
    return [[float(number) for number in pair.split()] for pair in re.split("[MLz]", d) if pair]


def many_marks() -> Figure:
    fig, ax = plt.subplots(figsize=(7, 3))
    place = np.linspace(0, 1, 500)
    ax.scatter(place, place**2)
    ax.plot(place, np.sin(9 * place))
    return fig


def test_numbers_lose_digits_and_lines_the_points_on_them() -> None:
    drawn = "<path d='M 0 0 \nL 10.04 10.04 \nL 20.0 20.0 \nL 30.123456 -1e-05 \n' transform='rotate(-90.5)' />"
    assert text(drawn) == '<path d="M0 0L20 20L30.1 0" transform="rotate(-90.5)" />'


def test_a_closed_line_stays_closed_and_a_curve_keeps_its_points() -> None:
    assert text("<path d='M 0 0 L 4 0 L 4 4 L 4 8 L 0 0 z M 1 1 Q 2 2 3 3 L 3 4'/>") == (
        '<path d="M0 0L4 0L4 8L0 0zM1 1Q2 2 3 3L3 4" />'
    )


def test_a_line_is_nowhere_farther_than_the_tolerance_from_its_points() -> None:
    x = np.linspace(0, 300, 2000)
    y = 60 + 5 * np.sin(x / 11) * np.exp(-x / 200)
    drawn = " L ".join(f"{a:.6f} {b:.6f}" for a, b in zip(x, y, strict=True))
    kept = np.array(points(lightened(f"<path d='M {drawn}'/>")[0].attrib["d"]))
    assert len(kept) < len(x) / 8
    assert np.abs(np.interp(x, kept[:, 0], kept[:, 1]) - y).max() < 3 * light.TOLERANCE
    assert kept[[0, -1], 0].tolist() == [0, 300]


def test_a_letter_is_placed_by_two_numbers() -> None:
    assert text("<use transform='translate(27.783203 0.015625)' href='#a-1'/>") == '<use href="#a-1" x="27.8" />'
    scaled = "<g transform='translate(1.234 5.678) scale(0.12 -0.12)'><use href='#a-1'/></g>"
    assert 'transform="translate(1.2 5.7) scale(0.12 -0.12)"' in text(scaled)


def test_what_neighbours_share_is_said_once() -> None:
    marks = "".join(f"<g clip-path='url(#a-2)'><use x='{x}' style='fill: #1f78b4'/></g>" for x in (1, 2, 3))
    assert text(marks) == (
        '<g clip-path="url(#a-2)"><g style="fill: #1f78b4"><use x="1" /><use x="2" /><use x="3" /></g></g>'
    )


def test_what_is_transparent_as_a_whole_stays_by_itself() -> None:
    marks = "<path d='M0 0' style='fill: #1f78b4; opacity: 0.5'/>" * 2
    assert text(marks).count("opacity: 0.5") == 2
    assert text(marks.replace("opacity", "fill-opacity")).count("fill-opacity: 0.5") == 1


def test_groups_that_say_nothing_are_gone_and_the_order_stays() -> None:
    assert text("<g><g/><path d='M0 0'/><g><defs/><rect x='1'/></g></g><title>a b</title>") == (
        '<path d="M0 0" /><rect x="1" /><title>a b</title>'
    )


def test_a_figure_has_half_the_bytes_and_every_mark() -> None:
    file, drawn = io.StringIO(), many_marks()
    drawn.savefig(file, format="svg", transparent=True)
    small = figures.svg(drawn, "marks", "A parabola.")
    assert len(small) < 0.5 * len(file.getvalue())
    uses = [len(re.findall("<use", each)) for each in (small, file.getvalue())]
    assert uses[0] == uses[1] > 500
