r"""Objectives of a fit: distances from the fitted distribution q to the target p.

The paper's formula is lost in the text we have; the public code that it builds on minimises ``"reverse"``.

=============  ====================================  ===============================
name           value                                 derivative in :math:`q_i`
=============  ====================================  ===============================
``reverse``    :math:`\sum_i q_i\log(q_i/p_i)`       :math:`\log(q_i/p_i)` (plus 1)
``forward``    :math:`\sum_i p_i\log(p_i/q_i)`       :math:`-p_i/q_i`
``absolute``   :math:`\sum_i\lvert q_i-p_i\rvert`    :math:`\mathrm{sign}(q_i-p_i)`
``squared``    :math:`\sum_i(q_i-p_i)^2`             :math:`2(q_i-p_i)`
=============  ====================================  ===============================

A constant in the derivative does not matter: probabilities sum to 1.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from sumexp import _checks as checks

Objective = Literal["reverse", "forward", "absolute", "squared"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


def value(objective: Objective, q: Tensor, p: Tensor) -> Tensor:
    """The objective of q [..., K] for the target p [K], [...].

    Raises:
        ValueError: if the objective is unknown, or needs the logarithm of integers.
    """
    checks.choice("objective", objective, OBJECTIVES)
    match objective:
        case "reverse":
            return (q * _log_ratio(q, p)).sum(-1)
        case "forward":
            return -(p * _log_ratio(q, p)).sum(-1)
        case "absolute":
            return (q - p).abs().sum(-1)
        case "squared":
            return (q - p).square().sum(-1)


def slope(objective: Objective, q: Tensor, p: Tensor) -> Tensor:
    """The derivative of the objective in q, up to a constant, [..., K]; errors as of :func:`value`."""
    checks.choice("objective", objective, OBJECTIVES)
    match objective:
        case "reverse":
            return _log_ratio(q, p)
        case "forward":
            return -p / _above_zero(q)
        case "absolute":
            return torch.sign(q - p)
        case "squared":
            return 2 * (q - p)


def _log_ratio(q: Tensor, p: Tensor) -> Tensor:
    return _above_zero(q).log() - p.log()


def _above_zero(q: Tensor) -> Tensor:
    """Clamp means of draws that underflow in single precision."""
    if not q.is_floating_point():
        raise ValueError(f"q must be a floating-point tensor, got {q.dtype}")
    return q.clamp_min(torch.finfo(q.dtype).tiny)
