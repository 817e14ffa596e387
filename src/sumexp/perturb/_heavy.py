r"""Nodes for noise with heavy tails (Cauchy), where integrands fall like powers of u and no range is long enough.

Few classes far apart: around every class the line is cut at distances that double, up to 2^60 times the scale. Between
the cuts the integrand is analytic on the scale of the piece, so 12 Gauss-Legendre points are exact to 1e-15. Many
classes close together: the trapezoid rule in v with :math:`u = m + a\sinh v`. The rule with fewer nodes is used.
"""

import math

import numpy as np
import torch
from torch import Tensor

OCTAVES, ORDER = 60, 12
STEP = 0.15
"""Of the trapezoid rule at the classes, in units of the scale: poles at distance 1 leave an error exp(-2 pi/0.15)."""
REACH = 38.0


def count(classes: int, spread: float, scale: float) -> int:
    """The number of nodes for classes that range over ``spread``."""
    return min((2 * (OCTAVES + 1) * classes - 1) * ORDER, 2 * _steps(spread, scale) + 1)


def nodes(centres: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Nodes u and log weights for features of width ``scale`` at ``centres`` [rows, d]: both [rows, K]."""
    low, high = centres.amin().item(), centres.amax().item()
    steps = _steps(high - low, scale)
    if 2 * steps + 1 > count(centres.shape[-1], high - low, scale):
        return _octaves(centres.detach(), scale)
    half = _half(high - low, scale)
    step = REACH / steps
    v = step * torch.arange(-steps, steps + 1, dtype=centres.dtype, device=centres.device)
    u, log_weights = (low + high) / 2 + half * torch.sinh(v), torch.log(half * step * torch.cosh(v))
    return u.expand(len(centres), -1), log_weights.expand(len(centres), -1)


def _half(spread: float, scale: float) -> float:
    return spread / 2 + 4 * scale


def _steps(spread: float, scale: float) -> int:
    return math.ceil(REACH * _half(spread, scale) / (STEP * scale))


def _octaves(centres: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    distance = scale * 2.0 ** torch.arange(-1, OCTAVES, dtype=centres.dtype, device=centres.device)
    offsets = torch.cat([-distance.flip(0), distance])
    cuts = (centres.unsqueeze(-1) + offsets).flatten(-2).sort(-1).values
    half = torch.diff(cuts, dim=-1) / 2
    points, weights = (torch.from_numpy(part).to(cuts.device) for part in np.polynomial.legendre.leggauss(ORDER))
    u = (cuts[..., :-1] + half).unsqueeze(-1) + half.unsqueeze(-1) * points
    return u.flatten(-2), torch.log(half.unsqueeze(-1) * weights).flatten(-2)
