"""The introduction and appendices A and B of the paper: Gibbs, the hinge loss, the cross entropy."""

from fractions import Fraction

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp import functional
from sumexp.nce import Joint, families, rational

Q = Fraction
DRAWS = 10**5

few = settings(deadline=None, max_examples=8)


@pytest.mark.claim("nce-gibbs", shows="correction", evidence="proof")
def test_a_finite_cross_entropy_is_least_at_the_law_itself_alone() -> None:
    # Cross entropy minus H(p), where that is finite, is KL = E_p[-log z] with z = q/p, and E_p z <= 1.
    z = sp.symbols("z", positive=True)
    gap = -sp.log(z) - (1 - z)  # -log z >= 1 - z, and E_p[1 - z] >= 0
    assert gap.subs(z, 1) == 0
    assert sp.solve(sp.diff(gap, z), z) == [1]
    assert sp.diff(gap, z, 2) == 1 / z**2  # strictly convex: equality at z = 1 only, that is q = p


@pytest.mark.claim("nce-gibbs", shows="correction", evidence="exact")
@given(a=st.lists(st.integers(1, 6), min_size=3, max_size=3), b=st.lists(st.integers(1, 6), min_size=3, max_size=3))
def test_divergence_is_zero_for_equal_laws_only(a: list[int], b: list[int]) -> None:
    p, q = [Q(v, sum(a)) for v in a], [Q(v, sum(b)) for v in b]
    divergence = rational.divergence(p, q)
    assert (divergence == rational.LogSum({})) is (p == q)
    assert float(divergence) >= -1e-15


@pytest.mark.claim("nce-gibbs", shows="counterexample", evidence="proof")
def test_with_infinite_entropy_every_law_is_a_minimiser() -> None:
    # C11: p_k = c/(k log^2 k), k >= 2. It can be normalised: the terms fall, and their integral is finite.
    k, c, n = sp.symbols("k c n", positive=True)
    assert sp.diff(-1 / sp.log(k), k) == 1 / (k * sp.log(k) ** 2)
    assert sp.limit(-1 / sp.log(n) + 1 / sp.log(2), n, sp.oo) == 1 / sp.log(2)
    # -log p_k = log k + 2 log log k - log c, so -p_k log p_k >= c/(2 k log k) for large k; the sum of those diverges.
    log_k = sp.symbols("l", positive=True)
    surprise = log_k + 2 * sp.log(log_k) - sp.log(c)
    assert sp.simplify((surprise / log_k).subs(c, 1) - 1 - 2 * sp.log(log_k) / log_k) == 0
    assert sp.limit(surprise / log_k, log_k, sp.oo) == 1
    assert sp.simplify(sp.diff(sp.log(sp.log(k)), k) - 1 / (k * sp.log(k))) == 0
    assert sp.limit(sp.log(sp.log(n)), n, sp.oo) == sp.oo
    # By Gibbs E_p[-log q] >= H(p), so it is infinite for every q, and q = p is not singled out.


def margins(scores: Tensor) -> Tensor:
    """The first score is that of the label."""
    return scores[:, 0] - scores[:, 1:].amax(1)


@pytest.mark.claim("nce-hinge-bound", shows="statement", evidence="proof")
def test_the_hinge_loss_is_above_the_zero_one_loss_and_convex() -> None:
    m, a, b, w = sp.symbols("m a b w", real=True)
    hinge = sp.Max(0, 1 - m)
    # margin <= 0: 1 - m >= 1 = the zero-one loss; margin > 0: the loss is 0, and Max(0, .) is not below it.
    assert sp.solve_univariate_inequality(1 - m >= 1, m, relational=False) == sp.Interval(-sp.oo, 0)
    assert hinge.subs(m, 0) == 1
    assert all(sp.diff(sp.Heaviside(-m), m).subs(m, at) == 0 for at in (-1, 1))  # the zero-one loss has no slope
    # Convex: a maximum of two affine functions. The chord of an affine function is the function.
    line = 1 - m
    chord = w * line.subs(m, a) + (1 - w) * line.subs(m, b) - line.subs(m, w * a + (1 - w) * b)
    assert sp.expand(chord) == 0


@pytest.mark.claim("nce-hinge-bound", shows="statement", evidence="sampled")
@given(seed=st.integers(0, 10**6), spread=st.floats(0.01, 50), classes=st.integers(2, 6))
@few
def test_the_hinge_loss_on_a_hundred_thousand_draws(seed: int, spread: float, classes: int) -> None:
    # An inequality that holds for every draw: no false alarm but by rounding, which 1e-12 covers.
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(DRAWS, classes, generator=generator, dtype=torch.float64)
    scores[::7, 1] = scores[::7, 0]  # ties count as errors
    loss = functional.hinge(scores[:, 0], scores[:, 1:], reduction="none")
    zero_one = (margins(scores) <= 0).to(torch.float64)
    assert bool((loss >= zero_one - 1e-12).all())
    assert torch.allclose(loss, (1 - margins(scores)).clamp_min(0), atol=1e-12)
    # Convex in the whole vector of scores, hence in the margin.
    other = spread * torch.randn(DRAWS, classes, generator=generator, dtype=torch.float64)
    share = torch.rand(DRAWS, 1, generator=generator, dtype=torch.float64)
    between = share * scores + (1 - share) * other
    chord = share[:, 0] * loss + (1 - share[:, 0]) * functional.hinge(other[:, 0], other[:, 1:], reduction="none")
    assert bool((functional.hinge(between[:, 0], between[:, 1:], reduction="none") <= chord + 1e-12).all())


@pytest.mark.claim("nce-hinge-sampling", shows="statement", evidence="sampled")
@given(seed=st.integers(0, 10**6), m=st.integers(1, 8))
@few
def test_the_hinge_loss_over_sampled_negatives_is_a_lower_bound(seed: int, m: int) -> None:
    # An inequality that holds for every draw, without rounding: no false alarm.
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(DRAWS // 8, 9, generator=generator, dtype=torch.float64)
    full = functional.hinge(scores[:, 0], scores[:, 1:], reduction="none")
    drawn = torch.randint(1, 9, (len(scores), m), generator=generator)
    sampled = functional.hinge(scores[:, 0], scores.gather(1, drawn), reduction="none")
    assert bool((sampled <= full).all())
    everything = functional.hinge(scores[:, 0], scores[:, 1:].flip(1), reduction="none")
    assert torch.equal(everything, full)


@pytest.mark.claim("nce-hinge-sampling", shows="statement", evidence="exact")
def test_the_mean_over_samples_of_one_negative() -> None:
    # Scores 1; 0, 2: the full loss is 1 - (1 - 2) = 2; one uniform negative gives max(0, 1 - 1) = 0 or 2: mean 1.
    positive, negatives = torch.ones(2), torch.tensor([[0.0], [2.0]])
    assert functional.hinge(positive[:1], torch.tensor([[0.0, 2.0]])).item() == 2
    assert functional.hinge(positive, negatives, reduction="none").tolist() == [0, 2]


FULL = Joint(torch.tensor([[1, 4, 2], [5, 5, 3]], dtype=torch.float64) / 20)


def cross_entropy(joint: Joint, scores: Tensor) -> Tensor:
    """(5), by the full loss of `sumexp.functional` over every pair, weighted by its probability."""
    rows, labels = joint.p.nonzero(as_tuple=True)
    return joint.p[rows, labels] @ functional.cross_entropy(scores[rows], labels, reduction="none")


@pytest.mark.claim("nce-ce-optimum", shows="statement", evidence="proof")
def test_the_optimum_is_the_log_joint_up_to_a_constant_for_each_x() -> None:
    # The gradient in s(x, y) is pop(x) softmax_y(s) - pop(x, y), which vanishes at s = log pop(x, y) + c.
    pair, others = sp.symbols("pair others", positive=True)  # pop(x, y), and the sum of the other pop(x, y')
    s, c = sp.symbols("s c", real=True)
    rest = sp.symbols("rest", positive=True)  # the sum of the other e^s
    loss = (pair + others) * sp.log(sp.exp(s) + rest) - pair * s
    slope = (pair + others) * sp.exp(s) / (sp.exp(s) + rest) - pair
    assert sp.simplify(sp.diff(loss, s) - slope) == 0
    assert sp.simplify(slope.subs({s: sp.log(pair) + c, rest: others * sp.exp(c)})) == 0
    # Only there, by Gibbs: softmax_y(s) = pop(y|x), so e^s is proportional to pop(x, y).


@pytest.mark.claim("nce-ce-optimum", shows="statement", evidence="quadrature")
def test_descending_the_cross_entropy_reaches_the_log_joint() -> None:
    free = torch.eye(6, dtype=torch.float64).view(2, 3, 6)
    theta = families.fit(free, lambda s: cross_entropy(FULL, s), tolerance=1e-10)
    difference = theta.view(2, 3) - FULL.p.log()
    assert (difference - difference[:, :1]).abs().max() < 1e-7
    least = -(FULL.p * FULL.log_y_given_x).sum()
    assert cross_entropy(FULL, theta.view(2, 3)).item() == pytest.approx(least.item(), rel=1e-12)
