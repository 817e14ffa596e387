"""The recalls of trained towers over several seeds, by method."""

from collections.abc import Iterable

import numpy as np

from sumexp._runtime import Arrays
from sumexp.chapters import intervals
from sumexp.chapters.catalogue.grids import Method
from sumexp.chapters.catalogue.training import JUDGED, Config
from sumexp.chapters.intervals import Interval
from sumexp.chapters.models.sampled.comparison import Values

KEPT = Method("kept")

Table = dict[tuple[Method, bool], Values]
"""Recall at 20 by method, and by whether items have a bias: a row for each seed, a column for each of `JUDGED`."""


def summaries(runs: Iterable[tuple[Config, Arrays]]) -> Table:
    """The recalls of each method and model, seeds in the order in which they come."""
    rows: dict[tuple[Method, bool], list[Values]] = {}
    for config, arrays in runs:
        rows.setdefault((Method(config.form, config.negatives), config.number), []).append(arrays["recall"])
    return {key: np.array(seeds) for key, seeds in rows.items()}


def of(recalls: Values, which: str, served: str) -> Values:
    """The recall of each seed on ``held`` or ``public`` pairs, by the score that is served."""
    column: Values = recalls[:, JUDGED.index((which, served))]
    return column


def difference(table: Table, method: Method, number: bool, confidence: float) -> Interval:
    """The recall of held pairs less that of *kept*, f served, paired by seed."""
    recalls, kept = (of(table[key, number], "held", "f") for key in (method, KEPT))
    return intervals.paired(recalls, kept, confidence, shares=True)
