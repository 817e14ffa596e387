"""The numbers that a figure draws as CSV, in the coordinates of its axes, with the same bytes every time."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.category import StrCategoryLocator
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.ticker import FixedLocator

from claimbook import BookError

FIRST, LAST = ("panel", "series", "kind"), ("low", "high", "base", "value")
"""Columns before those of the axes and after them: an interval's ends, where a bar begins, what a colour stands for."""

Row: TypeAlias = Mapping[str, str | float]


def table(fig: Figure) -> str:
    """A row for each point, with its panel and its series; empty if the figure draws no numbers.

    A panel is named by its title or number, a series by its label or number, a coordinate by the label of its axis.
    Where words stand along an axis, a point has the nearest word. A line across a panel (``axhline``) has one
    coordinate. A column that tells nothing is left out. Raises `BookError` at what has no numbers.
    """
    panels: list[Any] = [ax for ax in fig.axes if ax.get_label() != "<colorbar>"]
    titles = [" ".join(filter(None, map(ax.get_title, ("left", "center", "right")))) for ax in panels]
    named = [title or f"panel {n}" for n, title in enumerate(titles, 1)]
    rows = [{"panel": name, **row} for name, ax in zip(named, panels, strict=True) for row in _drawn(ax)]
    axes = dict.fromkeys(name for row in rows for name in row if name not in (*FIRST, *LAST))
    used = [name for name in (*FIRST, *axes, *LAST) if _tells(name, {row.get(name, "") for row in rows})]
    file = io.StringIO()
    lines: list[Row] = [dict(zip(used, used, strict=True)), *rows] if rows else []
    csv.writer(file, lineterminator="\n").writerows([_cell(line.get(name, "")) for name in used] for line in lines)
    return file.getvalue()


def _tells(name: str, values: set[str | float]) -> bool:
    """Whether a column is needed: panels or kinds if there are several, series if any has a name."""
    if name in ("panel", "kind"):
        return len(values) > 1
    return any(isinstance(value, str) for value in values) if name == "series" else values != {""}


def _cell(value: str | float) -> str:
    """A text in one line; of a number seven digits, nothing for NaN, and zero without a sign."""
    return value.replace("\n", " ") if isinstance(value, str) else f"{value + 0.0:.7g}".replace("nan", "")


def _drawn(ax: Axes) -> Iterator[Row]:
    """The rows of a panel: groups (bars, points with intervals) first, then the rest in order of drawing."""
    parts = {part for group in ax.containers for part in group.get_children()}
    others = [child for child in ax.get_children() if child.get_visible() and child not in parts]
    artists: list[Any] = [*ax.containers, *others]
    data = [(artist, rows) for artist in artists if (rows := list(_rows(ax, artist)))]
    columns = {side: _column(ax, side) for side in ("x", "y")}
    for number, (artist, rows) in enumerate(data, 1):
        label = str(artist.get_label() or "_")
        for row in rows:
            named: dict[str, str | float] = {"series": float(number) if label.startswith("_") else label}
            for key, value in row.items():
                name, words = columns.get(key, (key, {}))
                if words and isinstance(place := value, float) and not np.isnan(place):
                    value = words[min(words, key=lambda tick: abs(tick - place))]
                named[name] = value
            yield named


def _column(ax: Axes, side: str) -> tuple[str, Mapping[float, str]]:
    """The label of an axis, or of a panel that shares it, and the words along it; none if they are numbers."""
    sharing = getattr(ax, f"get_shared_{side}_axes")().get_siblings(ax)
    label = next(filter(None, (_label(panel, side) for panel in (ax, *sharing))), "")
    axis = getattr(ax, f"{side}axis")
    words: dict[float, str] = {}
    if isinstance(axis.get_major_locator(), FixedLocator | StrCategoryLocator):
        places = [float(place) for place in axis.get_majorticklocs()]
        words = dict(zip(places, map(str, axis.get_major_formatter().format_ticks(places)), strict=True))
    if not any(re.search(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", word)) for word in words.values()):
        words = {}  # fixed numbers
    name = label or ("name" if words else side)
    is_taken = name in (_label(ax, "y" if side == "x" else "x"), *FIRST, *LAST)
    return (f"{name} ({side})" if is_taken else name), words


def _label(ax: Axes, side: str) -> str:
    return str(getattr(ax, f"{side}axis").get_label_text()).strip()


def _rows(ax: Axes, artist: Artist | BarContainer | ErrorbarContainer) -> Iterator[Row]:
    """The data that an artist draws; none for texts, frames, arrows and what is placed on the page."""
    match artist:
        case (None, *_) | AxesImage() if not isinstance(artist, AxesImage) or np.asarray(artist.get_array()).ndim > 2:
            raise BookError(f"{artist} has no numbers for the CSV: draw intervals with ls='', images without colours")
        case ErrorbarContainer():  # a point with its interval; of two, that of y
            line, _, bars = artist
            along = 1 if artist.has_yerr else 0
            for (x, y), ends in zip(line.get_xydata(), bars[-1].get_segments(), strict=True):
                spread = dict(zip(("low", "high"), ends[:, along], strict=True)) if len(ends) else {}
                yield {"kind": "point", "x": x, "y": y, **spread}
        case BarContainer():  # where each bar ends and begins
            for bar in artist.patches:
                (left, bottom), (right, top) = bar.get_bbox().get_points().tolist()
                upright = {"base": bottom, "x": (left + right) / 2, "y": top}
                lying = {"base": left, "x": right, "y": (bottom + top) / 2}
                yield {"kind": "bar", **(lying if artist.orientation == "horizontal" else upright)}
        case Line2D():
            is_data = artist.get_transform().contains_branch_seperately(ax.transData)
            yield from _points("line", np.where(is_data, np.asarray(artist.get_xydata(), dtype=float), np.nan))
        case AxesImage():  # each row of pixels, from left to right
            for number, pixels in enumerate(np.asarray(artist.get_array(), dtype=float)):
                yield {"kind": "pixels", "y": float(number), "value": " ".join(f"{v + 0.0:.3g}" for v in pixels)}
        case PathCollection():
            yield from _points("point", artist.get_offsets())
        case ContourSet():
            for level, paths in zip(artist.levels, artist.get_paths(), strict=False):
                for corners in paths.to_polygons(closed_only=False):
                    yield from ({**row, "value": float(level)} for row in _points("contour", corners))
        case PolyCollection() | Polygon() if artist.get_transform().contains_branch(ax.transData):
            for path in [artist.get_path()] if isinstance(artist, Polygon) else artist.get_paths():
                yield from _points("area", path.vertices)


def _points(kind: str, corners: object) -> Iterator[Row]:
    for x, y in np.asarray(corners, dtype=float):
        yield {"kind": kind, "x": x, "y": y}
