r"""What a trained model is worth on test images: bounds on and estimates of :math:`-\log p(x)`, in nats an image.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from sumexp.vae import posterior, stack
from sumexp.vae.config import Divergence, Member

BLOCK = {"cpu": 1 << 22, "cuda": 1 << 26}
"""Logits of pixels held at once."""


@dataclass(frozen=True)
class Bound:
    """The mean over images of the bound with hard samples; standard errors over images, samples included.

    Attributes:
        value: with the KL divergence of the law of the samples: an upper bound of -log p(x), [S].
        error: its standard error [S].
        published: with the KL divergence of softmax(logits) [S].
        published_error: its standard error [S].
    """

    value: Tensor
    error: Tensor
    published: Tensor
    published_error: Tensor


@dataclass(frozen=True)
class Estimate:
    """A mean over images and its standard error over images, samples included.

    Attributes:
        value: the mean [S].
        error: its standard error [S].
    """

    value: Tensor
    error: Tensor


@torch.no_grad()
def hard_bound(
    parameters: stack.Parameters, members: Sequence[Member], x: Tensor, samples: int, generator: torch.Generator
) -> Bound:
    """The negative bound of every member with hard samples, as published and with the true divergence.

    All members see the same images and the same uniform numbers behind their noise, so that their differences have
    less noise than they have themselves.

    Args:
        parameters: of the stack.
        members: the models [S].
        x: images of 0 and 1, [B, P], B >= 2.
        samples: draws of z an image.
        generator: on the device of the parameters.

    Returns:
        Bound, float64.

    Raises:
        ValueError: if there are fewer than two images, or no sample.
    """
    values: list[Tensor] = []
    published: list[Tensor] = []
    for images, logits in _encoded(parameters, members, x, samples):
        missed = torch.zeros(logits.shape[:2], dtype=torch.float64, device=logits.device)
        for _ in range(samples):
            missed += _missed(parameters, _hard(logits, members, generator), images)
        values.append(missed / samples + _divergence(logits, members, "exact"))
        published.append(missed / samples + _divergence(logits, members, "softmax"))
    exact, printed = _mean(values), _mean(published)
    return Bound(exact.value, exact.error, printed.value, printed.error)


@torch.no_grad()
def importance(
    parameters: stack.Parameters, members: Sequence[Member], x: Tensor, samples: int, generator: torch.Generator
) -> Estimate:
    r"""The estimate :math:`-\log\frac1n\sum_{s=1}^n p(x\mid z_s)\,p(z_s)/q(z_s)` with :math:`z_s\sim q`.

    Its expectation is an upper bound of -log p(x) that falls to it as the number of samples n grows.

    Args:
        parameters: of the stack.
        members: the models [S].
        x: images of 0 and 1, [B, P], B >= 2.
        samples: n.
        generator: on the device of the parameters.

    Returns:
        Estimate, float64; the decoder works in the parameters' type, the probabilities are float64.

    Raises:
        ValueError: as :func:`hard_bound`.
    """
    values = []
    for images, logits in _encoded(parameters, members, x, samples):
        log_q = posterior.log_probabilities(logits.double(), members)
        log_prior = -logits.shape[2] * torch.tensor([math.log(one.categories) for one in members]).to(log_q)
        total = torch.full(logits.shape[:2], -math.inf, dtype=torch.float64, device=logits.device)
        for _ in range(samples):
            chosen = _hard(logits, members, generator)
            log_chosen = log_q.masked_fill(chosen == 0, 0.0).sum((-2, -1))
            log_weight = -_missed(parameters, chosen, images) + log_prior.unsqueeze(-1) - log_chosen
            total = torch.logaddexp(total, log_weight)
        values.append(math.log(samples) - total)
    return _mean(values)


def _encoded(
    parameters: stack.Parameters, members: Sequence[Member], x: Tensor, samples: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The images in chunks, for every member [S, B, P], with their logits."""
    if len(x) < 2 or samples < 1:
        raise ValueError(f"{len(x)} images and {samples} samples: a mean with its error needs 2 images and 1 sample")
    weight = parameters["decoder_out_weight"]
    rows = max(1, BLOCK.get(weight.device.type, BLOCK["cpu"]) // (len(members) * x.shape[1]))
    for images in torch.split(x.to(weight), rows):
        shared = images.expand(len(members), -1, -1)
        yield shared, stack.encode(parameters, shared, [member.categories for member in members])


def _hard(logits: Tensor, members: Sequence[Member], generator: torch.Generator) -> Tensor:
    """One-hot samples [S, B, N, K] of the argmax under each member's noise."""
    uniforms = torch.rand(logits.shape[1:], generator=generator, dtype=logits.dtype, device=logits.device)
    inside = uniforms.clamp_min_(torch.finfo(logits.dtype).eps / 4).expand_as(logits)
    return stack.one_hot(logits + stack.perturbations(inside, members))


def _missed(parameters: stack.Parameters, z: Tensor, images: Tensor) -> Tensor:
    """-log p(x | z) [S, B], float64."""
    pixels = stack.decode(parameters, z)
    return binary_cross_entropy_with_logits(pixels, images, reduction="none").sum(-1).double()


def _divergence(logits: Tensor, members: Sequence[Member], kind: Divergence) -> Tensor:
    return posterior.divergence(logits, [replace(member, divergence=kind) for member in members])


def _mean(parts: Sequence[Tensor]) -> Estimate:
    values = torch.cat(list(parts), 1)
    return Estimate(values.mean(1), values.std(1) / math.sqrt(values.shape[1]))
