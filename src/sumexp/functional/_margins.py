r"""Margins, elementwise: the pairwise ones, :math:`\log\rho_{yy'}`, of three losses against label imbalance; ArcFace's.

Arguments broadcast: ``[B, 1]`` for the positives against ``[B, m]`` for drawn negatives or ``[L]`` for all classes.
Hand them to :func:`sumexp.functional.pairwise_margin`, or their exponentials as ``weights`` to a sampled loss with
``log_q``: then its implicit loss has these margins (Rawat et al., Proposition 4).
"""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from sumexp import _checks as checks


def adaptive(positive_log_prior: checks.Values, scale: float = 1.0) -> Tensor:
    r""":math:`\log\rho_{yy'} = C\,\pi_y^{-1/4}`: larger margins for rare positives (LDAM).

    >>> functional.adaptive(torch.tensor([0.0001, 0.5]).log(), scale=0.1)
    tensor([1.0000, 0.1189])

    Source: Rawat et al., section 2.1, which prints it without the logarithm; Cao et al. (2019).
    """
    checks.argument("scale", scale, float)
    return scale * torch.exp(-0.25 * checks.logs("positive_log_prior", positive_log_prior))


def equalised(negative_log_prior: checks.Values, exponent: float = 1.0) -> Tensor:
    r""":math:`\log\rho_{yy'} = \log F(\pi_{y'})`, :math:`F(\pi) = \pi^{\text{exponent}}`: rare negatives weigh little.

    >>> functional.equalised(torch.tensor([0.5, 0.25]).log(), exponent=0.5)
    tensor([-0.3466, -0.6931])

    Source: Rawat et al., section 2.1; Tan et al. (2020).
    """
    checks.argument("exponent", exponent, float)
    log_prior = checks.logs("negative_log_prior", negative_log_prior)
    return exponent * (log_prior if exponent else log_prior.masked_fill(log_prior == -math.inf, 0))  # 0^0 is 1


def logit_adjusted(positive_log_prior: checks.Values, negative_log_prior: checks.Values) -> Tensor:
    r""":math:`\log\rho_{yy'} = \log(\pi_{y'}/\pi_y)`: consistent for the balanced error.

    >>> functional.logit_adjusted(torch.tensor(0.25).log(), torch.tensor([0.5, 0.25]).log())
    tensor([0.6931, 0.0000])

    Source: Rawat et al., section 2.1; Menon et al. (2020).
    """
    negative = checks.logs("negative_log_prior", negative_log_prior)
    positive = checks.onto(checks.logs("positive_log_prior", positive_log_prior), negative.device)
    checks.together(positive_log_prior=positive, negative_log_prior=negative)
    return negative - positive


def arcface_margin(cosine: checks.Values, margin: float, *, guarded: bool = True) -> Tensor:
    r"""By how much ArcFace lowers the cosine of the target, :math:`\cos\theta - \cos(\theta + m)`.

    As printed this is *negative* for :math:`\theta > \pi - m/2`: there the target's logit is raised, and the loss
    bounds no rank. Implementations guard it: beyond :math:`\theta = \pi - m` they take :math:`m\sin m` instead, which
    is never negative.

    >>> functional.arcface_margin(torch.tensor([0.9, 0.0]), 0.5)
    tensor([0.3192, 0.4794])

    Args:
        cosine: of the angle between an example and its own class, in [-1, 1].
        margin: m in radians, 0 <= m <= pi/2.
        guarded: False for the formula as printed.

    Raises:
        ValueError: if the margin is out of range.
    """
    cosine = checks.reals("cosine", cosine)
    if not (isinstance(margin, Real) and 0 <= margin <= math.pi / 2):
        raise ValueError(f"margin is {margin!r}; ArcFace's margin is an angle in [0, pi/2]")
    square = 1 - cosine.square()
    inside = square > 0  # at cosines of 1 and -1 the root has no derivative
    sine = torch.where(inside, torch.where(inside, square, 1).sqrt(), 0)
    lowered = cosine * (1 - math.cos(margin)) + sine * math.sin(margin)
    if not guarded:
        return lowered
    return torch.where(cosine <= -math.cos(margin), margin * math.sin(margin), lowered)  # of NaN it is NaN
