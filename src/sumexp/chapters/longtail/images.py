"""The long-tailed training sets."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sumexp import datasets
from sumexp.chapters.longtail.config import Source
from sumexp.datasets import labelled
from sumexp.datasets.labelled import Imbalance, Labelled

SHAPES: Mapping[str, tuple[int, int, float]] = {
    "digits": (10, 100, 50.0),
    **dict.fromkeys(("cifar-100", "cifar-100-small", "cifar-100-lt"), (100, 500, 100.0)),
}
"""Classes, images of the most frequent one, and its ratio to the rarest."""


def counts(source: str, imbalance: Imbalance) -> NDArray[np.int64]:
    """Training images of each class: known before any image is read."""
    return labelled.imbalanced_counts(imbalance, *SHAPES[source])


def published(source: str, imbalance: Imbalance) -> Labelled:
    """The images as published, the training set cut to its imbalance; a DataError if they are missing."""
    pictures = labelled.tailed_digits() if source == "digits" else datasets.read(source)
    assert isinstance(pictures, Labelled)
    return labelled.cut(pictures, counts(source, imbalance))


def load(source: Source, imbalance: Imbalance) -> Labelled:
    """The same, images of 32 x 32 halved: CIFAR-100's archive and the reduced files give the same images."""
    data = published(source, imbalance)
    if data.train.shape[1] != 32:
        return data
    return replace(data, train=labelled.halved(data.train), test=labelled.halved(data.test))
