r"""The minima of gBCE, of the sigmoid over a batch (SigLIP) and of CLIP's softmax, with free scores in closed form.

- *gBCE*: a positive y and k uniform negatives i, with the loss
  :math:`-\beta\log\sigma(f_y)-\sum_i\log(1-\sigma(f_i))`,

  .. math:: \alpha=\frac k{L-1},\qquad \beta=\alpha\bigl(t\,(1-\tfrac1\alpha)+\tfrac1\alpha\bigr)=1-t\,(1-\alpha),

  has :math:`f_i=\operatorname{logit}P_i+\log(\beta/\alpha)`: for t = 1 the sigmoid *is* the probability. If the
  negatives are drawn from all L classes, hits included, :math:`f_i=\log P_i+\log(\beta L/k)`. The order is the same for
  every t.
- *SigLIP*: the B true and B(B - 1) false pairs of a batch are the local game of :mod:`sumexp.nce.local_nce` with B
  candidates, so :math:`f=\mathrm{PMI}-\log(B-1)`; without pairs of equal y
  :math:`f=\mathrm{PMI}-\log(1-P(y\mid x))-\log(B-1)`.
- *CLIP*: the softmax over rows plus that over columns learns PMI + c if all pairs can occur, for every B, hits kept.

The proofs are in the chapter :doc:`/notebooks/since`.

Sources: A. Petrov and C. Macdonald, gSASRec, RecSys 2023, arXiv 2308.07192, and its public code; X. Zhai et al., Sigmoid
Loss for Language Image Pre-Training, ICCV 2023, arXiv 2303.15343, and its public code; A. Radford et al., Learning
Transferable Visual Models From Natural Language Supervision, ICML 2021.
"""  # noqa: E501

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import typed
from sumexp.nce import local_nce
from sumexp.nce._inputs import check_candidates
from sumexp.nce.joint import Joint

PairHits = Literal["keep", "mask"]
"""Whether a false pair whose y equals the true y of its x counts (``keep``) or is left out (``mask``)."""

Drawn = Literal["others", "all"]
"""gBCE draws negatives from the other classes, as in the paper, or from all classes, as in its code."""


@typed
def gbce(log_p: Tensor, num_negatives: int, t: float, drawn: Drawn = "others") -> Tensor:
    r"""The scores at the minimum of gBCE, [classes], for one context; gBCE takes :math:`\sigma(f)` for a probability.

    Args:
        log_p: [classes] log probabilities of the positives; a class of probability 0 has the score ``-inf``, and one of
            probability 1 ``inf`` where negatives are drawn from the others.
        num_negatives: k, at least 1.
        t: the calibration, from 0 (binary cross entropy) to 1.
        drawn: from which classes the uniform negatives are drawn; with ``all`` :math:`\alpha` is still k/(L - 1).

    >>> log_p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    >>> for t in (0.0, 1.0):
    ...     gbce(log_p, 1, t).sigmoid().numpy().round(3).tolist()
    [0.667, 0.462, 0.333]
    [0.5, 0.3, 0.2]
    """
    log_p = checks.log_law("log_p", log_p.detach())
    if log_p.ndim != 1 or len(log_p) < 2:
        raise ValueError(f"log_p is {tuple(log_p.shape)}; give [classes], two classes or more")
    k = checks.whole("num_negatives", num_negatives, 1)
    if not 0 <= t <= 1:
        raise ValueError(f"t is {t!r}; it must be from 0 to 1")
    alpha = k / (len(log_p) - 1)
    beta = 1 - float(t) + float(t) * alpha  # for t = 1 alpha itself
    if drawn == "all":
        return log_p + math.log(beta * len(log_p) / k)
    return log_p - _log_others(log_p) + math.log(beta / alpha)


@typed
def sigmoid_pairs(joint: Joint, batch: int, hits: PairHits = "keep") -> Tensor:
    r"""[X, Y] the scores at the minimum of the sigmoid loss over all pairs of a batch, bias and scale included.

    ``batch`` is B, at least 2; ``hits`` says whether pairs of equal y count as false. Scores are ``-inf`` for pairs
    that never occur, ``inf`` for pairs that are never false.

    >>> joint = Joint(torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64))
    >>> sigmoid_pairs(joint, 3).exp().numpy().round(6).tolist()  # (1.6, 0.4) / 2
    [[0.8, 0.2], [0.2, 0.8]]
    """
    scores = local_nce.optimal_scores(joint, batch)
    if hits == "keep":
        return scores
    return scores - _log_others(joint.log_y_given_x)


@typed
def softmax_pairs(joint: Joint) -> Tensor:
    r"""[X, Y] the scores at the minimum of CLIP's loss, rows and columns, for any batch size: the PMI.

    They are unique up to a constant if all pairs can occur.

    >>> joint = Joint(torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64))
    >>> softmax_pairs(joint).exp().numpy().round(6).tolist()
    [[1.6, 0.4], [0.4, 1.6]]
    """
    return local_nce.optimal_scores(joint, 2)


@typed
def constant_loss(bias: float, batch: int) -> float:
    r"""The sigmoid loss per x if all scores are b: :math:`\log(1+e^{-b})+(B-1)\log(1+e^b)`.

    Scores are nearly equal before training. The minimum is at :math:`b=-\log(B-1)`.

    >>> [round(constant_loss(b, 32_768), 2) for b in (0.0, -10.0)]
    [22713.05, 11.49]
    """
    check_candidates(batch)
    return float(np.logaddexp(0.0, -float(bias)) + (batch - 1) * np.logaddexp(0.0, float(bias)))


def _log_others(log_p: Tensor) -> Tensor:
    """[..., classes] log(1 - p), for the likeliest class by the sum of the others, as 1 - p would cancel."""
    likeliest = log_p.argmax(-1, keepdim=True)
    others = torch.logsumexp(log_p.scatter(-1, likeliest, -math.inf), -1, keepdim=True)
    return torch.log1p(-log_p.exp()).scatter(-1, likeliest, others)
