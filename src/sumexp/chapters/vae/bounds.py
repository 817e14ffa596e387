r"""Loss of a trained model on images, bounds on :math:`-\log p(x)` and estimates of it, in nats per image.

The categorical sample is :math:`z = \arg\max(\ell + \gamma)` in each of the N variables, and q its law. With the
uniform prior :math:`p(z) = K^{-N}`,

.. math::
    -\log p(x) \;\le\; \mathbb E_q[-\log p(x\mid z)] + \mathrm{KL}(q\,\|\,p),
    \qquad p(x) = \mathbb E_q\Big[\frac{p(x\mid z)\,p(z)}{q(z)}\Big].

The published number has :math:`\mathrm{KL}(\mathrm{softmax}(\ell)\,\|\,p)` in its place. The two agree for Gumbel noise
of scale 1; where that divergence is the smaller of the two, the published number can lie below :math:`-\log p(x)`.

Source: Cohen Indelman and Hazan, section 6.2; Burda, Grosse and Salakhutdinov for the importance-weighted estimate.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from sumexp.chapters.vae import posterior, stack
from sumexp.chapters.vae.config import Divergence, Member

BLOCK = {"cpu": 1 << 11, "cuda": 1 << 16}
"""Images held at once, of all members together: on a CPU as many as fit into its caches."""


@dataclass(frozen=True)
class Bound:
    """Negative bounds [S, B] of hard samples: with the KL of their distribution, and as published."""

    value: Tensor
    published: Tensor


@torch.no_grad()
def relaxed_loss(
    parameters: stack.Parameters,
    members: Sequence[Member],
    temperatures: Tensor,
    x: Tensor,
    samples: int,
    generator: torch.Generator,
) -> Tensor:
    """The training loss on other images: -log p(x | z) at relaxed samples plus the KL term of each member, [S, B].

    Images x are 0 and 1, [B, P], temperatures [S], and ``samples`` the draws of z per image. The result is in float64.

    Raises:
        ValueError: if there is no image, or no sample.
    """
    parts = []
    for images, logits in _encoded(parameters, members, x, samples):
        missed = torch.zeros(logits.shape[:2], dtype=torch.float64, device=logits.device)
        for _ in range(samples):
            uniforms = _uniforms(logits, generator).expand_as(logits)
            missed += _missed(parameters, stack.relaxed(logits, uniforms, members, temperatures), images)
        parts.append(missed / samples + posterior.divergence(logits, members))
    return torch.cat(parts, 1)


@torch.no_grad()
def hard_bound(
    parameters: stack.Parameters, members: Sequence[Member], x: Tensor, samples: int, generator: torch.Generator
) -> Bound:
    """The negative bounds of all members with hard samples, float64; arguments and errors as of :func:`relaxed_loss`.

    Members share images and uniform numbers, which reduces the variance of their differences.
    """
    values: list[Tensor] = []
    published: list[Tensor] = []
    hard = _race(members)
    for images, logits in _encoded(parameters, members, x, samples):
        missed = torch.zeros(logits.shape[:2], dtype=torch.float64, device=logits.device)
        for _ in range(samples):
            missed += _missed(parameters, stack.one_hot_of(hard(logits, generator), logits), images)
        values.append(missed / samples + _divergence(logits, members, "exact"))
        published.append(missed / samples + _divergence(logits, members, "softmax"))
    return Bound(torch.cat(values, 1), torch.cat(published, 1))


@torch.no_grad()
def importance(
    parameters: stack.Parameters,
    members: Sequence[Member],
    x: Tensor,
    counts: Sequence[int],
    generator: torch.Generator,
) -> Tensor:
    r"""The estimates :math:`-\log\frac1n\sum_{s=1}^n p(x\mid z_s)\,p(z_s)/q(z_s)`, :math:`z_s\sim q`, [S, counts, B].

    Their expectations are upper bounds of -log p(x) that fall to it as n grows; n = 1 gives the true bound. Estimates
    of different n share their first samples. The arguments are those of :func:`relaxed_loss`, and the counts n.

    Raises:
        ValueError: if there is no image, or the counts do not rise from 1 or more.
    """
    if not counts or any(a >= b for a, b in zip([0, *counts], counts, strict=False)):
        raise ValueError(f"counts are {tuple(counts)}; they must rise from 1 or more")
    parts = []
    hard = _race(members)
    for images, logits in _encoded(parameters, members, x, counts[0]):
        log_q = posterior.log_probabilities(logits.double(), members)
        log_prior = -logits.shape[2] * torch.tensor(math.log(logits.shape[3]), dtype=torch.float32).to(log_q)
        total = torch.full(logits.shape[:2], -math.inf, dtype=torch.float64, device=logits.device)
        estimates = []
        for drawn in range(1, counts[-1] + 1):
            chosen = hard(logits, generator)
            missed = _missed(parameters, stack.one_hot_of(chosen, logits), images)
            log_weight = -missed + log_prior - log_q.gather(-1, chosen).sum((-2, -1))
            total = torch.logaddexp(total, log_weight)
            if drawn in counts:
                estimates.append(math.log(drawn) - total)
        parts.append(torch.stack(estimates, 1))
    return torch.cat(parts, 2)


def counts(most: int) -> tuple[int, ...]:
    """1, 3, 10, 30, ... below ``most``, and ``most``: the sample sizes of the importance-weighted estimate."""
    steps = (factor * 10**power for power in range(len(str(most))) for factor in (1, 3))
    return (*(count for count in steps if count < most), most)


def _encoded(
    parameters: stack.Parameters, members: Sequence[Member], x: Tensor, samples: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The images in chunks, for every member [S, B, P], with their logits."""
    if len(x) < 1 or samples < 1:
        raise ValueError(f"{len(x)} images and {samples} samples; at least one of each is needed")
    weight = parameters["decoder_out_weight"]
    rows = max(1, BLOCK.get(weight.device.type, BLOCK["cpu"]) // len(members))
    for images in torch.split(x.to(weight), rows):
        shared = images.expand(len(members), -1, -1)
        yield shared, stack.encode(parameters, shared, members[0].categories)


def _uniforms(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Inside (0, 1), the same for all members, [B, N, K]."""
    uniforms = torch.rand(logits.shape[1:], generator=generator, dtype=logits.dtype, device=logits.device)
    return uniforms.clamp_min_(torch.finfo(logits.dtype).eps / 4)


def _race(members: Sequence[Member]) -> Callable[[Tensor, torch.Generator], Tensor]:
    """A sampler of the argmax [S, B, N, 1] under the noise of each member; equal noises are computed once."""
    laws = list(dict.fromkeys((member.noise, member.scale) for member in members))
    kinds = [Member(noise, scale) for noise, scale in laws]
    which = [laws.index((member.noise, member.scale)) for member in members]

    def hard(logits: Tensor, generator: torch.Generator) -> Tensor:
        uniforms = _uniforms(logits, generator).expand(len(laws), -1, -1, -1)
        scores = logits + stack.perturbations(uniforms, kinds)[which]
        return scores.max(-1, keepdim=True).indices  # faster than argmax

    return hard


def _missed(parameters: stack.Parameters, z: Tensor, images: Tensor) -> Tensor:
    """-log p(x | z) [S, B], float64."""
    pixels = stack.decode(parameters, z)
    return binary_cross_entropy_with_logits(pixels, images, reduction="none").sum(-1).double()


def _divergence(logits: Tensor, members: Sequence[Member], kind: Divergence) -> Tensor:
    return posterior.divergence(logits, [replace(member, divergence=kind) for member in members])
