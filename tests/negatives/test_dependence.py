"""For which schemes the joint Laplace transform of the weights is at most the product of the single ones.

Under that condition the expected sampled loss bounds the log rank if each single negative's does (chapter *ranking*).
Fixed weights: E prod_S (1 - theta_i 1{i drawn}) <= prod_S (1 - theta_i P(i drawn)), theta in [0, 1], here in rational
arithmetic. It follows from negative association (Joag-Dev and Proschan, 1983): inclusions in the union of draws are
monotone functions of disjoint sets of multinomial counts; those of conditional Poisson sampling are strongly Rayleigh.
"""

from fractions import Fraction
from itertools import combinations
from math import prod

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sumexp.ranking import sampled
from tests.exact import laws, union
from tests.negatives.test_race import successive

Q = Fraction
Sets = dict[tuple[int, ...], Fraction]
CLASSES = 4
share = st.fractions(Q(1, 30), Q(29, 30), max_denominator=30)
shares = st.tuples(*[share] * CLASSES)


def conditional_poisson(coins: tuple[Fraction, ...], size: int) -> Sets:
    odds = [c / (1 - c) for c in coins]
    weight = {a: prod((odds[i] for i in a), start=Q(1)) for a in combinations(range(len(coins)), size)}
    return {a: w / sum(weight.values()) for a, w in weight.items()}


def joint_and_product(chance: Sets, theta: tuple[Fraction, ...]) -> list[tuple[Fraction, Fraction]]:
    pairs = []
    for size in range(1, CLASSES + 1):
        for s in combinations(range(CLASSES), size):
            joint = sum(p * prod((1 - theta[i] for i in s if i in a), start=Q(1)) for a, p in chance.items())
            single = (1 - theta[i] * sum((p for a, p in chance.items() if i in a), Q(0)) for i in s)
            pairs.append((joint, prod(single, start=Q(1))))
    return pairs


@pytest.mark.claim("sumexp-single-negatives", shows="statement", evidence="exact")
@given(laws(CLASSES), st.integers(1, 4), shares)
@settings(deadline=None, max_examples=40)
def test_unions_of_draws(q: tuple[Fraction, ...], m: int, theta: tuple[Fraction, ...]) -> None:
    assert all(joint <= single for joint, single in joint_and_product(union(q, m), theta))


@pytest.mark.claim("sumexp-single-negatives", shows="statement", evidence="exact")
@given(shares, st.integers(1, 4), shares)
@settings(deadline=None, max_examples=40)
def test_coins_of_a_fixed_total(coins: tuple[Fraction, ...], size: int, theta: tuple[Fraction, ...]) -> None:
    assert all(joint <= single for joint, single in joint_and_product(conditional_poisson(coins, size), theta))


def least_weights(chance: Sets) -> list[float]:
    """log(1 + w) P(i drawn) = log 2: the least constant weight with which the single negative passes."""
    inclusion = [float(sum((p for a, p in chance.items() if i in a), Q(0))) for i in range(CLASSES)]
    assume(min(inclusion) > 1 / 1000)  # of a rarer class it is no double
    return [2 ** (1 / pi) - 1 for pi in inclusion]


@pytest.mark.claim("sumexp-single-negatives", shows="statement", evidence="quadrature")
@given(laws(CLASSES), shares, st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_single_negatives_then_suffice(q: tuple[Fraction, ...], coins: tuple[Fraction, ...], m: int) -> None:
    for chance in (union(q, m), conditional_poisson(coins, m)):
        w = torch.tensor(least_weights(chance), dtype=torch.float64)
        rows = torch.tensor([[float(i in a) for i in range(CLASSES)] for a in chance], dtype=torch.float64) * w
        law = sampled.WeightLaw(torch.tensor([float(p) for p in chance.values()], dtype=torch.float64), rows)
        assert sampled.worst_set(law).deficit < 1e-9


@pytest.mark.claim("sumexp-single-negatives", shows="statement", evidence="exact")
def test_distinct_ids_need_not_satisfy_the_condition() -> None:
    """Drawn until three differ, two frequent classes can be *positively* correlated (Alexander, 1989)."""
    chance = successive(tuple(Q(n, 101) for n in (70, 28, 1, 1, 1)), 3)
    correlated = []
    for i, j in combinations(range(5), 2):
        both = sum((p for a, p in chance.items() if {i, j} <= set(a)), Q(0))
        single = [sum((p for a, p in chance.items() if k in a), Q(0)) for k in (i, j)]
        if both > single[0] * single[1]:
            correlated.append((i, j))
    assert correlated == [(0, 1)]
