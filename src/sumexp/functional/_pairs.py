r"""Sigmoid losses: each pair of a batch, or each negative of an example, true or false by itself."""

from __future__ import annotations

import math
import sys
from numbers import Real
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import _checks as checks
from sumexp.functional._arguments import Correct, Reduction, for_sums, prepare, reduce
from sumexp.functional._batch import (
    InBatchHits,
    _check_loss,
    _check_scores,
    _classes,
    _law,
    _temperature,
    _without,
    reduced,
    without_absent,
)
from sumexp.functional._sampled import LOGISTIC, Margins, apart


def sigmoid_pairs(
    scores: Tensor,
    ids: checks.Values,
    *,
    log_q: checks.Values | None = None,
    hits: InBatchHits = "keep",
    temperature: float | Tensor = 1.0,
    logit_bias: float | Tensor = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""The loss of SigLIP: for each pair of a batch, did they come together?

    .. math:: \ell_i = -\log\sigma(s_{ii}) - \sum_{j\ne i}\log(1-\sigma(s_{ij})), \qquad
              s_{ij} = f_{ij}/T + b - \log q_{c_j}

    The minimum is :math:`f/T + b = \log\frac{P(x,y)}{P(x)P(y)} - \log(B-1)`, and with :math:`\log q` subtracted
    :math:`f/T + b = \log P(y\mid x) - \log(B-1)` (:func:`sumexp.nce.pairs.sigmoid_pairs`); B - 1 counts further columns
    too. So without log q the best constant to start at is :math:`b=-\log(B-1)`; the published one is b = -10, T = 1/10.

    >>> functional.sigmoid_pairs(torch.tensor([[2.0, 0.0], [0.0, 2.0]]), [5, 8])  # log(1 + e^-2) + log 2
    tensor(0.8201)

    Args:
        scores: [B, B + E] of examples and candidates, the examples' own on the diagonal; finite, or -inf off the
            diagonal for a candidate that cannot be.
        ids: [B + E] whole numbers, the classes of the columns.
        log_q: [B + E] log probability of a draw of each column's class, or [B, B + E]; subtracted from all scores, a
            constant. Nothing is subtracted without it.
        hits: ``keep`` the further columns of an example's own class, as false pairs, or ``mask`` them: leave them out.
        temperature: T > 0, a number, a learnable tensor of one element, or one for each row, [B] or [B, 1].
        logit_bias: b, a number or a learnable tensor of one element.
        reduction: over the examples, ``mean``, ``sum`` or ``none``.

    Returns:
        A scalar, or [B] for ``none``, at least float32.

    Raises:
        ValueError: as :func:`in_batch`, and for a bias that is no finite number.

    Source: Zhai et al. (2023), Algorithm 1.
    """
    return pairs_loss(scores, ids, log_q, hits, temperature, logit_bias, reduction)


def pairs_loss(
    scores: Tensor,
    ids: checks.Values,
    log_q: checks.Values | None,
    hits: InBatchHits,
    temperature: float | Tensor,
    logit_bias: float | Tensor,
    reduction: Reduction,
    absent: Tensor | None = None,
) -> Tensor:
    """:func:`sigmoid_pairs`, where ``absent`` [B + E] marks columns, and their examples, that are not there."""
    checks.choice("hits", hits, get_args(InBatchHits))
    _check_scores(scores)
    size, columns = scores.shape
    scores = scores if absent is None else _without(scores, None, absent)[0]
    divided, scale = _temperature(scores, temperature)
    law = _law("log_q", log_q, scores, (columns,), (size, columns), needed=False)
    classes = _classes(ids, scores)
    logits = for_sums(divided) * scale + _bias(logit_bias, scores)
    if law is not None:
        law = law if absent is None else without_absent(law, absent, size)
        logits = logits - law
    diagonal = torch.eye(size, columns, dtype=torch.bool, device=scores.device)
    signed = torch.where(diagonal, logits, -logits)
    if hits == "mask":
        signed = signed.masked_fill((classes[:size].unsqueeze(-1) == classes) & ~diagonal, math.inf)
    losses = -F.logsigmoid(signed).sum(-1)
    if __debug__ and size:
        _check_loss(losses, scores, classes, law)
    return reduce(losses, reduction) if absent is None else reduced(losses, ~absent[:size], reduction)


def gbce(
    positive_logits: Tensor,
    negative_logits: Tensor,
    *,
    classes: int,
    calibration: float = 0.75,
    log_q: checks.Values | None = None,
    positive_log_q: checks.Values | None = None,
    correct: Correct = "all",
    weights: checks.Values | None = None,
    hits: checks.Values | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Generalised binary cross entropy, the loss of gSASRec: :func:`binary_nce` with a smaller weight of the positive.

    .. math:: \ell = -\beta\log\sigma(f_y) - \sum_{j=1}^m\log(1-\sigma(f_j)), \qquad
              \beta = 1 - t\,(1-\alpha),\quad \alpha = \frac m{L-1}

    For negatives drawn uniformly from the other classes the minimum is
    :math:`f = \operatorname{logit}P(y\mid x) + \log(\beta/\alpha)` (:func:`sumexp.nce.pairs.gbce`): with t = 1 the
    sigmoid is the probability, with t = 0 it is that of :func:`binary_nce`; the order of the classes is the same for
    every t. For draws of any law q, hits kept and :math:`\log q` subtracted, it is :math:`f=\log P+\log(\beta/m)`: no t
    makes the sigmoid the probability. The public code divides by m + 1.

    >>> functional.gbce(torch.tensor([2.0]), torch.tensor([[0.0, -1.0]]), classes=5, calibration=1.0)
    tensor(1.0699)

    L is ``classes``, at least 2, and t ``calibration``, from 0 to 1; the other arguments are those of
    :func:`sampled_softmax`.

    Raises:
        ValueError: as :func:`decoupled`, and if L or t is out of range.

    Source: Petrov and Macdonald (2023), section 5.
    """
    others = checks.whole("classes", classes, 2) - 1
    calibration = _calibration(calibration)
    m = checks.floating("negative_logits", negative_logits, "[B, m] or [B, T, m]", 2, 3).shape[-1]
    beta = 1 - calibration * (1 - m / others)
    margins, law = Margins(lambda z: beta * LOGISTIC.positive(z), LOGISTIC.negative), (log_q, positive_log_q, correct)
    return apart(margins, prepare(positive_logits, negative_logits, *law, weights, hits, linear=True), reduction)


def _calibration(calibration: float) -> float:
    if not isinstance(calibration, Real) or not 0 <= calibration <= 1:
        raise ValueError(f"calibration is {calibration!r}; it must be from 0 (binary cross entropy) to 1")
    return float(calibration)


def _bias(logit_bias: float | Tensor, scores: Tensor) -> float | Tensor:
    if isinstance(logit_bias, Tensor):
        if logit_bias.numel() != 1 or not logit_bias.is_floating_point():
            raise ValueError(
                f"logit_bias is {logit_bias.dtype} of {tuple(logit_bias.shape)}; it must be one number, floating-point"
            )
        if __debug__ and not -math.inf < checks.read(logit_bias.detach().reshape(()))[0] < math.inf:
            raise ValueError(f"logit_bias is {logit_bias.item()!r}; it must be finite")
        return checks.onto(logit_bias.reshape(()), scores.device)
    return _number(logit_bias)


def _number(logit_bias: object) -> float:
    real = isinstance(logit_bias, Real) and not isinstance(logit_bias, bool)
    if not (real and abs(logit_bias) <= sys.float_info.max):  # type: ignore[arg-type]
        raise ValueError(f"logit_bias is {logit_bias!r}; it must be a finite number")
    return float(logit_bias)  # type: ignore[arg-type]
