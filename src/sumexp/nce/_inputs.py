"""The checks that global and local NCE share."""

import math

import torch
from torch import Tensor

from sumexp._checks import log_law, whole
from sumexp.nce.joint import Joint


def noise(joint: Joint, log_q: Tensor | None) -> Tensor:
    r"""[Y] log q, checked and normalised; :math:`\log\mathrm{pop}_Y` if None."""
    return joint.y.log() if log_q is None else checked_law(log_q, joint.p)


def checked_law(log_q: Tensor, scores: Tensor) -> Tensor:
    """[classes] log q in float64, checked and normalised, for ``scores`` [..., classes]; see :func:`noise`."""
    if scores.ndim < 1:
        raise ValueError("scores is one number; it must be [..., classes]")
    if log_q.shape != scores.shape[-1:]:
        raise ValueError(f"log_q has shape {tuple(log_q.shape)}; it must be [{scores.shape[-1]}]")
    return log_law("log_q", log_q)


def checked_scores(joint: Joint, scores: Tensor, log_q: Tensor) -> Tensor:
    """[X, Y] scores in float64; ``-inf`` anywhere, ``+inf`` only where q(y) = 0."""
    if tuple(scores.shape) != joint.shape:
        raise ValueError(f"scores has shape {tuple(scores.shape)}; the joint law has {joint.shape}")
    wrong = torch.isnan(scores) | ((scores == math.inf) & (log_q > -math.inf))
    if bool(wrong.any()):
        x, y = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"scores[{x}, {y}] is {scores[x, y].item()}; a score must be a number or -inf (+inf only where q(y) = 0)"
        )
    return scores.to(torch.float64)


def check_candidates(n: object) -> int:
    """The number of candidates, from 2 to 2^53, which double precision can count."""
    return whole("n", n, 2, 1 << 53)
