"""The noise distributions of the package, each once: every rule is tested with all of them, so a new one goes here."""

import torch
from torch import Tensor

from sumexp.perturb import softmax
from sumexp.perturb.noises import Cauchy, Exponential, Gaussian, Gumbel, Logistic, Uniform
from sumexp.perturb.transforms import Continuous, Noise

CONTINUOUS: tuple[Continuous, ...] = (Gumbel(), Gaussian(), Logistic(), Exponential(), Uniform(), Cauchy())
FINITE = tuple(noise for noise in CONTINUOUS if noise.finite_max)
"""Those whose maximum has a mean."""


def second_moments(theta: Tensor, noise: Noise, tau: float) -> Tensor:
    """E[p_i p_j] of the random softmax p, [..., d, d]."""
    squares = softmax._by_rows(theta, noise, tau, lambda nodes, x: nodes.laws(x).squares())
    off = softmax.pair_moments(theta, noise, tau)
    return off - torch.diag_embed(torch.diagonal(off, dim1=-2, dim2=-1) - squares)
