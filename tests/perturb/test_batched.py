"""Perturb-Argmax probabilities on one grid, against the per-row rule, closed forms and autograd."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.perturb import argmax, batched
from sumexp.perturb.noises import Gaussian, Gumbel, Logistic
from tests.exact import vector

NOISES = (Gumbel(), Gumbel(0.5, 1.7), Gaussian(), Gaussian(-2.0, 0.6), Logistic(), Logistic(1.0, 2.5))
GRIDS = (Gaussian(), Logistic())


def rows(classes: int) -> Tensor:
    """Ties, close and far rows, and two groups of equal classes."""
    generator = torch.Generator().manual_seed(classes)
    drawn = [
        s * torch.randn(60 if classes < 50 else 8, classes, dtype=torch.float64, generator=generator)
        for s in (0.3, 1, 3)
    ]
    groups = [vector(*[0.0] * (classes // 2), *[-gap] * (classes - classes // 2)) for gap in (0, 1, 4, 10)]
    return torch.cat([*drawn, torch.stack(groups)])


def relative(actual: Tensor, exact: Tensor, least: float) -> float:
    """The largest relative error among the probabilities above ``least``."""
    return ((actual.double() - exact).abs() / exact)[exact > least].max().item()


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("classes", [2, 3, 10, 50, 200])
def test_agrees_with_the_rule_of_each_row(noise: batched.Common, classes: int) -> None:
    theta = rows(classes)
    exact = argmax.probabilities(theta, noise)
    assert relative(batched.probabilities(theta, noise), exact, 1e-18) < 1e-12
    assert relative(batched.probabilities(theta.float(), noise), exact, 1e-6) < 3e-5
    # Float32 rounds theta itself, which moves small probabilities; the large ones keep their digits.
    assert relative(batched.probabilities(theta.float(), noise), exact, 0.1) < 3e-6
    assert relative(batched.log_probabilities(theta, noise).exp(), exact, 1e-18) < 1e-12


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 3e-7), (torch.float64, 2e-16)])
def test_closed_forms_of_two_classes(dtype: torch.dtype, tolerance: float) -> None:
    delta = torch.linspace(-6, 6, 49, dtype=torch.float64)
    theta = torch.stack([delta, torch.zeros_like(delta)], -1)
    gaussian = torch.special.ndtr(delta / math.sqrt(2))
    p = batched.probabilities(theta.to(dtype), Gaussian())[:, 0].double()
    assert (p - gaussian).abs().max() < 3 * tolerance
    # Difference of two logistics: with a = e^delta, p = a (a - 1 - log a) / (a - 1)^2, and 1/2 at a = 1.
    a = delta.exp()
    logistic = torch.where(delta == 0, 0.5, a * (a - 1 - delta) / (a - 1).square())
    p = batched.probabilities(theta.to(dtype), Logistic())[:, 0].double()
    assert (p - logistic).abs().max() < 4 * tolerance + 1e-15


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_gradients(noise: batched.Common) -> None:
    theta = torch.stack([vector(0.3, -1.2, 2.0, 0.0), vector(0.0, 0.0, 0.0, -5.0)]).requires_grad_()
    for function in (batched.probabilities, batched.log_probabilities, batched.negative_entropy):
        assert torch.autograd.gradcheck(lambda x, f=function: f(x, noise), theta, check_forward_ad=True)
    prior = vector(0.5, 1.0, -1.0, 0.2).log_softmax(-1).requires_grad_()
    both = theta, prior
    assert torch.autograd.gradcheck(lambda x, p: batched.divergence(x, p, noise), both, check_forward_ad=True)
    hessian = torch.func.hessian(lambda x: batched.probabilities(x, noise)[0])
    wide, without = map(hessian, (vector(0.3, -math.inf, 2.0), vector(0.3, 2.0)))
    wide[::2, ::2] -= without  # a class that never wins changes no other's second derivatives
    assert wide.abs().max() < 1e-13
    v = vector(1.0, -2.0, 0.5, 3.0)
    (ours,) = torch.autograd.grad((batched.probabilities(theta, noise) * v).sum(), theta)
    (per_row,) = torch.autograd.grad((argmax.probabilities(theta, noise) * v).sum(), theta)
    assert (ours - per_row).abs().max() < 1e-13
    # What all classes have in common changes nothing and costs no digits; v + 2^40 has no rounding.
    (shifted,) = torch.autograd.grad(batched.probabilities(theta, noise), theta, (v + 2.0**40).expand(2, 4))
    assert isinstance(noise, Gumbel) or (shifted - ours).abs().max() < 1e-15  # of a Gumbel it is torch's softmax


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_negative_entropy_and_its_gradient_two_ways(noise: batched.Common) -> None:
    theta = rows(10).requires_grad_()
    q = batched.probabilities(theta, noise)
    plain = torch.xlogy(q, q).sum(-1)
    fused = batched.negative_entropy(theta, noise)
    assert (fused - plain).abs().max() < 1e-13
    assert (batched.negative_entropy(theta.detach(), noise) - plain).abs().max() < 1e-13  # without a gradient
    weights = torch.linspace(0.5, 2, len(theta), dtype=torch.float64)
    (ours,) = torch.autograd.grad((fused * weights).sum(), theta)
    (by_chain,) = torch.autograd.grad((plain * weights).sum(), theta)
    assert (ours - by_chain).abs().max() < 1e-12
    single = theta.detach().float().requires_grad_()
    (coarse,) = torch.autograd.grad((batched.negative_entropy(single, noise) * weights.float()).sum(), single)
    assert (coarse - ours).abs().max() < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_a_class_of_minus_infinity_is_no_class(noise: batched.Common, dtype: torch.dtype) -> None:
    small = torch.stack([vector(0.5, -1.0, 2.0), vector(0.0, 0.0, -9.0)]).to(dtype).requires_grad_()
    padded = torch.cat([small.detach(), torch.full((2, 4), -math.inf, dtype=dtype)], -1).requires_grad_()
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-13}[dtype]  # more classes, another step
    v = torch.arange(7, dtype=dtype)
    for function in (batched.probabilities, batched.negative_entropy):
        output, alone = function(padded, noise), function(small, noise)
        assert (output.reshape(2, -1)[:, :3] - alone.reshape(2, -1)).abs().max() < tolerance
        by = v if output.ndim == 2 else v[0] + 1
        (ours,) = torch.autograd.grad((output * by).sum(), padded)
        (expected,) = torch.autograd.grad((alone * (by[:3] if output.ndim == 2 else by)).sum(), small)
        assert (ours[:, :3] - expected).abs().max() < 10 * tolerance
        assert not ours[:, 3:].any()
    log_q = batched.log_probabilities(padded, noise)
    assert bool(torch.isneginf(log_q[:, 3:]).all())
    assert bool(torch.isfinite(log_q[:, :3]).all())
    (gradient,) = torch.autograd.grad(log_q[:, :3].sum(), padded)
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", GRIDS, ids=str)
@settings(deadline=None, max_examples=60)
@given(
    values=st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=12), spread=st.sampled_from([1e-3, 1.0, 1e4])
)
def test_properties(noise: batched.Common, dtype: torch.dtype, values: list[float], spread: float) -> None:
    theta = (torch.tensor(values, dtype=dtype) * (spread / 1e4)).requires_grad_()
    epsilon = {torch.float32: 3e-6, torch.float64: 1e-13}[dtype]
    p = batched.probabilities(theta, noise)
    assert abs(p.sum().item() - 1) < epsilon
    assert bool((p[theta.argsort()].diff() >= -epsilon).all())  # a larger parameter wins more often
    log_q = batched.log_probabilities(theta, noise)
    assert bool(torch.isfinite(log_q).all())
    assert (log_q.exp() - p).abs().max() < epsilon
    value = batched.negative_entropy(theta, noise)
    assert -math.log(len(values)) - epsilon < value.item() < epsilon
    for result in (log_q.sum(), value, (p * p).sum()):
        (gradient,) = torch.autograd.grad(result, theta, retain_graph=True)
        assert bool(torch.isfinite(gradient).all())
    assert abs(gradient.sum().item()) < 10 * epsilon  # shifts change nothing


def test_many_rows_are_cut_and_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = torch.randn(3, 70, 8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    whole = batched.probabilities(theta, Gaussian())
    monkeypatch.setitem(batched.BLOCK, "cpu", 4000)
    torch.testing.assert_close(batched.probabilities(theta, Gaussian()), whole, rtol=0, atol=1e-15)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_a_row_without_a_law_gives_nan(noise: batched.Common) -> None:
    theta = torch.stack([vector(0.0, math.nan), vector(math.inf, 0.0), vector(-math.inf, -math.inf), vector(1.0, 0.0)])
    assert batched.probabilities(theta, noise).isnan().all(-1).tolist() == [True, True, True, False]
