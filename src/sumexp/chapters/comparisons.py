"""Points with intervals and cells of tables, shared by the chapters that compare trained methods."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from sumexp.chapters.intervals import Interval, interval
from sumexp.chapters.models.sampled.comparison import Values

GROUP_STYLES: Mapping[str, Mapping[str, Any]] = {
    "head": {"color": "C0", "marker": "s"},
    "torso": {"color": "C4", "marker": "^"},
    "tail": {"color": "C1", "marker": "o"},
    "full": {"color": "black", "marker": "D"},
}
"""How each group of classes is drawn in every chapter, in the colours of the book."""
_ROW = 0.6
"""The share of a row's height that its series take."""


def points(
    ax: Axes,
    names: Sequence[str],
    values: Mapping[str, Sequence[Values]],
    styles: Mapping[str, Mapping[str, Any]] = GROUP_STYLES,
) -> None:
    """Draw the mean over seeds of each method with its 95 % interval, a row for each method, from the top down.

    ``values`` has, for each series, the numbers of each method [seeds]. The series of a row are offset vertically.
    """
    for number, (group, rows) in enumerate(values.items()):
        spans = [interval(row) for row in rows]
        shift = _ROW * ((number + 0.5) / len(values) - 0.5)
        style = {"ls": "", "capsize": 2, "label": group, **styles[group]}
        places = [place + shift for place in range(len(spans))]
        ax.errorbar([span.mean for span in spans], places, xerr=reach(spans), **style)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)


def reach(spans: Sequence[Interval]) -> NDArray[np.float64]:
    """How far each interval reaches below and above its mean, as `errorbar` takes it [2, n]."""
    return np.array([[span.mean - span.low for span in spans], [span.high - span.mean for span in spans]])


def ranked(values: Sequence[Values]) -> list[int]:
    """Indices of the methods, sorted by their means over seeds."""
    return sorted(range(len(values)), key=lambda number: float(np.mean(values[number])))
