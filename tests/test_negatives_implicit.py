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

from sumexp import losses, negatives, samplers
from sumexp.negatives import decoupled, reference
from sumexp.negatives.schemes import Weights

Q = Fraction
WEIGHTS: tuple[Weights, ...] = get_args(Weights)
HITS: tuple[samplers.Hits, ...] = get_args(samplers.Hits)
every_scheme = pytest.mark.parametrize("hits", HITS)
every_weight = pytest.mark.parametrize("weights", WEIGHTS)

PI = (Q(1, 2), Q(1, 4), Q(3, 20), Q(1, 10))
UNIFORM = (Q(1, 4),) * 4
LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.0], dtype=torch.float64)


def logs(values: tuple[Fraction, ...]) -> Tensor:
    return torch.tensor([float(v) for v in values], dtype=torch.float64).log()


def floats(values: tuple[Fraction, ...]) -> Tensor:
    return torch.tensor([float(v) for v in values], dtype=torch.float64)


def enumerated(
    q: tuple[Fraction, ...], m: int, value: Callable[[Tensor], Tensor], shape: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Mean and variance of a function of the counts, over every multiset."""
    outcomes = [(float(p), value(torch.tensor(c, dtype=torch.float64))) for p, c in reference.draws(q, m)]
    mean = sum((p * v for p, v in outcomes), torch.zeros(shape, dtype=torch.float64))
    return mean, sum((p * (v - mean) ** 2 for p, v in outcomes), torch.zeros(shape, dtype=torch.float64))


# -- schemes --------------------------------------------------------------------------------------------------------


@every_scheme
@every_weight
@pytest.mark.parametrize("q", [PI, UNIFORM])
def test_schemes_are_those_of_the_rational_tables(weights: Weights, hits: samplers.Hits, q: reference.Law) -> None:
    ours = negatives.scheme(logs(q), 1, 3, weights, hits, prior=logs(PI))
    law, w = reference.scheme(q, 1, 3, weights, hits, PI)
    assert torch.allclose(ours.log_q.exp(), floats(law), atol=1e-15)
    assert torch.allclose(ours.log_w.exp(), floats(w), atol=1e-14)
    rho = tuple(3 * p * v for p, v in zip(law, w, strict=True))
    assert torch.allclose(ours.log_rho.exp(), floats(rho), atol=1e-14)


def test_laws() -> None:
    assert torch.allclose(negatives.uniform(4).exp(), torch.full((4,), 1 / 4, dtype=torch.float64))
    assert torch.allclose(negatives.log_prior(torch.tensor([6, 3, 1])), logs((Q(6, 10), Q(3, 10), Q(1, 10))))
    law = negatives.model_based(LOGITS.clone().requires_grad_())
    assert torch.allclose(law, torch.log_softmax(LOGITS, 0))
    assert not law.requires_grad
    without = negatives.exclude(logs(PI), 0).exp()
    assert without[0] == 0
    assert torch.allclose(without[1:], floats((Q(1, 2), Q(3, 10), Q(1, 5))))


# -- the exact implicit loss ------------------------------------------------------------------------------------------


@every_scheme
@every_weight
@pytest.mark.parametrize("m", [1, 2, 5])
def test_implicit_loss_equals_the_enumeration(weights: Weights, hits: samplers.Hits, m: int) -> None:
    q, w = reference.scheme(PI, 1, m, weights, hits, PI)
    x = floats(w) * torch.exp(LOGITS - LOGITS[1])
    exact = negatives.implicit_loss(LOGITS, negatives.scheme(logs(PI), 1, m, weights, hits, prior=logs(PI)))
    mean, variance = enumerated(q, m, lambda counts: torch.log1p(counts @ x))
    bound = math.log1p(m * float(floats(q) @ x))
    assert exact.loss.item() == pytest.approx(mean.item(), abs=1e-13)
    assert exact.variance.item() == pytest.approx(variance.item(), abs=1e-12)
    assert exact.bound.item() == pytest.approx(bound, abs=1e-13)
    assert exact.gap.item() == pytest.approx(bound - mean.item(), abs=1e-13)
    error = variance + (bound - mean) ** 2
    assert exact.squared_error.item() == pytest.approx(error.item(), abs=1e-13)


def test_fifty_thousand_classes_against_sampling() -> None:
    # 40,000 losses; |z| > 5 has probability 6e-7.
    generator = torch.Generator().manual_seed(0)
    log_q = negatives.log_prior(1 / torch.arange(1.0, 50_001, dtype=torch.float64))
    logits = 2 * torch.randn(50_000, dtype=torch.float64, generator=generator)
    scheme = negatives.scheme(log_q, 7, 20, "importance", "mask")
    exact = negatives.implicit_loss(logits, scheme)
    ids = samplers.Categorical(log_q.exp()).sample((40_000, 20), generator)
    sampled = losses.sampled_softmax(
        logits[7].expand(40_000), logits[ids], log_q=log_q[ids], hits=ids == 7, reduction="none"
    )
    z = (sampled.mean() - exact.loss) / (exact.variance / 40_000).sqrt()
    assert abs(z.item()) < 5
    assert exact.gap > 0.05  # at m = 20 the bound is no substitute


def test_gap_and_squared_error_keep_their_digits_at_a_million_negatives() -> None:
    # The leading terms of the expansion, whose next terms are 1e-6 of them.
    at = negatives.scheme(logs(PI), 1, 10**6, "importance")
    exact, series = negatives.implicit_loss(LOGITS, at), negatives.expansion(LOGITS, at)
    assert exact.gap.item() == pytest.approx(-series.gap_at(10**6).item(), rel=1e-10, abs=0)
    assert exact.squared_error.item() == pytest.approx(series.square_at(10**6).item(), rel=1e-12, abs=0)


def test_a_batch_of_logits_and_half_precision() -> None:
    scheme = negatives.scheme(logs(PI), 1, 2, "importance", "mask")
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
    scheme = negatives.scheme(logs(PI), label, m, weights, hits, prior=logs(PI))
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


# -- the gradient -----------------------------------------------------------------------------------------------------


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
    scheme = negatives.scheme(logs(PI), 1, m, weights, hits, prior=logs(PI))
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
    for column, of_class in ((0, 17), (1, 2999)):
        assert torch.allclose(mean[:, column], moments.mean[:, of_class], rtol=1e-11, atol=0)
        assert torch.allclose(variance[:, column], moments.variance[:, of_class], rtol=1e-9, atol=0)
    assert torch.allclose(mean[:, 2], -moments.mean[:, 5], rtol=1e-12)  # all negatives together: minus the label


# -- agreement with the losses that people train with -----------------------------------------------------------------


@every_scheme
@every_weight
@pytest.mark.parametrize("q", [PI, UNIFORM])
def test_the_torch_losses_average_to_the_closed_forms(weights: Weights, hits: samplers.Hits, q: reference.Law) -> None:
    label, m = 2, 3
    law, _ = reference.scheme(q, label, m, weights, hits, PI)
    scheme = negatives.scheme(logs(q), label, m, weights, hits, prior=logs(PI))
    drawn = torch.tensor([d for d in product(range(4), repeat=m) if all(law[y] for y in d)])
    probability = torch.stack([floats(law)[ids].prod() for ids in drawn])
    log_q, own = logs(law), logs(law)[label] if law[label] else torch.tensor(-math.inf, dtype=torch.float64)
    per_draw = {
        "constant": lambda: samplers.constant(log_q[drawn], m),
        "importance": lambda: samplers.importance(log_q[drawn], m),
        "relative": lambda: samplers.relative(log_q[drawn], own),
        "tail": lambda: samplers.tail(log_q[drawn], m, logs(PI)[drawn], logs(PI)[label]),
    }[weights]()
    positive = LOGITS[label].expand(len(drawn))
    kept = None if hits == "keep" else drawn == label
    sampled = losses.sampled_softmax(positive, LOGITS[drawn], weights=per_draw, hits=kept, reduction="none")
    exact = negatives.implicit_loss(LOGITS, scheme)
    assert (probability @ sampled).item() == pytest.approx(exact.loss.item(), abs=1e-13)
    assert (probability @ (sampled - exact.loss) ** 2).item() == pytest.approx(exact.variance.item(), abs=1e-12)
    by_margin = losses.decoupled(positive, LOGITS[drawn], weights=per_draw, hits=kept, reduction="none")
    mean, variance = decoupled.moments(losses.LOGISTIC.negative(-LOGITS), scheme)
    whole = mean + losses.LOGISTIC.positive(LOGITS[label])
    assert (probability @ by_margin).item() == pytest.approx(whole.item(), abs=1e-13)
    assert (probability @ (by_margin - whole) ** 2).item() == pytest.approx(variance.item(), abs=1e-13)


@pytest.mark.parametrize("hits", HITS)
def test_what_draw_hands_out_fits_the_scheme(hits: samplers.Hits) -> None:
    # 200,000 losses of draws by the sampler; |z| > 5 has probability 6e-7.
    generator = torch.Generator().manual_seed(2)
    labels = torch.zeros(200_000, dtype=torch.long)
    ids, log_q, hit = samplers.draw(samplers.Categorical(floats(PI)), labels, 2, hits=hits, generator=generator)
    sampled = losses.sampled_softmax(LOGITS[labels], LOGITS[ids], log_q=log_q, hits=hit, reduction="none")
    exact = negatives.implicit_loss(LOGITS, negatives.scheme(logs(PI), 0, 2, "importance", hits))
    assert abs(((sampled.mean() - exact.loss) / (exact.variance / 200_000).sqrt()).item()) < 5


# -- bad input --------------------------------------------------------------------------------------------------------

GOOD = logs(PI)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: negatives.scheme(torch.tensor([0.5, 0.4]).log(), 0, 1, "constant"), "q sums to 0.9"),
        (lambda: negatives.scheme(torch.tensor([1.5, -0.5]).log(), 0, 1, "constant"), "q holds NaN"),
        (lambda: negatives.scheme(torch.tensor([math.nan, 0.0]), 0, 1, "constant"), "q holds NaN"),
        (lambda: negatives.scheme(GOOD, 4, 1, "constant"), "label is 4; with 4 classes it must be 0..3"),
        (lambda: negatives.scheme(GOOD, -1, 1, "constant"), "label is -1"),
        (lambda: negatives.scheme(GOOD, 0, 0, "constant"), "m is 0; a sampled loss needs at least one negative"),
        (lambda: negatives.scheme(torch.zeros(1), 0, 1, "constant"), "at least two classes"),
        (lambda: negatives.scheme(torch.tensor([0.0, -math.inf]), 0, 1, "constant"), "no mass to the negatives"),
        (lambda: negatives.scheme(GOOD, 0, 1, "tail"), "tail weights need prior"),
        (lambda: negatives.scheme(GOOD, 0, 1, "tail", prior=torch.zeros(1)), "prior must cover all 4 classes"),
        (lambda: negatives.scheme(GOOD, 0, 1, "heavy"), "weights is 'heavy'"),  # type: ignore[arg-type]
        (lambda: negatives.scheme(GOOD, 0, 1, "constant", "drop"), "hits is 'drop'"),  # type: ignore[arg-type]
        (lambda: negatives.Scheme(0, 1, GOOD, torch.zeros(3)), r"log_w has shape \(3,\), log_q \(4,\)"),
        (lambda: negatives.Scheme(0, 1, GOOD, torch.full((4,), math.inf)), "a log weight is NaN or"),
        (lambda: negatives.Scheme(0, 0, GOOD, torch.zeros(4)), "m is 0"),
        (lambda: negatives.uniform(0), "classes is 0"),
        (lambda: negatives.log_prior(torch.tensor([1.0, -1.0])), "counts must be finite"),
        (lambda: negatives.log_prior(torch.zeros(3)), "counts must be finite"),
        (lambda: negatives.targeting(torch.zeros(3), torch.tensor([0.5, 0.5, 0.0]).log(), 0, 1), "no weight can make"),
        (lambda: negatives.exclude(torch.tensor([0.0, math.nan]), 0), "q is NaN"),
    ],
)
def test_bad_schemes_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "logits, message",
    [
        ([math.nan, 0, 0, 0], "a logit is NaN"),
        ([0, math.inf, 0, 0], r"\+inf"),
        ([-math.inf, 0, 0, 0], "the label is -inf"),
        ([math.inf, 0, 0, 0], r"\+inf"),
        ([0, 0, 0], "the scheme has 4 classes"),
    ],
)
def test_bad_logits_are_refused(logits: list[float], message: str) -> None:
    scheme = negatives.scheme(GOOD, 0, 2, "importance")
    for function in (negatives.implicit_loss, negatives.gradient_moments, negatives.expansion):
        with pytest.raises(ValueError, match=message):
            function(torch.tensor(logits, dtype=torch.float64), scheme)


def test_an_empty_batch_and_logits_beyond_all_measure_are_refused() -> None:
    scheme = negatives.scheme(GOOD, 0, 2, "importance")
    for function in (negatives.implicit_loss, negatives.gradient_moments, negatives.expansion):
        with pytest.raises(ValueError, match="the batch is empty"):
            function(torch.zeros(0, 4), scheme)
    for function in (negatives.implicit_loss, negatives.gradient_moments):
        with pytest.raises(ValueError, match="must be below 700"):
            function(torch.tensor([0.0, 800.0, 0.0, 0.0]), scheme)


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


def test_a_positive_outside_the_support() -> None:
    # Never drawn: relative weights are then 0, the others as ever. A label law without the label has no tail weights.
    law = torch.tensor([0.0, 0.6, 0.4], dtype=torch.float64).log()
    assert bool((negatives.scheme(law, 0, 2, "relative", "mask").log_w == -math.inf).all())
    assert torch.allclose(
        negatives.scheme(law, 0, 2, "importance", "mask").log_rho.exp(), torch.tensor([0, 1, 1], dtype=torch.float64)
    )
    with pytest.raises(ValueError, match="positive mass on label 0"):
        negatives.scheme(law, 0, 2, "tail", "mask", prior=law)


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


def test_other_bad_arguments() -> None:
    scheme = negatives.scheme(GOOD, 0, 2, "importance")
    with pytest.raises(ValueError, match=r"give bool \[groups, 4\]"):
        negatives.group_moments(LOGITS, scheme, torch.ones(1, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="expected 4 classes"):
        decoupled.moments(torch.ones(3), scheme)
    with pytest.raises(ValueError, match="NaN or infinite"):
        decoupled.moments(torch.full((4,), math.inf), scheme)
    with pytest.raises(ValueError, match="m is 0"):
        decoupled.least_variance(torch.ones(4), torch.zeros(4), 0, 0)
    with pytest.raises(ValueError, match="no mass"):
        decoupled.least_variance_law(torch.zeros(4), torch.zeros(4), 0)
    with pytest.raises(ValueError, match="q sums to 3/4"):
        reference.scheme([Q(1, 4)] * 3, 0, 1, "constant", "mask")
    with pytest.raises(ValueError, match="one scheme for each class"):
        negatives.implicit_losses([scheme, scheme])
    equal = negatives.margin_losses(torch.zeros(3, 3))
    with pytest.raises(ValueError, match="give a positive law"):
        negatives.population_minimiser(equal, torch.tensor([1.0, 0.0, 0.0]))
    goal = torch.tensor([1.0, 0.0, -1.0])
    with pytest.raises(ValueError, match="the search stopped"):  # a kink at the minimum: the slope never comes near 0
        negatives.population_minimiser(lambda s: (s - s.mean() - goal).abs(), torch.full((3,), 1 / 3))
