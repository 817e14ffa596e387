"""Figures that a hand can move: what the page draws from is what was computed, whole, and every control has a name."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from claimbook import BookError
from claimbook.authoring import interactive
from claimbook.authoring.interactive import Control, Interactive, Line, Panel

SLIDER = Control("draws $m$", ["1", "10"], 1)
LIST = Control("hits", ["kept", "<out>", "again"], 0, "select")
PANEL = Panel([1, 2], "draws $m$", "nats", [1, 2], [0.0001, 1, 10], (0, 1), "y", 0)
VALUES = np.arange(12.0).reshape(2, 3, 2)
"""Of 2 choices, 3 choices and 2 points."""
LINE = Line("$q_y$ & more", "blue", (4, 2), {0: VALUES}, np.array([["a", "b", "c"], ["d", "e", "f"]]))
FIGURE = Interactive([SLIDER, LIST], [PANEL], [LINE])


def test_a_curve_for_each_setting() -> None:
    table = interactive.table(FIGURE)
    assert table["choices"] == [["1", "10"], ["kept", "<out>", "again"]]
    (line,) = table["lines"]
    assert line["curves"] == {"0": [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]}
    assert line["reading"] == [["a", "b", "c"], ["d", "e", "f"]]
    (panel,) = table["panels"]
    assert (panel["x"], panel["xlabel"], panel["mark"]) == ([1, 2], "draws m", 0)
    assert panel["yticks"] == {"at": [0.0001, 1, 10], "labels": ["10⁻⁴", "1", "10"]}


def test_numbers_are_short_and_what_is_none_is_left_out() -> None:
    line = replace(LINE, curves={0: np.array([[[1 / 3, np.nan, 2.0, 1e-9]]])})
    (row,) = interactive.table(replace(FIGURE, panels=[replace(PANEL, x=[1, 2, 3, 4])], lines=[line]))["lines"]
    assert row["curves"]["0"] == [[[0.33333, None, 2, 1e-9]]]


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        ([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"]),
        ([0, 0.001, 1], ["0", "10⁻³", "1"]),
        ([1, 1000, 20_000], ["1", "1,000", "20,000"]),
        ([1, 10, 1000, 100_000], ["1", "10", "10³", "10⁵"]),
    ],
)
def test_numbers_at_an_axis_are_powers_of_ten_where_one_is_below_a_hundredth_or_has_six_digits(
    ticks: list[float], labels: list[str]
) -> None:
    (panel,) = interactive.table(replace(FIGURE, panels=[replace(PANEL, yticks=ticks)]))["panels"]
    assert panel["yticks"] == {"at": ticks, "labels": labels}


def test_numbers_are_said_as_in_print() -> None:
    assert interactive.say(np.array([[1.5, 2.5e-7]]), ".2g", " nats").tolist() == [["1.5 nats", "2.5 × 10⁻⁷ nats"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"color": "red"}, "the colour of a line is 'red'; expected one of blue, "),
        ({"curves": {0: VALUES[:, :2]}}, "has shape (2, 2, 2); the controls have [2, 3] choices"),
        ({"curves": {0: VALUES[0]}}, "has shape (3, 2); the controls have [2, 3] choices"),
        ({"curves": {1: VALUES}}, "has shape (2, 3, 2) on panel 1; the panels have [2]"),
        ({"curves": {0: VALUES[..., :1]}}, "has shape (2, 3, 1) on panel 0; the panels have [2]"),
        ({"reading": np.array([["a", "b"]])}, "has shape (1, 2, 1); the controls have [2, 3] choices"),
    ],
)
def test_a_line_that_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BookError, match=re.escape(message)):
        interactive.table(replace(FIGURE, lines=[replace(LINE, **change)]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"controls": [replace(SLIDER, start=2), LIST]}, "'draws $m$' starts at choice 2 of 2"),
        ({"controls": []}, "needs a control, a panel and a line"),
        ({"panels": [replace(PANEL, mark=2)]}, "the panel of 'nats' marks control 2 of 2"),
        ({"panels": [replace(PANEL, ylim=(0, np.inf))]}, "'by-draws' has a number that is not finite"),
        ({"lines": [replace(LINE, curves={0: VALUES + np.inf})]}, "'by-draws' has a number that is not finite"),
    ],
)
def test_a_figure_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BookError, match=re.escape(message)):
        interactive.show(replace(FIGURE, **change), "by-draws", hint="")


def test_the_page_holds_the_table_and_names_every_control(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[tuple[dict[str, str], dict[str, Any]]] = []
    monkeypatch.setattr(interactive, "display", lambda data, raw, metadata: outputs.append((data, metadata)))
    interactive.show(FIGURE, "by-draws", hint="Move $m$, if $m^{2}<3$.")
    ((data, metadata),) = outputs
    page = data["text/html"]
    assert metadata == {"sumexp": {"interactive": "by-draws"}}
    (held,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    assert "<" not in held
    assert json.loads(held) == json.loads(json.dumps(interactive.table(FIGURE)))
    controls = re.findall(r'<(?:input|select)[^>]* id="([^"]+)"', page)
    assert controls == re.findall(r'<label for="([^"]+)"', page) == ["by-hand-by-draws-0", "by-hand-by-draws-1"]
    assert 'max="1" step="1" value="1" aria-valuetext="10"' in page
    assert "<option selected>kept</option><option>&lt;out&gt;</option>" in page
    assert re.findall(r'by-hand-reading">(\w)<', page) == ["d"]  # at the start
    assert 'Move <span class="by-hand-formula">m</span>, if <span class="by-hand-formula">m<sup>2</sup>&lt;3' in page
    assert '<div id="by-hand-by-draws" class="by-hand" role="group" aria-label="Try it" hidden>' in page
