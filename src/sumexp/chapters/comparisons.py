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
"""Of the room of a row: what its series take."""
ORDER_HEADS = ("tau (1 is best)", "95 % interval")
"""Of the columns of `order_cells`."""


def points(
    ax: Axes,
    names: Sequence[str],
    values: Mapping[str, Sequence[Values]],
    styles: Mapping[str, Mapping[str, Any]] = GROUP_STYLES,
) -> None:
    """Draw the mean over seeds of each method with its 95 % interval, a row a method, from the top down.

    The values are, of each series, for each method a number a seed [seeds]. The series of a row stand a little above
    and below one another, so that none hides another.
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
    """The methods' numbers in the order of their means over seeds, the least first."""
    return sorted(range(len(values)), key=lambda number: float(np.mean(values[number])))


def order_cells(tau: Interval) -> tuple[str, ...]:
    """A predicted order against the measured one."""
    return f"{tau.mean:z.2f}", f"[{tau.low:z.2f}, {tau.high:z.2f}]"
