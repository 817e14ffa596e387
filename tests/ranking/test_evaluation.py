"""The law of the sampled rank by enumeration, and the true metrics that fit sampled ones."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog

from sumexp.ranking.evaluation import _shares, drawn_rank_law, fitting, metric, rank_law


@pytest.mark.parametrize("replacement", [True, False])
def test_the_law_of_the_sampled_rank_by_enumeration(replacement: bool) -> None:
    """Negatives 0..4 of six classes; those under r - 1 score higher."""
    draws = list(product(range(5), repeat=3)) if replacement else list(combinations(range(5), 3))
    for rank in range(1, 7):
        expected = np.zeros(4)
        for drawn in draws:
            expected[sum(j < rank - 1 for j in drawn)] += 1 / len(draws)
        law = rank_law(np.array([rank]), 6, 3, replacement=replacement)[0]
        assert np.allclose(law, expected, atol=1e-12)


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
    intervals = {name: (low, high) for name, low, high in fitting({"recall@10": 0.9}, 10**5, 100).true}
    low, high = intervals["recall@10"]
    assert low < 0.01
    assert high > 0.85


def test_the_best_rank_is_one_of_those_that_are_looked_at_among_however_many_classes() -> None:
    """Not one of 100 candidates scores higher, for whatever example: it may be that none of the classes does."""
    for classes in (100, 2001, 10**5):
        highest = {name: high for name, _, high in fitting({"recall@1": 1.0}, classes, 100).true}
        assert highest == pytest.approx(dict.fromkeys(highest, 1.0), abs=1e-9)


def every_case(q: list[float]) -> tuple[list[float], list[int]]:
    """For each positive and each set of classes above it the share of q that they have, and the positive's rank."""
    shares, ranks = [], []
    for positive in range(len(q)):
        others = [j for j in range(len(q)) if j != positive]
        for many in range(len(q)):
            for above in combinations(others, many):
                shares.append(min(1.0, sum(q[j] for j in above) / (1 - q[positive])))
                ranks.append(1 + many)
    return shares, ranks


LAWS = [[0.4, 0.3, 0.15, 0.1, 0.05], [0.9, 0.06, 0.02, 0.02, 0.0], [0.5, 0.5, 0.0, 0.0, 0.0], [0.2] * 5]


@pytest.mark.parametrize("q", LAWS)
def test_no_set_has_a_share_beyond_the_ends_and_some_have_the_ends(q: list[float]) -> None:
    shares, ranks = every_case(q)
    above, best, worst = _shares(np.array(q), np.arange(1, 6))
    for rank in range(1, 6):
        possible = [share for share, r in zip(shares, ranks, strict=True) if r == rank]
        allowed = above[(best <= rank) & (rank <= worst)]
        assert [allowed.min(), allowed.max()] == pytest.approx([min(possible), max(possible)], abs=1e-12)


@pytest.mark.parametrize("q", LAWS[:2])
def test_candidates_by_popularity_leave_open_what_enumeration_finds(q: list[float]) -> None:
    """The same program with a column for each positive and each set above it: no wider than what is reported."""
    shares, ranks = every_case(q)
    seen = drawn_rank_law(np.array(shares), 4)
    mean = seen @ metric("recall@2", np.arange(1, 6))
    intervals = {name: ends for name, *ends in fitting({"recall@2": 0.8}, 5, 4, law=np.array(q), tolerance=1e-3).true}
    for name in ("recall@1", "mrr", "ndcg"):
        cost = metric(name, np.array(ranks))
        ends = [
            sign * linprog(
                sign * cost, A_ub=[mean, -mean], b_ub=[0.801, -0.799], A_eq=np.ones((1, len(cost))), b_eq=[1.0]
            ).fun
            for sign in (1, -1)
        ]  # fmt: skip
        assert intervals[name][0] <= ends[0] + 1e-9
        assert ends[1] <= intervals[name][1] + 1e-9
        assert intervals[name] == pytest.approx(ends, abs=0.06)  # shares between two sets are thought to occur


def test_no_population_is_refused_and_its_metrics_lie_between_the_ends() -> None:
    """One of two likely classes and half of the rare ones stand above: a share of neither the likeliest nor the rarest.

    It was refused: no law of ranks.
    """
    q, m = np.array([0.45, 0.45] + [0.0025] * 40), 4
    share, rank = (0.45 + 20 * 0.0025) / (1 - 0.0025), 22
    seen = drawn_rank_law(np.array([share]), m)[0]
    reported = {f"recall@{k}": float(seen[:k].sum()) for k in (1, 2, 3, 4)}
    for name, low, high in fitting(reported, 42, m, law=q).true:
        assert low <= metric(name, np.array([rank]))[0] <= high, name


def test_a_uniform_law_of_ones_own_is_uniform() -> None:
    """The ends with a law that is uniform are those without; for no others is the rank all that matters."""
    shown = {"recall@10": 0.7, "mrr": 0.4}
    explicit = fitting(shown, 3000, 100, law=np.full(3000, 1 / 3000))
    for (name, *ends), (other, *uniform) in zip(explicit.true, fitting(shown, 3000, 100).true, strict=True):
        assert name == other
        assert ends == pytest.approx(uniform, abs=1e-6)


def test_classes_that_are_never_candidates_may_all_stand_above() -> None:
    """Three of ten are drawn: whoever beats them all has a true rank from 1 to 1 + 7, or 1 + 6 if it is not drawn."""
    law = np.array([0.5, 0.3, 0.2] + [0.0] * 7)
    intervals = {name: ends for name, *ends in fitting({"recall@1": 1.0}, 10, 400, law=law, tolerance=1e-12).true}
    assert intervals["mrr"] == pytest.approx([1 / 8, 1.0], abs=1e-9)
    assert intervals["recall@1"] == pytest.approx([0.0, 1.0], abs=1e-9)


def test_popular_candidates_hide_the_rare_ones_above() -> None:
    """The same values leave no less open among popular candidates than among uniform ones."""
    law = 1 / np.arange(1, 2001.0)
    law /= law.sum()
    shown = {"recall@10": 0.7, "recall@1": 0.3}
    uniform, popular = (fitting(shown, 2000, 100, law=each).true for each in (None, law))
    for (name, low, high), (_, least, most) in zip(uniform, popular, strict=True):
        assert least <= low + 1e-6, name
        assert high <= most + 1e-6, name


def test_everything_seen_leaves_nothing_open() -> None:
    """With all negatives as candidates, none twice, the sampled metric is the true one."""
    fit = fitting({"recall@10": 0.3}, 50, 49, replacement=False, tolerance=1e-9)
    _, low, high = fit.true[1]
    assert [low, high] == pytest.approx([0.3, 0.3], abs=1e-6)


@pytest.mark.parametrize(
    "reported, m, law, message",
    [
        ({}, 3, None, "no sampled metric"),
        ({"recall": 0.5}, 3, None, "no metric 'recall'"),
        ({"recall@00": 0.5}, 3, None, "no metric 'recall@00'"),
        ({"auc": 0.5}, 3, None, "no metric 'auc'"),
        ({"mrr": 1.5}, 3, None, "between 0 and 1"),
        ({"mrr": 0.9, "recall@1": 0.0}, 3, None, "no law of ranks"),
        ({"mrr": 0.5}, 0, None, "candidates is 0; it must be a whole number >= 1"),
        ({"mrr": 1.0}, 0, [0.1] * 10, "candidates is 0; it must be a whole number >= 1"),
        ({"mrr": 0.5}, 3, [1.0] + [0.0] * 9, "a law with one class"),
        ({"mrr": 0.5}, 3, [0.05] * 10, "law sums to 0.5, not 1"),
        ({"mrr": 0.5}, 3, [0.05] * 20, r"law has the shape \(20,\); there are 10 classes"),
    ],
)
def test_bad_values_are_one_message(reported: dict[str, float], m: int, law: list[float] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitting(reported, 10, m, law=None if law is None else np.array(law))


def test_laws_and_ranks_that_there_cannot_be() -> None:
    with pytest.raises(ValueError, match="not both"):
        fitting({"mrr": 0.5}, 3, 2, law=np.full(3, 1 / 3), replacement=False)
    with pytest.raises(ValueError, match=r"the ranks are 1\.\.5"):
        rank_law(np.array([0]), 5, 2)
