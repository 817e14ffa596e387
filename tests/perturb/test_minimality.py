"""Minimality of Perturb-Argmax by kinks: both halves of the chapter's theorem, and what Theorem 5.3 needs of it."""

import math
import random
from fractions import Fraction
from itertools import product

import pytest
import torch

from sumexp.perturb import argmax, discrete
from sumexp.perturb.noises import Discrete, Exponential, Uniform

Q = Fraction


def even(values: list[Fraction] | range) -> Discrete:
    return Discrete(tuple(Q(v) for v in values), (Q(1, len(values)),) * len(values))


def moved(theta: list[Fraction], v: list[Fraction], t: Fraction) -> list[Fraction]:
    return [a + t * b for a, b in zip(theta, v, strict=True)]


def bend(theta: list[Fraction], v: list[Fraction], noise: Discrete) -> Fraction:
    """phi(0) + phi(1) - 2 phi(1/2) along the segment: 0 if phi is affine on it, else positive."""
    ends = [discrete.potential(moved(theta, v, t), noise) for t in (Q(0), Q(1, 2), Q(1))]
    return Q(ends[0] - 2 * ends[1] + ends[2])


def has_kink(theta: list[Fraction], v: list[Fraction], noise: Discrete) -> bool:
    """Whether at some outcome two winners of different slopes meet inside the segment."""
    for drawn in product(noise.values, repeat=len(theta)):
        lines = [(a + Q(g), b) for a, b, g in zip(theta, v, drawn, strict=True)]
        for (a, b), (c, d) in product(lines, repeat=2):
            if b != d and 0 < (t := (c - a) / (b - d)) < 1 and max(e + t * f for e, f in lines) == a + t * b:
                return True
    return False


@pytest.mark.claim("sumexp-kinks", shows="statement", evidence="exact")
@pytest.mark.claim("perturb-thm-5-3", shows="statement", evidence="exact")
def test_the_potential_is_affine_exactly_where_no_outcome_has_a_kink() -> None:
    # The lemma behind both halves, for noise of any kind; here random atoms and random segments, three classes.
    draw = random.Random(1)
    kinks = 0
    for _ in range(80):
        noise = even(draw.sample(range(-4, 5), 3))
        theta, v = ([Q(draw.randint(-6, 6), 4) for _ in range(3)] for _ in range(2))
        kink = has_kink(theta, v, noise)
        phi = [discrete.potential(moved(theta, v, Q(k, 16)), noise) for k in range(17)]
        affine = all(phi[k] - 2 * phi[k + 1] + phi[k + 2] == 0 for k in range(15))
        assert affine == (not kink)
        kinks += kink
    assert 10 < kinks < 80


@pytest.mark.claim("sumexp-kinks", shows="statement", evidence="exact")
@pytest.mark.claim("perturb-prop-5-4", shows="correction", evidence="exact")
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("atoms", [[-1, 1], [0, 1, 2], [0, 1, 5]])
def test_a_gap_in_the_differences_is_a_segment_of_equal_laws(classes: int, atoms: list[int]) -> None:
    # Differences are integers: none lies in (0, 1). The first parameter moves there, all others stay at 0.
    noise = even([Q(a) for a in atoms])
    rest = [Q(0)] * (classes - 1)
    laws = [discrete.bounds([x, *rest], noise) for x in (Q(1, 10), Q(1, 2), Q(9, 10))]
    assert laws[0] == laws[1] == laws[2]
    assert bend([Q(1, 10), *rest], [Q(8, 10), *(0 * x for x in rest)], noise) == 0


@pytest.mark.claim("sumexp-kinks", shows="statement", evidence="exact")
@pytest.mark.claim("perturb-non-discrete", shows="correction", evidence="exact")
@pytest.mark.claim("perturb-prop-5-4", shows="correction", evidence="exact")
@pytest.mark.parametrize("classes", [2, 3])
def test_finer_atoms_leave_shorter_segments(classes: int) -> None:
    # No density, and ties everywhere: with atoms on a grid of 1/n every segment along an axis longer than 1/n bends.
    for n in (1, 2, 4):
        noise = even([Q(k, n) for k in range(-2, 3)])
        rest = [Q(0)] * (classes - 1)
        for start in (Q(0), Q(1, 3 * n), Q(1, 2 * n)):
            step = [Q(11, 10 * n), *(0 * x for x in rest)]
            assert has_kink([start, *rest], step, noise)
            pieces = (bend(moved([start, *rest], step, Q(k, 8)), [x / 4 for x in step], noise) for k in range(7))
            assert any(piece > 0 for piece in pieces)


@pytest.mark.claim("sumexp-kinks", shows="statement", evidence="quadrature")
@pytest.mark.claim("perturb-prop-5-4", shows="correction", evidence="quadrature")
def test_a_density_on_a_half_line_is_minimal() -> None:
    # Exponential noise: support [0, inf), differences on all of R. Two classes: p_2 = e^{-delta}/2, strictly falling.
    theta = torch.tensor([[2.0, 0.0, -1.0], [0.0, 3.0, 3.0], [-4.0, 0.0, 1.0]], dtype=torch.float64)
    weights = argmax.pair_weights(theta, Exponential())
    off = ~torch.eye(3, dtype=torch.bool)
    assert bool((weights[:, off] > 0).all())
    p = argmax.probabilities(torch.tensor([5.0, 0.0], dtype=torch.float64), Exponential())
    assert p[1].item() == pytest.approx(math.exp(-5) / 2, rel=1e-13)


@pytest.mark.claim("perturb-prop-5-4", shows="correction", evidence="exact")
def test_unbounded_noise_with_gaps_is_not_minimal() -> None:
    # gamma = 10 N + U, N any integer, U uniform on [-1, 1]: a density of unbounded support. Differences lie within 2 of
    # multiples of 10, so for delta in (2, 8) p_1 = P(10 (N_1 - N_2) > -delta), whatever U: the same for all of them.
    for delta in (Q(21, 10), Q(5), Q(79, 10)):
        for n in range(-30, 31):
            assert {10 * n + delta - 2 > 0, 10 * n + delta + 2 > 0} == {n >= 0}
    assert argmax.probabilities(torch.tensor([2.0, 0.0]).double(), Uniform())[0] == 1


def test_a_class_that_has_lost_can_come_back() -> None:
    # Uniform noise, theta = (0.9, -0.9, -1.2): class 3 is more than 2 behind and has no gradient. The leaders' descent
    # towards the uniform law brings them down to it.
    theta = torch.tensor([0.9, -0.9, -1.2], dtype=torch.float64)
    assert argmax.probabilities(theta, Uniform())[2] == 0
    assert argmax.jacobian(theta, Uniform())[2].abs().max() == 0
    for _ in range(400):
        if ((p := argmax.probabilities(theta, Uniform())) - 1 / 3).abs().max() < 1e-3:
            break
        theta = theta - 0.5 * argmax.jacobian_product(theta, 2 * (p - 1 / 3), Uniform())
    assert (p - 1 / 3).abs().max() < 1e-3
