"""Ranking metrics: by hand, by all orders of the ties in rationals, and against trec_eval and scikit-learn."""

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from math import inf, nan

import numpy as np
import pytest
import pytrec_eval
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score
from torch import Tensor

from sumexp import ranking
from sumexp.ranking import Ties
from tests.ranking.transparent import BY_ORDER

Metric = Callable[..., Tensor]
RULES: tuple[Ties, ...] = ("expected", "pessimistic", "optimistic")

lists = st.integers(2, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([-inf, -1.0, 0.0, 2.0, inf]), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n).filter(any),
    )
)


@given(lists)
@settings(max_examples=60, deadline=None)
def test_rank_of_a_label_over_all_orders(case: tuple[list[float], list[bool]]) -> None:
    scores, relevant = case
    label = relevant.index(True)
    allowed = (p for p in permutations(range(len(scores))) if all(scores[a] >= scores[b] for a, b in pairwise(p)))
    places = [1 + p.index(label) for p in allowed]
    for ties, value in zip(RULES, (sum(places) / len(places), max(places), min(places)), strict=True):
        assert ranking.rank(torch.tensor([scores]), torch.tensor([label]), ties=ties).item() == pytest.approx(value)
        assert ranking.ranks(torch.tensor([scores]), ties=ties)[0, label].item() == pytest.approx(value)


@pytest.mark.parametrize("ties", RULES)
@pytest.mark.parametrize("beside", [[], ["recall@1"], ["ndcg"]])
def test_the_reciprocal_rank_at_k_counts_k_places(ties: Ties, beside: list[str]) -> None:
    """`reciprocal_rank@k` was that of the whole list. At 1 it is the precision, at L the whole, and it rises with k."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(8, (50, 60), generator=generator)
    relevant = torch.rand(50, 60, generator=generator) < 0.1
    relevant[:, 0] |= ~relevant.any(1)
    for right in (relevant, ranking.Labels([row.nonzero().flatten() for row in relevant])):
        names = [f"reciprocal_rank@{k}" for k in (1, 2, 7, 60)]
        metrics = ranking.evaluate(scores, right, [*names, *beside], ties=ties)
        least, *_, most = (metrics[name] for name in names)
        assert torch.allclose(least, ranking.precision(scores, right, 1, ties=ties), rtol=1e-12)
        assert torch.allclose(most, ranking.reciprocal_rank(scores, right, ties=ties), rtol=1e-12)
        assert all((metrics[a] <= metrics[b] + 1e-15).all() for a, b in pairwise(names))
        alone = ranking.evaluate(scores, right, names[1:2], ties=ties)[names[1]]
        assert torch.equal(alone, metrics[names[1]])


def test_lists_without_a_relevant_or_retrieved_item() -> None:
    """With gains or scores, all lists empty, the shapes did not fit."""
    none = ranking.Labels([[], []], gains=[[], []])
    assert ranking.ndcg(torch.zeros(2, 3), none, empty=0).tolist() == [0, 0]
    retrieved = ranking.Retrieved([[], []], [[], []])
    assert ranking.recall(retrieved, ranking.Labels([[1], []]), 2, empty=0.5).tolist() == [0, 0.5]


# Against libraries


def trec(scores: np.ndarray, relevant: np.ndarray, names: Sequence[str]) -> list[dict[str, float]]:
    """What trec_eval says of each list, the items called by the given names."""
    items = range(scores.shape[1])
    judged = {str(b): {names[i]: int(row[i]) for i in items} for b, row in enumerate(relevant)}
    run = {str(b): {names[i]: float(row[i]) for i in items} for b, row in enumerate(scores)}
    measures = {"recip_rank", "map", "ndcg", "P.2,5", "recall.2,5", "ndcg_cut.5"}
    evaluated = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(run)
    return [evaluated[str(b)] for b in range(len(scores))]


OURS: dict[str, Metric] = {
    "recip_rank": ranking.reciprocal_rank,
    "map": ranking.average_precision,
    "ndcg": ranking.ndcg,
    "ndcg_cut_5": lambda s, r, **kw: ranking.ndcg(s, r, 5, **kw),
    "P_2": lambda s, r, **kw: ranking.precision(s, r, 2, **kw),
    "P_5": lambda s, r, **kw: ranking.precision(s, r, 5, **kw),
    "recall_2": lambda s, r, **kw: ranking.recall(s, r, 2, **kw),
    "recall_5": lambda s, r, **kw: ranking.recall(s, r, 5, **kw),
}


@pytest.mark.parametrize("seed", range(3))
def test_without_ties_trec_eval_says_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # trec_eval keeps scores in float32: a permutation of small integers has no ties there.
    scores = rng.permuted(np.tile(np.arange(30.0), (20, 1)), axis=1) - 10
    relevant = rng.random((20, 30)) < 0.2
    relevant[:, 0] |= ~relevant.any(1)
    expected = trec(scores, relevant, [f"d{i:02}" for i in range(30)])
    for name, metric in OURS.items():
        actual = metric(torch.from_numpy(scores), torch.from_numpy(relevant))
        assert np.allclose(actual.numpy(), [values[name] for values in expected], rtol=1e-12, atol=0)


def test_with_ties_trec_eval_follows_the_names_and_averages_to_the_expected_value() -> None:
    scores, relevant = np.array([[1.0, 1.0, 2.0, 1.0]]), np.array([[True, False, False, True]])
    by_names = [trec(scores, relevant, names)[0] for names in permutations("abcd")]
    s, r = torch.from_numpy(scores), torch.from_numpy(relevant)
    for name in ("recip_rank", "map", "ndcg", "P_2", "recall_2"):
        values = [value[name] for value in by_names]
        assert OURS[name](s, r).item() == pytest.approx(np.mean(values), rel=1e-12)
        assert OURS[name](s, r, ties="pessimistic").item() == pytest.approx(min(values), rel=1e-12)
        assert OURS[name](s, r, ties="optimistic").item() == pytest.approx(max(values), rel=1e-12)
        assert min(values) < max(values)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_scikit_learn_takes_the_expected_ndcg_but_another_average_precision(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, relevant = rng.integers(0, 4, (3, 8)).astype(float), rng.random((3, 8)) < 0.4
    relevant[:, 0] |= ~relevant.any(1)
    s, r = torch.from_numpy(scores), torch.from_numpy(relevant)
    assert ranking.ndcg(s, r).mean().item() == pytest.approx(ndcg_score(relevant, scores), rel=1e-12)
    assert ranking.ndcg(s, r, 3).mean().item() == pytest.approx(ndcg_score(relevant, scores, k=3), rel=1e-12)
    free = torch.from_numpy(rng.permuted(np.tile(np.arange(8.0), (3, 1)), axis=1))
    expected = label_ranking_average_precision_score(relevant, free.numpy())
    assert ranking.average_precision(free, r).mean().item() == pytest.approx(expected, rel=1e-12)


def test_scikit_learns_label_ranking_gives_every_tied_item_the_last_place() -> None:
    # Three tied items, one relevant: it counts 1/3, which no order but the worst gives.
    scores, relevant = np.zeros((1, 3)), np.array([[True, False, False]])
    assert label_ranking_average_precision_score(relevant, scores) == pytest.approx(1 / 3)


# Masks, types, extremes


@given(st.integers(0, 10**6))
@settings(max_examples=12, deadline=None)
def test_what_is_masked_does_not_matter(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-2, 3, (4, 6), generator=generator).double()
    scores[scores == -2] = -inf
    relevant, mask = torch.rand(4, 6, generator=generator) < 0.5, torch.rand(4, 6, generator=generator) < 0.7
    relevant[:, 0], mask[:, 0], mask[:, 1] = True, True, True
    junk = torch.where(mask, scores, torch.tensor([nan, inf, -inf, 99.0, 0.0, -7.0], dtype=torch.float64))
    for ties in RULES:
        whole = ranking.evaluate(junk, relevant, [*BY_ORDER], ties=ties, mask=mask)
        for b in range(4):
            alone = ranking.evaluate(scores[b : b + 1, mask[b]], relevant[b : b + 1, mask[b]], [*BY_ORDER], ties=ties)
            for name, values in whole.items():
                assert values[b].item() == pytest.approx(alone[name].item(), rel=1e-14)
        label = torch.zeros(4, dtype=torch.long)
        ranks = torch.stack([ranking.rank(scores[b : b + 1, mask[b]], label[:1], ties=ties)[0] for b in range(4)])
        assert torch.equal(ranking.rank(junk, label, ties=ties, mask=mask), ranks)


def test_an_empty_batch() -> None:
    scores, relevant = torch.zeros(0, 5), torch.zeros(0, 5, dtype=torch.bool)
    for ties in RULES:
        assert all(value.shape == (0,) for value in ranking.evaluate(scores, relevant, [*BY_ORDER], ties=ties).values())
    assert ranking.rank(scores, torch.zeros(0, dtype=torch.long)).shape == (0,)
    with pytest.raises(ValueError, match="the batch is empty, so it has no mean reciprocal rank"):
        ranking.mean_reciprocal_rank(scores, relevant)


GOOD = torch.zeros(2, 3), torch.tensor([[True, False, False], [False, True, True]])


@pytest.mark.parametrize(
    "scores, relevant, fault",
    [
        (torch.tensor([[0.0, 1.0, 2.0], [0.0, nan, 1.0]]), GOOD[1], "a score of list 1 is NaN, which has no rank"),
        (GOOD[0], torch.tensor([[True] * 3, [False] * 3]), "list 1 has no relevant item .1 such lists.; leave such"),
        (torch.zeros(3), GOOD[1], r"scores must be real numbers \[B, L\], got torch.float32 of shape \(3,\)"),
        (torch.zeros(2, 3, dtype=torch.bool), GOOD[1], "scores must be real numbers"),
        (GOOD[0].to(torch.float8_e5m2), GOOD[1], "scores is torch.float8_e5m2, which torch does not sort"),
        (GOOD[0], GOOD[1][:, :2], r"the scores' shape \(2, 3\), got \(2, 2\); numbers of items go into ranking.Labels"),
        (GOOD[0], 2 * GOOD[1].long(), "relevant must be bool of the scores' shape .*, got torch.int64"),
        (torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.bool), "the lists have no items"),
    ],
)
def test_wrong_lists(scores: Tensor, relevant: Tensor, fault: str) -> None:
    for metric in (ranking.reciprocal_rank, ranking.mean_reciprocal_rank, ranking.average_precision):
        with pytest.raises(ValueError, match=fault):
            metric(scores, relevant)


@pytest.mark.parametrize("k", [0, 4, -1, 2.0])
def test_k_out_of_range(k: int) -> None:
    for metric in (ranking.recall, ranking.precision, ranking.average_precision, ranking.ndcg, ranking.dcg):
        with pytest.raises(ValueError, match=rf"k is {k}; it must be a whole number from 1 to 3"):
            metric(*GOOD, k)


def test_wrong_labels_rules_masks_and_gains() -> None:
    scores, relevant = GOOD
    for labels in (torch.tensor([0, 3]), torch.tensor([-1, 0])):
        with pytest.raises(ValueError, match=r"a label is (3|-1); the 3 classes are 0..2"):
            ranking.rank(scores, labels)
    for labels in (torch.tensor([0.0, 1.0]), torch.tensor([0])):
        with pytest.raises(ValueError, match=r"labels (must be|are torch.float32; they must be) integers"):
            ranking.rank(scores, labels)
    with pytest.raises(ValueError, match="mask or exclude leaves out a label itself"):
        ranking.rank(scores, torch.tensor([0, 1]), mask=relevant.flip(0))
    with pytest.raises(ValueError, match="ties is 'best'; expected one of expected, pessimistic, optimistic"):
        ranking.reciprocal_rank(scores, relevant, ties="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mask must be bool"):
        ranking.recall(scores, relevant, 1, mask=torch.ones(2, 3))
    with pytest.raises(ValueError, match="list 0 has no relevant item"):
        ranking.recall(scores, relevant, 1, mask=~relevant)
    for worst in (-1.0, inf, nan):
        with pytest.raises(ValueError, match="gains must be finite numbers >= 0"):
            ranking.ndcg(scores, torch.tensor([[1.0, 2.0, worst], [1.0, 0.0, 0.0]]))
    with pytest.raises(ValueError, match="list 1 has no candidate with a positive gain"):
        ranking.dcg(scores, torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    with pytest.raises(ValueError, match="gains must have the scores' shape"):
        ranking.dcg(scores, torch.ones(2, 2))
