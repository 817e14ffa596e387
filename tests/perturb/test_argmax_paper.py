"""Sections 2, 5, 7.1 and 8 of the paper: Perturb-Argmax, bounded and discrete noise, convex duality; Figures 1 to 7."""

from fractions import Fraction
from itertools import pairwise
from math import erfc, exp, pi, sqrt

import mpmath as mp
import pytest
import sympy as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sumexp.perturb import argmax, discrete, inversion, uniform
from sumexp.perturb.noises import Cauchy, Discrete, Exponential, Gaussian, Gumbel, Logistic, Uniform, point_mass, signs
from sumexp.perturb.representation import smallest_eigenvalue
from sumexp.perturb.transforms import Continuous
from tests.exact import vector
from tests.perturb.standard import FINITE

Q = Fraction
SIGNS = signs()
POSITIVE: list[Continuous] = [Gumbel(), Gaussian(), Logistic(), Cauchy()]  # densities positive on the line
rationals = st.fractions(-4, 4, max_denominator=6)
delta, z = sp.symbols("delta z", real=True)


@pytest.mark.claim("perturb-max-def", shows="statement", evidence="exact")
@settings(deadline=None, max_examples=40)
@given(st.lists(rationals, min_size=3, max_size=3), st.lists(rationals, min_size=3, max_size=3))
def test_every_way_to_break_ties_is_a_sub_gradient(theta: list[Fraction], other: list[Fraction]) -> None:
    # Ties go to the first winner, to the last, or are shared: each law p satisfies the sub-gradient inequality.
    value, moved = discrete.potential(theta, SIGNS), discrete.potential(other, SIGNS)
    for pick in (lambda w: {w[0]: Q(1)}, lambda w: {w[-1]: Q(1)}, lambda w: {i: Q(1, len(w)) for i in w}):
        p = [Q(0)] * 3
        for weight, _, winners in discrete.outcomes(theta, SIGNS):
            for i, share in pick(winners).items():
                p[i] += weight * share
        assert sum(p) == 1
        assert moved >= value + sum(a * (b - c) for a, b, c in zip(p, other, theta, strict=True))


@pytest.mark.claim("perturb-thm-5-3-threshold", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Exponential()], ids=str)
def test_directional_derivative_by_the_threshold_of_each_class(noise: Continuous) -> None:
    # d/d eps E max(theta + eps v + gamma) = sum v_i E P(gamma_i > max_{j != i}(theta_j + gamma_j) - theta_i): for two
    # classes an integral over the other's noise, by mpmath.
    v, theta, h = (1.5, -0.5), (0.6, 0.0), 1e-3
    cdf = {
        "Gumbel": lambda x: mp.exp(-mp.exp(-x)),
        "Gaussian": mp.ncdf,
        "Exponential": lambda x: -mp.expm1(-x) if x > 0 else mp.mpf(0),
    }[type(noise).__name__]
    density = {"Gumbel": lambda x: mp.exp(-x - mp.exp(-x)), "Gaussian": mp.npdf, "Exponential": lambda x: mp.exp(-x)}[
        type(noise).__name__
    ]
    ends = [0, 0.6, 5, 40] if noise == Exponential() else [-12, -3, 0, 5, 40]
    wins = [mp.quad(lambda x, gap=gap: density(x) * (1 - cdf(x - gap)), ends) for gap in (0.6, -0.6)]
    at = lambda step: argmax.potential(vector(theta[0] + step * h * v[0], theta[1] + step * h * v[1]), noise)  # noqa: E731
    slope = ((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)).item()
    assert abs(slope - float(v[0] * wins[0] + v[1] * wins[1])) < 1e-9


@pytest.mark.claim("perturb-thm-5-1", shows="counterexample", evidence="exact")
def test_a_convex_set_of_one_point_represents_one_law() -> None:
    # E1. Theta = {0} is convex. With Gumbel noise its only law is the uniform one, by symmetry with any density.
    assert (argmax.probabilities(vector(0, 0, 0), Gumbel()) - 1 / 3).abs().max() < 1e-16
    assert discrete.bounds([Q(1, 2), Q(0)], SIGNS) == [(Q(3, 4), Q(3, 4)), (Q(1, 4), Q(1, 4))]  # {(1/2, 0)}: one law


@pytest.mark.claim("perturb-thm-5-1", shows="correction", evidence="proof")
def test_over_the_whole_space_every_law_is_a_sub_gradient() -> None:
    # phi(theta) - <p, theta> - E max gamma lies between min and max of theta, minus <p, theta>; along t v it grows
    # like max v - <p, v>, positive on the open simplex unless v is constant: there is a minimum, where p is a
    # sub-gradient. The growth: max(t v + g) - t max v -> the g of the class with the largest v.
    for t in (3, 100):  # g = (3, -1, 10), v = (0, -2, -3)
        assert max(3, -1 - 2 * t, 10 - 3 * t) == 3
    p, r, s = sp.symbols("p r s", positive=True)
    q = sp.symbols("q", positive=True)
    slope = sp.Integer(0) - (p * 0 + q * (-s) + (1 - p - q) * (-r))
    assert sp.expand(slope - q * s - (1 - p - q) * r) == 0


@pytest.mark.claim("perturb-thm-5-1", shows="correction", evidence="exact")
@pytest.mark.claim("perturb-range", shows="statement", evidence="exact")
@pytest.mark.parametrize("noise", [SIGNS, point_mass(), Discrete((0, 1, 3), (Q(1, 3),) * 3)], ids=["signs", "0", "3"])
def test_the_segments_of_discrete_noise_cover_the_simplex(noise: Discrete) -> None:
    # As delta runs through the line, p_1 runs through [0, 1] = dom f*, each segment beginning where the last ends.
    graph = discrete.segments(noise)
    assert graph[0].least == 0
    assert graph[-1].most == 1
    reached = Q(0)
    for segment in graph:
        assert segment.least == reached
        reached = Q(segment.most)
    # With point mass the tie alone covers all; away from it only the vertices are left.
    if noise == point_mass():
        assert [(s.least, s.most) for s in graph] == [(0, 0), (0, 1), (1, 1)]


@pytest.mark.claim("perturb-thm-5-1", shows="correction", evidence="quadrature")
@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.sampled_from(FINITE))
@example([0.5, 0.0, -1.0], Cauchy())
def test_every_open_target_is_an_argmax_law(values: list[float], noise: Continuous) -> None:
    p = torch.softmax(vector(*values), -1)
    theta = inversion.argmax_parameters(p, noise)
    assert abs(theta.sum().item()) < 1e-12
    assert (argmax.probabilities(theta, noise) / p - 1).abs().max() < 1e-12


@pytest.mark.claim("sumexp-argmax-vertices", shows="statement", evidence="exact")
def test_bounded_noise_attains_the_vertices() -> None:
    assert uniform.probability(2) == 1
    assert uniform.probability(Q(-2)) == 0
    assert uniform.probability(Q(2) - Q(1, 10**9)) == 1 - Q(1, 8) * Q(1, 10**18) < 1
    assert discrete.bounds([Q(3), Q(0)], SIGNS) == [(1, 1), (0, 0)]


@pytest.mark.claim("sumexp-argmax-vertices", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("noise", POSITIVE, ids=str)
def test_a_positive_density_attains_no_vertex(noise: Continuous) -> None:
    assert argmax.probabilities(vector(30, 0), noise)[1] > 0
    # P = integral of a positive function: for Gaussian noise erfc(15)/2 = 3.6e-100.
    if noise == Gaussian():
        assert abs(argmax.probabilities(vector(30, 0), noise)[1].item() / (erfc(15) / 2) - 1) < 1e-12


@pytest.mark.claim("perturb-thm-5-3", shows="statement", evidence="proof")
def test_the_hessian_is_a_laplacian_with_positive_weights() -> None:
    # p_i = integral of f(u - a) F(u - b) F(u - c): its derivatives under the integral, for any F with f = F'.
    u, a, b, c = sp.symbols("u a b c", real=True)
    cdf = sp.Function("F")
    integrand = sp.diff(cdf(u - a), u) * cdf(u - b) * cdf(u - c)
    weight = sp.diff(cdf(u - a), u) * sp.diff(cdf(u - b), u) * cdf(u - c)
    assert sp.simplify((sp.diff(integrand, b) + weight).doit()) == 0  # off the diagonal -w_ab
    # Shift invariance: the derivatives in a, b, c sum to the integral of a derivative, which is 0.
    total = sum(sp.diff(integrand, x) for x in (a, b, c)) + sp.diff(integrand, u)
    assert sp.simplify(total.doit()) == 0
    # So v^T H v = sum over pairs of w (v_i - v_j)^2 (executed in the tests of section 4): with f > 0 and F > 0 every
    # weight is positive, and the form vanishes for constant v only. This needs a bounded f, the kinks no density.


@pytest.mark.claim("perturb-thm-5-3", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("noise", POSITIVE, ids=str)
def test_the_weights_are_positive_and_the_map_strictly_monotone(noise: Continuous) -> None:
    theta = 2 * torch.randn(20, 4, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    assert bool((argmax.pair_weights(theta, noise) > 0).all())
    assert bool((smallest_eigenvalue(theta, noise, None) > 1e-6).all())
    p = argmax.probabilities(theta, noise)
    for i in range(0, 20, 2):
        gap = theta[i] - theta[i + 1]
        assert ((p[i] - p[i + 1]) * (gap - gap.mean())).sum() > 0


def piece(low: int, high: int) -> list[Fraction]:
    """Points inside and at the ends of a piece."""
    return [Q(low) + Q(k, 6) * (high - low) for k in range(7)]


@pytest.mark.claim("perturb-54-triangular", shows="statement", evidence="proof")
def test_the_difference_of_two_uniform_noises_is_triangular() -> None:
    x = sp.symbols("x", real=True)
    # The density is the length of {x : |x| <= 1, |x - z| <= 1} over 4: [z - 1, 1] for z >= 0, [-1, z + 1] for z <= 0.
    right, left = sp.integrate(sp.Rational(1, 4), (x, z - 1, 1)), sp.integrate(sp.Rational(1, 4), (x, -1, z + 1))
    assert sp.expand(right - (2 - z) / 4) == 0
    assert sp.expand(left - (2 + z) / 4) == 0
    assert sp.expand(sp.integrate(left.subs(z, x), (x, -2, z)) - (z + 2) ** 2 / 8) == 0
    upper = sp.Rational(1, 2) + sp.integrate(right.subs(z, x), (x, 0, z))
    assert sp.expand(upper - (1 - (2 - z) ** 2 / 8)) == 0


@pytest.mark.claim("perturb-54-triangular", shows="statement", evidence="sampled")
def test_a_million_differences_as_in_figure_7() -> None:
    # 20 bins at z < 4.5 (7e-6 each): false-alarm rate 1.4e-4.
    n = 10**6
    draws = Uniform().sample((n, 2), torch.Generator().manual_seed(7))
    counts = torch.histc(draws[:, 0] - draws[:, 1], 20, -2, 2)
    cdf = [float(uniform.probability(-2 + 0.2 * k)) for k in range(21)]
    for count, p in zip(counts.tolist(), (b - a for a, b in pairwise(cdf)), strict=True):
        assert abs(count - n * p) < 4.5 * sqrt(n * p * (1 - p))


@pytest.mark.claim("perturb-54-functions", shows="statement", evidence="proof")
@pytest.mark.claim("perturb-54-gradient", shows="statement", evidence="proof")
def test_exact_functions_of_uniform_noise() -> None:
    # f - theta_2 = E max(delta + Z, 0) = integral of (delta + z) h(z) over z > -delta, h triangular.
    rising, falling = (2 + z) / 4, (2 - z) / 4
    negative = sp.integrate((delta + z) * falling, (z, -delta, 2))  # -2 <= delta <= 0: -delta >= 0
    positive = sp.integrate((delta + z) * rising, (z, -delta, 0)) + sp.integrate((delta + z) * falling, (z, 0, 2))
    beyond = sp.integrate((delta + z) * rising, (z, -2, 0)) + sp.integrate((delta + z) * falling, (z, 0, 2))
    assert sp.expand(negative - (delta + 2) ** 3 / 24) == 0
    assert sp.expand(positive - (delta + (2 - delta) ** 3 / 24)) == 0
    assert sp.expand(beyond - delta) == 0
    # The law is the derivative, (delta + 2)^2/8 and 1 - (2 - delta)^2/8, and 0 or 1 only where |delta| >= 2.
    assert sp.expand(sp.diff(negative, delta) - (delta + 2) ** 2 / 8) == 0
    assert sp.expand(sp.diff(positive, delta) - (1 - (2 - delta) ** 2 / 8)) == 0
    assert sp.solveset(sp.diff(negative, delta), delta, sp.Interval(-2, 0)) == sp.FiniteSet(-2)
    assert sp.solveset(sp.diff(positive, delta) - 1, delta, sp.Interval(0, 2)) == sp.FiniteSet(2)
    # C^2 at 0 and at +-2, with jumps of the third derivative.
    for order in range(4):
        left, right = (sp.diff(f, delta, order).subs(delta, 0) for f in (negative, positive))
        assert (left == right) == (order < 3)
        assert (sp.diff(negative, delta, order).subs(delta, -2) == 0) == (order < 3)
    # The functions of the package are these.
    for low, high, f in ((-4, -2, sp.Integer(0)), (-2, 0, negative), (0, 2, positive), (2, 4, beyond)):
        for point in piece(low, high):
            at = sp.Rational(point.numerator, point.denominator)
            value, slope = uniform.potential(point), uniform.probability(point)
            assert sp.Rational(value.numerator, value.denominator) == f.subs(delta, at)
            assert sp.Rational(slope.numerator, slope.denominator) == sp.diff(f, delta).subs(delta, at)
        assert uniform.probability(Q(low)) + uniform.probability(Q(-low)) == 1  # p_1 + p_2


def test_exact_functions_agree_with_the_quadrature() -> None:
    for gap in (-2.5, -1.3, 0.0, 0.4, 1.99, 3.0):
        theta = vector(gap, 0)
        assert abs(argmax.probabilities(theta, Uniform())[0].item() - uniform.probability(gap)) < 1e-15
        assert abs(argmax.potential(theta, Uniform()).item() - uniform.potential(gap)) < 1e-14


@pytest.mark.claim("perturb-prop-5-4", shows="counterexample", evidence="proof")
def test_gaussian_noise_has_a_smooth_bounded_density_and_is_one_to_one() -> None:
    # E4. p_1 is the distribution function of N(0, 2): its derivative e^{-delta^2/4}/(2 sqrt(pi)) is positive.
    p = (1 + sp.erf(delta / 2)) / 2
    slope = sp.exp(-(delta**2) / 4) / (2 * sp.sqrt(sp.pi))
    assert sp.simplify(sp.diff(p, delta) - slope) == 0
    assert slope.is_positive
    assert round(exp(-9 / 4) / (2 * sqrt(pi)), 4) == 0.0297
    assert abs(argmax.jacobian(vector(3, 0), Gaussian())[0, 0].item() - exp(-9 / 4) / (2 * sqrt(pi))) < 1e-15


@pytest.mark.claim("perturb-non-discrete", shows="counterexample", evidence="exact")
@pytest.mark.claim("perturb-prop-5-4", shows="correction", evidence="exact")
def test_a_density_of_bounded_support_gives_a_function_with_plateaus() -> None:
    assert uniform.probability(Q(2)) == uniform.probability(Q(5, 2)) == uniform.probability(Q(7)) == 1
    assert all(uniform.probability(a) < uniform.probability(b) for a, b in pairwise(piece(-2, 2)))
    # Single-valued needs the density: the bounded noise on -1, 1 has none and is not.
    assert discrete.bounds([Q(0), Q(0)], SIGNS)[0] == (Q(1, 4), Q(3, 4))


@pytest.mark.claim("perturb-prop-5-5", shows="statement", evidence="exact")
def test_signs_are_not_identifiable_in_either_sense() -> None:
    # The potential is affine between the ties -2, 0, 2; compared at seven points of each piece.
    pieces = ((-4, -2, lambda d: Q(0)), (-2, 0, lambda d: (d + 2) / 4), (0, 2, lambda d: 3 * d / 4 + Q(1, 2)),
              (2, 4, lambda d: d))  # fmt: skip
    assert discrete.ties(SIGNS) == [-2, 0, 2]
    for low, high, formula in pieces:
        for point in piece(low, high):
            assert discrete.potential([point, Q(0)], SIGNS) == formula(point)
    # Many laws for one theta, and many theta for one law.
    assert discrete.bounds([Q(0), Q(0)], SIGNS)[0] == (Q(1, 4), Q(3, 4))
    assert (
        discrete.probabilities([Q(1, 3), Q(0)], SIGNS)
        == discrete.probabilities([Q(1), Q(0)], SIGNS)
        == [Q(3, 4), Q(1, 4)]
    )


@pytest.mark.claim("perturb-55-subdifferential", shows="statement", evidence="exact")
def test_the_sub_differential_of_signs() -> None:
    assert [tuple(segment) for segment in discrete.segments(SIGNS)] == [
        (None, -2, 0, 0),
        (-2, -2, 0, Q(1, 4)),
        (-2, 0, Q(1, 4), Q(1, 4)),
        (0, 0, Q(1, 4), Q(3, 4)),
        (0, 2, Q(3, 4), Q(3, 4)),
        (2, 2, Q(3, 4), 1),
        (2, None, 1, 1),
    ]


@pytest.mark.claim("perturb-fig-1-3", shows="statement", evidence="exact")
def test_what_figures_1_and_3_draw() -> None:
    # Figure 3: the derivative for uniform noise rises from 0 at -2 through 1/2 at 0 to 1 at 2, convex then concave;
    # the sub-differential for signs is a staircase with plateaus 0, 1/4, 3/4, 1. Figure 1: softmax-type maps reach the
    # open simplex, argmax with bounded noise its vertices as well.
    assert [uniform.probability(Q(k)) for k in (-2, -1, 0, 1, 2)] == [0, Q(1, 8), Q(1, 2), Q(7, 8), 1]
    assert [s.least for s in discrete.segments(SIGNS) if s.least == s.most] == [0, Q(1, 4), Q(3, 4), 1]


@pytest.mark.claim("perturb-dirderiv", shows="counterexample", evidence="exact")
def test_equal_directional_derivatives_are_no_criterion() -> None:
    # E13. At 0, x is differentiable with f'(1) = 1, f'(-1) = -1; |x| is not, with f'(1) = f'(-1) = 1.
    derivative = lambda f, v: (f(Q(1, 10) * v) - f(Q(0))) / Q(1, 10)  # noqa: E731  exact, as both are linear on rays
    assert (derivative(lambda x: x, 1), derivative(lambda x: x, -1)) == (1, -1)
    assert (derivative(abs, 1), derivative(abs, -1)) == (1, 1)


@pytest.mark.claim("perturb-dirderiv", shows="correction", evidence="exact")
@settings(deadline=None, max_examples=40)
@given(st.lists(rationals, min_size=3, max_size=3), st.lists(rationals, min_size=3, max_size=3))
def test_a_convex_function_is_smooth_where_opposite_slopes_cancel(theta: list[Fraction], v: list[Fraction]) -> None:
    # E max is differentiable exactly where its sub-differential is a point: where no tie has positive probability.
    smooth = all(least == most for least, most in discrete.bounds(theta, SIGNS))
    both = lambda w: discrete.directional(theta, w, SIGNS) + discrete.directional(theta, [-x for x in w], SIGNS)  # noqa: E731
    assert both(v) >= 0
    if smooth:
        assert both(v) == 0
    else:
        assert any(both([int(i == j) for j in range(3)]) > 0 for i in range(3))


@pytest.mark.claim("perturb-subgradient", shows="statement", evidence="exact")
@settings(deadline=None, max_examples=40)
@given(st.sampled_from([Q(-2), Q(-1), Q(0), Q(1, 2), Q(2)]), st.fractions(0, 1, max_denominator=12), rationals)
def test_sub_gradients_by_three_criteria(gap: Fraction, p: Fraction, other: Fraction) -> None:
    # For two classes, p_1 = p: (i) in the segment, (ii) f'(v) >= <p, v> in all directions (homogeneous: four suffice
    # with f'(c 1) = c), (iii) the inequality f(tau) >= f(theta) + <p, tau - theta> at the ties and beyond.
    law = (p, 1 - p)
    theta = [gap, Q(0)]
    ((least, most), _) = discrete.bounds(theta, SIGNS)
    inside = least <= p <= most
    directions = [(1, 0), (-1, 0), (0, 1), (0, -1)]
    by_slope = all(discrete.directional(theta, v, SIGNS) >= law[0] * v[0] + law[1] * v[1] for v in directions)
    value = discrete.potential(theta, SIGNS)
    # f - <p, .> is convex and piecewise linear with bends at the ties: its minimum is at a tie or is not attained.
    conjugate = max(p * t - discrete.potential([t, Q(0)], SIGNS) for t in map(Q, (-2, 0, 2)))
    assert inside == by_slope == (conjugate == p * gap - value)
    if inside:  # and p lies in dom f*
        assert discrete.potential([other, Q(0)], SIGNS) >= value + p * (other - gap)


@pytest.mark.claim("perturb-cor-8-2", shows="statement", evidence="exact")
@settings(deadline=None, max_examples=30)
@given(st.lists(rationals, min_size=3, max_size=3))
def test_conjugate_is_minus_the_mean_noise_of_the_winner(theta: list[Fraction]) -> None:
    # <p, theta> - f(theta) = -E gamma_{i*}, ties broken alike on both sides: max = theta_{i*} + gamma_{i*}.
    p, winning = [Q(0)] * 3, Q(0)
    for weight, largest, winners in discrete.outcomes(theta, SIGNS):
        p[winners[0]] += weight
        winning += weight * (largest - theta[winners[0]])
    conjugate = sum(a * b for a, b in zip(p, theta, strict=True)) - discrete.potential(theta, SIGNS)
    assert conjugate == -winning
    # It is the supremum: no other point gives more.
    for other in ([Q(0)] * 3, [Q(2), Q(-2), Q(0)], [Q(-1), Q(1), Q(3)]):
        assert sum(a * b for a, b in zip(p, other, strict=True)) - discrete.potential(other, SIGNS) <= conjugate
    # Off the simplex it is infinite: <p, t 1> - f(t 1) = t (sum p - 1) - f(0), and likewise along -e_i where p_i < 0.
    for t in (10, 1000):
        assert t * (Q(11, 10) - 1) - discrete.potential([Q(0)] * 3, SIGNS) == Q(t, 10) - Q(3, 4)
        assert discrete.potential([Q(-t), Q(0), Q(0)], SIGNS) == Q(1, 2)  # bounded, while <p, -t e_1> = t |p_1|


@pytest.mark.claim("perturb-cor-8-2", shows="statement", evidence="quadrature")
def test_conjugate_for_gumbel_noise_is_the_negative_entropy() -> None:
    theta, noise = vector(1, 0, -1), Gumbel.mean_zero()
    p = argmax.probabilities(theta, noise)
    conjugate = ((p * theta).sum() - argmax.potential(theta, noise)).item()
    assert abs(conjugate - (p * p.log()).sum().item()) < 1e-14


@pytest.mark.claim("perturb-gauss-tail", shows="statement", evidence="quadrature")
def test_on_the_right_the_gaussian_decays_faster() -> None:
    x = vector(2, 4, 6, 8)
    gaussian = torch.special.erfc(x / sqrt(2)) / 2
    gumbel = -torch.expm1(-torch.exp(-x))
    ratio = gaussian / gumbel
    assert bool((ratio.diff() < 0).all())
    assert ratio[-1] < 1e-11
    # e^{-x^2/2} / e^{-x} -> 0.
    t = sp.symbols("t", positive=True)
    assert sp.limit(sp.exp(-(t**2) / 2 + t), t, sp.oo) == 0
