"""Sparse multi-label training: metrics by hand, sparse steps against dense ones, tuning, and the grid."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array

from sumexp import functional
from sumexp._descent import generator
from sumexp.chapters.models.sampled.methods import SCHEMES, Method
from sumexp.chapters.models.sampled.prediction import Forecast, predict
from sumexp.chapters.retrieval import Config, grids, judging, outlook, training
from sumexp.chapters.retrieval.bags import bag
from sumexp.chapters.retrieval.training import Learner, split, train
from sumexp.datasets.extreme import Extreme, Part
from tests.retrieval.sorted_lists import precision


def test_propensities_by_hand() -> None:
    # N = 100, A = 0.55, B = 1.5: C = (log 100 - 1) 2.5^0.55 = 5.967; N_l = 10: 1 / (1 + C 11.5^-0.55) = 0.391
    c = (math.log(100) - 1) * 2.5**0.55
    propensities = judging.propensities(torch.tensor([10, 0, 10**9]), 100)
    assert propensities.tolist() == pytest.approx([1 / (1 + c * 11.5**-0.55), 1 / (1 + c * 1.5**-0.55), 1], rel=1e-3)
    assert propensities[0].item() == pytest.approx(0.391, abs=1e-3)
    with pytest.raises(ValueError, match="examples is 2; propensities need at least 3"):
        judging.propensities(torch.tensor([1]), 2)


def test_precision_by_hand() -> None:
    scores, even = np.array([[4.0, 3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0]]), np.ones(4)
    relevant = np.array([[True, False, True, True], [True, False, False, False]])
    assert [each.tolist() for each in precision(scores, relevant, 2, even)] == [[1 / 2, 0], [1, 1 / 2]]
    # With 1/p = 1, 2, 4, 8 the first list gets 1 of the first place and could get 8 + 4.
    worth = np.array([1.0, 2.0, 4.0, 8.0])
    assert [each.tolist() for each in precision(scores, relevant, 2, worth)] == [[1 / 2, 0], [12 / 2, 1 / 2]]
    assert [each.tolist() for each in precision(scores, relevant, 4, even)] == [[3 / 4, 1 / 4]] * 2


def part(examples: int, seed: int) -> Part:
    """Feature 3 y + j says label y; each example has one to three labels, and some features that say nothing."""
    source = np.random.default_rng(seed)
    x, y = np.zeros((examples, 40), np.float32), np.zeros((examples, 12), bool)
    prior = 0.8 ** np.arange(12)
    for i in range(examples):
        labels = source.choice(12, source.integers(1, 4), replace=False, p=prior / prior.sum())
        y[i, labels] = True
        x[i, 3 * labels + source.integers(3, size=len(labels))] = 1
        x[i, 36 + source.integers(4)] = 0.5
    return Part(csr_array(x), csr_array(y))


DATA = Extreme(part(200, 0), part(60, 1))
SAMPLED = tuple(Method(loss, law, w, 6) for loss in grids.LOSSES for law in grids.LAWS for w in SCHEMES)
TINY = Config(width=8, epochs=2, batch=16, rates=(0.2,))


@pytest.mark.parametrize("method", [Method(), Method("contrastive"), SAMPLED[0], SAMPLED[7], SAMPLED[10]])
def test_it_learns(method: Method) -> None:
    result = train(replace(TINY, method=method, width=16, epochs=12), DATA)
    arrays = result.arrays
    assert arrays["pairs"].sum() == DATA.test.labels.nnz
    assert (arrays["found"][0] <= arrays["found"][1]).all()
    # By chance the first of twelve labels is right for fewer than 0.3.
    assert arrays["precision"][0] > 0.5
    assert result.history["train_loss"][-1] < result.history["train_loss"][0]


@pytest.mark.parametrize("method", SAMPLED, ids=lambda method: method.name)
def test_a_sparse_step_is_the_dense_step_and_touches_no_other_row(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same loss from whole tables by torch's own functions, and Adagrad by hand."""
    monkeypatch.setattr(training, "WHOLE", {"cpu": 0})
    learner = Learner(replace(TINY, method=method), DATA.train, torch.from_numpy(DATA.counts), 0.2)
    before = learner.features.detach().clone(), learner.labels.detach().clone()
    rows = np.arange(16)
    x, labels = bag(DATA.train, learner.examples[rows]), learner.positives[:16]
    uniform = learner.draw(generator(0, "negatives"))
    negatives = learner.negatives(labels, uniform)
    learner.losses(x.ids, x.values, x.starts, labels, uniform).backward()  # type: ignore[no-untyped-call]
    assert learner.features.grad is not None
    assert learner.features.grad.is_sparse
    assert learner.labels.grad is not None
    assert learner.labels.grad.is_sparse
    with torch.sparse.check_sparse_tensor_invariants(False):
        learner.optimiser.step()
    touched = set(labels.tolist()) | set(negatives.ids.flatten().tolist())
    still = [row for row in range(12) if row not in touched]
    assert (learner.labels.detach()[still] == before[1][still]).all()

    e, v = (table.clone().requires_grad_() for table in before)
    h = torch.from_numpy(DATA.train.features[learner.examples[rows]].toarray()) @ e
    rows_of_v = v
    if method.loss == "contrastive":
        h, rows_of_v = F.normalize(h, dim=1), F.normalize(v, dim=1)
    scores = h @ rows_of_v.T
    weights = training.negative_weights(method, negatives, labels, learner.log_prior).expand(16, -1).float()
    pair = scores.gather(1, labels.unsqueeze(1)).squeeze(1), scores[:, negatives.ids[0]]
    hits = negatives.ids == labels.unsqueeze(1)
    if method.loss == "softmax":
        terms = (weights.log() + pair[1] - pair[0].unsqueeze(1)).masked_fill(hits, -math.inf)
        loss = torch.log1p(terms.exp().sum(1)).mean()
    else:
        loss = functional.decoupled(*pair, margins=functional.CONTRASTIVE, weights=weights, hits=hits)
    for table, parameter in zip((e, v), (learner.features, learner.labels), strict=True):
        (slope,) = torch.autograd.grad(loss, table, retain_graph=True)
        wanted = table.detach() - 0.2 * slope / (slope.square().sqrt() + 1e-10)
        # The first step of Adagrad is the sign: where a slope is rounded to almost 0 that is no number to compare.
        sure = slope.abs() > 1e-7
        assert torch.allclose(parameter.detach()[sure], wanted[sure], atol=1e-5)


@pytest.mark.parametrize("method", [SAMPLED[1], SAMPLED[14]], ids=lambda method: method.name)
def test_small_tables_have_dense_gradients_and_the_same_losses(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(TINY, method=method)
    losses = []
    for most in (training.WHOLE["cpu"], 0):
        monkeypatch.setattr(training, "WHOLE", {"cpu": most})
        learner = Learner(config, DATA.train, torch.from_numpy(DATA.counts), 0.2)
        losses.append([learner.run_epoch().mean().item() for _ in range(2)])
        assert learner.features.grad is not None
        assert learner.features.grad.is_sparse == (not most)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_hidden_units_begin_with_variance_one_however_many_features_an_example_has() -> None:
    labels, counts = csr_array(np.eye(4, dtype=bool)), torch.ones(4)
    tables = (csr_array(table.astype(np.float32)) for table in (np.eye(4, 16), np.ones((4, 16)), np.zeros((4, 16))))
    learners = (Learner(replace(TINY, batch=2), Part(table, labels), counts, 0.2) for table in tables)
    few, many, none = (learner.features.detach() for learner in learners)
    assert torch.equal(many, few / 4)  # the root of 16 features beside 1
    assert torch.equal(none, few)


def test_hits_and_negatives_of_a_batch() -> None:
    config = replace(TINY, method=Method("softmax", "batch", "constant", 3))
    learner = Learner(config, DATA.train, torch.from_numpy(DATA.counts), 0.2)
    labels = torch.tensor([4, 5, 4, 7])
    negatives = learner.negatives(labels, learner.draw(generator(0, "negatives")))
    assert negatives.ids.tolist() == [[4, 5, 4]]
    assert negatives.hits.tolist() == [[True, False, True], [False, True, False], [True, False, True], [False] * 3]
    share = torch.from_numpy(DATA.counts / DATA.counts.sum())
    assert negatives.log_q.exp().flatten().tolist() == pytest.approx(share[[4, 5, 4]].tolist())


def test_a_bag_by_hand() -> None:
    features = csr_array(np.array([[0, 2, 0], [1, 0, 3], [0, 0, 0]], np.float32))
    batch = bag(Part(features, csr_array(np.ones((3, 1), bool))), np.array([1, 2, 0, 1]))
    assert batch.ids.tolist() == [0, 2, 1, 0, 2]
    assert batch.values.tolist() == [1, 3, 2, 1, 3]
    assert batch.starts.tolist() == [0, 2, 2, 3]


def test_validation_pairs_are_a_tenth_of_the_training_pairs_and_none_is_trained_on() -> None:
    fitted, held = (part.labels.toarray() for part in split(DATA.train, 3))
    assert (fitted ^ held == DATA.train.labels.toarray()).all()
    assert not (fitted & held).any()
    assert held.sum() == DATA.train.labels.nnz // 10
    assert (held != split(DATA.train, 4)[1].labels.toarray()).any()


@pytest.mark.parametrize("rates", [(1e-4, 0.2), (0.2, 1e-4)])
def test_the_rate_and_epoch_that_validation_pairs_choose(rates: tuple[float, ...]) -> None:
    config = replace(TINY, rates=rates, epochs=4)
    result = train(config, DATA)
    (place, epoch), validation = result.arrays["picked"], result.arrays["validation"]
    assert rates[place] == 0.2
    assert validation[place, epoch] == validation.max()
    alone = train(replace(config, rates=(0.2,), epochs=int(epoch) + 1), DATA)
    assert all(np.array_equal(alone.arrays[name], result.arrays[name]) for name in ("found", "precision", "propensity"))
    assert alone.history["train_loss"].tolist() == result.history["train_loss"][: epoch + 1].tolist()
    assert result.metrics["recall"] > result.metrics["popularity"]


def test_popularity_is_judged_on_the_same_test_pairs() -> None:
    result = train(TINY, DATA)
    # Ten of the twelve labels; none of them ties with the tenth.
    first = np.argsort(-DATA.counts)[:10]
    assert result.metrics["popularity"] == result.arrays["pairs"][first].sum() / DATA.test.labels.nnz


def test_too_few_pairs() -> None:
    with pytest.raises(ValueError, match=r"there are \d+ training pairs for a batch of 100000; lower the batch"):
        train(replace(TINY, batch=100_000), DATA)


def test_words_stand_in_and_are_foreseen() -> None:
    data = training.load("shakespeare")
    assert data.train.features.shape[1] == 400
    methods = (Method(), Method("softmax", "batch", "constant", 16))
    arrays = outlook.predict(outlook.Outlook("shakespeare", methods)).arrays
    counts = data.counts[data.counts > 0]
    again = predict(Forecast(tuple(counts.tolist()), methods, "quantiles")).arrays
    assert (arrays["counts"] == counts).all()
    assert (arrays["group_offset"] == again["group_offset"]).all()
    head, _, tail = arrays["group_offset"][1]
    assert head < 0 < tail  # constant weights of within-batch negatives take from the head
