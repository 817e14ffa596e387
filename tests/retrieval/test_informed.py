"""Offsets for informative examples, against other functions and known answers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sumexp.chapters.models.sampled.informed import offset
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.models.sampled.prediction import prediction
from sumexp.chapters.retrieval import informed
from sumexp.chapters.retrieval.informed import Informed, explain
from sumexp.datasets.extreme import Part

PRIOR = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64)
LAW = torch.tensor([0.1, 0.1, 0.2, 0.6], dtype=torch.float64)


@pytest.mark.parametrize("weights", ["constant", "importance", "tail"])
def test_an_example_that_says_nothing_has_the_prediction(weights: str) -> None:
    method = Method("softmax", "batch", weights, 5)  # type: ignore[arg-type]
    told = prediction(method, PRIOR)
    assert offset(method, PRIOR, PRIOR).tolist() == pytest.approx((told - PRIOR @ told).tolist(), abs=1e-6)


def test_a_rare_label_that_an_example_makes_likely_gains_by_importance_weights_within_the_batch() -> None:
    offsets = offset(Method("softmax", "batch", "importance", 8), PRIOR, LAW)
    # Of the ratios p / pi, 1/5, 2/5, 4/3 and 6, the last label's is the largest.
    assert offsets.argmax() == 3
    assert offsets[3] > 0.02
    # With as many negatives as one likes nothing is left.
    assert offset(Method("softmax", "batch", "importance", 10**6), PRIOR, LAW).abs().max() < 1e-4


def test_a_posterior_by_hand() -> None:
    features = csr_array(np.array([[1, 0], [2, 1], [0, 1]], np.float32))
    labels = csr_array(np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1]], bool))
    law = informed.posterior(Part(features, labels), 0, torch.tensor([0.5, 0.5]).double(), np.array([1, 0, 1], bool))
    # Two pairs of label 0 and one of label 2, and ten of each by the prior.
    assert law.tolist() == pytest.approx([12 / 23, 11 / 23])


def test_groups_by_hand() -> None:
    values, law = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0.5, 0.25, 0.25])
    assert informed.grouped(values, law, torch.tensor([False, True, True])) == pytest.approx(3.5)


def test_features_of_so_many_pairs_are_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    # 49 examples have the first feature, 50 the second, one the third, and each has one label.
    features = np.array([[i < 49, True, i == 0] for i in range(50)], np.float32)
    labels = np.array([[i % 5 == j for j in range(5)] for i in range(50)])
    data = SimpleNamespace(counts=labels.sum(0), train=Part(csr_array(features), csr_array(labels)))
    monkeypatch.setattr(informed, "load", lambda _: data)
    arrays = explain(Informed("shakespeare", (Method("softmax", "batch", "relative", 2, "keep"),), 3)).arrays
    assert arrays["features"].tolist() == [1]


def test_the_task() -> None:
    arrays = explain(Informed("shakespeare", (Method("softmax", "batch", "relative", 16, "keep"),), 1)).arrays
    assert arrays["offset"].shape == (1, 1, 3)
    assert np.abs(arrays["offset"]).max() < 1e-5
    assert arrays["names"].tolist() == ["head", "torso", "tail"]
    with pytest.raises(ValueError, match="the method 'cross entropy' samples no softmax"):
        Informed("shakespeare", (Method(),), 1)
