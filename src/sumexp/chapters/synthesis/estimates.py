r"""Estimates of one softmax probability :math:`F = 1/(1+\sum_i a_i)`: logit evaluations, bias and standard deviation.

Bias, deviation and cost are exact: integrals over Laplace transforms, no sampling. ``log_a`` [n] are the logits of the
negatives minus that of the label, and k the number of logit evaluations or draws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp import expectations
from sumexp.bias import estimators
from sumexp.expectations import quadrature

NUMBERS = 4_000_000
"""Exponentials held at a time."""


@dataclass(frozen=True)
class Estimate:
    """An estimate of the softmax of one label.

    Attributes:
        reads: expected number of logit evaluations of negatives, repeated draws included.
        bias: its mean minus the softmax; exactly 0 for unbiased constructions.
        deviation: its standard deviation.
    """

    reads: float
    bias: float
    deviation: float

    @property
    def error(self) -> float:
        """The root of its mean square error."""
        return math.hypot(self.bias, self.deviation)


def subset(log_a: Tensor, k: int) -> Estimate:
    r"""The sampled softmax :math:`1/(1+\frac nk\sum_{i\in I}a_i)` of a uniform k-subset I.

    Raises:
        ValueError: if ``log_a`` is no vector or k is not 1..n.
    """
    n, log_a = _negatives(log_a)
    k = checks.whole("k", k, 1, n)
    if k == n:
        return Estimate(k, 0.0, 0.0)
    expected = _read(tuple(log_a.tolist()), k)
    return Estimate(k, expected.probability_gap.item(), expected.probability_variance.sqrt().item())


def drawn(log_a: Tensor, k: int, log_q: Tensor | None = None) -> Estimate:
    r"""The sampled softmax :math:`1/(1+\sum_{j\le k}a_{i_j}/(kq_{i_j}))` of k independent draws.

    ``log_q`` [n] is the logarithm of their distribution, by default uniform.

    Raises:
        ValueError: if a shape does not fit, q does not sum to 1 or is 0 where a is not, or k < 1.
    """
    log_x, log_q = _draw(log_a, k, log_q)
    expected = expectations.expect(expectations.with_replacement(log_x - math.log(k), k, log_q))
    return Estimate(k, expected.probability_gap.item(), expected.probability_variance.sqrt().item())


def halves(log_a: Tensor, k: int, log_q: Tensor | None = None) -> Estimate:
    r"""Twice the sampled softmax of 2k draws minus the mean of those of either half: the bias has no 1/k term.

    With A and B the importance-weighted sums of the halves,
    :math:`T = \frac2{1+(A+B)/2} - \frac12\big(\frac1{1+A}+\frac1{1+B}\big)`. The mixed moment is a double integral,

    .. math:: \mathbb E\frac1{1+(A+B)/2}\,\frac1{1+A}
        = \iint e^{-s-t}\,L\big(t+\tfrac s2\big)\,L\big(\tfrac s2\big)\,ds\,dt, \qquad L(t) = \mathbb Ee^{-tA},

    on nodes s and t whose exponentials are one product of matrices, :math:`e^{-(t+s/2)x} = e^{-tx}e^{-sx/2}`.

    Arguments and errors as for :func:`drawn`. The absolute error of the variance is some 1e-12.
    """
    log_x, log_q = _draw(log_a, k, log_q)
    half = expectations.with_replacement(log_x - math.log(k), k, log_q)
    small = expectations.expect(half)
    large = expectations.expect(expectations.with_replacement(log_x - math.log(2 * k), 2 * k, log_q))
    rule = quadrature.rule(1e-12, half.log_max)
    t = rule.nodes(log_a.device).exp()
    weight = rule.step * t * torch.exp(-t)
    alone, among = _laplace(log_x - math.log(k), log_q, k, t)
    mixed = (weight * alone) @ among @ weight
    second = 4 * large.probability_square + (small.probability_square + small.probability**2) / 2 - 4 * mixed
    mean = 2 * large.probability - small.probability
    bias = (2 * large.probability_gap - small.probability_gap).item()
    return Estimate(2 * k, bias, (second - mean**2).clamp_min(0).sqrt().item())


def occasional(log_a: Tensor, k: int, chance: Fraction | float) -> Estimate:
    r"""The uniform k-subset's :math:`F_k`, and with probability s all others too: :math:`F_k + 1[U<s](F-F_k)/s`.

    It is unbiased; its variance is :math:`\mathbb E(F_k-F)^2(1/s-1)`.

    Raises:
        ValueError: if k is not 1..n-1 or the chance not in (0, 1].
    """
    n, log_a = _negatives(log_a)
    k = checks.whole("k", k, 1, n - 1)
    if not 0 < chance <= 1:
        raise ValueError(f"chance is {chance!r}; it must be a probability above 0")
    schedule = estimators.Schedule((k, n), (Fraction(1), Fraction(chance)))
    return _unbiased(schedule, log_a)


def dyadic(log_a: Tensor, rate: float) -> Estimate:
    r"""The roulette over levels 1, 2, 4, ..., n with :math:`s_l = 2^{-rl}` and plain differences; n a power of two.

    Raises:
        ValueError: if n is no power of two or the rate is negative.
    """
    n, log_a = _negatives(log_a)
    return _unbiased(estimators.dyadic(n, rate, antithetic=False), log_a)


def front(estimates: Sequence[Estimate]) -> list[Estimate]:
    """The Pareto front: estimates that no other one equals or beats in evaluations, size of the bias and deviation."""
    values = [(estimate.reads, abs(estimate.bias), estimate.deviation) for estimate in estimates]

    def beaten(value: tuple[float, float, float]) -> bool:
        return any(other != value and all(x <= y for x, y in zip(other, value, strict=True)) for other in values)

    return [estimate for estimate, value in zip(estimates, values, strict=True) if not beaten(value)]


@lru_cache(64)
def _read(log_a: tuple[float, ...], k: int) -> expectations.Expectations:
    """The sum that a uniform k-subset estimates, cached for schedules."""
    terms = torch.tensor(log_a, dtype=torch.float64) + math.log(len(log_a) / k)
    return expectations.expect(expectations.without_replacement(terms, k))


def _unbiased(schedule: estimators.Schedule, log_a: Tensor) -> Estimate:
    expected = [_read(tuple(log_a.tolist()), level) for level in schedule.levels[:-1]]
    errors = torch.stack([moments.probability_variance + moments.probability_gap.square() for moments in expected])
    return Estimate(float(schedule.cost), 0.0, estimators.roulette_variance(schedule, errors).sqrt().item())


def _negatives(log_a: Tensor) -> tuple[int, Tensor]:
    if log_a.ndim != 1 or len(log_a) < 2:
        raise ValueError(f"log_a has shape {tuple(log_a.shape)}; it must be a vector of two or more negatives")
    return len(log_a), log_a.double()


def _draw(log_a: Tensor, k: int, log_q: Tensor | None) -> tuple[Tensor, Tensor]:
    """log(a/q) and log q."""
    n, log_a = _negatives(log_a)
    checks.whole("k", k, 1)
    if log_q is None:
        log_q = torch.full_like(log_a, -math.log(n))
    if log_q.shape != log_a.shape:
        raise ValueError(f"log_q has shape {tuple(log_q.shape)}, log_a {tuple(log_a.shape)}; they must be the same")
    log_q = checks.log_law("log_q", log_q)
    if bool(((log_q == -math.inf) & (log_a > -math.inf)).any()):
        raise ValueError("log_q is -inf at a negative whose logit is finite: the estimate would never see it")
    return torch.where(log_q > -math.inf, log_a - log_q, -math.inf), log_q


def _laplace(log_x: Tensor, log_q: Tensor, k: int, t: Tensor) -> tuple[Tensor, Tensor]:
    r""":math:`L(s/2)` [s] and :math:`L(t+s/2)` [s, t] for s and t among the nodes, :math:`L = (q\cdot e^{-tx})^k`."""
    alone, among = t.new_zeros(len(t), 1), t.new_zeros(len(t), len(t))  # what is missing of 1 in the sum
    for x, q in zip(*(torch.split(part.exp(), max(1, NUMBERS // len(t))) for part in (log_x, log_q)), strict=True):
        late, early = -torch.expm1(-t[:, None] * x), -torch.expm1(-t[:, None] / 2 * x)
        single = early @ q[:, None]
        alone += single
        # 1 - (1 - a)(1 - b) = a + b - ab, which is no smaller than either.
        among += single + late @ q - (early * q) @ late.T
    return _power(alone.squeeze(1), k), _power(among, k)


def _power(missing: Tensor, k: int) -> Tensor:
    return torch.exp(k * torch.log1p(-missing.clamp_max(1.0)))
