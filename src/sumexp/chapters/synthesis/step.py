r"""The bar of exponentials of one label, and what each of five papers makes of it.

With logits f and label y the terms are :math:`x_{y'} = e^{f_{y'} - f_y}`, and the softmax of the label is its share
:math:`1/(1 + \sum_{y' \ne y} x_{y'})` of a bar. Each paper replaces the other terms; the label's piece keeps its
length 1.

============  ====================================================  ==================================================
name          terms                                                 share of the label
============  ====================================================  ==================================================
softmax       :math:`x_{y'}`                                        p, the softmax
sampled       :math:`N_{y'} x_{y'} / (m q_{y'})`                    sampled softmax, importance weights
contrasted    :math:`N_{y'} x_{y'}`                                 the argument of InfoNCE's logarithm
reweighted    :math:`N_{y'} x_{y'} / m`                             constant weights: classes count as they are drawn
ranked        1 where :math:`f_{y'} > f_y`, 1/2 where they tie      one over the expected rank
perturbed     :math:`x_{y'} e^{\gamma_{y'} - \gamma_y}`             perturbed softmax
============  ====================================================  ==================================================

N counts how often each negative is among m draws with replacement from q without the label.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp import expectations, negatives
from sumexp.perturb import Gumbel, Noise, softmax

Name = Literal["softmax", "sampled", "contrasted", "reweighted", "ranked", "perturbed"]


class Bar(NamedTuple):
    """A paper's bar.

    Attributes:
        terms: [classes] the pieces next to the label's piece of length 1; 0 at the label.
        share: the label's share of this bar, for one random draw.
        mean: its exact expectation; the share itself where nothing is random.
    """

    terms: Tensor
    share: float
    mean: float


def bars(
    logits: Tensor, label: int, log_q: Tensor, m: int, generator: torch.Generator, noise: Noise | None = None
) -> dict[Name, Bar]:
    r"""The bars of one label, all on the same logits f [classes] and the same m draws from the proposal.

    ``log_q`` [classes] is the proposal's logarithm up to a constant; the label is excluded. ``noise`` is that of the
    perturbations :math:`\gamma`, by default standard Gumbel.

    Raises:
        ValueError: if logits are not a vector of finite numbers, the label is no class, m < 1, or no negative can be
            drawn.
    """
    if logits.ndim != 1 or not bool(torch.isfinite(logits).all()):
        raise ValueError(f"logits must be a vector of finite numbers, got shape {tuple(logits.shape)}")
    m, label = checks.whole("m", m, 1), checks.whole("label", label, 0, len(logits) - 1)
    logits = logits.double()
    log_x = logits - logits[label]
    law = negatives.exclude(log_q, label)
    noise = noise or Gumbel()
    drawn = torch.multinomial(law.exp(), m, replacement=True, generator=generator)
    counts = torch.bincount(drawn, minlength=len(law)).double()
    gamma = noise.sample((len(law),), generator)
    others = torch.arange(len(logits), device=logits.device) != label

    def mean(log_weight: Tensor | float) -> float:
        log_terms = torch.where(law > -math.inf, log_x + log_weight, -math.inf)
        return expectations.expect(expectations.with_replacement(log_terms[others], m, law[others])).probability.item()

    def bar(terms: Tensor, expected: float | None = None) -> Bar:
        kept = torch.where(others, terms, 0.0)
        share = 1 / (1 + kept.sum().item())
        return Bar(kept, share, share if expected is None else expected)

    x, importance = log_x.exp(), -law - math.log(m)
    return {
        "softmax": bar(x),
        "sampled": bar(torch.where(counts > 0, counts * (log_x + importance).exp(), 0.0), mean(importance)),
        "contrasted": bar(counts * x, mean(0.0)),
        "reweighted": bar(counts * x / m, mean(-math.log(m))),
        "ranked": bar((log_x > 0).double() + (log_x == 0).double() / 2),
        "perturbed": bar((log_x + gamma - gamma[label]).exp(), softmax.mean(logits, noise)[label].item()),
    }
