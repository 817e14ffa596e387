"""Finite joint laws, and what every function on them refuses."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sumexp.nce import Joint, families, gan, global_nce, gradient, local_nce, rational

Q = Fraction
INF = math.inf


def tensor(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


JOINT = Joint(tensor([0.1, 0.2, 0.0], [0.2, 0.2, 0.3]))
HALF = math.log(0.5)


def test_marginals_conditionals_and_information() -> None:
    assert JOINT.shape == (2, 3)
    assert torch.allclose(JOINT.x, tensor(0.1 + 0.2, 0.2 + 0.2 + 0.3))
    assert torch.allclose(JOINT.y, tensor(0.1 + 0.2, 0.2 + 0.2, 0.3))
    assert torch.allclose(JOINT.y_given_x[0], tensor(0.1 / 0.3, 0.2 / 0.3, 0.0))
    assert JOINT.log_y_given_x[0, 2] == JOINT.pmi[0, 2] == -INF
    assert JOINT.pmi[1, 2].item() == pytest.approx(math.log(0.3 / (0.7 * 0.3)))
    exact = rational.mutual_information([[Q(1, 10), Q(2, 10), Q(0)], [Q(2, 10), Q(2, 10), Q(3, 10)]])
    assert JOINT.mutual_information.item() == pytest.approx(float(exact), rel=1e-14)


def test_information_of_independent_and_of_equal_variables() -> None:
    independent = Joint(torch.outer(tensor(0.25, 0.75), tensor(0.5, 0.3, 0.2)))
    assert abs(independent.mutual_information.item()) < 1e-15
    assert Joint(torch.eye(8, dtype=torch.float64) / 8).mutual_information.item() == pytest.approx(math.log(8))


def test_a_class_that_never_occurs_has_no_pmi() -> None:
    joint = Joint(tensor([0.5, 0.0], [0.5, 0.0]))
    assert joint.pmi.tolist() == [[0.0, -INF], [0.0, -INF]]
    assert joint.mutual_information == 0


def test_counts_of_any_type_become_a_law() -> None:
    joint = Joint.from_counts(torch.tensor([[1, 2], [3, 4]]))
    assert torch.allclose(joint.p, tensor([0.1, 0.2], [0.3, 0.4]))
    assert joint.p.dtype == torch.float64


def test_a_joint_keeps_no_hold_on_its_input() -> None:
    p = tensor([0.5, 0.5]).requires_grad_()
    joint = Joint(p)
    assert not joint.p.requires_grad
    with torch.no_grad():
        p.zero_()
    assert joint.p.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    "p, message",
    [
        ([[0.5, 0.5]], "list; give a floating-point tensor"),
        (tensor(0.5, 0.5), r"\(2,\).* give a floating-point tensor \[X, Y\]"),
        (torch.tensor([[1]]), "int64"),
        (torch.zeros(0, 3), r"\(0, 3\)"),
        (tensor([0.5, -0.1], [0.3, 0.3]), r"p\[0, 1\] is -0.1; it must be finite and not negative"),
        (tensor([0.5, math.nan], [0.3, 0.3]), r"p\[0, 1\] is nan"),
        (tensor([0.5, INF], [0.3, 0.3]), r"p\[0, 1\] is inf"),
        (tensor([0.5, 0.4]), r"p sums to 0.9, not 1; normalise it"),
        (tensor([0.5, 0.5], [0.0, 0.0]), r"row 1 is all zero; drop every x that never occurs \(1 of them\)"),
    ],
)
def test_what_is_no_law_is_refused(p: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Joint(p)


@pytest.mark.parametrize(
    "counts, message",
    [
        (torch.tensor([1, 2]), "give a tensor"),
        (torch.tensor([[1, -2]]), r"counts\[0, 1\] is -2.0"),
        (torch.tensor([[1, 2], [0, 0]]), "row 1 is all zero"),
        (torch.zeros(2, 2), "row 0 is all zero; .*2 of them"),
    ],
)
def test_counts_that_give_no_law_are_refused(counts: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Joint.from_counts(counts)


# -- the losses' arguments --------------------------------------------------------------------------------------------

GLOBAL, LOCAL = global_nce.cross_entropy, local_nce.cross_entropy
SCORES = torch.zeros(2, 3)
WRONG_Q: list[tuple[Tensor, str]] = [
    (tensor(HALF, HALF), r"log_q has shape \(2,\); it must be \[3\]"),
    (tensor(HALF, HALF, HALF), r"exp\(log_q\) sums to 1.5.*not 1; normalise it"),
    (tensor(HALF, HALF, math.nan), "log_q.* is nan"),
    (tensor(HALF, HALF, INF), "log_q holds inf"),
    (tensor(0.5, 0.25, 0.25), r"exp\(log_q\) sums to 4.2.*not 1"),  # q itself where its logarithm is wanted
    (tensor(-0.5, 1.0, 0.5), r"exp\(log_q\) sums to .*not 1"),  # negative numbers for probabilities, no logarithms
]


@pytest.mark.parametrize("log_q, message", WRONG_Q)
@pytest.mark.parametrize(
    "use",
    [
        lambda log_q: GLOBAL(JOINT, SCORES, 2, log_q),
        lambda log_q: LOCAL(JOINT, SCORES, 2, log_q),
        lambda log_q: global_nce.entropy(JOINT, 2, log_q),
        lambda log_q: local_nce.entropy(JOINT, 2, log_q),
        lambda log_q: global_nce.posterior(JOINT, 0, torch.tensor([0, 1]), log_q),
        lambda log_q: local_nce.posterior(JOINT, 2, log_q),
        lambda log_q: local_nce.divergences(JOINT, 2, log_q),
        lambda log_q: global_nce.recover(SCORES, log_q),
        lambda log_q: local_nce.recover(SCORES, 2, log_q),
        lambda log_q: families.tilted(torch.zeros(2, 3, 1), torch.zeros(1), tensor(0.5, 0.5), log_q),
    ],
)
def test_a_noise_that_is_no_law_is_refused(use: Callable[[Tensor], object], log_q: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use(log_q)


@pytest.mark.parametrize("n", [1, 0, -3, 2.0])
@pytest.mark.parametrize(
    "use",
    [
        lambda n: GLOBAL(JOINT, SCORES, n) if isinstance(n, int) else GLOBAL(JOINT, SCORES, [n]),
        lambda n: GLOBAL(JOINT, SCORES, [2, n]),
        lambda n: LOCAL(JOINT, SCORES, n),
        lambda n: global_nce.entropy(JOINT, [n]),
        lambda n: local_nce.entropy(JOINT, n),
        lambda n: local_nce.posterior(JOINT, n),
        lambda n: local_nce.optimal_scores(JOINT, n),
        lambda n: local_nce.divergences(JOINT, n),
        lambda n: local_nce.recover(SCORES, n, JOINT.y.log()),
    ],
)
def test_fewer_than_two_candidates_are_refused(use: Callable[[object], object], n: object) -> None:
    with pytest.raises(ValueError, match=r"n >= 2 candidates|it must be a whole number"):
        use(n)


def test_no_number_of_candidates_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="n >= 2"):
        GLOBAL(JOINT, SCORES, [])


@pytest.mark.parametrize("use", [GLOBAL, LOCAL])
@pytest.mark.parametrize(
    "scores, message",
    [
        (torch.zeros(3, 2), r"scores has shape \(3, 2\); the joint law has \(2, 3\)"),
        (torch.zeros(3), r"scores has shape \(3,\)"),
        (tensor([0.0, math.nan, 0.0], [0.0, 0.0, 0.0]), r"scores\[0, 1\] is nan"),
        (tensor([0.0, 0.0, 0.0], [INF, 0.0, 0.0]), r"scores\[1, 0\] is inf; .* only where q\(y\) = 0"),
    ],
)
def test_scores_that_are_none_are_refused(use: Callable[..., Tensor], scores: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use(JOINT, scores, 2)


@pytest.mark.parametrize("use", [GLOBAL, LOCAL])
def test_half_precision_scores_are_computed_in_double(use: Callable[..., Tensor]) -> None:
    scores = tensor([0.5, 1.0, -2.0], [0.25, 0.0, 3.0])
    assert use(JOINT, scores.to(torch.float16), 3).item() == use(JOINT, scores, 3).item()


@pytest.mark.parametrize("use", [GLOBAL, LOCAL])
def test_minus_infinity_costs_nothing_on_pairs_never_seen_and_everything_on_others(use: Callable[..., Tensor]) -> None:
    scores = tensor([0.5, 1.0, -2.0], [0.25, 0.0, 3.0])
    unseen, seen = scores.clone(), scores.clone()
    unseen[0, 2] = -INF
    seen[1, 2] = -INF
    far = scores.clone()
    far[0, 2] = -80.0  # e^-80 = 2e-35
    assert use(JOINT, unseen, 3).item() == pytest.approx(use(JOINT, far, 3).item(), rel=1e-13)
    assert use(JOINT, unseen, 3) < use(JOINT, scores, 3)
    assert use(JOINT, seen, 3) == INF


@pytest.mark.parametrize("use", [GLOBAL, LOCAL])
def test_gradients_beside_minus_infinity_are_numbers(use: Callable[..., Tensor]) -> None:
    scores = JOINT.pmi.clone().requires_grad_()
    (slope,) = torch.autograd.grad(use(JOINT, scores, 3), scores)
    assert bool(torch.isfinite(slope).all())
    assert slope[0, 2] == 0


@pytest.mark.parametrize("use", [GLOBAL, LOCAL])
def test_a_pair_that_no_noise_imitates_may_score_infinity(use: Callable[..., Tensor]) -> None:
    log_q = tensor(HALF, HALF, -INF)
    sure = tensor([0.5, 1.0, 0.0], [0.25, 0.0, INF])
    high = tensor([0.5, 1.0, 0.0], [0.25, 0.0, 60.0])  # e^-60 = 9e-27
    assert use(JOINT, sure, 3, log_q).item() == pytest.approx(use(JOINT, high, 3, log_q).item(), rel=1e-13)


def test_if_noise_never_imitates_a_pair_nothing_is_left_to_learn() -> None:
    joint = Joint(tensor([0.0, 1.0]))
    log_q = tensor(0.0, -INF)
    assert global_nce.entropy(joint, [2, 5], log_q).tolist() == [0.0, 0.0]
    assert local_nce.entropy(joint, 5, log_q) == 0
    assert global_nce.posterior(joint, 0, torch.tensor([0, 1, 0]), log_q).tolist() == [0, 1, 0]
    assert local_nce.posterior(joint, 5, log_q).tolist() == [[0, 1]]


def test_scores_too_far_apart_to_integrate_are_refused() -> None:
    with pytest.raises(ValueError, match="below 700"):
        GLOBAL(JOINT, tensor([0.0, 800.0, 0.0], [0.0, 0.0, 0.0]), 2)


@pytest.mark.parametrize(
    "x, ys, message",
    [
        (2, [0, 1], "a value of x is 2; the 2 classes are 0..1"),
        (0, [0, 3], "a candidate is 3; the 3 classes are 0..2"),
        (0, [0, -1], "a candidate is -1"),
        (0, [0], "n >= 2"),
        (0, [2, 2], "cannot occur"),
    ],
)
def test_candidates_that_make_no_sense_are_refused(x: int, ys: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        global_nce.posterior(JOINT, x, torch.tensor(ys))


def test_two_candidates_that_noise_cannot_make_cannot_occur() -> None:
    with pytest.raises(ValueError, match="cannot occur"):
        global_nce.posterior(JOINT, 1, torch.tensor([2, 2]), tensor(HALF, HALF, -INF))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: gan.value(tensor(0.5, 0.4), tensor(0.5, 0.5), tensor(0.5, 0.5)), r"pop sums to 0\.9, not 1"),
        (lambda: gan.value(tensor(0.5, 0.5), tensor(1.5, -0.5), tensor(0.5, 0.5)), r"q must .* >= 0, got -0\.5 at 1"),
        (lambda: gan.value(tensor(0.5, 0.5), tensor(math.nan, 0.5), tensor(0.5, 0.5)), r"q\[0\] is nan"),
        (lambda: gan.value(tensor(0.5, 0.5), tensor(0.5, 0.5), tensor(0.5, 1.5)), r"probabilities in \[0, 1\]"),
        (lambda: gan.play(tensor(0.5, 0.6), torch.zeros(2), 1), r"pop sums to 1\.1, not 1"),
        (lambda: gan.play(tensor(0.5, 0.5), torch.zeros(3), 1), r"generator has shape \(3,\); it must be \(2,\)"),
        (lambda: rational.log(0), "positive rational"),
        (lambda: rational.log(Q(-1, 2)), "-1/2"),
    ],
)
def test_other_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "draws, log_q, target, message",
    [
        ([], tensor(-INF, HALF, HALF), 0, "m >= 1"),
        ([1, 0], tensor(-INF, HALF, HALF), 0, "among the draws"),
        ([2], tensor(-INF, 0.0, -INF), 0, "among the draws"),
        ([1], tensor(HALF, -INF, HALF), 0, "q charges the target 0 with 0.5"),
        ([1], tensor(-INF, HALF, HALF), 3, "target is 3"),
        ([1], tensor(-INF, HALF, HALF / 2), 0, "not 1"),
    ],
)
def test_sampled_losses_refuse_what_has_no_weight(draws: list[int], log_q: Tensor, target: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gradient.sampled_loss(torch.zeros(3), target, torch.tensor(draws, dtype=torch.int64), log_q)


@pytest.mark.parametrize("q, m", [([0, Q(1, 2), Q(1, 2)], 0), ([0, 1, 0], 1), ([Q(1, 2), Q(1, 2), 0], 1)])
def test_enumeration_refuses_a_law_without_full_support(q: list[Fraction], m: int) -> None:
    with pytest.raises(ValueError, match="positive on all classes but the target"):
        gradient.rational_expected_gradient([Q(1)] * 3, 0, q, m)


# -- exact logarithms -------------------------------------------------------------------------------------------------

ratios = st.fractions(min_value=Q(1, 400), max_value=400, max_denominator=400)


@given(ratios, ratios, ratios)
def test_sums_of_logarithms_are_exact(a: Fraction, b: Fraction, c: Fraction) -> None:
    assert rational.log(a) + rational.log(b) == rational.log(a * b)
    assert rational.log(a) - rational.log(a / b) == rational.log(b)
    assert c * rational.log(a) - (c - 1) * rational.log(a) == rational.log(a)
    assert float(c * rational.log(a)) == pytest.approx(float(c) * math.log(a), abs=1e-12)
