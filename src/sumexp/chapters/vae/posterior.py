r"""The distribution q(z | x) of hard samples, and its KL divergence from the uniform prior.

With logits :math:`\ell` of one variable, q is the law of :math:`\arg\max_j(\ell_j+\gamma_j)`. For Gumbel noise of scale
1 it is :math:`\mathrm{softmax}(\ell)`. For other noise it is not, and the published KL divergence, that of
:math:`\mathrm{softmax}(\ell)`, is of a distribution that no sample has.

Source: Cohen Indelman and Hazan, equation (3) and section 6.2.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from sumexp.chapters.vae import stack
from sumexp.chapters.vae.config import Member
from sumexp.perturb import batched
from sumexp.perturb.noises import FAMILIES, Gumbel


def noise(member: Member) -> batched.Common:
    """The distribution of the member's perturbations."""
    return FAMILIES[member.noise](scale=member.scale)


def log_probabilities(logits: Tensor, members: Sequence[Member]) -> Tensor:
    """log q of every category under the noise of each member [S, B, N, K], float32 or float64, differentiable once.

    Raises:
        ValueError: if there are not S members.
    """
    return torch.cat([batched.log_probabilities(part, law) for part, law in _alike(logits, members, noise)])


def divergence(logits: Tensor, members: Sequence[Member]) -> Tensor:
    r""":math:`\mathrm{KL}(q\,\|\,\text{uniform}) = \log K + \sum_i q_i\log q_i` in nats, summed over variables, [S, B].

    With ``divergence`` "exact" q is that of :func:`log_probabilities`, with "softmax" it is softmax(logits).
    """
    return torch.cat(
        [
            (batched.negative_entropy(part, law) + math.log(part.shape[-1])).sum(-1)
            for part, law in _alike(
                logits, members, lambda member: noise(member) if member.divergence == "exact" else Gumbel()
            )
        ]
    )


def _alike(
    logits: Tensor, members: Sequence[Member], law: Callable[[Member], batched.Common]
) -> Iterator[tuple[Tensor, batched.Common]]:
    """The logits of neighbours of the same law, and that law."""
    if len(members) != len(logits):
        raise ValueError(f"logits are of {len(logits)} members, but {len(members)} are given")
    for first, part in stack.alike(logits, members, law):
        yield part, law(first)
