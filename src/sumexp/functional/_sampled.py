r"""Losses of a positive against sampled negatives; see :mod:`sumexp.functional` for the common signature."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import _checks as checks
from sumexp.functional._arguments import Correct, Pair, Reduction, prepare, reduce, softmax_loss


class Margins(NamedTuple):
    r"""The two margin losses of a decoupled loss, each a function of the margin alone.

    Attributes:
        positive: :math:`\phi`, of the positive's score :math:`f_y`.
        negative: :math:`\varphi`, of minus a negative's score, :math:`-f_{y'}`.
    """

    positive: Callable[[Tensor], Tensor]
    negative: Callable[[Tensor], Tensor]


def _logistic(margin: Tensor) -> Tensor:
    return -F.logsigmoid(margin)  # F.softplus drops e^{-z} beyond z = 20, which float64 still sees


def _hinge(margin: Tensor) -> Tensor:
    return F.relu(1 - margin)


LOGISTIC = Margins(_logistic, _logistic)
r""":math:`\phi(z) = \varphi(z) = \log(1 + e^{-z})`."""

HINGE = Margins(_hinge, _hinge)
r""":math:`\phi(z) = \varphi(z) = \max(0, 1 - z)`."""

CONTRASTIVE = Margins(lambda z: (1 - z).square(), lambda z: F.relu(-z).square())
r"""For cosines: :math:`\phi(z) = (1 - z)^2`, :math:`\varphi(z) = \max(0, -z)^2`: negatives of positive cosine cost."""


def _together(pair: Pair, reduction: Reduction) -> Tensor:
    """The cross entropy of the positive among the negatives."""
    positive, negative, log_w = pair
    # Finite, so that a row in which nothing else is finite has loss log 1 = 0.
    finite = positive.masked_fill(positive == math.inf, torch.finfo(positive.dtype).max).unsqueeze(-1)
    logits = torch.cat([finite, negative if log_w is None else negative + log_w], -1)
    return softmax_loss(logits, torch.zeros_like(positive, dtype=torch.long), reduction)


def apart(margins: Margins, pair: Pair, reduction: Reduction) -> Tensor:
    """The sum of margin losses, each of one score."""
    positive, negative, log_w = pair
    terms = margins.negative(-negative)
    terms = terms if log_w is None else terms * log_w.exp()
    # A copy, so that the scores are not kept.
    return reduce(margins.positive(positive.clone()) + terms.sum(-1), reduction)


def sampled_softmax(
    positive_logits: Tensor,
    negative_logits: Tensor,
    *,
    log_q: checks.Values | None = None,
    positive_log_q: checks.Values | None = None,
    correct: Correct = "all",
    weights: checks.Values | None = None,
    hits: checks.Values | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""The sampled softmax cross entropy.

    .. math:: \ell = \log\Big(1 + \sum_{j=1}^m w_j\, e^{s_j - s_y}\Big), \qquad s_c = f_c - \log q_c

    with :math:`\log q` subtracted from all logits, the default if ``log_q`` is given: for independent draws of any q,
    hits kept, the minimum of the mean loss is then :math:`f = \log P(y\mid x)` up to a constant, for every m (the
    chapter :doc:`/notebooks/negatives`). ``correct="importance"`` takes :math:`\log(m q)` subtracted from the
    negatives only: that makes the sum unbiased for the full softmax's where no draw is a hit, and the loss itself lies
    below it on average, which :func:`sumexp.expectations.sampled_softmax` has exactly.

    >>> positive, negative = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
    >>> law = torch.tensor([0.5, 0.25])  # of a draw of each negative; of the own class it is 1/4
    >>> functional.sampled_softmax(positive, negative, log_q=law.log(), positive_log_q=torch.tensor([0.25]).log())
    tensor(0.3615)

    Args:
        positive_logits: [B] or [B, T], the score of each example's own class.
        negative_logits: [B, m] or [B, T, m], scores of its negatives.
        log_q: broadcastable to [B, m], the log probability of a draw of each negative's class.
        positive_log_q: [B], that of each example's own class; ``correct="all"`` needs it with ``log_q``.
        correct: from which logits log q is subtracted, see :mod:`sumexp.functional`.
        weights: broadcastable to [B, m], >= 0; with ``log_q`` the pairwise margins.
        hits: broadcastable to [B, m] bool, accidental hits (negatives of the example's own class) to leave out; all
            are kept without it.
        reduction: ``mean``, ``sum`` or ``none``.

    Returns:
        A scalar, or [B] for ``none``.

    Raises:
        ValueError: for shapes that do not fit, m = 0, NaN, a loss that would be infinite, the mean of an empty batch,
            log q that is missing, above 0 or -inf, and weights that are negative or infinite, outside the hits.

    Source: Rawat et al., equation (7); Lin, Liu, Lin, equation (4); Jean et al. (2015) for ``importance``.
    """
    return _together(
        prepare(positive_logits, negative_logits, log_q, positive_log_q, correct, weights, hits), reduction
    )


def info_nce(
    positive_logits: Tensor,
    negative_logits: Tensor | None = None,
    *,
    log_q: checks.Values | None = None,
    positive_log_q: checks.Values | None = None,
    correct: Correct = "all",
    weights: checks.Values | None = None,
    hits: checks.Values | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Global NCE: which of the N = m + 1 candidates is the true one.

    .. math:: \ell = -\log\frac{e^{f_y}}{e^{f_y} + \sum_{j=1}^m e^{f_j}}

    It is :func:`sampled_softmax` with unit weights; arguments and errors as there. At the optimum
    :math:`f = \log\mathrm{pop}(y|x)/q(y)` plus a constant, and for negatives from the marginal of y
    with hits kept :math:`\log N - \mathbb E\ell` bounds the mutual information from below. With ``log_q`` what has this
    optimum is :math:`f - \log q`, so that f is :math:`\log\mathrm{pop}(y|x)`; ``weights`` change it otherwise.

    >>> functional.info_nce(torch.tensor([2.0]), torch.tensor([[0.0, 1.0]]))
    tensor(0.4076)

    Raises:
        TypeError: if ``negative_logits`` is missing.

    Source: Stratos, section 1.2.
    """
    if negative_logits is None:
        raise TypeError(
            "info_nce takes positive_logits [B] and negative_logits [B, m]; one matrix of scores, in which the "
            "examples are one another's negatives, goes to in_batch(scores, ids, log_q=...), or correct='none' for no "
            "log q"
        )
    return _together(
        prepare(positive_logits, negative_logits, log_q, positive_log_q, correct, weights, hits), reduction
    )


def decoupled(
    positive_logits: Tensor,
    negative_logits: Tensor,
    *,
    margins: Margins = LOGISTIC,
    log_q: checks.Values | None = None,
    positive_log_q: checks.Values | None = None,
    correct: Correct = "all",
    weights: checks.Values | None = None,
    hits: checks.Values | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""The sampled decoupled loss: every score is judged by itself.

    .. math:: \ell = \phi(f_y) + \sum_{j=1}^m w_j\, \varphi(-f_j)

    Linear in the sample, so with ``correct="importance"``, :math:`w_j = 1/(m q_j)`, it is unbiased for the sum over all
    negatives. ``all`` and ``negatives`` subtract :math:`\log q` from the scores inside the margins, a different loss.
    ``margins`` are :math:`\phi` and :math:`\varphi`: ``LOGISTIC``, ``HINGE``, ``CONTRASTIVE`` or your own; the other
    arguments and the errors are those of :func:`sampled_softmax`.

    >>> functional.decoupled(torch.tensor([0.5]), torch.tensor([[0.2, -0.3]]), margins=functional.CONTRASTIVE)
    tensor(0.2900)

    Source: Rawat et al., equation (8).
    """
    law = (log_q, positive_log_q, correct)
    return apart(margins, prepare(positive_logits, negative_logits, *law, weights, hits, linear=True), reduction)


def binary_nce(
    positive_logits: Tensor,
    negative_logits: Tensor,
    *,
    log_q: checks.Values | None = None,
    positive_log_q: checks.Values | None = None,
    correct: Correct = "all",
    weights: checks.Values | None = None,
    hits: checks.Values | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Local NCE, the loss of word2vec: for each candidate by itself, is it true?

    .. math:: \ell = -\log\sigma(f_y) - \sum_{j=1}^m \log(1 - \sigma(f_j))

    It is :func:`decoupled` with logistic margins and unit weights; arguments and errors as there. At the optimum
    :math:`f = \log\mathrm{pop}(y|x)/q(y) - \log m`. With ``log_q``, subtracted from all logits, it is
    :math:`f = \log\mathrm{pop}(y|x) - \log m`. ``correct="importance"`` multiplies a negative's term by
    :math:`1/(m q)` instead.

    >>> functional.binary_nce(torch.tensor([2.0]), torch.tensor([[0.0, -1.0]]))
    tensor(1.1333)

    Source: Stratos, section 2.2, with m = N - 1.
    """
    law = (log_q, positive_log_q, correct)
    return apart(LOGISTIC, prepare(positive_logits, negative_logits, *law, weights, hits, linear=True), reduction)


def hinge(
    positive_logits: Tensor,
    negative_logits: Tensor,
    *,
    log_q: checks.Values | None = None,
    weights: checks.Values | None = None,
    hits: checks.Values | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""The hinge loss of the margin over the best negative.

    .. math:: \ell = \max\{0,\ 1 - (f_y - \max_j f_j)\}

    Over a sample of negatives it is at most the loss over all. A row whose negatives are all hits has loss 0. Arguments
    are those of :func:`sampled_softmax`.

    >>> functional.hinge(torch.tensor([2.0]), torch.tensor([[0.0, 1.5]]))
    tensor(0.5000)

    Raises:
        ValueError: as :func:`sampled_softmax`, and if ``log_q`` or ``weights`` is given: a maximum takes no weights.

    Source: Stratos, Appendix A.
    """
    if log_q is not None or weights is not None:
        raise ValueError("hinge takes the largest negative, which no weight can correct: leave out log_q and weights")
    positive, negative, mask = prepare(positive_logits, negative_logits, hits=hits)
    scores = negative.clone() if mask is None else negative + mask  # not kept either
    return reduce(F.relu(1 + (scores.amax(-1) - positive)), reduction)  # in this order: 1 is lost next to 1e8
