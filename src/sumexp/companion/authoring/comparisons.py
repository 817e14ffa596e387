"""What chapters that compare trained methods print and draw alike: points with intervals, and lines of tables."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from sumexp.chapters.intervals import Interval, Outcome, interval, outcome
from sumexp.chapters.models.sampled.comparison import Order, Values
from sumexp.companion.authoring.figures import PALETTE

GROUP_STYLES: Mapping[str, Mapping[str, Any]] = {
    "head": {"color": PALETTE["blue"], "marker": "s"},
    "torso": {"color": PALETTE["ochre"], "marker": "^"},
    "tail": {"color": PALETTE["vermilion"], "marker": "o"},
    "full": {"color": "black", "marker": "D"},
}
"""How each group of classes is drawn in every chapter."""

WORDS: Mapping[Outcome, str] = {
    "less": "less",
    "more": "more",
    "alike": "no difference",
    "no room": "no room",
    "undecided": "undecided",
}
"""What is said of a difference."""

DIFFERENCES = "on    difference  interval          seen  says"
"""Above the lines of `difference_row`."""

ORDERS = "   tau   interval           p   pairs right  wrong  tied"
"""Above the lines of `order_row`; p by permutations, and tied are pairs that the prediction does not tell apart."""


def points(ax: Axes, names: Sequence[str], values: Mapping[str, Sequence[Values]]) -> None:
    """Draw the mean over seeds of each method and group with its 95 % interval, methods from left to right.

    Args:
        ax: where.
        names: of the methods.
        values: of each group, for each method a number a seed [seeds].
    """
    for group, rows in values.items():
        spans = [interval(row) for row in rows]
        style = {"ls": "", "capsize": 2, "label": group, **GROUP_STYLES[group]}
        ax.errorbar(
            range(len(spans)),
            [span.mean for span in spans],
            [span.half_width for span in spans],
            **style,
        )
    ax.set_xticks(range(len(names)), names, rotation=90)


def difference_row(group: str, difference: Interval, margin: float, room: float = math.inf) -> str:
    """A difference of two methods on a group: its interval, what the design could have seen, and what it says."""
    numbers = f"{difference.mean:9.3f}   [{difference.low:6.3f}, {difference.high:6.3f}] {difference.seen():6.3f}"
    return f"{group:5s} {numbers} {WORDS[outcome(difference, margin, room)]}"


def order_row(order: Order) -> str:
    """A predicted order against the measured one."""
    tau = order.rank.correlation
    counts = f"{order.right:10d}{order.wrong:7d}{order.untold:6d}"
    return f"{tau.mean:6.2f}   [{tau.low:5.2f}, {tau.high:5.2f}] {order.rank.p:8.4f}{counts}"
