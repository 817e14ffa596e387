"""A figure's layout for a phone: panels under one another, letters as large as the text around them."""

import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.legend import Legend
from matplotlib.text import Text

WIDTH = 3.7
"""Inches: the text column of a phone of 390 pixels, at the size where a 12 pt letter is as large as the text."""
TALLEST = 2.9
"""Inches of a panel, unless it has more rows of names than fit there."""


def stack(fig: Figure, columns: int | None = None) -> None:
    """Lay a grid of panels with constrained layout out for a phone, in place.

    By default half as many panels stand side by side as did, so that none gets much narrower.
    """
    places = {ax: spec for ax in fig.axes if (spec := ax.get_subplotspec()) is not None}
    panels: list[Any] = sorted(places, key=lambda ax: places[ax].num1)
    grid: Any = places[panels[0]].get_gridspec()
    height = fig.get_figheight() / grid.nrows
    columns = min(grid.ncols, columns or max(1, grid.ncols // 2))
    if columns < grid.ncols:
        _show_hidden_labels(panels, columns)
        grid = GridSpec(math.ceil(len(panels) / columns), columns, figure=fig)
        for number, ax in enumerate(panels):
            ax.set_subplotspec(grid[divmod(number, columns)])
    tall = [0.0] * grid.nrows
    for ax in panels:
        row = ax.get_subplotspec().rowspan.start
        tall[row] = max(tall[row], _fit_texts(fig, ax, WIDTH / columns, height))
    grid.set_height_ratios(tall)
    fig.set_size_inches(WIDTH, sum(tall))
    extra = sum(_place_above(fig, fig, legend, WIDTH) for legend in list(fig.legends))
    for ax in panels:
        if legend := ax.get_legend():
            extra += _place_above(fig, fig if len(panels) == 1 else ax, legend, WIDTH / columns)
    fig.set_size_inches(WIDTH, sum(tall) + extra)


def _show_hidden_labels(panels: Sequence[Any], columns: int) -> None:
    """Give each panel the labels that it shared: those of the leftmost in its row and the lowest in its column."""
    places = [(ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start, ax) for ax in panels]
    for number, (row, column, ax) in enumerate(places):
        left = next(other for of, _, other in places if of == row)
        in_column = [other for _, of, other in places if of == column]
        if len(ax.get_shared_y_axes().get_siblings(ax)) > 1 and number % columns == 0:
            ax.yaxis.set_tick_params(labelleft=True)
            ax.set_ylabel(ax.get_ylabel() or left.get_ylabel())
        ax.xaxis.set_tick_params(labelbottom=True)
        ax.set_xlabel(ax.get_xlabel() or in_column[-1].get_xlabel())
        ax.set_title(ax.get_title() or in_column[0].get_title())


def _fit_texts(fig: Figure, ax: Axes, width: float, height: float) -> float:
    """Wrap a panel's texts; returns its height in inches."""
    left, height = 1.0, min(TALLEST, height)
    if names := [label for label in ax.get_yticklabels() if re.match(r"[^$]*[A-Za-z“]{2}", label.get_text())]:
        for name in names:
            _wrap(fig, name, width / 2)
        ax.set_yticks(ax.get_yticks(), [name.get_text() for name in names])
        left = max(_length(fig, name) for name in names) + 0.4
        height = max(height, 0.8 + sum(0.12 + 0.22 * (1 + name.get_text().count("\n")) for name in names))
    _wrap(fig, ax.title, width - left)
    _wrap(fig, ax.xaxis.label, width - left)
    _wrap(fig, ax.yaxis.label, height - 0.8, upright=True)
    return height


def _wrap(fig: Figure, text: Text, room: float, upright: bool = False) -> None:
    """Wrap a text that is wider than the room, in inches; formulas stay whole."""
    length, words = _length(fig, text, upright), text.get_text()
    if length <= max(room, 0.1):
        return
    most = int(len(words) * room / length)
    whole = re.sub(r"\$[^$]*\$", lambda formula: formula[0].replace(" ", "\xa0"), words)
    lines = textwrap.fill(whole, max(1, most), break_long_words=False, break_on_hyphens=False)
    text.set_text(lines.replace("\xa0", " "))


def _length(fig: Figure, text: Text, upright: bool = False) -> float:
    """The width of a text in inches, or its height."""
    box = text.get_window_extent()
    return float(box.height if upright else box.width) / fig.dpi


def _place_above(fig: Figure, owner: Any, legend: Legend, room: float) -> float:
    """Redraw a legend above its panels, in as many columns as fit; returns its height in inches."""
    texts = [text.get_text() for text in legend.get_texts()]
    known = {label: handle for ax in fig.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    handles = [known.get(text, handle) for text, handle in zip(texts, legend.legend_handles, strict=True)]
    style: dict[str, Any] = {"loc": "outside upper center", "fontsize": legend.get_texts()[0].get_fontsize()}
    if isinstance(owner, Axes):
        style |= {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    for count in range(len(texts), 0, -1):
        legend.remove()
        legend = owner.legend(handles, texts, ncols=count, **style)
        if legend.get_window_extent().width <= room * fig.dpi:
            break
    for text in legend.get_texts():
        _wrap(fig, text, room - 0.6)
    height = float(legend.get_window_extent().height / fig.dpi)
    if isinstance(owner, Axes) and owner.get_title():
        owner.set_title(owner.get_title(), pad=72 * height + 10)
    return height
