"""Which sampled cross entropies bound the log rank: the criterion, its theorem, and every number of the chapter."""

from fractions import Fraction
from itertools import combinations, product
from math import comb, exp, inf, log, log1p, nan, prod

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp import functional, ranking, samplers
from sumexp.ranking import sampled
from sumexp.ranking.evaluation import rank_law

Q = Fraction
F64 = torch.float64


def law_of_hits(n: int, m: int, s: int, replacement: bool) -> list[Fraction]:
    """Of K, binomial or hypergeometric, by whole numbers."""
    if replacement:
        law = [Q(comb(m, k) * s**k * (n - s) ** (m - k), n**m) for k in range(m + 1)]
    else:
        law = [Q(comb(s, k) * comb(n - s, m - k), comb(n, m)) for k in range(m + 1)]
    assert (sum(law), sum(k * p for k, p in enumerate(law))) == (1, Q(m * s, n))
    return law


def subset_loss(n: int, m: int, s: int) -> float:
    """E log(1 + K), K hypergeometric."""
    return sum(float(p) * log1p(k) for k, p in enumerate(law_of_hits(n, m, s, False)))


@pytest.mark.parametrize("n, m, s", [
    (1, 1, 1), (5, 3, 0), (5, 3, 2), (5, 3, 5), (1000, 100, 500), (10**8, 10, 3), (10**15, 5, 5 * 10**14),
])  # fmt: skip
@pytest.mark.parametrize("replacement", [True, False])
def test_hits_by_rational_probabilities(n: int, m: int, s: int, replacement: bool) -> None:
    law = [float(p) for p in law_of_hits(n, m, s, replacement)]
    for w in (1.0, 0.01, 3.0, 1e6):
        loss = ranking.hit_losses(n, m, w, torch.tensor([s]), replacement=replacement).item()
        assert loss == pytest.approx(sum(p * log1p(w * k) for k, p in enumerate(law)), rel=1e-13)
    # Log factorials left eight digits of the law of 10^8 classes, and took minutes for 10^15.
    assert rank_law(np.array([1 + s]), 1 + n, m, replacement=replacement)[0] == pytest.approx(law, rel=1e-12, abs=0)


def test_expected_loss_is_the_mean_over_all_draws() -> None:
    logits = torch.tensor([0.5, 1.0, -2.0, 0.2], dtype=F64)
    log_q = torch.tensor([5.0, 1.0, 2.0, 0.5], dtype=F64)  # the label's own is ignored
    weights = torch.tensor([7.0, 2.0, 0.5, 1.5], dtype=F64)
    q = torch.softmax(log_q[1:], 0)
    mean = 0.0
    for drawn in product(range(3), repeat=3):
        ids = torch.tensor(drawn)
        loss = functional.sampled_softmax(logits[:1], logits[1:][ids].unsqueeze(0), weights=weights[1:][ids])
        mean += (q[ids].prod() * loss).item()
    assert ranking.expected_loss(logits, 0, 3, weights, log_q).item() == pytest.approx(mean, rel=1e-12)


def test_expected_infonce_against_drawn_losses() -> None:
    # 2,000 losses of 8 uniform draws; false-alarm rate 6e-5 (|z| < 4).
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, generator=generator, dtype=F64)
    labels = torch.full((2000,), 3)
    negatives = samplers.draw(samplers.Uniform(50), labels, 8, hits="redraw", generator=generator)
    drawn = functional.info_nce(logits[labels], logits[negatives.ids], reduction="none")
    error = drawn.mean() - ranking.expected_loss(logits, 3, 8)
    assert abs(error.item()) < 4 * (drawn.std() / 2000**0.5).item()


@pytest.mark.claim("sumexp-rank-criterion", shows="statement", evidence="quadrature")
@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_criterion_is_exactly_what_all_logits_need(seed: int) -> None:
    # Any finite scheme, its weights drawn at random: at the worst set's logits the loss misses the log rank by the
    # deficit, and at no other logits by more.
    generator = torch.Generator().manual_seed(seed)
    n = 4
    weights = 3 * torch.rand(5, n, generator=generator, dtype=F64) * (torch.rand(5, n, generator=generator) < 0.6)
    scheme = sampled.WeightLaw(torch.softmax(torch.randn(5, generator=generator, dtype=F64), 0), weights)

    def missing(z: torch.Tensor) -> float:
        loss = scheme.probabilities @ torch.log1p(scheme.weights @ z.exp())
        return log(1 + int((z >= 0).sum())) - loss.item()

    worst = ranking.worst_set(scheme)
    z = torch.full((n,), -inf, dtype=F64)
    z[list(worst.negatives)] = 0
    assert missing(z) == pytest.approx(worst.deficit, abs=1e-12)
    for _ in range(20):
        assert missing(3 * torch.randn(n, generator=generator, dtype=F64)) <= max(worst.deficit, 0) + 1e-12


def test_a_scheme_that_includes_all_or_nothing_needs_more_than_its_single_negatives() -> None:
    # The theorem needs negative dependence: here either all negatives are drawn or none, with weight 3.
    scheme = sampled.WeightLaw(torch.tensor([0.5, 0.5], dtype=F64), torch.tensor([[3.0] * 4, [0.0] * 4], dtype=F64))
    worst = ranking.worst_set(scheme)
    assert worst.negatives == (0, 1, 2, 3)
    assert worst.deficit == pytest.approx(log(5) - log(13) / 2)
    assert log(1 + 3) / 2 == pytest.approx(log(2))  # each alone is just enough


@pytest.mark.claim("sumexp-single-negatives", shows="statement", evidence="quadrature")
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
@settings(max_examples=50, deadline=None)
def test_single_negatives_decide_for_draws_and_subsets(seed: int, m: int, replacement: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    n = 4
    q = torch.softmax(torch.randn(n, generator=generator, dtype=F64), 0)
    share = q if replacement else torch.full((n,), m / n, dtype=F64)
    least = ranking.log_least_weight(share, m if replacement else 1).clamp(max=600).exp()
    # At the least weights, and at larger ones: no set fails; one weight a little less: its own set does.
    factor = 1 + torch.rand(n, generator=generator, dtype=F64) * (torch.rand(n, generator=generator) < 0.5)
    make = (lambda w: sampled.draws(q.tolist(), m, w)) if replacement else (lambda w: sampled.subsets(n, m, w))
    assert ranking.worst_set(make((least * factor).tolist())).deficit < 1e-12
    short = least.clone()
    short[1] *= 0.9
    assert ranking.worst_set(make(short.tolist())).deficit > 0


def test_the_proof_of_that_theorem_step_by_step() -> None:
    # 1. Product over the set, telescoped: e^{-st} - prod N_i = sum_i e^{-(i-1)t} (e^{-t} - N_i) prod_{j>i} N_j.
    e, a, b, c = sp.symbols("e a b c", positive=True)
    assert sp.expand((e - a) * b * c + e * (e - b) * c + e**2 * (e - c) - (e**3 - a * b * c)) == 0
    # 2. Draws with replacement are below the product: 1 - x - y <= (1 - x)(1 - y), and on by induction.
    x, y = sp.symbols("x y", nonnegative=True)
    assert sp.expand((1 - x) * (1 - y) - (1 - x - y)) == x * y
    # 3. log N + t is convex and 0 at 0, so e^{-t} - N changes sign once, from + to -: log N'' is a variance. For a
    # weight that is w with probability p and else 0:
    t, p, w = sp.symbols("t p w", positive=True)
    transform = 1 - p + p * sp.exp(-w * t)
    variance = p * (1 - p) * w**2 * sp.exp(-w * t) / transform**2
    assert sp.simplify(sp.diff(sp.log(transform), t, 2) - variance) == 0
    # 4. So with a positive falling factor k the integral is at least k(t*) times the integral without it.
    nodes = torch.linspace(-14, 5, 4001, dtype=F64).exp()  # dt/t has equal steps in log t
    weight = 2.0 ** (1 / 0.3) - 1
    excess = (-nodes).exp() - (0.7 + 0.3 * (-weight * nodes).exp())
    factor = (-nodes).exp() + 0.7 + 0.3 * (-weight * nodes).exp()
    sign = torch.sign(excess)
    assert (sign[1:] < sign[:-1]).sum() == 1
    star = factor[int((sign > 0).nonzero().max())]
    step = 19 / 4000
    single, pair = (((-nodes).exp() * f * step).sum() for f in (excess, excess * factor))
    assert abs(single.item()) < 1e-5  # the least weight: E log(1 + W) = log 2 to the last digit of the range cut off
    assert pair >= star * single
    assert pair.item() == pytest.approx(0.09 * log(1 + 2 * weight) + 0.42 * log(1 + weight) - log(3), abs=1e-5)


def test_subsets_are_below_the_product_too() -> None:
    # E x^K, K hypergeometric: a polynomial with real roots only, so K is a sum of independent coins; their product of
    # 1 - p_i (1 - x) is at most the same with all p_i equal (AM-GM), which is (1 - (k/n)(1 - x))^s. In rationals:
    for n in range(1, 8):
        for k, s in product(range(1, n + 1), repeat=2):
            law = [Q(comb(s, j) * comb(n - s, k - j), comb(n, k)) if k >= j else Q(0) for j in range(s + 1)]
            for x in (Q(0), Q(1, 3), Q(9, 10)):
                assert sum(p * x**j for j, p in enumerate(law)) <= (1 - Q(k, n) * (1 - x)) ** s
    # Also with different weights, x_y: every subset of size k of five, in rationals.
    x = [Q(1, 2), Q(1, 9), Q(0), Q(3, 4), Q(2, 5)]
    for k in range(1, 6):
        for size in range(1, 6):
            values = [1 if y >= size else x[y] for y in range(5)]
            every = [prod((values[y] for y in chosen), start=Q(1)) for chosen in combinations(range(5), k)]
            assert sum(every) / comb(5, k) <= prod((1 - Q(k, 5) * (1 - x[y]) for y in range(size)), start=Q(1))


def test_the_smallest_failure() -> None:
    # Three classes, one of the two negatives drawn by a fair coin, weight 2; the logits of rank 2.
    logits = torch.tensor([0.0, 0.01, -10.0], dtype=F64)
    loss = ranking.expected_loss(logits, 0, 1, 2.0).item()
    assert loss == pytest.approx((log(1 + 2 * exp(0.01)) + log(1 + 2 * exp(-10))) / 2, rel=1e-12)
    assert round(loss, 4) == 0.5527 < log(2)
    assert ranking.rank(logits.unsqueeze(0), torch.tensor([0])).item() == 2
    infimum = ranking.hit_losses(2, 1, 2.0, torch.tensor(1)).item()
    assert infimum == pytest.approx(log(3) / 2)
    assert ranking.deficits(2, 1, 2.0, torch.arange(3)).argmax() == 1


def test_two_classes_cannot_fail() -> None:
    # One negative, always drawn, weight m/(m 1) in all: the loss is the full one.
    for m in (1, 2, 50):
        assert ranking.additive_constant(1, m).constant == pytest.approx(0, abs=1e-15)
        logits = torch.tensor([0.3, 1.2], dtype=F64)
        full = functional.cross_entropy(logits.unsqueeze(0), torch.tensor([0])).item()
        assert ranking.expected_loss(logits, 0, m, 1 / m).item() == pytest.approx(full, rel=1e-12)


def test_importance_weights_fail_at_every_m_by_an_eighth_over_m() -> None:
    # Two negatives: K binomial(m, 1/2), weight 2/m, so the sum has mean 1 and variance 1/m: deficit (1/m)/(2 * 2^2).
    deficit = {m: m * ranking.deficits(2, m, 2 / m, torch.tensor(1)).item() for m in (1, 2, 3, 10, 100, 1000)}
    assert deficit[1] == pytest.approx(log(2) - log(3) / 2)
    assert deficit[2] == pytest.approx(2 * (log(2) - log(2) / 2 - log(3) / 4))
    assert [round(deficit[m], 4) for m in (1, 2, 3)] == [0.1438, 0.1438, 0.1396]
    assert deficit[1000] == pytest.approx(1 / 8, rel=1e-3)
    assert all(value > 1 / 8 for value in deficit.values())


@pytest.mark.claim("sumexp-rank-criterion", shows="statement", evidence="quadrature")
def test_only_the_full_softmax_has_importance_weights_and_the_bound() -> None:
    # Jensen: E log(1 + W) <= log(1 + E W) = log 2, with equality only for W = 1 surely; (C) asks for >= log 2.
    w, mean = sp.symbols("w mean", positive=True)
    gap = sp.log(1 + mean) + (w - mean) / (1 + mean) - sp.log(1 + w)
    assert sp.simplify(gap.subs(w, mean)) == 0
    assert sp.simplify(sp.diff(gap, w) - (w - mean) / ((1 + mean) * (1 + w))) == 0  # falls to w = mean, then rises
    for n in range(2, 9):
        for k in range(1, n):
            missing = ranking.deficits(n, k, n / k, 1, replacement=False).item()
            assert 0 < log(2) - k / n * log(1 + n / k) == pytest.approx(missing)
        assert ranking.worst_set(sampled.subsets(n, n, [1.0] * n)).deficit == pytest.approx(0, abs=1e-14)


def test_least_constant_weights() -> None:
    cases = [(3, 2), (4, 2), (4, 3)]
    weights = {(n, m): ranking.log_least_weight(torch.tensor(1 / n, dtype=F64), m).exp().item() for n, m in cases}
    assert [round(w, 3) for w in weights.values()] == [2.138, 3.491, 1.870]
    # (3, 2): one hit with probability 4/9, two with 1/9.
    w = weights[3, 2]
    assert 4 / 9 * log(1 + w) + 1 / 9 * log(1 + 2 * w) == pytest.approx(log(2), rel=1e-12)
    for (n, m), w in weights.items():
        assert ranking.deficits(n, m, w, torch.arange(n + 1)).max() < 1e-12
        assert ranking.deficits(n, m, 0.999 * w, torch.tensor(1)) > 0
        assert ranking.worst_set(sampled.draws([1 / n] * n, m, [w] * n)).deficit < 1e-12


def test_one_draw_and_subsets_need_a_power_of_two() -> None:
    q = torch.tensor([1.0, 0.5, 0.1, 0.001], dtype=F64)
    assert ranking.log_least_weight(q, 1).tolist() == pytest.approx(
        [0, log(3), log(2**10 - 1), 1000 * log(2)], abs=1e-9
    )
    # 2^(n/k) - 1 suffices for k-subsets. Every size of set, n to 60.
    for n in (2, 3, 7, 60):
        for k in range(1, n + 1):
            if n / k < 900:
                w = 2 ** (n / k) - 1
                missing = ranking.deficits(n, k, w, torch.arange(n + 1), replacement=False)
                assert missing.max() < 1e-11
    # A tenth of the classes: draws that each count a thousandfold.
    assert ranking.log_least_weight(torch.tensor(0.1), 1).exp().item() == pytest.approx(1023)


def test_additive_constants() -> None:
    constants = {(n, m): ranking.additive_constant(n, m) for n, m in ((100, 10), (1000, 100), (1000, 10))}
    assert [round(c.constant, 3) for c in constants.values()] == [0.769, 0.782, 2.208]
    for (n, m), (constant, rank) in constants.items():
        loss = ranking.hit_losses(n, m, n / m, torch.tensor(rank - 1)).item()
        assert loss + constant == pytest.approx(log(rank), rel=1e-12)
    # Without replacement a little less.
    assert ranking.additive_constant(100, 10, replacement=False).constant < constants[100, 10].constant


def test_additive_constant_of_a_million_classes() -> None:
    # All ranks of 10^6 would take seconds; the deficit has one peak there, which a grid finds and a window confirms.
    n, m = 10**6, 100
    grid = torch.logspace(0, 6, 400, dtype=F64).long().unique()
    peak = grid[ranking.deficits(n, m, n / m, grid).argmax()]
    window = ranking.deficits(n, m, n / m, torch.arange(int(peak * 0.9), int(peak * 1.1)))
    assert round(window.max().item(), 2) == 6.04


def test_draws_from_the_models_own_softmax_are_exact_and_nearly_so_near_it() -> None:
    # (ii): q in proportion to e^f gives the full loss for every draw; q <= (1 + eps) q* costs at most log(1 + eps).
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(1, 12, generator=generator, dtype=F64)
    labels = torch.tensor([4])
    negatives = samplers.model_based(logits, labels, 5, hits="redraw", generator=generator)
    rows = logits.gather(-1, negatives.ids)
    loss = functional.sampled_softmax(logits[:, 4], rows, log_q=negatives.log_q, correct="importance")
    assert loss.item() == pytest.approx(functional.cross_entropy(logits, labels).item(), rel=1e-12)
    others = torch.arange(12) != 4
    ideal = torch.softmax(logits[0, others], 0)
    eps = 0.3
    tilt = torch.rand(11, generator=generator, dtype=F64)
    q = ideal * (1 + 0.3 * tilt / tilt.max())
    q[q.argmax()] -= q.sum() - 1
    assert (q <= (1 + eps) * ideal + 1e-15).all() and q.min() > 0  # noqa: PT018
    rank = ranking.rank(logits, labels).item()
    for drawn in torch.randint(11, (200, 5), generator=generator):
        terms = logits[0, others][drawn]
        log_q = q.log()[drawn].unsqueeze(0)
        loss = functional.sampled_softmax(logits[:, 4], terms.unsqueeze(0), log_q=log_q, correct="importance")
        floor = log(1 + (rank - 1) / (1 + eps))
        assert loss.item() >= floor - 1e-12
        assert floor >= log(rank) - log(1 + eps)


@pytest.mark.parametrize("m", [1, 3])
def test_a_law_that_looks_at_the_scores_bounds_their_rank_and_no_others(m: int) -> None:
    """Why the criterion says "fixed before the scores": importance weights for q in proportion to e^f."""
    f = torch.tensor([0.3, 1.0, 0.2, -0.5, 0.9], dtype=F64)  # the label's first
    q = torch.softmax(f[1:], 0)

    def mean_loss(scores: torch.Tensor) -> float:
        return sum(
            q[list(drawn)].prod().item()
            * functional.sampled_softmax(
                scores[:1], scores[1:][list(drawn)][None], log_q=q.log()[list(drawn)][None], correct="importance"
            ).item()
            for drawn in product(range(4), repeat=m)
        )

    full = functional.cross_entropy(f[None], torch.tensor([0])).item()
    assert mean_loss(f) == pytest.approx(full, rel=1e-12)
    assert mean_loss(f) >= log(ranking.rank(f[None], torch.tensor([0])).item())
    for negative in range(4):  # the same law, held fixed, at a tie with one negative: rank 2, less than log 2
        tie = torch.full((5,), -60.0, dtype=F64)
        tie[[0, negative + 1]] = 0
        assert mean_loss(tie) < log(2) - 0.01


@pytest.mark.claim("ranking-infonce", shows="statement", evidence="proof")
def test_every_draw_bounds_the_sampled_rank() -> None:
    # The sampled loss is a softmax cross entropy over its 1 + m candidates, to which the theorem applies: with K
    # negatives at or above the positive it is log(1 + w (sum over them of e^{f - f_y} + rest)) >= log(1 + w K).
    w, k, excess = sp.symbols("w k excess", nonnegative=True)
    assert sp.simplify((1 + w * (k + excess)) - (1 + w * k) - w * excess) == 0


@pytest.mark.claim("ranking-infonce", shows="statement", evidence="quadrature")
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(1e-3, 1e3))
@settings(max_examples=80, deadline=None)
def test_the_sampled_rank_is_bounded_draw_by_draw_and_on_average(seed: int, m: int, weight: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = (2 * torch.randn(1, 9, generator=generator)).round().double()
    others = torch.arange(9) != 2
    drawn = torch.randint(8, (30, m), generator=generator)
    rows, positive = logits[0, others][drawn], logits[0, 2].expand(30)
    rows[0] = logits[0, 2]  # of a tie of all the bound is attained
    hits = (rows >= positive.unsqueeze(-1)).sum(-1)
    loss = functional.sampled_softmax(positive, rows, weights=torch.tensor(weight), reduction="none")
    assert (loss >= torch.log1p(weight * hits) - 1e-6).all()  # weights reach the loss in single precision
    nce = functional.info_nce(positive, rows, reduction="none")
    candidates = torch.cat([positive.unsqueeze(-1), rows], -1)
    sampled_rank = ranking.rank(candidates, torch.zeros(30, dtype=torch.long), ties="pessimistic")
    assert torch.equal(sampled_rank, 1.0 + hits)
    assert (nce >= sampled_rank.log() - 1e-12).all()
    assert (loss[0].item(), nce[0].item()) == pytest.approx((log1p(weight * m), log(1 + m)), rel=1e-6)
    full = ranking.rank(logits, torch.tensor([2]), ties="pessimistic")
    least = ranking.hit_losses(8, m, 1.0, full - 1).item()
    mean = ranking.expected_loss(logits[0], 2, m).item()
    assert mean >= least - 1e-12
    assert full.item() <= ranking.certified_rank(mean, 8, m)


def test_infonce_says_1_75_where_the_log_rank_is_6_2() -> None:
    # F1: 1,000 classes, 500 of the 999 negatives tie, 10 are drawn without replacement.
    loss = ranking.hit_losses(999, 10, 1.0, torch.tensor(500), replacement=False).item()
    assert loss == pytest.approx(subset_loss(999, 10, 500), rel=1e-13)
    assert round(loss, 3) == 1.754
    # Without floats: by Jensen the loss is at most log(1 + 10 * 500/999) < log 7, and the rank is 501.
    assert 1 + Q(5000, 999) < 7 < 501
    assert round(log(501), 3) == 6.217
    # Importance weights do not repair it: every draw counts 99.9, and it still falls short.
    assert ranking.deficits(999, 10, 99.9, torch.tensor(500), replacement=False).item() > 0.06


def test_what_infonce_certifies_of_the_full_rank() -> None:
    # m log(2)/n is its least loss at rank 2 for one draw; the certificate inverts the least losses.
    assert ranking.hit_losses(1000, 1, 1.0, torch.tensor(1)).item() == pytest.approx(log(2) / 1000)
    for m in (1, 10, 100):
        for rank in (1, 2, 17, 501, 1001):
            least = ranking.hit_losses(1000, m, 1.0, torch.tensor(rank - 1)).item()
            assert ranking.certified_rank(least, 1000, m) == rank
            if rank > 1:
                assert ranking.certified_rank(0.999 * least, 1000, m) < rank
    rank = ranking.certified_rank(1.7, 10**10, 20, replacement=False)
    assert subset_loss(10**10, 20, rank - 1) <= 1.7 < subset_loss(10**10, 20, rank)
    assert ranking.certified_rank(inf, 1000, 10) == ranking.certified_rank(10**400, 1000, 10) == 1001
    assert ranking.certified_rank(0.0, 1000, 10) == 1


@given(st.integers(1, 300), st.integers(1, 300), st.floats(1e-9, 1e9))
@settings(max_examples=60, deadline=None)
def test_least_losses_rise_with_the_rank_and_stay_below_their_means(n: int, m: int, weight: float) -> None:
    sizes = torch.arange(n + 1)
    values = ranking.hit_losses(n, m, weight, sizes)
    assert values[0] == 0
    assert (values.diff() >= -1e-12).all()
    assert (values <= torch.log1p(weight * m * sizes.double() / n) * (1 + 1e-9)).all()
    assert values[n].item() == pytest.approx(log1p(weight * m), rel=1e-9, abs=0)


def test_least_weights_at_the_ends() -> None:
    q = torch.tensor([1.0, 1e-12, 0.3], dtype=F64)
    for m in (1, 7, 1000):
        log_weights = ranking.log_least_weight(q, m)
        assert log_weights.isfinite().all()
        assert log_weights[0].item() == pytest.approx(-log(m), abs=1e-12)  # surely drawn m times
    assert ranking.log_least_weight(q, 1)[1].item() == pytest.approx(log(2) * 1e12)
    assert ranking.log_least_weight(q[:0], 3).shape == (0,)
    assert ranking.hit_losses(5, 2, 1.0, torch.zeros(0, dtype=torch.long)).shape == (0,)


def test_least_weights_of_many_draws_against_the_binomial_sum() -> None:
    """The integral against the sum over K: P(K = k) by the recursion (m - k) p / ((k + 1) (1 - p)), without lgamma."""
    for m, p in ((1_000_000, 1e-6), (1_000_000, 3e-5), (40_000, 1e-3), (1 << 53, 2.0**-53)):
        log_w = ranking.log_least_weight(torch.tensor(p, dtype=F64), m).item()
        mean, chance = 0.0, exp(m * log1p(-p))
        for k in range(1, 200):
            chance *= (m - k + 1) * p / (k * (1 - p))
            mean += chance * log1p(k * exp(log_w))
        assert mean == pytest.approx(log(2), rel=1e-12)
        if m <= sampled.MOST:
            assert ranking.hit_losses(10**6, m, exp(log_w), round(p * 10**6)).item() == pytest.approx(mean, rel=1e-13)
    # With many hits K is nearly its mean: log(1 + wK) loses (1 - p)/(8 mp) nats to Jensen, and its slope is 1/2.
    log_w = ranking.log_least_weight(torch.tensor(0.5, dtype=F64), 1_000_000).item()
    assert log_w + log(500_000) == pytest.approx(0.5 / (8 * 500_000) * 2, rel=1e-3)


def test_bad_input() -> None:
    s = torch.tensor([1])
    cases = [(0, 1, 1.0, True), (3, 0, 1.0, True), (3, 1, 0.0, True), (3, 1, nan, True), (3, 4, 1.0, False)]
    for n, m, weight, replacement in cases:
        with pytest.raises(ValueError, match=r"(n|num_negatives|weight) is .*; it must be"):
            ranking.hit_losses(n, m, weight, s, replacement=replacement)
    for size in (4, 0.5, nan):
        with pytest.raises(ValueError, match=rf"a size is {size}; sizes must be whole numbers in 0..3"):
            ranking.hit_losses(3, 1, 1.0, torch.tensor([1, size]))
    for value, m in ((0.0, 1), (1.5, 1), (nan, 1), (0.5, 0)):
        with pytest.raises(ValueError, match=r"q must lie in \(0, 1\]|num_negatives is 0"):
            ranking.log_least_weight(torch.tensor([value]), m)
    for loss in (-1.0, nan):
        with pytest.raises(ValueError, match="an expected loss is a number >= 0"):
            ranking.certified_rank(loss, 10, 2)
    half = torch.tensor([0.5, 0.5])
    for scheme in (
        sampled.WeightLaw(half, torch.tensor([[1.0, -1.0], [0.0, 0.0]])),
        sampled.WeightLaw(half / 2, torch.ones(2, 2)),
    ):
        with pytest.raises(ValueError, match=r"weights must be finite numbers >= 0|probabilities sums to 0.5, not 1"):
            ranking.worst_set(scheme)
    for weights in (torch.ones(3, 2), torch.ones(2, 17), torch.ones(2, 0), torch.tensor(1.0)):
        with pytest.raises(ValueError, match=r"must be \[K\] and \[K, n\]"):
            ranking.worst_set(sampled.WeightLaw(half, weights))
    logits = torch.zeros(3)
    for label in (-1, 3):
        with pytest.raises(ValueError, match=f"label is {label}; it must be a whole number from 0 to 2"):
            ranking.expected_loss(logits, label, 1)
    for weight in (0.0, nan, inf, -1.0):
        with pytest.raises(ValueError, match="weights must be positive and finite"):
            ranking.expected_loss(logits, 0, 1, weight)
    for shaped in ((torch.ones(2), None), (torch.ones(1, 3), None), (1.0, torch.zeros(2)), (1.0, 0.0)):
        with pytest.raises(ValueError, match=r"give one weight or \[3\]"):
            ranking.expected_loss(logits, 0, 1, *shaped)
    for n, k in ((3, 1), (1, 1), (2, 3)):
        with pytest.raises(ValueError, match=r"argument 2|it must be a whole number from 0 to 2"):
            sampled.subsets(n, k, [1.0, 1.0])
    with pytest.raises(ValueError, match="log_x holds nan"):
        ranking.expected_loss(torch.tensor([0.0, nan]), 0, 1)


@pytest.mark.claim("ranking-nce-softmax", shows="statement", evidence="proof")
def test_local_nce_tends_to_the_cross_entropy_where_scores_normalise_themselves() -> None:
    # One positive of probability p, m negatives of q, sigma(s - log(m q)) the probability of a positive: the gradient
    # in the score is -p + (p + m q) sigma.
    p, q, m = sp.symbols("p q m", positive=True)
    s = sp.symbols("s", real=True)
    odds = sp.exp(s) / (m * q)
    loss = p * sp.log(1 + 1 / odds) + m * q * sp.log(1 + odds)
    slope = sp.diff(loss, s)
    assert sp.simplify(slope - (-p + (p + m * q) * odds / (1 + odds))) == 0
    assert sp.limit(slope, m, sp.oo) == sp.exp(s) - p
    # Two classes with e^s = Z softmax: the cross entropy's gradient is softmax - p, the same at Z = 1 alone.
    z, share = sp.symbols("Z share", positive=True)
    assert sp.solve(sp.Eq((sp.exp(s) - p).subs(s, sp.log(z * share)), share - p), z) == [1]
