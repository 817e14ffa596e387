r"""Summaries of runs over seeds, and the baseline of the most frequent labels.

Recall of a group is pooled: of all test pairs of an example and a label of the group, the share whose label is among
the example's first k. So recall at k over all pairs is precision at k times k times examples over pairs: one statistic.

**What is best.** Let :math:`Y` be the labels of x. A uniformly drawn pair of an example and a label has
:math:`P(y\mid x)\propto P(y\in Y\mid x)`, so the minimum of the cross entropy sorts the labels by
:math:`P(y\in Y\mid x)`, the best order for precision at k and for recall at k over all pairs, for every k. With weights
:math:`1/p_y` of the labels the best order is that by :math:`P(y\in Y\mid x)/p_y`: the propensity-scored precision asks
for the offset :math:`-\log p_y`, :func:`wanted`.

Source: A. K. Menon et al., Multilabel reductions: what is my loss optimising?, 2019, for the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sumexp._runtime import Arrays
from sumexp.chapters.models.sampled.comparison import Values
from sumexp.chapters.models.sampled.groups import groups
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import judging

FULL = "full"
"""All labels, in addition to head, torso and tail."""


@dataclass(frozen=True)
class Summary:
    """A method's numbers, a row for each seed.

    Attributes:
        recall: at 1, 10 and 50, of head, torso, tail and full [seeds, 3]; groups without a test pair are missing.
        precision: P@k for k = 1, 3, 5 [seeds, 3].
        propensity: PSP@k for the same k [seeds, 3].
    """

    recall: Mapping[str, Values]
    precision: Values
    propensity: Values


def members(counts: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Head, torso and tail by quantiles of the counts [L], and full: all labels that occur in training, [L] each.

    Labels that do not occur in training are in no group and move no quantile.
    """
    seen = counts > 0
    masks: dict[str, NDArray[np.bool_]] = {}
    for name, which in groups(counts[seen], "quantiles").items():
        masks[name] = np.zeros(len(counts), dtype=np.bool_)
        masks[name][seen] = which
    return {**masks, FULL: seen}


def recall(hits: NDArray[np.int64], pairs: NDArray[np.int64], which: NDArray[np.bool_]) -> Values:
    """Recall [ks] over all pairs of the labels ``which`` [L], from the ``hits`` [ks, L] among their ``pairs`` [L].

    Raises:
        ValueError: if they have no pair.
    """
    if not (all_pairs := int(pairs[which].sum())):
        raise ValueError(f"{int(which.sum())} labels without a test pair have no recall; leave the group out")
    share: Values = hits[:, which].sum(1) / all_pairs
    return share


def summaries(runs: Iterable[tuple[Method, Arrays]]) -> dict[Method, Summary]:
    """The numbers of each method, from the arrays of :func:`sumexp.chapters.retrieval.training.train`."""
    by_method: dict[Method, list[Arrays]] = {}
    for method, arrays in runs:
        by_method.setdefault(method, []).append(arrays)
    return {method: _summary(tables) for method, tables in by_method.items()}


def _summary(tables: Sequence[Arrays]) -> Summary:
    masks = {name: which for name, which in members(tables[0]["counts"]).items() if tables[0]["pairs"][which].any()}
    return Summary(
        {
            name: np.array([recall(table["found"], table["pairs"], which) for table in tables])
            for name, which in masks.items()
        },
        *(np.array([table[name] for table in tables]) for name in ("precision", "propensity")),
    )


def by_frequency(counts: NDArray[np.int64], pairs: NDArray[np.int64], ks: Sequence[int]) -> dict[str, Values]:
    """Recall [ks] of one list for all examples, the most frequent labels first, on head, torso, tail and full.

    ``counts`` are the training examples and ``pairs`` the test pairs of each label [L]; ties are pessimistic.
    """
    hits = pairs * judging.most_frequent(counts, ks)
    return {name: recall(hits, pairs, which) for name, which in members(counts).items()}


def wanted(counts: NDArray[np.int64], examples: int) -> Values:
    r"""The offset [L] that propensity-scored precision asks for, :math:`-\log p_y` less its mean; ``examples`` is N."""
    offset = -judging.propensities(torch.from_numpy(counts), examples).log().numpy()
    result: Values = offset - offset.mean()
    return result


def distance(offset: Values, target: Values, counts: NDArray[np.int64]) -> float:
    """The standard deviation of the difference of two offsets [L] under the labels' frequencies."""
    prior = counts / counts.sum()
    difference = offset - target
    return float(np.sqrt(prior @ (difference - prior @ difference) ** 2))
