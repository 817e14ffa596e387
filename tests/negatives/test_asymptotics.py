"""Theorem 3, its proof and its remainder; Lemma 6; the sampled gradient as m grows."""

from fractions import Fraction
from itertools import pairwise
from math import log, sqrt

import mpmath
import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mpf
from scipy.stats import binom, norm
from torch import Tensor

from sumexp import negatives
from sumexp.negatives import reference
from sumexp.negatives.reference import mean, weighted_sum
from tests.exact import log_of
from tests.negatives.test_tables import PI, VALUES

Q = Fraction
LOGITS = torch.tensor([0.2, 1.1, -0.7, 0.5, 1.9, 0.0], dtype=torch.float64)
WEIGHTS_Q = (1, 3, 1, 2, 1, 2)  # q in tenths, the label's with it
LOG_Q = torch.tensor(WEIGHTS_Q, dtype=torch.float64).log() - log(10)


def importance(m: int) -> negatives.Scheme:
    return negatives.scheme(LOG_Q, 0, m, "importance")


s2, k3, k4, k5, k6, mu, m, u = sp.symbols("s2 k3 k4 k5 k6 mu m u", positive=True)


def moments_of_a_mean() -> dict[int, sp.Expr]:
    """Central moments 2..6 of the mean of m terms with cumulants s2, k3, ..., from the cumulant generating function."""
    generating = sum(k * u**j / sp.factorial(j) / m ** (j - 1) for j, k in enumerate((s2, k3, k4, k5, k6), 2))
    series = sp.series(sp.exp(generating), u, 0, 7).removeO()
    return {j: sp.expand(series.coeff(u, j) * sp.factorial(j)) for j in range(2, 7)}


@pytest.mark.claim("negatives-theorem-3", shows="correction", evidence="proof")
def test_the_remainder_by_taylor_and_cumulants() -> None:
    # With v = (G - mu)/mu, log G - log mu = log(1 + v). G is at least e^{f_y} and at most its largest value, so beyond
    # |v| > 1/2 the logarithm is bounded and the probability exponentially small in m (Hoeffding); within, the Taylor
    # remainder of log^2 after v^6 and v^7 is O(v^8), of mean O(m^-4), and E v^7 = O(m^-4).
    v = sp.symbols("v")
    central = moments_of_a_mean()
    order = {j: sp.limit(moment * m ** ((j + 1) // 2), m, sp.oo) for j, moment in central.items()}
    assert all(value.is_finite and value != 0 for value in order.values())  # E v^j = O(m^-ceil(j/2))

    def expected(function: sp.Expr, terms: int) -> sp.Expr:
        series = sp.series(function, v, 0, 7).removeO()
        total = sum(series.coeff(v, j) * central[j] / mu**j for j in range(2, 7))
        expanded = sp.expand(total)
        return sum(expanded.coeff(m, -j) / m**j for j in range(1, terms + 1))

    third = 11 * k4 / (12 * mu**4) - 25 * s2 * k3 / (3 * mu**5) + 137 * s2**3 / (12 * mu**6)
    square = s2 / mu**2 / m + (sp.Rational(11, 4) * s2**2 / mu**4 - k3 / mu**3) / m**2 + third / m**3
    gap = -s2 / (2 * mu**2) / m + (k3 / (3 * mu**3) - sp.Rational(3, 4) * s2**2 / mu**4) / m**2
    assert sp.simplify(expected(sp.log(1 + v) ** 2, 3) - square) == 0
    assert sp.simplify(expected(sp.log(1 + v), 2) - gap) == 0


def in_40_digits(m: int) -> tuple[mpf, mpf, tuple[mpf, ...]]:
    """E(l - l_m)^2 and E l - l_m by the integrals of log and log^2 as they stand, and the moments of one term."""
    q = [mpf(w) / 9 for w in WEIGHTS_Q[1:]]  # normalised over the negatives: 1 of 10 is the label's
    z = [mpmath.exp(mpf(f) - mpf(LOGITS[0].item())) / p for f, p in zip(LOGITS[1:].tolist(), q, strict=True)]
    average = mpmath.fdot(q, z)
    h, low = mpf(1) / 16, -100
    log_mean = square_mean = mpf(0)
    for k in range(int(106 / h)):
        t = mpmath.exp(low + k * h)
        transform = mpmath.fdot(q, [mpmath.exp(-t * value / m) for value in z]) ** m
        weight = h * mpmath.exp(-t) * (1 - transform)
        log_mean += weight
        square_mean -= 2 * weight * (mpmath.euler + mpmath.log(t))
    bound = mpmath.log(1 + average)
    central = tuple(mpmath.fdot(q, [((v - average) / (1 + average)) ** j for v in z]) for j in (2, 3, 4))
    return square_mean - 2 * bound * log_mean + bound**2, log_mean - bound, central


@pytest.mark.claim("negatives-theorem-3", shows="correction", evidence="quadrature")
def test_the_remainder_to_six_digits_at_a_hundred_thousand_negatives() -> None:
    # Two integrals by two programs: 40 digits and the plain formula, float64 and the positive one.
    many = 10**5
    with mpmath.workdps(40):
        square, gap, (c2, c3, c4) = in_40_digits(many)
        second = mpf(11) / 4 * c2**2 - c3
        third = mpf(11) / 12 * (c4 - 3 * c2**2) - mpf(25) / 3 * c2 * c3 + mpf(137) / 12 * c2**3
        assert mpmath.almosteq(many**2 * (square - c2 / many), second + third / many, rel_eps=mpf("1e-8"))
        assert mpmath.almosteq(many**3 * (square - c2 / many - second / many**2), third, rel_eps=mpf("1e-3"))
        assert mpmath.almosteq(many * gap, -c2 / 2 + (c3 / 3 - mpf(3) / 4 * c2**2) / many, rel_eps=mpf("1e-9"))
    exact, series = negatives.implicit_loss(LOGITS, importance(many), 1e-14), negatives.expansion(LOGITS, importance(1))
    assert exact.squared_error.item() == pytest.approx(float(square), rel=1e-13, abs=0)
    assert exact.gap.item() == pytest.approx(-float(gap), rel=1e-13, abs=0)
    gaps = (-c2 / 2, c3 / 3 - mpf(3) / 4 * c2**2)
    for ours, reference_value in zip((*series.gap, *series.square), (*gaps, c2, second, third), strict=True):
        assert ours.item() == pytest.approx(float(reference_value), rel=1e-12, abs=0)
    remainder = many**2 * (exact.squared_error.item() - series.square[0].item() / many)
    assert remainder == pytest.approx(series.square[1].item() + series.square[2].item() / many, rel=1e-6, abs=0)


def test_the_binomial_moments_agree_with_the_expansion() -> None:
    # Two negatives with constant weights: E(l - l_m)^2 by the binomial law, 2,001 terms, and three terms of the series.
    many, p = 2000, 2 / 3
    logits = torch.tensor([2.0, 1.0, 4.0], dtype=torch.float64).log()
    scheme = negatives.scheme(torch.tensor([0.0, 1 - p, p], dtype=torch.float64).log(), 0, many, "constant")
    g = 3 + 3 * np.arange(many + 1) / many
    exact = float((binom.pmf(np.arange(many + 1), many, p) * np.log(g / 5) ** 2).sum())  # mu = 2 + 1 + 3 p
    series = sum(term.item() / many**k for k, term in enumerate(negatives.expansion(logits, scheme).square, 1))
    assert series == pytest.approx(exact, rel=1e-9, abs=0)
    assert negatives.implicit_loss(logits, scheme).squared_error.item() == pytest.approx(exact, rel=1e-12, abs=0)


@pytest.mark.parametrize("scores", [(800.0, 800.0), (1e5, 1e5), (745.0, -745.0), (-800.0, -800.0), (-1e5, -1e5)])
def test_finite_logits_of_any_spread_have_finite_coefficients(scores: tuple[float, float]) -> None:
    """By hand, the label at 0 and two negatives at f_1 + log 1, f_2 + log 3, drawn with 1/2 each.

    Far above the label: in units of their mean the terms are 1/2 and 3/2, or 2 and 0, and the moments of their
    deviation 1/4, 0, 1/16 and 1, 0, 1. Far below: all are 0. As floats the terms are inf, and inf / inf is NaN.
    """
    logits = torch.tensor([scores[0], 0.0, scores[1] + log(3)], dtype=torch.float64, requires_grad=True)
    scheme = negatives.scheme(torch.full((3,), -log(3), dtype=torch.float64), 1, 1, "importance")
    series = negatives.expansion(logits, scheme)
    c2 = 0.0 if scores[0] < 0 else 0.25 if scores[0] == scores[1] else 1.0
    fourth = c2**2  # of two deviations of one size
    expected = (-c2 / 2, -3 * c2**2 / 4, c2, 11 * c2**2 / 4, 11 * (fourth - 3 * c2**2) / 12 + 137 * c2**3 / 12)
    for ours, value in zip((*series.gap, *series.square), expected, strict=True):
        assert ours.item() == pytest.approx(value, rel=1e-10, abs=1e-300)
        (gradient,) = torch.autograd.grad(ours, logits, retain_graph=True)
        assert gradient.isfinite().all()


@pytest.mark.claim("negatives-theorem-3", shows="counterexample", evidence="quadrature")
@pytest.mark.parametrize("factor", [0.0, 1.0, 7.0])
def test_the_printed_theorem_accepts_every_constant(factor: float) -> None:
    # D1. With 7 sigma^2/(m mu^2), or with 0, in the place of sigma^2/(m mu^2) the rest E_m tends to 0 just as well.
    leading = negatives.expansion(LOGITS, importance(1)).square[0].item()
    rest = [
        abs(negatives.implicit_loss(LOGITS, importance(many)).squared_error.item() - factor * leading / many)
        for many in (1, 10, 10**3, 10**5)
    ]
    assert rest[1:] == sorted(rest[1:], reverse=True)
    assert rest[-1] < 1e-4


@pytest.mark.claim("negatives-theorem-3-mu", shows="statement", evidence="exact")
@pytest.mark.parametrize("hits", ["redraw", "mask"])
def test_mu_is_the_partition_function_under_importance_weights(hits: str) -> None:
    q, w = reference.scheme(PI, 1, 3, "importance", hits)  # type: ignore[arg-type]
    mu_over_positive = 1 + mean(q, 3, lambda counts: weighted_sum(counts, w, VALUES))
    assert mu_over_positive == sum(VALUES)


@pytest.mark.claim("negatives-theorem-3-scope", shows="statement", evidence="exact")
def test_relative_weights_have_no_eta_free_of_m() -> None:
    # rho / q = m w is eta. For relative weights it is m q_y / q_y', and the bound log(1 + m q_y S) exceeds any number.
    def eta(kind: str, many: int) -> Fraction:
        return many * reference.scheme(PI, 1, many, kind, "mask", PI)[1][0]  # type: ignore[arg-type]

    for kind in ("constant", "importance", "tail"):
        assert eta(kind, 1) == eta(kind, 8)
    assert eta("relative", 8) == 8 * eta("relative", 1) > 0
    logits = log_of(VALUES)
    log_q = log_of(PI)
    at = [negatives.implicit_loss(logits, negatives.scheme(log_q, 1, many, "relative", "mask")) for many in (10, 10**6)]
    assert at[1].bound.item() - at[0].bound.item() == pytest.approx(log(10**5), rel=0.02)  # grows like log m
    # Yet the two still come together: m E(l - l_m)^2 tends to the ratio of variance and squared mean of one term.
    z = [PI[1] / p * v for p, v in zip(PI, VALUES, strict=True)]
    z[1] = Q(0)
    first, square = (sum((p * v**j for p, v in zip(PI, z, strict=True)), Q(0)) for j in (1, 2))
    assert 10**6 * at[1].squared_error.item() == pytest.approx(float((square - first**2) / first**2), rel=1e-4, abs=0)


@pytest.mark.claim("negatives-theorem-3-snr", shows="statement", evidence="exact")
def test_no_variance_no_error_and_more_variance_more_error() -> None:
    q, w = reference.scheme(tuple(v / sum(VALUES) for v in VALUES), 1, 2, "importance", "redraw")
    assert {weighted_sum(counts, w, VALUES) for _, counts in reference.draws(q, 2)} == {sum(VALUES) - 1}
    # Between that law and the uniform one: sigma^2/mu^2 rises, and so does the error of 4 negatives.
    logits = log_of(VALUES)
    ratios, errors = [], []
    for share in (0.0, 0.25, 0.5, 1.0):
        law = torch.log((1 - share) * torch.softmax(logits, 0) + share / 4)
        scheme = negatives.scheme(law, 1, 4, "importance")
        ratios.append(negatives.expansion(logits, scheme).square[0].item())
        errors.append(negatives.implicit_loss(logits, scheme).squared_error.item())
    assert ratios == sorted(ratios)
    assert errors == sorted(errors)
    assert ratios[0] < 1e-28
    assert errors[0] < 1e-12
    assert errors[1] == pytest.approx(ratios[1] / 4, rel=0.3, abs=0)


@pytest.mark.claim("negatives-lemma-6", shows="statement", evidence="proof")
def test_lemma_6_by_characteristic_functions_and_the_delta_method() -> None:
    # One centred term has E e^{isZ} = 1 - sigma^2 s^2/2 + O(s^3); at s/sqrt(m), to the m-th power, it tends to
    # e^{-sigma^2 s^2/2} (Levy). The logarithm of G is differentiable at mu > 0 with slope 1/mu.
    s, sigma, r = sp.symbols("s sigma r", positive=True)
    third = sp.symbols("third", complex=True)
    transform = 1 - sigma**2 * s**2 * r**2 / 2 + third * s**3 * r**3  # r = 1/sqrt(m)
    assert sp.series(sp.log(transform) / r**2, r, 0, 1).removeO() == -(sigma**2) * s**2 / 2
    g = sp.symbols("g", positive=True)
    assert sp.diff(sp.log(g), g).subs(g, mu) == 1 / mu


@pytest.mark.claim("negatives-lemma-6", shows="statement", evidence="quadrature")
def test_lemma_6_with_two_labels_to_draw_from() -> None:
    # e^f is 2 for the positive, 1 for a negative drawn with probability 1/3, 4 for the other one; eta = 1. So
    # G = 3 + 3 Binomial(m, 2/3) / m, and its distance from the normal law falls as 1/sqrt(m); nothing is sampled.
    low, high, positive, p = 1.0, 4.0, 2.0, 2 / 3
    centre = positive + low + p * (high - low)
    sigma = (high - low) * sqrt(p * (1 - p))
    for_g, for_log = [], []
    for many in (10**2, 10**4, 10**6):
        span = int(8 * sqrt(many * p * (1 - p)))
        counts = np.arange(max(0, int(many * p) - span), min(many, int(many * p) + span) + 1)
        below = binom.cdf(counts, many, p)
        g = positive + low + (high - low) * counts / many
        for_g.append(np.abs(below - norm.cdf(sqrt(many) * (g - centre) / sigma)).max())
        for_log.append(np.abs(below - norm.cdf(sqrt(many) * np.log(g / centre) * centre / sigma)).max())
    for distances in (for_g, for_log):
        assert distances[0] < 0.1
        for first, then in pairwise(distances):
            assert first / then == pytest.approx(10, rel=0.1, abs=0)


@pytest.mark.claim("negatives-proof-thm3-gap", shows="counterexample", evidence="proof")
def test_convergence_in_law_says_nothing_of_second_moments() -> None:
    # V_m = m with probability 1/m, else 0, tends to 0 in law; its second moment is m. Added to any sequence it leaves
    # the limit in law alone.
    n = sp.symbols("n", positive=True)
    assert sp.limit(1 / n, n, sp.oo) == 0  # P(V != 0)
    assert sp.limit(n**2 / n, n, sp.oo) == sp.oo  # E V^2


@pytest.mark.claim("negatives-proof-thm3-gap", shows="correction", evidence="proof")
def test_the_missing_step_is_uniform_integrability() -> None:
    # |log G - log mu| <= e^{-f_y} |G - mu|, as the slope 1/g of the logarithm is at most e^{-f_y} on g >= e^{f_y}; and
    # the squares m (G - mu)^2 are uniformly integrable: for finite sets their second moment 3 s2^2 + k4/m is bounded,
    # and whenever sigma^2 is finite they converge in law with means that are all sigma^2.
    least, more = sp.symbols("least more", positive=True)
    assert sp.simplify(1 / least - 1 / (least + more)).is_positive
    central = moments_of_a_mean()
    assert sp.simplify(m * central[2] - s2) == 0
    assert sp.simplify(m**2 * central[4] - (3 * s2**2 + k4 / m)) == 0


@pytest.mark.claim("negatives-gradient-asymptotic", shows="statement", evidence="quadrature")
def test_the_bias_of_the_gradient_falls_as_one_over_m() -> None:
    # m times the bias tends to the gradient of the gap's coefficient -sigma^2/(2 mu^2), by autograd.
    logits = LOGITS.clone().requires_grad_()
    (limit,) = torch.autograd.grad(negatives.expansion(logits, importance(1)).gap[0], logits)
    errors = []
    for many in (10, 10**2, 10**3, 10**4):
        moments = negatives.gradient_moments(LOGITS, importance(many))
        errors.append((many * moments.bias - limit).norm().item())
        assert torch.allclose(moments.mean, mean_gradient(many), atol=1e-12)
    assert errors[-1] < 1e-3 * limit.norm().item()
    assert errors[-2] / errors[-1] == pytest.approx(10, rel=0.1, abs=0)


def mean_gradient(many: int) -> Tensor:
    """The gradient of the exact implicit loss, by autograd."""
    logits = LOGITS.clone().requires_grad_()
    (slope,) = torch.autograd.grad(negatives.implicit_loss(logits, importance(many)).loss, logits)
    return slope
