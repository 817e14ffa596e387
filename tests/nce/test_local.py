"""Section 2 of the paper and appendix D: local NCE, its entropy and divergences, by brute force and by formula."""

import math
from collections import defaultdict
from fractions import Fraction

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.nce import Joint, families, global_nce, local_nce, rational
from sumexp.nce.rational import LogSum, Table
from tests.exact import log_of
from tests.nce.test_global import NOISE, P, joint_of, joints

Q = Fraction

NARROW = [Q(1, 2), Q(1, 2), Q(0)]
"""It cannot produce the third y."""

p, q = sp.symbols("p q", positive=True)  # pop(y|x) and q(y) at one pair
n = sp.symbols("N", positive=True)


def conditional(table: Table) -> Table:
    of_x, _ = rational.marginals(table)
    return [[mass / of_x[x] for mass in row] for x, row in enumerate(table)]


def chance(table: Table, law: list[Fraction], count: int) -> Table:
    """(3); 0 where y occurs in neither way."""
    return [
        [a / (a + (count - 1) * b) if a + b else Q(0) for a, b in zip(row, law, strict=True)]
        for row in conditional(table)
    ]


def objective(table: Table, law: list[Fraction], count: int, heads: Table) -> LogSum:
    """E_pop[-log h(x,y)] + (N - 1) E_{x, y ~ q}[-log(1 - h(x,y))]."""
    of_x, _ = rational.marginals(table)
    terms = []
    for x, row in enumerate(table):
        for y, mass in enumerate(row):
            if mass:
                terms.append((-mass, rational.log(heads[x][y])))
            if law[y]:
                terms.append((-(count - 1) * of_x[x] * law[y], rational.log(1 - heads[x][y])))
    return rational.total(terms)


def mixtures(table: Table, law: list[Fraction], count: int) -> Table:
    return [[(a + (count - 1) * b) / count for a, b in zip(row, law, strict=True)] for row in conditional(table)]


def divergences(table: Table, law: list[Fraction], count: int) -> tuple[LogSum, LogSum]:
    of_x, _ = rational.marginals(table)
    rows = list(zip(of_x, conditional(table), mixtures(table, law, count), strict=True))
    true = rational.total((weight, rational.divergence(row, m)) for weight, row, m in rows)
    return true, rational.total((weight, rational.divergence(law, m)) for weight, _, m in rows)


def defect_of(scores: Tensor, count: int, log_q: Tensor) -> Tensor:
    """[X] the sum over y of what local NCE recovers, minus 1: 0 where the scores normalise themselves."""
    return local_nce.recover(scores, count, log_q).sum(-1) - 1


noises = st.integers(1, 9).map(lambda a: [Q(a, 10), Q(10 - a, 10)])
few = settings(deadline=None, max_examples=20)


@pytest.mark.claim("nce-local-posterior", shows="statement", evidence="exact")
@pytest.mark.claim("nce-local-joint", shows="statement", evidence="exact")
@pytest.mark.parametrize("law", [NOISE, NARROW])
@pytest.mark.parametrize("count", [2, 3])
def test_the_coins_are_independent_given_x_and_the_candidates(count: int, law: list[Fraction]) -> None:
    outcomes = rational.local_law(P, law, count)
    assert sum(outcomes.values()) == 1
    heads = chance(P, law, count)
    right = rational.posterior(outcomes)
    single: defaultdict[tuple[int, rational.Seen], Fraction] = defaultdict(Fraction)
    for (coins, seen), probability in right.items():
        x, ys = seen
        each = (heads[x][y] if a else 1 - heads[x][y] for a, y in zip(coins, ys, strict=True))
        assert probability == math.prod(each)
        single[coins[0], seen] += probability
    for (coin, (x, ys)), probability in single.items():  # Bayes, the other coins summed out
        assert probability == (heads[x][ys[0]] if coin else 1 - heads[x][ys[0]])
    got = local_nce.posterior(joint_of(P), count, log_of(law))
    assert torch.allclose(got, torch.tensor([[float(h) for h in row] for row in heads], dtype=torch.float64))


@pytest.mark.claim("nce-local-entropy", shows="statement", evidence="exact")
@pytest.mark.parametrize("count", [2, 3])
@given(table=joints(widest=2), law=noises)
@few
def test_the_entropy_of_the_coins_has_the_friendlier_form(count: int, table: Table, law: list[Fraction]) -> None:
    entropy = rational.entropy(rational.local_law(table, law, count))
    assert entropy == objective(table, law, count, chance(table, law, count))
    got = local_nce.entropy(joint_of(table), count, log_of(law)).item()
    assert got == pytest.approx(float(entropy), rel=1e-12)


@pytest.mark.claim("nce-lemma-2-1", shows="statement", evidence="proof")
@pytest.mark.claim("nce-cor-2-2", shows="statement", evidence="proof")
@pytest.mark.claim("nce-mixture-proper", shows="statement", evidence="proof")
def test_the_two_terms_of_the_entropy_are_divergences() -> None:
    head, mixture = p / (p + (n - 1) * q), (p + (n - 1) * q) / n
    more = {n: 1 + sp.symbols("k", positive=True)}  # N > 1

    def zero(expression: sp.Expr) -> bool:
        return sp.simplify(sp.expand_log(sp.simplify(expression.subs(more)), force=True)) == 0

    # At one y; summed over y with sum p = sum q = 1, p log(p/M) gives KL(pop||M) and p log N gives log N.
    assert zero(p * sp.log(head) - (p * sp.log(p / mixture) - p * sp.log(n)))
    tail = (n - 1) * q * sp.log(1 - head)
    assert zero(tail - ((n - 1) * q * sp.log(q / mixture) - (n - 1) * q * sp.log(n / (n - 1))))
    # M is a law: sum_y M = (1 + (N - 1)) / N.
    assert sp.simplify((1 + (n - 1) * 1) / n - 1) == 0
    # N = 2: M = (p + q)/2, both terms weigh 1, and -log 2 - log 2 = -log 4.
    assert mixture.subs(n, 2) == (p + q) / 2
    assert sp.expand_log(-sp.log(2) - sp.log(sp.Rational(2, 1)) + sp.log(4)) == 0


@pytest.mark.claim("nce-lemma-2-1", shows="statement", evidence="exact")
@pytest.mark.claim("nce-cor-2-2", shows="statement", evidence="exact")
@pytest.mark.claim("nce-mixture-proper", shows="statement", evidence="exact")
@pytest.mark.parametrize("count", [2, 3])
@given(table=joints(widest=2), law=noises)
@few
def test_lemma_2_1_in_exact_numbers(count: int, table: Table, law: list[Fraction]) -> None:
    assert all(sum(row) == 1 for row in mixtures(table, law, count))
    true, false = divergences(table, law, count)
    constant = rational.log(count) + (count - 1) * rational.log(Q(count, count - 1))
    assert count > 2 or constant == rational.log(4)  # and true + false is twice the Jensen-Shannon divergence
    assert -1 * rational.entropy(rational.local_law(table, law, count)) == true + (count - 1) * false - constant
    got = local_nce.divergences(joint_of(table), count, log_of(law))
    assert got.true.item() == pytest.approx(float(true), abs=1e-13)
    assert got.noise.item() == pytest.approx(float(false), abs=1e-13)


@pytest.mark.parametrize("count", [2, 7, 1000, 10**6, 10**12])
@pytest.mark.parametrize("law", [NOISE, NARROW])
def test_entropy_and_divergences_agree_beyond_enumeration(count: int, law: list[Fraction]) -> None:
    log_q = log_of(law).requires_grad_()
    true, false = local_nce.divergences(joint_of(P), count, log_q)
    constant = math.log(count) + (count - 1) * math.log1p(1 / (count - 1))
    expected, entropy = constant - true - (count - 1) * false, local_nce.entropy(joint_of(P), count, log_q)
    assert entropy.item() == pytest.approx(expected.item(), rel=1e-12)
    slopes = [torch.autograd.grad(value, log_q)[0] for value in (entropy, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-6)
    near = local_nce.divergences(joint_of([[Q(3, 4), Q(1, 4)]]), count, log_of([Q(1, 2)] * 2))  # M = 1/2 +- 1/(4n)
    assert near.noise.item() == pytest.approx(-math.log1p(-1 / (4 * count**2)) / 2, rel=1e-12, abs=0)


@pytest.mark.claim("nce-local-objective", shows="statement", evidence="exact")
@pytest.mark.parametrize("count", [2, 3])
@given(data=st.data(), table=joints(widest=2), law=noises)
@few
def test_the_objective_is_minus_the_cross_entropy_of_the_coins(
    data: st.DataObject, count: int, table: Table, law: list[Fraction]
) -> None:
    weight = st.fractions(min_value=Q(1, 6), max_value=6, max_denominator=6)
    weights = data.draw(st.lists(st.lists(weight, min_size=2, max_size=2), min_size=2, max_size=2))
    outcomes = rational.local_law(table, law, count)
    heads = [[w / (1 + w) for w in row] for row in weights]  # sigma(s) with w = e^s

    def coins_model(coins: tuple[int, ...], seen: rational.Seen) -> Fraction:
        x, ys = seen
        return math.prod(heads[x][y] if a else 1 - heads[x][y] for a, y in zip(coins, ys, strict=True))

    loss = rational.cross_entropy(outcomes, coins_model)
    assert loss == objective(table, law, count, heads)
    assert float(loss - rational.entropy(outcomes)) >= -1e-14
    scores = torch.tensor([[float(w) for w in row] for row in weights], dtype=torch.float64).log()
    got = local_nce.cross_entropy(joint_of(table), scores, count, log_of(law)).item()
    assert got == pytest.approx(float(loss), rel=1e-13)


def test_large_scores_keep_their_digits() -> None:
    # One pair, noise the same: log(1 + e^-s) + log(1 + e^s) = s + 2 log(1 + e^-s), to the last digit at s = 25 too.
    joint, s = Joint(torch.ones(1, 1, dtype=torch.float64)), 25.0
    loss = local_nce.cross_entropy(joint, torch.tensor([[s]]), 2).item()
    assert loss - s == pytest.approx(2 * math.log1p(math.exp(-s)), abs=1e-14)


@pytest.mark.claim("nce-local-optimum", shows="statement", evidence="proof")
def test_the_derivative_vanishes_at_the_log_ratio_only() -> None:
    # The loss is a sum over pairs of pop(x) times this; strictly convex in the pair's own score, so one minimum.
    s = sp.symbols("s", real=True)
    sigma = 1 / (1 + sp.exp(-s))
    loss = -p * sp.log(sigma) - (n - 1) * q * sp.log(1 - sigma)
    slope = (n - 1) * q * sigma - p * (1 - sigma)
    assert sp.simplify(sp.diff(loss, s) - slope) == 0
    optimum = sp.log(p / q) - sp.log(n - 1)
    assert sp.simplify(slope.subs(s, optimum)) == 0
    assert sp.simplify(sp.diff(slope, s) - (p + (n - 1) * q) * sigma * (1 - sigma)) == 0  # > 0
    # No finite optimum where one of the masses is 0: the slope keeps its sign.
    assert sp.simplify(slope.subs(p, 0) - (n - 1) * q * sigma) == 0
    assert sp.simplify(slope.subs(q, 0) + p * (1 - sigma)) == 0


@pytest.mark.claim("nce-local-optimum", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("count", [2, 5, 1000])
def test_descending_the_loss_reaches_the_optimal_scores(count: int) -> None:
    joint = Joint(torch.tensor([[1, 4, 2], [5, 5, 3]], dtype=torch.float64) / 20)
    free = torch.eye(6, dtype=torch.float64).view(2, 3, 6)
    log_q = log_of(NOISE)
    theta = families.fit(free, lambda s: local_nce.cross_entropy(joint, s, count, log_q), tolerance=1e-10)
    scores = theta.view(2, 3)
    assert torch.allclose(scores, local_nce.optimal_scores(joint, count, log_q), atol=1e-6)
    assert torch.allclose(local_nce.recover(scores, count, log_q), joint.y_given_x, atol=1e-6)


@pytest.mark.claim("nce-pmi", shows="statement", evidence="quadrature")
def test_with_marginal_noise_the_optimum_is_pmi_minus_a_constant() -> None:
    # That it is the optimum is nce-local-optimum.
    joint = joint_of(P)
    pmi = (joint.p / torch.outer(joint.p.sum(1), joint.p.sum(0))).log()
    assert torch.allclose(local_nce.optimal_scores(joint, 6), pmi - math.log(5), atol=1e-15)


@pytest.mark.claim("nce-local-recover", shows="statement", evidence="proof")
def test_the_optimum_recovers_the_conditional_without_normalising() -> None:
    optimum = sp.log(p / q) - sp.log(n - 1)
    assert sp.simplify(sp.exp(optimum + sp.log(q) + sp.log(n - 1)) - p) == 0
    joint, log_q = joint_of(P), log_of(NOISE)
    scores = local_nce.optimal_scores(joint, 9, log_q)
    assert torch.allclose(local_nce.recover(scores, 9, log_q), joint.y_given_x, atol=1e-15)
    assert defect_of(scores, 9, log_q).abs().max() < 1e-15


def test_classes_that_the_noise_cannot_produce_are_not_recovered() -> None:
    log_q = log_of(NARROW)
    scores = local_nce.optimal_scores(joint_of(P), 2, log_q)
    assert scores[1, 2] == math.inf
    assert local_nce.recover(scores, 2, log_q)[1, 2] == 0
    assert defect_of(scores, 2, log_q)[1].item() == pytest.approx(-3 / 7)  # pop(2|1)


FEATURES = torch.tensor([[[1.0], [0.0], [-1.0]], [[3.0], [1.0], [0.0]]], dtype=torch.float64)
"""s(x, y) = theta f(x, y): one parameter for two x, and no bias."""
TRUTH = torch.ones(1, dtype=torch.float64)
LOG_Q, OF_X = log_of(NOISE), torch.tensor([0.3, 0.7], dtype=torch.float64)


@pytest.mark.claim("nce-self-normalisation", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_local_nce_is_inconsistent_where_scores_cannot_normalise_themselves(count: int) -> None:
    # pop(y|x) ~ q(y) e^(theta f(x,y)) with theta = 1. sum_y q(y) e^(f(x,y)) is e/2 + 1/3 + 1/(6e) = 1.8 at one x and
    # e^3/2 + e/3 + 1/6 = 11.1 at the other: no theta makes both 1/(N - 1), as local NCE needs.
    joint = families.tilted(FEATURES, TRUTH, OF_X, LOG_Q)
    by_global = families.fit(FEATURES, lambda s: global_nce.cross_entropy(joint, s, count, LOG_Q))
    by_local = families.fit(FEATURES, lambda s: local_nce.cross_entropy(joint, s, count, LOG_Q))
    assert by_global.item() == pytest.approx(1, abs=1e-6)
    recovered = global_nce.recover(families.scores(FEATURES, by_global), LOG_Q)
    assert torch.allclose(recovered, joint.y_given_x, atol=1e-6)
    assert by_local.item() < 0.4
    scores = families.scores(FEATURES, by_local)
    assert defect_of(scores, count, LOG_Q).abs().max() > 0.1
    assert (local_nce.recover(scores, count, LOG_Q) - joint.y_given_x).abs().max() > 0.1
    assert (global_nce.recover(scores, LOG_Q) - joint.y_given_x).abs().max() > 0.1  # nor by normalising afterwards


@pytest.mark.claim("nce-self-normalisation", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("count", [2, 10])
def test_a_bias_for_each_x_makes_local_nce_consistent(count: int) -> None:
    joint = families.tilted(FEATURES, TRUTH, OF_X, LOG_Q)
    biases = torch.eye(2, dtype=torch.float64).unsqueeze(1).expand(2, 3, 2)
    features = torch.cat([FEATURES, biases], -1)
    theta = families.fit(features, lambda s: local_nce.cross_entropy(joint, s, count, LOG_Q))
    assert theta[0].item() == pytest.approx(1, abs=1e-5)
    assert torch.allclose(joint.x, OF_X)
    for bias, z in zip(theta[1:], (LOG_Q + FEATURES[..., 0]).exp().sum(1), strict=True):
        assert bias.item() == pytest.approx(-math.log(z) - math.log(count - 1), abs=1e-5)


@pytest.mark.claim("nce-self-normalisation", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("count", [2, 5, 100])
def test_only_scores_that_normalise_themselves_recover_a_law(count: int) -> None:
    # Necessity: what local NCE recovers sums to 1 exactly as far as the scores normalise themselves, whatever they are.
    log_q = log_of(NOISE)
    scores = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(count))
    sums = (scores + log_q).exp().sum(-1) * (count - 1)
    torch.testing.assert_close(defect_of(scores, count, log_q), sums - 1, rtol=1e-12, atol=1e-13)
    assert (sums - 1).abs().min() > 1e-3
    # So none for the optimal scores; and e^c - 1 for the same less a constant, though their softmax is the same.
    optimum = local_nce.optimal_scores(joint_of(P), count, log_q)
    assert defect_of(optimum, count, log_q).abs().max() < 1e-14
    moved = defect_of(optimum + 0.5, count, log_q)
    assert moved.tolist() == pytest.approx([math.exp(0.5) - 1] * len(optimum), rel=1e-13)
