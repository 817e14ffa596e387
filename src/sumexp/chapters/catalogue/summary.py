"""What the runs of several seeds say of each method, and the rates picked."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sumexp._runtime import Arrays
from sumexp.chapters import intervals
from sumexp.chapters.catalogue.grids import Method
from sumexp.chapters.catalogue.training import JUDGED, Config
from sumexp.chapters.intervals import Interval
from sumexp.chapters.models.sampled.groups import GROUPS, groups

Values = NDArray[np.float64]

KEPT = Method("kept")


@dataclass(frozen=True)
class Summary:
    """A method's numbers, a row for each seed and a column for each of `training.JUDGED`.

    Attributes:
        recall: at 20, mean over users [seeds, 5].
        ndcg: at 20 [seeds, 5].
        groups: the share of all pairs of head, torso and tail that is found [seeds, 5].
        picked: the place of the learning rate that validation picked, for f and f + log q [seeds, 2].
    """

    recall: Values
    ndcg: Values
    groups: Mapping[str, Values]
    picked: NDArray[np.int64]

    def of(self, which: str, served: str, metric: str = "recall") -> Values:
        """A number per seed: ``recall``, ``ndcg`` or the recall of a group, on ``held`` or ``public`` pairs."""
        table = self.groups[metric] if metric in GROUPS else {"recall": self.recall, "ndcg": self.ndcg}[metric]
        column: Values = table[:, JUDGED.index((which, served))]
        return column


Table = dict[tuple[Method, bool], Summary]
"""By method, and whether items have a number."""


def summaries(runs: Iterable[tuple[Config, Arrays]]) -> Table:
    """The numbers of each method and model, seeds in the order in which they come."""
    tables: dict[tuple[Method, bool], list[Arrays]] = {}
    for config, arrays in runs:
        tables.setdefault((Method(config.form, config.negatives), config.number), []).append(arrays)
    return {key: _summary(own) for key, own in tables.items()}


def _summary(tables: list[Arrays]) -> Summary:
    shares = [_shares(one) for one in tables]
    return Summary(
        np.array([one["recall"] for one in tables]),
        np.array([one["ndcg"] for one in tables]),
        {group: np.array([one[group] for one in shares]) for group in GROUPS if all(group in one for one in shares)},
        np.array([one["picked"][:, 0] for one in tables]),
    )


def _shares(arrays: Arrays) -> dict[str, Values]:
    """Of each group the share of its pairs that is found [5]."""
    own = groups(np.maximum(arrays["counts"], 1), "quantiles")
    return {
        str(name): arrays["found"][:, which].sum(1) / arrays["pairs"][:, which].sum(1)
        for name, which in own.items()
        if arrays["pairs"][:, which].any(1).all()
    }


def difference(
    table: Table, method: Method, number: bool, confidence: float, which: str = "held", metric: str = "recall"
) -> Interval:
    """The method less *kept*, f served, paired by seed."""
    own, kept = (table[one, number].of(which, "f", metric) for one in (method, KEPT))
    return intervals.paired(own, kept, confidence, shares=True)


def order(table: Table, number: bool, predicted: Mapping[str, float], tie: float = 1e-3) -> Interval:
    """Kendall's tau of the predicted order of the methods and that of their recall of held pairs, f served.

    A larger number of a form predicts a larger recall; predictions nearer than ``tie`` are equal.
    """
    own = [method for method, numbered in table if numbered == number]
    measured = np.array([table[method, number].of("held", "f") for method in own])
    return intervals.agreement([round(predicted[method.form] / tie) for method in own], measured)


def rates(table: Table) -> Counter[int]:
    """How often each place of the grid of rates was picked, over methods, models, seeds and served scores."""
    return Counter(int(place) for one in table.values() for place in one.picked.ravel())
