"""Bounds on a model small enough to enumerate all its latent states."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

from sumexp.chapters.vae import bounds, posterior, stack, training
from sumexp.chapters.vae.config import Member
from sumexp.perturb import argmax

VARIABLES, PIXELS, IMAGES = 2, 6, 40
MEMBERS = (
    Member("gumbel", categories=3),
    Member("gaussian", categories=3, seed=1),
    Member("gaussian", 0.6, categories=3, seed=2),
    Member("logistic", categories=3, seed=3),
    Member("gumbel", 2.0, categories=3, seed=4),
)


def model(scale: float = 4.0) -> dict[str, Tensor]:
    """Large random weights, so that the posteriors are far from uniform."""
    parameters = stack.initial(MEMBERS, PIXELS, VARIABLES, 5, torch.float64)
    return {name: scale * tensor for name, tensor in parameters.items()}


def images() -> Tensor:
    return torch.randint(0, 2, (IMAGES, PIXELS), generator=torch.Generator().manual_seed(5)).double()


class Enumeration:
    """log p(x | z) of every member, image and latent state [S, B, Z], and the laws of z."""

    def __init__(self, parameters: dict[str, Tensor], x: Tensor) -> None:
        states = torch.tensor(list(product(range(3), repeat=VARIABLES)))
        one_hot = torch.nn.functional.one_hot(states).double()
        pixels = stack.decode(parameters, one_hot.expand(len(MEMBERS), -1, -1, -1))
        law = Independent(Bernoulli(logits=pixels.unsqueeze(1)), 1)
        self.log_likelihood = law.log_prob(x.unsqueeze(1))
        self.logits = stack.encode(parameters, x.expand(len(MEMBERS), -1, -1), 3)
        log_q = []
        for s, member in enumerate(MEMBERS):
            log_p = argmax.quadrature(self.logits[s], posterior.noise(member)).log()
            log_q.append(sum(log_p[:, n, states[:, n]] for n in range(VARIABLES)))
        self.log_q = torch.stack(log_q)
        self.log_prior = -VARIABLES * math.log(3)

    @property
    def log_marginal(self) -> Tensor:
        """log p(x) [S, B]."""
        return torch.logsumexp(self.log_likelihood + self.log_prior, -1)

    @property
    def missed(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of -log p(x | z) under q, each [S, B]."""
        q = self.log_q.exp()
        mean = -(q * self.log_likelihood).sum(-1)
        return mean, (q * self.log_likelihood.square()).sum(-1) - mean.square()

    @property
    def divergence(self) -> Tensor:
        """KL(q || p) [S, B]."""
        q = self.log_q.exp()
        return (q * (self.log_q - self.log_prior).masked_fill(q == 0, 0)).sum(-1)


@pytest.mark.claim("perturb-vae-elbo", shows="correction", evidence="quadrature")
def test_the_exact_bound_bounds() -> None:
    exact = Enumeration(model(), images())
    assert bool((exact.log_q.exp().sum(-1) - 1).abs().max() < 1e-12)
    bound = exact.missed[0] + exact.divergence
    assert bool((bound > -exact.log_marginal).all())
    members = [replace(member, divergence="exact") for member in MEMBERS]
    assert (posterior.divergence(exact.logits, members) - exact.divergence).abs().max() < 1e-12
    # At relaxed samples it bounds nothing, even of unit Gumbel noise, whose divergences agree: here z is near 1/3.
    warm = torch.full((5,), 100.0, dtype=torch.float64)
    relaxed = bounds.relaxed_loss(model(), members, warm, images(), 20, torch.Generator().manual_seed(1))
    assert bool((relaxed < -exact.log_marginal)[:2].any(1).all())


def test_hard_bound_against_enumeration() -> None:
    x, samples = images(), 400
    bound = bounds.hard_bound(model(), MEMBERS, x, samples, torch.Generator().manual_seed(6))
    exact = Enumeration(model(), x)
    mean, variance = exact.missed
    softmax = posterior.divergence(exact.logits, [replace(member, divergence="softmax") for member in MEMBERS])
    # Five members, two numbers of the same samples, 5 standard errors: false alarm 5 * 5.7e-7 < 1e-5.
    error = (variance.sum(1) / samples).sqrt() / IMAGES
    for ours, kl in ((bound.value, exact.divergence), (bound.published, softmax)):
        assert ours.shape == (len(MEMBERS), IMAGES)
        assert bool(((ours.mean(1) - (mean + kl).mean(1)).abs() < 5 * error).all())
        # Every image by itself, 400 numbers: false alarm 400 * 5.7e-7 < 3e-4 for normal means.
        assert bool(((ours - mean - kl).abs() < 5 * (variance / samples).sqrt() + 1e-12).all())
    assert torch.equal(bound.published[0], bound.value[0])  # Gumbel noise of scale 1
    assert bool((bound.published[1:] != bound.value[1:]).all())


def test_relaxed_loss_is_that_of_training() -> None:
    """One sample an image: the mean over images is the objective of a step on the same uniform numbers."""
    x, taus = images(), torch.tensor([0.3, 0.5, 1.0, 0.7, 2.0], dtype=torch.float64)
    loss = bounds.relaxed_loss(model(), MEMBERS, taus, x, 1, torch.Generator().manual_seed(9))
    u = torch.rand(IMAGES, VARIABLES, 3, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    everywhere = (tensor.expand(len(MEMBERS), *tensor.shape) for tensor in (x, u))
    expected = training.objective(model(), *everywhere, MEMBERS, taus)
    assert (loss.mean(1) - expected).abs().max() < 1e-12
    # At a temperature near 0 and with the exact divergence it is the bound of hard samples, on the same numbers.
    exact = [replace(member, divergence="exact") for member in MEMBERS]
    cold = torch.full((5,), 1e-9, dtype=torch.float64)
    relaxed = bounds.relaxed_loss(model(), exact, cold, x, 20, torch.Generator().manual_seed(9))
    hard = bounds.hard_bound(model(), exact, x, 20, torch.Generator().manual_seed(9)).value
    assert (relaxed - hard).abs().max() < 1e-6


def test_importance_weights_reach_the_likelihood() -> None:
    x, gentle = images(), model(1.5)  # no state has a large weight and a small probability
    exact = Enumeration(gentle, x)
    truth = -exact.log_marginal.mean(1)
    weights = (exact.log_likelihood + exact.log_prior - exact.log_q).masked_fill(exact.log_q.isneginf(), 0)
    # By the delta method log of a mean of n weights has variance v/n, v = Var(w)/p(x)^2, and bias -v/(2n).
    relative = (exact.log_q.exp() * (weights - exact.log_marginal.unsqueeze(-1)).exp().square()).sum(-1) - 1
    many = 3000
    by_count = bounds.importance(gentle, MEMBERS, x, (1, 30, many), torch.Generator().manual_seed(7)).mean(2)
    first, middle, last = by_count.T
    error = (relative.sum(1) / many).sqrt() / IMAGES
    bias = relative.mean(1) / (2 * many)
    # Five members at 5 standard errors: false alarm 5 * 5.7e-7 < 1e-5; half the bias more for what the delta drops.
    assert bool(((last - truth - bias).abs() < 5 * error + bias / 2).all())
    alone = bounds.importance(gentle, MEMBERS, x, (30,), torch.Generator().manual_seed(7)).mean(2)
    assert (alone[:, 0] - middle).abs().max() < 1e-12  # a longer run's first samples are a shorter run's
    # Of one sample the mean is the bound, log q(z) - log p(x, z), within 5 standard errors.
    q, integrand = exact.log_q.exp(), -weights
    mean = (q * integrand).sum(-1)
    spread = ((q * integrand.square()).sum(-1) - mean.square()).sum(1).sqrt() / IMAGES
    assert (mean - exact.missed[0] - exact.divergence).abs().max() < 1e-12
    assert bool(((first - mean.mean(1)).abs() < 5 * spread).all())


def test_counts() -> None:
    assert bounds.counts(1) == (1,)
    assert bounds.counts(30) == (1, 3, 10, 30)
    assert bounds.counts(1000) == (1, 3, 10, 30, 100, 300, 1000)
    assert bounds.counts(200) == (1, 3, 10, 30, 100, 200)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = lambda: bounds.hard_bound(model(), MEMBERS, images(), 50, torch.Generator().manual_seed(0))  # noqa: E731
    whole = run()
    monkeypatch.setitem(bounds.BLOCK, "cpu", 7 * len(MEMBERS))
    parts = run()
    # The first seven images are drawn for alike, all others anew: closer than the error over images.
    error = whole.value.std(1) / math.sqrt(IMAGES)
    assert bool(((parts.value.mean(1) - whole.value.mean(1)).abs() < error).all())
    assert not torch.equal(parts.value, whole.value)


def test_float32_is_close() -> None:
    x = images()
    single = {name: tensor.float() for name, tensor in model().items()}

    def both(parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        bound = bounds.hard_bound(parameters, MEMBERS, x, 200, torch.Generator().manual_seed(1)).value
        return bound, bounds.importance(parameters, MEMBERS, x, (200,), torch.Generator().manual_seed(1))[:, 0]

    for coarse, fine in zip(both(single), both(model()), strict=True):
        assert coarse.dtype == torch.float64
        assert bool(((coarse - fine).mean(1).abs() < fine.std(1) / math.sqrt(IMAGES)).all())


@pytest.mark.parametrize("count, samples", [(0, 3), (3, 0)])
def test_bad_input(count: int, samples: int) -> None:
    with pytest.raises(ValueError, match=f"{count} images and {samples} samples"):
        bounds.hard_bound(model(), MEMBERS, images()[:count], samples, torch.Generator())


@pytest.mark.parametrize("wrong", [(), (0, 1), (3, 3), (5, 2)])
def test_counts_must_rise(wrong: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="they must rise from 1 or more"):
        bounds.importance(model(), MEMBERS, images(), wrong, torch.Generator())
