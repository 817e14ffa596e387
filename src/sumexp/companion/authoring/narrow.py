"""A figure's layout for a phone: panels under one another, letters as large as the text around them.

`stack` lays an existing figure out anew; whatever draws it draws it once. Legends, titles and labels that would be
wider than the phone's column are set in fewer columns or in more lines.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import NullFormatter
from matplotlib.transforms import Bbox

WIDTH = 3.7
"""Inches: the text column of a phone of 390 pixels, at the size where a 12 pt letter is as large as the text."""
TALLEST = 2.9
"""Inches of a panel, unless it has more rows of names than fit there."""
_LEGEND_SHARE = 0.55
"""Of a panel's width: a legend that is wider stands above the panel, as does one on something drawn."""
_NAMES_SHARE = 0.5
"""Of a panel's width: what names of its rows may take."""
_NUMBERS = 0.5
"""Inches that the numbers at a vertical axis take, about."""
_MARGIN = 0.7
"""Inches that the numbers at a horizontal axis and its label take, about."""

_LETTERS = re.compile(r"[^$]*[A-Za-z“]{2}")
_WORD = re.compile(r"(?:\$[^$]*\$|\S)+")


def stack(fig: Figure, columns: int | None = None) -> None:
    """Lay a figure with constrained layout out for a phone, in place.

    By default half as many panels stand side by side as did, so that none gets much narrower.
    """
    # The panels, without scales of colours.
    drawn = (ax for ax in fig.axes if ax.get_subplotspec() is not None and ax.get_label() != "<colorbar>")
    panels = sorted(drawn, key=_place)
    if not panels:
        return
    rows, across = np.max([_spec(ax).get_gridspec().get_geometry() for ax in panels], axis=0).tolist()
    columns = columns or max(1, across // 2)
    stacked = columns < across
    if stacked:
        _show_hidden_labels(panels, columns)
    across = min(columns, across)
    for ax in panels:
        _wrap_names(fig, ax, WIDTH / across)
        _drop_minor_labels(ax)
    heights = [_height(fig, ax) for ax in panels]
    if stacked:
        rows = math.ceil(len(panels) / columns)
        grid = GridSpec(rows, columns, figure=fig)
        for number, ax in enumerate(panels):
            ax.set_subplotspec(grid[divmod(number, columns)])
    tall = [max(h for h, ax in zip(heights, panels, strict=True) if _place(ax)[0] == row) for row in range(rows)]
    if stacked:
        grid.set_height_ratios(tall)
    fig.set_size_inches(WIDTH, sum(tall))
    for ax, height in zip(panels, heights, strict=True):
        _wrap_labels(fig, ax, WIDTH / across, height)
    extra = _refit_legends(fig, panels, across)
    fig.set_size_inches(WIDTH, sum(tall) + extra)


def _renderer(fig: Figure) -> Any:
    """Measures in the figure's pixels; what an artist was last drawn by measures in those of the file."""
    return FigureCanvasAgg(fig).get_renderer()  # type: ignore[no-untyped-call]


def _spec(ax: Axes) -> SubplotSpec:
    spec = ax.get_subplotspec()
    assert spec is not None
    return spec


def _place(ax: Axes) -> tuple[int, int]:
    return _spec(ax).rowspan.start, _spec(ax).colspan.start


def _height(fig: Figure, ax: Axes) -> float:
    """Inches of a panel on the phone: as many as it had, within `TALLEST`, and enough for the names of its rows."""
    ratios: Any = _spec(ax).get_gridspec().get_height_ratios()
    inches = fig.get_figheight() * sum(ratios[row] for row in _spec(ax).rowspan) / sum(ratios)
    names = [label.get_text() for label in _names(ax)]
    rows = len(names) * (0.12 + 0.22 * max((1 + name.count("\n") for name in names), default=0))
    return float(max(rows + 0.8 if rows else 0, min(inches, TALLEST)))


def _names(ax: Axes) -> list[Text]:
    """The labels of the vertical axis if they are words; none if they are numbers."""
    labels = ax.get_yticklabels()
    return labels if any(_LETTERS.match(label.get_text()) for label in labels) else []


def _show_hidden_labels(panels: Sequence[Axes], columns: int) -> None:
    """Give each panel the labels that it had from its neighbours: of its row at the left, of its column below.

    A title that stood over a column stands over each of its panels.
    """
    for number, ax in enumerate(panels):
        row, column = _place(ax)
        left = next(each for each in panels if _place(each)[0] == row)
        in_column = [each for each in panels if _place(each)[1] == column]
        if len(ax.get_shared_y_axes().get_siblings(ax)) > 1 and number % columns == 0:
            ax.yaxis.set_tick_params(labelleft=True)
            ax.set_ylabel(ax.get_ylabel() or left.get_ylabel())
        if len(ax.get_shared_x_axes().get_siblings(ax)) > 1:
            ax.xaxis.set_tick_params(labelbottom=True)
        ax.set_xlabel(ax.get_xlabel() or in_column[-1].get_xlabel())
        if not ax.get_title():
            ax.set_title(in_column[0].get_title())


def _drop_minor_labels(ax: Axes) -> None:
    """Leave the powers of ten at a logarithmic axis alone, where they are enough to read it."""
    for axis, enough in ((ax.xaxis, 1), (ax.yaxis, 2)):
        low, high = sorted(axis.get_view_interval())
        if axis.get_scale() == "log" and sum(low <= tick <= high for tick in axis.get_majorticklocs()) >= enough:
            axis.set_minor_formatter(NullFormatter())


def _wrap_names(fig: Figure, ax: Axes, width: float) -> None:
    """Break names of rows that are longer than their room in a panel of this width, in inches."""
    renderer, names = _renderer(fig), _names(ax)
    for name in names:
        _wrap(name, renderer, _NAMES_SHARE * fig.dpi * width)
    if names:
        ax.set_yticks(ax.get_yticks(), [name.get_text() for name in names])


def _wrap_labels(fig: Figure, ax: Axes, width: float, height: float) -> None:
    """Break a panel's title and labels where they are longer than its room, in inches."""
    renderer, dpi, names = _renderer(fig), fig.dpi, _names(ax)
    _wrap(ax.yaxis.label, renderer, dpi * (height - _MARGIN), upright=True)
    label = ax.yaxis.label.get_window_extent(renderer).width if ax.get_ylabel() else 0.0
    left = max([0.0, *(name.get_window_extent(renderer).width for name in names)]) if names else _NUMBERS * dpi
    room = dpi * (width - _NUMBERS / 2) - left - label  # they are centred over the panel
    _wrap(ax.title, renderer, room)
    _wrap(ax.xaxis.label, renderer, room)


def _wrap(text: Text, renderer: Any, room: float, upright: bool = False) -> None:
    """Set a text in as many lines as fit the room, in pixels; formulas stay whole."""
    box = text.get_window_extent(renderer)
    length, words = (box.height if upright else box.width), _WORD.findall(text.get_text())
    if length <= room or len(words) < 2:
        return
    most = max(1, int(len(text.get_text()) * room / length))
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    text.set_text("\n".join(lines))


def _refit_legends(fig: Figure, panels: Sequence[Axes], across: int) -> float:
    """Make legends fit the phone; gives the inches that those above the panels take."""
    known = {label: handle for ax in panels for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    renderer = _renderer(fig)
    extra = sum(_fitted(fig, fig, legend, known) for legend in list(fig.legends))
    fig.draw_without_rendering()
    for ax, own in [(ax, own) for ax in panels if (own := ax.get_legend())]:
        box = own.get_window_extent(renderer)
        if box.width > _LEGEND_SHARE * fig.bbox.width / across or _is_drawn_in(ax, box):
            extra += _fitted(fig, fig if len(panels) == 1 else ax, own, known)
    return extra


def _is_drawn_in(ax: Axes, box: Bbox) -> bool:
    """Whether a line, a marker, a bar or an area of the panel reaches into a box, in pixels."""
    for line in ax.get_lines():
        path = line.get_path().transformed(line.get_transform())
        joined = line.get_linestyle() not in ("None", "", " ")
        if path.intersects_bbox(box, filled=False) if joined else box.count_contains(path.vertices):
            return True
    if any(patch.get_path().transformed(patch.get_transform()).intersects_bbox(box) for patch in ax.patches):
        return True
    for each in ax.collections:
        if isinstance(each, PathCollection):
            if box.count_contains(each.get_offset_transform().transform(each.get_offsets())):
                return True
        elif any(path.transformed(each.get_transform()).intersects_bbox(box) for path in each.get_paths()):
            return True
    return False


def _fitted(fig: Figure, owner: Figure | Axes, legend: Legend, known: dict[str, Any]) -> float:
    """The legend anew, above the panels, in as many columns as fit; gives its height in inches."""
    texts, size = [each.get_text() for each in legend.get_texts()], legend.get_texts()[0].get_fontsize()
    handles: Any = [known.get(text, handle) for text, handle in zip(texts, legend.legend_handles, strict=True)]
    title, renderer = legend.get_title().get_text() or None, _renderer(fig)
    legend.remove()
    above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    where = above if isinstance(owner, Axes) else {"loc": "outside upper center"}
    for columns in range(max(1, int(legend._ncols)), 0, -1):  # type: ignore[attr-defined]
        new = owner.legend(handles, texts, ncols=columns, fontsize=size, title=title, **where)
        if columns == 1 or new.get_window_extent(renderer).width <= fig.bbox.width:
            break
        new.remove()
    longest = max(each.get_window_extent(renderer).width for each in new.get_texts())
    room = fig.bbox.width - (new.get_window_extent(renderer).width - longest)
    for each in new.get_texts():
        _wrap(each, renderer, room)
    height = float(new.get_window_extent(renderer).height / fig.dpi)
    if isinstance(owner, Axes) and owner.get_title():
        owner.set_title(owner.get_title(), pad=72 * height + 10)
    return height
