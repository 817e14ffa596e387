"""Finite joint laws and the extreme inputs of the functions on them."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sumexp.nce import Joint, global_nce, local_nce, rational
from tests.exact import vector

Q = Fraction
INF = math.inf
JOINT = Joint(vector([0.1, 0.2, 0.0], [0.2, 0.2, 0.3]))
HALF = math.log(0.5)


def test_marginals_conditionals_and_information() -> None:
    assert JOINT.shape == (2, 3)
    assert torch.allclose(JOINT.x, vector(0.1 + 0.2, 0.2 + 0.2 + 0.3))
    assert torch.allclose(JOINT.y, vector(0.1 + 0.2, 0.2 + 0.2, 0.3))
    assert torch.allclose(JOINT.y_given_x[0], vector(0.1 / 0.3, 0.2 / 0.3, 0.0))
    assert JOINT.log_y_given_x[0, 2] == -INF
    assert torch.allclose(JOINT.pmi, (JOINT.p / torch.outer(JOINT.x, JOINT.y)).log(), atol=1e-15)
    exact = rational.mutual_information([[Q(1, 10), Q(2, 10), Q(0)], [Q(2, 10), Q(2, 10), Q(3, 10)]])
    assert JOINT.mutual_information.item() == pytest.approx(float(exact), rel=1e-14)


def test_information_of_independent_equal_and_missing_values() -> None:
    independent = Joint(torch.outer(vector(0.25, 0.75), vector(0.5, 0.3, 0.2)))
    assert abs(independent.mutual_information.item()) < 1e-15
    odds = 2.0**-20  # ((1 + e) log(1 + e) + (1 - e) log(1 - e)) / 2 = e^2/2 + e^4/12 + ...
    near = Joint((1 + odds * vector([1.0, -1.0], [-1.0, 1.0])) / 4)
    assert near.mutual_information.item() == pytest.approx(odds**2 / 2 + odds**4 / 12, rel=1e-14, abs=0)
    assert Joint(torch.eye(8, dtype=torch.float64) / 8).mutual_information.item() == pytest.approx(math.log(8))
    joint = Joint(vector([0.5, 0.0], [0.5, 0.0]))
    assert joint.pmi.tolist() == [[0.0, -INF], [0.0, -INF]]
    assert joint.mutual_information == 0


def test_a_joint_is_in_float64_and_keeps_no_hold_on_its_input() -> None:
    joint = Joint.from_counts(torch.tensor([[1, 2], [3, 4]]))
    assert torch.allclose(joint.p, vector([0.1, 0.2], [0.3, 0.4]))
    assert joint.p.dtype == torch.float64
    p = vector([0.5, 0.5]).requires_grad_()
    joint = Joint(p)
    assert not joint.p.requires_grad
    p.data.zero_()
    assert joint.p.tolist() == [[0.5, 0.5]]


GLOBAL, LOCAL = global_nce.cross_entropy, local_nce.cross_entropy


@pytest.mark.parametrize("use", [GLOBAL, LOCAL])
def test_minus_infinity_costs_nothing_on_pairs_never_seen_and_everything_on_others(use: Callable[..., Tensor]) -> None:
    ends = ((-2.0, 3.0), (-INF, 3.0), (-2.0, -INF), (-80.0, 3.0))  # e^-80 = 2e-35
    scores, unseen, seen, far = (vector([0.5, 1.0, a], [0.25, 0.0, b]) for a, b in ends)
    assert use(JOINT, unseen, 3).item() == pytest.approx(use(JOINT, far, 3).item(), rel=1e-13)
    assert use(JOINT, unseen, 3) < use(JOINT, scores, 3)
    assert use(JOINT, seen, 3) == INF


@pytest.mark.parametrize("use", [GLOBAL, LOCAL])
def test_gradients_next_to_minus_infinity_are_finite(use: Callable[..., Tensor]) -> None:
    scores = JOINT.pmi.clone().requires_grad_()
    (slope,) = torch.autograd.grad(use(JOINT, scores, 3), scores)
    assert bool(torch.isfinite(slope).all())
    assert slope[0, 2] == 0


@pytest.mark.parametrize("use", [GLOBAL, LOCAL])
def test_a_pair_that_no_noise_imitates_may_score_infinity(use: Callable[..., Tensor]) -> None:
    log_q = vector(HALF, HALF, -INF)
    sure = vector([0.5, 1.0, 900.0], [0.25, 0.0, INF])  # 900 where no pair comes from either
    high = vector([0.5, 1.0, 0.0], [0.25, 0.0, 60.0])  # e^-60 = 9e-27
    assert use(JOINT, sure, 3, log_q).item() == pytest.approx(use(JOINT, high, 3, log_q).item(), rel=1e-13)


def test_the_entropy_is_zero_if_noise_never_imitates_a_pair() -> None:
    joint = Joint(vector([0.0, 1.0]))
    log_q = vector(0.0, -INF)
    assert global_nce.entropy(joint, [2, 5], log_q).tolist() == [0.0, 0.0]
    assert local_nce.entropy(joint, 5, log_q) == 0
    assert global_nce.posterior(joint, 0, torch.tensor([0, 1, 0]), log_q).tolist() == [0, 1, 0]
    assert local_nce.posterior(joint, 5, log_q).tolist() == [[0, 1]]


ratios = st.fractions(min_value=Q(1, 400), max_value=400, max_denominator=400)


@given(ratios, ratios, ratios)
def test_sums_of_logarithms_are_exact(a: Fraction, b: Fraction, c: Fraction) -> None:
    assert rational.log(a) + rational.log(b) == rational.log(a * b)
    assert rational.log(a) - rational.log(a / b) == rational.log(b)
    assert c * rational.log(a) - (c - 1) * rational.log(a) == rational.log(a)
    assert float(c * rational.log(a)) == pytest.approx(float(c) * math.log(a), abs=1e-12)
