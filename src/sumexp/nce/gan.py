r"""The game that local NCE with n = 2 becomes when the noise is learned, on finitely many y.

.. math:: \min_q\max_D\ \mathbb E_{y\sim\mathrm{pop}}\log D(y) + \mathbb E_{y\sim q}\log(1-D(y))

The paper prints the first expectation over q; with that the best value is :math:`-\log4` whatever q is.

Source: Stratos, section 2.1.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from sumexp._checks import law, typed, whole


@dataclass(frozen=True)
class Play:
    r"""A game as it was played.

    Attributes:
        value: [steps + 1] the value of the game for both players' moves.
        best: [steps + 1] the value against the best discriminator, :math:`2\,\mathrm{JSD} - \log 4`.
        q: [steps + 1, Y] the generator's law.
        discriminator: [steps + 1, Y] D.
    """

    value: Tensor
    best: Tensor
    q: Tensor
    discriminator: Tensor


@typed
def value(pop: Tensor, q: Tensor, discriminator: Tensor) -> Tensor:
    r"""The value :math:`\sum_y\mathrm{pop}(y)\log D(y) + \sum_y q(y)\log(1-D(y))`, with 0 log 0 = 0.

    Args:
        pop: [..., Y] the law that is to be learned.
        q: [..., Y] the generator's law.
        discriminator: [..., Y] D, the probability given to "y is true".

    Raises:
        ValueError: if a law is negative or does not sum to 1, D leaves [0, 1], or shapes do not fit.
    """
    pop, q = _laws(pop, q)
    if not bool(((discriminator >= 0) & (discriminator <= 1)).all()):
        raise ValueError(f"the discriminator is {discriminator.tolist()}; its values are probabilities in [0, 1]")
    d = discriminator.to(torch.float64)  # 1 - D loses what is left of D in half precision
    if d.ndim == 0 or d.shape[-1] != pop.shape[-1]:
        raise ValueError(
            f"the discriminator has shape {tuple(d.shape)}; it must be [..., {pop.shape[-1]}], as the laws"
        )
    return (torch.xlogy(pop, d) + torch.xlogy(q, 1 - d)).sum(-1)


def printed_value(q: Tensor, discriminator: Tensor) -> Tensor:
    r"""The value as the paper prints it: :math:`\mathbb E_{y\sim q}\log D(y) + \mathbb E_{y\sim q}\log(1-D(y))`."""
    return value(q, q, discriminator)


@typed
def best_discriminator(pop: Tensor, q: Tensor) -> Tensor:
    r"""[..., Y] :math:`D(y) = \mathrm{pop}(y)/(\mathrm{pop}(y)+q(y))`, float64; 1/2 where both are 0.

    Raises:
        ValueError: if a law is negative or does not sum to 1, or their shapes do not fit.
    """
    pop, q = _laws(pop, q)
    both = pop + q
    return torch.where(both > 0, pop / torch.where(both > 0, both, 1.0), 0.5)


@typed
def play(
    pop: Tensor, generator: Tensor, steps: int, rate: float = 2.0, discriminator_rate: float = 4.0, ascents: int = 2
) -> Play:
    r"""Both players move by gradient steps on their logits, the gradients being exact: nothing is drawn.

    With D = sigmoid(d) and q = softmax(g) the gradients of the value V are

    .. math:: \partial_d V = \mathrm{pop} - (\mathrm{pop}+q)\,D, \qquad
              \partial_g V = q\,(c - \textstyle\sum_y q_yc_y),\quad c = \log(1-D).

    Args:
        pop: [Y] the law that is to be learned.
        generator: [Y] logits g from which the generator starts, -inf for what it never produces; the discriminator
            starts at 1/2.
        steps: number of the generator's steps, >= 0.
        rate: the generator's step size, positive.
        discriminator_rate: the discriminator's step size, positive.
        ascents: the discriminator's steps before each of the generator's, >= 0.

    Raises:
        ValueError: if ``pop`` is no law, ``generator`` does not fit it or its largest logit is not finite, a number of
            steps is negative or no whole number, a step size is not positive, or the steps run out of the numbers.
    """
    pop = law("pop", pop)
    if pop.ndim != 1 or generator.shape != pop.shape:
        shape = tuple(generator.shape)
        raise ValueError(f"generator has shape {shape}; it must be {tuple(pop.shape)}, that of pop, with one dimension")
    steps, ascents = whole("steps", steps, 0), whole("ascents", ascents, 0)
    for name, size in (("rate", rate), ("discriminator_rate", discriminator_rate)):
        if not 0 < size < math.inf:
            raise ValueError(f"{name} is {size!r}; a step size must be finite and positive")
    g, d = generator.to(torch.float64), torch.zeros_like(pop)
    if not math.isfinite(highest := g.max().item()):
        raise ValueError(f"the generator's largest logit is {highest}; it must be finite")
    laws, discriminators = [torch.softmax(g, 0)], [torch.sigmoid(d)]
    for _ in range(steps):
        q = torch.softmax(g, 0)
        for _ in range(ascents):
            d = d + discriminator_rate * (pop - (pop + q) * torch.sigmoid(d))
        c = logsigmoid(-d)
        g = g - rate * q * (c - q @ c)
        if not bool((g < math.inf).all()):
            raise ValueError(f"the generator left the numbers after {len(laws)} steps: take smaller step sizes")
        laws.append(torch.softmax(g, 0))
        discriminators.append(torch.sigmoid(d))
    q, played = torch.stack(laws), torch.stack(discriminators)
    best = value(pop, q, best_discriminator(pop, q))
    return Play(value(pop, q, played), best, q, played)


def _laws(pop: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Both laws in float64, checked, of as many classes."""
    pop, q = law("pop", pop), law("q", q)
    if pop.shape[-1] != q.shape[-1]:
        raise ValueError(f"pop has {pop.shape[-1]} classes and q {q.shape[-1]}; they must be laws on the same y")
    return pop, q
