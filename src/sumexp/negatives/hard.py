r"""Hard negatives from a finite number of draws: the exact mean loss and its minimum with free scores.

The loss of Robinson et al. (2021) weights each of m draws by :math:`e^{\beta f}`, divided by the mean of these weights;
gradients flow through the weights, and hits are kept:

.. math:: \ell_y = \log\Bigl(1+m\,\frac{\sum_n e^{(1+\beta)f_n}}{\sum_n e^{\beta f_n}}\,e^{-f_y}\Bigr)
          = \log\sum_n a_n - \log\sum_n b_n,\qquad b_n=e^{\beta f_n},\quad a_n=b_n\bigl(1+m\,e^{f_n-f_y}\bigr).

The terms of each sum are i.i.d., so by Frullani's integral, for any m,

.. math:: \mathbb E\,\ell_y
   = \int_0^\infty\Bigl[\bigl(\mathbb E e^{-sb}\bigr)^m-\bigl(\mathbb E e^{-sa}\bigr)^m\Bigr]\frac{ds}s ,

where a and b are those of one draw, divided by the minimum b, so that the bounds of :func:`sumexp.expectations.rule`
hold with the largest sum of a for :math:`1+X_{\max}`. With many classes the mean, which is analytic in :math:`f_y` for
:math:`|\operatorname{Im}f_y|<\pi`, is interpolated between Chebyshev nodes.

If P and q are positive, a minimum exists for every :math:`m\ge1` and :math:`\beta\ge0`. For :math:`\beta=0`, and for
one draw, it is :math:`\log P/q`. Otherwise the loss is not convex, and can have several minima.

Source: J. Robinson et al., Contrastive Learning with Hard Negative Samples, ICLR 2021; its public code, with
``tau_plus`` 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from numpy.typing import NDArray
from scipy import optimize
from torch import Tensor

from sumexp import _checks as checks
from sumexp.expectations.quadrature import rule
from sumexp.negatives.consistency import minimiser
from sumexp.negatives.population import Losses, positive_laws
from sumexp.negatives.tilted import tilted

MOST_DRAWS = 10_000
"""Rounding grows like the number of draws: here it is some 1e-12."""

MOST_BETA = 20.0
"""The largest hardness for which the search was compared with descent from many starts."""

FEW = 20
"""Up to so many classes the search has four starts; with more, Newton's method starts at the limit."""

COARSE = 1e-4
"""Tolerance of the Hessian: Newton's method needs it to a few digits, and the gradient to all."""


def hard_losses(log_q: Tensor, m: int, beta: float) -> Losses:
    r"""The exact mean loss of each class as the label, twice differentiable in the scores.

    Args:
        log_q: [classes] law of one draw, positive everywhere.
        m: draws for each example, with replacement, hits included; at most 10,000.
        beta: hardness :math:`\beta\ge0`.

    Raises:
        ValueError: if the law is not positive, or m or beta is out of range.

    >>> half = torch.tensor([0.5, 0.5], dtype=torch.float64).log()
    >>> scores = torch.tensor([0.0, 0.0], dtype=torch.float64)
    >>> hard_losses(half, 3, 1.0)(scores).exp().numpy().round(9).tolist()  # 1 + m
    [4.0, 4.0]
    """
    m = checks.whole("m", m, 1, MOST_DRAWS)
    if not isinstance(beta, Real) or not 0 <= beta < math.inf:
        raise ValueError(f"beta is {beta!r}; it must be a number >= 0")
    values = checks.log_law("log_q", log_q.detach())
    if values.ndim != 1 or not bool(values.isfinite().all()):
        raise ValueError(f"log_q {tuple(values.shape)} must be a positive law, [classes]")
    return _Hard(values.exp(), m, float(beta))


def hard_minimum(log_p: Tensor, log_q: Tensor, m: float, beta: float) -> Tensor:
    r"""The scores that minimise the mean loss, shifted to mean 0; deterministic.

    The loss is not convex. With up to 20 classes the search has four starts and takes the lowest end; with more,
    Newton's method starts at the limit of many draws. That no other minimum is lower is not proved: for 300 random laws
    of three to five classes, two to five draws and :math:`\beta` from 1 to 20, descent from twelve starts found none.

    Args:
        log_p: [classes] law of labels, positive.
        log_q: [classes] law of one draw, positive.
        m: as in :func:`hard_losses`, or ``math.inf`` for the limit.
        beta: hardness :math:`\beta`, from 0 to 20, or any for the limit.

    Raises:
        ValueError: as :func:`hard_losses`; if the shapes differ, beta is above 20, or the search does not converge.

    >>> log_p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    >>> log_q = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64).log()
    >>> [hard_minimum(log_p, log_q, m, 1.0).numpy().round(3).tolist() for m in (4, 64)]
    [[0.41, -0.043, -0.367], [0.313, -0.022, -0.291]]
    >>> hard_minimum(log_p, log_q, math.inf, 1.0).numpy().round(3).tolist()
    [0.309, -0.021, -0.288]
    """
    log_p, log_q = positive_laws(log_p, log_q)
    limit, device = tilted(log_p, log_q, beta=beta), log_p.device
    if m == math.inf:
        return limit - limit.mean()
    if beta > MOST_BETA:
        raise ValueError(
            f"beta is {beta!r}; give at most {MOST_BETA:g}, or m = math.inf: few draws have several minima"
        )
    limit, log_p, log_q = limit.cpu(), log_p.cpu(), log_q.cpu()  # SciPy searches
    losses, p = hard_losses(log_q, checks.whole("m", m, 1, MOST_DRAWS), beta), log_p.exp()

    def risk(scores: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        with torch.enable_grad():
            point = torch.from_numpy(scores).requires_grad_()
            value = p @ losses(point)
            return value.item(), torch.autograd.grad(value, point)[0].numpy()

    start = limit
    if len(limit) <= FEW:
        starts = (start, log_p - log_q, log_p, torch.zeros_like(start))
        ends = [optimize.minimize(risk, x.numpy(), jac=True, method="BFGS") for x in starts]
        start = torch.from_numpy(min(ends, key=lambda end: end.fun).x)
    return minimiser(losses, p, start, tol=1e-10).to(device)


@dataclass(frozen=True)
class _Hard:
    """The losses of :func:`hard_losses`."""

    q: Tensor
    m: int
    beta: float

    def __call__(self, scores: Tensor) -> Tensor:
        if scores.shape != self.q.shape or not bool(scores.isfinite().all()):
            raise ValueError(f"scores {tuple(scores.shape)} must be finite numbers {tuple(self.q.shape)}")
        return self._means(scores, 1e-12)

    def curvature(self, scores: Tensor, posterior: Tensor) -> Callable[[Tensor], Tensor]:
        """The Hessian of the mean over labels to a few digits, as its product with a vector."""
        with torch.enable_grad():
            point = scores.detach().requires_grad_()
            (slope,) = torch.autograd.grad(posterior @ self._means(point, COARSE), point, create_graph=True)
        return lambda vector: torch.autograd.grad(slope, point, vector, retain_graph=True)[0]

    def _means(self, scores: Tensor, tol: float) -> Tensor:
        labels, interpolate = _nodes(scores, tol)
        log_b = self.beta * (scores - scores.detach().min())  # the least b is 1
        above = math.log(self.m) + scores - labels.unsqueeze(-1)  # [labels, draws]
        log_a = log_b + torch.logaddexp(above, torch.zeros_like(above))  # F.softplus drops e^-x beyond 20
        base = rule(tol, log_a.max().item() + math.log(self.m))
        u = base.nodes(scores.device)
        parts = self._lost(u[:, None, None] + log_a) - self._lost(u[:, None] + log_b).unsqueeze(-1)
        return interpolate(base.step * parts.sum(0))

    def _lost(self, log_rate: Tensor) -> Tensor:
        r""":math:`1-(\mathbb E e^{-sx})^m` from the logarithms of sx, [..., classes]."""
        lost = -(self.q * torch.expm1(-torch.exp(log_rate))).sum(-1)
        finite = lost < 1
        return torch.where(finite, -torch.expm1(self.m * torch.log1p(-torch.where(finite, lost, 0.5))), 1.0)


def _nodes(scores: Tensor, tol: float) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Scores of labels at which the mean is computed, and the interpolation from there to all classes.

    Chebyshev's series converges like the sum of the half axes of the largest ellipse about the scores in which the mean
    is analytic; its half height is pi.
    """
    low, high = scores.detach().min().item(), scores.detach().max().item()
    centre, half = (low + high) / 2, 0.51 * (high - low) + 0.01
    count = math.ceil(math.log(10 / tol) / math.asinh(0.9 * math.pi / half)) + 4
    if count >= len(scores):
        return scores, lambda values: values
    orders = torch.arange(count, dtype=torch.float64, device=scores.device)
    angles = (orders + 0.5) * math.pi / count
    series = torch.cos(torch.outer(orders, angles)) * (2 - (orders == 0).double()).unsqueeze(-1) / count
    basis = torch.cos(torch.outer(torch.arccos((scores - centre) / half), orders))
    return centre + half * torch.cos(angles), lambda values: basis @ (series @ values)
