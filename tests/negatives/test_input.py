"""Extreme arguments of the package negatives have the documented right answer."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp import negatives, samplers
from sumexp.negatives import consistency
from tests.exact import floats

Q = Fraction
GOOD = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64).log()
LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.0], dtype=torch.float64)


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
    logits = LOGITS.clone()
    logits[3] = -math.inf
    logits.requires_grad_()
    exact = negatives.implicit_loss(logits, negatives.scheme(GOOD, 0, 2, "importance"))
    low = LOGITS.clone()
    low[3] = -60
    assert exact.loss.item() == pytest.approx(
        negatives.implicit_loss(low, negatives.scheme(GOOD, 0, 2, "importance")).loss.item(), abs=1e-13
    )
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


def test_very_many_draws() -> None:
    """So many draws that the sampled gradient is the full one."""
    many = negatives.scheme(GOOD, 1, np.int64(2**53), "importance")  # type: ignore[arg-type]
    assert negatives.gradient_moments(LOGITS, many).bias.abs().max() < 1e-12
    mean, _ = negatives.group_moments(LOGITS, many, torch.tensor([[True, False, True, True]]))
    assert mean.item() == pytest.approx(1 - LOGITS.softmax(-1)[1].item(), rel=1e-12)
