"""Local NCE trained on laws whose optimum is known."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch

from sumexp.chapters.models import skipgram
from sumexp.chapters.models.skipgram import CONFIGS, SkipGramConfig
from sumexp.nce import Joint, global_nce, local_nce

from .test_comparison import LAW

SMALL = SkipGramConfig(batch=2_000, steps=300, negatives=2, learning_rate=0.5)


def test_training_a_full_table_finds_the_pmi_up_to_noise() -> None:
    """A seeded run misses by a third of these bounds or less, so that another machine's sums do no harm."""
    found = skipgram.train(SMALL, LAW)
    arrays, metrics = found.arrays, found.metrics
    scores = torch.from_numpy(arrays["scores"])
    found = skipgram.compare(LAW, scores, 2)
    assert found.weighted > 0.998
    assert found.unweighted > 0.998
    assert 0.96 < found.won < 1
    seen = LAW.p > 0
    assert (scores + log(2) - LAW.pmi)[seen].abs().max() < 0.3
    loss = local_nce.cross_entropy(LAW, scores.double(), 3).item()
    assert metrics["loss"] == pytest.approx(loss, abs=0.05)


def test_the_law_need_not_be_symmetric() -> None:
    """The noise takes the place of y, never of x; what is missed is a third of the bound, as above."""
    law = Joint.from_counts(torch.tensor([[9.0, 3.0, 8.0], [1.0, 2.0, 1.0], [1.0, 9.0, 2.0]]))
    scores = torch.from_numpy(skipgram.train(SMALL, law).arrays["scores"])
    assert (scores + log(2) - law.pmi).abs().max() < 0.3


def test_noise_to_a_power_is_learned_with_its_own_optimum() -> None:
    config = replace(SMALL, power=0.5)
    log_q = torch.log_softmax(0.5 * LAW.y.log(), 0)
    scores = torch.from_numpy(skipgram.train(config, LAW).arrays["scores"])
    assert skipgram.compare(LAW, scores, 2, log_q).won > 0.96
    assert skipgram.compare(LAW, scores, 2).won < skipgram.compare(LAW, scores, 2, log_q).won


def test_low_rank_has_low_rank_and_falls_short_of_the_table() -> None:
    config = replace(SMALL, rank=1, learning_rate=0.03)
    scores = torch.from_numpy(skipgram.train(config, LAW).arrays["scores"]).double()
    assert torch.linalg.matrix_rank(scores, atol=1e-4) <= 2  # one for u v', one for b
    won = skipgram.compare(LAW, scores, 2).won
    assert 0 < won < skipgram.compare(LAW, skipgram.newton(LAW, 2), 2).won


def test_exact_gradients_find_the_optimum_of_any_noise() -> None:
    """Without drawing, nothing but the last digits of float32 is missed, and drift where pairs are never seen."""
    config = replace(SMALL, population=True, power=0.5, steps=1000)
    log_q = torch.log_softmax(0.5 * LAW.y.log(), 0)
    scores = torch.from_numpy(skipgram.train(config, LAW).arrays["scores"])
    seen = LAW.p > 0
    expected = local_nce.optimal_scores(LAW, 3, log_q)[seen]
    torch.testing.assert_close(scores[seen].double(), expected, rtol=0, atol=1e-4)


def test_the_population_loss_is_that_of_the_theory() -> None:
    config = replace(SMALL, population=True, power=0.5, steps=1)
    log_q = torch.log_softmax(0.5 * LAW.y.log(), 0)
    start = torch.full((3, 3), -log(2), dtype=torch.float64)
    expected = local_nce.cross_entropy(LAW, start, 3, log_q).item()
    assert skipgram.train(config, LAW).metrics["loss"] == pytest.approx(expected, rel=1e-6)


def test_more_rank_comes_nearer() -> None:
    won = []
    for rank in (1, 2, 3):
        config = replace(SMALL, rank=rank, population=True, learning_rate=0.03)
        won.append(skipgram.compare(LAW, torch.from_numpy(skipgram.train(config, LAW).arrays["scores"]), 2).won)
    assert 0 < won[0] < won[1] <= won[2] + 1e-6 < 1


@pytest.mark.claim("nce-infonce-bound", shows="statement", evidence="quadrature")
def test_learned_scores_keep_below_the_bound_of_the_best() -> None:
    scores = torch.from_numpy(skipgram.train(replace(SMALL, steps=20), LAW).arrays["scores"]).double()
    sizes = [2, 16, 1024]
    learned, best = (global_nce.bound(LAW, s, sizes) for s in (scores, global_nce.optimal_scores(LAW)))
    assert bool((learned < best).all())
    limit = torch.tensor(sizes, dtype=torch.float64).log().clamp_max(LAW.mutual_information)
    assert bool((best <= limit + 1e-12).all())


@pytest.mark.parametrize("rank, ratio", [(0, 0.5**0.5), (2, 1.0)], ids=["table: Adagrad", "low rank: Adam"])
def test_which_optimiser_descends(rank: int, ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where gradients stay as they are, Adagrad's second step is shorter by a root of 2, Adam's is its first again."""
    steps = []

    def two(name: str, optimiser: torch.optim.Optimizer, *_: object, **rest: object) -> torch.Tensor:
        (some,) = optimiser.param_groups[0]["params"][:1]
        for _ in range(2):
            before = some.detach().clone()
            some.grad = torch.ones_like(some)
            optimiser.step()
            steps.append((before - some.detach()).mean().item())
        return torch.zeros(10)

    monkeypatch.setattr("sumexp._descent.train_steps", two)
    skipgram.train(replace(SMALL, rank=rank), LAW)
    assert steps == pytest.approx([SMALL.learning_rate, SMALL.learning_rate * ratio], rel=1e-5)


def test_the_task_counts_the_pairs_of_its_source() -> None:
    config = replace(CONFIGS["smoke"]["table"], source="shakespeare", vocabulary=60, steps=3, batch=100)
    scores = skipgram.train(config).arrays["scores"]
    assert scores.shape == (60, 60)
    assert np.array_equal(scores, skipgram.train(config, config.load().joint).arrays["scores"])


@pytest.mark.parametrize("profile", CONFIGS)
def test_every_profile_trains_the_same_three(profile: str) -> None:
    assert list(CONFIGS[profile]) == ["table", "power", "low rank"]
    assert [c.rank > 0 for c in CONFIGS[profile].values()] == [False, False, True]
    assert all(c.rank == rank and c.population for rank, c in skipgram.ranks(profile).items())
