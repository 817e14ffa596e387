"""Exact expectations against exact enumeration in 40 digits, and the two algorithms against each other."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from sumexp import expectations
from sumexp.expectations import _kernels as kernels
from sumexp.expectations import _sums as sums
from sumexp.expectations import quadrature, reference
from sumexp.expectations.reference import (
    Outcome,
    draws_by_coins,
    draws_with_replacement,
    draws_without_replacement,
    enumerate_gradients,
    enumerate_moments,
    exact_probabilities,
)
from tests.accelerator.device import NAME, Device

mp.dps = reference.DIGITS


def four(result: expectations.Expectations) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return result.probability, result.loss, result.probability_square, result.loss_square


def relative_error(value: Tensor, expected: mpf) -> float:
    return float(abs(mpf(value.item()) - expected) / abs(expected))


def logits(shape: str, spread: float, classes: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    noise = torch.rand(classes, dtype=torch.float64, generator=generator) * 2 - 1
    if shape == "mixed":
        return noise * spread
    if shape == "huge":
        return spread + 0.1 * noise
    result = -spread + 0.1 * noise
    if shape == "spike":
        result[2] = spread
    return result


def proposal(classes: int = 5) -> Tensor:
    return torch.log_softmax(torch.linspace(-1.5, 1.0, classes, dtype=torch.float64), 0)


def inclusions() -> Tensor:
    return torch.tensor([0.3, 0.01, 0.9, 0.5, 1.0], dtype=torch.float64).log()


def schemes(log_x: Tensor, m: int) -> dict[str, tuple[expectations.Law, Callable[[], Iterator[Outcome]]]]:
    """Every scheme with its enumeration; m counts draws where the scheme has draws."""
    q, pi = proposal(len(log_x)), inclusions()
    exact_q, exact_pi = exact_probabilities(q), [mpmath.exp(mpf(value)) for value in pi.tolist()]
    uniform = [mpf(1) / len(log_x)] * len(log_x)
    result: dict[str, tuple[expectations.Law, Callable[[], Iterator[Outcome]]]] = {}
    for method in ("direct", "spread"):
        law = expectations.with_replacement(log_x, m, q, method)
        result[f"with replacement, {method}"] = law, lambda: draws_with_replacement(exact_q, m)
        law = expectations.with_replacement(log_x, m, None, method)
        result[f"uniform, {method}"] = law, lambda: draws_with_replacement(uniform, m)
    if m <= len(log_x):
        law = expectations.without_replacement(log_x, m)
        result["without replacement"] = law, lambda: draws_without_replacement(len(log_x), m)
    result["independent"] = expectations.independent(log_x, pi), lambda: draws_by_coins(exact_pi)
    return result


CASES = [(shape, spread) for shape in ("mixed", "huge", "tiny", "spike") for spread in (1.0, 5.0, 20.0)]


@pytest.mark.claim("sumexp-identity", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("m", [1, 2, 4, 6])
@pytest.mark.parametrize("shape,spread", CASES)
def test_every_scheme_equals_its_enumeration(shape: str, spread: float, m: int) -> None:
    log_x = logits(shape, spread)
    for name, (law, outcomes) in schemes(log_x, m).items():
        expected, result = enumerate_moments(log_x.tolist(), outcomes()), expectations.expect(law)
        errors = [relative_error(*pair) for pair in zip(four(result), expected, strict=True)]
        assert max(errors) <= 1e-12, (name, errors)
        # Var / E^2 is about 1e-3 and more here: E^2 + Var - E^2 would lose those three digits and, for the inverse of a
        # sum near 1e-9, all of them.
        assert relative_error(result.loss_variance, expected.loss_variance) <= 1e-9, name
        assert relative_error(result.probability_variance, expected.probability_variance) <= 1e-9, name


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("shape,spread", CASES)
def test_gradients_in_the_logits_equal_the_enumeration(shape: str, spread: float, m: int) -> None:
    log_x = logits(shape, spread).requires_grad_()
    for name, (law, outcomes) in schemes(log_x, m).items():
        outputs = four(expectations.expect(law))
        for output, expected in zip(outputs, enumerate_gradients(log_x.tolist(), outcomes()), strict=True):
            (gradient,) = torch.autograd.grad(output, log_x, retain_graph=True)
            scale = max(abs(component) for component in expected)
            errors = [abs(mpf(g) - r) / scale for g, r in zip(gradient.tolist(), expected, strict=True)]
            assert max(errors) <= 1e-10, (name, [float(error) for error in errors])


@pytest.mark.parametrize("make", [
    lambda x, q, _: expectations.with_replacement(x, 3, q.log_softmax(-1), "direct"),
    lambda x, q, _: expectations.with_replacement(x, 3, q.log_softmax(-1), "spread"),
    lambda x, _, pi: expectations.independent(x, pi),
    lambda x, *_: expectations.without_replacement(x, 3),
    lambda x, _, pi: expectations.product(expectations.independent(x, pi), expectations.with_replacement(x, 2)),
])  # fmt: skip
def test_gradcheck_of_every_scheme(make: Callable[..., expectations.Law]) -> None:
    def six(*tensors: Tensor) -> tuple[Tensor, ...]:
        result = expectations.expect(make(*tensors))
        first, variances = (result.probability, result.loss), (result.probability_variance, result.loss_variance)
        return *first, *variances, result.probability_gap, result.loss_gap

    log_x = torch.stack([logits("mixed", 2.0), logits("spike", 3.0)])
    # 0.5 at most, so that the numerical derivative stays among probabilities.
    inputs = tuple(tensor.requires_grad_() for tensor in (log_x, proposal(), inclusions() + math.log(0.5)))
    again = lambda *tensors: checkpoint(six, *tensors, use_reentrant=False)  # noqa: E731
    assert torch.autograd.gradcheck(again, inputs, eps=1e-5, atol=1e-8, rtol=1e-6)


def test_second_derivatives_forward_mode_and_edited_laws_are_refused() -> None:
    """The gradient would count as a constant: a penalty on it would have a wrong gradient without a word."""
    log_x = torch.zeros(3, requires_grad=True)
    laws = (
        expectations.with_replacement(log_x, 2),
        expectations.without_replacement(log_x, 2),
        expectations.independent(log_x, torch.full((3,), -1.0)),
    )
    for law in laws:
        with pytest.raises(RuntimeError, match="only first derivatives are known here: leave out create_graph"):
            torch.autograd.grad(expectations.expect(law).loss, log_x, create_graph=True)
        with pytest.raises(NotImplementedError, match="one at a time here: leave out is_grads_batched"):
            torch.autograd.grad(expectations.expect(law).loss, log_x, torch.ones(1), is_grads_batched=True)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="give all rows"):
        expectations.sampled_softmax(torch.autograd.forward_ad.make_dual(log_x.detach(), torch.ones(3)), 0, 2)
    log_q = torch.full((3,), 1 / 3, dtype=torch.float64).log()
    value = expectations.expect(expectations.with_replacement(log_x, 2, log_q)).loss
    log_q.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.jacrev, torch.func.grad])
def test_transforms_are_refused(transform: Callable[..., Any]) -> None:
    laws: list[Callable[[Tensor], Any]] = [
        lambda x: expectations.expect(expectations.with_replacement(x, 2)),
        lambda x: expectations.expect(expectations.without_replacement(x, 2)),
        lambda x: expectations.expect(expectations.independent(x, torch.full((3,), -1.0))),
        lambda x: expectations.sampled_softmax(x, 0, 2),
        lambda x: expectations.expect(expectations.laplace(lambda u: -u.exp() * x.sum(), 0.0)),
    ]
    for law in laws:
        with pytest.raises(NotImplementedError, match=r"give all rows at once, \[B, L\], and differentiate by"):
            transform(lambda x, law=law: law(x).loss)(torch.zeros((2, 3) if transform is torch.vmap else (3,)))


def test_the_gradient_in_the_proposal_keeps_its_sum() -> None:
    # q is normalised inside, so adding a constant to log q changes nothing: the gradient's entries add up to 0.
    log_q = proposal().requires_grad_()
    expectations.expect(expectations.with_replacement(logits("mixed", 3.0), 3, log_q)).loss.backward()
    assert log_q.grad is not None
    assert abs(log_q.grad.sum().item()) <= 1e-14 < log_q.grad.abs().max().item()


def two_valued_moments(spike: float, rest: float, classes: int, m: int) -> tuple[mpf, mpf, mpf, mpf]:
    """One class of logarithm ``spike`` among equal others: the number of its draws is binomial."""
    q, a, b = mpf(1) / classes, mpmath.exp(mpf(spike)), mpmath.exp(mpf(rest))
    moments = [mpf(0)] * 4
    for k in range(m + 1):
        probability = mpmath.binomial(m, k) * q**k * (1 - q) ** (m - k)
        total = 1 + k * a + (m - k) * b
        values = (1 / total, mpmath.log(total), total**-2, mpmath.log(total) ** 2)
        moments = [old + probability * value for old, value in zip(moments, values, strict=True)]
    return tuple(moments)


@pytest.mark.parametrize("by", ["implied", "given", "direct"])
@pytest.mark.parametrize("m", [1, 1000])
@pytest.mark.parametrize("spike,rest", [(-20.0, 20.0), (20.0, -20.0), (-20.0, 0.0), (0.0, -20.0)])
def test_a_million_lopsided_classes(spike: float, rest: float, m: int, by: str) -> None:
    """A million of the largest for one draw where the law is implied, 100,000 where it is given; else 10,000."""
    classes = 10**4 if rest < 20 else 10**5 if by == "given" else 10**6 if m == 1 else 10**4
    log_x = torch.full((classes,), rest, dtype=torch.float64)
    log_x[7] = spike
    # The same proposal, implied or given: a million equal masses, added one by one, would be off by 1e-11.
    log_q = torch.full((classes,), -math.log(classes), dtype=torch.float64) if by == "given" else None
    if by == "direct":  # the million classes in their two distinct values, for the direct sum
        classes, log_x = 10**6, torch.tensor([spike, rest], dtype=torch.float64)
        log_q = torch.tensor([1e-6, 1 - 1e-6], dtype=torch.float64).log()
    result = expectations.expect(expectations.with_replacement(log_x, m, log_q, "direct" if by == "direct" else "auto"))
    errors = list(map(relative_error, four(result), two_valued_moments(spike, rest, classes, m)))
    # 1 - 1e-6 in float64 is off by up to 1e-16 / 2, and its thousandth power by a thousand times that.
    assert max(errors) <= 1e-12, errors


def test_the_two_algorithms_agree_on_many_classes() -> None:
    generator = torch.Generator().manual_seed(1)
    log_x = 4 * torch.randn(2, 6_000, dtype=torch.float64, generator=generator)
    log_x[:, ::7] = -math.inf
    log_q = torch.log_softmax(torch.randn(6_000, dtype=torch.float64, generator=generator), 0)
    results, gradients = [], []
    for method in ("direct", "spread"):
        x, q = log_x.clone().requires_grad_(), log_q.clone().requires_grad_()
        result = expectations.expect(expectations.with_replacement(x, 50, q, method))
        outputs = (result.probability, result.loss, result.probability_variance, result.loss_variance)
        results.append(torch.stack(outputs).detach())
        (result.probability.sum() + result.loss.sum() + result.loss_variance.sum()).backward()
        gradients.append((x.grad, q.grad))
    torch.testing.assert_close(results[0], results[1], rtol=2e-12, atol=0)
    for direct, spread in zip(*gradients, strict=True):
        torch.testing.assert_close(direct, spread, rtol=0, atol=1e-12 * direct.abs().max().item())


def test_the_polynomial_of_a_cell_is_the_kernel() -> None:
    weights, worst = sums.point_weights(torch.device("cpu")).tolist(), mpf(0)
    for u in mpmath.linspace(-6, 4, 41):
        near = [mpmath.exp(-mpmath.exp(u + quadrature.GRID * (j - mpf(9) / 2))) for j in range(10)]
        for offset in (-0.5, -0.3, 0.0, 0.2, 0.5):
            value = mpmath.fsum(
                f * mpf(c) * mpf(offset) ** k for f, row in zip(near, weights, strict=True) for k, c in enumerate(row)
            )
            worst = max(worst, abs(value - mpmath.exp(-mpmath.exp(u + quadrature.GRID * offset))))
    assert 5e-17 < worst < 1.1e-16


@settings(deadline=None, max_examples=60)
@given(
    log_x=st.lists(st.floats(-300, 300) | st.just(-math.inf), min_size=1, max_size=6),
    m=st.integers(0, 50),
    without=st.booleans(),
)
def test_extreme_inputs_keep_the_bounds_of_jensen(log_x: list[float], m: int, without: bool) -> None:
    x = torch.tensor(log_x, dtype=torch.float64, requires_grad=True)
    law = expectations.without_replacement(x, min(m, len(log_x))) if without else expectations.with_replacement(x, m)
    result = expectations.expect(law)
    slack = 1e-10
    upper = torch.log1p(law.mean_value)
    assert 0 <= result.loss.item() <= upper.item() * (1 + slack)
    assert torch.exp(-result.loss).item() * (1 - slack) <= result.probability.item() <= 1 + slack
    assert result.probability_variance.item() >= 0
    assert result.loss_variance.item() >= 0
    (result.probability + result.loss + result.probability_variance + result.loss_variance).sum().backward()
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())


def test_the_enumeration_itself_on_a_case_done_by_hand() -> None:
    # Two classes, x = 1 and 2, q = 1/4 and 3/4, two draws: X = 2, 3, 4 with probability 1/16, 6/16, 9/16.
    log_x, outcomes = [0.0, math.log(2.0)], list(draws_with_replacement([mpf(1) / 4, mpf(3) / 4], 2))
    moments = enumerate_moments(log_x, outcomes)
    assert float(moments.probability) == pytest.approx((1 / 3 + 6 / 4 + 9 / 5) / 16, rel=1e-15)
    assert float(moments.loss) == pytest.approx((math.log(3) + 6 * math.log(4) + 9 * math.log(5)) / 16, rel=1e-15)
    # d E 1/(1+X) / d log x_1 = -E[count_1 x_1 / (1+X)^2]: counts 2, 1, 0.
    assert float(enumerate_gradients(log_x, outcomes)[0][0]) == pytest.approx(-(2 / 9 + 6 / 16) / 16, rel=1e-15)


def test_gauss_laguerre_is_exact_for_small_sums_and_useless_for_large_spreads() -> None:
    for spread, count, low, high in ((0.5, 60, 0.0, 1e-12), (10.0, 180, 1e-2, 1.0)):
        log_x = logits("mixed", spread)
        exact = expectations.expect(expectations.with_replacement(log_x, 3, proposal())).probability.item()
        assert low <= abs(reference.gauss_laguerre(log_x, 3, proposal(), count) / exact - 1) <= high


def test_only_masked_classes_are_a_sum_of_zero() -> None:
    result = expectations.expect(expectations.with_replacement(torch.full((4,), -math.inf, dtype=torch.float64), 3))
    assert torch.stack([result.loss, result.probability_variance, result.loss_variance]).tolist() == [0, 0, 0]
    assert result.probability.item() == pytest.approx(1.0, abs=1e-13)


def test_batches_are_rows() -> None:
    rows = torch.stack([logits("mixed", 3.0), logits("huge", 3.0), logits("tiny", 3.0)])
    whole = expectations.expect(expectations.with_replacement(rows.view(3, 1, 5), 4, proposal())).loss
    alone = [expectations.expect(expectations.with_replacement(row, 4, proposal())).loss for row in rows]
    torch.testing.assert_close(torch.stack(alone).view(3, 1), whole, rtol=1e-13, atol=0)


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    log_x = torch.stack([logits("mixed", 3.0, 301), logits("spike", 3.0, 301)])

    def run(method: expectations._laws.Method) -> Tensor:
        x = log_x.clone().requires_grad_()
        result = expectations.expect(expectations.with_replacement(x, 4, proposal(301), method))
        (gradient,) = torch.autograd.grad(result.loss.sum(), x)
        return torch.cat([result.loss, gradient.flatten()]).detach()

    for method in ("direct", "spread"):
        whole = run(method)
        monkeypatch.setitem(sums.CHUNK, "cpu", 1024)
        torch.testing.assert_close(run(method), whole, rtol=1e-12, atol=1e-17)
        monkeypatch.undo()


def test_a_given_transform_stands_for_its_law() -> None:
    # X exponential with mean 3: L(t) = 1 / (1 + 3 t).
    law = expectations.laplace(lambda u: -torch.log1p(3 * u.exp()), log_max=math.log(3 * 60))
    result = expectations.expect(law)
    # Integrals of the density e^{-x/3}/3, by adaptive quadrature in 40 digits.
    for value, f in (
        (result.probability, lambda x: 1 / (1 + x)),
        (result.loss, mpmath.log1p),
        (result.loss_square, lambda x: mpmath.log1p(x) ** 2),
    ):
        exact = mpmath.quad(lambda x, f=f: mpmath.exp(-x / 3) / 3 * f(x), [0, 3, 30, mpmath.inf])
        assert relative_error(value, exact) <= 1e-12


def test_a_product_is_the_sum_of_its_parts() -> None:
    log_x = logits("mixed", 3.0)
    parts = expectations.product(expectations.with_replacement(log_x, 2), expectations.with_replacement(log_x, 3))
    whole = expectations.with_replacement(log_x, 5)
    for first, second in zip(four(expectations.expect(parts)), four(expectations.expect(whole)), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-13, atol=0)


def test_model_based_sampling_is_exact() -> None:
    # q proportional to e^f on the negatives: every draw gives the full softmax, so there is no bias and no variance.
    scores = torch.tensor([0.3, 2.0, -1.0, 0.5], dtype=torch.float64)
    result = expectations.sampled_softmax(scores, label=2, m=3, log_q=scores)
    e = math.e
    full = e**-1 / (e**0.3 + e**2 + e**-1 + e**0.5)
    assert result.probability.item() == pytest.approx(full, rel=1e-13)
    assert result.loss.item() == pytest.approx(-math.log(full), rel=1e-13)
    assert 0 <= result.probability_variance.item() <= 1e-13 * full**2
    assert 0 <= result.loss_variance.item() <= 1e-13


def test_uniform_sampled_softmax_of_three_classes() -> None:
    # One of two negatives, weight 2: the mean of 1/(1 + 2a) and 1/(1 + 2b) with a = 1, b = 3.
    scores = torch.tensor([math.log(3.0), 0.0, 0.0], dtype=torch.float64)
    result = expectations.sampled_softmax(scores, label=1, m=1)
    assert result.probability.item() == pytest.approx((1 / 3 + 1 / 7) / 2, rel=1e-13)
    assert result.probability_variance.item() == pytest.approx(((1 / 3 - 1 / 7) / 2) ** 2, rel=1e-12)
    assert result.loss.item() == pytest.approx((math.log(3) + math.log(7)) / 2, rel=1e-13)


def test_monte_carlo_agrees() -> None:
    # z beyond 5 happens by chance once in 1.7 million runs; the seed is fixed, so either always or never.
    log_x, log_q = logits("mixed", 3.0), proposal()
    sample = torch.log1p(reference.monte_carlo(log_x, 4, log_q, 200_000, torch.Generator().manual_seed(0)))
    result = expectations.expect(expectations.with_replacement(log_x, 4, log_q))
    z = (sample.mean() - result.loss) / (result.loss_variance / len(sample)).sqrt()
    assert abs(z.item()) < 5


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9, 1e-12])
def test_the_asked_tolerance_is_kept_with_fewer_nodes(tol: float) -> None:
    log_x = logits("mixed", 5.0)
    exact = expectations.expect(expectations.with_replacement(log_x, 3), tol=1e-14)
    rough = expectations.expect(expectations.with_replacement(log_x, 3), tol=tol)
    assert rough.error <= tol
    assert abs(rough.probability / exact.probability - 1).item() <= rough.error
    assert abs(rough.loss / exact.loss - 1).item() <= rough.error
    assert rough.nodes < exact.nodes


@pytest.mark.parametrize("log_max", [-5.0, 0.0, 20.0, 100.0])
def test_nodes_grow_at_most_like_the_square_of_the_digits(log_max: float) -> None:
    # The step shrinks like 1 / digits, the range grows like digits + log_max: twice the digits, four times the nodes.
    nodes = {digits: quadrature.rule(10.0**-digits, log_max).count for digits in range(1, 16)}
    doubled = [nodes[2 * digits] / nodes[digits] for digits in range(1, 8)]
    assert doubled == sorted(doubled)
    assert doubled[-1] < 4
    each = (nodes[12] / nodes[3]) ** (1 / 9) - 1
    assert 0.1 < each < 0.25  # no "few per cent more nodes" for one more digit


@pytest.mark.parametrize("step", [0.125, 0.5, 1.0])
def test_a_rule_with_another_step_keeps_its_range_and_what_that_cuts_off(step: float) -> None:
    rule = quadrature.rule(1e-6, 5.0)
    other = rule.with_step(step)
    first, last = (grid.nodes()[[0, -1]] for grid in (rule, other))
    assert last[0] == first[0]
    assert 0 <= last[1] - first[1] < step
    assert other.bound == pytest.approx(quadrature.discretisation_bound(step) + 2e-8, rel=1e-6)  # 1e-8 on either side


@pytest.mark.claim("sumexp-discretisation", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("step", [0.25, 0.5, 1.0, 1.5])
def test_the_discretisation_bound_holds_and_is_not_idle(step: float) -> None:
    # X = x constant: E 1/(1+X) = 1/(1+x), summed over so wide a range that truncation is below 1e-17.
    worst = mpf(0)
    for log_x in (-10, -2, 0, 2, 10):
        x = mpmath.exp(log_x)
        nodes = (mpf(step) * k for k in range(round(-70 / step), round(6 / step)))
        total = mpmath.fsum(step * mpmath.exp(u - mpmath.exp(u) * (1 + x)) for u in nodes)
        worst = max(worst, abs(total * (1 + x) - 1))
    bound = quadrature.discretisation_bound(step)
    assert bound / 100 < worst <= bound


@pytest.mark.parametrize("step, power", [(0.05, 1), (0.01, 1), (1e-3, 1000), (0.25, 7), (5e-324, 1)])
def test_the_discretisation_bound_where_factors_leave_the_range_of_floats(step: float, power: int) -> None:
    """exp(2 pi theta / h) overflowed for steps below .014."""
    h = mpf(step)
    theta = mpmath.atan(2 * mpmath.pi / (power * h))
    expected = 2 / (mpmath.cos(theta) ** power * mpmath.expm1(2 * mpmath.pi * theta / h))
    assert quadrature.discretisation_bound(step, power) == pytest.approx(float(expected), rel=1e-12, abs=0)


def test_no_discretisation_bound_beyond_the_range_of_floats() -> None:
    with pytest.raises(ValueError, match=r"step is 1e\+300 and power 1: the bound is above 1e307; take a smaller step"):
        quadrature.discretisation_bound(1e300)


def test_memory_of_kernels_near_zero() -> None:
    for s in (1e-12, 1e-3, 0.69, 0.71, 5.0, 40.0):
        value = kernels.bend(torch.tensor(s, dtype=torch.float64))
        assert relative_error(value, mpmath.expm1(-mpf(s)) + mpf(s)) <= 1e-15
        value = kernels.bend(torch.tensor(-s, dtype=torch.float64))
        assert relative_error(value, mpmath.expm1(mpf(s)) - mpf(s)) <= 1e-15


@pytest.mark.parametrize("method", ["direct", "spread"])
def test_a_gpu_agrees_with_the_cpu(method: expectations._laws.Method) -> None:
    log_x = torch.stack([logits("mixed", 5.0, 500), logits("spike", 5.0, 500)])
    results = []
    for place in ("cpu", NAME):
        with Device():
            x = log_x.to(place, copy=True).requires_grad_()
            result = expectations.expect(expectations.with_replacement(x, 20, proposal(500).to(place), method))
            by = torch.autograd.grad(result.loss.sum() + result.probability.sum(), x)
            results.append([tensor.detach().cpu() for tensor in (*four(result), *by)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-12, atol=1e-14)


@pytest.mark.claim("sumexp-variance", shows="statement", evidence="quadrature")
def test_variance_integrands_are_non_negative() -> None:
    # The claim the variances rest on: L - e^{-tc} is negative first and positive after, once.
    law = expectations.with_replacement(logits("mixed", 4.0), 3, proposal())
    rule = quadrature.rule(1e-12, law.log_max)
    t = rule.nodes().exp()
    split = t * law.mean_value.unsqueeze(-1) < 0.5
    log_value = law.transform(rule, split).log_value
    level = torch.expm1(expectations.expect(law).loss)
    difference = (log_value.exp() - torch.exp(-t * level)).squeeze(0)
    signs = difference[difference.abs() > 1e-14].sign()
    assert (signs[0].item(), signs[-1].item()) == (-1, 1)
    assert int((signs.diff() != 0).sum()) == 1


@pytest.mark.parametrize("given", [False, True])
def test_sums_over_copies_of_the_grid_are_the_sums_on_one(given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a GPU classes add into copies by turns. Both forms sum the same terms, in another order.
    log_x = torch.stack([logits("mixed", 3.0, 8009), logits("mixed", 1.0, 8009)])
    log_x[:, ::9] = -math.inf
    log_q = proposal(8009)[None] if given else None
    spread = sums.SpreadSum(log_x, log_q, -4.0, 4.0, masked=True)
    cell, offset = spread._place(slice(None), slice(None))
    q = spread.probabilities().expand_as(offset) if given else torch.ones_like(offset)
    expected = spread._moments()
    terms = torch.stack([torch.zeros_like(expected[0]).scatter_add(-1, cell, q * offset.abs() ** p) for p in range(6)])
    monkeypatch.setattr(sums, "_copies", lambda *_: 16)
    actual = spread._moments()
    assert bool(((actual - expected).abs() <= 1e-15 * terms).all())
    assert not torch.equal(actual, expected)


class Operations(TorchDispatchMode):
    """Counts operations of torch that are no views."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not (func.is_view or func is torch.ops.aten.lift_fresh.default)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("given,most", [(False, 32), (True, 48)])
def test_few_operations_of_torch_take_an_expectation(given: bool, most: int) -> None:
    # Each costs some microseconds, on a GPU as on a CPU; there were 270.
    log_q = proposal(1000) if given else None
    expectations.sampled_softmax(logits("mixed", 3.0, 1000), 0, 100, log_q)  # fills the tables
    with Operations() as operations:
        expectations.sampled_softmax(logits("mixed", 2.0, 1000), 0, 100, log_q)
    assert operations.count <= most
