r"""The minima of the published "correction of the logQ correction" and of its baseline, with free scores.

Both score a label y against m draws with replacement from q and leave out accidental hits, draws of y itself. An
example with hits only contributes nothing. Of the M draws that remain, each with law :math:`q'_j = q_j/(1-q_y)`,

- *baseline* subtracts :math:`\log q` from the negatives only, without :math:`\log m`:
  :math:`\log(1+\sum_n e^{f_n-f_y}/q_n)`;
- *refined* steps along :math:`(1-\hat p)\,\nabla(S-f_y)`, :math:`S=\log\frac1M\sum_n e^{f_n}/q'_n` and
  :math:`\hat p = 1/(1+e^{S-f_y})`, through which no gradient flows. That is the gradient of :math:`\log(1+e^{S-f_y})`:
  given M, the sampled softmax with importance weights and hits redrawn.

Both are convex, with one stationary point for every :math:`m\ge1` if P and q are positive. As m grows refined tends to
P, :math:`\log f_k = \log P_k + \frac1m(a_k-\sum_jP_ja_j)+O(m^{-2})` with :math:`a_k = \frac{P_k(1-P_k)}{q_k(1-q_k)}`,
and for :math:`\log(mq)` subtracted from the negatives only, hits left out, with :math:`a_k=P_k(1-P_k)(1+1/q_k)`
(:func:`first_order`). The baseline tends to

.. math:: p_k(1-p_k) = P_k/A, \qquad A = \sum_y \frac{P_y}{1-p_y},

if each :math:`P_k<\tfrac12`; if :math:`P_k>\tfrac12`, its scores diverge, :math:`m\,(1-p_k)\to(1-P_k)/(2P_k-1)`.
Proofs: :doc:`/notebooks/since`.

Not modelled: refined clamps ratios at 1e-10; the in-batch scripts take distinct items of a batch, and those of refined
draw half of the negatives uniformly.

Source: K. Khrylchenko et al., Correcting the LogQ Correction, RecSys 2025, arXiv 2507.09331, and its public code.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sumexp import _checks as checks
from sumexp.negatives.consistency import _Multiset, factors, minimiser, multiset_losses, others
from sumexp.negatives.population import positive_laws

Published = Literal["baseline", "refined"]
"""The two losses of the public code."""

MOST_DRAWS: dict[Published, int] = {"baseline": 1 << 53, "refined": 10_000}
"""Refined needs an integral for each number of draws that may remain."""

NEGLIGIBLE = 1e-18
"""Numbers M of remaining draws below this probability for every label are left out."""

MODELLED = 8
"""The largest number of terms of a Hessian, which Newton's method needs to a few digits only."""


def stationary(scheme: Published, log_p: Tensor, log_q: Tensor, num_negatives: float) -> Tensor:
    r"""The log probabilities at the stationary point of a published loss with free scores, deterministic.

    Args:
        scheme: ``baseline`` or ``refined``, see the module.
        log_p: [classes] law of labels, positive.
        log_q: [classes] law of one draw, positive.
        num_negatives: draws m for each example, with replacement, hits included; ``math.inf`` for the limit.

    Returns:
        log softmax of the scores, [classes], float64, without gradients.

    Raises:
        ValueError: if a class has probability 0 (its score has no stationary point), ``num_negatives`` is neither from
            1 to 2^53 (refined: 10,000) nor ``math.inf``, or, in the limit, the baseline diverges, as P >= 1/2 for a
            class.

    >>> log_p = torch.tensor([0.45, 0.35, 0.15, 0.05], dtype=torch.float64).log()
    >>> log_q = torch.full((4,), 0.25, dtype=torch.float64).log()
    >>> stationary("refined", log_p, log_q, 1).exp().numpy().round(4).tolist()
    [0.5465, 0.3497, 0.0858, 0.018]
    >>> stationary("refined", log_p, log_q, 16).exp().numpy().round(4).tolist()
    [0.4557, 0.3517, 0.1455, 0.0471]
    >>> stationary("baseline", log_p, log_q, math.inf).exp().numpy().round(4).tolist()
    [0.682, 0.2148, 0.0784, 0.0247]
    """
    checks.choice("scheme", scheme, get_args(Published))
    log_p, log_q = positive_laws(log_p, log_q)
    if num_negatives == math.inf:
        return log_p if scheme == "refined" else _limit(log_p)
    m = checks.whole("num_negatives", num_negatives, 1, MOST_DRAWS[scheme])
    if scheme == "refined":
        scores = minimiser(_refined(log_q, m), log_p.exp(), tol=1e-10)
    else:
        zero = torch.zeros_like(log_q)
        scores = minimiser(multiset_losses(log_q, m, (zero, -log_q), "mask"), log_p.exp(), tol=1e-10)
    return torch.log_softmax(scores, -1)


def first_order(scheme: Literal["refined", "importance"], log_p: Tensor, log_q: Tensor) -> Tensor:
    r"""The error of the log probabilities at the stationary point, times m, as m grows, [classes].

    ``scheme`` is ``refined``, or ``importance``: :math:`\log(mq)` subtracted from the negatives only, hits left out.
    The laws are those of :func:`stationary`.

    >>> log_p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    >>> first_order("refined", log_p, log_p).abs().max().item() < 1e-12
    True
    >>> first_order("importance", log_p, log_p).numpy().round(3).tolist()
    [-0.09, 0.07, 0.12]
    """
    checks.choice("scheme", scheme, ("refined", "importance"))
    log_p, log_q = positive_laws(log_p, log_q)
    p, q = log_p.exp(), log_q.exp()
    a = p * others(p) * (1 / q + (1 / others(q) if scheme == "refined" else 1))
    return a - p @ a


@dataclass(frozen=True)
class _Refined:
    """The potential of each label: importance weights, hits redrawn, averaged over the number M that remains."""

    terms: list[tuple[_Multiset, Tensor]]  # the loss given M, and the probability of M for each label

    def __call__(self, scores: Tensor) -> Tensor:
        # the graphs of all terms, classes times nodes each, would not fit in memory
        return torch.stack([share * checkpoint(loss, scores, use_reentrant=False) for loss, share in self.terms]).sum(0)

    @torch.no_grad()
    def curvature(self, scores: Tensor, posterior: Tensor) -> Callable[[Tensor], Tensor]:
        """The Hessian to a few digits, as its product with a vector: neighbouring numbers M share a term."""
        width = math.ceil(len(self.terms) / MODELLED)
        groups = [self.terms[first : first + width] for first in range(0, len(self.terms), width)]
        products = [
            group[len(group) // 2][0].curvature(scores, posterior * torch.stack([share for _, share in group]).sum(0))
            for group in groups
        ]
        return lambda v: torch.stack([product(v) for product in products]).sum(0)


def _refined(log_q: Tensor, m: int) -> _Refined:
    """M is binomial; its m - M hits are rare."""
    from scipy.stats import binom  # imported here, as it takes half a second

    q, rest = log_q.exp().cpu().numpy(), others(log_q.exp()).cpu().numpy()
    if q.max() >= 1:
        raise ValueError("exp(log_q) is 1 for a class, to all digits; as a label it leaves no negative")
    most = int(binom.isf(NEGLIGIBLE, m, q.max()))
    terms = []
    for hits in range(min(most, m - 1) + 1):
        chance = np.where(q < 0.5, binom.pmf(hits, m, q), binom.pmf(m - hits, m, rest))  # 1 - q would lose digits
        share = torch.from_numpy(chance).to(log_q.device)
        if share.max() > NEGLIGIBLE:
            weights = factors("importance", log_q, m - hits, hits="redraw")
            terms.append((_Multiset(log_q.exp(), m - hits, weights, "redraw", 1e-12), share))
    return _Refined(terms)


def _limit(log_p: Tensor) -> Tensor:
    """The baseline's stationary point for m to infinity: p_k (1 - p_k) = P_k / A, with p < 1/2 for all but the top."""
    p = log_p.exp()
    largest, top = p.max(0)
    if not largest < 0.5:
        raise ValueError(
            f"class {int(top)} has probability {largest.item():.6g}: from 1/2 on the baseline's scores diverge as "
            "num_negatives grows; give a finite num_negatives"
        )
    others_p = torch.cat([p[:top], p[top + 1 :]])
    rest, lacks = others_p / largest, (largest - others_p) / largest

    def smaller(odds: float) -> Tensor:
        """The other classes, over 1 - p_top."""
        p_top = 1 / (1 + math.exp(-odds))
        # 1 - 4 rest p (1 - p), without a difference of nearly equal numbers; 1 - 2 p is -tanh(odds / 2)
        square = math.tanh(odds / 2) ** 2 + 4 * lacks * p_top / (1 + math.exp(odds))
        return 2 * rest * p_top / (1 + square.sqrt())

    odds = brentq(lambda odds: smaller(odds).sum().item() - 1, -40.0, 40.0, xtol=1e-15, rtol=1e-15)
    others = smaller(odds).log() - math.log1p(math.exp(odds))
    score = log_p.new_tensor([-math.log1p(math.exp(-odds))])
    return torch.cat([others[:top], score, others[top:]])
