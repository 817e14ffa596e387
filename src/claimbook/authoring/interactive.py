"""Interactive figures: curves for a grid of settings, computed beforehand; the page shows those of one setting.

``book/_static/interactive.js`` draws and computes nothing. The figure is hidden until the book's style sheet finds that
scripts run: paper, a browser without scripts and a notebook outside the book show the static figure above it alone.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from IPython.display import display
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from numpy.typing import NDArray

from claimbook import BookError
from claimbook.authoring.figures import PALETTE
from claimbook.authoring.results import check_name, typeset

INK = "ink"
"""The colour of the text, as black is in a static figure."""
_FORMULA = re.compile(r"\$(.+?)\$")
_SCRIPT = re.compile(r"([_^])(?:\{([^}]*)\}|(\w))")


@dataclass(frozen=True)
class Control:
    """A slider, or a list to choose from; ``start`` is the number of the choice that is shown first.

    In its label, as in all texts of the page, ``$m$`` is set as a formula, with ``_`` and ``^`` at most.
    """

    label: str
    choices: Sequence[str]
    start: int
    kind: Literal["range", "select"] = "range"


@dataclass(frozen=True)
class Panel:
    """A pair of axes, whose limits stay while curves change, so that the eye can compare.

    The curves have their points at ``x``, which rises. ``log`` names the axes that are logarithmic. ``mark`` is the
    number of a control and for each of its choices a place on x, at which a thin line stands.
    """

    x: Sequence[float]
    xlabel: str
    ylabel: str
    xticks: Sequence[float]
    yticks: Sequence[float]
    ylim: tuple[float, float]
    log: Literal["", "x", "y", "xy"] = ""
    mark: tuple[int, Sequence[float]] | None = None


@dataclass(frozen=True)
class Line:
    """A curve on one panel or several, and its reading: a text under the controls.

    The color is a name of `figures.PALETTE` or `INK`, the dash the lengths of strokes and gaps. ``curves`` has for each
    panel values [choices of the first control, ..., points], ``reading`` texts [choices of the first control, ...]; an
    axis on which they do not depend has length 1. Nothing is drawn at NaN.
    """

    label: str
    color: str
    dash: tuple[int, ...]
    curves: Mapping[int, NDArray[np.float64]]
    reading: NDArray[np.str_] | None = None


@dataclass(frozen=True)
class Interactive:
    """Controls, what they change, and where it is drawn."""

    controls: Sequence[Control]
    panels: Sequence[Panel]
    lines: Sequence[Line]


def show(figure: Interactive, name: str, *, hint: str) -> None:
    """Show an interactive figure under the static one of that name; the hint says what to set and what to look for."""
    check_name("figure", name, "bias-by-m")
    data = json.dumps(table(figure), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    data = data.replace("<", "\\u003c")
    readings = [_first(line, figure.controls) for line in figure.lines]
    template = _TEMPLATES.get_template("interactive.html")
    page = template.render(figure=figure, name=name, hint=hint, data=Markup(data), readings=readings, palette=PALETTE)
    display({"text/html": page}, raw=True, metadata={"sumexp": {"interactive": name}})  # type: ignore[no-untyped-call]


def say(values: NDArray[np.float64], spec: str = ".2g", unit: str = "") -> NDArray[np.str_]:
    """Numbers as text, in the same shape: ``0.00012`` with ``unit=" nats"`` is ``1.2 × 10⁻⁴ nats``."""
    said = [typeset(format(float(value), spec)) + unit for value in values.ravel()]
    return np.array(said, dtype=np.str_).reshape(values.shape)


def table(figure: Interactive) -> dict[str, Any]:
    """What the page draws from: plain numbers and texts.

    Curves and readings are ``{"by": controls, "values": [...]}``, with an entry for each choice of these controls, the
    last one varying fastest.
    """
    counts = [len(control.choices) for control in figure.controls]
    return {
        "controls": [{"choices": list(each.choices), "start": each.start} for each in figure.controls],
        "panels": [_panel(panel) for panel in figure.panels],
        "lines": [_line(line, counts) for line in figure.lines],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    number, places = panel.mark or (0, ())
    return {
        "xlabel": _plain(panel.xlabel),
        "ylabel": _plain(panel.ylabel),
        "xticks": _ticks(panel.xticks),
        "yticks": _ticks(panel.yticks),
        "ylim": list(panel.ylim),
        "x": _short(panel.x),
        "log": panel.log,
        "mark": {"by": number, "at": _short(places)} if panel.mark else None,
    }


def _ticks(values: Sequence[float]) -> dict[str, Any]:
    """Numbers and how they are written: 1,000 and 0.1, but all as powers of ten where some are too long for that."""
    far = any(value and not 1e-2 <= abs(value) < 1e5 for value in values)

    def write(value: float) -> str:
        is_power = far and value not in (0, 1, 10)
        return typeset(f"{value:.0e}").removeprefix("1 × ") if is_power else typeset(f"{value:,g}")

    return {"at": _short(values), "labels": [write(value) for value in values]}


def _line(line: Line, counts: Sequence[int]) -> dict[str, Any]:
    if line.color not in {*PALETTE, INK}:
        raise BookError(f"line {line.label!r} has the colour {line.color!r}; take one of {[*PALETTE, INK]}")
    curves = {str(number): _by_choice(line, values, counts) for number, values in line.curves.items()}
    row = {"color": PALETTE.get(line.color, ""), "dash": list(line.dash), "curves": curves}
    return row if line.reading is None else row | {"reading": _by_choice(line, line.reading, counts)}


def _by_choice(line: Line, values: NDArray[Any], counts: Sequence[int]) -> dict[str, Any]:
    """Values [choices, ...] with or without points: the controls on which they depend, and a row for each choice."""
    shape = values.shape[: len(counts)]
    if len(shape) < len(counts) or any(size not in (1, count) for size, count in zip(shape, counts, strict=True)):
        raise BookError(f"line {line.label!r} has shape {values.shape}; the controls have {list(counts)} choices")
    by = [number for number, size in enumerate(shape) if size > 1]
    if values.ndim == len(counts):
        return {"by": by, "values": values.ravel().tolist()}
    return {"by": by, "values": [_short(row) for row in values.reshape(-1, values.shape[-1])]}


def _short(values: Sequence[float] | NDArray[np.float64]) -> list[float | None]:
    """The numbers to five digits, finer than a pixel; None for NaN."""
    short = [None if np.isnan(value) else float(f"{value:.5g}") for value in values]
    return [int(value) if value is not None and value.is_integer() else value for value in short]


def _first(line: Line, controls: Sequence[Control]) -> str:
    """The reading at the start, so that nothing moves when the script writes it again."""
    if line.reading is None:
        return ""
    said = np.broadcast_to(line.reading, [len(control.choices) for control in controls])
    return str(said[tuple(control.start for control in controls)])


def _text(words: str) -> Markup:
    """Words as HTML; formulas of letters, with scripts, need no MathJax, and so are there at once."""

    def script(match: re.Match[str]) -> str:
        tag = {"_": "sub", "^": "sup"}[match[1]]
        return f"<{tag}>{(match[2] or match[3]).replace('-', '−')}</{tag}>"

    formula = '<span class="by-hand-formula">{}</span>'
    return Markup(_FORMULA.sub(lambda m: formula.format(_SCRIPT.sub(script, m[1])), str(escape(words))))


def _plain(words: str) -> str:
    return words.replace("$", "")


_TEMPLATES = Environment(loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined)
_TEMPLATES.filters |= {"formulas": _text, "plain": _plain}
