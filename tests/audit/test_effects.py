"""What is learned: closed forms, whole classes against bins, and a training run."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sumexp.audit._effects import Truth, divergence, effect
from sumexp.audit._minimiser import minimise
from sumexp.audit._rows import given, groups
from sumexp.audit._setup import Setup, Weights, read_setup
from sumexp.negatives.consistency import factors, minimiser, multiset_losses
from sumexp.samplers import Hits

Floats = NDArray[np.float64]


def zipf(classes: int, sigma: float = 1.5) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Counts, their law, and a truth of that spread."""
    counts = np.maximum(1, 40 * classes / np.arange(1, classes + 1.0)).astype(np.int64)
    prior = counts / counts.sum()
    p = prior * np.exp(sigma * np.random.default_rng(1).standard_normal(classes))
    return counts, prior, p / p.sum()


def kl(p: Floats, scores: Floats) -> float:
    law = np.exp(scores - scores.max())
    return float(p @ np.log(p * law.sum() / law))


@pytest.mark.parametrize(
    "sampler, weights, hits, power",
    [
        ("unigram:0.75", "relative", "keep", 0.0),  # the theorem: the truth
        ("within-batch", "none", "keep", -1.0),  # the loss in f - log q: log P - log q, for every m
        ("within-batch", "constant", "mask", None),
        ("log-uniform", "added", "keep", -2.0),  # scores plus log q end at log P - log q
    ],
)
@pytest.mark.parametrize("m", [1, 20])
def test_closed_forms(sampler: str, weights: Weights, hits: Hits, power: float | None, m: int) -> None:
    counts, prior, p = zipf(400)
    how = read_setup(prior, sampler, weights, hits, m, None)
    found = effect(Truth(given(counts, prior), p, how), how, most=400)
    if power is None:
        a, b = factors("constant", torch.from_numpy(prior).log(), m)
        losses = multiset_losses(torch.from_numpy(prior).log(), m, (a, b), "mask")
        expected = kl(p, minimiser(losses, torch.from_numpy(p)).numpy())
    else:
        expected = kl(p, np.log(p) + power * how.log_q)
    assert found.kl == pytest.approx(expected, rel=2e-2, abs=1e-9)
    if power == 0:
        assert found.kl < 1e-10
        assert found.overlap == 10


@pytest.mark.parametrize(
    "weights, hits, m", [("importance", "mask", 31), ("relative", "mask", 63), ("none", "keep", 5)]
)
def test_bins_agree_with_whole_classes(weights: Weights, hits: Hits, m: int) -> None:
    counts, prior, p = zipf(600, sigma=2.0)
    how = read_setup(prior, "within-batch", weights, hits, m, None)
    found = effect(Truth(given(counts, prior), p, how), how)
    log_q = torch.from_numpy(prior).log()
    a = b = torch.zeros(600)
    if weights in ("importance", "relative"):
        a, b = factors(weights, log_q, m, hits=hits)
    scores = minimiser(multiset_losses(log_q, m, (a.double(), b.double()), hits, 1e-9), torch.from_numpy(p), tol=1e-6)
    expected = kl(p, scores.numpy())
    assert found.kl == pytest.approx(expected, rel=1e-2)
    error = scores.numpy() - np.log(p)
    error -= p @ error
    group = groups(counts)
    for g in range(3):
        part = group == g
        assert found.shift[g] == pytest.approx(
            p[part] @ error[part] / p[part].sum(), abs=0.02 * (1 + abs(error).mean())
        )
        assert found.items[g] == pytest.approx(error[part].mean(), abs=0.03 * (1 + abs(error).mean()))
        learned = np.exp(scores.numpy() - scores.numpy().max())
        assert found.learned[g] == pytest.approx(learned[part].sum() / learned.sum(), abs=0.01)
    best = set(np.argsort(-p)[:10]) & set(np.argsort(-scores.numpy())[:10])
    assert found.overlap == pytest.approx(len(best), abs=1)


def test_training_ends_where_the_audit_says() -> None:
    """Averaged stochastic descent on free scores, 300 classes and 31 negatives: the divergence within 10 per cent."""
    counts, prior, p = zipf(300, sigma=1.0)
    m = 31
    how = read_setup(prior, "within-batch", "constant", "mask", m, None)
    said = effect(Truth(given(counts, prior), p, how), how).kl
    generator = torch.Generator().manual_seed(0)
    q, truth = torch.from_numpy(prior), torch.from_numpy(p)
    f, kept = truth.log(), torch.zeros(300, dtype=torch.float64)
    steps, size = 1000, 512
    for step in range(steps):
        labels = torch.multinomial(truth, size, replacement=True, generator=generator).unsqueeze(1)
        drawn = torch.multinomial(q, size * m, replacement=True, generator=generator).view(size, m)
        logits = torch.cat([f[labels], (f[drawn] - math.log(m)).masked_fill(drawn == labels, -math.inf)], 1)
        slope = logits.softmax(1)
        slope[:, 0] -= 1
        ids = torch.cat([labels, drawn], 1).flatten()
        gradient = torch.zeros_like(f).index_add_(0, ids, slope.flatten()) / size
        f = f - 0.5 * gradient / (truth + q)  # rare classes move as fast as frequent ones
        if step >= steps // 2:
            kept += f / (steps - steps // 2)
    assert said > 0.1
    assert kl(p, kept.numpy()) == pytest.approx(said, rel=0.1)


def test_divergence_keeps_its_digits() -> None:
    mass, error = np.array([0.5, 0.5]), np.array([1e-7, -1e-7])
    assert divergence(mass, error) == pytest.approx(0.5e-14, rel=1e-6)  # log cosh x = x^2 / 2
    assert divergence(mass, np.array([3.0, -3.0])) == pytest.approx(math.log(math.cosh(3)))


def test_a_set_that_is_corrected_by_its_inclusion_is_nearly_right() -> None:
    counts, prior, p = zipf(200)
    for sampler in ("within-batch-union", "distinct:log-uniform"):
        how = read_setup(prior, sampler, "relative", "mask", 30, None)
        assert 0 < effect(Truth(given(counts, prior), p, how), how, most=160).kl < 1e-3
    how = read_setup(prior, "within-batch-union", "relative", "mask", 30, None, "multiset")
    assert isinstance(how, Setup)
    assert effect(Truth(given(counts, prior), p, how), how, most=160).kl > 0.01


@pytest.mark.parametrize(
    "sampler, weights",
    [
        ("distinct:log-uniform", "relative"),
        ("union:log-uniform", "relative"),
        ("distinct:unigram:0.75", "importance"),
        ("within-batch-union", "none"),
    ],
)
def test_sets_on_bins_agree_with_whole_classes(sampler: str, weights: Weights) -> None:
    """Also where the divergence is 10^-4 nats: a table of mean probabilities on wide bins would make it another."""
    _, prior, p = zipf(150)
    how = read_setup(prior, sampler, weights, "mask", 15, None)
    truth = Truth(given(np.round(prior * 1e9), prior), p, how)
    assert len(truth.cells.count) > 100
    found = effect(truth, how)
    problem = truth.binned(how, np.arange(len(truth.cells.count)), exact=True)[0]
    mass = problem.count * problem.p
    expected = divergence(mass, minimise(problem).scores - np.log(problem.p))
    assert found.kl == pytest.approx(expected, rel=5e-3, abs=2e-7)
    assert abs(found.kl - expected) < 3 * found.kl_error + 2e-7
