"""Skip-gram: pairs by hand and by a double loop, the exact optimum by Newton, and training on known optima."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp import datasets
from sumexp.chapters.models import skipgram
from sumexp.chapters.models.skipgram import CONFIGS, SkipGramConfig
from sumexp.datasets import Corpus
from sumexp.nce import Joint, global_nce, local_nce
from tests.models import texts

LAW = Joint.from_counts(torch.tensor([[9.0, 3.0, 0.0], [3.0, 4.0, 5.0], [0.0, 5.0, 1.0]]))


@pytest.mark.claim("nce-local-optimum", shows="statement", evidence="quadrature")
@pytest.mark.claim("nce-pmi", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("negatives", [1, 5, 1000])
def test_newton_finds_the_pmi(negatives: int) -> None:
    """Seen pairs to 1e-10; a pair never seen loses about 1 a step, without end."""
    scores = skipgram.newton(LAW, negatives)
    seen = LAW.p > 0
    torch.testing.assert_close(scores[seen], LAW.pmi[seen] - log(negatives), rtol=0, atol=1e-10)
    assert bool((scores[~seen] < -55).all())
    assert bool((skipgram.newton(LAW, negatives, steps=61)[~seen] < scores[~seen] - 0.99).all())


def test_newton_with_other_noise_finds_the_optimal_scores() -> None:
    log_q = torch.log_softmax(0.75 * LAW.y.log(), 0)
    seen = LAW.p > 0
    scores = skipgram.newton(LAW, 3, log_q)[seen]
    torch.testing.assert_close(scores, local_nce.optimal_scores(LAW, 4, log_q)[seen], rtol=0, atol=1e-10)


def test_correlation_is_numpys() -> None:
    a, b = torch.randn(2, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    times = torch.arange(1, 21)
    plain, repeated = (np.corrcoef(*(v.repeat_interleave(n).numpy() for v in (a, b))) for n in (1, times))
    assert skipgram.correlation(a, b, torch.ones_like(a)) == pytest.approx(plain[0, 1], rel=1e-12)
    assert skipgram.correlation(a, b, times.double()) == pytest.approx(repeated[0, 1], rel=1e-12)


def test_the_optimum_and_independence_are_the_ends_of_the_scale() -> None:
    log_q = torch.log_softmax(0.5 * LAW.y.log(), 0)
    at_best = skipgram.compare(LAW, skipgram.newton(LAW, 4, log_q), 4, log_q)
    assert at_best.won == pytest.approx(1, abs=1e-12)
    assert at_best.weighted == pytest.approx(1, abs=1e-12)
    assert at_best.unweighted == pytest.approx(1, abs=1e-12)
    nothing = LAW.y.log() - log_q - log(4)
    assert skipgram.compare(LAW, nothing.expand(3, 3) + 1e-9 * LAW.p, 4, log_q).won == pytest.approx(0, abs=1e-6)


def corpus(*documents: str) -> Corpus:
    """Documents of one-letter words with spaces between."""
    return texts.corpus(*(document.split() for document in documents))


def test_pairs_by_hand() -> None:
    """``a b , a`` and ``b a``: the comma is no word but takes a place, and documents do not meet."""
    text = corpus("a b , a", "b a")
    near, far = (skipgram.pairs(text, 2, window) for window in (1, 2))
    assert near.words == ("a", "b")
    assert near.counts.tolist() == [[0, 2], [2, 0]]
    assert far.counts.tolist() == [[0, 3], [3, 0]]
    assert skipgram.pairs(text, 2, 3).counts.tolist() == [[2, 3], [3, 0]]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text("abc", min_size=1, max_size=12).map(" ".join), min_size=1, max_size=3), st.integers(1, 4))
def test_pairs_are_counted_as_a_double_loop_counts_them(documents: list[str], window: int) -> None:
    text = corpus("a b c", *documents)
    expected = torch.zeros(3, 3, dtype=torch.float64)
    for document in ("a b c", *documents):
        words = document.split()
        for i, x in enumerate(words):
            for j, y in enumerate(words):
                if 0 < abs(i - j) <= window:
                    expected["abc".index(x), "abc".index(y)] += 1
    assert torch.equal(skipgram.pairs(text, 3, window).counts, expected)


def test_shakespeare_has_something_to_learn() -> None:
    joint = replace(CONFIGS["smoke"]["table"], source="shakespeare", vocabulary=60, window=1).load().joint
    assert 0.1 < joint.mutual_information.item() < log(60)
    assert torch.allclose(joint.p, joint.p.T)


@pytest.mark.parametrize(
    "vocabulary, window, fault",
    [
        (0, 1, "vocabulary is 0 and window is 1; both must be positive"),
        (1, 0, "vocabulary is 1 and window is 0; both must be positive"),
        (3, 1, "vocabulary is 3, but the corpus has only 2 words"),
    ],
)
def test_no_pairs(vocabulary: int, window: int, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        skipgram.pairs(corpus("a b , a"), vocabulary, window)


def test_brown() -> None:
    """The 200 most frequent words; B rises with N and keeps below both bounds, and comes within 1e-3 of I."""
    if not datasets.available("brown"):
        pytest.skip("the Brown corpus is not here; to download it, run: sumexp data fetch brown")
    text = datasets.brown()
    near, wide = (skipgram.pairs(text, 200, window) for window in (1, 5))
    assert near.words[:3] == wide.words[:3] == ("the", "of", "and")
    assert torch.equal(near.counts, near.counts.T)
    assert near.counts.sum() < wide.counts.sum()
    joint = near.joint
    sizes = [2**k for k in range(1, 17)]
    values = global_nce.bound(joint, global_nce.optimal_scores(joint), sizes)
    information = joint.mutual_information
    assert bool((values.diff() > 0).all())
    assert bool((values < torch.tensor(sizes).log().clamp_max(information)).all())
    assert 0 < (information - values[-1]).item() < 1e-3


SMALL = SkipGramConfig(batch=2_000, steps=300, negatives=2, learning_rate=0.5)


def test_training_a_full_table_finds_the_pmi_up_to_noise() -> None:
    """A seeded run misses by a third of these bounds or less, so that another machine's sums do no harm."""
    result = skipgram.train(SMALL, LAW)
    arrays, metrics = result.arrays, result.metrics
    scores = torch.from_numpy(arrays["scores"])
    comparison = skipgram.compare(LAW, scores, 2)
    assert comparison.weighted > 0.998
    assert comparison.unweighted > 0.998
    assert 0.96 < comparison.won < 1
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
        (parameter,) = optimiser.param_groups[0]["params"][:1]
        for _ in range(2):
            before = parameter.detach().clone()
            parameter.grad = torch.ones_like(parameter)
            optimiser.step()
            steps.append((before - parameter.detach()).mean().item())
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
