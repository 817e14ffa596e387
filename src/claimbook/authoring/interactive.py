"""Interactive figures: curves for a grid of settings, computed beforehand; the page shows those of one setting.

The figure is hidden until the book's style sheet finds that scripts run (``book/_static/interactive.js``): on paper,
without scripts and outside the book the static figure above it stands alone.
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
from numpy.typing import ArrayLike, NDArray

from claimbook import BookError
from claimbook.authoring.figures import PALETTE
from claimbook.authoring.results import check_name, typeset
from claimbook.store.settings import choice

INK = "ink"  # the colour of the text, as black is in a static figure
_COLOURS = {**PALETTE, INK: ""}


@dataclass(frozen=True)
class Control:
    """A slider, or a list to choose from; ``start`` is the number of the first choice shown.

    In all texts of the figure ``$m$`` is set as a formula, with ``_`` and ``^`` at most.
    """

    label: str
    choices: Sequence[str]
    start: int
    kind: Literal["range", "select"] = "range"


@dataclass(frozen=True)
class Panel:
    """A pair of axes, whose limits stay while curves change, so that the eye can compare.

    Curves have their points at increasing ``x``; ``log`` names the logarithmic axes. A thin line marks the point that
    the control of number ``mark`` chooses.
    """

    x: Sequence[float]
    xlabel: str
    ylabel: str
    xticks: Sequence[float]
    yticks: Sequence[float]
    ylim: tuple[float, float]
    log: Literal["", "x", "y", "xy"] = ""
    mark: int | None = None


@dataclass(frozen=True)
class Line:
    """A curve on one panel or several, and its reading: a text under the controls.

    The color is a name of `figures.PALETTE` or `INK`, the dash the lengths of strokes and gaps. ``curves`` has values
    [choices of the first control, ..., points] by panel, ``reading`` texts [choices of the first control, ...]; an axis
    on which they do not depend has length 1. Nothing is drawn at NaN.
    """

    label: str
    color: str
    dash: tuple[int, ...]
    curves: Mapping[int, NDArray[np.float64]]
    reading: NDArray[np.str_]


@dataclass(frozen=True)
class Interactive:
    """Controls, what they change, and where it is drawn."""

    controls: Sequence[Control]
    panels: Sequence[Panel]
    lines: Sequence[Line]


def show(figure: Interactive, name: str, *, hint: str) -> None:
    """Show an interactive figure under the static one of that name; the hint says what to set and what to look for."""
    check_name("figure", name, "bias-by-m")
    try:
        data = json.dumps(table(figure), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError as error:  # of JSON, which has no infinity
        raise BookError(f"interactive figure {name!r} has a number that is not finite: {error}") from None
    counts, start = zip(*((len(control.choices), control.start) for control in figure.controls), strict=True)
    first = [str(np.broadcast_to(line.reading, counts)[start]) for line in figure.lines]
    about = {"name": name, "hint": hint, "first": first, "data": Markup(data.replace("<", "\\u003c"))}
    page = _TEMPLATES.get_template("interactive.html").render(about, figure=figure, colours=_COLOURS)
    display({"text/html": page}, raw=True, metadata={"sumexp": {"interactive": name}})  # type: ignore[no-untyped-call]


def say(values: NDArray[np.float64], spec: str = ".2g", unit: str = "") -> NDArray[np.str_]:
    """Numbers as text, in the same shape: ``0.00012`` with ``unit=" nats"`` is ``1.2 × 10⁻⁴ nats``."""
    return np.array(np.vectorize(lambda value: typeset(format(value, spec)) + unit, otypes=[np.str_])(values))


def table(figure: Interactive) -> dict[str, Any]:
    """What the page draws from: numbers and texts; curves and readings are nested lists, one level for each control."""
    if not (figure.controls and figure.panels and figure.lines):
        raise BookError("an interactive figure needs a control, a panel and a line: give one of each")
    for panel in figure.panels:
        if panel.mark not in (None, *range(len(figure.controls))):
            raise BookError(f"the panel of {panel.ylabel!r} marks control {panel.mark} of {len(figure.controls)}")
    for control in figure.controls:
        if control.start not in range(len(control.choices)):
            raise BookError(f"{control.label!r} starts at choice {control.start} of {len(control.choices)}")
    choices = [list(control.choices) for control in figure.controls]
    panels = [
        vars(panel)
        | {"x": _short(panel.x), "xticks": _ticks(panel.xticks), "yticks": _ticks(panel.yticks)}
        | {"xlabel": panel.xlabel.replace("$", ""), "ylabel": panel.ylabel.replace("$", "")}
        for panel in figure.panels
    ]
    return {"choices": choices, "panels": panels, "lines": [_line(line, figure) for line in figure.lines]}


def _ticks(values: Sequence[float]) -> dict[str, Any]:
    """Numbers and how they are written: 1,000 and 0.1, but all as powers of ten where some are too long for that."""
    far = any(value and not 1e-2 <= abs(value) < 1e5 for value in values)
    specs = [".0e" if far and value not in (0, 1, 10) else ",g" for value in values]
    labels = [typeset(format(value, spec)).removeprefix("1 × ") for value, spec in zip(values, specs, strict=True)]
    return {"at": _short(values), "labels": labels}


def _line(line: Line, figure: Interactive) -> dict[str, Any]:
    color = _COLOURS[choice("the colour of a line", line.color, _COLOURS)]
    counts, points = [len(control.choices) for control in figure.controls], [len(panel.x) for panel in figure.panels]
    for number, curve in line.curves.items():
        if number not in range(len(points)) or curve.shape[-1] != points[number]:
            raise BookError(f"line {line.label!r} has shape {curve.shape} on panel {number}; the panels have {points}")
    for values in (*line.curves.values(), line.reading[..., None]):
        shape = values.shape[:-1]
        if len(shape) != len(counts) or any(n not in (1, count) for n, count in zip(shape, counts, strict=True)):
            raise BookError(f"line {line.label!r} has shape {values.shape}; the controls have {counts} choices")
    curves = {str(number): _short(values) for number, values in line.curves.items()}
    return {"color": color, "dash": line.dash, "curves": curves, "reading": line.reading.tolist()}


def _short(values: ArrayLike) -> Any:
    """The numbers to five digits, finer than a pixel; None for NaN."""
    short = np.vectorize(lambda value: json.loads(f"{value:.5g}".replace("nan", "null")), otypes=[object])
    return short(values).tolist()


def _formulas(words: str) -> Markup:
    """Words as HTML; formulas of letters, with scripts, need no MathJax, and so are there at once."""
    formula = r'<span class="by-hand-formula">{}</span>'
    html = re.sub(r"\$(.+?)\$", lambda match: formula.format(match[1].replace("-", "−")), escape(words))
    for sign, tag in (("_", "sub"), (r"\^", "sup")):
        html = re.sub(rf"{sign}(?:\{{(.*?)\}}|(\w))", rf"<{tag}>\1\2</{tag}>", html)
    return Markup(html)


_TEMPLATES = Environment(loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined)
_TEMPLATES.filters["formulas"] = _formulas
