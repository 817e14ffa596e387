"""Sets of negatives: hits that stay, and the error that no table of corrections removes."""

from fractions import Fraction
from itertools import combinations

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.negatives import consistency, race, sets
from tests.exact import laws, log_of, union
from tests.negatives.test_consistency import slope
from tests.negatives.test_race import SIX, inclusions, nats

Q = Fraction
Sets = dict[tuple[int, ...], Fraction]


def both(chance: Sets, a: int, b: int) -> Fraction:
    return sum((p for ids, p in chance.items() if a in ids and b in ids), Q(0))


def products(chance: Sets) -> list[Fraction]:
    """Of three classes, for each the probability that it is drawn times that both others are."""
    pi = inclusions(chance, 3)
    return [pi[i] * both(chance, *(j for j in range(3) if j != i)) for i in range(3)]


@pytest.mark.claim("sumexp-union-table", shows="statement", evidence="exact")
@given(laws(3), laws(3), st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_slope_of_three_classes_under_true_inclusion(p: tuple[Fraction, ...], q: tuple[Fraction, ...], m: int) -> None:
    chance = union(q, m)
    pi, u = inclusions(chance, 3), products(chance)
    x = [a / b for a, b in zip(p, pi, strict=True)]
    scale = x[0] * x[1] * x[2] / sum(x)
    for a, got in enumerate(slope(p, chance.items(), pi, keep=False)):
        others = [b for b in range(3) if b != a]
        assert got == scale * sum((u[a] - u[b]) / (x[a] + x[b]) for b in others)


@pytest.mark.claim("sumexp-union-table", shows="statement", evidence="exact")
@given(st.one_of(laws(3), laws(4)), st.integers(2, 5))
@settings(deadline=None, max_examples=40)
def test_in_a_union_a_more_frequent_class_takes_less_from_a_third(q: tuple[Fraction, ...], m: int) -> None:
    u = products(union(q, m))
    for a, b in combinations(range(3), 2):
        assert (u[a] < u[b]) == (q[a] > q[b])
        assert (u[a] == u[b]) == (q[a] == q[b])


def test_the_step_by_integrands_for_all_m() -> None:
    # One step of the proof, so that it bears no grade: P(c drawn | a drawn) = 1 - int_0^x (A-s)^(m-1) ds /
    # int_0^x (1-s)^(m-1) ds with A = 1 - q_c, x = q_a, and the ratio of the integrands, ((A-s)/(1-s))^(m-1), falls, so
    # that the mean ratio does. Both integrals by their derivative in x, and 0 at x = 0.
    s, x, c, m = sp.symbols("s x c m", positive=True)
    pair = 1 - (1 - x) ** m - (1 - c) ** m + (1 - x - c) ** m
    alone = 1 - (1 - x) ** m
    assert sp.simplify(sp.diff(pair, x) - m * ((1 - x) ** m / (1 - x) - (1 - c - x) ** m / (1 - c - x))) == 0
    assert sp.simplify(sp.diff(alone, x) - m * (1 - x) ** m / (1 - x)) == 0
    assert sp.simplify(pair.subs(x, 0)) == sp.simplify(alone.subs(x, 0)) == 0
    assert sp.simplify(sp.diff((1 - c - s) / (1 - s), s) + c / (1 - s) ** 2) == 0


LAW = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
TRUTHS = [torch.tensor(p, dtype=torch.float64) for p in ([0.98, 0.01, 0.01], [0.1, 0.1, 0.8], [1 / 3] * 3)]


@pytest.mark.claim("sumexp-union-table", shows="statement", evidence="quadrature")
def test_every_table_misses_by_half_the_range_for_some_law() -> None:
    members, probability = consistency.union_law(LAW.log(), 3)
    least = sets.least_worst_error(members, probability, TRUTHS)
    assert least.diagonal().abs().max() < 1e-15
    assert (least - least.T).abs().max() < 1e-15
    assert 1e-4 < least[0, 2] < 0.1
    # the two-class law of 0 and 2, by its own minimum with the third score out of the way, comes out as e^{c_0 - c_2}
    pi = probability @ members.double()
    generator = torch.Generator().manual_seed(0)
    for scale in (0.0, 1e-3, 1e-2, 1.0):
        table = pi.log() + scale * torch.randn(3, dtype=torch.float64, generator=generator)
        losses = consistency.set_losses(members, probability, table)
        learned = [consistency.minimiser(losses, p) - p.log() for p in TRUTHS]
        alone = (table - pi.log())[0] - (table - pi.log())[2]
        errors = [abs(alone.item()), *(abs((e[0] - e[2]).item()) for e in learned)]
        assert max(errors) >= least[0, 2].item() - 1e-8
    # For this pair a table attains the bound: it moves the errors under log pi by the middle of their range.
    losses = consistency.set_losses(members, probability, pi.log())
    pair = [0.0, *((e[0] - e[2]).item() for e in (consistency.minimiser(losses, p) - p.log() for p in TRUTHS))]
    middle = (max(pair) + min(pair)) / 2
    better = consistency.set_losses(members, probability, pi.log() - torch.tensor([middle, 0, 0], dtype=torch.float64))
    got = [(e[0] - e[2]).item() for e in (consistency.minimiser(better, p) - p.log() for p in TRUTHS)]
    assert max(abs(-middle), *map(abs, got)) == pytest.approx(least[0, 2].item(), abs=1e-8)


@given(laws(3), laws(3), st.integers(1, 2))
@settings(deadline=None, max_examples=20)
def test_losses_with_hits_that_stay_by_every_set(p: tuple[Fraction, ...], q: tuple[Fraction, ...], m: int) -> None:
    """A table, the true inclusion probability, and one set after another."""
    law = race.distinct_law(log_of(q), m)
    scores = log_of(p)
    got = sets.kept_losses(law)(scores + 720)  # a common shift changes nothing
    z = scores - law.log_coin[0]
    for y in range(3):
        expected = 0.0
        for chosen, chance in zip(law.members.tolist(), law.probability.tolist(), strict=True):
            others = sum((z[j] - z[y]).exp().item() for j in range(3) if chosen[j])
            expected += chance * float(sp.log(1 + others))
        assert got[y].item() == pytest.approx(expected, rel=1e-12)
    assert (got >= race.corrected(law)(scores - 800) - 1e-12).all()  # a hit only adds


def test_hits_that_stay_in_a_race_move_its_minimum() -> None:
    assert nats(sets.kept_losses(race.race_law(SIX, 4))) == pytest.approx(0.0139, abs=5e-5)
