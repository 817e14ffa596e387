"""The exact optimum of local NCE on a law of pairs, and how near learned scores come to it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sumexp.nce import Joint, local_nce


def newton(joint: Joint, negatives: int, log_q: Tensor | None = None, steps: int = 60) -> Tensor:
    r"""The full table's minimiser by Newton's method, without noise: [X, Y] after ``steps`` steps from 0.

    Each score has a loss of its own, with :math:`\pi = \mathrm{pop}(y|x) / (\mathrm{pop}(y|x) + m\,q(y))` the share of
    true pairs among all pairs (x, y), and its step is :math:`(\pi - \sigma(s)) / (\sigma(s)\,\sigma(-s))`. It converges
    from 0 without a step too far, and takes a step of about -1 forever where a pair is never seen.

    Negatives are m; ``log_q`` [Y] is the log probability of the noise, the law of y by default.
    """
    share = local_nce.posterior(joint, negatives + 1, log_q)
    scores = torch.zeros_like(share)
    for _ in range(steps):
        true, false = torch.sigmoid(scores), torch.sigmoid(-scores)
        scores += (share - true).div_(false.mul_(true))
    return scores


def correlation(a: Tensor, b: Tensor, weights: Tensor) -> float:
    """Pearson's correlation of two vectors [K] under weights [K], which need not sum to 1."""
    w = weights / weights.sum()
    a, b = a - w @ a, b - w @ b
    return float((w * a) @ b / ((w @ a.square()) * (w @ b.square())).sqrt())


@dataclass(frozen=True)
class Comparison:
    """How near learned scores come to the exact pointwise mutual information (PMI).

    Attributes:
        weighted: correlation over the pairs seen, each by its probability.
        unweighted: correlation over the pairs seen, all alike; those never seen have the PMI minus infinity.
        won: the part of the loss between independence (PMI 0) and the optimum that the scores have won; 1 at the
            optimum, and negative where they are worse than independence.
    """

    weighted: float
    unweighted: float
    won: float


def compare(joint: Joint, scores: Tensor, negatives: int, log_q: Tensor | None = None) -> Comparison:
    r"""Hold learned scores [V, V], plus :math:`\log m q/\mathrm{pop}_Y`, against the exact PMI.

    Args:
        joint: the law of pairs.
        scores: what local NCE has learned.
        negatives: m.
        log_q: [V] of the noise they were learned with, the law of y if None.
    """
    scores, seen, n = scores.double(), joint.p > 0, negatives + 1
    shift = math.log(negatives) + (0 if log_q is None else log_q - joint.y.log())
    learned = scores + shift
    nothing = torch.zeros_like(learned) - shift
    least, most, reached = (
        local_nce.cross_entropy(joint, s, n, log_q).item()
        for s in (local_nce.optimal_scores(joint, n, log_q), nothing, scores)
    )
    exact, p = joint.pmi[seen], joint.p[seen]
    return Comparison(
        weighted=correlation(learned[seen], exact, p),
        unweighted=correlation(learned[seen], exact, torch.ones_like(p)),
        won=(most - reached) / (most - least),
    )
