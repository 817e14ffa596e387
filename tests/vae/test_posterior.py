"""The true law of the latent variables and its divergence, against torch.distributions and the per-row quadrature."""

import math
from dataclasses import replace
from itertools import permutations

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, kl_divergence

from sumexp.chapters.vae import posterior
from sumexp.chapters.vae.config import Member
from sumexp.perturb import argmax
from sumexp.perturb.noises import Logistic

MEMBERS = (
    *(Member("gumbel", 1.0, "exact", 4), Member("gaussian", 1.0, "exact", 4), Member("gaussian", 1.28, "exact", 4)),
    *(Member("gaussian", 1.28, "exact", 4, seed=1), Member("logistic", 0.7, "exact", 4)),
    *(Member("gumbel", 1.5, "exact", 4), Member("gaussian", 1.0, "softmax", 4)),
    *(Member("logistic", 1.0, "softmax", 4), Member("gumbel", 2.0, "softmax", 4)),
)


def logits(dtype: torch.dtype = torch.float64) -> Tensor:
    drawn = 2 * torch.randn(len(MEMBERS), 5, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return drawn.to(dtype)


def test_log_probabilities_are_those_of_the_members_noise() -> None:
    given = logits()
    log_q = posterior.log_probabilities(given, MEMBERS)
    assert log_q.shape == given.shape
    for s, member in enumerate(MEMBERS):
        assert (log_q[s].exp() - argmax.quadrature(given[s], posterior.noise(member))).abs().max() < 1e-13


def test_divergence_is_that_of_torch() -> None:
    given = logits()
    divergence = posterior.divergence(given, MEMBERS)
    assert divergence.shape == given.shape[:2]
    for s, member in enumerate(MEMBERS):
        rows = given[s]
        q = argmax.probabilities(rows, posterior.noise(member)) if member.divergence == "exact" else rows.softmax(-1)
        expected = kl_divergence(Categorical(q), Categorical(torch.ones_like(q))).sum(-1)
        assert (divergence[s] - expected).abs().max() < 1e-12
    single = posterior.divergence(logits(torch.float32), MEMBERS)
    assert single.dtype == torch.float32
    assert (single - divergence).abs().max() < 2e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_and_not_zero(dtype: torch.dtype) -> None:
    given = logits(dtype)
    given[:, 0] *= 1e4  # far beyond where the last probability underflows
    given[:, 1] = 0.0  # all ties
    given.requires_grad_()
    (gradient,) = torch.autograd.grad(posterior.divergence(given, MEMBERS).sum(), given)
    assert bool(gradient.isfinite().all())
    assert gradient[:, 2:].abs().min() > 0


def test_gradient_of_the_divergence() -> None:
    members = MEMBERS[:2] + MEMBERS[6:7]
    given = logits()[:3].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: posterior.divergence(x, members), given)


def test_the_published_divergence_is_the_exact_one_for_unit_gumbel_noise_only() -> None:
    given = logits()[:2].clone()
    for member in (Member(), Member("gaussian"), Member("gumbel", 1.5), Member("logistic")):
        both = tuple(replace(member, divergence=kind, categories=4) for kind in ("softmax", "exact"))
        published, exact = posterior.divergence(given[:1].expand(2, -1, -1, -1), both)
        assert torch.equal(published, exact) == (member == Member())


def test_another_number_of_members() -> None:
    for function in (posterior.log_probabilities, posterior.divergence):
        with pytest.raises(ValueError, match="9 members, but 2"):
            function(logits(), MEMBERS[:2])


def test_what_is_gumbel_noise_and_more_is_charged_too_much() -> None:
    """Logistic noise is the difference of two Gumbels: q / softmax falls as the softmax rises, at any logits."""
    generator = torch.Generator().manual_seed(4)
    for classes in (2, 3, 10, 40):
        spread = torch.tensor([0.1, 1.0, 5.0]).view(3, 1, 1)
        rows = (spread * torch.randn(3, 50, classes, generator=generator, dtype=torch.float64)).sort(-1).values
        p, q = rows.softmax(-1), argmax.quadrature(rows, Logistic())
        ratio = (q.log() - p.log()).nan_to_num(neginf=-math.inf)
        assert (ratio.diff(dim=-1) < 1e-9).all()  # classes in the order of their logits
        assert (p.cumsum(-1) - q.cumsum(-1) < 1e-12).all()  # so the least k classes have more: majorisation
        members = [Member("logistic", divergence=kind, categories=classes) for kind in ("exact", "softmax")]
        exact, published = (posterior.divergence(rows.unsqueeze(0), [member]) for member in members)
        assert (exact < published + 1e-10).all()
    # The Gaussian is no such noise: one class raised above the rest is charged too little.
    raised = torch.tensor([[[[2.0, 0.0, 0.0]]]], dtype=torch.float64)
    members = [Member("gaussian", divergence=kind, categories=3) for kind in ("exact", "softmax")]
    exact, published = (posterior.divergence(raised, [member]) for member in members)
    assert exact > published + 0.1


def test_exchangeable_noise_between_the_gumbels_and_the_classes_flattens() -> None:
    """The mean of softmax(logits + e) over the permutations of any vector e, which is an exchangeable law, by hand."""
    logits = torch.tensor([1.5, 0.4, -0.3, -2.0], dtype=torch.float64)
    for e in ([3.0, 0.0, 0.0, 0.0], [-4.0, 1.0, 0.5, 2.0], [0.0, 0.0, 5.0, 5.0]):
        orders = torch.tensor(list(permutations(e)), dtype=torch.float64)
        q, p = (logits + orders).softmax(-1).mean(0), logits.softmax(-1)
        assert ((q / p).diff() > -1e-15).all()  # the larger the softmax, the smaller the ratio
        assert (q.cumsum(0) <= p.cumsum(0) + 1e-15).all()
        assert -(q * q.log()).sum() > -(p * p.log()).sum()
