"""What a figure draws as a table: its lines, points, bars, areas and images, as CSV with the same bytes every time.

The numbers are those that matplotlib was given, in the figure's own coordinates, at seven significant digits.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon, StepPatch
from numpy.typing import ArrayLike, NDArray

COLUMNS = ("panel", "series", "kind", "part", "x", "y", "base", "value")
"""``part`` tells pieces of a series apart, ``base`` is where a bar begins, ``value`` what a colour stands for.

A column that a figure has no use for is left out.
"""

Row: TypeAlias = Mapping[str, str | float]


def table(fig: Figure) -> str:
    """What a figure draws, as CSV: a row a point, with its panel and its series; empty if it draws no numbers.

    A panel is called by its title, else by its number; a series by its label in the legend, else by its number in the
    panel. A line across a panel (``axhline``) has one coordinate, the other is left empty.
    """
    rows = [
        {"panel": _title(ax) or f"panel {number}", **row}
        for number, ax in enumerate(_panels(fig), 1)
        for row in _drawn(ax)
    ]
    if not rows:
        return ""
    used = [name for name in COLUMNS if any(row.get(name, "") != "" for row in rows)]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(used)
    writer.writerows([_cell(row.get(name, "")) for name in used] for row in rows)
    return file.getvalue()


def _cell(value: str | float) -> str:
    """A text as it is; of a number seven digits, nothing for what is none, and one zero only."""
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else f"{value + 0.0:.7g}"


def _panels(fig: Figure) -> Iterator[Axes]:
    """The panels, with those inside others, without scales of colours."""
    for ax in fig.axes:
        if ax.get_label() != "<colorbar>":
            yield ax
            yield from (inner for inner in ax.child_axes if isinstance(inner, Axes))


def _title(ax: Axes) -> str:
    return " ".join(title for where in ("left", "center", "right") if (title := ax.get_title(where))).replace("\n", " ")


def _drawn(ax: Axes) -> Iterator[Row]:
    """The rows of one panel: what is grouped (bars, bars of error) first, then the rest in the order of drawing."""
    errors = [group for group in ax.containers if isinstance(group, ErrorbarContainer)]
    labels = {part: group.get_label() for group in errors for part in (group[0], *group[2])}
    caps = {end for group in errors for end in group[1]}  # they stand where the segments end
    drawn: list[Artist | BarContainer] = [group for group in ax.containers if isinstance(group, BarContainer)]
    drawn += [child for child in ax.get_children() if child.get_visible() and child not in caps]
    found = [(artist, rows) for artist in drawn if (rows := list(_rows(ax, artist)))]
    for number, (artist, rows) in enumerate(found, 1):
        own = [str(label) for label in (artist.get_label(), labels.get(artist)) if label]
        name = next((label for label in own if not label.startswith("_")), str(number))
        yield from ({"series": name.replace("\n", " "), **row} for row in rows)


def _rows(ax: Axes, artist: Artist | BarContainer) -> Iterator[Row]:
    """What one artist draws; nothing if it is no data: a text, a frame, an arrow, what is placed on the page."""
    match artist:
        case BarContainer():  # where each bar ends and begins
            upright = artist.orientation != "horizontal"
            for bar in artist.patches:
                (left, bottom), (right, top) = bar.get_bbox().get_points().tolist()
                end, base = (top, bottom) if upright else (right, left)
                middle = (left + right) / 2 if upright else (bottom + top) / 2
                yield {"kind": "bar", "base": base} | dict(zip("xy" if upright else "yx", (middle, end), strict=True))
        case Line2D():
            x_is_data, y_is_data = artist.get_transform().contains_branch_seperately(ax.transData)
            for x, y in np.asarray(artist.get_xydata(), dtype=float):
                yield {"kind": "line", "x": x if x_is_data else np.nan, "y": y if y_is_data else np.nan}
        case AxesImage():  # each row of pixels, from left to right; of a picture in colours the mean of its channels
            values: NDArray[np.float64] = np.ma.filled(np.ma.asarray(artist.get_array(), dtype=float), np.nan)
            for number, row in enumerate(values[..., :3].mean(-1) if values.ndim == 3 else values):
                yield {"kind": "pixels", "y": float(number), "value": " ".join(f"{one + 0.0:.3g}" for one in row)}
        case ContourSet():
            for level, paths in zip(artist.levels, artist.get_paths(), strict=False):
                yield from _paths("contour", paths.to_polygons(closed_only=False), value=float(level))
        case PathCollection():
            shades = artist.get_array()
            for i, (x, y) in enumerate(np.asarray(artist.get_offsets(), dtype=float)):
                yield {"kind": "point", "x": x, "y": y} | ({} if shades is None else {"value": float(shades[i])})
        case StepPatch():
            heights, edges, _ = artist.get_data()
            for x, y in zip(edges, [*heights, heights[-1]], strict=True):
                yield {"kind": "step", "x": float(x), "y": float(y)}
        case LineCollection() | PolyCollection() | Polygon() if artist.get_transform().contains_branch(ax.transData):
            match artist:
                case LineCollection():
                    yield from _paths("segment", artist.get_segments())
                case PolyCollection():
                    yield from _paths("area", [path.vertices for path in artist.get_paths()])
                case Polygon():
                    yield from _paths("area", [artist.get_xy()])


def _paths(kind: str, paths: Iterable[ArrayLike], **more: float) -> Iterator[Row]:
    """The corners of each path; ``part`` counts the paths."""
    for part, corners in enumerate(paths, 1):
        for x, y in np.asarray(corners, dtype=float):
            yield {"kind": kind, "part": float(part), "x": float(x), "y": float(y), **more}
