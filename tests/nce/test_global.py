"""Section 1 of the paper: global NCE, InfoNCE and its bounds, by brute force and by integrals."""

import math
from fractions import Fraction
from functools import partial

import pytest
import sympy as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp import expectations
from sumexp.nce import Joint, families, global_nce, rational
from sumexp.nce.rational import LogSum, Table
from tests.exact import log_of

Q = Fraction
INF = math.inf
NOTHING = LogSum({})

P: Table = [[Q(1, 10), Q(2, 10), Q(0)], [Q(2, 10), Q(2, 10), Q(3, 10)]]
"""Two x, three y; the pair (0, 2) is never seen."""
FULL: Table = [[Q(1, 20), Q(4, 20), Q(2, 20)], [Q(5, 20), Q(5, 20), Q(3, 20)]]
NOISE = [Q(1, 2), Q(1, 3), Q(1, 6)]


def joint_of(p: Table) -> Joint:
    return Joint(torch.tensor([[float(mass) for mass in row] for row in p], dtype=torch.float64))


def logs(values: Table) -> Tensor:
    return torch.tensor([[float(v) for v in row] for row in values], dtype=torch.float64).log()


def ratio(p: Table, q: list[Fraction]) -> Table:
    """pop(y|x) / q(y), 0 for a y that never occurs."""
    of_x, _ = rational.marginals(p)
    return [[mass / of_x[x] / q[y] if mass else Q(0) for y, mass in enumerate(row)] for x, row in enumerate(p)]


def second_term(p: Table, n: int) -> LogSum:
    """E log sum_k r(x, y_k) under the law of the candidates, q = pop_Y."""
    of_y = rational.marginals(p)[1]
    r = ratio(p, of_y)
    law = rational.global_law(p, of_y, n)
    return rational.total((mass, rational.log(sum(r[x][y] for y in ys))) for (_, (x, ys)), mass in law.items())


def mixture_divergence(p: Table, q: list[Fraction], n: int) -> LogSum:
    """KL of the law of (x, y_1..y_n) from pop_X x q^n, both enumerated."""
    of_x, _ = rational.marginals(p)
    mixture = rational.visible(rational.global_law(p, q, n))
    product = [of_x[x] * math.prod(q[y] for y in ys) for x, ys in mixture]
    return rational.divergence(list(mixture.values()), product)


@st.composite
def joints(draw: st.DrawFn, zeros: bool = True, widest: int = 3) -> Table:
    """2 x 2 or 2 x 3 laws with small denominators."""
    width = draw(st.integers(2, widest))
    least = 0 if zeros else 1
    rows = [draw(st.lists(st.integers(least, 5), min_size=width, max_size=width).filter(any)) for _ in range(2)]
    total = sum(map(sum, rows))
    return [[Q(count, total) for count in row] for row in rows]


def weights_beside(p: Table) -> st.SearchStrategy[Table]:
    """e^s for every pair."""
    weight = st.fractions(min_value=Q(1, 6), max_value=6, max_denominator=6)
    row = st.lists(weight, min_size=len(p[0]), max_size=len(p[0]))
    return st.lists(row, min_size=len(p), max_size=len(p))


def ceiling(joint: Joint, n: int, log_q: Tensor) -> float:
    """min(log n, I + KL(pop_Y || q)), what no score's value exceeds with any noise; log n where q misses a y."""
    extra = torch.xlogy(joint.y, joint.y / log_q.exp()).sum()
    return min(math.log(n), (joint.mutual_information + extra).item())


few = settings(deadline=None, max_examples=25)


@pytest.mark.claim("nce-global-posterior", shows="correction", evidence="exact")
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("p", [P, FULL])
def test_posterior_of_the_index_has_both_forms_where_the_noise_is_positive(p: Table, n: int) -> None:
    law = rational.global_law(p, NOISE, n)
    assert sum(law.values()) == 1
    r, of_x = ratio(p, NOISE), rational.marginals(p)[0]
    for (i, (x, ys)), probability in rational.posterior(law).items():
        first = [p[x][y] / of_x[x] * math.prod(NOISE[z] for j, z in enumerate(ys) if j != k) for k, y in enumerate(ys)]
        assert probability == first[i] / sum(first)
        assert probability == r[x][ys[i]] / sum(r[x][y] for y in ys)


@pytest.mark.claim("nce-global-posterior", shows="counterexample", evidence="exact")
def test_the_second_form_of_the_posterior_divides_by_zero_without_support() -> None:
    # C4: q = (1, 0), pop = (1/2, 1/2), candidates (y_2, y_1). The first form says that y_2, which the noise cannot
    # produce, is surely the true one; the second needs (1/2) / 0.
    p, q = [[Q(1, 2), Q(1, 2)]], [Q(1), Q(0)]
    assert rational.posterior(rational.global_law(p, q, 2))[0, (0, (1, 0))] == 1
    with pytest.raises(ZeroDivisionError):
        p[0][1] / q[1]
    assert global_nce.posterior(joint_of(p), 0, torch.tensor([1, 0]), torch.tensor([0.0, -INF])).tolist() == [1, 0]


@pytest.mark.parametrize("q", [NOISE, [Q(1, 2), Q(1, 2), Q(0)]])
@pytest.mark.parametrize("n", [2, 3])
def test_the_posterior_in_floating_point_agrees_with_enumeration(q: list[Fraction], n: int) -> None:
    for (i, (x, ys)), probability in rational.posterior(rational.global_law(P, q, n)).items():
        got = global_nce.posterior(joint_of(P), x, torch.tensor(ys), log_of(q))
        assert got[i].item() == pytest.approx(float(probability), rel=1e-14)
    many = global_nce.posterior(joint_of(P), 1, (torch.arange(10**5) > 0).long(), log_of(q))
    assert many[0].item() == pytest.approx(1 / (1 + (10**5 - 1) * P[1][1] / P[1][0] * q[0] / q[1]), rel=1e-14, abs=0)
    batch = global_nce.posterior(joint_of(P), torch.tensor([0, 1]), torch.tensor([[0, 1], [0, 1]]), log_of(q))
    assert batch.shape == (2, 2)
    assert torch.allclose(batch.sum(1), torch.ones(2, dtype=torch.float64))


@pytest.mark.claim("nce-lemma-1-1-decomposition", shows="statement", evidence="proof")
@pytest.mark.claim("nce-lemma-1-1", shows="statement", evidence="proof")
def test_the_second_term_is_log_n_plus_a_divergence() -> None:
    # One outcome (x, y_1..y_n), any n: b = pop(x), a = pop(y_i), rest the product of the other pop(y_j), b a r = pop(x,
    # y_i). So case i of the mixture is r_i times the product law; others is the sum of the other r_k.
    b, a, r, rest, others, n = sp.symbols("b a r rest others n", positive=True)
    product, case = b * a * rest, b * a * r * rest
    mixture = (case + others * product) / n
    # (1): the posterior of i is r_i / sum r, so -log posterior = -log r_i + log sum r.
    assert sp.simplify(case / (n * mixture) - r / (r + others)) == 0
    # Integrand by integrand, log sum r = log n + log(mixture / product): the mean under the mixture of the last is KL.
    assert sp.simplify(mixture / product - (r + others) / n) == 0
    # KL >= 0: z log z >= z - 1 with z = mixture / product, integrated over the product law; equal only at z = 1.
    z = sp.symbols("z", positive=True)
    gap = z * sp.log(z) - z + 1
    assert gap.subs(z, 1) == 0
    assert sp.solve(sp.diff(gap, z), z) == [1]
    assert sp.diff(gap, z, 2) == 1 / z  # convex, so that z = 1 is the only minimum
    # Hence H = -I + log n + KL >= log n - I.


@pytest.mark.claim("nce-lemma-1-1-decomposition", shows="statement", evidence="exact")
@pytest.mark.claim("nce-lemma-1-1", shows="statement", evidence="exact")
@pytest.mark.parametrize("n", [1, 2, 3])
@given(p=joints())
@few
def test_the_entropy_of_the_index_decomposes_exactly(p: Table, n: int) -> None:
    # Sums of logarithms of rationals, compared exactly.
    entropy = rational.entropy(rational.global_law(p, rational.marginals(p)[1], n))
    information, second = rational.mutual_information(p), second_term(p, n)
    divergence = mixture_divergence(p, rational.marginals(p)[1], n)
    assert entropy == second - information
    assert second == rational.log(n) + divergence
    assert float(divergence) >= -1e-14
    if n == 1:
        assert entropy == NOTHING  # one candidate leaves nothing to guess


@pytest.mark.claim("nce-cor-1-2", shows="statement", evidence="exact")
@pytest.mark.parametrize("n", [2, 3])
@given(p=joints())
@few
def test_the_best_bound_stays_below_information_and_log_n(p: Table, n: int) -> None:
    of_y = rational.marginals(p)[1]
    law = rational.global_law(p, of_y, n)
    best = rational.log(n) - rational.entropy(law)
    # I - B is a divergence, and log n - B the mean of -log posterior, with every posterior at most 1.
    assert rational.mutual_information(p) - best == mixture_divergence(p, of_y, n)
    assert max(rational.posterior(law).values()) <= 1


@pytest.mark.claim("nce-global-crossentropy", shows="statement", evidence="exact")
@pytest.mark.claim("nce-infonce-bound", shows="statement", evidence="exact")
@pytest.mark.parametrize("n", [2, 3])
@given(data=st.data(), p=joints())
@few
def test_cross_entropy_is_entropy_and_the_divergence_of_posteriors(data: st.DataObject, p: Table, n: int) -> None:
    of_y, weights = rational.marginals(p)[1], data.draw(weights_beside(p))
    counts = data.draw(st.lists(st.integers(1, 5), min_size=len(of_y), max_size=len(of_y)))
    model = rational.softmax_model(weights)
    for q in ([Q(count, sum(counts)) for count in counts], of_y):  # any noise, then that of the bound
        law = rational.global_law(p, q, n)
        right = rational.posterior(law)
        of_posteriors = rational.total(
            (mass, rational.divergence([right.get((i, at), Q(0)) for i in range(n)], [model(i, at) for i in range(n)]))
            for at, mass in rational.visible(law).items()
        )
        excess = rational.cross_entropy(law, model) - rational.entropy(law)
        assert excess == of_posteriors
        assert float(excess) >= -1e-14
    # So B(theta) <= B <= min(I, log n), the last by the test before this.
    bound = global_nce.bound(joint_of(p), logs(weights), n).item()
    assert bound == pytest.approx(float(rational.log(n) - rational.cross_entropy(law, model)), abs=1e-12)
    assert bound <= min(float(rational.mutual_information(p)), math.log(n)) + 1e-12


@pytest.mark.claim("nce-global-crossentropy", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("q", [NOISE, [Q(1, 2), Q(1, 2), Q(0)]])
def test_the_integral_agrees_with_enumeration(n: int, q: list[Fraction]) -> None:
    weights = [[Q(1, 1000), Q(1), Q(70)], [Q(3), Q(10**4), Q(1, 50)]]
    law = rational.global_law(P, q, n)
    exact = float(rational.cross_entropy(law, rational.softmax_model(weights)))
    assert global_nce.cross_entropy(joint_of(P), logs(weights), n, log_of(q)).item() == pytest.approx(exact, rel=1e-12)
    least = global_nce.entropy(joint_of(P), n, log_of(q)).item()
    assert least == pytest.approx(float(rational.entropy(law)), rel=1e-12)


@given(st.lists(st.floats(-60, 60), min_size=3, max_size=3), st.integers(1, 30).map(lambda power: 2**power))
@example([-30.0, 20.0, -60.0], 2)
@settings(deadline=None, max_examples=100)
def test_the_integral_holds_over_wide_scores(values: list[float], n: int) -> None:
    # Noise on one y only: X has one value, the loss is sum_y pop(y) log(1 + (n - 1) e^(s_2 - s_y)); y = 0 is rare.
    joint = Joint(torch.tensor([[1e-20, 1.0, 0.0]], dtype=torch.float64))
    s = torch.tensor([values], dtype=torch.float64)
    expected = sum(p * math.log1p((n - 1) * math.exp(values[2] - values[y])) for y, p in enumerate(joint.p[0].tolist()))
    got = global_nce.cross_entropy(joint, s, n, torch.tensor([-INF, -INF, 0.0])).item()
    assert got == pytest.approx(expected, rel=1e-11, abs=0)


@pytest.mark.parametrize("n", [2, 3])
def test_the_gradient_agrees_with_that_of_the_enumerated_loss(n: int) -> None:
    joint, q = joint_of(P), log_of(NOISE)
    scores = logs([[Q(1, 10), Q(1), Q(7)], [Q(3), Q(10), Q(1, 5)]])
    exact, summed = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    law = rational.global_law(P, NOISE, n)
    terms = [-float(mass) * torch.log_softmax(summed[x, list(ys)], 0)[i] for (i, (x, ys)), mass in law.items()]
    (expected,) = torch.autograd.grad(torch.stack(terms).sum(), summed)
    (got,) = torch.autograd.grad(global_nce.cross_entropy(joint, exact, n, q), exact)
    assert torch.allclose(got, expected, atol=1e-13)
    assert got.sum(1).abs().max() < 1e-13  # a constant added to the scores of one x changes nothing


def test_several_n_at_once_and_both_ways_to_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    joint = Joint.from_counts(torch.rand(4, 300, generator=generator) ** 8)
    scores = 3 * torch.randn(4, 300, generator=generator, dtype=torch.float64)
    counts = [2, 5, 1000, 65536, 10**9]
    together = global_nce.cross_entropy(joint, scores, counts)
    monkeypatch.setattr(global_nce, "with_replacement", partial(expectations.with_replacement, method="direct"))
    alone = torch.stack([global_nce.cross_entropy(joint, scores, n) for n in counts])
    assert torch.allclose(together, alone, rtol=1e-11, atol=0)


def test_unseen_pairs_at_minus_infinity_with_thousands_of_classes() -> None:
    # 16 x each with a block of 128 of 2,048 y: H = E log(1 + J), J ~ Binomial(n - 1, 1/16).
    joint, n = Joint(torch.kron(torch.eye(16, dtype=torch.float64), torch.ones(1, 128)) / 2048), 40
    mean = sum(math.comb(n - 1, j) * 15 ** (n - 1 - j) / 16 ** (n - 1) * math.log1p(j) for j in range(n))
    assert global_nce.entropy(joint, n).item() == pytest.approx(mean, rel=1e-12)


@pytest.mark.claim("sumexp-infonce-any-noise", shows="statement", evidence="exact")
@pytest.mark.parametrize("p", [P, FULL])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_with_any_noise_the_best_value_misses_its_ceiling_by_a_divergence(p: Table, n: int) -> None:
    # log n - H = E log pop(y|x)/q(y) - KL(P || pop_X x q^n), P the law of x and the candidates: all exact.
    lost = mixture_divergence(p, NOISE, n)
    information = rational.mutual_information(p) + rational.divergence(rational.marginals(p)[1], NOISE)
    assert rational.log(n) - rational.entropy(rational.global_law(p, NOISE, n)) == information - lost
    assert float(lost) > 0
    assert ceiling(joint_of(p), n, log_of(NOISE)) == pytest.approx(min(math.log(n), float(information)), rel=1e-12)


@pytest.mark.claim("sumexp-infonce-any-noise", shows="statement", evidence="quadrature")
@given(seed=st.integers(0, 10**6), spread=st.floats(0, 8), skew=st.floats(0, 5))
@few
def test_no_score_passes_the_ceiling_of_any_noise(seed: int, spread: float, skew: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    joint = Joint.from_counts(torch.rand(4, 6, generator=generator, dtype=torch.float64) ** 6 + 1e-9)
    log_q = torch.log_softmax(skew * torch.randn(6, generator=generator, dtype=torch.float64), 0)
    errors = spread * torch.randn(4, 6, generator=generator, dtype=torch.float64)
    for n in (2, 16, 4096):
        for scores in (global_nce.optimal_scores(joint, log_q) + errors, errors):
            assert global_nce.bound(joint, scores, n, log_q) <= ceiling(joint, n, log_q) + 1e-11


@pytest.mark.claim("sumexp-infonce-any-noise", shows="statement", evidence="quadrature")
def test_with_other_noise_the_information_alone_is_no_bound() -> None:
    joint = Joint(torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64))
    log_q = torch.tensor([0.02, 0.98], dtype=torch.float64).log()
    best = global_nce.bound(joint, global_nce.optimal_scores(joint, log_q), 50, log_q).item()
    # I = .8 log 1.6 + .2 log .4, KL = .5 log(.5/.02) + .5 log(.5/.98)
    information = 0.8 * math.log(1.6) + 0.2 * math.log(0.4)
    extra = 0.5 * math.log(0.5 / 0.02) + 0.5 * math.log(0.5 / 0.98)
    assert information < 0.2 < 1.3 < best < information + extra
    assert ceiling(joint, 50, log_q) == pytest.approx(information + extra, rel=1e-12)


@pytest.mark.claim("sumexp-infonce-any-noise", shows="statement", evidence="exact")
@pytest.mark.parametrize("noises", [(NOISE, NOISE[::-1]), ([Q(1, 6), Q(1, 2), Q(1, 3)], [Q(2, 5), Q(2, 5), Q(1, 5)])])
def test_with_noise_for_each_x_the_value_is_at_most_the_mean_divergence_from_it(noises: list[list[Fraction]]) -> None:
    value, bound = NOTHING, NOTHING
    for mass, row, q in zip(rational.marginals(FULL)[0], FULL, noises, strict=True):
        given_x = [p / mass for p in row]
        value += mass * (rational.log(3) - rational.entropy(rational.global_law([given_x], q, 3)))
        bound += mass * rational.divergence(given_x, q)
    assert float(value) < float(bound)
    # The first pair of noises lets the value pass I, the second, near pop(y|x), keeps it far below.
    assert (float(value) > float(rational.mutual_information(FULL))) is (noises[0] == NOISE)


@pytest.mark.claim("nce-logN-ceiling", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("n", [2, 16, 256, 4096])
def test_the_bound_stays_below_log_n_where_the_information_does_not(n: int) -> None:
    # y = x uniform on K = 2^14: I = log K. J of the n - 1 others equal x, and H = E log(1 + J).
    k = 2**14
    rows = 8  # every x is alike: 8 of them, each with its share, have the same conditionals and q
    joint = Joint(torch.eye(rows, k, dtype=torch.float64) / rows)
    log_q = torch.full((k,), -math.log(k), dtype=torch.float64)
    least = global_nce.entropy(joint, n, log_q).item()
    binomial = torch.distributions.Binomial(n - 1, torch.tensor(1 / k, dtype=torch.float64))
    counts = torch.arange(min(n, 60), dtype=torch.float64)  # P(J >= 60) < 1e-80
    mean = (binomial.log_prob(counts).exp() * torch.log1p(counts)).sum().item()
    assert least == pytest.approx(mean, rel=1e-9, abs=0)
    assert math.log(n) - least < math.log(n) < math.log(k)


@pytest.mark.claim("nce-logN-ceiling", shows="statement", evidence="exact")
@pytest.mark.parametrize("n", [2, 3])
def test_the_ceiling_in_exact_numbers(n: int) -> None:
    # y = x uniform on 5 values: I = log 5 > log n, and B = log n - E log(1 + J) with J ~ Binomial(n - 1, 1/5).
    p = [[Q(int(x == y), 5) for y in range(5)] for x in range(5)]
    best = rational.log(n) - rational.entropy(rational.global_law(p, [Q(1, 5)] * 5, n))
    assert rational.mutual_information(p) == rational.log(5)
    chances = [(Q(math.comb(n - 1, j) * 4 ** (n - 1 - j), 5 ** (n - 1)), rational.log(1 + j)) for j in range(n)]
    assert best == rational.log(n) - rational.total(chances)
    assert float(best) < math.log(n) < math.log(5)


@pytest.mark.claim("nce-global-optimum", shows="statement", evidence="exact")
@pytest.mark.parametrize("n", [2, 3])
@given(data=st.data(), p=joints(zeros=False))
@few
def test_the_optimal_scores_are_the_log_ratio_up_to_a_constant_for_each_x(
    data: st.DataObject, n: int, p: Table
) -> None:
    q = [Q(y + 1, len(p[0]) * (len(p[0]) + 1) // 2) for y in range(len(p[0]))]
    law, r = rational.global_law(p, q, n), ratio(p, q)
    constants = data.draw(st.lists(st.fractions(Q(1, 5), 5, max_denominator=5), min_size=2, max_size=2))
    shifted = [[c * value for value in row] for c, row in zip(constants, r, strict=True)]
    assert rational.cross_entropy(law, rational.softmax_model(shifted)) == rational.entropy(law)
    # Any other: some pair of candidates y, z has the wrong odds, and occurs, so that the excess is a positive KL.
    weights = data.draw(weights_beside(p))
    other = rational.softmax_model(weights)
    optimal = all(weights[x][y] * r[x][0] == weights[x][0] * r[x][y] for x in range(len(p)) for y in range(len(p[0])))
    assert (rational.cross_entropy(law, other) == rational.entropy(law)) is optimal
    assert float(rational.cross_entropy(law, other) - rational.entropy(law)) >= -1e-14


@pytest.mark.claim("nce-global-optimum", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("n", [2, 5, 1000])
def test_descending_the_exact_loss_reaches_the_optimal_scores(n: int) -> None:
    joint, log_q = joint_of(FULL), log_of(NOISE)
    free = torch.eye(6, dtype=torch.float64).view(2, 3, 6)
    theta = families.fit(free, lambda s: global_nce.cross_entropy(joint, s, n, log_q), tolerance=1e-10)
    difference = theta.view(2, 3) - global_nce.optimal_scores(joint, log_q)
    assert (difference - difference[:, :1]).abs().max() < 1e-6
    assert torch.allclose(global_nce.recover(theta.view(2, 3), log_q), joint.y_given_x, atol=1e-7)


@pytest.mark.claim("nce-global-recover", shows="statement", evidence="proof")
def test_the_optimum_recovers_the_conditional_on_the_support_of_the_noise() -> None:
    # One term of the softmax at s = log(p/q) + c is e^(s + log q) = p e^c, whatever q > 0; e^c cancels in the quotient.
    p, q, rest = sp.symbols("p q rest", positive=True)  # rest: the other pop(y'|x) with q(y') > 0
    c = sp.symbols("c", real=True)
    term = sp.exp(sp.log(p / q) + c + sp.log(q))
    assert sp.simplify(term / (term + rest * sp.exp(c)) - p / (p + rest)) == 0
    # Numerically, with constants for each x, and whole support: pop(y|x) itself.
    joint, log_q = joint_of(P), log_of(NOISE)
    shifted = global_nce.optimal_scores(joint, log_q) + torch.tensor([[3.0], [-40.0]])
    assert torch.allclose(global_nce.recover(shifted, log_q), joint.y_given_x, atol=1e-15)
    # C4. A y that the noise cannot produce is not recovered: its score is infinite, and e^s q is 0 for any other.
    joint, log_q = joint_of([[Q(5, 10), Q(3, 10), Q(2, 10)]]), log_of([Q(1, 2), Q(1, 2), Q(0)])
    assert (scores := global_nce.optimal_scores(joint, log_q)).isposinf().tolist() == [[False, False, True]]
    assert global_nce.recover(scores, log_q)[0].tolist() == pytest.approx([5 / 8, 3 / 8, 0], abs=1e-15)


@pytest.mark.claim("nce-uniform-q", shows="statement", evidence="proof")
def test_uniform_noise_needs_no_correction() -> None:
    s, classes, rest = sp.symbols("s K rest", positive=True)  # rest: the sum of the other e^s(x, y')
    corrected = sp.exp(s + sp.log(1 / classes)) / (sp.exp(s + sp.log(1 / classes)) + rest / classes)
    assert sp.simplify(corrected - sp.exp(s) / (sp.exp(s) + rest)) == 0
    uniform = torch.full((3,), -math.log(3), dtype=torch.float64)
    for scores in torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64), torch.tensor([[20_000_001, 20_000_000, 0]]):
        assert torch.allclose(global_nce.recover(scores, uniform), torch.softmax(scores.double(), 1), atol=1e-15)
