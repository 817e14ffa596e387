"""Items that are no candidates, as those of a user's training: against a loop over lists without them."""

from math import inf, log2
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sumexp import ranking
from sumexp.ranking import Chunks, Labels, Retrieved, Ties
from tests.containers import CONTAINERS, jagged, ragged, with_zeros
from tests.ranking.transparent import BY_ORDER, best, over_orders

ITEMS, LISTS = 30, 12


def test_the_rank_of_a_label_among_those_left() -> None:
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0]] * 2)
    in_chunks = Chunks(lambda start, stop: scores[:, start:stop], 4, 3)
    for given in (scores, in_chunks):
        assert ranking.rank(given, [2, 3], exclude=[[0], [1, 2]]).tolist() == [2, 2]
        for exclude, fault in (([[0], [3]], "leaves out a label itself"), ([[0]] * 3, "names items of 3 lists")):
            with pytest.raises(ValueError, match=fault):
                ranking.rank(given, [2, 3], exclude=exclude)
    assert ranking.mean_reciprocal_rank(scores, Labels([[2], [3]]), exclude=[[0], [1, 2]]).item() == 1 / 2


@pytest.mark.parametrize(
    "exclude, message",
    [
        ([[0]], "exclude names items of 1 lists"),
        ([[0], [4]], "a label to exclude is 4"),
        ([[0.5], [1]], "integers"),
        ([[1], [3]], r"list 1 has no relevant item"),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_bad_exclusions_are_named(exclude: Any, message: str, chunked: bool) -> None:
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0]] * 2)
    given = Chunks(lambda start, stop: scores[:, start:stop], 4, 3) if chunked else scores
    with pytest.raises(ValueError, match=message):
        ranking.recall(given, Labels([[2], [3]]), 2, exclude=exclude)


@st.composite
def excluded_lists(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    items, rows = draw(st.integers(3, 5)), draw(st.integers(1, 3))
    values = st.sampled_from([-inf, -1.0, 0.0, 2.0, inf])
    scores = np.array([draw(st.lists(values, min_size=items, max_size=items)) for _ in range(rows)])
    relevant, gone = (
        np.array([draw(st.lists(st.booleans(), min_size=items, max_size=items)) for _ in range(rows)]) for _ in range(2)
    )
    for row in range(rows):  # two candidates at least, of them one relevant
        first, second = draw(st.permutations(range(items)))[:2]
        relevant[row, first], gone[row, [first, second]] = True, False
    return scores, relevant, gone


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("container", CONTAINERS)
@drawn(excluded_lists(), st.sampled_from(["expected", "pessimistic", "optimistic"]), st.integers(1, 4))
@settings(max_examples=5, deadline=None)
def test_every_container_means_the_same(container: str, case: Any, ties: Ties, size: int) -> None:
    """False-alarm free: every order of the ties, infinities among them, of what is left."""
    scores, relevant, gone = case
    table, names = torch.from_numpy(scores), list(BY_ORDER)
    chunks = Chunks(lambda start, stop: table[:, start:stop], scores.shape[1], size)
    labels, exclude = CONTAINERS[container](relevant), CONTAINERS[container](gone)
    labels = labels if hasattr(labels, "tocsr") or isinstance(labels, Labels) else Labels(ragged(relevant))
    left = [[i for i in range(scores.shape[1]) if not row[i]] for row in gone]
    mask, odd = torch.from_numpy(~gone), gone & (np.arange(scores.shape[1]) % 2 > 0)
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        *((table, of, {"exclude": exclude}) for of in (torch.from_numpy(relevant), relevant * 1.0, labels)),
        (chunks, labels, {"exclude": exclude}),
        (table, relevant, {"mask": mask}),
        (table, labels, {"mask": mask | torch.from_numpy(odd), "exclude": CONTAINERS[container](odd)}),
    ]
    alone = [name for name in names if name.startswith("reciprocal")]  # a way of its own
    values = [ranking.evaluate(*of, asked, ties=ties, **options) for *of, options in cases for asked in (names, alone)]
    for name in names:
        wanted = [
            over_orders(name, row[kept], rel[kept].tolist(), int(rel[kept].sum()), ties)
            for row, rel, kept in zip(scores, relevant, left, strict=True)
        ]
        assert all(metrics[name].tolist() == pytest.approx(wanted) for metrics in values if name in metrics)
    label = [int(np.flatnonzero(rel & ~out)[0]) for rel, out in zip(relevant, gone, strict=True)]
    by_mask = ranking.rank(table, label, ties=ties, mask=mask)
    for given in (table, chunks):
        assert torch.equal(ranking.rank(given, label, ties=ties, exclude=exclude), by_mask)


@drawn(excluded_lists(), st.sampled_from(["expected", "pessimistic", "optimistic"]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_lists_of_another_system(case: Any, ties: Ties, scored: bool) -> None:
    """Items that were retrieved, in any order and with padding; what was not retrieved counts in the ideal alone."""
    scores, relevant, gone = case
    order = np.argsort(-scores, axis=-1, kind="stable")
    items = np.where(np.take_along_axis(gone, order, -1), -1, order)  # what is "gone" was not retrieved
    given = np.take_along_axis(scores, order, -1) if scored else None
    retrieved, names = Retrieved(items, given), list(BY_ORDER)
    values = ranking.evaluate(retrieved, Labels(ragged(relevant)), names, ties=ties)
    for name in names:
        wanted = []
        for row, rel, listed in zip(scores, relevant, items, strict=True):
            kept = [int(item) for item in listed if item >= 0]
            at = row[kept] if scored else -np.arange(len(kept))
            wanted.append(over_orders(name, at, [bool(rel[item]) for item in kept], int(rel.sum()), ties))
        assert values[name].tolist() == pytest.approx(wanted), name
    sparse = ranking.evaluate(retrieved, with_zeros(relevant), names, ties=ties)
    assert all(torch.equal(sparse[name], values[name]) for name in names)


def test_lists_of_another_system_by_hand() -> None:
    # One hit of five relevant among two retrieved: at k = 5 the ideal is of all five.
    labels = Labels([[0, 1, 2, 3, 4]])
    ideal = best(5, 5)
    assert ranking.ndcg(Retrieved([[0, 9]]), labels, 5).item() == pytest.approx(1 / ideal)  # .339
    assert ranking.ndcg(Retrieved(torch.tensor([[9, 0, -1, -1]])), labels, 5).item() == pytest.approx(
        1 / log2(3) / ideal
    )
    for k in (None, 10**9):  # a sum to k took 8 GB
        assert ranking.ndcg(Retrieved([[0, 9]]), labels, k).item() == pytest.approx(1 / ideal)
    assert ranking.precision(Retrieved([[0, 9]]), labels, 5).item() == 1 / 5
    assert ranking.rank(Retrieved([[4, 7], [1 << 62, 4]]), [4, 5], exclude=[[], [1 << 62]]).tolist() == [1, inf]
    assert ranking.recall(Retrieved([[4, 7, 5]]), Labels([[5, 8]]), 2, exclude=[[4]]).item() == 1 / 2
    assert ranking.reciprocal_rank(Retrieved([[-1, 1]]), Labels([[1]])).item() == 1  # padding takes no place
    assert ranking.reciprocal_rank(Retrieved([[], []]), Labels([[1], [2]])).tolist() == [0, 0]
    for retrieved, message in (
        (Retrieved([[1, 1]]), "list 0 retrieves an item twice"),
        (Retrieved([[1, 2]], [[0.5]]), r"scores have the shape \(1, 1\), the items \(1, 2\)"),
        (Retrieved([[1, 2], [3, 4]], [[0.5, 0.1], [0.2]]), "list 1 has 2 items and 1 scores; give one for each item"),
        (Retrieved(np.array([[1, -1, 2], [3, 4, 5]]), [[0.5, 0.9], [3, 2, 1]]), "list 0 has 3 items and 2 scores"),
        (Retrieved([{1, 2}]), "items holds a set or a dict, whose items have no order"),
        (Retrieved([[1], [2]]), "there are labels of 1 lists and scores of 2"),
        (Retrieved([[0.5]]), r"items must be integers \[B, K\]"),
        (Retrieved([[0]], [[float("nan")]]), "a score of list 0 is NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            ranking.recall(retrieved, labels, 2)


def test_gains_of_jagged_lists() -> None:
    scores, items, padded = torch.tensor([[3.0, 2.0, 1.0]] * 2), jagged([[1, 0], [2]]), torch.tensor([[1, 0], [2, -1]])
    gains = torch.nested.nested_tensor([torch.tensor([2.0, 1.0]), torch.tensor([1.0])], layout=torch.jagged)
    # The ideal order has the gain 2 first; the second list has its item in place 3.
    wanted = [(1 + 2 / log2(3)) / (2 + 1 / log2(3)), 1 / log2(4)]
    others = gains, [[2.0, 1.0], [1.0]], [[2.0, 1.0], [1.0, 0.0]]
    for labels in (Labels(items, gains), *(Labels(padded, of) for of in others)):
        assert ranking.ndcg(scores, labels).tolist() == pytest.approx(wanted)
    with pytest.raises(ValueError, match="list 0 has 1 items and 2 gains"):
        ranking.ndcg(scores, Labels([[1], [2, 0]], gains))


def test_lists_without_a_relevant_item() -> None:
    scores = torch.tensor([[3.0, 2.0, 1.0]] * 3)
    relevant = torch.tensor([[False, True, False], [False] * 3, [True, False, True]])
    lists = Labels([[1], [], [0, 2]])
    names = list(BY_ORDER)
    with pytest.raises(ValueError, match=r"list 1 has no relevant item .*say empty='skip' or empty=0"):
        ranking.recall(scores, lists, 2)
    for of in (relevant, lists, csr_array(relevant.numpy())):
        without = ranking.evaluate(scores[[0, 2]], Labels([[1], [0, 2]]), names)
        skipped, zero = (ranking.evaluate(scores, of, names, empty=rule) for rule in ("skip", 0))
        for name in names:
            alone = getattr(ranking, name.split("@")[0])(scores, of, *([2] if "@" in name else []), empty="skip")
            assert skipped[name].tolist() == alone.tolist() == without[name].tolist()
            assert zero[name].tolist() == [without[name][0], 0, without[name][1]]
    assert ranking.recall(scores, lists, 2, empty=np.float32(1)).tolist() == [1, 1, 0.5]  # type: ignore[arg-type]
    assert ranking.mean_reciprocal_rank(scores, lists, empty=0).item() == pytest.approx(1 / 2)
    assert ranking.recall(scores, lists, 2, exclude=[[1], [], []], empty="skip").tolist() == [1 / 2]
    for rule in ("none", -1, None, True + 1):
        with pytest.raises(ValueError, match="it must be 'error', 'skip' or a number from 0 to 1"):
            ranking.recall(scores, lists, 2, empty=rule)  # type: ignore[arg-type]


def test_several_metrics_are_each_metric() -> None:
    generator = np.random.default_rng(0)
    scores = torch.from_numpy(generator.integers(0, 8, (LISTS, ITEMS)).astype(float))
    relevant = np.concatenate([generator.permutation(ITEMS)[:3] for _ in range(LISTS)])
    gains = csr_array((np.arange(1.0, 3 * LISTS + 1), (np.repeat(np.arange(LISTS), 3), relevant)), (LISTS, ITEMS))
    names = ["recall@3", "recall@10", "ndcg", "ndcg@5", "precision@3", "average_precision", "reciprocal_rank", "dcg@2"]
    for ties in ("expected", "pessimistic", "optimistic"):
        metrics = ranking.evaluate(scores, gains, names, ties=ties)  # type: ignore[arg-type]
        for name in names:
            metric, _, k = name.partition("@")
            alone = getattr(ranking, metric)(scores, gains, *([int(k)] if k else []), ties=ties)
            assert metrics[name].tolist() == pytest.approx(alone.tolist(), rel=1e-14)
    dense = ranking.evaluate(scores, torch.from_numpy(gains.toarray()), names)
    assert dense["ndcg"].tolist() == pytest.approx(ranking.ndcg(scores, gains).tolist(), rel=1e-14)
    for metric, message in (
        ("mrr", "metric is 'mrr'; expected one of"),
        ("ndcg@x", "metric is 'ndcg@x'"),
        ("ndcg@", "metric is 'ndcg@'; after @ give the number of places"),
        ("recall", "k is None"),
    ):
        with pytest.raises(ValueError, match=message):
            ranking.evaluate(scores, gains, [metric])


@pytest.mark.parametrize(
    "exclude, message",
    [
        (torch.tensor([[1, 0, 0, 1], [0, 1, 0, 0]]), r"exclude names 4 items in each list, .* mask=marks == 0"),
        (np.array([[5, 0, 0, 3], [0, 1, 0, 0]]), "exclude names 4 items in each list"),
        ([[1, 0, 0, 1], [0, 1, 0, 0]], "exclude names 4 items in each list"),
        (torch.ones(2, 4, dtype=torch.bool), "integers"),
        (csr_array(np.eye(2)), r"exclude is sparse of shape \(2, 2\); the scores have 4 items"),
        (csr_array(np.eye(3, 4)), "exclude names items of 3 lists; there are scores of 2"),
        (csr_array(1j * np.eye(2, 4)), "exclude holds complex128; it must hold real numbers"),
        (torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2, 4), (2, 4)), "with no dense dimension"),
        ({0: [1], 1: [2]}, "a dict, which has no order"),
        ({(0,), (1,)}, "a set, which has no order"),
    ],
)
def test_what_excludes_nothing_clear_is_named(exclude: Any, message: str) -> None:
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0]] * 2)
    chunks = Chunks(lambda start, stop: scores[:, start:stop], 4, 3)
    for given in (scores, chunks) if "3 lists" not in message else (scores,):
        with pytest.raises(ValueError, match=message):
            ranking.recall(given, Labels([[2], [3]]), 2, exclude=exclude)
    with pytest.raises(ValueError, match=r"relevant is sparse of shape \(2, 2\); the scores have 4 items"):
        ranking.recall(scores, csr_array(np.eye(2)), 2)
    with pytest.raises(ValueError, match="gains must be finite numbers >= 0"):
        ranking.ndcg(scores, csr_array(-np.eye(2, 4)), 2)
