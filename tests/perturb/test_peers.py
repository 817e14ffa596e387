"""What another library draws, held against what the page on speed says of it."""

import math

import pytest
import torch

pytestmark = pytest.mark.peers


def test_relaxit_takes_probabilities_for_logits() -> None:
    """Of (0.9, 0.1) it draws the first class as often as a softmax of these, 0.69; a false alarm once in 10^6 runs."""
    pytest.importorskip("pyro")
    topk = pytest.importorskip("relaxit.distributions.GumbelSoftmaxTopK")
    draws = 100_000
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        law = topk.GumbelSoftmaxTopK(probs=torch.tensor([0.9, 0.1]).repeat(draws, 1), validate_args=False)
        share = law.rsample()[:, 0].mean().item()
    expected = 1 / (1 + math.exp(-0.8))
    assert abs(share - expected) < 4.9 * math.sqrt(expected * (1 - expected) / draws)


def test_relaxit_draws_the_softmax_of_gaussians() -> None:
    """The law whose draws are timed: the difference of two logits is normal; a false alarm once in 10^6 runs."""
    normal = pytest.importorskip("relaxit.distributions.LogisticNormalSoftmax")
    draws, tau = 100_000, 0.5
    loc = torch.tensor([1.0, 0.0]).repeat(draws, 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = normal.LogisticNormalSoftmax(loc / tau, torch.tensor(1 / tau), validate_args=False).rsample()
    odds = x[:, 0].double().logit()
    assert abs(odds.mean().item() - 1 / tau) < 4.9 * math.sqrt(2 / draws) / tau
    assert abs(odds.var().item() / (2 / tau**2) - 1) < 4.9 * math.sqrt(2 / draws)
