"""Variances and Jensen gaps are accurate relative to themselves, at any scatter: against enumeration in 60 digits."""

import math

import mpmath
import pytest
import torch
from mpmath import mpf
from torch import Tensor

from sumexp import expectations
from sumexp.bias import estimators
from sumexp.expectations import reference
from sumexp.expectations.reference import Moments
from tests.accelerator.device import NAME, Device

SHAPE = (0.0, 1.0, 0.3, -0.7, 2.0)
NAMES = ("probability_variance", "loss_variance", "probability_gap", "loss_gap")


def terms(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture(autouse=True)
def sixty_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    # A relative scatter of 1e-12 puts a variance 24 digits below the square of its mean.
    monkeypatch.setattr(reference, "DIGITS", 60)
    monkeypatch.setattr(mpmath.mp, "dps", 60)


def relative(value: Tensor, expected: mpf) -> float:
    return float(abs(mpf(value.item()) - expected) / abs(expected))


def assert_own_digits(law: expectations.Law, exact: Moments, mean: mpf, within: float = 1e-10) -> None:
    result = expectations.expect(law)
    gaps = exact.probability - 1 / (1 + mean), mpmath.log1p(mean) - exact.loss
    for name, right in zip(NAMES, (exact.probability_variance, exact.loss_variance, *gaps), strict=True):
        assert relative(getattr(result, name), right) <= within


@pytest.mark.claim("sumexp-jensen-gap", shows="statement", evidence="quadrature")
@pytest.mark.claim("sumexp-variance", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("scatter", [1.0, 1e-2, 1e-4, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("middle", [-30.0, -1.0, 0.0, 3.0, 30.0, 300.0])
def test_slight_scatter_about_any_sum(middle: float, scatter: float) -> None:
    log_x = middle + scatter * terms(*SHAPE)
    x = [mpmath.exp(mpf(value)) for value in log_x.tolist()]
    fifth = [mpf(1) / 5] * 5
    exact = reference.enumerate_moments(log_x.tolist(), reference.draws_with_replacement(fifth, 3))
    for method in ("direct", "spread"):
        assert_own_digits(expectations.with_replacement(log_x, 3, None, method), exact, 3 * sum(x) / 5)
    for m in (2, 4):  # few of the classes; and all but few
        exact = reference.enumerate_moments(log_x.tolist(), reference.draws_without_replacement(5, m))
        assert_own_digits(expectations.without_replacement(log_x, m), exact, m * sum(x) / 5)
    # Certain, almost certain, and rare.
    log_pi = terms(0.0, -1e-9, -1.0, -scatter, -20.0)
    pi = [mpmath.exp(mpf(value)) for value in log_pi.tolist()]
    exact = reference.enumerate_moments(log_x.tolist(), reference.draws_by_coins(pi))
    mean = mpmath.fsum(p * value for p, value in zip(pi, x, strict=True))
    assert_own_digits(expectations.independent(log_x, log_pi), exact, mean)


def binomial_moments(low: mpf, high: mpf, m: int) -> Moments:
    """m draws of one of two equally likely terms, within 14 standard deviations of the mean."""
    reach = 7 * mpmath.sqrt(m) + 30
    totals = [mpf(0)] * 4
    for k in range(max(0, int(m / 2 - reach)), min(m, int(m / 2 + reach)) + 1):
        probability = mpmath.binomial(m, k) / mpf(2) ** m
        total = 1 + k * high + (m - k) * low
        values = (1 / total, mpmath.log(total), total**-2, mpmath.log(total) ** 2)
        totals = [old + probability * value for old, value in zip(totals, values, strict=True)]
    return Moments(*totals)


@pytest.mark.claim("sumexp-jensen-gap", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("m", [10, 1000, 10**5])
def test_many_draws_of_two_terms(m: int) -> None:
    log_x = terms(0.0, math.log(9.0)) - math.log(m)
    low, high = (mpmath.exp(mpf(value)) for value in log_x.tolist())
    assert_own_digits(expectations.with_replacement(log_x, m), binomial_moments(low, high, m), m * (low + high) / 2)


@pytest.mark.parametrize("digits", [4, 6, 8, 10, 12])
@pytest.mark.parametrize("larger", [-15.0, -10.0, -5.0, 0.0, 5.0])
def test_rare_huge_terms_cost_a_variance_the_digits_that_are_stated(digits: int, larger: float) -> None:
    log_x, log_pi = terms(digits * math.log(10) + larger, 0.0), terms(-digits * math.log(10), 0.0)
    coins = reference.draws_by_coins([mpmath.exp(v) for v in log_pi.tolist()])
    exact = reference.enumerate_moments(log_x.tolist(), coins)
    q = reference.exact_probabilities(log_q := terms(log_pi[0].item(), math.log1p(-(10.0**-digits))))
    drawn = reference.enumerate_moments(log_x.tolist(), reference.draws_with_replacement(q, 1))
    spread = expectations.with_replacement(log_x, 1, log_q, "spread")
    for law, right in ((expectations.independent(log_x, log_pi), exact), (spread, drawn)):
        result = expectations.expect(law)
        for name in ("loss_variance", "probability_variance"):
            stated = 5e-15 * min(10**digits / 5, log_x[0].exp().item())
            assert relative(getattr(result, name), getattr(right, name)) <= stated + 1e-11
    mean = mpmath.fdot(q, [mpmath.exp(value) for value in log_x.tolist()])
    assert relative(result.loss_gap, mpmath.log1p(mean) - drawn.loss) <= 1e-11


@pytest.mark.parametrize("m", [10**12, 2**53])
def test_a_thousand_billion_draws_of_two_terms(m: int) -> None:
    # Var X = m ((high - low)/2)^2 and EX = m (high + low)/2; Var f(X) = f'(EX)^2 Var X (1 + O(1/m)).
    log_x = terms(0.0, math.log(9.0)) - math.log(m)
    low, high = (mpmath.exp(mpf(value)) for value in log_x.tolist())
    variance, total = m * ((high - low) / 2) ** 2, 1 + m * (high + low) / 2
    result = expectations.expect(expectations.with_replacement(log_x, m))
    for name, over in zip(NAMES, (total**4, total**2, total**3, 2 * total**2), strict=True):
        assert relative(getattr(result, name), variance / over) <= 2e-11


@pytest.mark.parametrize("scatter", [1e-6, 1e-3, 5e-3, 2e-2, 0.1, 1.0])
def test_many_classes_of_slight_scatter_by_both_algorithms(scatter: float) -> None:
    noise = torch.randn(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = torch.stack([scatter * noise - math.log(7), noise])  # a slight row beside a wide one
    direct, spread = (
        expectations.expect(expectations.with_replacement(rows, 7, None, way)) for way in ("direct", "spread")
    )
    with Device():
        on_device = expectations.expect(expectations.with_replacement(rows.to(NAME), 7, None, "spread"))
        values = [getattr(on_device, name).cpu() for name in NAMES]
    for name, other in zip(NAMES, values, strict=True):
        torch.testing.assert_close(getattr(direct, name), getattr(spread, name), rtol=1e-11, atol=0)
        torch.testing.assert_close(other, getattr(spread, name), rtol=1e-11, atol=0)


def test_all_but_one_of_three_hundred() -> None:
    noise = 0.01 * torch.randn(300, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    log_a = noise - math.log(300)
    a = [mpmath.exp(mpf(value)) for value in log_a.tolist()]
    total = mpmath.fsum(a)
    exact = mpmath.fsum((1 / (1 + mpf(300) / 299 * (total - x)) - 1 / (1 + total)) ** 2 for x in a) / 300
    errors = estimators.mean_square_errors([299, 300], log_a)
    assert relative(errors[0], exact) <= 1e-10
    assert errors[1].item() <= 1e-60  # all are read


def test_a_constant_sum_has_no_variance_and_no_gap() -> None:
    for law in (
        expectations.with_replacement(terms(2.0, 2.0, 2.0), 5),
        expectations.with_replacement(torch.full((3000,), 0.7, dtype=torch.float64), 5, method="spread"),
        expectations.without_replacement(terms(2.0, -1.0, 0.5), 3),
        expectations.independent(terms(2.0, -1.0, 0.5), terms(0.0, 0.0, -math.inf)),
    ):
        result = expectations.expect(law)
        assert all(0 <= getattr(result, name).item() <= 1e-28 for name in NAMES)


@pytest.mark.parametrize("size", [0.0, 5.0, 400.0, 750.0])
@pytest.mark.parametrize("log_q", [None, (-math.log(2), -math.log(2))])
def test_no_draw_is_a_sum_of_zero_beside_any_terms(size: float, log_q: tuple[float, ...] | None) -> None:
    log_x = terms(size, 0.0).requires_grad_()
    q = None if log_q is None else terms(*log_q).requires_grad_()
    outputs = six(expectations.expect(expectations.with_replacement(log_x, 0, q)))
    assert outputs.tolist() == pytest.approx([0, 1, 0, 0, 0, 0], abs=1e-14)
    for gradient in torch.autograd.grad(outputs.sum(), [log_x] if q is None else [log_x, q]):
        assert gradient.tolist() == [0, 0]


def test_the_gap_of_a_transform_alone_is_unknown() -> None:
    result = expectations.expect(expectations.laplace(lambda u: -torch.log1p(u.exp()), math.log(60)))
    assert bool(torch.stack([result.probability_gap, result.loss_gap]).isnan().all())


def six(result: expectations.Expectations) -> Tensor:
    kinds = [f"{name}{kind}" for kind in ("", "_variance", "_gap") for name in ("loss", "probability")]
    return torch.stack([getattr(result, kind) for kind in kinds])


def by_outcomes(log_x: Tensor, log_pi: Tensor) -> Tensor:
    """The same six by all outcomes of the coins, in plain double precision; differentiable."""
    x, pi = log_x.exp(), log_pi.exp()
    outcomes = torch.cartesian_prod(*[terms(0.0, 1.0)] * len(x))
    probability = (outcomes * pi + (1 - outcomes) * (1 - pi)).prod(-1)
    total, mean = outcomes @ x, pi @ x
    log, inverse = total.log1p(), 1 / (1 + total)
    first = [probability @ log, probability @ inverse]
    second = [probability @ (log - first[0]).square(), probability @ (inverse - first[1]).square()]
    return torch.stack([*first, *second, mean.log1p() - first[0], first[1] - 1 / (1 + mean)])


ALMOST = (-5e-324, -1e-320, -1e-310, -1e-290, -1e-16)
"""Logarithms of probabilities that are 1 in double precision, about where 1 / (1 - pi) or e^{-log(1 - pi)} overflow."""


@pytest.mark.parametrize("wanted", ["log_x", "log_pi", "both"])
@pytest.mark.parametrize("sizes", [(5.0, 2.0, -1.0), (12.0, -3.0, 12.0), (20.0, 4.0, 1.0), (300.0, 4.0, 1.0)])
@pytest.mark.parametrize("log_pi", [
    (0.0, -2.0, 0.0), (0.0, 0.0, 0.0), (-0.5, 0.0, -math.inf), *((value, -2.0, value) for value in ALMOST)
])  # fmt: skip
def test_gradients_beside_certain_coins(wanted: str, sizes: tuple[float, ...], log_pi: tuple[float, ...]) -> None:
    # Each tensor alone and both: what the transform computes depends on which gradients are asked for.
    log_x, log_inclusion = terms(*sizes), terms(*log_pi)
    asked = {"log_x": [log_x], "log_pi": [log_inclusion], "both": [log_x, log_inclusion]}[wanted]
    for tensor in asked:
        tensor.requires_grad_()
    outputs = six(expectations.expect(expectations.independent(log_x, log_inclusion)))
    # With all coins certain nothing scatters: a variance's gradient, with parts up to 2 x 12^2, is rounding alone.
    for i, (output, by_hand) in enumerate(zip(outputs, by_outcomes(log_x, log_inclusion), strict=True)):
        gradients = torch.autograd.grad(output, asked, retain_graph=True)
        for gradient, other in zip(gradients, torch.autograd.grad(by_hand, asked, retain_graph=True), strict=True):
            torch.testing.assert_close(gradient, other, rtol=1e-8 if i > 1 else 1e-12, atol=1e-11 if i > 1 else 1e-12)


@pytest.mark.parametrize("size, other, log_pi", [
    (-20.0, -21.0, -0.7), (-30.0, -28.0, -0.7), (2.0, 2.001, -1.0), (200.0, 223.0, -0.5), (10.0, -math.inf, -11.0),
    (40.0, -math.inf, -20.0), (600.0, -math.inf, -1.0), (35.0, 35.0002, -1.0), (304.0, 300.0, -1.0),
])  # fmt: skip
def test_gradients_of_two_terms_small_near_each_other_rare_or_huge(size: float, other: float, log_pi: float) -> None:
    log_q, pi = terms(log_pi, math.log(-math.expm1(log_pi))), mpmath.exp(mpf(log_pi))
    log_x, x = terms(size, other).requires_grad_(), [mpmath.exp(mpf(value)) for value in (size, other)]
    for law, outcomes in (
        (expectations.independent(log_x, terms(log_pi, 0.0)), [(pi, (1, 1)), (1 - pi, (0, 1))]),
        (expectations.with_replacement(log_x, 1, log_q, "direct"), [(pi, (1, 0)), (1 - pi, (0, 1))]),
        (expectations.without_replacement(log_x, 1), [(mpf(1) / 2, (1, 0)), (mpf(1) / 2, (0, 1))]),
    ):
        exact, result = reference.enumerate_moments([size, other], outcomes), expectations.expect(law)
        slopes = map(mpmath.matrix, reference.enumerate_gradients([size, other], outcomes))
        by_mean = mpmath.matrix([mpmath.fsum(p * counts[y] for p, counts in outcomes) * x[y] for y in (0, 1)])
        p, loss, p_square, loss_square = slopes
        variances = loss_square - 2 * exact.loss * loss, p_square - 2 * exact.probability * p
        mean = 1 + mpmath.fsum(probability * mpmath.fdot(counts, x) for probability, counts in outcomes)
        right = loss, p, *variances, by_mean / mean - loss, by_mean / mean**2 + p
        for output, slope in zip(six(result), right, strict=True):
            (gradient,) = torch.autograd.grad(output, log_x, retain_graph=True)
            assert mpmath.norm(mpmath.matrix(gradient.tolist()) - slope) <= 2e-9 * mpmath.norm(slope)


def test_gradients_in_the_proposal_of_huge_sums() -> None:
    log_x, q = terms(40.0, 43.0), terms(0.3, 0.7)
    f = 1 / (1 + log_x.exp())  # E f = sum of q f(x), with q the softmax of log q
    for method in ("direct", "spread"):
        p = expectations.expect(expectations.with_replacement(log_x, 1, log_q := q.log().requires_grad_(), method))
        torch.testing.assert_close(torch.autograd.grad(p.probability, log_q)[0], q * (f - q @ f), rtol=1e-11, atol=0)


def test_a_certain_coin_too_large_for_its_gradient_is_named() -> None:
    log_x = terms(400.0, 0.0)
    assert expectations.expect(expectations.independent(log_x, terms(0.0, -1.0))).loss.item() == pytest.approx(400.0)
    with pytest.raises(ValueError, match="log_x is 400, and a class above 330 is certain"):
        expectations.independent(log_x, terms(0.0, -1.0).requires_grad_())
    log_pi = terms(0.0, -1.0).requires_grad_()
    expectations.expect(expectations.independent(terms(330.0, 0.0), log_pi)).loss.backward()
    assert log_pi.grad is not None
    assert log_pi.grad.isfinite().all()
