"""Sections 3, 4 and 7 of the paper: softmax and Perturb-Softmax, complete and minimal."""

import math
from fractions import Fraction
from math import e

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.perturb import argmax, discrete, inversion, softmax, uniform
from sumexp.perturb.learner import descend
from sumexp.perturb.noises import Cauchy, Discrete, Gaussian, Gumbel, Uniform, point_mass, signs
from sumexp.perturb.representation import HalfSpace, nearest_attained, smallest_eigenvalue
from sumexp.perturb.transforms import Noise
from tests.exact import vector
from tests.perturb.standard import CONTINUOUS

Q = Fraction
NOISES: list[Noise] = [*CONTINUOUS, signs(), point_mass()]
HALF = HalfSpace((1.0, 1.0, -2.0))
points = st.lists(st.floats(-6, 6), min_size=3, max_size=3)
some_noise = st.sampled_from([Gumbel(), Gaussian(), Uniform(), signs()])


def quadratic_form(p: list[sp.Expr], v: list[sp.Expr]) -> sp.Expr:
    """v^T (diag(p) - p p^T) v."""
    mean = sum(a * b for a, b in zip(p, v, strict=True))
    return sum(a * b**2 for a, b in zip(p, v, strict=True)) - mean**2


@pytest.mark.claim("perturb-complete-def", shows="counterexample", evidence="proof")
@pytest.mark.claim("perturb-softmax-complete", shows="counterexample", evidence="proof")
def test_no_softmax_and_no_average_of_softmaxes_has_an_entry_zero() -> None:
    # E2. With y = e^{theta_i}, S the sum of the others: 0 < y/(y + S) < 1; and an average of positives is positive.
    y, rest = sp.symbols("y S", positive=True)
    assert (y / (y + rest)).is_positive
    assert sp.simplify(1 - y / (y + rest)).is_positive


@pytest.mark.claim("perturb-softmax-complete", shows="correction", evidence="proof")
def test_logarithms_of_positive_probabilities_are_parameters() -> None:
    p = sp.symbols("p1:5", positive=True)
    total = sum(sp.exp(sp.log(x)) for x in p)
    assert [sp.exp(sp.log(x)) / total for x in p] == [x / sum(p) for x in p]  # and sum(p) = 1


@pytest.mark.claim("perturb-softmax-shift", shows="statement", evidence="proof")
def test_the_softmax_determines_all_differences_and_no_more() -> None:
    # If: the factor e^c cancels. Only if: log(p_i/p_j) = theta_i - theta_j, so equal laws have equal differences.
    a, b, c = sp.symbols("a b c", real=True)
    rest = sp.symbols("S", positive=True)
    p = sp.exp(a) / (sp.exp(a) + sp.exp(b) + rest)
    q = sp.exp(b) / (sp.exp(a) + sp.exp(b) + rest)
    assert sp.simplify(sp.expand_log(sp.log(sp.simplify(p / q)), force=True) - (a - b)) == 0
    shifted = sp.exp(a + c) / (sp.exp(a + c) + sp.exp(b + c) + sp.exp(c) * rest)
    assert sp.simplify(shifted - p) == 0


@pytest.mark.claim("perturb-gumbel-max", shows="counterexample", evidence="exact")
def test_gumbel_argmax_is_not_the_gumbel_softmax() -> None:
    # E7. At (1, 0): e/(e + 1) = 0.7311 against e (e - 2)/(e - 1)^2 = 0.6613.
    assert round(e / (e + 1), 4) == 0.7311
    assert round(e * (e - 2) / (e - 1) ** 2, 4) == 0.6613
    assert abs(argmax.quadrature(vector(1, 0), Gumbel())[0].item() - e / (e + 1)) < 1e-14
    assert abs(softmax.mean(vector(1, 0))[0].item() - e * (e - 2) / (e - 1) ** 2) < 1e-14
    # Nor are they equal in general: sympy decides that the two numbers differ.
    assert sp.simplify(sp.E / (sp.E + 1) - sp.E * (sp.E - 2) / (sp.E - 1) ** 2) != 0


@pytest.mark.claim("perturb-gumbel-max", shows="correction", evidence="proof")
def test_gumbel_argmax_is_the_softmax() -> None:
    # With y = e^{-u}: F_j = e^{-y a_j}, f_i du = a_i e^{-y a_i} dy, a = e^theta; Z the sum of all a.
    a, z, y = sp.symbols("a Z y", positive=True)
    assert sp.integrate(a * sp.exp(-y * z), (y, 0, sp.oo)) == a / z


@pytest.mark.claim("perturb-gumbel-softmax-prob", shows="statement", evidence="proof")
def test_the_gumbel_softmax_is_a_probability_vector() -> None:
    # Each softmax is positive and sums to 1; so does its average over noise of mass 1.
    y = sp.symbols("y1:5", positive=True)
    assert sp.simplify(sum(x / sum(y) for x in y)) == 1
    assert all((x / sum(y)).is_positive for x in y)
    assert abs(softmax.mean(vector(3, 0, -2, 1)).sum().item() - 1) < 1e-14


@pytest.mark.claim("perturb-lse-gradient", shows="statement", evidence="proof")
def test_gradient_and_hessian_of_log_sum_exp() -> None:
    theta = sp.symbols("t1:5", real=True)
    total = sum(map(sp.exp, theta))
    p = [sp.exp(x) / total for x in theta]
    for i, x in enumerate(theta):
        assert sp.simplify(sp.diff(sp.log(total), x) - p[i]) == 0
        for j, y in enumerate(theta):
            assert sp.simplify(sp.diff(p[i], y) - (p[i] * int(i == j) - p[i] * p[j])) == 0
    # Its kernel: with sum p = 1, v^T H v = sum over i < j of p_i p_j (v_i - v_j)^2, zero only for constant v.
    q, v = sp.symbols("p1:5", positive=True), sp.symbols("v1:5", real=True)
    pairs = sum(q[i] * q[j] * (v[i] - v[j]) ** 2 for i in range(4) for j in range(i))
    homogeneous = (
        sum(q) * sum(a * b**2 for a, b in zip(q, v, strict=True)) - sum(a * b for a, b in zip(q, v, strict=True)) ** 2
    )
    assert sp.expand(homogeneous - pairs) == 0
    assert sp.expand(quadratic_form(list(q), list(v)) - pairs).subs(q[3], 1 - q[0] - q[1] - q[2]).expand() == 0


@pytest.mark.claim("perturb-lemma-4-2", shows="statement", evidence="proof")
@pytest.mark.claim("perturb-thm-7-1", shows="statement", evidence="proof")
def test_softmax_is_minimal_exactly_where_log_sum_exp_is_strictly_convex() -> None:
    # Along v the second derivative is the pair sum above: positive unless v is constant, so a convex set without two
    # points that differ by c 1 has lse strictly convex; and along 1 lse is affine, the law constant.
    # Lemma 4.2: with y = e^{theta + gamma} it is so at each value of the noise, and so is the mean over it.
    theta, c = sp.symbols("t1:4", real=True), sp.symbols("c", real=True)
    lse = lambda xs: sp.log(sum(map(sp.exp, xs)))  # noqa: E731
    shifted = sp.log(sp.factor(sum(sp.exp(x) * sp.exp(c) for x in theta)))
    assert sp.simplify(sp.expand_log(shifted, force=True) - lse(theta) - c) == 0
    t = sp.symbols("t", real=True)
    v = sp.symbols("v1:4", real=True)
    y = sp.symbols("y1:4", positive=True)
    along = sp.log(sum(a * sp.exp(t * b) for a, b in zip(y, v, strict=True)))
    bend = sp.diff(along, t, 2).subs(t, 0)
    pairs = sum(y[i] * y[j] * (v[i] - v[j]) ** 2 for i in range(3) for j in range(i)) / sum(y) ** 2
    assert sp.simplify(bend - pairs) == 0


@pytest.mark.claim("perturb-conditions", shows="counterexample", evidence="proof")
def test_many_laws_for_one_parameter_and_one_parameter_for_each_law() -> None:
    # E10. Each noise is 0 or standard normal, by a coin: gamma_2 - gamma_1 is 0 (1/4), N(0, 1) (1/2) or N(0, 2) (1/4).
    # p_1 rises from 0 to 3/8 left of delta = 0 and by symmetry from 5/8 to 1 right of it; the tie at 0 has all between.
    x = sp.symbols("x", real=True)
    left = (1 + sp.erf(x / sp.sqrt(2))) / 4 + (1 + sp.erf(x / 2)) / 8
    assert sp.diff(left, x).is_positive
    assert (sp.limit(left, x, -sp.oo), left.subs(x, 0)) == (0, sp.Rational(3, 8))


@pytest.mark.claim("perturb-conditions", shows="correction", evidence="exact")
def test_each_of_the_three_conditions_can_fail_alone() -> None:
    # I fails alone in the test above. II fails: where theta_1 + theta_2 <= 2 theta_3 and the sum is 0, the softmax has
    # p_1 p_2 <= p_3^2, which (2/5, 2/5, 1/5) violates.
    assert Q(2, 5) * Q(2, 5) > Q(1, 5) ** 2
    # III fails: with uniform noise delta = 2 and 3 have one law; the law is a function of delta, onto [0, 1].
    assert uniform.probability(2) == uniform.probability(3) == 1


@pytest.mark.claim("perturb-lse-expected", shows="statement", evidence="quadrature")
@settings(deadline=None, max_examples=25)
@given(points, points, some_noise, st.sampled_from([0.5, 1.0, 2.0]))
def test_mean_is_the_slope_of_a_convex_potential(xs: list[float], ys: list[float], noise: Noise, tau: float) -> None:
    a, b = vector(*xs).requires_grad_(), vector(*ys)
    f = lambda x: softmax.potential(x, noise, tau)  # noqa: E731
    (gradient,) = torch.autograd.grad(f(a), a)
    assert (gradient - softmax.mean(a.detach(), noise, tau)).abs().max() < 1e-11
    # The gradient inequality of convex functions.
    assert f(b) >= f(a) + (gradient * (b - a.detach())).sum() - 1e-12


@pytest.mark.claim("perturb-f-finite", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("noise", [noise for noise in NOISES if noise.finite_max], ids=str)
def test_potential_lies_between_two_means_of_maxima(noise: Noise) -> None:
    # max <= lse <= max + log d, and theta_1 + gamma_1 <= max <= max theta + max gamma <= max theta + sum |gamma|.
    f = softmax.potential(theta := vector(1, 0, -2), noise).item()
    assert 1 + noise.mean - 1e-14 <= f
    atoms = isinstance(noise, Discrete)
    most = float(discrete.potential([1, 0, -2], noise) if atoms else argmax.potential(theta, noise))
    assert most <= f <= most + math.log(3)


@pytest.mark.claim("perturb-f-finite", shows="statement", evidence="quadrature")
def test_without_moments_the_mean_of_the_softmax_still_exists() -> None:
    # The mean of |Cauchy| over [0, R] is log(1 + R^2)/pi, without bound: f is infinite. The laws are not.
    assert math.log(1 + 1e300) / math.pi > 200
    with pytest.raises(ValueError, match="infinite"):
        softmax.potential(vector(1, 0), Cauchy())
    assert abs(softmax.mean(vector(1, 0), Cauchy()).sum().item() - 1) < 1e-14


@pytest.mark.claim("perturb-thm-4-1", shows="counterexample", evidence="proof")
@pytest.mark.claim("perturb-almost-convex", shows="counterexample", evidence="proof")
def test_unbounded_differences_do_not_make_a_set_complete() -> None:
    # E1 (a). Theta = {(t, 2t, 3t)}: all differences are unbounded, yet p_2 = x/(1 + x + x^2) <= 1/3 with x = e^t.
    x = sp.symbols("x", positive=True)
    gap = sp.Rational(1, 3) - x / (1 + x + x**2)
    assert sp.simplify(gap - (x - 1) ** 2 / (3 * (x**2 + x + 1))) == 0  # not negative
    # E1 (b). theta_1 + theta_2 <= 2 theta_3 has, for each i, points with theta_i - theta_j >= n for all j != i ...
    n = 7
    for i, theta in enumerate([(n, -2 * n, 0), (-2 * n, n, 0), (-n, -n, 0)]):
        assert theta[0] + theta[1] <= 2 * theta[2]
        assert all(theta[i] - theta[j] >= n for j in range(3) if j != i)
    # ... and for point-mass noise attains exactly p_1 p_2 <= p_3^2, so not (2/5, 2/5, 1/5).
    a, b, c, z = sp.symbols("a b c Z", real=True)
    products = sp.exp(a - z) * sp.exp(b - z) / sp.exp(c - z) ** 2
    assert sp.simplify(products - sp.exp(a + b - 2 * c)) == 0
    assert Q(2, 5) ** 2 > Q(1, 5) ** 2
    # Nor is that set almost convex: it has (16, 1, 4)/21 and (1, 16, 4)/21, its closure not their middle.
    assert 16 * 1 == 4**2 < Q(16 + 1, 2) ** 2


@pytest.mark.claim("perturb-thm-4-1", shows="counterexample", evidence="quadrature")
def test_the_half_space_misses_a_gumbel_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    target = softmax.mean(vector(1, 1, 0))
    assert (target - vector(0.4002, 0.4002, 0.1996)).abs().max() < 5e-5
    assert not HALF.complete
    # Its parameters are (1, 1, 0) + c 1 and no others, for which theta_1 + theta_2 - 2 theta_3 = 2 > 0.
    assert (inversion.softmax_parameters(target) - vector(1, 1, -2) / 3).abs().max() < 1e-12
    law, distance = nearest_attained(target, HALF)
    assert abs(distance - 0.164) < 5e-4
    # The nearest law is the uniform one; its distance is that of (0.4002, 0.4002, 0.1996) from (1/3, 1/3, 1/3).
    assert (law - 1 / 3).abs().max() < 1e-6
    # In other units the same laws; far from 0 classes 1 and 3 share what class 2 leaves: sqrt(3/2) of it is missed.
    gap = nearest_attained(vector(0.8, 0.1, 0.1), HALF)[1]
    for scale in (0.05, 20.0):
        assert nearest_attained(vector(0.8, 0.1, 0.1), HALF, Gumbel(0.0, scale), scale)[1] == pytest.approx(gap, 1e-9)
    far = nearest_attained(vector(1 - 2e-6, 1e-6, 1e-6), HalfSpace(HALF.normal, -40.0))[1]
    assert far == pytest.approx(math.sqrt(1.5) * 1e-6, rel=1e-4)
    # The second way: a grid over the half space, everything at least as far.
    grid = torch.cartesian_prod(torch.linspace(-6, 6, 25).double(), torch.linspace(-6, 6, 25).double())
    theta = torch.cat([grid, torch.zeros(len(grid), 1).double()], -1)
    assert (softmax.mean(theta[HALF.contains(theta)]) - target).norm(dim=-1).min() > distance - 1e-9
    # The law of cold noise with far atoms moves near ties only, as that of classes 1 and 2 at (5, -5, 0) 10^5.
    atoms = torch.cartesian_prod(*[vector(0, 1e6)] * 3)
    monkeypatch.setattr(softmax, "mean", lambda x, _, tau: ((x.unsqueeze(-2) + atoms) / tau).softmax(-1).mean(-2))
    target = softmax.mean(vector(5e5 + 0.0012, -5e5 - 0.0012, 0), signs(), 0.001)
    assert nearest_attained(target, HALF, Discrete((0.0, 1e6), (0.5, 0.5)), 0.001)[1] < 1e-6


@pytest.mark.claim("perturb-thm-4-1", shows="correction", evidence="proof")
def test_a_set_is_complete_exactly_if_its_shifts_fill_the_space() -> None:
    # The three steps of the proof in sumexp.perturb.representation.
    # Onto: E lse(theta + gamma) - lse(gamma) lies between min and max of theta: lse is monotone and lse(x + c) = lse(x)
    # + c. Along t v it grows like max v, since lse(t v + g)/t -> max v; so phi has slope max v - <p, v> > 0.
    v, g, p = sp.symbols("v1:4"), sp.symbols("g1:4", real=True), sp.symbols("p1:3", positive=True)
    weights = [*p, 1 - p[0] - p[1]]
    v_ordered = [v[0], v[0] - sp.Symbol("s", positive=True), v[0] - sp.Symbol("r", positive=True)]  # max is v_1
    slope = sp.expand(v_ordered[0] - sum(w * x for w, x in zip(weights, v_ordered, strict=True)))
    s, r = sp.symbols("s r", positive=True)
    assert sp.expand(slope - (p[1] * s + (1 - p[0] - p[1]) * r)) == 0  # positive on the open simplex
    t = sp.symbols("t", positive=True)
    growth = sp.limit(sp.log(sp.exp(g[0]) + sp.exp(g[1] - 2 * t) + sp.exp(g[2] - 3 * t)), t, sp.oo)
    assert sp.simplify(growth - g[0]) == 0  # lse(t v + g) - t max v stays bounded, v = (0, -2, -3)
    # One-to-one: v^T H v = sum over i < j of w_ij (v_i - v_j)^2 with w_ij = E p_i p_j / tau > 0.
    w, x = sp.symbols("w1:4", positive=True), sp.symbols("x1:4", real=True)
    matrix = sp.Matrix([[w[0] + w[1], -w[0], -w[1]], [-w[0], w[0] + w[2], -w[2]], [-w[1], -w[2], w[1] + w[2]]])
    form = (sp.Matrix([x]) * matrix * sp.Matrix(x))[0]
    pairs = w[0] * (x[0] - x[1]) ** 2 + w[1] * (x[0] - x[2]) ** 2 + w[2] * (x[1] - x[2]) ** 2
    assert sp.expand(form - pairs) == 0


@pytest.mark.claim("perturb-thm-4-1", shows="correction", evidence="quadrature")
@pytest.mark.claim("perturb-almost-convex", shows="correction", evidence="quadrature")
@pytest.mark.claim("perturb-range", shows="statement", evidence="quadrature")
@pytest.mark.claim("perturb-complete-def", shows="correction", evidence="quadrature")
@settings(deadline=None, max_examples=20)
@given(points, some_noise)
def test_sets_whose_shifts_fill_the_space_reach_every_target(values: list[float], noise: Noise) -> None:
    p = torch.softmax(vector(*values), -1)
    theta = inversion.softmax_parameters(p, noise)
    assert (softmax.mean(theta, noise) / p - 1).abs().max() < 1e-12
    assert bool((softmax.mean(vector(*values), noise) > 0).all())  # nothing else is reached
    # A half space whose normal does not sum to 0.
    assert HalfSpace((1.0, 0.0, 0.0), -5.0).complete
    low = theta - theta[0] - 5
    assert bool(HalfSpace((1.0, 0.0, 0.0), -5.0).contains(low))
    # A set that is not convex: theta_3 = sin(5 (theta_1 - theta_3)).
    bent = theta - theta[2] + torch.sin(5 * (theta[0] - theta[2]))
    assert abs(bent[2] - torch.sin(5 * (bent[0] - bent[2]))) < 1e-12
    for point in (low, bent):
        assert (softmax.mean(point, noise) - p).abs().max() < 1e-12
    # The range of the gradient lies in dom f* = Delta.
    assert abs(softmax.mean(low, noise).sum().item() - 1) < 1e-12


@pytest.mark.claim("perturb-thm-4-1-noise", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_every_distribution_function_decays_to_the_left(noise: Noise) -> None:
    # E3: the hypothesis excludes nothing, not even the Cauchy noise, for which f is infinite.
    values = noise.cdf(vector(-1e15, -1e5, -10, 0))
    assert values[0] < 1e-15
    assert bool((values.diff() >= 0).all())


@pytest.mark.claim("perturb-vertices-closure", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_zero_one_vectors_are_limits_and_no_values(noise: Noise) -> None:
    n, zero = vector(5, 10, 20, 40), torch.zeros(4).double()
    theta, lower = torch.stack([n, zero, zero], -1), torch.stack([n, zero, -n / 3], -1)
    others, fewer = (softmax.mean(x, noise)[:, 1:].sum(-1) for x in (theta, lower))
    assert bool((others > 0).all())
    assert bool((others.diff() < 0).all())
    assert bool((fewer < others).all())  # where another lead is longer it is less: the equal leads are the worst
    # Cauchy noise decays slowly: both P(gamma > n) and P(gamma < -n) are about 1/(pi n), the former twice.
    last = 3 / (math.pi * 40) * 1.1 if noise == Cauchy() else 1e-14
    assert others[-1] < last
    if noise in CONTINUOUS:  # Perturb-Argmax
        p = argmax.probabilities(torch.stack([theta, lower]), noise)[..., 1:].sum(-1)
        assert bool((p.diff() <= 0).all() & (p[1] <= p[0]).all() & (p[0, -1] < last))
    else:
        assert discrete.probabilities([5, 0, 0], noise) == [1, 0, 0]


@pytest.mark.claim("perturb-73-smooth", shows="statement", evidence="proof")
def test_the_potential_is_smooth_and_convex_as_a_mean_of_such_functions() -> None:
    # For each value g of the noise the second derivative along v is the pair sum of test_softmax_is_minimal...,
    # non-negative; so is its mean. It is bounded by max (v_i - v_j)^2 / 4, so that the mean can be differentiated.
    y, z = sp.symbols("y z", positive=True)
    d = sp.symbols("d", real=True)
    pair = y * z * d**2 / (y + z) ** 2
    assert sp.factor(d**2 / 4 - pair) == d**2 * (y - z) ** 2 / (4 * (y + z) ** 2)
    # The derivatives of softmax are polynomials in it (test_gradient_and_hessian_of_log_sum_exp), so all those of
    # log-sum-exp are bounded, whatever the noise: the mean has derivatives of every order, and is closed and proper, as
    # it is continuous and finite.


@pytest.mark.claim("perturb-lemma-4-2", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_hessian_is_positive_on_the_quotient(noise: Noise) -> None:
    theta = 2 * torch.randn(2 if noise == Cauchy() else 10, 3, generator=torch.Generator().manual_seed(2)).double()
    hessian, least = softmax.hessian(theta, noise), smallest_eigenvalue(theta, noise)
    trace = hessian.diagonal(dim1=-2, dim2=-1).sum(-1)  # of 0, the least and a larger eigenvalue
    assert bool(((least > 1e-5) & (2 * least < trace)).all())
    assert hessian.sum(-1).abs().max() < 1e-15
    assert bool((softmax.pair_moments(theta, noise) > 0).all())


@pytest.mark.claim("perturb-thm-4-3", shows="statement", evidence="quadrature")
@settings(deadline=None, max_examples=40)
@given(points, points, some_noise)
def test_the_mean_is_strictly_monotone(xs: list[float], ys: list[float], noise: Noise) -> None:
    a, b = vector(*xs), vector(*ys)
    difference = a - b - (a - b).mean()
    moved = softmax.mean(a, noise) - softmax.mean(b, noise)
    if difference.abs().max() > 1e-3:
        assert (moved * difference).sum() > 0
    # The condition is needed as well: a shift changes nothing.
    assert (softmax.mean(a + 3, noise) - softmax.mean(a, noise)).abs().max() < 1e-13


def test_a_learner_on_the_half_space_stops_short_of_its_target() -> None:
    target = softmax.mean(vector(1, 1, 0))
    free, held = descend(target, steps=150), descend(target, HALF, steps=150)
    assert free.divergence[-1] < 1e-12
    assert bool((free.divergence.diff() <= 1e-15).all())
    # Held: theta stays at 0, whose law is the nearest; the divergence is that of the target from the uniform law.
    assert abs(held.divergence[-1] - (target * (3 * target).log()).sum()) < 1e-12
    assert held.divergence[-1] > 0.04
    assert bool(HALF.contains(held.theta))


def test_a_learner_on_the_half_space_reaches_what_it_contains() -> None:
    law = lambda theta: softmax.mean(theta, Gaussian(), 0.7)  # noqa: E731
    reached = descend(law(vector(-1, 0.5, 0.3)), HALF, Gaussian(), 0.7)
    assert reached.divergence[-1] < 1e-9
    assert (law(reached.theta) - reached.law).abs().max() < 1e-15
    with pytest.raises(ValueError, match="boundary"):
        descend(vector(1, 0, 0))
