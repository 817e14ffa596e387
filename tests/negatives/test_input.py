"""Extreme arguments of the package negatives have the documented right answer."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp import negatives, samplers
from sumexp.negatives import consistency, decoupled, enumerated
from sumexp.negatives.estimated import cost
from sumexp.negatives.information import full_information, variance
from sumexp.negatives.published import first_order, stationary
from sumexp.negatives.tilted import tilted
from sumexp.negatives.training import Problem, bound_minimum
from tests.exact import floats
from tests.negatives.test_enumerated import logs

Q = Fraction
GOOD = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64).log()
LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.0], dtype=torch.float64)
P, TWO, SURE = logs(0.6, 0.25, 0.1, 0.05), logs(0.5, 0.5), logs(0, 1, 0)


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_logit_of_600_is_no_trouble() -> None:
    # m = 1, uniform: the gradient of class 1 is 1 with probability 1/3, else 0; that of the others 3/4 with 1/3.
    logits = torch.tensor([0.0, 600.0, 0.0, 0.0], dtype=torch.float64)
    scheme = negatives.scheme(negatives.uniform(4), 0, 1, "importance")
    moments = negatives.gradient_moments(logits, scheme)
    quarter = Q(1, 3) * Q(3, 4)
    mean = floats((-(Q(1, 3) + 2 * quarter), Q(1, 3), quarter, quarter))
    assert torch.allclose(moments.mean, mean, atol=1e-12)
    assert moments.variance[1].item() == pytest.approx(float(Q(1, 3) * Q(2, 3)), abs=1e-12)
    mean_of_all, _ = negatives.group_moments(logits, scheme, torch.ones(1, 4, dtype=torch.bool))
    assert mean_of_all.item() == pytest.approx(-mean[0].item(), abs=1e-12)
    assert negatives.implicit_loss(logits, scheme).loss.item() == pytest.approx((600 + math.log(3 * 4**2)) / 3)


def test_a_negative_at_minus_infinity_adds_nothing() -> None:
    logits, low, scheme = LOGITS.clone(), LOGITS.clone(), negatives.scheme(GOOD, 0, 2, "importance")
    logits[3], low[3] = -math.inf, -60
    exact = negatives.implicit_loss(logits.requires_grad_(), scheme)
    assert exact.loss.item() == pytest.approx(negatives.implicit_loss(low, scheme).loss.item(), abs=1e-13)
    (slope,) = torch.autograd.grad(exact.loss, logits)
    assert slope[3] == 0
    assert torch.isfinite(slope).all()


def test_weights_that_are_all_zero_leave_a_loss_of_zero_with_zero_gradient() -> None:
    logits = LOGITS.clone().requires_grad_()
    scheme = negatives.scheme(GOOD, 0, 3, "relative", "redraw")  # q_y = 0 (D6)
    exact = negatives.implicit_loss(logits, scheme)
    (slope,) = torch.autograd.grad(exact.loss + exact.bound, logits)
    assert exact.loss == exact.bound == exact.gap == exact.variance == 0
    assert bool((slope == 0).all())
    assert bool((negatives.gradient_moments(LOGITS, scheme).mean == 0).all())


def of_draws(log_q: Tensor, m: int = 2, hits: samplers.Hits = "keep") -> negatives.Losses:
    return consistency.multiset_losses(log_q, m, consistency.factors("relative", log_q, m, hits=hits), hits)


@pytest.mark.parametrize("hits", ["keep", "mask", "redraw"])
def test_a_class_that_is_never_drawn_has_weights_of_zero_as_a_label(hits: samplers.Hits) -> None:
    """Relative weights q_y / q_j with q_y = 0: the loss is log 1. The other two lose what they lose without it."""
    scores = torch.tensor([0.5, -1.0, 3.0], dtype=torch.float64)
    two = torch.tensor([0.25, 0.75], dtype=torch.float64).log()
    got = of_draws(torch.cat([two, two.new_tensor([-math.inf])]), 3, hits)(scores)
    assert got[2] == 0
    torch.testing.assert_close(got[:2], of_draws(two, 3, hits)(scores[:2]), rtol=1e-11, atol=0)


NEARLY, BELOW, RHO = doubles(-1e-13, math.log(1e-13)), doubles(0, -800), doubles(-math.inf, -60)
ROWS, ROUGH = torch.stack([GOOD, GOOD.flip(0)]), negatives.Scheme(0, 3, GOOD.bfloat16(), torch.zeros(4).bfloat16())
SEPARABLE = Problem(torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 1]), 1, penalty=1e-9)  # log(1 + e^-2w) + 1e-9 w^2


def gradients(log_q: Tensor) -> Tensor:
    return negatives.gradient_moments(LOGITS, negatives.scheme(log_q, 0, 2, "constant")).mean


@pytest.mark.parametrize("got, expected", [
    # 2 e^-60; the label's own draw, which does not count, has a term e^290 times as large
    (lambda: enumerated.baseline(doubles(60, 0, 0), doubles(1, 1, 0)[None], logs(1e-100, 0.5, 0.5))[0, 0] * 1e26,
     2 * math.exp(-60) * 1e26),
    # two classes, m = 1: a pair counts P_y q_n, so that e^(f_0 - f_1) is P_0 q_1 / (P_1 q_0), and all a_k are equal
    (lambda: stationary("refined", logs(0.6, 0.4), NEARLY, 1).diff(), -math.log(1.5e-13)),
    (lambda: first_order("refined", logs(0.6, 0.4), NEARLY) / 1e16, 0),
    (lambda: stationary("baseline", *[logs(10**12, 10**12, 1).log_softmax(0)] * 2, math.inf)[:2].diff(), 0),
    (lambda: cost(TWO, TWO, TWO + doubles(2e-8, 0)) * 1e16, 0.5),  # half the variance of 0 and 2
    # scores of the order 1/beta; and with q = P the true negatives' law is P too
    (lambda: 1e4 * tilted(P, GOOD, beta=1e12) / tilted(P, GOOD, beta=1e8), 1),
    (lambda: tilted(P, P, tau=1 - 1e-12), 0),
    # w = e^740: q w phi = 2 e^-60, and q (w phi)^2 = 4 e^680
    (lambda: torch.stack(decoupled.moments(doubles(2, 2), negatives.targeting(RHO, BELOW, 0, 1))).log().sum(),
     3 * math.log(2) + 620),
    (lambda: negatives.scheme(BELOW, 0, 1, "importance", "mask").log_w[1], 800),
    (lambda: torch.stack(negatives.expansion(doubles(0, 0, 800), negatives.Scheme(0, 1, SURE, SURE.exp())).square), 0),
    # weights 1 by a law in bfloat16, which sums to 1 + 2e-4
    (lambda: torch.stack([ROUGH.log_rho.exp().sum(), decoupled.moments(torch.ones(4), ROUGH)[0]]), 3),
    (lambda: negatives.scheme(GOOD.bfloat16(), 0, 3, "constant", "keep").log_q.exp().sum(), 1),
    # the inverse of diag(P) - PP^T on scores that sum to 0 is diag(1/P), centred on both sides
    (lambda: variance(full_information(logs(1, 1e-40, 1e-40)))[1, 2] / 1e40, -4 / 9),
    (lambda: variance(full_information(logs(1))), 0),
    # one draw: the slope of P_0 log(1 + 2 f_1 / f_0) + P_1 log(1 + 2 f_0 / f_1) is 0 at f_1 = P_1 / 2, to 40 digits
    (lambda: enumerated.estimate(enumerated.importance, logs(1, 1e-40), TWO, 1).log_f[1:], math.log(5e-41)),
    (lambda: gradients(ROWS) - torch.stack([gradients(law) for law in ROWS]), 0),
    (lambda: (1 + torch.exp(2 * (w := bound_minimum(SEPARABLE)[0, 0]))) * w * 1e-9, 1),
])  # fmt: skip
def test_the_digits_of(got: Callable[[], Tensor], expected: float) -> None:
    torch.testing.assert_close(value := got(), torch.full_like(value, expected), rtol=1e-6, atol=1e-11)


def test_very_many_draws() -> None:
    """So many draws that the sampled gradient is the full one."""
    many = negatives.scheme(GOOD, 1, np.int64(2**53), "importance")  # type: ignore[arg-type]
    assert negatives.gradient_moments(LOGITS, many).bias.abs().max() < 1e-12
    mean, _ = negatives.group_moments(LOGITS, many, torch.tensor([[True, False, True, True]]))
    assert mean.item() == pytest.approx(1 - LOGITS.softmax(-1)[1].item(), rel=1e-12)
