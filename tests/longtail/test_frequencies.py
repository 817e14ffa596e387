"""Label frequencies, by hand and of the data sets."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from sumexp import datasets
from sumexp.chapters.longtail.frequencies import KINDS, label_counts
from sumexp.datasets import Corpus, DataError, MultiLabel
from sumexp.datasets.extreme import Extreme, Part
from sumexp.datasets.labelled import Labelled

LABELS = np.array([[1, 0, 0, 1], [1, 0, 1, 0], [1, 0, 0, 1]], dtype=bool)
PART = Part(csr_array(np.eye(3, dtype=np.float32)), csr_array(LABELS))
PICTURES = np.zeros((6, 2, 2, 1), np.uint8)
FOUND = {
    "brown": Corpus(("a", "b", "c"), np.array([0, 1, 0, 2, 0, 2]), np.array([0, 6]), ("one",), ("none",)),
    "delicious": MultiLabel(np.zeros((3, 1), np.float32), LABELS, np.zeros((1, 1), np.float32), LABELS[:1], ("",) * 4),
    "cifar-100": Labelled(PICTURES, np.array([1, 1, 3, 3, 3, 0]), PICTURES[:1], np.zeros(1, np.int64), 5),
    "bibtex": Extreme(PART, PART),
}


@pytest.mark.parametrize("name", FOUND)
def test_counts_by_hand(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second label of Delicious has no example, and so no count."""
    monkeypatch.delenv("SUMEXP_DECLARED_DATA", raising=False)
    monkeypatch.setattr(datasets, "read", FOUND.__getitem__)
    assert label_counts(name).tolist() == [3, 2, 1]


def test_what_has_no_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="'digits' is of the kind 'images', which has no labels; expected text, tags"):
        label_counts("digits")
    monkeypatch.setattr(datasets, "read", lambda name: 3)
    with pytest.raises(TypeError, match="int is none of the forms"):
        label_counts("shakespeare")


def test_every_kind_of_the_catalogue_has_labels_or_is_of_images_or_pairs() -> None:
    assert {dataset.kind for dataset in datasets.DATASETS.values()} == {*KINDS, "images", "pairs"}


def test_the_sets_themselves() -> None:
    # The counts that the READMEs of the data state: types and tokens; 204,062 words, 5,704 of the types once.
    shakespeare = label_counts("shakespeare")
    assert (len(shakespeare), shakespeare.sum(), (shakespeare == 1).sum()) == (12_631, 204_062, 5_704)
