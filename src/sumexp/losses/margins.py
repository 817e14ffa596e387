r"""Pairwise margins :math:`\log\rho_{yy'}` of three losses against label imbalance, elementwise.

Arguments broadcast: ``[B, 1]`` for the positives against ``[B, m]`` for drawn negatives or ``[L]`` for all classes.
Hand them to :func:`sumexp.losses.pairwise_margin`, or their exponentials as ``weights`` to a sampled loss beside
``log_q``: then its implicit loss has these margins (Rawat et al., Proposition 4).
"""

import torch
from torch import Tensor


def adaptive(log_prior_positive: Tensor, scale: float = 1.0) -> Tensor:
    r""":math:`\log\rho_{yy'} = C\,\pi_y^{-1/4}`: larger margins for rare positives (LDAM).

    Source: Rawat et al., section 2.1, which prints it without the logarithm; Cao et al. (2019).
    """
    return scale * torch.exp(-0.25 * log_prior_positive)


def equalised(log_prior_negative: Tensor, power: float = 1.0) -> Tensor:
    r""":math:`\log\rho_{yy'} = \log F(\pi_{y'})` with :math:`F(\pi) = \pi^{\text{power}}`: rare negatives weigh little.

    Source: Rawat et al., section 2.1; Tan et al. (2020).
    """
    return power * log_prior_negative


def logit_adjusted(log_prior_positive: Tensor, log_prior_negative: Tensor) -> Tensor:
    r""":math:`\log\rho_{yy'} = \log(\pi_{y'}/\pi_y)`: consistent for the balanced error.

    Source: Rawat et al., section 2.1; Menon et al. (2020).
    """
    return log_prior_negative - log_prior_positive
