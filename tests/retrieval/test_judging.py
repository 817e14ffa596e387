"""Metrics without sorting, against lists by hand and sorted lists, with ties."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from sumexp.chapters.retrieval import Config, judging, train
from sumexp.chapters.retrieval.judging import judge, ranks
from sumexp.chapters.retrieval.training import Learner
from sumexp.datasets.extreme import Extreme, Part
from tests.retrieval import sorted_lists
from tests.retrieval.test_retrieval import DATA


def test_places_by_hand() -> None:
    scores = torch.tensor([[5.0, 3.0, 3.0, 3.0, 3.0, 1.0]])
    label = np.array([0, 2, 4, 5])
    reach, place = ranks(scores, np.zeros(4, np.int64), label, np.array([1.0, 2.0, 1.5, 9.0]), 6)
    assert reach.tolist() == [1, 5, 5, 6]
    # Of the four that tie the two of others come first, then label 4, which is worth less than label 2.
    assert place.tolist() == [1, 5, 4, 6]
    # Of two examples each has a list of its own.
    reach, place = ranks(scores.repeat(2, 1), np.array([1, 0]), np.array([2, 2]), np.ones(2), 6)
    assert (reach.tolist(), place.tolist()) == ([5, 5], [5, 5])


def test_what_is_cut_off_stays_beyond() -> None:
    scores = torch.zeros(1, 100)
    labels = np.arange(7)
    reach, place = ranks(scores, np.zeros(7, np.int64), labels, np.ones(7), 5)
    # All 100 tie, and 12 scores are looked up: 93 others come first, which these need not know.
    assert reach.min() > 5
    assert place.min() > 5
    reach, place = ranks(scores, np.zeros(7, np.int64), labels, np.ones(7), 100)
    assert sorted(place.tolist()) == [94, 95, 96, 97, 98, 99, 100]


def test_recall_leaves_out_what_is_known_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.tensor([[5.0, 4.0, 3.0, 3.0], [1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]])
    wanted, known = np.zeros((2, 3, 4), bool)
    wanted[[0, 0, 1], [1, 2, 0]] = True
    known[[0, 1, 1, 2], [0, 2, 3, 1]] = True
    monkeypatch.setattr(judging, "bag", lambda part, rows, device: rows)
    learner = Mock(device="cpu", scores=lambda rows: scores[torch.from_numpy(rows)].clone())
    part = Part(csr_array(np.ones((3, 1), np.float32)), csr_array(wanted))
    # Without label 0 the first example has 1 first, and 2 third, as it ties; the second has 0 second, behind 1.
    recalls = [judging.recall(learner, part, csr_array(known), k) for k in (1, 2, 3)]
    assert recalls == pytest.approx([1 / 3, 2 / 3, 1])


def random_scores(seed: int, labels: int, falls: float) -> tuple[Extreme, Tensor]:
    """Examples of 0 to 8 labels, some of which do not occur in training; whole scores, few of which tie at the top."""
    source = np.random.default_rng(seed)
    tested = source.random((40, labels)) < source.random((40, 1)) * 8 / labels
    trained = np.arange(30)[:, None] < source.integers(0, 30, labels)
    train, test = (Part(csr_array(np.ones((len(mask), 1), np.float32)), csr_array(mask)) for mask in (trained, tested))
    return Extreme(train, test), torch.from_numpy(source.geometric(falls, (40, labels))).float()


@pytest.mark.parametrize("labels, falls", [(4, 0.6), (60, 0.2), (300, 0.1), (300, 1e-5)])
@pytest.mark.parametrize("at_once", [7, 500])
def test_it_counts_as_sorted_lists_do(labels: int, falls: float, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data, scores = random_scores(labels, labels, falls)
    monkeypatch.setattr(judging, "EXAMPLES", at_once)
    monkeypatch.setattr(judging, "bag", lambda part, rows, device: rows)
    learner = Mock(device="cpu", scores=lambda rows: scores[torch.from_numpy(rows)])
    worth = 1 / judging.propensities(torch.from_numpy(data.counts), 30).numpy()
    actual = judge(learner, data)
    expected = sorted_lists.judge(scores.numpy(), data.test.labels.toarray(), data.counts, worth)
    assert actual.keys() == expected.keys()
    assert expected["precision"][-1] > 0
    for name, values in expected.items():
        np.testing.assert_allclose(actual[name], values, rtol=1e-12, err_msg=name)


def test_examples_without_a_label_that_counts_are_refused_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Extreme(DATA.train, Part(DATA.test.features, csr_array(DATA.test.labels.shape, dtype=bool)))
    monkeypatch.setattr(Learner, "run_epoch", Mock(side_effect=AssertionError("trained before the check")))
    with pytest.raises(ValueError, match="no test example has a label that occurs in training"):
        train(Config(width=4, batch=16), none)


def test_few_scores_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(Config(width=4, batch=16), DATA.train, torch.from_numpy(DATA.counts), 0.1)
    whole = judge(learner, DATA)
    seen: list[int] = []
    plain = learner.scores
    monkeypatch.setattr(learner, "scores", lambda x: (seen.append(x.starts.numel()), plain(x))[1])
    monkeypatch.setattr(judging, "SCORES", 40)  # of 12 labels: three examples at a time
    again = judge(learner, DATA)
    assert (max(seen), sum(seen)) == (3, 60)
    for name, values in whole.items():
        np.testing.assert_allclose(again[name], values, rtol=1e-12)
