"""Bad and extreme arguments of the package negatives: a clear error, or the documented right answer."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp import negatives, samplers
from sumexp.negatives import consistency, decoupled, information, race, reference, wild
from sumexp.negatives.schemes import Weights

Q = Fraction
GOOD = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64).log()
LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.0], dtype=torch.float64)


def floats(values: tuple[Fraction, ...]) -> Tensor:
    return torch.tensor([float(v) for v in values], dtype=torch.float64)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: negatives.scheme(torch.tensor([0.5, 0.4]).log(), 0, 1, "constant"), "sums to 0.9"),
        (lambda: negatives.scheme(torch.tensor([1.5, -0.5]).log(), 0, 1, "constant"), "log_q.* is nan"),
        (lambda: negatives.scheme(torch.tensor([math.nan, 0.0]), 0, 1, "constant"), "log_q.* is nan"),
        (lambda: negatives.scheme(GOOD, 4, 1, "constant"), "label is 4; with 4 classes it must be 0..3"),
        (lambda: negatives.scheme(GOOD, -1, 1, "constant"), "label is -1"),
        (lambda: negatives.scheme(GOOD, 0, 0, "constant"), "m is 0; it must be a whole number >= 1"),
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
        (lambda: negatives.exclude(torch.tensor([0.0, math.nan]), 0), r"log_q\[1\] is nan"),
    ],
)
def test_bad_schemes_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "logits, message",
    [
        ([math.nan, 0, 0, 0], r"logits\[0\] is nan"),
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


@pytest.mark.parametrize("weights", ["constant", "importance", "tail"])
def test_a_class_that_is_never_drawn_has_no_weight(weights: Weights) -> None:
    law = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64).log()
    prior = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64).log()
    scheme = negatives.scheme(law, 0, 2, weights, "mask", prior=prior)
    # 1/m; 1/(m q); prior / (m q) of the prior of the label: 0.25 / (2 * 0.5) / 0.25
    each = {"constant": 1 / 2, "importance": 1 / (2 * 0.5), "tail": 0.25 / (2 * 0.5) / 0.25}
    assert scheme.log_w.exp().tolist() == pytest.approx([0, each[weights], 0])
    assert scheme.log_rho.exp().tolist() == pytest.approx([0, 2 * 0.5 * each[weights], 0])


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
        negatives.population_minimiser(lambda s: (s - s.mean() - goal).abs(), torch.tensor([0.5, 0.3, 0.2]))


Q3 = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
ZERO = torch.zeros(3, dtype=torch.float64)


def of_draws(log_q: Tensor, m: int = 2, hits: samplers.Hits = "keep") -> negatives.Losses:
    return consistency.multiset_losses(log_q, m, consistency.factors("relative", log_q, m, hits=hits), hits)


@pytest.mark.parametrize("call, message", [
    (lambda: race.race_losses(Q3, 1.0), "m is 1.0; it must be a whole number"),  # type: ignore[arg-type]
    (lambda: race.distinct_law(Q3, True), "m is True; it must be a whole number"),
    (lambda: information.information(Q3, Q3, 10**30), "m is 1000000000000000000000000000000"),
    (lambda: of_draws(Q3, 10**30), "m is 1000000000000000000000000000000"),
    (lambda: of_draws(Q3)(ZERO[:2]), r"scores \(2,\) must be finite numbers \(3,\)"),
    (lambda: of_draws(Q3)(torch.tensor([0.0, -math.inf, 0.0])), "must be finite numbers"),
    (lambda: of_draws(torch.tensor([0.0, -math.inf, -math.inf]).double(), 1, "redraw"), "drawn with certainty"),
    (lambda: wild.modulo_share(3, 0, 0), "classes 0; expected"),
    (lambda: wild.modulo_share(-1, 1, 0), "classes 1; expected"),
    (lambda: negatives.scheme(GOOD, True, 1, "constant"), "label is True"),
])  # fmt: skip
def test_what_has_no_answer_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("hits", ["keep", "mask", "redraw"])
def test_a_class_that_is_never_drawn_has_weights_of_zero_as_a_label(hits: samplers.Hits) -> None:
    """Relative weights q_y / q_j with q_y = 0: the loss is log 1. The other two lose what they lose without it."""
    scores = torch.tensor([0.5, -1.0, 3.0], dtype=torch.float64)
    two = torch.tensor([0.25, 0.75], dtype=torch.float64).log()
    three = torch.cat([two, two.new_tensor([-math.inf])])
    found = of_draws(three, 3, hits)(scores)
    assert found[2] == 0
    torch.testing.assert_close(found[:2], of_draws(two, 3, hits)(scores[:2]), rtol=1e-11, atol=0)


def test_numbers_of_numpy_and_very_many_draws() -> None:
    way = negatives.scheme(GOOD, np.int64(1), np.int64(3), "importance")  # type: ignore[arg-type]
    assert (
        negatives.implicit_loss(LOGITS, way).loss
        == negatives.implicit_loss(LOGITS, negatives.scheme(GOOD, 1, 3, "importance")).loss
    )
    # So many draws that the sampled gradient is the full one.
    many = negatives.scheme(GOOD, 1, 2**53, "importance")
    moments = negatives.gradient_moments(LOGITS, many)
    assert moments.bias.abs().max() < 1e-12
    mean, _ = negatives.group_moments(LOGITS, many, torch.tensor([[True, False, True, True]]))
    assert mean.item() == pytest.approx(1 - LOGITS.softmax(-1)[1].item(), rel=1e-12)


def test_ids_of_probability_zero_are_never_in_a_slice() -> None:
    law = torch.tensor([0.25, 0.75, 0.0, 0.0], dtype=torch.float64).log()
    found = wild.slice_inclusion(law, 3, 2)
    assert found.tolist() == pytest.approx([1 - 0.75**3, 1 - 0.25**3, 0, 0])
