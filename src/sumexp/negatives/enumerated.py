"""The minimum of any sampled loss, and the variance of its estimates, by enumeration of all draws.

With few classes and negatives the mean of any loss, its gradient and its Hessian are finite sums over the multisets of
m independent draws: an independent check of the integrals of :mod:`sumexp.negatives.consistency`.
On scores that sum to 0 an estimate from N examples with free scores has the asymptotic covariance :math:`H^+VH^+/N`
around the minimum :math:`f^*`, where H is the mean Hessian and V the covariance of one example's gradient.

Relative weights with hits kept (`kept`) have no bias for any m, and :math:`V = H`. Among estimating functions whose
mean given the unordered candidates is 0 for all scores, `kept` has the smallest asymptotic covariance; the full
softmax's is smaller, and evaluates all classes (theorems of the chapters :doc:`/notebooks/negatives` and
:doc:`/notebooks/since`).

Sources: Godambe, Biometrika 63 (1976), for conditional scores; Rawat et al., eq. (7), for the losses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from sumexp import _checks as checks
from sumexp.negatives import information
from sumexp.negatives.consistency import log1p_sums, others
from sumexp.negatives.population import positive_laws

MOST_DRAWS = 20_000
"""The largest number of multisets."""

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From the scores [classes], the count of each class [multisets, classes], and log q [classes] to the loss of each
multiset with each label, [multisets, classes]."""


def full(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
    r"""The cross entropy of the full softmax; it ignores the draws."""
    return -scores.log_softmax(0).expand_as(counts)


def kept(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
    r"""log q subtracted from all logits, hits kept: :math:`\log(e^{s_y}+\sum_ne^{s_n})-s_y` with :math:`s=f-\log q`."""
    return log1p_sums(counts, scores, log_q, log_q, hits=True)


def masked(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
    """log q subtracted from all logits, hits left out."""
    return log1p_sums(counts, scores, log_q, log_q)


def importance(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
    """log(m q) subtracted from the negatives only, hits left out."""
    return log1p_sums(counts, scores, log_q, -counts.sum(-1, keepdim=True).log())


def baseline(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
    """log q subtracted from the negatives only, without log m, hits left out; see :mod:`sumexp.negatives.published`."""
    return log1p_sums(counts, scores, log_q, 0.0)


def refined(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
    """The potential of the refined loss, see :mod:`sumexp.negatives.published`; 0 if all draws are hits."""
    left = counts.sum(-1, keepdim=True) - counts
    return log1p_sums(counts, scores, log_q, torch.log(others(log_q.exp()) / left.clamp_min(1)))


def hard(beta: float) -> Loss:
    r"""Negatives of weights :math:`e^{\beta f}`, hits kept.

    .. math:: \log\bigl(1+m\,\frac{\sum_ne^{(1+\beta)f_n}}{\sum_ne^{\beta f_n}}\,e^{-f_y}\bigr)

    Source: Robinson et al. (2021), the public code's ``reweight_neg`` with ``tau_plus`` 0.
    """

    def loss(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
        log_tilt = beta * (scores - scores.detach().max()) + counts.log()
        log_share = torch.log_softmax(log_tilt, -1) + counts.sum(-1, keepdim=True).log()
        return log1p_sums(counts > 0, scores, -log_share, 0.0, hits=True)

    return loss


LOSSES: dict[str, Loss] = {
    "full": full,
    "kept": kept,
    "masked": masked,
    "importance": importance,
    "baseline": baseline,
    "refined": refined,
}
"""By their names in the chapter."""


@dataclass(frozen=True)
class Estimate:
    r"""The minimum of a loss with free scores, and how estimates vary around it.

    Attributes:
        log_f: [classes] log softmax of the scores at the minimum.
        covariance: [classes, classes] asymptotic covariance of centred scores, times the number of examples.
        spread: [classes, classes] covariance V of one example's gradient at the minimum.
    """

    log_f: Tensor
    covariance: Tensor
    spread: Tensor

    def error(self, log_p: Tensor) -> float:
        """The largest error of a log probability."""
        return (self.log_f - log_p).abs().max().item()

    def relative_variance(self, log_p: Tensor) -> float:
        """The trace of the covariance over that of the full softmax."""
        least = information.variance(information.full_information(log_p))
        return (self.covariance.trace() / least.trace()).item()


def draws(log_q: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """All multisets of m independent draws: counts [multisets, classes] and probabilities [multisets].

    Raises:
        ValueError: if there are more than 20,000 multisets.

    >>> counts, chance = draws(torch.tensor([0.25, 0.75], dtype=torch.float64).log(), 2)
    >>> counts.tolist(), chance.numpy().round(9).tolist()
    ([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]], [0.0625, 0.375, 0.5625])
    """
    m, log_q = checks.whole("m", m, 1), checks.log_law("log_q", log_q)
    classes = len(log_q)
    if (number := math.comb(m + classes - 1, m)) > MOST_DRAWS:
        raise ValueError(f"{m} draws of {classes} classes have {number} multisets; at most {MOST_DRAWS} are listed")
    ids = torch.tensor(list(combinations_with_replacement(range(classes), m)), device=log_q.device)
    counts = log_q.new_zeros(len(ids), classes).scatter_add_(1, ids, torch.ones_like(ids, dtype=torch.float64))
    orders = math.lgamma(m + 1) - torch.lgamma(counts + 1).sum(-1)
    return counts, torch.exp(orders + torch.xlogy(counts, log_q.exp()).sum(-1))


def estimate(loss: Loss, log_p: Tensor, log_q: Tensor, m: int) -> Estimate:
    r"""The minimum of a mean loss, and the asymptotic covariance of its estimates; deterministic.

    ``loss`` is one of :data:`LOSSES`, :func:`hard`, or another, twice differentiable; ``log_p`` and ``log_q`` [classes]
    are the positive laws of the labels and of one draw; m counts draws for each example, hits included.

    Raises:
        ValueError: if a law has a zero, there are too many multisets, or Newton's method finds no minimum.

    >>> log_p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    >>> got = estimate(kept, log_p, log_p.flip(0), 2)
    >>> round(got.error(log_p), 12)
    0.0
    >>> round(got.relative_variance(log_p), 3)
    1.661
    """
    log_p, log_q = positive_laws(log_p, log_q)
    counts, chance = draws(log_q, m)
    weights = torch.outer(chance, log_p.exp())

    def risk(scores: Tensor) -> Tensor:
        return (weights * loss(scores, counts, log_q)).sum()

    scores, curvature = _minimum(risk, log_p)
    slopes = _slopes(lambda at: loss(at, counts, log_q), scores)
    spread = slopes.T @ (weights.reshape(-1, 1) * slopes)
    inverse = information.variance(curvature)
    return Estimate(torch.log_softmax(scores, 0), inverse @ spread @ inverse, spread)


def _minimum(risk: Callable[[Tensor], Tensor], start: Tensor) -> tuple[Tensor, Tensor]:
    """Newton's method; the risk does not change if a constant is added to all scores. Its Hessian there, too."""
    scores, scale = start - start.mean(), (start / 2).exp()  # in units of 1/scale a rare class curves as much as others
    flat = torch.outer(scale, scale)
    for _ in range(100):
        curvature: Tensor = hessian(risk, scores)  # type: ignore[no-untyped-call]
        slope: Tensor = jacobian(risk, scores)  # type: ignore[no-untyped-call]
        values, vectors = torch.linalg.eigh(curvature / flat + flat)
        # Where the risk is not convex the step still descends along each eigenvector.
        step = -vectors @ ((vectors.T @ (slope / scale)) / values.abs().clamp_min(1e-12)) / scale
        if step.abs().max() < 1e-11:
            if values.min() <= 0:
                break
            return scores, curvature
        step = step * min(1.0, 2.0 / step.abs().max().item())
        length, value = 1.0, risk(scores)
        while length > 1e-9 and risk(scores + length * step) > value + 1e-15:
            length /= 2
        scores = scores + length * step
    raise ValueError("Newton's method found no minimum; is it finite?")


def _slopes(losses: Callable[[Tensor], Tensor], scores: Tensor) -> Tensor:
    """The gradient of each loss, [losses, classes], by double backward."""
    point = scores.clone().requires_grad_()
    values = losses(point)
    ones = torch.ones_like(values, requires_grad=True)
    (total,) = torch.autograd.grad(values, point, ones, create_graph=True)
    return torch.stack([torch.autograd.grad(part, ones, retain_graph=True)[0].flatten() for part in total], -1)
