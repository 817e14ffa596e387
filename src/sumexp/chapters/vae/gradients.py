r"""Bias and variance of the relaxed gradient, on models small enough to enumerate.

Training descends :math:`\mathbb E_{z\sim q}f(z)` with z one-hot in each of N variables of K categories; its gradient in
the logits is a sum over :math:`K^N` states. The estimate is the gradient of
:math:`f(\mathrm{softmax}((\ell+\gamma)/\tau))` for one draw of the noise, or its straight-through variant. As
:math:`\tau` falls, its bias falls and its variance rises.

Noise of scale s with logits :math:`s\,\ell` at temperature :math:`s\,\tau` gives the same z and q, and gradients 1/s of
those of scale 1: matching the variances of two noises only changes the temperature. So noises are compared at equal q,
relative to the size of the exact gradient.

Source: Jang, Gu and Poole; Maddison, Mnih and Teh; Cohen Indelman and Hazan, section 6.2.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import one_hot, softplus

from sumexp.chapters.vae import posterior, stack
from sumexp.chapters.vae.config import Member
from sumexp.perturb.inversion import argmax_parameters

Loss: TypeAlias = Callable[[Tensor], Tensor]
"""z [A, B, N, K], one-hot or relaxed, to the loss of each image [A, B]."""

BLOCKS = 20
"""Number of blocks of draws; their spread gives the standard errors."""


@dataclass(frozen=True)
class Problem:
    """A small model as the decoder sees it: -log p(x_b | z) of B images, and q(z) given each image [B, N, K]."""

    loss: Loss
    q: Tensor


@dataclass(frozen=True)
class Quality:
    """The gradient estimators of S members, over all B images together.

    Attributes:
        exact: the exact gradient in the logits [S, B, N, K].
        mean: of the estimator, over the draws [S, B, N, K].
        size: norm of the exact gradient [S].
        bias: norm of the estimator's bias, relative to ``size``, corrected for the noise of the mean [S].
        bias_error: its standard error [S].
        deviation: root of the total variance of one draw, relative to ``size`` [S].
    """

    exact: Tensor
    mean: Tensor
    size: Tensor
    bias: Tensor
    bias_error: Tensor
    deviation: Tensor

    def error(self, draws: int) -> Tensor:
        """Root mean square error of the mean of independent draws, relative to the size [S]."""
        return (self.bias.square() + self.deviation.square() / draws).sqrt()


def states(variables: int, categories: int) -> Tensor:
    """All one-hot z, float64, [K^N, N, K]."""
    chosen = torch.tensor(list(product(range(categories), repeat=variables)))
    return one_hot(chosen, categories).double()


def exact(loss: Loss, logits: Tensor, members: Sequence[Member]) -> Tensor:
    r"""The gradient of :math:`\sum_b\mathbb E_{z\sim q_b}f_b(z)` in the logits [S, B, N, K], by enumeration."""
    leaf = logits.detach().requires_grad_()
    z = states(*logits.shape[2:]).to(logits.device)
    with torch.no_grad():
        values = loss(z.unsqueeze(1).expand(-1, logits.shape[1], -1, -1))
    log_joint = torch.einsum("sbnk,znk->sbz", posterior.log_probabilities(leaf, members), z)
    (gradient,) = torch.autograd.grad(torch.einsum("sbz,zb->", log_joint.exp(), values), leaf)
    return gradient


def quality(loss: Loss, logits: Tensor, members: Sequence[Member], samples: int, generator: torch.Generator) -> Quality:
    """Bias and variance of each member's gradient estimator, by seeded draws against the exact gradient.

    All members see the same uniform numbers; each has the temperature of its first step. Logits are [S, B, N, K],
    float64, and ``samples`` is a positive multiple of BLOCKS, else a ValueError.
    """
    if samples < BLOCKS or samples % BLOCKS:
        raise ValueError(f"samples is {samples}; it must be a positive multiple of {BLOCKS}")
    truth = exact(loss, logits, members)
    temperatures = torch.tensor(
        [member.temperature.at(0) for member in members], dtype=logits.dtype, device=logits.device
    )
    means, squares = [], torch.zeros_like(logits)
    for _ in range(BLOCKS):
        drawn = _estimates(loss, logits, members, temperatures, samples // BLOCKS, generator)
        means.append(drawn.mean(1))
        squares += drawn.square().mean(1)
    blocks = torch.stack(means)
    mean = blocks.mean(0)
    total = _dot(squares / BLOCKS - mean.square(), torch.ones_like(mean)) * (samples / (samples - 1))
    size, off = _norm(truth), mean - truth
    distance = _norm(off).clamp_min(torch.finfo(logits.dtype).tiny)
    along = torch.stack([_dot(block - truth, off) for block in blocks]) / distance
    return Quality(
        exact=truth,
        mean=mean,
        size=size,
        bias=(distance.square() - total / samples).clamp_min(0).sqrt() / size,
        bias_error=along.std(0) / math.sqrt(BLOCKS) / size,
        deviation=total.sqrt() / size,
    )


def _estimates(
    loss: Loss,
    logits: Tensor,
    members: Sequence[Member],
    temperatures: Tensor,
    draws: int,
    generator: torch.Generator,
) -> Tensor:
    """One gradient a draw, [S, draws, B, N, K]."""
    count, images, variables, categories = logits.shape
    leaf = logits.detach().unsqueeze(1).repeat(1, draws, 1, 1, 1).requires_grad_()
    shape = (draws * images, variables, categories)
    uniforms = torch.rand(shape, dtype=logits.dtype, generator=generator, device=logits.device)
    shared = uniforms.clamp_min(torch.finfo(logits.dtype).tiny).expand(count, -1, -1, -1)
    z = stack.relaxed(leaf.flatten(1, 2), shared, members, temperatures)
    values = loss(z.reshape(count * draws, images, variables, categories))
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    return gradient


def equal_laws(q: Tensor, members: Sequence[Member]) -> Tensor:
    """The logits [S, B, N, K], of sum zero in each row, at which every argmax has the distribution q [B, N, K].

    Raises:
        ValueError: if q is no distribution, or has an entry 0.
    """
    laws = {posterior.noise(member) for member in members}
    by_law = {law: argmax_parameters(q, law) for law in laws}
    return torch.stack([by_law[posterior.noise(member)] for member in members])


def problem(
    images: Tensor,
    kept: int,
    variables: int = 2,
    categories: int = 4,
    hidden: int = 20,
    steps: int = 100,
    seed: int = 0,
) -> Problem:
    """A small categorical VAE, trained by Adam at rate 0.01 on the exact bound of all images of 0 and 1, [n, P].

    It has N ``variables`` of K ``categories``. The result is the decoder's loss and the posterior of the first ``kept``
    images; probabilities are at least 1e-4, which keeps the parameters of every noise finite.
    """
    x, member = images.double(), Member(categories=categories, seed=seed)
    parameters = stack.initial((member,), x.shape[1], variables, hidden, torch.float64, str(x.device))
    leaves = {name: tensor.requires_grad_() for name, tensor in parameters.items()}
    optimiser = torch.optim.Adam(leaves.values(), lr=1e-2)
    z = states(variables, categories).to(x.device)
    for _ in range(steps):
        log_q = torch.log_softmax(stack.encode(leaves, x.unsqueeze(0), categories)[0], -1)
        log_joint = torch.einsum("bnk,znk->bz", log_q, z)
        pixels = stack.decode(leaves, z.unsqueeze(0))[0]
        missed = softplus(pixels).sum(-1) - x @ pixels.T
        bound = (log_joint.exp() * (missed + log_joint)).sum(-1).mean()
        optimiser.zero_grad()
        bound.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    fixed = {name: tensor.detach() for name, tensor in leaves.items()}
    first = x[:kept]
    q = torch.softmax(stack.encode(fixed, first.unsqueeze(0), categories)[0], -1).clamp_min(1e-4)

    def loss(z: Tensor) -> Tensor:
        pixels = stack.decode(fixed, z.reshape(1, -1, variables, categories)).reshape(*z.shape[:2], -1)
        return softplus(pixels).sum(-1) - torch.einsum("bp,abp->ab", first, pixels)

    return Problem(loss, q / q.sum(-1, keepdim=True))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).flatten(1).sum(1)


def _norm(a: Tensor) -> Tensor:
    return _dot(a, a).sqrt()
