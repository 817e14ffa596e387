"""Label frequencies in the data sets of the catalogue; imported by name, so that no run depends on it."""

import numpy as np
from numpy.typing import NDArray

from sumexp import datasets
from sumexp.datasets import Corpus, DataError, MultiLabel
from sumexp.datasets.extreme import Extreme
from sumexp.datasets.labelled import Labelled

KINDS = ("text", "tags", "classes")
"""Of data sets that have labels: the labels of a text are its words."""


def label_counts(name: str) -> NDArray[np.int64]:
    """Training examples of each label that occurs in a data set, the most frequent first.

    Raises:
        DataError: if the data set is unknown, undeclared, absent, damaged, or has no labels.
    """
    kind = datasets.declared(name).kind
    if kind not in KINDS:
        raise DataError(f"data set {name!r} is of the kind {kind!r}, which has no labels; expected {', '.join(KINDS)}")
    counts = _counts(datasets.read(name))
    return np.sort(counts[counts > 0])[::-1]


def _counts(data: object) -> NDArray[np.int64]:
    match data:
        case Corpus():
            return np.bincount(data.tokens)
        case MultiLabel():
            return np.asarray(data.train_labels.sum(0, dtype=np.int64))
        case Labelled() | Extreme():
            return data.counts
    raise TypeError(f"{type(data).__name__} is none of the forms in which labels are read")
