"""The ways to find where relevant items stand agree with the transparent metrics, and with each other."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log2, nan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from torch import Tensor

from sumexp import ranking
from sumexp.ranking import Chunks, Labels, Ties, _counting
from sumexp.ranking import _places as places
from tests.ranking import transparent

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8]
RULES: tuple[Ties, ...] = ("expected", "pessimistic", "optimistic")


@dataclass
class Case:
    scores: Tensor
    relevant: Tensor
    gains: Tensor
    mask: Tensor
    k: int

    @property
    def labels(self) -> Labels:
        return Labels([row.nonzero().flatten().tolist() for row in self.relevant])

    @property
    def graded(self) -> Labels:
        lists = [row.nonzero().flatten() for row in self.relevant]
        return Labels(lists, [g[i].tolist() for g, i in zip(self.gains, lists, strict=True)])

    @property
    def padded(self) -> Labels:
        """The same labels in a tensor, the padding between them."""
        index = torch.arange(self.relevant.shape[1]).expand(self.relevant.shape)
        return Labels(torch.where(self.relevant, index, -7))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    batch, items, values = draw(st.integers(0, 4)), draw(st.integers(1, 24)), draw(st.sampled_from([1, 2, 4, 100]))
    dtype = draw(st.sampled_from(DTYPES))
    scores = torch.randint(values, (batch, items), generator=generator).to(dtype)
    if dtype.is_floating_point:
        scores = scores - 1
        scores[scores == 0] *= -1  # 0.0 and -0.0 tie
        scores[torch.rand(batch, items, generator=generator) < 0.2] = -inf
        scores[torch.rand(batch, items, generator=generator) < 0.1] = inf
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    relevant = torch.rand(batch, items, generator=generator) < share
    sure = torch.randint(items, (batch, 1), generator=generator)
    relevant.scatter_(1, sure, True)
    mask = (torch.rand(batch, items, generator=generator) < draw(st.sampled_from([0.5, 1.0]))).scatter(1, sure, True)
    gains = torch.where(relevant, torch.randint(1, 4, (batch, items), generator=generator) / 2, 0.0)
    return Case(scores, relevant, gains, mask, draw(st.integers(1, items)))


@pytest.fixture(params=["as they are", "counted", "searched", "sorted", "row by row"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lists this short would all go the same way; each must serve."""
    least, few, rows = {
        "as they are": (16, 2, 1 << 20),
        "counted": (1, 1 << 20, 1 << 20),
        "searched": (1, 0, 1 << 20),
        "sorted": (1 << 20, 0, 1 << 20),
        "row by row": (1, 2, 1),
    }[request.param]
    for module, name, value in ((places, "SOME", least), (_counting, "FEW", few), (places, "ROWS_AT_ONCE", rows)):
        monkeypatch.setattr(module, name, value)
    return str(request.param)


def close(value: Tensor, wanted: Tensor) -> bool:
    return value.dtype == torch.float64 and value.shape == wanted.shape and torch.allclose(value, wanted, 1e-13, 1e-14)


@pytest.mark.usefixtures("way")
@given(cases(), st.sampled_from(RULES))
@settings(max_examples=15, deadline=None)
def test_a_matrix_gives_what_the_transparent_metrics_give(case: Case, ties: Ties) -> None:
    scores, relevant, gains, mask, k = case.scores, case.relevant, case.gains, case.mask, case.k
    last = scores.shape[1]
    reciprocal = ranking.reciprocal_rank(scores, relevant, ties=ties, mask=mask)
    assert close(reciprocal, transparent.reciprocal_rank(scores, relevant, ties, mask))
    for name in ("reciprocal_rank", "precision", "average_precision"):  # of gains, what gains more than 0
        [actual] = ranking.evaluate(scores, gains, [f"{name}@{k}"], ties=ties, mask=mask).values()
        assert close(actual, getattr(ranking, name)(scores, relevant, k, ties=ties, mask=mask))
    for metric, slow, of in (
        (ranking.recall, transparent.recall, relevant),
        (ranking.recall, transparent.recall, gains),
        (ranking.precision, transparent.precision, relevant),
        (ranking.average_precision, transparent.average_precision, relevant),
        (ranking.dcg, transparent.dcg, gains),
        (ranking.ndcg, transparent.ndcg, gains),
        (ranking.ndcg, transparent.ndcg, relevant),
    ):
        for places_that_count in {k, last}:
            actual = metric(scores, of, places_that_count, ties=ties, mask=mask)
            wanted = slow(scores, of, places_that_count, ties, mask)
            assert close(actual, wanted), (metric.__name__, actual, wanted)


@pytest.mark.usefixtures("way")
@given(cases(), st.sampled_from(RULES))
@settings(max_examples=25, deadline=None)
def test_ranks_by_comparing_all_with_all(case: Case, ties: Ties) -> None:
    wanted = transparent.ranks(case.scores, ties)
    assert torch.equal(ranking.ranks(case.scores, ties=ties), wanted)
    label = case.relevant.byte().argmax(-1)
    assert torch.equal(ranking.rank(case.scores, label, ties=ties), wanted.gather(-1, label.unsqueeze(-1)).squeeze(-1))


@pytest.mark.usefixtures("way")
@given(cases(), st.sampled_from(RULES), st.integers(1, 25))
@settings(max_examples=10, deadline=None)
def test_labels_and_chunks_give_what_the_matrix_gives(case: Case, ties: Ties, size: int) -> None:
    scores, k = case.scores, case.k
    chunks = Chunks(lambda start, stop: scores[:, start:stop], scores.shape[1], size)
    label = case.relevant.byte().argmax(-1)
    assert torch.equal(ranking.rank(chunks, label, ties=ties), ranking.rank(scores, label, ties=ties))
    calls: list[tuple[Callable[..., Tensor], Tensor, tuple[Labels, ...]]] = [
        (lambda s, r, **o: ranking.reciprocal_rank(s, r, **o), case.relevant, (case.labels, case.padded, case.graded)),
        (lambda s, r, **o: ranking.recall(s, r, k, **o), case.relevant, (case.labels, case.padded)),
        (lambda s, r, **o: ranking.recall(s, r, k, **o), case.gains, (case.graded,)),
        (lambda s, r, **o: ranking.precision(s, r, k, **o), case.relevant, (case.labels, case.graded)),
        (lambda s, r, **o: ranking.average_precision(s, r, k, **o), case.relevant, (case.labels, case.graded)),
        (lambda s, r, **o: ranking.ndcg(s, r, k, **o), case.relevant, (case.labels, case.padded)),
        (lambda s, r, **o: ranking.ndcg(s, r, k, **o), case.gains, (case.graded,)),
        (lambda s, r, **o: ranking.ndcg(s, r, **o), case.gains, (case.graded,)),
    ]
    for metric, matrix, labels in calls:
        wanted, masked = metric(scores, matrix, ties=ties), metric(scores, matrix, ties=ties, mask=case.mask)
        for each in labels:
            assert close(metric(scores, each, ties=ties), wanted)
            assert close(metric(chunks, each, ties=ties), wanted)
            assert close(metric(scores, each, ties=ties, mask=case.mask), masked)


def test_labels_by_hand() -> None:
    # Scores 3 > 2 = 2 > 1: of the two relevant items one is first, the other shares the places 2 and 3.
    scores = torch.tensor([[2.0, 3.0, 1.0, 2.0], [4.0, 3.0, 2.0, 1.0]])
    labels = Labels([[1, 3], [3]])
    assert ranking.recall(scores, labels, 2).tolist() == [(1 + 1 / 2) / 2, 0.0]
    assert ranking.reciprocal_rank(scores, labels).tolist() == [1.0, 1 / 4]
    ndcg = ranking.ndcg(scores, Labels(torch.tensor([[1, 3], [-1, 3]]), torch.tensor([[1.0, 3.0], [9.0, 2.0]])))
    dcg, best = 1 + 3 * (1 / log2(3) + 1 / log2(4)) / 2, 3 + 1 / log2(3)
    assert ndcg.tolist() == pytest.approx([dcg / best, 1 / log2(5)])


def test_lists_of_any_kind_keep_all_digits_of_their_gains() -> None:
    """1/10 is no number of single precision; rows may be lists, tuples, arrays or tensors."""
    scores = torch.tensor([[4.0, 3.0, 2.0, 1.0], [1.0, 4.0, 3.0, 2.0]])
    gains = torch.tensor([[0.1, 0, 0.2, 0], [0, 0.7, 0, 0]], dtype=torch.float64)
    wanted = ranking.dcg(scores, gains)
    for lists, worth in (
        ([[0, 2], [1]], [[0.1, 0.2], [0.7]]),
        ([(2, 0), (1,)], [(0.2, 0.1), (0.7,)]),
        ([np.array([0, 2]), torch.tensor([1])], [np.array([0.1, 0.2]), [0.7]]),
        (np.array([[0, 2], [1, -1]]), np.array([[0.1, 0.2], [0.7, 0.0]])),
    ):
        assert ranking.dcg(scores, Labels(lists, worth)).tolist() == wanted.tolist()  # type: ignore[arg-type]
    bytes_twice = coo_array((np.full(4, 100, np.int8), ([0, 0, 1, 1], [0, 0, 1, 1])), shape=(2, 4))
    assert ranking.dcg(scores, bytes_twice).tolist() == [200, 200]  # -56 in their own type


def test_arrays_are_as_good_as_tensors_and_lists_are_named() -> None:
    scores, relevant = torch.randn(3, 9, generator=torch.Generator().manual_seed(0)), torch.eye(3, 9).bool()
    wanted, mask = ranking.recall(scores, relevant, 2), torch.ones(3, 9).bool()
    mask[:, 5:] = False
    chunks = Chunks(lambda start, stop: scores.numpy()[:, start:stop], 9, 4)
    for s, of in ((scores.numpy(), relevant.numpy()), (scores, relevant.numpy()), (chunks, Labels([[0], [1], [2]]))):
        assert torch.equal(ranking.recall(s, of, 2), wanted)
    masked = ranking.reciprocal_rank(scores, relevant, mask=mask)
    assert torch.equal(ranking.reciprocal_rank(scores.numpy(), relevant.numpy(), mask=mask.numpy()), masked)
    assert torch.equal(ranking.ranks(scores.numpy()), ranking.ranks(scores))
    for labels in ([0, 1, 2], np.array([0, 1, 2], dtype=np.int32)):
        assert torch.equal(ranking.rank(scores.numpy(), labels), ranking.rank(scores, torch.arange(3)))
    with pytest.raises(
        ValueError, match=r"relevant is list; it must be .* \(lists of relevant items are ranking.Labels\)"
    ):
        ranking.recall(scores, [[0], [1], [2]], 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scores is list; it must be a tensor or a NumPy array"):
        ranking.recall(scores.tolist(), relevant, 2)  # type: ignore[arg-type]


def test_arrays_that_torch_takes_no_view_of() -> None:
    scores, relevant = np.arange(15.0).reshape(3, 5) % 7, np.eye(3, 5, dtype=bool)
    wanted = ranking.ndcg(scores[:, ::-1].copy(), relevant)
    items = np.array([[0], [1], [2]])
    for same in (scores[:, ::-1], scores[:, ::-1].astype(">f8"), scores[:, ::-1].astype(">i4")):
        assert torch.equal(ranking.ndcg(same, relevant), wanted)
        assert torch.equal(ranking.ndcg(same, Labels(items[::-1].copy()[::-1])), wanted)
        assert torch.equal(ranking.ndcg(same, Labels(items.astype(">i8"))), wanted)
    for dtype, fault in (("uint16", "which torch does not sort"), ("longdouble", "it must hold numbers")):
        with pytest.raises(ValueError, match=fault):
            ranking.ndcg(scores.astype(dtype), relevant)
    with pytest.raises(
        ValueError, match=r"scores has the layout torch.sparse_coo; it must be dense: take .to_dense\(\)"
    ):
        ranking.recall(torch.eye(3, 5).to_sparse(), relevant, 2)


@pytest.mark.parametrize("ties", RULES)
def test_ties_of_a_large_catalogue_keep_all_digits(ties: Ties) -> None:
    # 200,000 items in pairs of equal scores: the discounts of a pair are told from sums 10,000 times as large.
    items = 200_000
    scores = -(torch.arange(items) // 2).unsqueeze(0)
    place = items - 1  # of a pair's first, counted from 1
    discount = {
        "expected": (1 / log2(1 + place) + 1 / log2(2 + place)) / 2,
        "optimistic": 1 / log2(1 + place),
        "pessimistic": 1 / log2(2 + place),
    }[ties]
    last = Labels([[items - 1]])
    assert ranking.ndcg(scores, last, ties=ties).item() == pytest.approx(discount, rel=1e-15)
    reciprocal = {"expected": (1 / place + 1 / items) / 2, "optimistic": 1 / place, "pessimistic": 1 / items}[ties]
    assert ranking.reciprocal_rank(scores, last, ties=ties).item() == pytest.approx(reciprocal, rel=1e-15)


def test_a_million_items_in_chunks_need_little_memory() -> None:
    size, asked = 1 << 12, []

    def score(start: int, stop: int) -> Tensor:
        asked.append(stop - start)
        return -torch.arange(start, stop, dtype=torch.float64).expand(3, -1)

    chunks, labels = Chunks(score, 1_000_000, size), Labels([[0], [9, 10, 999_999], [499_999]])
    assert ranking.recall(chunks, labels, 10).tolist() == [1, 1 / 3, 0]
    assert max(asked) == size
    assert sum(asked) == 1_000_000  # once
    assert ranking.reciprocal_rank(chunks, labels).tolist() == [1, 1 / 10, 1 / 500_000]


GOOD = torch.zeros(2, 3)


@pytest.mark.parametrize(
    "labels, fault",
    [
        (Labels([[0]]), "there are labels of 1 lists and scores of 2"),
        (Labels([[0], []]), "list 1 has no relevant item .1 such lists.; leave such"),
        (Labels([[0], [3]]), r"a label is 3; the 3 classes are 0..2"),
        (Labels([[0], [1, 2, 1]]), "list 1 names a label twice; name each relevant item once"),
        (Labels([[0.5], [1.0]]), r"the lists must hold integers, int32 or int64"),  # type: ignore[list-item]
        (Labels(torch.tensor([0, 1])), r"as a tensor \[B, T\], got torch.int64 of shape \(2,\)"),
        (Labels([0, 1]), "lists must be lists of numbers, one list for each row"),  # type: ignore[list-item]
        (Labels([[0], [1]], [[1.0]]), r"gains have the shape \(1, 1\), the items \(2, 1\)"),
        (Labels([[0, 1], [2]], [[1.0, 2.0], [3.0, 4.0]]), "list 1 has 1 items and 2 gains; give one for each item"),
        (Labels([{0, 1}, {2}], [[1.0, 2.0], [3.0]]), "lists holds a set or a dict, whose items have no order"),
        (Labels([{0: 3.0}, {1: 2.0}]), "lists must be lists of numbers"),  # whose gains would be lost
        (Labels([[0], [1]], [[1.0], [0.0]]), "the gains of labels must be finite and > 0; leave out"),
        (Labels([[0], [1]], [[1.0], [nan]]), "the gains of labels must be finite and > 0"),
        (Labels([[0], [1]], [[1.0], [inf]]), "the gains of labels must be finite and > 0"),
    ],
)
def test_wrong_labels(labels: Labels, fault: str) -> None:
    for scores in (GOOD, Chunks(lambda start, stop: GOOD[:, start:stop], 3, 2)):
        if isinstance(scores, Chunks) and "labels of" in fault:
            fault = "a chunk has scores of 2 lists; there are labels of 1"
        for metric in (ranking.reciprocal_rank, ranking.ndcg):
            with pytest.raises(ValueError, match=fault):
                metric(scores, labels)


def test_wrong_chunks() -> None:
    labels = Labels([[0], [1]])
    with pytest.raises(ValueError, match=r"a chunk of 2 items has scores of the shape \(2, 3\)"):
        ranking.recall(Chunks(lambda start, stop: GOOD, 3, 2), labels, 1)
    with pytest.raises(ValueError, match="a score of list 1 is NaN"):
        ranking.ndcg(Chunks(lambda start, stop: torch.tensor([[0.0], [nan]]), 3, 1), labels)
    good = Chunks(lambda start, stop: GOOD[:, start:stop], 3, 2)
    lists = ranking.Retrieved([[0, 1], [1, 2]])
    for scores, called, fix in ((good, "chunks of scores", "the score -inf"), (lists, "retrieved items", "padding")):
        for metric in (ranking.ndcg, ranking.reciprocal_rank):
            with pytest.raises(ValueError, match=f"{called} take no matrix of what is relevant: give Labels, or a sp"):
                metric(scores, GOOD.bool())
        with pytest.raises(ValueError, match=f"{called} take no mask: give {fix}.* to what is no candidate"):
            ranking.ndcg(scores, labels, mask=GOOD.bool())
    with pytest.raises(ValueError, match="k is 4; it must be a whole number from 1 to 3"):
        ranking.recall(good, labels, 4)
    with pytest.raises(ValueError, match=r"labels must be integers \[2\], got \(2, 1\)"):
        ranking.rank(GOOD, torch.zeros(2, 1, dtype=torch.int64))
    for items, size in ((0, 1), (1, 0), (1.0, 1)):
        with pytest.raises(ValueError, match="must be a whole number from 1"):
            Chunks(lambda start, stop: GOOD, items, size)  # type: ignore[arg-type]
