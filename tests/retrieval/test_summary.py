"""Summaries by hand, and the best order of labels by enumeration."""

from itertools import combinations, permutations

import numpy as np
import pytest
import torch

from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import judging, summary
from sumexp.chapters.retrieval.training import Config, train
from sumexp.functional import cross_entropy
from tests.retrieval import sorted_lists
from tests.retrieval.test_retrieval import DATA

COUNTS = np.array([9, 4, 4, 1, 0])
PAIRS = np.array([6, 3, 2, 1, 0])


def test_groups_and_recall_by_hand() -> None:
    groups = summary.members(COUNTS)
    # The 33 % quantile of 1, 4, 4, 9 is 3.97, the 66 % quantile 4; label 4 is in no training example, and in no group.
    labels = {name: np.flatnonzero(which).tolist() for name, which in groups.items()}
    assert labels == {"head": [0], "torso": [1, 2], "tail": [3], "full": [0, 1, 2, 3]}
    counts = np.array([[3, 1, 0, 0, 0], [6, 2, 1, 1, 0]])
    assert summary.recall(counts, PAIRS, groups["torso"]).tolist() == [1 / 5, 3 / 5]
    assert summary.recall(counts, PAIRS, groups["full"]).tolist() == [4 / 12, 10 / 12]
    with pytest.raises(ValueError, match="1 labels without a test pair have no recall"):
        summary.recall(counts, PAIRS, np.arange(5) == 4)


def test_seeds_are_rows() -> None:
    first = {"counts": COUNTS, "pairs": PAIRS, "found": np.array([[3, 1, 0, 0, 0]] * 3)}
    first |= {"precision": np.array([0.5, 0.4, 0.3]), "propensity": np.array([0.2, 0.3, 0.4])}
    second = first | {"found": np.array([[6, 0, 0, 0, 0]] * 3)}
    summaries = summary.summaries([(Method(), first), (Method("contrastive"), second), (Method(), second)])
    assert list(summaries) == [Method(), Method("contrastive")]
    assert summaries[Method()].recall["head"].tolist() == [[1 / 2] * 3, [1] * 3]
    assert summaries[Method()].precision.tolist() == [[0.5, 0.4, 0.3]] * 2
    assert summaries[Method("contrastive")].recall["full"].tolist() == [[1 / 2] * 3]
    untested = first | {"pairs": PAIRS * (COUNTS != 1)}  # no test pair has a label of the tail
    assert summary.summaries([(Method(), untested)])[Method()].recall.keys() == {"head", "torso", "full"}


def test_one_list_for_all() -> None:
    recalls = summary.by_frequency(COUNTS, PAIRS, (1, 2, 3))
    # The labels 1 and 2 tie for the places two and three: both come third.
    assert recalls["full"].tolist() == [6 / 12, 6 / 12, 11 / 12]
    assert recalls["torso"].tolist() == [0, 0, 1]
    assert recalls["tail"].tolist() == [0, 0, 0]


def test_the_offset_that_propensities_ask_for() -> None:
    offset = summary.wanted(COUNTS, 20)
    p = judging.propensities(torch.from_numpy(COUNTS), 20).numpy()
    assert offset - offset[0] == pytest.approx(np.log(p[0] / p))
    assert offset.mean() == pytest.approx(0)
    assert offset[0] < offset[1] == offset[2] < offset[3] < offset[4]


def test_distance_by_hand() -> None:
    counts = np.array([3, 1])
    # 0 and 2 with 3/4 and 1/4: mean 1/2, variance 3/4 * 1/4 + 1/4 * 9/4.
    assert summary.distance(np.array([1.0, 3.0]), np.ones(2), counts) == pytest.approx(np.sqrt(3 / 4))
    assert summary.distance(np.array([1.0, 3.0]), np.array([5.0, 7.0]), counts) == 0


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0, 1.0), (1.0, 2.0, 4.0, 9.0)])
def test_the_best_order_is_that_of_the_weighted_marginals(weights: tuple[float, ...]) -> None:
    """Of an x whose sets of labels have these probabilities, every order of the labels is tried by the metrics."""
    sets = dict(zip(combinations(range(4), 2), (0.3, 0.05, 0.2, 0.15, 0.2, 0.1), strict=True))
    relevant = np.array([[label in labels for label in range(4)] for labels in sets])
    likely, worth = np.array(list(sets.values())), np.array(weights)
    marginal = likely @ relevant
    for k in (1, 2, 3):
        value = {}
        for order in permutations(range(4)):
            scores = np.tile(-np.argsort(order), (len(sets), 1))
            value[order] = float(likely @ sorted_lists.precision(scores, relevant, k, worth)[0])
        best = tuple((-marginal * worth).argsort().tolist())
        assert value[best] == pytest.approx(max(value.values()))
        assert min(value.values()) < 0.9 * max(value.values())


def test_the_cross_entropy_of_pairs_is_least_at_the_marginals() -> None:
    """The same sets, each label of a set a pair: the gradient of the expected loss is 0 at log P(y in Y)."""
    relevant = torch.tensor([[label in labels for label in range(4)] for labels in combinations(range(4), 2)]).double()
    likely = torch.tensor([0.3, 0.05, 0.2, 0.15, 0.2, 0.1], dtype=torch.float64)
    marginal = likely @ relevant
    scores = marginal.log().requires_grad_()
    each = torch.stack([cross_entropy(scores.unsqueeze(0), torch.tensor([label])) for label in range(4)])
    (slope,) = torch.autograd.grad(marginal @ each, scores)
    assert slope.abs().max() < 1e-15


def test_precision_and_recall_at_1_count_the_same() -> None:
    arrays = train(Config(width=8, epochs=2, batch=16), DATA).arrays
    examples = int(DATA.test.labels.sum(1).astype(bool).sum())
    first = summary.recall(arrays["found"], arrays["pairs"], arrays["counts"] > 0)[0]
    assert first * arrays["pairs"].sum() == pytest.approx(arrays["precision"][0] * examples)
    assert first > 0
