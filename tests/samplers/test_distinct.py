"""Distinct negatives: that the race is the law of drawing until m ids differ, and that its weights are right."""

from functools import cache
from math import sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.functional import sampled_softmax
from sumexp.negatives import race
from sumexp.samplers import Categorical, LogUniform, distinct
from sumexp.samplers._distinct import Distinct, _arrivals

q = torch.tensor([0.5, 0.25, 0.15, 0.07, 0.03], dtype=torch.float64)
RACES = 4_000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@cache
def races(block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first two classes of each race and the times of their arrival, [RACES, 2] both."""
    source, sampler = generator(block), Categorical(q)
    ids, times = zip(*(_arrivals(sampler, 2, source, block) for _ in range(RACES)), strict=True)
    return torch.stack(ids), torch.stack(times)


@cache
def batches() -> tuple[Distinct, ...]:
    """Two negatives for each of the five labels, RACES times."""
    source, sampler = generator(3), Categorical(q)
    return tuple(distinct(sampler, torch.arange(5), 2, generator=source) for _ in range(RACES))


@given(st.integers(1, 6), st.integers(0, 2**32), st.lists(st.integers(0, 7), min_size=1, max_size=5))
@settings(deadline=None, max_examples=50)
def test_every_example_has_m_distinct_negatives_without_its_label(m: int, seed: int, labels: list[int]) -> None:
    sampler = LogUniform(8)
    drawn = distinct(sampler, torch.tensor(labels), m, generator=generator(seed))
    assert len(drawn.ids) == len(drawn.ids.unique()) == m + 1  # type: ignore[no-untyped-call]
    for row, label in enumerate(labels):
        kept = drawn.ids[~drawn.hits[row]].tolist()
        assert len(kept) == m
        assert label not in kept
        coin = [-torch.expm1(-sampler.log_prob(torch.tensor(y)).exp() * drawn.time[row]) for y in [label, *kept]]
        weights = drawn.weights[row, ~drawn.hits[row]]
        torch.testing.assert_close(weights, torch.stack([coin[0] / c for c in coin[1:]]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("block", [1, 3, 40])
def test_the_order_of_arrival_is_that_of_draws_without_replacement(block: int) -> None:
    """4,000 races; first two classes in order, 20 pairs, |z| > 5: false alarm 1.2e-5. The same for every block: what
    the draws leave open, the clocks decide."""
    n, ids = RACES, races(block)[0]
    counts = (ids @ torch.tensor([5, 1])).bincount(minlength=25).reshape(5, 5).double()
    expected = q.unsqueeze(1) * q / (1 - q.unsqueeze(1))
    expected.fill_diagonal_(0)
    z = (counts - n * expected) / (n * expected * (1 - expected)).sqrt().clamp_min(1e-9)
    assert z.abs().max() < 5


@pytest.mark.parametrize("block", [1, 3, 40])
def test_times_of_arrival(block: int) -> None:
    """The second arrival: its mean is that of the sum of two stages, sum_i q_i (1 + 1/(1 - q_i)); 4 standard errors of
    4,000: false alarm 6e-5."""
    n, times = RACES, races(block)[1]
    assert (times[:, 0] < times[:, 1]).all()
    expected = (1 + (q / (1 - q)).sum()).item()
    assert abs(times[:, 1].mean().item() - expected) < 4 * times[:, 1].std().item() / sqrt(n)


def test_inverse_coins_count_every_class_once() -> None:
    """E 1{i drawn}/(1 - e^{-q_i T}) = 1 for each class other than the label. 4,000 races, 5 classes by 4, |z| > 5:
    false alarm 1.2e-5."""
    n = RACES
    ids, _, hits, time = (torch.stack(parts) for parts in zip(*batches(), strict=True))
    coin = -torch.expm1(-q[ids].unsqueeze(1) * time.unsqueeze(2))
    shares = torch.zeros(n, 5, 5, dtype=torch.float64)
    shares.scatter_(2, ids.unsqueeze(1).expand_as(coin), torch.where(hits, 0.0, 1 / coin))
    total, square = shares.sum(0), shares.square().sum(0)
    mean, error = total / n, ((square / n - (total / n).square()) / n).sqrt()
    others = ~torch.eye(5, dtype=torch.bool)
    assert mean.diagonal().abs().max() == 0
    assert ((mean - 1) / error)[others].abs().max() < 5


@pytest.mark.claim("sumexp-distinct", shows="statement", evidence="sampled")
def test_the_mean_of_the_loss_is_the_exact_one() -> None:
    """4,000 batches of all five labels, 4 standard errors each: false alarm 3e-4."""
    f = torch.tensor([1.0, -0.5, 0.3, 2.0, -1.0], dtype=torch.float64)
    exact = race.race_losses(q.log(), 2)(f)
    ids, weights, hits, _ = (torch.stack(parts) for parts in zip(*batches(), strict=True))
    scores = f[ids].repeat_interleave(5, 0)  # the five labels of a batch share its ids
    rows = sampled_softmax(
        f.repeat(RACES), scores, weights=weights.flatten(0, 1), hits=hits.flatten(0, 1), reduction="none"
    )
    losses = rows.view(RACES, 5)
    assert ((losses.mean(0) - exact).abs() < 4 * losses.std(0) / sqrt(RACES)).all()


def test_a_million_classes_need_few_draws() -> None:
    drawn = distinct(LogUniform(10**6), torch.tensor([0, 7, 999_999]), 100, generator=generator())
    assert drawn.weights.shape == (3, 101)
    assert drawn.hits.sum(1).tolist() == [1, 1, 1]
    assert drawn.weights.isfinite().all()
    assert drawn.weights.min() > 0
