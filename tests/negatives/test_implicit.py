"""The exact implicit loss, its gradient's moments, the decoupled moments: against enumeration, sampling, autograd."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp import expectations, functional, negatives, samplers
from sumexp.negatives import decoupled, reference
from sumexp.negatives.schemes import Weights
from tests.exact import floats, log_of
from tests.negatives.test_tables import PI, UNIFORM

Q = Fraction
WEIGHTS: tuple[Weights, ...] = get_args(Weights)
HITS: tuple[samplers.Hits, ...] = get_args(samplers.Hits)
every_scheme = pytest.mark.parametrize("hits", HITS)
every_weight = pytest.mark.parametrize("weights", WEIGHTS)

NO_LABEL, NO_LAST = (Q(1, 2), Q(0), Q(1, 4), Q(1, 4)), (Q(1, 2), Q(1, 4), Q(1, 4), Q(0))  # a class is never drawn
LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.0], dtype=torch.float64)


def enumerated(
    q: tuple[Fraction, ...], m: int, value: Callable[[Tensor], Tensor], shape: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Mean and variance of a function of the counts, over every multiset."""
    outcomes = [(float(p), value(torch.tensor(c, dtype=torch.float64))) for p, c in reference.draws(q, m)]
    mean = sum((p * v for p, v in outcomes), torch.zeros(shape, dtype=torch.float64))
    return mean, sum((p * (v - mean) ** 2 for p, v in outcomes), torch.zeros(shape, dtype=torch.float64))


@every_scheme
@every_weight
@pytest.mark.parametrize("q", [PI, UNIFORM, NO_LABEL, NO_LAST])
def test_schemes_are_those_of_the_rational_tables(weights: Weights, hits: samplers.Hits, q: reference.Law) -> None:
    ours = negatives.scheme(log_of(q), 1, 3, weights, hits, prior=log_of(PI))
    law, w = reference.scheme(q, 1, 3, weights, hits, PI)
    assert torch.allclose(ours.log_q.exp(), floats(law), atol=1e-15)
    assert torch.allclose(ours.log_w.exp(), floats(w), atol=1e-14)
    rho = tuple(3 * p * v for p, v in zip(law, w, strict=True))
    assert torch.allclose(ours.log_rho.exp(), floats(rho), atol=1e-14)


def test_laws() -> None:
    assert torch.allclose(negatives.uniform(4).exp(), torch.full((4,), 1 / 4, dtype=torch.float64))
    assert torch.allclose(negatives.log_prior(torch.tensor([6, 3, 1])), log_of((Q(6, 10), Q(3, 10), Q(1, 10))))
    law = negatives.model_based(LOGITS.clone().requires_grad_())
    assert torch.allclose(law, torch.log_softmax(LOGITS, 0))
    assert not law.requires_grad
    without = negatives.exclude(log_of(PI), 0).exp()
    assert without[0] == 0
    assert torch.allclose(without[1:], floats((Q(6, 11), Q(3, 11), Q(2, 11))))


@every_scheme
@every_weight
@pytest.mark.parametrize("m", [1, 2, 5])
def test_implicit_loss_equals_the_enumeration(weights: Weights, hits: samplers.Hits, m: int) -> None:
    q, w = reference.scheme(PI, 1, m, weights, hits, PI)
    x = floats(w) * torch.exp(LOGITS - LOGITS[1])
    exact = negatives.implicit_loss(LOGITS, negatives.scheme(log_of(PI), 1, m, weights, hits, prior=log_of(PI)))
    mean, variance = enumerated(q, m, lambda counts: torch.log1p(counts @ x))
    bound = math.log1p(m * float(floats(q) @ x))
    assert exact.loss.item() == pytest.approx(mean.item(), abs=1e-13)
    assert exact.variance.item() == pytest.approx(variance.item(), abs=1e-12)
    assert exact.bound.item() == pytest.approx(bound, abs=1e-13)
    assert exact.gap.item() == pytest.approx(bound - mean.item(), abs=1e-13)
    assert exact.squared_error.item() == pytest.approx((variance + (bound - mean) ** 2).item(), abs=1e-13)
    slight = negatives.implicit_loss(1e-6 * LOGITS, negatives.scheme(log_of(UNIFORM), 1, m, "constant", "redraw"))
    assert slight.gap.item() == pytest.approx(expectations.expect(slight.law).loss_gap.item(), rel=1e-12, abs=0)
    assert slight.squared_error.item() == pytest.approx(slight.variance.item(), rel=1e-10, abs=0)


def test_a_batch_of_logits_and_half_precision() -> None:
    scheme = negatives.scheme(log_of(PI), 1, 2, "importance", "mask")
    rows = torch.stack([LOGITS, 3 * LOGITS])
    both = negatives.implicit_loss(rows, scheme)
    assert both.loss.shape == both.gap.shape == both.squared_error.shape == (2,)
    assert both.loss[1].item() == pytest.approx(negatives.implicit_loss(rows[1], scheme).loss.item(), abs=1e-14)
    half = negatives.implicit_loss(LOGITS.bfloat16(), scheme)  # these logits are exact in bfloat16
    assert half.loss.dtype == torch.float64
    assert half.loss.item() == both.loss[0].item()


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-30, 30), min_size=4, max_size=4),
    st.integers(0, 3),
    st.sampled_from([1, 2, 7, 1000]),
    st.sampled_from(WEIGHTS),
    st.sampled_from(HITS),
)
def test_extreme_logits_keep_every_inequality(
    values: list[float], label: int, m: int, weights: Weights, hits: samplers.Hits
) -> None:
    logits = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    scheme = negatives.scheme(log_of(PI), label, m, weights, hits, prior=log_of(PI))
    exact = negatives.implicit_loss(logits, scheme)
    scale = max(1.0, exact.bound.item())
    assert 0 <= exact.loss.item() <= exact.bound.item() + 1e-12 * scale
    assert exact.bound.item() - exact.loss.item() == pytest.approx(exact.gap.item(), abs=1e-11 * scale)
    assert exact.squared_error.item() >= exact.gap.item() ** 2 - 1e-11 * scale**2  # Jensen once more
    (slope,) = torch.autograd.grad(exact.loss, logits)
    moments = negatives.gradient_moments(logits, scheme)
    assert torch.isfinite(slope).all()
    assert torch.allclose(moments.mean, slope, atol=1e-11)
    assert abs(moments.mean.sum().item()) < 1e-11
    assert bool((moments.variance >= 0).all())
    assert moments.mean.abs().max() <= 1 + 1e-11


@every_scheme
@every_weight
@pytest.mark.parametrize("m", [1, 2, 5])
def test_moments_of_the_gradient_equal_the_enumeration(weights: Weights, hits: samplers.Hits, m: int) -> None:
    q, w = reference.scheme(PI, 1, m, weights, hits, PI)
    x = floats(w) * torch.exp(LOGITS - LOGITS[1])
    others = torch.tensor([1.0, 0, 1, 1], dtype=torch.float64)

    def gradient(counts: Tensor) -> Tensor:
        share = others * counts * x / (1 + counts @ x)
        share[1] = -share.sum()
        return share

    mean, variance = enumerated(q, m, gradient, (4,))
    scheme = negatives.scheme(log_of(PI), 1, m, weights, hits, prior=log_of(PI))
    moments = negatives.gradient_moments(LOGITS, scheme)
    full = torch.softmax(LOGITS, 0) - torch.tensor([0.0, 1, 0, 0], dtype=torch.float64)
    assert torch.allclose(moments.mean, mean, atol=1e-13)
    assert torch.allclose(moments.variance, variance, atol=1e-13)
    assert torch.allclose(moments.bias, mean - full, atol=1e-13)
    assert moments.bias_norm.item() == pytest.approx((mean - full).norm().item(), abs=1e-13)
    assert moments.deviation.item() == pytest.approx(variance.sum().sqrt().item(), abs=1e-12)

    groups = torch.tensor([[True, True, False, False], [False, False, True, True]])
    of_groups = enumerated(q, m, lambda c: torch.stack([gradient(c)[0], gradient(c)[2:].sum()]), (2,))
    for ours, expected in zip(negatives.group_moments(LOGITS, scheme, groups), of_groups, strict=True):
        assert torch.allclose(ours, expected, atol=1e-13)


def test_groups_of_one_class_are_the_coordinates_and_spreading_agrees_with_the_direct_sum() -> None:
    # 3,000 classes are spread on a grid for the coordinates and summed one by one for the groups.
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 3000, dtype=torch.float64, generator=generator)
    log_q = torch.log_softmax(torch.randn(3000, dtype=torch.float64, generator=generator), 0)
    scheme = negatives.scheme(log_q, 5, 64, "constant", "mask")
    groups = torch.zeros(3, 3000, dtype=torch.bool)
    groups[0, 17] = groups[1, 2999] = True
    groups[2] = True
    mean, variance = negatives.group_moments(logits, scheme, groups)
    moments = negatives.gradient_moments(logits, scheme)
    torch.testing.assert_close(moments.bias_norm, moments.bias.norm(dim=-1))  # over the classes, for each row
    torch.testing.assert_close(moments.deviation, torch.stack([row.sum().sqrt() for row in moments.variance]))
    for column, of_class in ((0, 17), (1, 2999)):
        assert torch.allclose(mean[:, column], moments.mean[:, of_class], rtol=1e-11, atol=0)
        assert torch.allclose(variance[:, column], moments.variance[:, of_class], rtol=1e-9, atol=0)
    assert torch.allclose(mean[:, 2], -moments.mean[:, 5], rtol=1e-12)  # all negatives together: minus the label


@every_scheme
@every_weight
@pytest.mark.parametrize("q", [PI, UNIFORM])
def test_the_torch_losses_average_to_the_closed_forms(weights: Weights, hits: samplers.Hits, q: reference.Law) -> None:
    label, m = 2, 3
    law, _ = reference.scheme(q, label, m, weights, hits, PI)
    scheme = negatives.scheme(log_of(q), label, m, weights, hits, prior=log_of(PI))
    drawn = torch.tensor([d for d in product(range(4), repeat=m) if all(law[y] for y in d)])
    probability = torch.stack([floats(law)[ids].prod() for ids in drawn])
    log_q = log_of(law)
    per_draw = {
        "constant": lambda: samplers.constant(log_q[drawn], m),
        "importance": lambda: samplers.importance(log_q[drawn], m),
        # A law without the label gives weights 0, which the helper for training refuses.
        "relative": lambda: (
            samplers.relative(log_q[drawn], log_q[label]) if law[label] else torch.zeros_like(log_q[drawn])
        ),
        "tail": lambda: samplers.tail(log_q[drawn], m, log_of(PI)[drawn], log_of(PI)[label]),
    }[weights]()
    positive = LOGITS[label].expand(len(drawn))
    kept = None if hits == "keep" else drawn == label
    sampled = functional.sampled_softmax(positive, LOGITS[drawn], weights=per_draw, hits=kept, reduction="none")
    exact = negatives.implicit_loss(LOGITS, scheme)
    assert (probability @ sampled).item() == pytest.approx(exact.loss.item(), abs=1e-13)
    assert (probability @ (sampled - exact.loss) ** 2).item() == pytest.approx(exact.variance.item(), abs=1e-12)
    by_margin = functional.decoupled(positive, LOGITS[drawn], weights=per_draw, hits=kept, reduction="none")
    mean, variance = decoupled.moments(functional.LOGISTIC.negative(-LOGITS), scheme)
    whole = mean + functional.LOGISTIC.positive(LOGITS[label])
    assert (probability @ by_margin).item() == pytest.approx(whole.item(), abs=1e-13)
    assert (probability @ (by_margin - whole) ** 2).item() == pytest.approx(variance.item(), abs=1e-13)
