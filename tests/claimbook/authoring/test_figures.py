"""Figures: legible on both papers, the same bytes twice, and nothing left out."""

import io
import re
from collections.abc import Iterator
from functools import cache, partial
from importlib import reload
from typing import Any
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from claimbook import BookError
from claimbook.authoring import figures
from sumexp import datasets

WHITE, DARK = "#ffffff", "#14181e"
GOOD: dict[str, Any] = {"caption": "A line.", "alt": "A rising line.", "source": datasets.files}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """What `show` displays: data and metadata."""
    outputs: list[tuple[dict[str, str], dict[str, Any]]] = []
    monkeypatch.setattr(figures, "display", lambda data, raw, metadata: outputs.append((data, metadata)))
    return outputs


def picture() -> Figure:
    fig, ax = plt.subplots()
    ax.plot([1, 2], [1, 2], label="$x^2$")
    ax.fill_between([1, 2], [1, 2], color="black")
    ax.bar([1], [1], hatch="//")
    ax.legend()
    return fig


written = cache(lambda name="line": figures.svg(picture(), name, "A line."))


def luminance(colour: str) -> float:
    """Relative luminance as the web's accessibility guidelines define it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    pale, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (pale + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", figures.PALETTE)
def test_palette_stands_out_from_white_and_from_dark(name: str) -> None:
    assert contrast(figures.PALETTE[name], WHITE) >= 3
    assert contrast(figures.PALETTE[name], DARK) >= 3


def test_the_same_figure_gives_the_same_bytes_whatever_a_matplotlibrc_says() -> None:
    before = written()
    plt.rcParams |= {"font.size": 20, "savefig.bbox": "tight", "svg.fonttype": "none"}
    reload(figures)
    assert figures.svg(picture(), "line", "A line.") == before


def test_black_is_the_colour_of_the_text_and_the_paper_is_transparent() -> None:
    root = ElementTree.fromstring(written())
    colours = {c for e in root.iter() for v in e.attrib.values() for c in re.findall(r"#[0-9a-f]{6}\b", v)}
    assert colours == {figures.PALETTE["blue"]}
    assert root.get("fill") == "currentColor"
    assert "stroke: currentColor" in written()


def test_no_style_sheet_reaches_the_page_and_what_it_would_say_stands_on_the_picture() -> None:
    text, file = written(), io.StringIO()
    assert "<style" not in text
    picture().savefig(file, format="svg")
    (sheet,) = re.findall(r"<style[^>]*>\*\{(.*)\}</style>", file.getvalue())
    root = ElementTree.fromstring(text)
    for name, value in (rule.split(": ") for rule in sheet.split("; ")):
        assert root.get(name) == value


def test_ids_are_unique_and_every_reference_finds_its_own_figure() -> None:
    page = written("one") + written("two")
    ids = re.findall(r' id="([^"]+)"', page)
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page))
    assert len(ids) == len(set(ids))
    assert references <= set(ids)
    assert {i.split("-")[0] for i in references} == {"one", "two"}


def test_numbers_have_four_digits() -> None:
    fig, ax = plt.subplots()
    ax.plot(range(50), [1 / (1 + n) for n in range(50)])
    assert re.findall(r"[1-9]\.\d{4}|\d{4}\.\d|\d{3}\.\d\d", figures.svg(fig, "line", "A line.")) == []


def test_the_alt_text_is_read_out() -> None:
    root = ElementTree.fromstring(figures.svg(picture(), "line", 'Where x < 1 & "y".'))
    (title,) = [e for e in root.iter() if e.get("id") == root.get("aria-labelledby")]
    assert (root.get("role"), title.text) == ("img", 'Where x < 1 & "y".')


def test_show_gives_the_picture_its_numbers_and_what_is_said_of_them(shown: list[Any]) -> None:
    fig = picture()
    figures.show(fig, "line", caption=" For $x<1$, a & b.\n", alt="A rising line.", source=datasets.files)
    assert not plt.fignum_exists(fig.number)
    ((data, metadata),) = shown
    assert 'width="266.4pt"' in metadata["sumexp"].pop("narrow")  # 3.7 inches
    words = {"alt": "A rising line.", "caption": "For $x<1$, a & b.", "source": "sumexp.datasets:files"}
    assert metadata == {"sumexp": {"figure": "line"} | words}
    assert data["image/svg+xml"] == figures.svg(picture(), "line", "A rising line.")
    assert data["text/csv"].startswith("series,kind")


def test_a_figure_without_numbers_has_the_picture_alone(shown: list[Any]) -> None:
    fig, ax = plt.subplots()
    ax.text(0.5, 0.5, "words")
    figures.show(fig, "words", **GOOD)
    assert [list(data) for data, _ in shown] == [["image/svg+xml"]]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("line", {"caption": " "}, "figure 'line' has no caption"),
        ("line", {"alt": ""}, "figure 'line' has no alt"),
        ("line", {"source": lambda: None}, "figure 'line' has no source: pass a text, or as source a function"),
        ("line", {"source": partial(datasets.files)}, "figure 'line' has no source"),
        ("A line", {}, "figure 'A line': a name is lower-case letters"),
    ],
)
def test_what_is_missing_is_named(shown: list[Any], name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BookError, match=re.escape(message)):
        figures.show(picture(), name, **{**GOOD, **change})
    assert shown == []
