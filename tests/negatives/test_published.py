"""The corrected logQ correction and its baseline: all draws as the public code scores them, and published numbers."""

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.functional import sampled_softmax
from sumexp.negatives import consistency, enumerated
from sumexp.negatives.published import Published, stationary
from tests.negatives.test_enumerated import logs

SCHEMES: tuple[Published, ...] = ("baseline", "refined")


FAR = logs(0.6, 0.25, 0.1, 0.05), logs(0.1, 0.2, 0.3, 0.4)
NEAR = logs(0.5, 0.3, 0.15, 0.05), logs(0.4, 0.3, 0.2, 0.1)
FLAT = logs(0.28, 0.26, 0.24, 0.22), logs(0.4, 0.3, 0.2, 0.1)


def baseline(scores: Tensor, log_q: Tensor, label: int, kept: Tensor) -> Tensor:
    """As the public code: log q subtracted from the negatives alone, log softmax."""
    return -torch.log_softmax(torch.cat([scores[label, None], scores[kept] - log_q[kept]]), 0)[0]


def refined(scores: Tensor, log_q: Tensor, label: int, kept: Tensor) -> Tensor:
    """As the public code: the loss without the positive in its denominator, times a constant 1 - p."""
    negatives = scores[kept] - (log_q[kept] - torch.log1p(-log_q[label].exp()))
    alone = negatives.logsumexp(0) - scores[label]
    p = torch.softmax(torch.cat([scores[label, None], negatives - math.log(len(kept))]), 0)[0]
    return (1 - p).detach() * alone


CODE: dict[Published, Callable[[Tensor, Tensor, int, Tensor], Tensor]] = {"baseline": baseline, "refined": refined}


def expected_step(scheme: Published, scores: Tensor, log_p: Tensor, log_q: Tensor, m: int) -> Tensor:
    """The mean gradient over all labels and all sequences of m draws, each in ascending order."""
    point, total = scores.clone().requires_grad_(), torch.zeros((), dtype=torch.float64)
    sequences = Counter(tuple(sorted(drawn)) for drawn in product(range(len(scores)), repeat=m))
    for label in range(len(scores)):
        for drawn, orders in sequences.items():
            ids = torch.tensor(drawn)
            kept = ids[ids != label]
            if len(kept):
                chance = orders * (log_p[label] + log_q[ids].sum()).exp()
                total = total + chance * CODE[scheme](point, log_q, label, kept)
    return torch.autograd.grad(total, point)[0]


def divergence(log_p: Tensor, log_f: Tensor) -> float:
    return float(log_p.exp() @ (log_p - log_f))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("laws", [FAR, NEAR, FLAT], ids=["far", "near", "flat"])
@pytest.mark.parametrize("m", [1, 2, 4])
def test_the_mean_gradient_of_the_public_code_is_zero_at_the_stationary_point(
    scheme: Published, laws: tuple[Tensor, Tensor], m: int
) -> None:
    got = stationary(scheme, *laws, m)
    assert got.exp().sum().item() == pytest.approx(1, abs=1e-14)
    assert expected_step(scheme, got, *laws, m).abs().max() < 1e-10
    assert expected_step(scheme, got + 1e-6 * laws[0], *laws, m).abs().max() > 1e-9  # and at no point near it


def importance(scores: Tensor, log_q: Tensor, label: int, kept: Tensor) -> Tensor:
    """The package's sampled softmax, given the law of hits that are drawn again."""
    log_redrawn = log_q[kept] - torch.log1p(-log_q[label].exp())
    return sampled_softmax(scores[label, None], scores[kept][None], log_q=log_redrawn[None], correct="importance")


@pytest.mark.claim("sumexp-refined", shows="statement", evidence="exact")
@pytest.mark.parametrize("seed", range(40))
def test_refined_has_the_gradients_of_importance_weights_with_hits_drawn_again(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    classes, m = (int(torch.randint(low, 12, (), generator=generator)) for low in (2, 1))
    scores = 3 * torch.randn(classes, dtype=torch.float64, generator=generator)
    log_q = torch.randn(classes, dtype=torch.float64, generator=generator).log_softmax(0)
    drawn = torch.multinomial(log_q.exp(), m, replacement=True, generator=generator)
    label = (int(drawn[0]) + 1) % classes  # one negative at least is no hit; others may be
    kept = drawn[drawn != label]

    def step(loss: Callable[[Tensor, Tensor, int, Tensor], Tensor]) -> Tensor:
        point = scores.clone().requires_grad_()
        return torch.autograd.grad(loss(point, log_q, label, kept), point)[0]

    torch.testing.assert_close(step(refined), step(importance), rtol=0, atol=1e-14)  # of entries up to 1


def test_a_single_uniform_negative_learns_as_importance_weights_with_redrawn_hits() -> None:
    # A uniform q leaves every label the same chance of a negative; otherwise labels of large q count for less.
    log_p = NEAR[0]
    for log_q, equal in ((torch.full((4,), 0.25, dtype=torch.float64).log(), True), (NEAR[1], False)):
        losses = consistency.multiset_losses(
            log_q, 1, consistency.factors("importance", log_q, 1, hits="redraw"), "redraw"
        )
        redrawn = consistency.minimiser(losses, log_p.exp()).log_softmax(0)
        assert torch.allclose(stationary("refined", log_p, log_q, 1), redrawn, rtol=0, atol=1e-8) is equal


@pytest.mark.claim("since-logq-popular", shows="statement", evidence="exact")
@pytest.mark.parametrize("m", [1, 5])
def test_without_a_correction_the_logarithm_of_popularity_is_missing(m: int) -> None:
    zero = torch.zeros(4, dtype=torch.float64)
    losses = consistency.multiset_losses(FAR[1], m, (zero, zero), "keep")
    got = consistency.minimiser(losses, FAR[0].exp())
    missing = got - FAR[0] + FAR[1]
    assert (missing - missing.mean()).abs().max() < 1e-8


@pytest.mark.claim("since-logq-positive", shows="statement", evidence="exact")
def test_the_positive_is_not_a_draw() -> None:
    """In rational numbers: the sum over all classes by one draw, with the positive added to it or among the draws."""
    values, q, label = (Fraction(2), Fraction(1), Fraction(5)), (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)), 1
    added = values[label] + sum(q[n] * values[n] / q[n] for n in range(3) if n != label)
    among = sum(q[n] * (values[label] / q[label] + values[n] / q[n]) / 2 for n in range(3))
    assert (added, among) == (sum(values), Fraction(11, 2))


@pytest.mark.claim("since-logq-bias", shows="statement", evidence="exact")
def test_which_correction_leaves_a_bias() -> None:
    for m in (1, 4):
        kept, bare = (enumerated.estimate(loss, *NEAR, m) for loss in (enumerated.kept, enumerated.baseline))
        assert kept.error(NEAR[0]) < 1e-10
        assert bare.error(NEAR[0]) > 0.4
    # and at other scores the mean gradient of either is not that of the full softmax
    other = torch.tensor([1.0, 0.0, -1.0, 2.0], dtype=torch.float64)
    counts, chance = enumerated.draws(NEAR[1], 2)

    def slope(loss: enumerated.Loss) -> Tensor:
        point = other.clone().requires_grad_()
        risk = (torch.outer(chance, NEAR[0].exp()) * loss(point, counts, NEAR[1])).sum()
        return torch.autograd.grad(risk, point)[0]

    assert (slope(enumerated.kept) - slope(enumerated.full)).abs().max() > 0.01
    # Not so with importance weights and hits redrawn where the scores are log q.
    weights = consistency.factors("importance", NEAR[1], 2, hits="redraw")
    redrawn = consistency.multiset_losses(NEAR[1], 2, weights, "redraw")
    point = NEAR[1].clone().requires_grad_()
    (at_log_q,) = torch.autograd.grad(NEAR[0].exp() @ redrawn(point), point)
    torch.testing.assert_close(at_log_q, NEAR[1].exp() - NEAR[0].exp(), rtol=0, atol=1e-12)


@pytest.mark.claim("since-logq-weight", shows="statement", evidence="proof")
def test_the_weight_is_the_probability_of_a_wrong_answer() -> None:
    """Of z = S - f_y: the ordinary cross entropy log(1 + e^z) has the gradient (1 - p) grad z, p = 1/(1 + e^z)."""
    z = sp.symbols("z", real=True)
    assert sp.simplify(sp.diff(sp.log(1 + sp.exp(z)), z) - (1 - 1 / (1 + sp.exp(z)))) == 0


@pytest.mark.claim("since-logq-original", shows="counterexample", evidence="exact")
def test_the_script_named_old_is_not_the_correction_of_all_logits() -> None:
    for m in (1, 16):
        all_logits = consistency.multiset_losses(FAR[1], m, consistency.factors("relative", FAR[1], m), "keep")
        original = consistency.minimiser(all_logits, FAR[0].exp()).log_softmax(0)
        assert divergence(FAR[0], original) < 1e-12
        assert divergence(FAR[0], stationary("baseline", *FAR, m)) > 0.4


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_thousand_classes_with_one_negative(scheme: Published) -> None:
    """All pairs of a label y and a negative n: the step is x / (1 + x) from y to n, x = e^(f_n - f_y) / q."""
    ranks = torch.arange(1, 1_001, dtype=torch.float64)
    log_q, log_p = torch.log_softmax(-ranks.log(), 0), torch.log_softmax(-0.75 * ranks.log() + ranks.sin(), 0)
    got = stationary(scheme, log_p, log_q, 1)
    step = torch.zeros_like(got)
    for labels in torch.arange(1_000).split(500):
        of_draw = log_q if scheme == "baseline" else log_q - torch.log1p(-log_q[labels].exp()).unsqueeze(-1)
        step_of_pair = torch.sigmoid(got - got[labels].unsqueeze(-1) - of_draw)
        step_of_pair *= (log_p[labels].unsqueeze(-1) + log_q).exp()
        step_of_pair[torch.arange(len(labels)), labels] = 0
        step += step_of_pair.sum(0)
        step[labels] -= step_of_pair.sum(1)
    assert (step / log_p.exp()).abs().max() < 1e-9
    assert (got - log_p).abs().max() > 0.1  # where the step is not zero


def test_refined_tends_to_the_truth_and_the_baseline_to_its_limit() -> None:
    """The errors of log p halve as m doubles, up to the order 1/m of what follows."""
    log_p, log_q = logs(0.45, 0.35, 0.15, 0.05), NEAR[1]
    numbers: dict[Published, tuple[int, int]] = {"refined": (50, 100), "baseline": (10_000, 20_000)}
    for scheme, counts in numbers.items():
        limit = stationary(scheme, log_p, log_q, math.inf)
        first, second = ((stationary(scheme, log_p, log_q, m) - limit).abs().max().item() for m in counts)
        assert first / second == pytest.approx(2, abs=0.04)
    assert torch.equal(stationary("refined", log_p, log_q, math.inf), log_p)


@pytest.mark.claim("sumexp-baseline-limit", shows="statement", evidence="exact")
@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 1000), min_size=3, max_size=8))
def test_the_limit_of_the_baseline_solves_its_equation(counts: list[int]) -> None:
    log_p = torch.log(torch.tensor(counts).double() / sum(counts))
    if 2 * max(counts) >= sum(counts):
        with pytest.raises(ValueError, match="the baseline's scores diverge"):
            stationary("baseline", log_p, log_p, math.inf)
        return
    p = stationary("baseline", log_p, log_p, math.inf).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-12)
    others = p.sum() - p
    balance = p * others / log_p.exp()  # p (1 - p) / P, one number for all classes
    assert (balance.max() / balance.min()).item() == pytest.approx(1, abs=1e-9)


@pytest.mark.claim("sumexp-baseline-limit", shows="statement", evidence="exact")
def test_above_one_half_the_baseline_diverges_with_the_number_of_negatives() -> None:
    """m (1 - p) tends to (1 - P) / (2 P - 1) = .4 / .2, and the others keep their odds."""
    errors = []
    for m in (1000, 2000):
        p = stationary("baseline", *FAR, m).exp()
        errors.append(m * (1 - p[0].item()) - 2)
        odds = p[1:] / p[1:].sum() / torch.tensor([0.625, 0.25, 0.125], dtype=torch.float64)
        assert odds.sub(1).abs().max() < 10 / m
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)
