"""Items that are no candidates, as those of a user's training: against a loop over lists without them."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from sumexp import ranking
from sumexp.ranking import Chunks, Labels

ITEMS, LISTS = 30, 12
METRICS: dict[str, Any] = {
    "recall": (ranking.recall, 4),
    "precision": (ranking.precision, 4),
    "ndcg": (ranking.ndcg, 6),
    "dcg": (ranking.dcg, 6),
    "average_precision": (ranking.average_precision, 5),
    "reciprocal_rank": (ranking.reciprocal_rank, None),
}


def case() -> tuple[Tensor, list[list[int]], list[list[int]]]:
    """Scores with many ties, relevant items, and excluded ones, among them a relevant one."""
    generator = np.random.default_rng(0)
    scores = torch.from_numpy(generator.integers(0, 8, (LISTS, ITEMS)).astype(float))
    chosen = [generator.permutation(ITEMS).tolist() for _ in range(LISTS)]
    relevant = [row[:3] for row in chosen]
    exclude = [[*row[3 : 3 + i], row[0], row[0]] if i else [] for i, row in enumerate(chosen)]  # twice does no harm
    return scores, relevant, exclude


def by_loop(metric: Any, k: int | None, ties: Any) -> list[float]:
    scores, relevant, exclude = case()
    values = []
    for row, own, gone in zip(scores, relevant, exclude, strict=True):
        left = [item for item in range(ITEMS) if item not in gone]
        labels = Labels([[left.index(item) for item in own if item in left]])
        values.append(metric(row[left].unsqueeze(0), labels, *([] if k is None else [k]), ties=ties).item())
    return values


@pytest.mark.parametrize("ties", ["expected", "pessimistic", "optimistic"])
@pytest.mark.parametrize("name", METRICS)
def test_excluded_items_are_as_if_they_were_not_there(name: str, ties: Any) -> None:
    (metric, k), (scores, relevant, exclude) = METRICS[name], case()
    places = [] if k is None else [k]
    wanted = by_loop(metric, k, ties)
    padded = torch.full((LISTS, ITEMS), -1)
    matrix = torch.zeros(LISTS, ITEMS, dtype=torch.bool)
    marks = np.zeros((LISTS, ITEMS))
    for i, gone in enumerate(exclude):
        padded[i, : len(gone)], matrix[i, relevant[i]], marks[i, gone] = torch.tensor(gone), True, 1
    in_chunks = Chunks(lambda start, stop: scores[:, start:stop], ITEMS, 7)
    for given in (exclude, padded, csr_array(marks), Labels(exclude)):
        assert metric(scores, Labels(relevant), *places, ties=ties, exclude=given).tolist() == pytest.approx(wanted)
        found = metric(in_chunks, Labels(relevant), *places, ties=ties, exclude=given)
        assert found.tolist() == pytest.approx(wanted)
    assert metric(scores, matrix, *places, ties=ties, exclude=exclude).tolist() == pytest.approx(wanted)
    mask = torch.from_numpy(marks) == 0
    assert metric(scores, matrix, *places, ties=ties, mask=mask).tolist() == pytest.approx(wanted)
    half = torch.arange(ITEMS) % 2 == 0  # of the excluded ones the mask takes the even and exclude the odd
    odd = [[item for item in gone if item % 2] for gone in exclude]
    found = metric(scores, matrix, *places, ties=ties, mask=mask | ~half, exclude=odd)
    assert found.tolist() == pytest.approx(wanted)


def test_the_rank_of_a_label_among_those_left() -> None:
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0]] * 2)
    in_chunks = Chunks(lambda start, stop: scores[:, start:stop], 4, 3)
    for given in (scores, in_chunks):
        assert ranking.rank(given, [2, 3], exclude=[[0], [1, 2]]).tolist() == [2, 2]
        with pytest.raises(ValueError, match="mask or exclude leaves out a label itself"):
            ranking.rank(given, [2, 3], exclude=[[0], [3]])
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
