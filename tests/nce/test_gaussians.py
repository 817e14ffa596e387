"""Correlated Gaussians: closed forms, the optimal critic's exact bound two ways, and training in miniature."""

from dataclasses import replace
from math import exp, log, pi, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import logsigmoid

from sumexp import functional
from sumexp.nce import gaussians
from sumexp.nce.gaussians import Critic, Entropies, GaussianConfig
from sumexp.perturb.noises import Logistic
from sumexp.samplers import off_diagonal


def log_ratio(x: Tensor, y: Tensor, rho: float) -> Tensor:
    """The pointwise mutual information of every x [N, d] with every y [M, d]: the optimal critic."""
    squares = x.square().sum(-1)[..., :, None] + y.square().sum(-1)[..., None, :]
    exponent = (2 * rho * x @ y.mT - rho * rho * squares) / (2 * (1 - rho * rho))
    return gaussians.mutual_information(x.shape[-1], rho) + exponent


TINY = GaussianConfig(dim=4, rho=0.8, candidates=16, steps=300, evaluations=50, learning_rate=3e-2)


def test_the_mutual_information_in_closed_form() -> None:
    assert gaussians.mutual_information(128, 0.5) == pytest.approx(-64 * log(3 / 4), rel=1e-15)
    assert gaussians.mutual_information(1, 0.6) == pytest.approx(-log(0.8), rel=1e-15)
    small = [gaussians.mutual_information(2, rho) for rho in (0.0, -1e-9)]
    assert small == pytest.approx([0, 1e-18], rel=1e-15, abs=0)
    assert gaussians.mutual_information(2, 0.999999) == pytest.approx(-log(1 - 0.999999) - log(1.999999), rel=1e-15)


@settings(deadline=None)
@given(st.integers(2, 6), st.sampled_from([0.0, 1.0, 50.0, 1e4]), st.integers(0, 99))
def test_the_value_is_log_n_minus_the_loss_and_at_most_log_n(n: int, scale: float, seed: int) -> None:
    """The second way: `sumexp.functional.info_nce`, which takes a positive and its negatives apart."""
    scores = scale * torch.randn(3, n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    value = gaussians.info_nce_value(scores)
    assert (bool((value <= log(n)).all()), gaussians.info_nce_value(scores[:0]).shape) == (True, (0,))
    for batch, got in zip(scores, value, strict=True):
        loss = functional.info_nce(batch.diagonal(), off_diagonal(batch))
        assert got.item() == pytest.approx(log(n) - loss.item(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("rho", [0.2, -0.5, 0.8])
def test_the_optimal_bound_of_two_candidates_by_three_quadratures(rho: float) -> None:
    """The second way, in one dimension: Gauss-Hermite in x, in y given x and in the negative."""
    z, w = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(70))
    w = w / w.sum()
    x, true, false = z[:, None, None], z[None, :, None], z[None, None, :]

    def ratio(y: Tensor) -> Tensor:
        return -log(1 - rho**2) / 2 + (2 * rho * x * y - rho**2 * (x**2 + y**2)) / (2 * (1 - rho**2))

    difference = ratio(rho * x + sqrt(1 - rho**2) * true) - ratio(false)
    expected = log(2) + torch.einsum("i,j,k,ijk->", w, w, w, logsigmoid(difference)).item()
    assert gaussians.optimal_bound(1, rho, 2) == pytest.approx(expected, rel=2e-6)


@pytest.mark.claim("nce-infonce-bound", shows="statement", evidence="quadrature")
@pytest.mark.claim("nce-logN-ceiling", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("dim, rho", [(1, 0.3), (8, 0.5), (64, 0.5)])
def test_the_optimal_bound_lies_below_both_and_rises_with_n(dim: int, rho: float) -> None:
    information = gaussians.mutual_information(dim, rho)
    nodes = 300 if dim == 1 else 200  # the error of the rule falls with d
    values = [gaussians.optimal_bound(dim, rho, n, nodes) for n in (1, 2, 128)]
    assert values[0] == pytest.approx(0, abs=1e-7)
    assert values == sorted(values)
    assert all(value <= min(information, log(n)) + 1e-7 for value, n in zip(values, (1, 2, 128), strict=True))


def test_the_published_task_at_its_best() -> None:
    # I is 18.4 nats, but with N = 128 even the optimal bound is log 128 less a thousandth. Half the nodes change
    # nothing, and 200 batches agree within 5 standard errors (false alarm below 1e-6).
    best = gaussians.optimal_bound(128, 0.5, 128)
    assert best == pytest.approx(gaussians.optimal_bound(128, 0.5, 128, nodes=150), rel=1e-9)
    assert log(128) - 0.002 < best < log(128)
    x, y = gaussians.sample(128, 0.5, (200, 128), torch.Generator().manual_seed(3))
    values = gaussians.info_nce_value(log_ratio(x.double(), y.double(), 0.5))
    assert abs(values.mean().item() - best) < 5 * values.std().item() / sqrt(200)


def test_the_true_parameters_give_the_true_entropies() -> None:
    """H(Y) = d/2 log(2 pi e), H(Y|X) = H(Y) - I; five standard errors, false alarm below 1e-5."""
    config = replace(TINY, estimator="doe")
    model = Entropies(config, torch.Generator()).double()
    with torch.no_grad():
        (layer,) = model.conditional
        layer.weight.zero_()
        layer.weight[:4] = config.rho * torch.eye(4)
        layer.bias.zero_()
        layer.bias[4:] = log(1 - config.rho**2) / 2
        x, y = gaussians.sample(4, config.rho, (500, 100), torch.Generator().manual_seed(4))
        got = model(x.double(), y.double())
    entropy = 2 * log(2 * pi * exp(1))
    expected = torch.tensor([entropy, entropy - gaussians.mutual_information(4, config.rho)])
    assert bool(((got.mean(0) - expected).abs() < 5 * got.std(0) / sqrt(500)).all())


def test_both_families_are_those_of_torch_and_of_perturb() -> None:
    y = torch.linspace(-25, 25, 2001, dtype=torch.float64)  # beyond, softplus is linear
    loc, log_scale = torch.tensor([0.3, 0.4], dtype=torch.float64)
    normal = torch.distributions.Normal(loc, log_scale.exp()).log_prob(y)
    torch.testing.assert_close(gaussians._log_normal(y, loc, log_scale), normal, rtol=1e-12, atol=1e-12)
    logistic = Logistic(0.3, exp(0.4)).log_density(y)
    torch.testing.assert_close(gaussians._log_logistic(y, loc, log_scale), logistic, rtol=1e-12, atol=1e-12)


@pytest.mark.claim("nce-infonce-bound", shows="statement", evidence="sampled")
def test_a_small_case_is_learned() -> None:
    """The critic nears the optimal bound from below (5 standard errors, false alarm 1e-6), the difference I."""
    best = gaussians.optimal_bound(4, 0.8, 16, nodes=200)
    arrays, metrics = (got := gaussians.train(TINY)).arrays, got.metrics
    value, error = metrics["test_0"], arrays["test"].std() / sqrt(50)
    assert 0.6 * best < value < min(best, log(16)) + 5 * error
    arrays, metrics = (got := gaussians.train(replace(TINY, estimator="doe"))).arrays, got.metrics
    error = gaussians.estimates(arrays["test"]).std() / sqrt(50)
    estimate = metrics["test_0"] - metrics["test_1"]
    assert abs(estimate - gaussians.mutual_information(4, 0.8)) < 0.1 + 5 * error


def test_configurations_are_compared_on_the_same_batches() -> None:
    """The marginal models of both see the same draws: untrained, they agree to the last digit whatever the width."""
    config = replace(TINY, estimator="doe", steps=1, learning_rate=1e-30, evaluations=3)
    columns = [gaussians.train(replace(config, hidden=h)).arrays["test"][:, 0] for h in (0, 7)]
    assert np.array_equal(*columns)


@pytest.mark.parametrize("hidden", [0, 6])
def test_critics_are_products(hidden: int) -> None:
    critic = Critic(replace(TINY, hidden=hidden), torch.Generator().manual_seed(6))
    x, y = gaussians.sample(4, 0.8, (3, 16), torch.Generator().manual_seed(5))
    scores = torch.einsum("bid,bjd->bij", critic.f(x), critic.g(y))
    torch.testing.assert_close(critic(x, y)[..., 0], gaussians.info_nce_value(scores))
    torch.testing.assert_close(critic.loss(x, y), -critic(x, y).mean())


def test_honest_and_oracle_selection() -> None:
    values = np.array([[1.0], [4.0], [2.5]])
    assert gaussians.honest(values) == (1,)
    entropies = np.array([[9.0, 6.0], [8.0, 7.0], [11.0, 6.5]])  # differences 3, 1 and 4.5
    assert gaussians.estimates(entropies).tolist() == [3.0, 1.0, 4.5]
    assert gaussians.honest(entropies) == (1, 0)
    assert gaussians.oracle(entropies, truth=4.4) == 2
    assert gaussians.oracle(values, truth=2.0) == 2
