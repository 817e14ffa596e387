"""m distinct negatives: laws of the sets, the error that a table of corrections leaves, and the exact correction."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations
from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.negatives import consistency, race
from sumexp.samplers import LogUniform, log_inclusion
from tests.exact import draws, floats, laws, log_of, union
from tests.negatives.test_consistency import slope

Q = Fraction


def successive(q: tuple[Fraction, ...], m: int) -> dict[tuple[int, ...], Fraction]:
    """Every order of m distinct ids: q_a / 1, q_b / (1 - q_a), ..."""
    chance: dict[tuple[int, ...], Fraction] = {}
    for order in permutations(range(len(q)), m):
        steps = [q[i] / (1 - sum((q[j] for j in order[:k]), Q(0))) for k, i in enumerate(order)]
        chance[tuple(sorted(order))] = chance.get(tuple(sorted(order)), Q(0)) + prod(steps, start=Q(1))
    return chance


@pytest.mark.claim("sumexp-distinct", shows="statement", evidence="exact")
@given(laws(), st.lists(st.integers(1, 5), min_size=4, max_size=4), st.fractions(Q(1, 50), Q(49, 50)))
@settings(deadline=None, max_examples=60)
def test_given_candidates_and_time_the_slope_is_zero(p: tuple[Fraction, ...], n: list[int], v: Fraction) -> None:
    """Rates q = n / sum n, T with e^{-T / sum n} = v: coins 1 - v^n. Label y and the first m of the others make the
    candidates C; beyond C only who comes next matters, the same for every y in C."""
    coin = [1 - v**k for k in n]
    for size in (2, 3):  # m + 1; the next arrival is outside
        for candidates in combinations(range(4), size):
            outside = [k for k in range(4) if k not in candidates]
            following = sum(n[k] for k in outside) * prod((v ** n[k] for k in outside), start=Q(1))
            total = dict.fromkeys(candidates, Q(0))
            terms = {i: p[i] / coin[i] for i in candidates}  # e^f / coin at f = log p
            for y in candidates:
                chance = p[y] * prod((coin[i] for i in candidates if i != y), start=Q(1)) * following
                for i in candidates:
                    total[i] += chance * (terms[i] / sum(terms.values()) - (i == y))
            assert set(total.values()) == {Q(0)}


@pytest.mark.claim("sumexp-distinct", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("m", [1, 2, 3])
def test_labels_out_of_the_race_are_learned_exactly(m: int) -> None:
    q = torch.tensor([0.6, 0.25, 0.1, 0.03, 0.02], dtype=torch.float64).log()
    p = torch.tensor([0.2, 0.3, 0.15, 0.15, 0.2], dtype=torch.float64)
    got = consistency.minimiser(race.race_losses(q, m), p, start=torch.zeros_like(p))
    torch.testing.assert_close(got, p.log() - p.log().mean(), rtol=0, atol=1e-7)


SIX = torch.tensor([0.6, 0.25, 0.1, 0.03, 0.015, 0.005], dtype=torch.float64).log()
P6 = torch.tensor([0.2, 0.2, 0.15, 0.15, 0.15, 0.15], dtype=torch.float64)


def nats(losses: Callable[[Tensor], Tensor]) -> float:
    return (P6 * (P6.log() - consistency.minimiser(losses, P6).log_softmax(-1))).sum().item()


def test_the_error_that_common_corrections_leave_with_four_distinct_ids() -> None:
    law = race.distinct_law(SIX, 4)
    got = {
        "draws": nats(consistency.set_losses(law.members, law.probability, log_inclusion(SIX, 4))),
        "tries": nats(race.corrected(race.tries_law(SIX, 4, tol=1e-9))),
        "true inclusion": nats(race.corrected(law)),
        "next arrival": nats(race.corrected(race.race_law(SIX, 4))),
    }
    expected = {"draws": 0.2904, "tries": 0.0291, "true inclusion": 0.0024, "next arrival": 0.0115}
    assert got == pytest.approx(expected, abs=5e-5)
    assert nats(race.race_losses(SIX, 4)) == pytest.approx(0, abs=1e-12)


def inclusions(sets: dict[tuple[int, ...], Fraction], classes: int) -> tuple[Fraction, ...]:
    return tuple(sum((p for a, p in sets.items() if i in a), Q(0)) for i in range(classes))


@pytest.mark.claim("sumexp-distinct", shows="statement", evidence="exact")
@given(laws(), st.integers(1, 3), st.fractions(Q(1, 20), Q(19, 20), max_denominator=20))
@settings(deadline=None, max_examples=30)
def test_between_two_classes_only_the_true_inclusion_will_do(q: tuple[Fraction, ...], m: int, x: Fraction) -> None:
    sets = successive(q, m)
    table = inclusions(sets, 4)
    for a, b in combinations(range(4), 2):
        p = tuple(x if i == a else 1 - x if i == b else Q(0) for i in range(4))
        assert slope(p, sets.items(), table, keep=False)[a] == 0
        other = tuple(t * (1 + (i == a)) for i, t in enumerate(table))  # any other ratio of the two: not right
        assert slope(p, sets.items(), other, keep=False)[a] != 0


@pytest.mark.claim("sumexp-distinct", shows="statement", evidence="exact")
@pytest.mark.claim("sumexp-union-table", shows="statement", evidence="exact")
@given(laws(), laws())
@settings(deadline=None, max_examples=20)
def test_one_id_and_uniform_ids_have_a_table(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> None:
    for sets_of in (successive, union):
        assert set(slope(p, sets_of(q, 1).items(), q, keep=False)) == {Q(0)}
        for m in (2, 3, 4):
            assert set(slope(p, sets_of((Q(1, 4),) * 4, m).items(), (Q(1),) * 4, keep=False)) == {Q(0)}


@pytest.mark.claim("sumexp-distinct", shows="statement", evidence="exact")
def test_the_true_inclusion_is_not_right_for_every_law() -> None:
    """With the test above: for these q and m no table is. Two ids of three classes, q = (.6, .3, .1)."""
    sets = successive((Q(6, 10), Q(3, 10), Q(1, 10)), 2)
    assert slope((Q(1, 2), Q(3, 10), Q(1, 5)), sets.items(), inclusions(sets, 3), keep=False) != [0, 0, 0]


@given(laws(5), st.integers(1, 5))
@settings(deadline=None, max_examples=20)
def test_the_law_of_distinct_ids_by_every_order(q: tuple[Fraction, ...], m: int) -> None:
    law, expected = race.distinct_law(log_of(q), m), successive(q, m)
    exact = [float(x) for x in inclusions(expected, 5)]
    for row, chance, log_coin in zip(law.members, law.probability, law.log_coin, strict=True):
        assert chance.item() == pytest.approx(float(expected[tuple(row.nonzero().flatten().tolist())]), rel=1e-12)
        assert log_coin.exp().tolist() == pytest.approx(exact, rel=1e-12)
    if m < 5:
        assert race.inclusion(log_of(q), m).tolist() == pytest.approx(exact, rel=1e-12)


def test_probabilities_of_distinct_ids_keep_their_digits_for_a_steep_law() -> None:
    for counts in ((10**9 - 3, 2, 1), (10**15, 1), (10**20, 10**20, 1), (10**60, 10**60, 10**30, 1)):
        q, m = tuple(Q(n, sum(counts)) for n in counts), len(counts) - 1
        law, expected = race.distinct_law(log_of(q), m), successive(q, m)  # 1 - q_0 in float64 would lose digits
        assert law.probability.tolist() == pytest.approx([float(x) for x in expected.values()], rel=1e-12)
        exact = floats(inclusions(expected, m + 1))
        torch.testing.assert_close(race.inclusion(log_of(q), m), exact, rtol=1e-12, atol=0)


@pytest.mark.parametrize("classes, m", [(500, 1), (1000, 60), (300, 250)])
def test_true_inclusions_of_many_classes_add_up(classes: int, m: int) -> None:
    steep = LogUniform(classes).log_prob(torch.arange(classes))
    got = race.inclusion(steep, m)
    assert got.sum().item() == pytest.approx(m, rel=1e-9)
    assert (got.diff() < 1e-12).all()
    if m == 1:
        torch.testing.assert_close(got, steep.exp(), rtol=1e-8, atol=0)
    flat = torch.full((classes,), 1 / classes, dtype=torch.float64).log()
    torch.testing.assert_close(race.inclusion(flat, m), torch.full_like(flat, m / classes), rtol=1e-9, atol=0)


@pytest.mark.parametrize("label", [None, 1])
def test_sets_of_the_race_have_that_law_and_inverse_coins_count_once(label: int | None) -> None:
    q = (Q(6, 10), Q(1, 4), Q(1, 10), Q(1, 20))
    law = race.race_law(log_of(q), 2, label)
    racing = [i for i in range(4) if i != label]
    others = tuple(q[i] / sum(q[j] for j in racing) for i in racing)  # the race among them is that of their shares
    expected = {tuple(racing[i] for i in a): p for a, p in successive(others, 2).items()}
    for a, p in expected.items():
        same = (law.members == torch.tensor([i in a for i in range(4)])).all(-1)
        assert law.probability[same].sum().item() == pytest.approx(float(p), rel=1e-12)
    once = law.probability @ torch.where(law.members, (-law.log_coin).exp(), 0.0)
    assert once.tolist() == pytest.approx([float(i in racing) for i in range(4)], rel=1e-12)


@given(laws(3), st.integers(1, 3))
@settings(deadline=None, max_examples=20)
def test_the_number_of_tries_by_every_sequence(q: tuple[Fraction, ...], m: int) -> None:
    law = race.tries_law(log_of(q), m, tol=1e-3)
    for n in range(m, 6):
        expected: dict[tuple[int, ...], Fraction] = {}
        for drawn, p in draws(q, n):
            if len(set(drawn)) == m > len(set(drawn[:-1])):
                a = tuple(sorted(set(drawn)))
                expected[a] = expected.get(a, Q(0)) + p
        coin = [float(m * x) if n == m else float(1 - (1 - x) ** n) for x in q]
        for a, p in expected.items():
            same = (law.members == torch.tensor([i in a for i in range(3)])).all(-1)
            same &= ((law.log_coin.exp() - torch.tensor(coin)).abs() < 1e-6).all(-1)
            if same.any():  # else beyond tol
                assert law.probability[same].sum().item() == pytest.approx(float(p), rel=1e-9)
            else:
                assert p < 1e-3
