"""The order of methods that label frequencies predict against the measured one, a method at a time."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from sumexp.companion.authoring.interactive import INK, Control, Interactive, Line, Plane
from sumexp.companion.authoring.results import typeset
from sumexp.intervals import interval
from sumexp.models.sampled import comparison
from sumexp.models.sampled.methods import Method

Found = Mapping[Method, tuple[float, NDArray[np.float64]]]
"""Of each method what is predicted that it adds, and the error of each seed."""


def orders(found: Mapping[str, Found], start: str) -> Interactive:
    """The figure: error over prediction, and measured place over predicted place, with one method picked out.

    Args:
        found: of each group of classes, of the same methods.
        start: the group that is shown first.

    Source: `sumexp.models.sampled.comparison.order`.

    Raises:
        ValueError: as `sumexp.models.sampled.comparison.order`, or if start is no group.
    """
    methods = sorted(found[start])
    controls = (
        Control("classes", list(found), list(found).index(start), "select"),
        Control("method", [name(one) for one in methods], 0),
    )
    dots = np.array([points(one, methods) for one in found.values()])
    places = np.array([ranks(one) for one in dots])
    bars = np.array([spans(one, methods) for one in found.values()])
    middle = dots[:, :, 1].mean(1)
    dots[..., 1] -= middle[:, None]
    bars[..., 1] -= middle[:, None, None]
    said = np.array([[agreement(one)] for one in found.values()])
    own = np.array([pairs(one, methods) for one in found.values()])
    right = np.array([[1.0, 1.0], [len(methods), len(methods)]])
    lines = (
        Line("every method", INK, (), {0: dots[:, None], 1: places[:, None]}, said, "dots"),
        Line("a prediction that is right", "grey", (8, 4), {1: right[None, None]}),
        Line("95 % interval over seeds", "vermilion", (2, 2), {0: bars}),
        Line("the method", "vermilion", (), {0: dots[:, :, None], 1: places[:, :, None]}, own, "dots"),
    )
    return Interactive(controls, (_offsets(dots), _places(len(methods))), lines)


def name(method: Method) -> str:
    """With the number of its negatives."""
    return f"{method.name}, m = {method.negatives}" if method.negatives else method.name


def points(found: Found, methods: Sequence[Method]) -> NDArray[np.float64]:
    """Prediction and mean error, [methods, 2]."""
    return np.array([[found[one][0], np.mean(found[one][1])] for one in methods])


def ranks(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Predicted place, the largest offset first, and measured place, the least error first, [methods, 2]."""
    return np.stack([rankdata(-np.round(places[:, 0] / 1e-3)), rankdata(places[:, 1])], -1)


def spans(found: Found, methods: Sequence[Method]) -> NDArray[np.float64]:
    """The ends of each method's interval, [methods, 2, 2]."""
    rows = [(found[one][0], interval(found[one][1])) for one in methods]
    return np.array([[[x, y.low], [x, y.high]] for x, y in rows])


def agreement(found: Found) -> str:
    """What is said of all methods."""
    order = comparison.order(*_parts(found))
    tau = typeset(f"{order.correlation.mean:.2f}")
    return f"tau {tau}; of {order.right + order.wrong} pairs {order.right} right"


def pairs(found: Found, methods: Sequence[Method]) -> list[str]:
    """What is said of each method: how many of its pairs with another the prediction has right."""
    ends = comparison.signs(*_parts({one: found[one] for one in methods}))
    told = ends.measured * ends.predicted
    return [
        f"{right} of its {either} pairs right"
        for right, either in zip((told == 1).sum(1), (told != 0).sum(1), strict=True)
    ]


def _parts(found: Found) -> tuple[Mapping[Method, float], Mapping[Method, NDArray[np.float64]]]:
    """What is predicted, and what is measured."""
    return {one: x for one, (x, _) in found.items()}, {one: y for one, (_, y) in found.items()}


def _offsets(dots: NDArray[np.float64]) -> Plane:
    """Axes that hold all groups: errors are compared within a group, whose mean is 0."""
    low, high = (float(x) for x in (np.floor(dots[..., 0].min()), np.ceil(dots[..., 0].max())))
    reach = float(np.ceil(10 * np.abs(dots[..., 1]).max())) / 10
    middle = [float(x) for x in range(int(low), int(high) + 1)]
    error = "error − mean of the methods"
    return Plane(
        "predicted offset", error, middle, (-reach, -reach / 2, 0, reach / 2, reach), (low, high), (-reach, reach)
    )


def _places(count: int) -> Plane:
    ticks = [1, *range(10, count + 1, 10)]
    return Plane("predicted place", "measured place", ticks, ticks, (0, count + 1), (0, count + 1))
