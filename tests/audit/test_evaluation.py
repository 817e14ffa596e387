"""The law of the sampled rank by enumeration, and the true metrics that fit sampled ones."""

from itertools import combinations, product

import numpy as np
import pytest

from sumexp.audit import AuditError
from sumexp.audit.evaluation import can_change_places, drawn_rank_law, fitting, metric, rank_law


@pytest.mark.parametrize("replacement", [True, False])
def test_the_law_of_the_sampled_rank_by_enumeration(replacement: bool) -> None:
    """Negatives 0..4 of six classes; those under r - 1 score higher."""
    draws = list(product(range(5), repeat=3)) if replacement else list(combinations(range(5), 3))
    for rank in range(1, 7):
        expected = np.zeros(4)
        for drawn in draws:
            expected[sum(j < rank - 1 for j in drawn)] += 1 / len(draws)
        found = rank_law(np.array([rank]), 6, 3, replacement=replacement)[0]
        assert np.allclose(found, expected, atol=1e-12)


def test_another_sampler_by_enumeration() -> None:
    q, higher = [0.5, 0.3, 0.2], {0, 2}
    expected = np.zeros(3)
    for drawn in product(range(3), repeat=2):
        expected[sum(j in higher for j in drawn)] += q[drawn[0]] * q[drawn[1]]
    assert np.allclose(drawn_rank_law(np.array([0.7]), 2)[0], expected)


def test_metrics_by_hand() -> None:
    ranks = np.array([1, 3, 7])
    assert metric("recall@3", ranks).tolist() == [1, 1, 0]
    assert metric("mrr", ranks).tolist() == [1, 1 / 3, 1 / 7]
    assert metric("ndcg@3", ranks).tolist() == [1, 0.5, 0]


def test_the_true_metrics_lie_between_the_ends() -> None:
    """Any law of ranks: what it has truly fits what it shows among samples."""
    generator = np.random.default_rng(0)
    for _ in range(5):
        p = generator.dirichlet(np.full(300, 0.05))
        ranks, sampled = np.arange(1, 301), np.arange(1, 22)
        law = p @ rank_law(ranks, 300, 20)
        shown = {name: float(law @ metric(name, sampled)) for name in ("recall@1", "recall@10", "mrr")}
        for name, low, high in fitting(shown, 300, 20).true:
            assert low - 1e-9 <= p @ metric(name, ranks) <= high + 1e-9


def test_a_sampled_recall_of_one_says_little() -> None:
    """All among the first 10 of 101: the true rank may be 1; recall@10 of 10^5 classes is open from 0 to 1."""
    found = {name: (low, high) for name, low, high in fitting({"recall@10": 0.9}, 10**5, 100).true}
    low, high = found["recall@10"]
    assert low < 0.01
    assert high > 0.85


def test_everything_seen_leaves_nothing_open() -> None:
    """With all negatives as candidates, none twice, the sampled metric is the true one."""
    found = fitting({"recall@10": 0.3}, 50, 49, replacement=False, tolerance=1e-9)
    _, low, high = found.true[1]
    assert [low, high] == pytest.approx([0.3, 0.3], abs=1e-6)


def test_models_that_can_change_places() -> None:
    """The second seems better by sampled recall, and may be worse by the true one; not by the same, fully seen."""
    one, two = (fitting({"recall@10": value}, 10**4, 100) for value in (0.5, 0.6))
    assert "recall@10" in can_change_places(one, two)
    sure = [fitting({"recall@10": value}, 50, 49, replacement=False) for value in (0.5, 0.6)]
    assert "recall@10" not in can_change_places(*sure)


@pytest.mark.parametrize(
    "reported, classes, m, message",
    [
        ({}, 10, 3, "no sampled metric"),
        ({"recall": 0.5}, 10, 3, "no metric 'recall'"),
        ({"auc": 0.5}, 10, 3, "no metric 'auc'"),
        ({"mrr": 1.5}, 10, 3, "between 0 and 1"),
        ({"mrr": 0.9, "recall@1": 0.0}, 10, 3, "no law of ranks"),
        ({"mrr": 0.5}, 10, 0, "0 candidates of 9 negatives"),
    ],
)
def test_bad_values_are_one_message(reported: dict[str, float], classes: int, m: int, message: str) -> None:
    with pytest.raises(AuditError, match=message):
        fitting(reported, classes, m)


def test_ranks_out_of_range() -> None:
    with pytest.raises(AuditError, match=r"the ranks are 1\.\.5"):
        rank_law(np.array([0]), 5, 2)
