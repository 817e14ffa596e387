"""The order of methods that label frequencies predict against the measured one, a method at a time."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from claimbook.authoring.interactive import INK, Control, Interactive, Line, Plane
from claimbook.authoring.results import typeset
from sumexp.chapters.intervals import interval
from sumexp.chapters.models.sampled import comparison
from sumexp.chapters.models.sampled.methods import Method

Found = Mapping[Method, tuple[float, NDArray[np.float64]]]
"""Of each method what is predicted that it adds, and the error of each seed."""


def orders(groups: Mapping[str, Found], start: str) -> Interactive:
    """The figure: error over prediction, and measured place over predicted place, with one method picked out.

    The groups of classes, of which ``start`` is shown first, have the same methods.
    Source: `sumexp.chapters.models.sampled.comparison.order`, which raises `ValueError`.
    """
    methods = sorted(groups[start])
    controls = (
        Control("classes", list(groups), list(groups).index(start), "select"),
        Control("method", [f"{m.name}, m = {m.negatives}" if m.negatives else m.name for m in methods], 0, "select"),
    )
    dots = np.array([points(forecasts, methods) for forecasts in groups.values()])
    places = np.array([ranks(group_dots) for group_dots in dots])
    bars = np.array([spans(forecasts, methods) for forecasts in groups.values()])
    middle = dots[:, :, 1].mean(1)
    dots[..., 1] -= middle[:, None]
    bars[..., 1] -= middle[:, None, None]
    said = np.array([[agreement(forecasts)] for forecasts in groups.values()])
    own = np.array([pairs(forecasts, methods) for forecasts in groups.values()])
    right = np.array([[1.0, 1.0], [len(methods), len(methods)]])
    lines = (
        Line("every method", INK, (), {0: dots[:, None], 1: places[:, None]}, said, "dots"),
        Line("a prediction that is right", "grey", (8, 4), {1: right[None, None]}),
        Line("95 % interval over seeds", "vermilion", (2, 2), {0: bars}),
        Line("the method", "vermilion", (), {0: dots[:, :, None], 1: places[:, :, None]}, own, "dots"),
    )
    return Interactive(controls, (_offsets(dots), _places(len(methods))), lines)


def points(forecasts: Found, methods: Sequence[Method]) -> NDArray[np.float64]:
    """Prediction and mean error, [methods, 2]."""
    return np.array([[forecasts[method][0], np.mean(forecasts[method][1])] for method in methods])


def ranks(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Predicted place, the largest offset first, and measured place, the least error first, [methods, 2]."""
    return np.stack([rankdata(-np.round(places[:, 0] / 1e-3)), rankdata(places[:, 1])], -1)


def spans(forecasts: Found, methods: Sequence[Method]) -> NDArray[np.float64]:
    """The ends of each method's interval, [methods, 2, 2]."""
    rows = [(forecasts[method][0], interval(forecasts[method][1])) for method in methods]
    return np.array([[[x, y.low], [x, y.high]] for x, y in rows])


def agreement(forecasts: Found) -> str:
    """What is said of all methods."""
    order = comparison.order(*_parts(forecasts))
    tau = typeset(f"{order.tau.mean:.2f}")
    return f"{order.right} of {order.right + order.wrong} pairs in order (tau {tau})"


def pairs(forecasts: Found, methods: Sequence[Method]) -> list[str]:
    """What is said of each method: how many of its pairs with another the prediction has right."""
    ends = comparison.signs(*_parts({method: forecasts[method] for method in methods}))
    agreed = ends.measured * ends.predicted
    return [
        f"{right} of its {either} pairs right"
        for right, either in zip((agreed == 1).sum(1), (agreed != 0).sum(1), strict=True)
    ]


def _parts(forecasts: Found) -> tuple[Mapping[Method, float], Mapping[Method, NDArray[np.float64]]]:
    """What is predicted, and what is measured."""
    return {method: x for method, (x, _) in forecasts.items()}, {method: y for method, (_, y) in forecasts.items()}


def _offsets(dots: NDArray[np.float64]) -> Plane:
    """Axes that hold all groups: errors are compared within a group, whose mean is 0."""
    low, high = float(np.floor(dots[..., 0].min())), float(np.ceil(dots[..., 0].max()))
    reach = math.ceil(10 * np.abs(dots[..., 1]).max()) / 10
    ticks = np.arange(low, high + 1).tolist(), (-reach, -reach / 2, 0, reach / 2, reach)
    return Plane("predicted offset", "error − mean", *ticks, (low, high), (-reach, reach))


def _places(count: int) -> Plane:
    ticks = [1, *range(10, count + 1, 10)]
    return Plane("predicted rank", "measured rank", ticks, ticks, (0, count + 1), (0, count + 1))
