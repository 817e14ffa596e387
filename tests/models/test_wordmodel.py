"""The next-word model on tiny corpora and on its data."""

from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sumexp.chapters.models import wordmodel
from sumexp.chapters.models.wordmodel import CONFIGS, WordModel, WordModelConfig
from sumexp.datasets import Corpus
from tests.models.texts import corpus

TRAINED_ON = [text.split() for text in ["a b a b a c a c a b", "c c b a d"]]


def counts_of(rows: list[list[float]]) -> sparse.csr_array:
    return sparse.csr_array(np.array(rows, dtype=float))


def test_bigrams_are_counted_within_documents() -> None:
    text = corpus(list("aab"), list("ba"), list("bbbb"))
    assert wordmodel.bigram_counts(text, np.array([0, 1])).toarray().tolist() == [[1, 1], [1, 0]]
    assert wordmodel.bigram_counts(text, np.array([2])).toarray().tolist() == [[0, 0], [0, 3]]
    assert wordmodel.bigram_counts(text, np.array([0, 1, 2])).sum() == 2 + 1 + 3


def test_the_split_is_of_all_documents_and_always_the_same() -> None:
    split = wordmodel.split(500)
    assert {name: len(part) for name, part in split.items()} == {"test": 50, "validation": 50, "train": 400}
    assert sorted(np.concatenate(list(split.values()))) == list(range(500))
    assert all(np.array_equal(part, wordmodel.split(500)[name]) for name, part in split.items())


def test_smoothed_unigram() -> None:
    # Words 0, 1, 2 follow another word 3, 1 and 0 times.
    unigram = wordmodel.smoothed_unigram(counts_of([[2, 1, 0], [1, 0, 0], [0, 0, 0]]), smoothing=0.5)
    np.testing.assert_allclose(unigram, [3.5 / 5.5, 1.5 / 5.5, 0.5 / 5.5], rtol=1e-15)


def test_perplexity_of_a_fair_die_is_six() -> None:
    counts = counts_of([[1, 2, 0, 0, 0, 3]])
    assert wordmodel.perplexity(counts, 6 * log(1 / 6)) == pytest.approx(6, rel=1e-15)
    assert wordmodel.perplexity(counts, 3 * log(1 / 2) + 3 * log(1 / 8)) == pytest.approx(4, rel=1e-15)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_loss_and_gradients_are_those_of_autograd(seed: int, batch: int, n_words: int, rank: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    u, v, b = (torch.randn(shape, generator=generator).double() for shape in ((batch, rank), (n_words, rank), n_words))
    counts = torch.randint(0, 3, (batch, n_words), generator=generator).double()
    weights = torch.rand(batch, generator=generator).double()
    pairs = counts.nonzero(as_tuple=True)
    for parameter in (u, v, b):
        parameter.requires_grad_()
    log_p = torch.log_softmax(u @ v.T + b, dim=-1)
    expected = -(weights[:, None] * counts * log_p).sum()
    gradients = torch.autograd.grad(expected, (u, v, b))
    with torch.no_grad():
        loss, actual = wordmodel.loss_and_gradients(u, v, b, counts[pairs], pairs, weights)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-12, atol=1e-12)
    for first, second in zip(actual, gradients, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)


def test_loss_and_gradients_by_hand() -> None:
    # One context, followed once by word 0 and once by word 1; the logits are 0, 0 and log 2, so p = 1/4, 1/4, 1/2.
    loss, (du, dv, db) = wordmodel.loss_and_gradients(
        vectors=torch.tensor([[2.0]], dtype=torch.float64),
        word_vectors=torch.tensor([[0.0], [0.0], [log(2) / 2]], dtype=torch.float64),
        bias=torch.zeros(3, dtype=torch.float64),
        counts=torch.ones(2, dtype=torch.float64),
        pairs=(torch.tensor([0, 0]), torch.tensor([0, 1])),
        weights=torch.tensor([3.0], dtype=torch.float64),
    )
    assert loss.item() == pytest.approx(3 * 2 * log(4), rel=1e-14)
    np.testing.assert_allclose(db, [3 * (2 / 4 - 1), 3 * (2 / 4 - 1), 3 * 2 / 2], rtol=1e-14)
    np.testing.assert_allclose(dv[:, 0], [2 * 3 * (2 / 4 - 1), 2 * 3 * (2 / 4 - 1), 2 * 3 * 2 / 2], rtol=1e-14)
    np.testing.assert_allclose(du[0], [3 * 2 / 2 * log(2) / 2], rtol=1e-14)


def test_weights_make_drawn_contexts_stand_for_all() -> None:
    """False-alarm rate: five standard errors in each of three places, below 2e-6."""
    totals = torch.tensor([9.0, 4.0, 0.0, 1.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    n_draws, batch = 10_000, 5
    sums = np.zeros(4)
    for _ in range(n_draws):
        contexts, weights = wordmodel.draw_contexts(totals, batch, generator)
        sums[contexts.numpy()] += weights.numpy()
    pi = np.array([3 / 6, 2 / 6, 0, 1 / 6])  # square roots
    assert sums[2] == 0
    for c in (0, 1, 3):
        # The weight is Binomial(batch, pi) / (batch pi), with variance (1 - pi) / (batch pi).
        standard_error = sqrt((1 - pi[c]) / (batch * pi[c]) / n_draws)
        assert abs(sums[c] / n_draws - 1) < 5 * standard_error


def fitted(config: WordModelConfig, text: Corpus | None = None) -> WordModel:
    result = wordmodel.train(config, text)
    return WordModel.from_arrays(result.arrays, result.metrics)


def tenfold(train: list[list[str]]) -> tuple[Corpus, np.ndarray]:
    """Ten documents of which the training part, whichever that is, holds each of ``train`` four times."""
    parts = wordmodel.split(10)
    documents = [["a", "b"]] * 10
    for place, i in enumerate(parts["train"]):
        documents[i] = train[place % len(train)]
    text = corpus(*documents)
    return text, wordmodel.bigram_counts(text, parts["train"]).toarray()


def test_full_rank_fits_the_bigrams_exactly() -> None:
    """With as many dimensions as words and no penalty, p(w | c) is n_cw / n_c."""
    text, counts = tenfold([list("aabacbabbcccabca")])
    assert (counts > 0).all()
    config = WordModelConfig(rank=3, steps=600, batch=8, learning_rate=0.05, dropout=0, penalty=0)
    p = torch.softmax(fitted(config, text).logits(torch.arange(3)), dim=-1)
    np.testing.assert_allclose(p, counts / counts.sum(axis=1, keepdims=True), rtol=1e-6)


def test_a_crushing_penalty_leaves_the_unigram() -> None:
    """With u = v = 0 the best bias is log n_w, and every context predicts the same."""
    text, counts = tenfold([list("aabacbabbcccabca")])
    config = WordModelConfig(rank=3, steps=600, batch=64, learning_rate=0.03, dropout=0, penalty=1e4)
    p = torch.softmax(fitted(config, text).logits(torch.arange(3)), dim=-1)
    np.testing.assert_allclose(p, np.tile(counts.sum(axis=0) / counts.sum(), (3, 1)), rtol=1e-2)


def test_the_fit_lowers_the_objective_to_a_stationary_point() -> None:
    """The gradient of the whole objective, from autograd, vanishes at the fitted parameters."""
    text, counts = tenfold([list("aabacbabbcccabca"), list("dabadaab")])
    config = WordModelConfig(rank=2, steps=1000, batch=256, learning_rate=0.02, dropout=0, penalty=2.0)
    model = fitted(config, text)
    parameters = [model.context_vectors, model.word_vectors, model.bias]
    for parameter in parameters:
        parameter.requires_grad_()
    u, v, b = parameters
    objective = -(torch.from_numpy(counts) * torch.log_softmax(u @ v.T + b, dim=-1)).sum()
    objective = objective + 2.0 / 2 * (u.square().sum() + v.square().sum())
    for gradient in torch.autograd.grad(objective, parameters):
        assert gradient.abs().max() < 0.05  # of 88 bigrams


def test_held_out_perplexity_is_of_the_held_out_documents() -> None:
    text, _ = tenfold([list("aabacbabbcccabca")])
    model = fitted(replace(CONFIGS["brown"]["smoke"], rank=2, batch=4), text)
    log_p = torch.log_softmax(model.logits(torch.arange(3)), dim=-1)
    # The one held-out document is "a b".
    assert model.held_out_perplexity == pytest.approx(exp(-log_p[0, 1].item()), rel=1e-6)
    _, counts = tenfold([list("aabacbabbcccabca")])
    assert model.unigram_perplexity == pytest.approx((counts.sum() + 3) / (counts.sum(axis=0)[1] + 1), rel=1e-12)


def test_logits_of_any_shape_of_contexts() -> None:
    text, _ = tenfold(TRAINED_ON)
    model = fitted(WordModelConfig(rank=2, steps=5, batch=4), text)
    logits = model.logits(torch.tensor([[0, 1, 2], [3, 0, 0]]))
    assert logits.shape == (2, 3, 4)
    assert logits.dtype == torch.float64
    expected = model.context_vectors[3] @ model.word_vectors[1] + model.bias[1]
    assert logits[1, 0, 1].item() == pytest.approx(expected.item(), rel=1e-14)
    assert model.class_counts.tolist() == np.bincount(text.tokens).tolist()
    assert model.labels == ("a", "b", "c", "d")
    assert model.index("c") == 2
    with pytest.raises(ValueError, match="'The' is not one of the 4 words"):
        model.index("The")


def test_shakespeare() -> None:
    """Even the smoke profile's model beats the unigram that it starts from, on 20,000 held-out words."""
    model = fitted(CONFIGS["shakespeare"]["smoke"])
    assert model.source == "shakespeare"
    assert model.class_counts.shape == (12_631,) == (len(model.labels),)
    assert model.class_counts.sum() == 204_062
    assert model.logits(torch.tensor([model.index("of")])).argmax() == model.index("the")
    assert model.held_out_perplexity < 0.97 * model.unigram_perplexity


@pytest.mark.parametrize("source", CONFIGS)
def test_every_source_has_every_profile(source: str) -> None:
    assert list(CONFIGS[source]) == ["smoke", "cpu", "paper"]
    assert {config.source for config in CONFIGS[source].values()} == {source}
