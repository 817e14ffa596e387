"""Which sampled cross entropies are consistent: rational enumeration, the integrals, and the minimisers."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from math import comb, log, prod

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.functional import sampled_softmax
from sumexp.negatives import consistency, scheme
from sumexp.negatives.schemes import Weights
from sumexp.samplers import Hits, log_inclusion, relative, within_batch
from tests.exact import draws, floats, laws, log_of, union
from tests.negatives.search import implicit_losses, searched

Q = Fraction
P, PI = (Q(1, 2), Q(3, 10), Q(1, 5)), (Q(3, 5), Q(3, 10), Q(1, 10))
posterior, log_q = (floats(law) for law in (P, PI))
log_q = log_q.log()


Outcome = tuple[tuple[int, ...], Fraction]  # the drawn classes and their probability


def coins(pi: tuple[Fraction, ...]) -> Iterator[Outcome]:
    for tossed in product((False, True), repeat=len(pi)):
        chance = prod((c if up else 1 - c for c, up in zip(pi, tossed, strict=True)), start=Q(1))
        yield tuple(j for j, up in enumerate(tossed) if up), chance


def slope(
    p: tuple[Fraction, ...],
    outcomes: Iterable[Outcome],
    relative: tuple[Fraction, ...],
    keep: bool,
    exp_f: tuple[Fraction, ...] | None = None,
) -> list[Fraction]:
    """The gradient of sum_y p_y E log(1 + sum_j (c_y/c_j) e^{f_j - f_y}), by default at f = log p."""
    r = [e / c for e, c in zip(exp_f or p, relative, strict=True)]
    total = [Q(0)] * len(p)
    for y, (drawn, chance) in product(range(len(p)), outcomes):
        if not p[y]:
            continue
        kept = [j for j in drawn if keep or j != y]
        normaliser = r[y] + sum(r[j] for j in kept)
        total[y] += p[y] * chance * (r[y] / normaliser - 1)
        for j in kept:
            total[j] += p[y] * chance * r[j] / normaliser
    return total


@pytest.mark.claim("sumexp-consistent", shows="statement", evidence="exact")
@given(laws(3, 9), laws(3, 9), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_relative_weights_with_hits_kept_are_right(p: tuple[Fraction, ...], q: tuple[Fraction, ...], m: int) -> None:
    # The loss is convex, so the zero of its slope is its minimum.
    assert slope(p, draws(q, m), q, keep=True) == [0, 0, 0]


@pytest.mark.claim("sumexp-consistent", shows="statement", evidence="exact")
@given(laws(3, 9), st.integers(1, 3), st.fractions(Q(1, 20), 5, max_denominator=20))
@settings(deadline=None, max_examples=30)
def test_scores_of_classes_that_are_never_labels(q: tuple[Fraction, ...], m: int, score: Fraction) -> None:
    """P = 0 < q: the loss rises with that score, so that its minimum lies at log 0; there the others are at log P.
    P = q = 0: the score is free."""
    p = (Q(2, 3), Q(1, 3), Q(0))
    assert slope(p, draws(q, m), q, keep=True, exp_f=(*p[:2], score))[2] > 0
    assert slope(p, draws(q, m), q, keep=True) == [0, 0, 0]
    never = (q[0] / (q[0] + q[1]), q[1] / (q[0] + q[1]))
    believed = (*never, Q(1))  # any correction: it is not used
    assert slope(p, draws(never, m), believed, keep=True, exp_f=(*p[:2], score)) == [0, 0, 0]


@given(laws(3, 9), laws(4, 9))
def test_pairs_of_one_redrawn_negative_fix_p_over_one_minus_q(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> None:
    q = tuple(x / sum(q[:3]) for x in q[:3])
    exp_f = tuple(a / (1 - b) for a, b in zip(p, q, strict=True))
    total = [Q(0)] * 3
    for y, j in product(range(3), repeat=2):
        if y != j:  # j is drawn with probability q_j / (1 - q_y), then r_y / (r_y + r_j) as in `slope`
            r = [e / c for e, c in zip(exp_f, q, strict=True)]
            push = p[y] * q[j] / (1 - q[y]) * r[j] / (r[y] + r[j])
            total[y] -= push
            total[j] += push
    assert total == [0, 0, 0]


@pytest.mark.claim("sumexp-consistent", shows="statement", evidence="exact")
@given(laws(4, 9), st.integers(2, 4))
@settings(deadline=None, max_examples=30)
def test_dropped_hits_push_towards_the_head(p: tuple[Fraction, ...], m: int) -> None:
    """At the true scores and q = p the slope is p_l (C - psi(p_l)), psi(p) = m E 1/(2 + Bin(m-1, 1-p)) rising in p."""

    def psi(x: Fraction) -> Fraction:
        return m * sum((comb(m - 1, k) * (1 - x) ** k * x ** (m - 1 - k) / Q(2 + k) for k in range(m)), start=Q(0))

    got = slope(p, draws(p, m), p, keep=False)
    constants = {g / x + psi(x) for g, x in zip(got, p, strict=True)}
    assert len(constants) == 1
    head, tail = max(p), min(p)
    if head > tail:
        assert psi(head) > psi(tail)
        assert got[p.index(head)] < 0 < got[p.index(tail)]  # descent raises the head and lowers the tail
    else:
        assert set(got) == {0}


@pytest.mark.claim("sumexp-consistent", shows="statement", evidence="exact")
@given(laws(3, 9), st.tuples(*[st.fractions(Q(1, 20), Q(19, 20), max_denominator=20)] * 3))
@settings(deadline=None)
def test_classes_by_independent_coins_with_hits_left_out(p: tuple[Fraction, ...], pi: tuple[Fraction, ...]) -> None:
    assert slope(p, list(coins(pi)), pi, keep=False) == [0, 0, 0]


def test_the_rule_for_hits_depends_on_the_kind_of_set() -> None:
    assert slope(P, draws(PI, 2), PI, keep=False)[0] < 0  # a multiset, hits left out: head
    assert slope(P, list(coins(PI)), PI, keep=True)[0] > 0  # a set, hits kept: against the head
    union = [(tuple(sorted(set(drawn))), chance) for drawn, chance in draws(PI, 2)]
    inclusion = tuple(1 - (1 - q) ** 2 for q in PI)
    assert slope(P, union, inclusion, keep=False)[0] < 0  # the union of two draws: nearly a set of coins, not quite


def test_the_union_of_a_poisson_number_of_draws_is_a_set_of_coins() -> None:
    # Counts are then independent Poisson variables, each positive with probability 1 - exp(-rate q). Check on the law
    # of the union itself: sum over m of Poisson(m; 3) P(U = C | m), cut at m = 60, where the rest is below 1e-40.
    rate, chances = 3.0, torch.zeros(8, dtype=torch.float64)
    count = torch.arange(61, dtype=torch.float64)
    poisson = torch.exp(count * log(rate) - rate - torch.lgamma(count + 1))
    for m in range(1, 61):
        members, chance = consistency.union_law(log_q, m)
        chances += poisson[m] * chance
    chances[0] += poisson[0]
    pi = -torch.expm1(-rate * log_q.exp())
    by_coins = torch.where(members, pi, 1 - pi).prod(-1)
    torch.testing.assert_close(chances, by_coins, rtol=1e-10, atol=1e-14)


def test_a_wrong_inclusion_probability_shifts_the_score_by_its_logarithm() -> None:
    actual, believed = (torch.tensor(x, dtype=torch.float64).log() for x in ((0.5, 0.2, 1e-6), (0.5, 0.3, 0.1)))
    got = consistency.minimiser(consistency.coin_losses(actual, believed), posterior)
    expected = posterior.log() + believed - actual
    torch.testing.assert_close(got, expected - expected.mean(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_added_instead_of_subtracted_log_q_doubles_the_fault(m: int) -> None:
    """Scores minus log q are right whatever they are called: f + log q = log p - log q, so f = log p - 2 log q."""
    added = (-log_q, log_q)  # w = q_j / q_y
    got = consistency.minimiser(consistency.multiset_losses(log_q, m, added, "keep"), posterior)
    expected = posterior.log() - 2 * log_q
    torch.testing.assert_close(got, expected - expected.mean(), rtol=0, atol=1e-9)


scores = st.tuples(*[st.floats(-8, 8)] * 3).map(lambda f: torch.tensor(f, dtype=torch.float64))
WEIGHTS: tuple[Weights, ...] = ("constant", "importance", "relative", "tail")


@given(scores, laws(3, 9), st.integers(1, 3), st.sampled_from(WEIGHTS), st.sampled_from(["keep", "mask", "redraw"]))
@example(posterior.log(), (1 - Q(2, 10**12), *[Q(1, 10**12)] * 2), 2, "importance", "redraw")
@settings(deadline=None, max_examples=60)
def test_losses_of_every_class(f: Tensor, q: tuple[Fraction, ...], m: int, weights: Weights, hits: Hits) -> None:
    log_law = log_of(q)
    log_a, log_b = consistency.factors(weights, log_law, m, hits=hits, prior=log_q)
    got = consistency.multiset_losses(log_law, m, (log_a, log_b), hits)(f)
    for y in range(3):
        expected = 0.0
        law = [float(x) for x in q]
        if hits == "redraw":
            law = [0.0 if j == y else float(x / (1 - q[y])) for j, x in enumerate(q)]
        for drawn in product(range(3), repeat=m):
            kept = [j for j in drawn if hits == "keep" or j != y]
            total = sum((log_a[y] + log_b[j] + f[j] - f[y]).exp().item() for j in kept)
            expected += prod(law[j] for j in drawn) * float(torch.log1p(torch.tensor(total, dtype=torch.float64)))
        assert got[y].item() == pytest.approx(expected, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("hits", ["keep", "mask", "redraw"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_losses_agree_with_the_implicit_loss_of_each_label(weights: Weights, hits: Hits) -> None:
    if weights == "relative" and hits == "redraw":
        return  # there the paper's convention makes all weights 0
    f, m = torch.tensor([1.0, -20.0, 15.0], dtype=torch.float64), 50
    by_label = implicit_losses([scheme(log_q, y, m, weights, hits, prior=log_q) for y in range(3)])
    joint = consistency.multiset_losses(log_q, m, consistency.factors(weights, log_q, m, hits=hits, prior=log_q), hits)
    torch.testing.assert_close(joint(f + 1e9), by_label(f), rtol=1e-10, atol=0)


@given(scores, st.tuples(*[st.floats(0.01, 0.99)] * 3))
@settings(deadline=None)
def test_coins_against_the_sum_over_all_sets(f: Tensor, pi: tuple[float, ...]) -> None:
    inclusion = torch.tensor(pi, dtype=torch.float64)
    members = torch.tensor(list(product((False, True), repeat=3)))
    chance = torch.where(members, inclusion, 1 - inclusion).prod(-1)
    by_sets = consistency.set_losses(members, chance, inclusion.log())(f)
    torch.testing.assert_close(consistency.coin_losses(inclusion.log())(f), by_sets, rtol=1e-9, atol=1e-14)


@given(laws(4, 9), st.integers(1, 5))
@example((1 - Q(2, 10**17) - Q(1, 10**12), *[Q(1, 10**17)] * 2, Q(1, 10**12)), 4)
@settings(deadline=None, max_examples=20)
def test_the_law_of_a_union_by_enumeration(q: tuple[Fraction, ...], m: int) -> None:
    members, chance = consistency.union_law(log_of(q), m)
    expected = union(q, m)
    for row, value in zip(members, chance, strict=True):
        drawn = tuple(row.nonzero().flatten().tolist())
        assert value.item() == pytest.approx(float(expected.get(drawn, 0)), rel=1e-12, abs=0)
    assert consistency.union_law(zipf(9).log(), 10**15)[1][-1] == 1  # rounding is not raised to the power m


@pytest.mark.parametrize(
    "m, expected",
    # The table of the chapter: q = (.6, .3, .1), relative weights, hits left out.
    [(1, (0.5, 0.3, 0.2)), (2, (0.5305, 0.2847, 0.1848)), (4, (0.5796, 0.2570, 0.1634))],
)
def test_two_searches_find_the_same_minimum(m: int, expected: tuple[float, ...]) -> None:
    of_scores = consistency.multiset_losses(log_q, m, consistency.factors("relative", log_q, m), "mask")
    got = consistency.minimiser(of_scores, posterior)
    torch.testing.assert_close(got, searched(of_scores, posterior), rtol=0, atol=1e-8)
    assert torch.softmax(got, -1).tolist() == pytest.approx(expected, abs=5e-5)
    assert got.mean().abs() < 1e-14


def test_the_recipe_for_in_batch_scores_has_that_loss() -> None:
    """Relative weights and hits kept, over all batches of three labels."""
    f, prior, mean = torch.tensor([1.0, -0.5, 0.3], dtype=torch.float64), posterior.log(), 0.0
    for labels in torch.cartesian_prod(*[torch.arange(3)] * 3):
        drawn = within_batch(labels, prior)
        weights = relative(drawn.log_q, prior[labels].unsqueeze(1))
        mean += posterior[labels].prod().item() * sampled_softmax(f[labels], f[drawn.ids], weights=weights).item()
    exact = consistency.multiset_losses(prior, 2, consistency.factors("relative", prior, 2), "keep")(f)
    assert mean == pytest.approx((posterior @ exact).item(), rel=1e-9)


def zipf(classes: int, power: float = 1.0) -> Tensor:
    weights = torch.arange(1, classes + 1, dtype=torch.float64) ** -power
    return weights / weights.sum()


@given(scores, st.integers(1, 9), st.sampled_from(WEIGHTS), st.sampled_from(["keep", "mask", "redraw"]))
@settings(deadline=None, max_examples=60)
def test_the_curvature_in_closed_form(f: Tensor, m: int, weights: Weights, hits: Hits) -> None:
    p = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    both = consistency.factors(weights, log_q, m, hits=hits, prior=p.log())
    losses = consistency.multiset_losses(log_q, m, both, hits)
    expected = torch.autograd.functional.hessian(lambda x: p @ losses(x), f)  # type: ignore[no-untyped-call]
    assert isinstance(losses, consistency._Multiset)
    product = losses.curvature(f, p)
    got = torch.stack([product(v) for v in torch.eye(3, dtype=torch.float64)])
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.claim("sumexp-consistent", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("m", [1, 7])
def test_hundreds_of_classes_are_learned_from_few_negatives(m: int) -> None:
    q, p = zipf(300).log(), zipf(300, 0.5).flip(0)
    keep = consistency.multiset_losses(q, m, consistency.factors("relative", q, m), "keep")
    for of_scores in (keep, consistency.coin_losses(log_inclusion(q, m))):
        got = consistency.minimiser(of_scores, p, start=torch.zeros_like(p))
        torch.testing.assert_close(got, p.log() - p.log().mean(), rtol=0, atol=1e-7)
