"""Offsets for informative examples, against other functions and known answers."""

from itertools import product
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
    # 25 examples have the first feature, 50 the second, 24 the third, and each has one label.
    features = np.array([[i < 25, True, i < 24] for i in range(50)], np.float32)
    labels = np.repeat(np.eye(4, dtype=bool), (25, 9, 9, 7), 0)
    data = SimpleNamespace(counts=labels.sum(0), train=Part(csr_array(features), csr_array(labels)))
    monkeypatch.setattr(informed, "load", lambda _: data)
    monkeypatch.setattr(informed, "RARE", 25)
    methods = tuple(Method("softmax", "batch", weights, 2) for weights in ("relative", "constant"))
    arrays = explain(Informed("shakespeare", methods, 3)).arrays
    assert (sorted(arrays["features"]), arrays["names"].tolist()) == ([0, 1], ["head", "torso", "tail"])
    prior = torch.from_numpy(data.counts / 50)
    for (i, method), (j, feature) in product(enumerate(methods), enumerate(arrays["features"])):
        law = (torch.tensor([25.0, 0, 0, 0]) + 20 * prior) / 45 if feature == 0 else prior
        added = offset(method, prior, law)[[0, 3]].tolist()  # label 0 is all of the head, label 3 all of the tail
        assert arrays["offset"][i, j, [0, 2]] == pytest.approx(added, abs=1e-6)


def test_methods_that_sample_no_softmax() -> None:
    with pytest.raises(ValueError, match="the method 'cross entropy' samples no softmax"):
        Informed("shakespeare", (Method(),), 1)
