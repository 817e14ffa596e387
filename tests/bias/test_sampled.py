"""The exact bias of the sampled softmax's value and gradient on given logits, against enumeration."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import pytest
import torch
from torch import Tensor

from sumexp.bias import sampled_bias
from tests.exact import draws


def enumerated(logits: Tensor, label: int, m: int, q: Tensor) -> tuple[float, Tensor]:
    """E p-hat, and the mean stochastic gradient of the loss, by all outcomes; autograd per outcome."""
    negatives = [y for y in range(len(logits)) if y != label]
    q = q / q[negatives].sum()
    value, gradient = 0.0, torch.zeros_like(logits)
    for drawn in product(negatives, repeat=m):
        p = math.prod(q[y].item() for y in drawn)
        leaf = logits.clone().requires_grad_()
        shifted = torch.stack([leaf[y] - torch.log(m * q[y]) for y in drawn])
        loss = torch.logsumexp(torch.cat([leaf[label : label + 1], shifted]), 0) - leaf[label]
        (of_outcome,) = torch.autograd.grad(loss, leaf)
        value += p * math.exp(-loss.item())
        gradient += p * of_outcome
    return value, gradient


LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.0], dtype=torch.float64)


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize(("label", "offset"), [(0, 0.0), (1, 0.0), (0, 1e9)])
@pytest.mark.parametrize("q", [(0.25, 0.25, 0.25, 0.25), (0.1, 0.2, 0.3, 0.4)])
def test_bias_equals_the_enumeration(m: int, label: int, offset: float, q: tuple[float, ...]) -> None:
    proposal = torch.tensor(q, dtype=torch.float64)
    bias = sampled_bias(LOGITS + offset, label, m, None if offset and q[0] == q[1] else proposal.log())
    value, gradient = enumerated(LOGITS, label, m, proposal)
    full = torch.softmax(LOGITS, 0)
    assert bias.probability.item() == pytest.approx(full[label].item(), rel=1e-14)
    assert bias.value.item() == pytest.approx(value - full[label].item(), abs=1e-12)
    full[label] -= 1
    assert torch.allclose(bias.gradient, gradient - full, atol=1e-12)


def test_coordinates_of_the_gradient_bias_sum_to_zero_and_the_label_bears_the_value_s() -> None:
    bias = sampled_bias(LOGITS, 2, 3)
    assert abs(bias.gradient.sum().item()) < 1e-13
    assert bias.gradient[2].item() == pytest.approx(bias.value.item(), abs=1e-13)  # p-hat - 1 against p - 1
    none = sampled_bias(LOGITS, 2, 3, LOGITS)  # drawn in proportion to the softmax
    assert torch.cat([none.value.view(1), none.gradient]).abs().max() < 1e-12


def test_a_batch_of_rows_and_no_gradient_into_the_proposal() -> None:
    rows = torch.stack([LOGITS, 2 * LOGITS])
    proposal = LOGITS.clone().requires_grad_()
    both = sampled_bias(rows, 0, 2, proposal)
    assert both.value.shape == (2,)
    assert torch.allclose(both.gradient[1], sampled_bias(rows[1], 0, 2, proposal).gradient, atol=1e-13)
    assert not any(part.requires_grad for part in vars(both).values())


@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("depth", [0.0, 5.0, 20.0, 100.0])
def test_a_tiny_bias_keeps_its_digits_and_its_sign(depth: float, m: int) -> None:
    # By enumeration in 60 digits: a difference of two numbers near 1 has none of them left.
    logits = torch.tensor([0.0, -depth, -depth - 1, -depth - 2], dtype=torch.float64)
    with mpmath.workdps(120):
        a = [mpmath.exp(mpmath.mpf(value)) for value in logits[1:].tolist()]
        mean = mpmath.mpf(0)
        for counts in product(range(m + 1), repeat=3):
            if sum(counts) == m:
                ways = math.factorial(m) / math.prod(math.factorial(c) for c in counts)
                mean += mpmath.mpf(ways) / mpmath.mpf(3) ** m / (1 + mpmath.fdot(counts, a) * 3 / m)
        exact = mean - 1 / (1 + mpmath.fsum(a))
        assert float(abs(mpmath.mpf(sampled_bias(logits, 0, m).value.item()) / exact - 1)) <= 1e-10


@pytest.mark.parametrize("m", [1, 3])
def test_a_class_that_is_never_drawn_raises_the_bias(m: int) -> None:
    proposal = torch.tensor([0.0, 0.5, 0.5, 0.0], dtype=torch.float64)
    bias = sampled_bias(LOGITS, 0, m, proposal.log())
    value, gradient = enumerated(LOGITS[:3], 0, m, proposal[:3])  # as if the last class were not there
    full = torch.softmax(LOGITS, 0)
    assert bias.value.item() == pytest.approx(value - full[0].item(), rel=1e-11)
    full[0] -= 1
    assert torch.allclose(bias.gradient, torch.cat([gradient, gradient.new_zeros(1)]) - full, atol=1e-12)


def expected_gradient_bias(a: list[Fraction], q: list[Fraction], m: int) -> list[Fraction]:
    """Of the target's coordinate and of each negative's, over all draws."""
    p = Fraction(1) / (1 + sum(a))
    off = [1 - p, *(-x * p for x in a)]
    for drawn, chance in draws(q, m):
        terms = [a[i] / (m * q[i]) for i in drawn]
        p_hat = 1 / (1 + sum(terms))
        off[0] += chance * (p_hat - 1)
        for i, term in zip(drawn, terms, strict=True):
            off[1 + i] += chance * term * p_hat
    return off


def test_more_draws_can_raise_the_bias_of_the_gradient_and_not_that_of_the_probability() -> None:
    # One coordinate: exact with one draw, wrong with two.
    a, q = [Fraction(1), Fraction(1), Fraction(2)], [Fraction(1, 4), Fraction(1, 8), Fraction(5, 8)]
    one_draw, two_draws = (expected_gradient_bias(a, q, m) for m in (1, 2))
    assert one_draw[1] == 0 < two_draws[1]
    assert one_draw[0] > two_draws[0] > 0
    # The sum over all negatives.
    a, q = [Fraction(8), Fraction(24), Fraction(1, 5)], [Fraction(14, 33), Fraction(2, 33), Fraction(17, 33)]
    one_draw, two_draws = (expected_gradient_bias(a, q, m) for m in (1, 2))
    assert sum(map(abs, one_draw[1:])) < sum(map(abs, two_draws[1:]))
    assert one_draw[0] > two_draws[0] > 0
    logits = torch.tensor([0.0, *(math.log(x) for x in a)], dtype=torch.float64)
    log_q = torch.tensor([-math.inf, *(math.log(x) for x in q)], dtype=torch.float64)
    for m, exact in ((1, one_draw), (2, two_draws)):
        got = sampled_bias(logits, 0, m, log_q).gradient
        assert got.tolist() == pytest.approx([float(x) for x in exact], abs=1e-12)
