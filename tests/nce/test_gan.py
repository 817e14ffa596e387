"""The game of section 2.1, on finitely many y."""

import math

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.nce import Joint, local_nce

LOG4 = math.log(4)
POP = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
p, q = sp.symbols("p q", positive=True)
d = sp.symbols("D")


def law(weights: list[float]) -> Tensor:
    values = torch.tensor(weights, dtype=torch.float64)
    return values / values.sum()


def value(pop: Tensor, noise: Tensor, discriminator: Tensor) -> Tensor:
    return (torch.xlogy(pop, discriminator) + torch.xlogy(noise, 1 - discriminator)).sum()


laws = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(law)
discriminators = st.lists(st.floats(0, 1), min_size=4, max_size=4).map(lambda v: torch.tensor(v, dtype=torch.float64))
few = settings(deadline=None)


@pytest.mark.claim("nce-gan-objective", shows="statement", evidence="quadrature")
@pytest.mark.claim("nce-gan-optimal-D", shows="statement", evidence="quadrature")
@given(q=laws, discriminator=discriminators)
@few
def test_with_the_first_expectation_over_the_data_the_value_is_a_divergence(q: Tensor, discriminator: Tensor) -> None:
    best = value(POP, q, POP / (POP + q)).item()
    assert value(POP, q, discriminator).item() <= best + 1e-12
    joint = Joint(POP.unsqueeze(0))
    assert best == pytest.approx(-local_nce.entropy(joint, 2, q.log()).item(), rel=1e-12)
    assert best == pytest.approx(sum(local_nce.divergences(joint, 2, q.log())).item() - LOG4, abs=1e-12)
    assert value(q, q, discriminator).item() - 1e-12 <= -LOG4 <= best + 1e-12  # C5: with q twice, D = 1/2 is best


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
