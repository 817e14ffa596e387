"""The multi-label network: losses by hand, measures against the bounds, and data."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from sumexp import functional, ranking
from sumexp.chapters.models import _queries as queries
from sumexp.chapters.models import multilabel
from sumexp.chapters.models._queries import Queries
from sumexp.chapters.models.multilabel import CONFIGS, Loss, MultilabelConfig
from sumexp.datasets import Corpus, MultiLabel

TINY = MultilabelConfig(width=8, epochs=3, batch=32, learning_rate=0.02, queries=60, pairs=10, negatives=4)
MEASURES = ("loss", "cross_entropy", "log_rank", "log_mrr", "first_log_mrr", "ndcg")
LOSSES: tuple[Loss, ...] = ("softmax", "cosface", "arcface", "infonce")


@pytest.fixture(scope="module")
def data() -> Queries:
    """Queries of 20 words and 12 items; each item has two words of its own."""
    rng = np.random.default_rng(0)

    def part(size: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.random((size, 12)) < 0.15
        labels[np.arange(size), rng.integers(12, size=size)] = True
        words = rng.random((size, 20)) < 0.05 + 0.6 * (labels @ np.eye(12, 20) + labels @ np.eye(12, 20, k=8) > 0)
        return words.astype(np.float32), labels

    train, test = part(300), part(100)
    return Queries(*train, *test)


def test_losses_of_labels_are_those_of_the_ranking_module() -> None:
    generator = torch.Generator().manual_seed(0)
    cosine = 2 * torch.rand(3, 6, generator=generator, dtype=torch.float64) - 1
    cosine[0, 0], cosine[1, 1] = -1, 1
    for loss in LOSSES:
        losses = multilabel.label_losses(9 * cosine, replace(TINY, loss=loss, scale=9.0, margin=0.4))
        for i in range(6):
            labels = torch.full((3,), i)
            column = cosine[:, i]
            margins = {"cosface": torch.full_like(column, 0.4), "arcface": functional.arcface_margin(column, 0.4)}
            margin = margins.get(loss, 0 * column)
            wanted = functional.pairwise_margin(9 * cosine, labels, 9 * margin.unsqueeze(-1), reduction="none")
            assert torch.allclose(losses[:, i], wanted, rtol=1e-12)


def test_gradients_at_cosines_of_one_are_finite() -> None:
    logits = (16 * torch.tensor([[-1.0, 1.0, 0.3]])).requires_grad_()
    for loss in LOSSES:
        (gradient,) = torch.autograd.grad(multilabel.label_losses(logits, replace(TINY, loss=loss)).sum(), logits)
        assert gradient.isfinite().all()


def curves(arrays: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    """The measures of a part in each epoch."""
    return {name: arrays[f"{part}_{name}"] for name in MEASURES}


def keep_their_bounds(arrays: Mapping[str, np.ndarray]) -> None:
    for part in ("train", "test"):
        curve = curves(arrays, part)
        assert (curve["cross_entropy"] >= curve["log_rank"]).all()
        assert (curve["log_rank"] >= curve["log_mrr"]).all()
        assert (curve["log_mrr"] >= curve["first_log_mrr"]).all()
        assert (curve["ndcg"] >= ranking.least_ndcg(torch.from_numpy(curve["cross_entropy"])).numpy()).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_training_improves_and_every_curve_keeps_its_bound(loss: Loss, data: Queries) -> None:
    result = multilabel.train(replace(TINY, loss=loss), data)
    arrays, metrics = result.arrays, result.metrics
    assert all(np.isfinite(values).all() for values in arrays.values())
    keep_their_bounds(arrays)
    for part in ("train", "test"):
        curve = curves(arrays, part)
        assert all(len(values) == 4 for values in curve.values())
        assert metrics[f"{part}_ndcg"] == curve["ndcg"][-1] > curve["ndcg"][0]
        if loss == "infonce":
            assert (curve["loss"] >= arrays[f"{part}_pair_log_sampled_rank"]).all()
            assert (arrays[f"{part}_pair_log_rank"] >= arrays[f"{part}_pair_log_sampled_rank"]).all()
        else:
            assert (curve["loss"] >= curve["cross_entropy"] - 1e-9).all()
    assert all(later < earlier for earlier, later in pairwise(arrays["train_loss"]))
    assert arrays["pair_loss"].shape == arrays["pair_rank"].shape == (60,)
    assert (arrays["pair_loss"] >= np.log(arrays["pair_rank"])).all()


def test_measures_by_hand() -> None:
    # e^z = (1, 2, 4) and labels 0 and 2: p = 1/7 and 4/7, ranks 3 and 1.
    logits, labels = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64).log(), torch.tensor([[True, False, True]])
    measures = multilabel.measure(logits, labels, torch.tensor([0]), replace(TINY, loss="infonce", negatives=1))
    assert measures["cross_entropy"] == pytest.approx((np.log(7) + np.log(7 / 4)) / 2)
    assert measures["log_rank"] == pytest.approx(np.log(3) / 2)
    assert measures["log_mrr"] == pytest.approx(-np.log((1 + 1 / 3) / 2))
    assert measures["first_log_mrr"] == 0
    assert measures["ndcg"] == pytest.approx((1 + 1 / 2) / (1 + 1 / np.log2(3)))
    assert measures["loss"] == pytest.approx((np.log(1 + 2) + np.log(1 + 4)) / 2)  # one of the two others is drawn
    assert measures["pair_log_sampled_rank"] == pytest.approx(np.log(2))  # both are ahead
    assert measures["pair_log_rank"] == pytest.approx(np.log(3))


def test_graded_measures_by_hand() -> None:
    # The same scores, gains 3 and 1: the shares are 3/4 and 1/4.
    logits, gains = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64).log(), torch.tensor([[3.0, 0.0, 1.0]])
    measures = multilabel.measure(logits, gains, torch.tensor([0]), TINY)
    assert measures["loss"] == measures["cross_entropy"] == pytest.approx(3 / 4 * np.log(7) + 1 / 4 * np.log(7 / 4))
    assert measures["log_rank"] == pytest.approx(3 / 4 * np.log(3))
    assert measures["log_mrr"] == pytest.approx(-np.log(3 / 4 / 3 + 1 / 4))
    assert measures["first_log_mrr"] == 0
    assert measures["ndcg"] == pytest.approx((3 / 2 + 1) / (3 + 1 / np.log2(3)))


def test_followers_of_a_text_by_hand() -> None:
    # Documents "a b a b", "b a" and four more, of which the fifth, "a b b", is the test part. Only a and b count.
    texts = [[0, 1, 0, 1], [1, 0], [2, 0], [0, 2], [0, 1, 1], [2, 2]]
    starts = np.cumsum([0, *map(len, texts)])
    corpus = Corpus(("a", "b", "c"), np.concatenate(texts), starts, tuple("123456"), ("",) * 6)
    followers = queries.followers(corpus, words=3, items=2)
    # c is followed by a in the third document, but never in the fifth, and so is no query.
    assert followers.train.tolist() == followers.test.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert followers.train_gains.tolist() == [[0, 2], [2, 0]]
    assert followers.test_gains.tolist() == [[0, 1], [0, 1]]


def test_words_of_shakespeare_keep_every_bound() -> None:
    data = queries.load("shakespeare")
    assert data.train.shape == (399, 400)
    assert data.test_gains.shape == (399, 1000)
    arrays = multilabel.train(replace(CONFIGS["smoke"]["shakespeare"], epochs=1, queries=50), data).arrays
    keep_their_bounds(arrays)


def test_queries_without_a_relevant_item_are_left_out(monkeypatch: pytest.MonkeyPatch, data: Queries) -> None:
    gains, tested = data.train_gains.copy(), data.test_gains.copy()
    gains[:7], tested[3] = False, False
    loaded = MultiLabel(data.train, gains, data.test, tested, tuple("abcdefghijkl"))
    monkeypatch.setattr("sumexp.datasets.delicious", lambda: loaded)
    dataset = queries.load("delicious")
    assert dataset.train.shape == (293, 20)
    assert len(dataset.test) == 99
    assert dataset.train_gains.any(1).all()
    with pytest.raises(ValueError, match="300 queries have no relevant item, and so no loss"):
        Queries(data.train, gains & False, data.test, data.test_gains)


def test_the_softmax_case_is_listnet(data: Queries) -> None:
    logits = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    labels = torch.from_numpy(data.test_gains[:5])
    mean = ((multilabel.label_losses(logits, TINY) * labels).sum(-1) / labels.sum(-1)).mean()
    assert mean.item() == pytest.approx(functional.listnet(logits, labels).item(), rel=1e-6)
    label = labels.double().argmax(-1)
    alone = torch.nn.functional.one_hot(label, 12) > 0
    wanted = functional.cross_entropy(logits, label).item()
    assert functional.listnet(logits, alone).item() == pytest.approx(wanted, rel=1e-6)
