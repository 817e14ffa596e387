"""What a cross entropy promises: proofs executed, small cases in rationals with all ties, and extreme inputs."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise, permutations, product
from math import exp, inf, log, log1p, log2, nan, prod

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor

from sumexp import functional, ranking
from tests.ranking.transparent import BY_ORDER

Q = Fraction
FLOAT = 1e-9  # relative slack for logarithms of floats


def ranked(a: tuple[int, ...]) -> Iterator[dict[int, int]]:
    """The rank of every class, for every order that the weights a = e^z allow: all rules for ties."""
    for order in permutations(range(len(a))):
        if all(a[i] >= a[j] for i, j in pairwise(order)):
            yield {item: place for place, item in enumerate(order, 1)}


# All weights e^z in {1, 2, 5} of two to four classes, with all their ties.
WEIGHTS = [a for n in (2, 3, 4) for a in product((1, 2, 5), repeat=n)]

# Logits of every size, also such as tie, overflow in exp, or cannot be.
logits = st.lists(
    st.one_of(st.floats(-1e4, 1e4), st.sampled_from([0.0, 1.0, -1e300, 1e300, -inf])), min_size=1, max_size=8
)


def batch(values: list[float]) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.claim("ranking-partition", shows="statement", evidence="exact")
def test_at_least_r_terms_are_as_large_and_the_scores_determine_what_is_left() -> None:
    for a in WEIGHTS:
        for places in ranked(a):
            for i, r in places.items():
                assert sum(x >= a[i] for x in a) >= r
                epsilon = sum(a) - r * a[i]
                # F4: not arbitrary, but the excess of those before i, and all of those after.
                excess = sum(a[j] - a[i] for j in places if places[j] <= r)
                assert epsilon == excess + sum(a[j] for j in places if places[j] > r) >= 0


@pytest.mark.claim("ranking-partition", shows="statement", evidence="proof")
def test_the_partition_for_any_number_of_classes() -> None:
    # Induction over the order: a class put before i adds its a_j - a_i >= 0 and raises r by one; one put after it
    # adds a_j > 0. Symbolic: epsilon' - epsilon in both cases.
    rest, label, other, r = sp.symbols("rest label other r", positive=True)
    epsilon = rest + label - r * label
    assert sp.simplify((rest + other + label - (r + 1) * label) - epsilon - (other - label)) == 0
    assert sp.simplify((rest + other + label - r * label) - epsilon - other) == 0
    assert epsilon.subs({rest: 0, r: 1}) == 0  # it begins with i alone


@pytest.mark.claim("ranking-softmax-le-rr", shows="statement", evidence="proof")
def test_the_gap_between_reciprocal_rank_and_probability() -> None:
    # With Z = r a + epsilon: 1/r - a/Z = epsilon/(r Z) >= 0, and 0 only for epsilon = 0.
    a, r, epsilon = sp.symbols("a r epsilon", positive=True)
    gap = 1 / r - a / (r * a + epsilon)
    assert sp.simplify(gap - epsilon / (r * (r * a + epsilon))) == 0


@pytest.mark.claim("ranking-softmax-le-rr", shows="statement", evidence="exact")
def test_probability_is_at_most_the_reciprocal_rank_by_every_rule_for_ties() -> None:
    for a in WEIGHTS:
        for places in ranked(a):
            for i, r in places.items():
                p = Q(a[i], sum(a))
                assert p <= Q(1, r)
                assert (p == Q(1, r)) == (len(set(a)) == 1 and r == len(a))


@pytest.mark.claim("ranking-softmax-le-rr", shows="statement", evidence="quadrature")
@given(logits, st.data())
@settings(max_examples=80, deadline=None)
def test_the_same_at_extreme_logits(values: list[float], data: st.DataObject) -> None:
    label = data.draw(st.integers(0, len(values) - 1))
    assume(values[label] > -inf)
    z, y = batch(values), torch.tensor([label])
    loss = functional.cross_entropy(z, y).item()
    for ties in ("expected", "pessimistic", "optimistic"):
        rank = ranking.rank(z, y, ties=ties).item()
        rr = ranking.reciprocal_rank(z, torch.nn.functional.one_hot(y, len(values)) > 0, ties=ties).item()
        assert loss >= log(rank) * (1 - FLOAT)
        assert exp(-loss) <= rr * (1 + FLOAT)  # the mean of 1/r over ties, not one over the mean rank
        least, greatest = ranking.possible_ranks(loss, max(2, len(values)))
        assert least <= rank <= max(greatest, 1)


queries = st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=5), min_size=1, max_size=4)


@pytest.mark.claim("ranking-amgm", shows="statement", evidence="proof")
def test_the_geometric_mean_is_at_most_the_arithmetic_one() -> None:
    # log x <= log mu + (x - mu)/mu: the difference has derivative 1/mu - 1/x, so its only minimum is 0 at x = mu.
    # The mean over queries of the right side is log mu, as the mean of x - mu is 0.
    x, mu = sp.symbols("x mu", positive=True)
    gap = sp.log(mu) + (x - mu) / mu - sp.log(x)
    assert sp.solve(sp.diff(gap, x), x) == [mu]
    assert sp.simplify(gap.subs(x, mu)) == 0
    assert sp.simplify(sp.diff(gap, x, 2) - 1 / x**2) == 0


@pytest.mark.claim("ranking-amgm", shows="statement", evidence="exact")
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6))
def test_the_product_of_reciprocal_ranks_is_at_most_the_power_of_their_mean(ranks: list[int]) -> None:
    rr = [Q(1, r) for r in ranks]
    assert prod(rr) <= (sum(rr) / len(rr)) ** len(rr)


@pytest.mark.claim("ranking-ce-log-mrr", shows="statement", evidence="exact")
@given(queries)
@settings(deadline=None)
def test_cross_entropy_bounds_log_mrr_in_rationals(lists: list[list[int]]) -> None:
    # exp(-N CE) is the product of the targets' probabilities: no logarithm is needed. The target is class 0, and takes
    # the last place among ties.
    p = [Q(a[0], sum(a)) for a in lists]
    mrr = sum(Q(1, sum(x >= a[0] for x in a)) for a in lists) / len(lists)
    assert prod(p) <= mrr ** len(lists)  # by the mean of logarithms (Jensen, AM-GM)
    assert sum(p) / len(lists) <= mrr  # without: MRR is at least the mean probability, which is at least exp(-CE)
    assert prod(p) <= (sum(p) / len(lists)) ** len(lists)


@pytest.mark.claim("ranking-ce-log-mrr", shows="statement", evidence="proof")
def test_both_steps_of_the_bound_for_any_number_of_queries() -> None:
    # Query by query: c - log r = log(1/r) - log p = log(1 + epsilon/(r a)) >= 0, with Z = r a + epsilon.
    a, r, epsilon = sp.symbols("a r epsilon", positive=True)
    excess = (1 / r) / (a / (r * a + epsilon)) - 1
    assert sp.simplify(excess - epsilon / (r * a)) == 0
    # Then the mean: log RR <= log M + (RR - M)/M at M = MRR (the tangent of test_the_geometric_mean...), and over N
    # queries the second terms sum to (N M - N M)/M = 0.
    n, m = sp.symbols("N M", positive=True)
    total = n * m  # the sum of the reciprocal ranks
    assert sp.simplify((n * sp.log(m) + (total - n * m) / m) / n - sp.log(m)) == 0


def several() -> Iterator[tuple[list[Fraction], list[int]]]:
    """The probabilities and ranks of the relevant items, for all weights, orders and sets of relevant items."""
    for a in WEIGHTS:
        for bits, places in product(range(1, 2 ** len(a)), ranked(a)):
            relevant = [i for i in places if bits >> i & 1]
            yield [Q(a[i], sum(a)) for i in relevant], [places[i] for i in relevant]


@pytest.mark.claim("ranking-multilabel", shows="statement", evidence="exact")
def test_uniform_labels_bound_the_log_rank_of_the_first_relevant_item() -> None:
    # exp(-R CE) = product of p over the relevant; each is at most 1/r_i, and 1/r_i at most 1/(first rank).
    for p, ranks in several():
        assert prod(p) <= prod(Q(1, r) for r in ranks) <= Q(1, min(ranks)) ** len(ranks)


@pytest.mark.claim("ranking-multilabel", shows="statement", evidence="quadrature")
@pytest.mark.claim("ranking-ndcg-bound", shows="statement", evidence="quadrature")
@given(logits, st.data())
@settings(max_examples=60, deadline=None)
def test_several_relevant_items_at_extreme_logits(values: list[float], data: st.DataObject) -> None:
    relevant = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    assume(any(relevant) and all(z > -inf for z, flag in zip(values, relevant, strict=True) if flag))
    z, mask = batch(values), torch.tensor([relevant])
    loss = functional.listnet(z, mask, reduction="none")
    size = mask.sum(-1)
    for ties in ("expected", "pessimistic", "optimistic"):
        rr = ranking.reciprocal_rank(z, mask, ties=ties).item()
        assert exp(-loss.item()) <= rr * (1 + FLOAT)
        # least_rr holds for each order; the mean over orders of 1/r cannot be less than the worst order's.
        assert ranking.least_rr(loss, size).item() <= rr * (1 + 1e-6)
        assert ranking.ndcg(z, mask, ties=ties).item() >= ranking.least_ndcg(loss).item() * (1 - FLOAT)
        assert ranking.least_ndcg(loss).item() >= exp(-loss.item()) * (1 - FLOAT)
    marginal = functional.marginal(z, mask).item()
    first = 1 / ranking.reciprocal_rank(z, mask, ties="pessimistic").item()
    assert marginal >= log(1 + (first - 1) / sum(relevant)) * (1 - FLOAT) - 1e-15
    assert marginal <= loss.item() * (1 + FLOAT) + 1e-15


def test_what_the_marginal_loss_bounds_instead_is_exact() -> None:
    for p, ranks in several():
        assert sum(p) <= 1 / (1 + Q(min(ranks) - 1, len(p)))
    # Attained where the negatives before and all relevant items tie: (R)/(R + r - 1). F2 has a loss below log r.
    z = torch.tensor([[0.0] * 7 + [-inf]], dtype=torch.float64)
    mask = torch.tensor([[False] * 4 + [True] * 3 + [False]])
    assert functional.marginal(z, mask).item() == pytest.approx(log(1 + 4 / 3), rel=1e-14)


@pytest.mark.claim("sumexp-first-rank", shows="statement", evidence="exact")
def test_the_first_rank_that_several_relevant_items_allow() -> None:
    # exp(-R CE) is the product of the p, at most their mean to the power R, and that at most 1/(R + r - 1)^R.
    for p, ranks in several():
        size = len(p)
        assert prod(p) <= (sum(p) / size) ** size <= Q(1, size + min(ranks) - 1) ** size
    # Attained where the r - 1 negatives ahead and all R relevant items tie.
    for size, first in (*((1, first) for first in range(1, 6)), (3, 1), (3, 5), (19, 2)):
        z = torch.zeros(1, size + first - 1, dtype=torch.float64)
        mask = torch.arange(size + first - 1).unsqueeze(0) >= first - 1
        rr = ranking.least_rr(functional.listnet(z, mask, reduction="none"), mask.sum(-1)).item()
        assert rr == pytest.approx(1 / first, rel=1e-14)
        assert ranking.reciprocal_rank(z, mask, ties="pessimistic").item() == pytest.approx(1 / first)
    assert ranking.least_rr(log(10**6 + 2**27), 10**6).item() == pytest.approx(1 / (2**27 + 1), rel=1e-10)  # the curve
    assert ranking.least_rr(torch.tensor([inf]), torch.tensor([1])).item() == 0


@pytest.mark.claim("ranking-ndcg-bound", shows="statement", evidence="proof")
def test_every_link_of_the_chain_to_ndcg() -> None:
    x = sp.symbols("x", positive=True)
    # 1. The best DCG of R items is a sum of R terms 1/log2(1 + r) <= 1/log2(2) = 1, so it is at most R.
    assert sp.log(2, 2) == 1
    assert sp.diff(1 / sp.log(1 + x, 2), x).subs(sp.log(1 + x), sp.Symbol("y", positive=True)).is_negative  # falling
    # 2. log2(1 + r) <= r for r >= 1: equal at 1; the slope 1/((1+r) log 2) is at most 1/(2 log 2) < 1 beyond.
    assert sp.log(1 + 1, 2) == 1
    assert 1 / (2 * sp.log(2)) < 1
    # 3. p <= 1/r is the theorem above. 4. mean p >= exp(mean log p): Jensen, tangent line of exp at the mean.
    m = sp.symbols("m", real=True)
    y = sp.symbols("y", real=True)
    gap = sp.exp(y) - sp.exp(m) * (1 + y - m)
    assert sp.simplify(sp.diff(gap, y, 2) - sp.exp(y)) == 0
    assert gap.subs(y, m) == 0
    assert sp.diff(gap, y).subs(y, m) == 0


@pytest.mark.claim("ranking-ndcg-bound", shows="statement", evidence="exact")
def test_the_rational_links_of_the_chain_with_all_ties() -> None:
    for p, ranks in several():
        size, reciprocal = len(p), sum(Q(1, r) for r in ranks)
        discounts = sum(1 / log2(1 + r) for r in ranks)
        assert BY_ORDER["ndcg"]([place in ranks for place in range(1, 5)], size) >= discounts / size - 1e-12
        assert discounts >= float(reciprocal) - 1e-12
        assert reciprocal >= sum(p)
        assert (sum(p) / size) ** size >= prod(p)


def test_the_sharper_bound_of_ndcg_is_convex() -> None:
    # 1/log2(1 + e^c) is convex in c, so that Jensen takes it over items and over queries: with u = e^c its second
    # derivative is a positive multiple of 2u - log(1 + u), which is > 0 as log(1 + u) <= u.
    c, u = sp.symbols("c u", positive=True)
    second = sp.diff(sp.log(2) / sp.log(1 + sp.exp(c)), c, 2).subs(sp.exp(c), u)
    multiple = sp.log(2) * u / ((1 + u) ** 2 * sp.log(1 + u) ** 3)
    assert sp.simplify(second - multiple * (2 * u - sp.log(1 + u))) == 0


def hull(c: float, metric: Callable[[int], float], classes: int) -> float:
    """The least mean metric of a mixture of the ranks 1..classes whose mean log rank is at most c: a linear program."""
    ranks = range(1, classes + 1)
    result = linprog(
        [metric(r) for r in ranks],
        A_ub=[[log(r) for r in ranks]],
        b_ub=[c],
        A_eq=[[1.0] * classes],
        b_eq=[1.0],
    )
    assert result.status == 0
    return float(result.fun)


@pytest.mark.claim("sumexp-promise", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("c", [0.0, 0.35, log(2), 1.0, log(3), 2.5, log(40), 9.0])
def test_promises_are_the_hull_of_the_points_by_a_linear_program(c: float) -> None:
    n = 40
    promises = {
        lambda r: 1 / r: ranking.least_rr(c, classes=n),
        lambda r: 1 / log2(1 + r): ranking.least_ndcg(c, classes=n),
        lambda r: float(r <= 7): ranking.least_recall(c, 7),
    }
    for metric, promise in promises.items():
        assert promise.item() == pytest.approx(hull(c, metric, n), abs=1e-9)


def test_at_the_least_loss_of_r_relevant_items_the_first_rank_is_one_and_promises_fall_at_whole_ranks() -> None:
    sizes = torch.arange(1, 3000)
    c = sizes.double().log().requires_grad_()
    assert ranking.least_rr(c, sizes).unique().tolist() == [1.0]
    for promise in (ranking.least_rr, ranking.least_ndcg):
        assert (torch.autograd.grad(promise(c).sum(), c)[0] < 0).all()  # was 0 at each twelfth


def test_promises_lie_above_the_curves_between_whole_ranks() -> None:
    # c = .35 is between the ranks 1 and 2, at the share .35/log 2 of the chord.
    s = 0.35 / log(2)
    assert ranking.least_ndcg(0.35).item() == pytest.approx(1 - s + s / log2(3), rel=1e-14)
    assert round(ranking.least_ndcg(0.35).item(), 3) == 0.814 > round(log(2) / log(1 + exp(0.35)), 3) == 0.785
    assert ranking.least_rr(0.35).item() == pytest.approx(1 - s / 2, rel=1e-14)
    assert round(ranking.least_rr(0.35).item(), 3) == 0.748 > round(exp(-0.35), 3) == 0.705
    # With R = 3 the points are (log(2 + r), 1/r): half-way from r = 2 to r = 3.
    c = (log(4) + log(5)) / 2
    assert ranking.least_rr(c, 3).item() == pytest.approx((1 / 2 + 1 / 3) / 2, rel=1e-14)
    for c in (20.0, 33.9, 34.1, 600.0, 800.0):  # so far out a chord is its curve
        assert ranking.least_rr(c).item() == pytest.approx(exp(-c), rel=1e-9)
        assert ranking.least_ndcg(c).item() == pytest.approx(log(2) / (c + log1p(exp(-c))), rel=1e-12)
        at = torch.tensor(c, dtype=torch.float64, requires_grad=True)
        for promise, slope in ((ranking.least_rr, -exp(-c)), (ranking.least_ndcg, -log(2) / c**2)):
            assert torch.autograd.grad(promise(at), at)[0].item() == pytest.approx(slope, rel=1e-8)  # was 0 or NaN
    assert ranking.least_rr(-1e-6) == ranking.least_ndcg(-1e-6) == ranking.least_recall(-1e-6, 3) == 1  # rounded


@pytest.mark.claim("sumexp-promise", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("c", [0.0, 0.35, 0.9, log(3), 1.7])
@pytest.mark.parametrize("size", [1, 3])
def test_every_promise_is_kept_to_the_last_digit_by_some_scores(c: float, size: int) -> None:
    # The other half: shares of the queries are ties of R + r - 1 and of R + r items, the relevant last, all others
    # impossible. Their losses are log(R + r - 1) and log(R + r), and their mean is c.
    c += log(size)
    r = max(1, int(exp(c) * (1 + 1e-12)) - size + 1)
    share = (c - log(size + r - 1)) / log((size + r) / (size + r - 1))
    z = torch.full((2, 24), -inf, dtype=torch.float64)
    relevant = torch.zeros(2, 24, dtype=torch.bool)
    for i, rank in enumerate((r, r + 1)):
        z[i, : size + rank - 1] = 0
        relevant[i, :size] = True
    of = torch.tensor([1 - share, share], dtype=torch.float64)
    assert (functional.listnet(z, relevant, reduction="none") @ of).item() == pytest.approx(c, rel=1e-12)
    rr = ranking.reciprocal_rank(z, relevant, ties="pessimistic") @ of
    assert ranking.least_rr(c, size).item() == pytest.approx(rr.item(), rel=1e-12)
    if size == 1:
        ndcg = ranking.ndcg(z, relevant, ties="pessimistic") @ of
        assert ranking.least_ndcg(c).item() == pytest.approx(ndcg.item(), rel=1e-12)


@pytest.mark.claim("sumexp-promise", shows="statement", evidence="quadrature")
def test_graded_gains_promise_the_recall_of_their_gains_alone() -> None:
    # An item with a thousandth of the gains stands last of 1,000: the loss hardly knows it, and half the items are it.
    z = torch.tensor([[60.0, -1.0, *[0.0] * 998]], dtype=torch.float64)
    gains = torch.tensor([[0.999, 0.001, *[0.0] * 998]], dtype=torch.float64)
    c = functional.listnet(z, gains).item()
    assert round(c, 3) == 0.061
    assert ranking.recall(z, gains > 0, 10).item() == 0.5 < ranking.least_recall(c, 10).item()
    assert ranking.recall(z, gains, 10).item() == 0.999 >= ranking.least_recall(c, 10).item()


@pytest.mark.claim("sumexp-promise", shows="statement", evidence="quadrature")
@given(st.integers(0, 10**6), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_means_over_queries_keep_every_bound(seed: int, k: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    z = (3 * torch.randn(6, 8, generator=generator)).round().double()
    relevant = torch.rand(6, 8, generator=generator) < 0.3
    relevant[:, 0] |= ~relevant.any(-1)
    gains = relevant * torch.randint(1, 5, (6, 8), generator=generator)
    graded, c = functional.listnet(z, gains), functional.listnet(z, relevant)
    mrr = ranking.mean_reciprocal_rank(z, relevant, ties="pessimistic")
    assert mrr >= ranking.least_rr(c) - 1e-12
    assert ranking.ndcg(z, relevant, ties="pessimistic").mean() >= ranking.least_ndcg(c) - 1e-12
    assert ranking.ndcg(z, gains, ties="pessimistic").mean() >= ranking.least_ndcg(graded) - 1e-12
    assert ranking.recall(z, relevant, k, ties="pessimistic").mean() >= ranking.least_recall(c, k) - 1e-12
    assert ranking.recall(z, gains, k, ties="pessimistic").mean() >= ranking.least_recall(graded, k) - 1e-12
    few = int(relevant.sum(-1).min())
    assert mrr >= ranking.least_rr(c, few) - 1e-12
    assert ranking.mean_reciprocal_rank(z, relevant, ties="pessimistic") >= ranking.least_rr(graded) - 1e-12


def test_least_recall_is_attained() -> None:
    # A share s of the queries has its label just beyond place k, by a tie of k + 1; all others are certain.
    k, s = 4, 0.25
    z = torch.tensor([[0.0] * 5, *[[0.0] + [-inf] * 4] * 3], dtype=torch.float64)
    relevant = torch.tensor([[True] + [False] * 4] * 4)
    c = functional.listnet(z, relevant)
    assert ranking.recall(z, relevant, k, ties="pessimistic").mean().item() == 1 - s
    assert ranking.least_recall(c, k).item() == pytest.approx(1 - s, rel=1e-14)


@pytest.mark.claim("ranking-not-equivalent", shows="statement", evidence="exact")
def test_loss_and_metric_can_disagree_as_much_as_one_likes() -> None:
    # F3. First of n, barely: p = (1 + d)/(n + d). In second place: p = 1/(1 + b), CE about log b, the rank always 2.
    for d, b in ((Q(1), 10), (Q(1, 1000), 10**6), (Q(1, 10**9), 10**21)):
        barely, second = (1 + d, *[1] * 999), (1, b)
        assert [sum(x >= a[0] for x in a) for a in (barely, second)] == [1, 2]
        assert Q(1, 1000) < barely[0] / sum(barely) < Q(1, 1000) * (1 + d)
        assert Q(second[0], sum(second)) < Q(1, b)
    z = torch.tensor([[0.0, 50.0]], dtype=torch.float64)
    assert functional.cross_entropy(z, torch.tensor([0])).item() == pytest.approx(50, rel=1e-14)
    assert ranking.rank(z, torch.tensor([0])).item() == 2
    # One scorer has the lower loss, the other the better rank.
    assert Q(2, 5) > Q(34, 100)  # p: the first has the lower loss ...
    assert sum(x >= 2 for x in (2, 3)) == 2  # ... with e^z = (2, 3), rank 2 ...
    assert sum(x >= 34 for x in (34, 33, 33)) == 1  # ... the second is first of three.


@pytest.mark.claim("ranking-not-equivalent", shows="statement", evidence="proof")
def test_the_minimiser_of_the_loss_need_not_maximise_mrr() -> None:
    # Two classes, scores linear in one parameter t: the target leads by t in two queries and by -10 t in the third.
    # The loss 2 log(1 + e^-t) + log(1 + e^10t) is convex with slope 4 > 0 at 0, so its minimiser is negative, where MRR
    # is (1/2 + 1/2 + 1)/3; any t > 0 has (1 + 1 + 1/2)/3.
    t = sp.symbols("t", real=True)
    loss = 2 * sp.log(1 + sp.exp(-t)) + sp.log(1 + sp.exp(10 * t))
    assert sp.diff(loss, t).subs(t, 0) == -1 + 5
    second = 2 * sp.exp(-t) / (1 + sp.exp(-t)) ** 2 + 100 * sp.exp(10 * t) / (1 + sp.exp(10 * t)) ** 2
    assert sp.simplify(sp.diff(loss, t, 2) - second) == 0
    for value, mrr in ((-0.1, Q(2, 3)), (0.1, Q(5, 6))):
        z = torch.tensor([[value, 0.0], [value, 0.0], [-10 * value, 0.0]], dtype=torch.float64)
        relevant = torch.tensor([[True, False]] * 3)
        assert ranking.mean_reciprocal_rank(z, relevant).item() == pytest.approx(float(mrr), rel=1e-14)


def test_possible_ranks_are_all_possible() -> None:
    # For every rank in the range, logits with just this cross entropy: others at a height h or impossible.
    for n in (2, 5, 9):
        for c in (0.1, log(2), 1.0, log(n), log(n) + 0.2, 4.0):
            least, greatest = ranking.possible_ranks(c, n)
            for r in range(1, n + 1):
                if r == 1:
                    heights = [log(exp(c) - 1) - log(n - 1)]  # all others equally
                    possible = heights[0] <= 1e-12
                else:
                    heights = [log(exp(c) - 1) - log(r - 1)]
                    possible = heights[0] >= -1e-12
                assert possible == (least <= r <= greatest)
                if possible:
                    count = n - 1 if r == 1 else r - 1
                    z = batch([0.0] + heights * count + [-inf] * (n - 1 - count))
                    assert functional.cross_entropy(z, torch.tensor([0])).item() == pytest.approx(c, rel=1e-9)
    assert ranking.possible_ranks(inf, 7) == (2, 7)
    assert ranking.possible_ranks(0.0, 7) == (1, 1)
    assert ranking.possible_ranks(log(7), 7) == (1, 7)
    assert ranking.possible_ranks(log(10**13), 10**15) == (1, 10**13)


@pytest.mark.claim("ranking-training-only", shows="statement", evidence="exact")
def test_equal_on_the_training_data_and_opposite_on_the_test_data() -> None:
    # A table of scores for contexts: "a" seen in training, "b" not. Two test sets of the same context, two answers.
    table = {"a": (98, 1, 1), "b": (1, 1, 98)}  # e^z
    training = [("a", 0)] * 10

    def evaluate(data: list[tuple[str, int]]) -> tuple[Fraction, Fraction]:
        p = [Q(table[x][y], sum(table[x])) for x, y in data]
        mrr = [Q(1, sum(v >= table[x][y] for v in table[x])) for x, y in data]
        return prod(p), sum(mrr, Q(0)) / len(mrr)

    assert evaluate(training) == (Q(98, 100) ** 10, 1)
    assert evaluate([("b", 2)] * 10)[1] == 1
    p, mrr = evaluate([("b", 0)] * 10)
    assert mrr == Q(1, 3)
    assert mrr < Q(98, 100)  # what the training loss would promise; the test set's own loss promises 1/100
    assert p <= mrr**10


@pytest.mark.claim("ranking-piecewise", shows="statement", evidence="exact")
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=7, unique=True), st.data())
@settings(max_examples=60, deadline=None)
def test_metrics_move_only_where_the_order_does(scores: list[int], data: st.DataObject) -> None:
    flags = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)).filter(any))
    z, relevant = torch.tensor([scores]), torch.tensor([flags])
    # Integers are at least 1 apart: scaled by 5 and moved by at most 2 the order stays, and so does every metric.
    moves = data.draw(st.lists(st.integers(-2, 2), min_size=len(scores), max_size=len(scores)))
    moved = 5 * z + torch.tensor([moves])
    before, *after = (ranking.evaluate(s, relevant, [*SECOND, "recall@2"]) for s in (z, moved, z.double().exp()))
    assert after == [before] * 2


SECOND = {"reciprocal_rank": 1 / 2, "average_precision": 1 / 2, "ndcg": 1 / log2(3), "recall@1": 0, "precision@1": 0}
"""Metrics, and what each is of two items whose second is relevant; if the first is, each is 1."""


@pytest.mark.claim("ranking-piecewise", shows="statement", evidence="exact")
def test_metrics_jump_at_a_tie() -> None:
    for delta, first in ((-1e-9, 0), (0.0, 1 / 2), (1e-9, 1)):
        z = torch.tensor([[1.0 + delta, 1.0]], dtype=torch.float64)
        for name, value in ranking.evaluate(z, torch.tensor([[True, False]]), [*SECOND]).items():
            assert value.item() == pytest.approx(first + (1 - first) * SECOND[name])


@pytest.mark.claim("ranking-margin-losses", shows="correction", evidence="proof")
def test_a_margin_that_is_not_negative_raises_the_loss() -> None:
    # log(1 + S e^d) has derivative S e^d/(1 + S e^d) > 0 in d; CosFace's d is scale times margin.
    s, d = sp.symbols("S d", positive=True)
    assert sp.simplify(sp.diff(sp.log(1 + s * sp.exp(d)), d) - s * sp.exp(d) / (1 + s * sp.exp(d))) == 0
    # ArcFace: cos t - cos(t + m) = 2 sin(m/2) sin(t + m/2), not negative for t <= pi - m/2.
    t, m = sp.symbols("t m", real=True)
    assert sp.simplify(sp.cos(t) - sp.cos(t + m) - 2 * sp.sin(m / 2) * sp.sin(t + m / 2)) == 0


@pytest.mark.claim("ranking-margin-losses", shows="correction", evidence="quadrature")
@given(st.integers(0, 10**6), st.floats(0.1, 64), st.floats(0, 1.5))
@settings(max_examples=100, deadline=None)
def test_cosface_and_guarded_arcface_bound_the_rank_by_cosines(seed: int, scale: float, margin: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    cosine = 2 * torch.rand(4, 6, generator=generator, dtype=torch.float64) - 1
    cosine[0, 0], cosine[1, 0] = -1, 1
    labels = torch.tensor([0, 0, 2, 3])
    label_cosine = cosine.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    log_rank = ranking.rank(cosine, labels, ties="pessimistic").log()
    for lowered in (torch.full((4,), margin, dtype=torch.float64), functional.arcface_margin(label_cosine, margin)):
        assert (lowered >= -1e-15).all()
        loss = functional.pairwise_margin(scale * cosine, labels, (scale * lowered).unsqueeze(-1), reduction="none")
        plain = functional.cross_entropy(scale * cosine, labels, reduction="none")
        ahead = (scale * (cosine - label_cosine[:, None])).exp().scatter(-1, labels[:, None], 0).sum(-1)
        torch.testing.assert_close(loss, torch.log1p(ahead * (scale * lowered).exp()), rtol=1e-9, atol=1e-12)
        assert (loss >= plain - 1e-12).all()
        assert (loss >= log_rank - 1e-12).all()


@pytest.mark.claim("ranking-margin-losses", shows="counterexample", evidence="exact")
def test_arcface_as_printed_bounds_no_rank_near_the_opposite_side() -> None:
    # An example opposite to its own class, cos = -1, and another class at -0.95: rank 2. The margin turns the target on
    # to cos(pi + 1/2) = -cos(1/2) > -0.95: its logit is raised above the other, and the loss is below log 2.
    assert -np.cos(0.5) > -0.95
    cosine, labels = torch.tensor([[-1.0, -0.95]], dtype=torch.float64), torch.tensor([0])
    assert ranking.rank(cosine, labels).item() == 2
    lowered = functional.arcface_margin(torch.tensor([-1.0], dtype=torch.float64), 0.5, guarded=False)
    assert lowered.item() == pytest.approx(-1 + np.cos(0.5)) and lowered.item() < 0  # noqa: PT018
    loss = functional.pairwise_margin(64 * cosine, labels, (64 * lowered).unsqueeze(-1)).item()
    assert loss == pytest.approx(log(1 + exp(64 * (-0.95 + np.cos(0.5)))))
    assert loss < log(2) / 50
    guarded = functional.arcface_margin(torch.tensor([-1.0], dtype=torch.float64), 0.5)
    assert functional.pairwise_margin(64 * cosine, labels, (64 * guarded).unsqueeze(-1)).item() > log(2)


@pytest.mark.claim("ranking-softrank", shows="statement", evidence="quadrature")
def test_ranks_of_gaussian_scores_are_smooth() -> None:
    # Given the label's own noise x the others are independent, so that one integral over x (Gauss-Hermite, 100 nodes)
    # gives the law of its rank, and the expected value of any metric.
    z, sigma = torch.tensor([0.3, -0.2, 0.9, 0.35], dtype=torch.float64), 0.7
    x, weight = (torch.from_numpy(v) for v in np.polynomial.hermite_e.hermegauss(100))
    weight = weight / weight.sum()

    def expected(scores: Tensor, metric: Tensor) -> Tensor:
        ahead = torch.special.ndtr((scores[1:, None] - scores[0] - sigma * x) / sigma)
        law = torch.ones(1, len(x), dtype=torch.float64)  # P(k ahead), class after class
        for p in ahead:
            pad = torch.zeros(1, len(x), dtype=torch.float64)
            law = torch.cat([law * (1 - p), pad]) + torch.cat([pad, law * p])
        return (metric @ law) @ weight

    ranks = torch.arange(1.0, 5, dtype=torch.float64)
    by_formula = ranking.expected_rank(z.unsqueeze(0), torch.tensor([0]), sigma)
    assert by_formula.item() == pytest.approx(expected(z, ranks).item(), rel=1e-12)
    # Smooth where the metrics themselves jump: at a tie, derivatives of both orders agree with differences.
    tied = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    for metric in (ranks, 1 / ranks, 1 / torch.log2(1 + ranks), (ranks <= 2).double()):
        assert torch.autograd.gradcheck(lambda s, metric=metric: expected(s, metric), (tied,))
        assert torch.autograd.gradgradcheck(lambda s, metric=metric: expected(s, metric), (tied,))
    assert torch.autograd.gradcheck(lambda s: ranking.expected_rank(s.unsqueeze(0), torch.tensor([0]), sigma), (tied,))


@pytest.mark.claim("ranking-softrank", shows="statement", evidence="sampled")
def test_expected_rank_against_drawn_scores() -> None:
    # 10^5 draws; false-alarm rate 6e-5 (|z| < 4).
    generator = torch.Generator().manual_seed(0)
    z, sigma = torch.tensor([[0.3, -0.2, 0.9, 0.35]], dtype=torch.float64), 0.7
    drawn = z + sigma * torch.randn(100_000, 4, generator=generator, dtype=torch.float64)
    ranks = ranking.rank(drawn, torch.full((100_000,), 3))
    error = ranks.mean() - ranking.expected_rank(z, torch.tensor([3]), sigma).squeeze()
    assert abs(error.item()) < 4 * (ranks.std() / 100_000**0.5).item()


def test_what_is_smooth_is_mapped_and_traced() -> None:
    z, y = torch.tensor([[[0.0, 0.0, 0.0]], [[1.0, 0.2, 2.0]]]), torch.zeros(1, dtype=torch.long)
    promises = ranking.least_ndcg, lambda c: ranking.least_rr(c, y + 1, classes=9), lambda c: ranking.least_recall(c, 3)
    for call in (lambda s: ranking.expected_rank(s, y, 0.5), *(lambda s, f=f: f(s.sum(-1)) for f in promises)):
        assert torch.equal(torch.func.vmap(call)(z), torch.stack([call(row) for row in z]))
        assert torch.equal(torch.compile(call, fullgraph=True, backend="eager")(z[1]), call(z[1]))
        assert call(z[0].to("meta")).is_meta


def test_bounds_refuse_what_has_no_answer() -> None:
    for c, n in ((-0.1, 5), (nan, 5), (1.0, 1)):
        with pytest.raises(ValueError, match="it must be a"):
            ranking.possible_ranks(c, n)
    with pytest.raises(ValueError, match="k is 0"):
        ranking.least_recall(torch.tensor(1.0), 0)
    for c, several, n in ((1.0, 0, 9), (1.0, 1.5, 9), (inf, inf, 9), (torch.ones(2), [1, 1, 1], 9), (2.0, 4, 3)):
        with pytest.raises(ValueError, match=r"relevant items must be whole|do not broadcast|classes is 3"):
            ranking.least_rr(c, several, classes=n)
    for c in (log(4) - 0.01, nan):
        with pytest.raises(ValueError, match="a cross entropy is NaN or negative, or below log R"):
            ranking.least_rr(torch.tensor([c]), 4)
    for promise in (ranking.least_rr, ranking.least_ndcg, lambda c: ranking.least_recall(c, 3)):
        for c in (-1.0, torch.tensor(-1.0), nan):
            with pytest.raises(ValueError, match="a cross entropy is NaN or negative"):
                promise(c)
    with pytest.raises(ValueError, match="sigma is 0"):
        ranking.expected_rank(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long), 0)
    with pytest.raises(ValueError, match="scores must be finite"):
        ranking.expected_rank(torch.full((1, 2), nan), torch.zeros(1, dtype=torch.long), 1)
