"""The game of section 2.1, on finitely many y."""

import math
from functools import cache

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.nce import Joint, gan, local_nce

LOG4 = math.log(4)
POP = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
p, q = sp.symbols("p q", positive=True)
d = sp.symbols("D")


def law(weights: list[float]) -> Tensor:
    values = torch.tensor(weights, dtype=torch.float64)
    return values / values.sum()


laws = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(law)
discriminators = st.lists(st.floats(0, 1), min_size=4, max_size=4).map(lambda v: torch.tensor(v, dtype=torch.float64))
few = settings(deadline=None)


@cache
def the_mean_of_both_logarithms_is_concave() -> None:
    """At one y: log D + log(1 - D) has its top at D = 1/2, where it is -log 4."""
    both = sp.log(d) + sp.log(1 - d)
    assert sp.solve(sp.diff(both, d), d) == [sp.Rational(1, 2)]
    assert sp.simplify(sp.diff(both, d, 2) + 1 / d**2 + 1 / (1 - d) ** 2) == 0
    assert sp.simplify(both.subs(d, sp.Rational(1, 2)) + sp.log(4)) == 0


@given(q=laws, discriminator=discriminators)
@few
def test_with_both_expectations_over_the_noise_every_generator_does_equally_well(
    q: Tensor, discriminator: Tensor
) -> None:
    # C5, as our text has it.
    the_mean_of_both_logarithms_is_concave()
    # So max_D is -log 4 sum_y q(y) = -log 4 for every q, and q = pop is no better than any other.
    assert gan.printed_value(q, gan.best_discriminator(q, q)).item() == pytest.approx(-LOG4)
    assert gan.printed_value(q, discriminator).item() <= -LOG4 + 1e-12


@pytest.mark.claim("nce-gan-objective", shows="statement", evidence="quadrature")
@pytest.mark.claim("nce-gan-optimal-D", shows="statement", evidence="quadrature")
@given(q=laws, discriminator=discriminators)
@few
def test_with_the_first_expectation_over_the_data_the_value_is_a_divergence(q: Tensor, discriminator: Tensor) -> None:
    best = gan.value(POP, q, gan.best_discriminator(POP, q)).item()
    assert gan.value(POP, q, discriminator).item() <= best + 1e-12
    joint = Joint(POP.unsqueeze(0))
    assert best == pytest.approx(-local_nce.entropy(joint, 2, q.log()).item(), rel=1e-12)
    assert best == pytest.approx(2 * local_nce.jensen_shannon(joint, q.log()).item() - LOG4, abs=1e-12)
    assert best >= -LOG4 - 1e-12


@pytest.mark.claim("nce-gan-optimal-D", shows="statement", evidence="proof")
def test_the_best_discriminator_at_a_single_y() -> None:
    gain = p * sp.log(d) + q * sp.log(1 - d)
    assert sp.solve(sp.diff(gain, d), d) == [p / (p + q)]
    assert sp.simplify(sp.diff(gain, d, 2) + p / d**2 + q / (1 - d) ** 2) == 0  # concave
    best = gain.subs(d, p / (p + q))
    divergence = p * sp.log(p / ((p + q) / 2)) + q * sp.log(q / ((p + q) / 2))  # summed over y: 2 JSD
    assert sp.simplify(sp.expand_log(best - divergence + (p + q) * sp.log(2), force=True)) == 0  # sums to 2 log 2


@pytest.mark.claim("nce-gan-equilibrium", shows="statement", evidence="proof")
def test_only_the_data_itself_reaches_minus_log_4() -> None:
    # With q = r p the divergence at one y is p g(r): g is convex with g(1) = g'(1) = 0, so positive elsewhere.
    # Where p = 0 < q the term is q log 2, and the other way round p log 2.
    r = sp.symbols("r", positive=True)
    g = sp.log(2 / (1 + r)) + r * sp.log(2 * r / (1 + r))
    assert sp.simplify(g.subs(r, 1)) == 0
    assert sp.simplify(sp.diff(g, r).subs(r, 1)) == 0
    assert sp.simplify(sp.diff(g, r, 2) - 1 / (r * (1 + r))) == 0  # > 0
    assert (p / (p + q)).subs(q, p) == sp.Rational(1, 2)


@pytest.mark.claim("nce-gan-equilibrium", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("start", [[-1.0, 0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-2.0, 3.0, -2.0, 3.0]])
def test_playing_the_game_reaches_the_equilibrium(start: list[float]) -> None:
    played = gan.play(POP, torch.tensor(start, dtype=torch.float64), steps=1500)
    assert played.value[-1].item() == pytest.approx(-LOG4, abs=1e-13)
    assert played.best[-1].item() == pytest.approx(-LOG4, abs=1e-13)
    assert torch.allclose(played.q[-1], POP, atol=1e-9)
    assert torch.allclose(played.discriminator[-1], torch.full_like(POP, 0.5), atol=1e-9)
    assert bool((played.best >= -LOG4 - 1e-13).all())
    assert bool((played.value <= played.best + 1e-13).all())


def test_the_players_gradients_are_those_of_the_value() -> None:
    g = torch.tensor([0.2, -0.4, 1.0, 0.1], dtype=torch.float64, requires_grad=True)
    one = gan.play(POP, g.detach(), steps=1, rate=0.5, discriminator_rate=0.25, ascents=1)
    logits = torch.zeros(4, dtype=torch.float64, requires_grad=True)

    def value(generator: Tensor, discriminator: Tensor) -> Tensor:
        hit, miss = torch.log_softmax(generator, 0).exp(), torch.nn.functional.logsigmoid(-discriminator)
        return POP @ torch.nn.functional.logsigmoid(discriminator) + hit @ miss

    (up,) = torch.autograd.grad(value(g, logits), logits)
    moved = logits.detach() + 0.25 * up
    (down,) = torch.autograd.grad(value(g, moved), g)
    assert torch.allclose(one.discriminator[1], torch.sigmoid(moved), atol=1e-15)
    assert torch.allclose(one.q[1], torch.softmax(g.detach() - 0.5 * down, 0), atol=1e-15)


def test_a_class_that_neither_side_produces_costs_nothing() -> None:
    pop, noise = law([1.0, 1.0, 0.0]), law([1.0, 3.0, 0.0])
    best = gan.best_discriminator(pop, noise)
    assert best[2] == 0.5
    expected = gan.value(pop[:2], noise[:2], best[:2]).item()
    assert gan.value(pop, noise, best).item() == pytest.approx(expected)
    sure = gan.best_discriminator(law([1.0, 0.0]), law([0.0, 1.0]))
    assert gan.value(law([1.0, 0.0]), law([0.0, 1.0]), sure) == 0  # told apart without error: 2 log 2 - log 4


def test_laws_of_single_precision_are_laws() -> None:
    # Ten times 0.1 is 1.0000001 in float32: no law by 1e-9. Normalised it is uniform, where D = 1/2 is worth -log 4.
    tenths = torch.full((10,), 0.1)
    got = gan.value(tenths, tenths, torch.full((10,), 0.5))
    assert got.dtype == torch.float64
    assert got.item() == pytest.approx(-LOG4, rel=1e-15)
    assert gan.play(tenths, torch.zeros(10), steps=1).value[-1].item() == pytest.approx(-LOG4, rel=1e-15)
