"""The long-tailed training sets."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sumexp import datasets
from sumexp.chapters.longtail.config import Source
from sumexp.datasets import labelled
from sumexp.datasets.labelled import Imbalance, Labelled

SHAPES: Mapping[Source, tuple[int, int, float]] = {
    "digits": (10, 100, 50.0),
    "cifar-100": (100, 500, 100.0),
    "cifar-100-small": (100, 500, 100.0),
}
"""Classes, images of the most frequent one, and its ratio to the rarest."""


def counts(source: Source, imbalance: Imbalance) -> NDArray[np.int64]:
    """Training images of each class: known before any image is read."""
    return labelled.imbalanced_counts(imbalance, *SHAPES[source])


def load(source: Source, imbalance: Imbalance) -> Labelled:
    """The images, 16 x 16 of CIFAR-100 or 8 x 8 of the digits, the training set cut to its imbalance.

    CIFAR-100's archive and the reduced files give the same images in the same order.

    Raises:
        DataError: if the data set is absent, damaged or undeclared.
    """
    if source == "digits":
        data = labelled.tailed_digits()
    else:
        pictures = datasets.read(source)
        assert isinstance(pictures, Labelled)
        data = pictures
    if data.train.shape[1] == 32:
        data = Labelled(
            labelled.halved(data.train), data.train_labels, labelled.halved(data.test), data.test_labels, data.classes
        )
    return labelled.cut(data, counts(source, imbalance))
