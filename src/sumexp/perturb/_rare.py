r"""Logarithms of Perturb-Argmax probabilities that no float holds, by plain operations; Gaussian and logistic noise.

With Gaussian noise a class's integrand falls from its mode like :math:`e^{-t^2/2}`, or faster. With logistic noise it
is flat between the best two classes: where the best leads by :math:`L + e`, the others are raised by e, to
:math:`p_i'` at places :math:`x_i'`, and :math:`p_i = e^{-e}(p_i' + e\,e^{x_i'})` up to :math:`e^{-L}`.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from sumexp.perturb.batched import _grid
from sumexp.perturb.noises import Gaussian, Logistic

REACH, LEAD, AROUND = 45.0, 30.0, 9.0
"""In scales: where the Gaussian grid of all classes begins, left of the best; L; where a class's own grid ends."""


def log_probabilities(theta: Tensor, noise: Gaussian | Logistic, won: Tensor | None = None) -> Tensor:
    """Of all classes of theta [..., K], or of one of each row, ``won`` [...]: [..., 1].

    Of all they share a grid, which for Gaussian noise ends at e^-1500 or below: what is less is -inf.
    """
    classes, place = theta.shape[-1], torch.arange(theta.shape[-1], device=theta.device)
    x = ((theta - theta.amax(-1, keepdim=True)) / noise.scale).clamp_min(-1e100)  # -inf has a place, too
    chosen = (place if won is None else won.unsqueeze(-1)).expand(*theta.shape[:-1], -1)
    if isinstance(noise, Gaussian):
        step = min(0.3, 0.75 / math.pow(classes, 0.5))  # of K equal classes far left the width is 1/sqrt(K)
        begin, length = -REACH * x.new_ones(1), REACH + math.sqrt(2 * math.log(classes / 1e-17))
        if won is not None:
            begin, length = _mode(x.detach(), chosen) - AROUND, 2 * AROUND
        nodes = begin + step * torch.arange(math.ceil(length / step), device=x.device, dtype=x.dtype)
        weights = torch.full_like(nodes, step)
    else:
        nodes, weights = _grid(noise, classes, x)
        lead = -x.topk(2).values[..., 1:]
        raised = torch.where((lead > LEAD) & (lead < 1e99), lead - LEAD, 0.0)  # beyond, the second is no class
        x = torch.where(x < 0, x + raised, x)
    log_cdf, log_ratio = _logs(nodes.unsqueeze(-2) - x.unsqueeze(-1), noise)
    location = x.gather(-1, chosen)
    if won is not None:
        log_ratio = _logs(nodes.unsqueeze(-2) - location.unsqueeze(-1), noise)[1]
    terms = log_ratio + (log_cdf.sum(-2) + weights.log()).unsqueeze(-2)
    log_p = torch.logsumexp(terms, -1)
    if isinstance(noise, Logistic):
        flat = torch.logaddexp(log_p, location + torch.where(raised > 0, raised, 1.0).log()) - raised
        log_p = torch.where((raised > 0) & (location < 0), flat, log_p)
    outside = (terms[..., 0] > terms.amax(-1) - 25) | (theta.gather(-1, chosen) == -math.inf)
    return log_p.masked_fill(outside, -math.inf)


def _logs(z: Tensor, noise: Gaussian | Logistic) -> tuple[Tensor, Tensor]:
    """log F and log(f / F) of the standard noise; torch maps no ``log_ndtr``."""
    if isinstance(noise, Logistic):
        return logsigmoid(z), logsigmoid(-z)
    low, high = z.clamp_max(-1.0), z.clamp_min(-1.0)
    left = (torch.special.erfcx(low * -math.sqrt(0.5)) / 2).log() - low.square() / 2
    log_cdf = torch.where(z < -1, left, torch.log1p(torch.special.erfc(high * math.sqrt(0.5)) / -2))
    return log_cdf, z.square() / -2 - math.log(2 * math.pi) / 2 - log_cdf


def _mode(x: Tensor, chosen: Tensor) -> Tensor:
    """Where the integrand of the chosen class is largest, by halving; [..., 1]."""
    low = location = x.gather(-1, chosen)
    high = torch.full_like(low, math.sqrt(2 * math.log(x.shape[-1])) + 2)
    for _ in range(40):
        middle = (low + high) / 2
        ratios = _logs(middle - x, Gaussian())[1].exp().scatter(-1, chosen, 0.0)
        rises = ratios.sum(-1, keepdim=True) > middle - location
        low, high = torch.where(rises, middle, low), torch.where(rises, high, middle)
    return low
