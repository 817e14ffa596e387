"""Losses of lists with several relevant items."""

from collections.abc import Callable
from math import exp, inf, log, nan

import pytest
import torch
from torch import Tensor

from sumexp import functional

every_loss = pytest.mark.parametrize("loss", [functional.listnet, functional.marginal])


def test_listnet_is_the_mean_cross_entropy_of_its_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    relevant = torch.rand(5, 7, generator=generator) < 0.4
    relevant[:, 2] = True
    for b in range(5):
        labels = relevant[b].nonzero().flatten()
        each = functional.cross_entropy(z[b].expand(len(labels), -1), labels)
        assert functional.listnet(z[b : b + 1], relevant[b : b + 1]).item() == pytest.approx(each.item(), rel=1e-14)
    labels = torch.tensor([0, 1, 2, 3, 4])
    one_hot = torch.nn.functional.one_hot(labels, 7)
    assert functional.listnet(z, one_hot).item() == pytest.approx(functional.cross_entropy(z, labels).item(), rel=1e-14)
    soft = torch.softmax(z.flip(0), -1)
    assert functional.listnet(z, soft).item() == pytest.approx(torch.nn.functional.cross_entropy(z, soft).item())
    assert functional.listnet(z, soft).item() == pytest.approx(functional.listnet(z, 17 * soft).item(), rel=1e-14)


@every_loss
def test_losses_refuse_what_has_no_answer(loss: Callable[..., Tensor]) -> None:
    z, relevant = torch.zeros(2, 3), torch.tensor([[True, False, False], [False, True, True]])
    for worst in (nan, inf):
        with pytest.raises(ValueError, match=r"a logit is NaN or \+inf"):
            loss(torch.full((2, 3), worst), relevant)
    with pytest.raises(ValueError, match="list 1 has no relevant item; leave such lists out"):
        loss(z, torch.tensor([[True, False, False], [False] * 3]))
    with pytest.raises(ValueError, match="a relevant item has the logit -inf"):
        loss(torch.full((2, 3), -inf), relevant)
    with pytest.raises(ValueError, match=r"logits \(2, 3\) .* and targets \(2, 2\) .* must both be real numbers"):
        loss(z, relevant[:, :2])
    with pytest.raises(ValueError, match=r"logits must be a floating-point tensor \[B, L\], got .* of \(3,\)"):
        loss(z[0], relevant[0])
    with pytest.raises(ValueError, match="targets must be finite numbers >= 0"):
        loss(z, -relevant.double())
    with pytest.raises(ValueError, match="the batch is empty, so it has no mean"):
        loss(z[:0], relevant[:0])
    assert loss(z[:0], relevant[:0], reduction="sum").item() == 0
    assert loss(torch.tensor([[0.0, -inf, 0.0]]), relevant[:1]).item() == pytest.approx(log(2))


def test_gradients_hold_no_nan() -> None:
    z = torch.tensor([[1e4, -inf, -1e4, 0.0]], dtype=torch.float64, requires_grad=True)
    relevant = torch.tensor([[False, False, True, True]])
    for loss in (functional.listnet, functional.marginal):
        (gradient,) = torch.autograd.grad(loss(z, relevant), z)
        assert gradient.isfinite().all()
        assert abs(gradient.sum().item()) < 1e-12


def test_sums_of_half_precision_are_single_and_gains_are_double() -> None:
    # Seven equal gains of 10^4, whose sum no half-precision number holds, at eight equal scores: log 8.
    gains = torch.tensor([[1e4] * 7 + [0]])
    for dtype in (torch.float16, torch.bfloat16):
        value = functional.listnet(torch.zeros(1, 8, dtype=dtype), gains)
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(log(8), rel=1e-6)
        assert functional.marginal(torch.zeros(1, 8, dtype=dtype), gains > 0).item() == pytest.approx(
            log(8 / 7), rel=1e-5
        )
        # A thousand ties: the loss that is returned bounds the log rank of the last, 1,000.
        marks = torch.arange(1000)[None] == 3
        assert exp(functional.listnet(torch.zeros(1, 1000, dtype=dtype), marks).item()) == pytest.approx(1000, rel=1e-5)
    # Gains whose sum no double holds, and gains that single precision would take for 0.
    for scale in (1e308, 1e-300):
        value = functional.listnet(torch.zeros(1, 3), torch.full((1, 3), scale, dtype=torch.float64))
        assert value.item() == pytest.approx(log(3), rel=1e-6)
