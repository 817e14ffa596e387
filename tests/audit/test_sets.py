"""Sets of a fixed law: losses, derivatives and moments by summing over all sets, by exact searches, and by drawing."""

import math
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sumexp.audit import _sets as sets
from sumexp.audit import _terms as terms
from sumexp.audit import audit
from sumexp.audit._minimiser import minimise
from sumexp.audit._moments import moments
from sumexp.audit._risks import Binned, SetState
from sumexp.audit._sets import Fixed, inclusion
from sumexp.negatives import race
from sumexp.negatives.consistency import minimiser, set_losses, union_law
from sumexp.samplers import Hits, LogUniform

Floats = NDArray[np.float64]

Q = np.array([0.6, 0.25, 0.1, 0.03, 0.015, 0.005])
P = np.array([0.2, 0.25, 0.15, 0.15, 0.15, 0.1])
F = np.array([0.3, -0.5, 1.0, 0.2, -1.0, 0.1])
LOG_Q = torch.from_numpy(Q).log()
NONE = np.zeros(0)
Kind = Literal["union", "distinct"]


def problem(kind: Kind, m: int, hits: Hits = "mask", *, arrival: bool = False, free: bool = True) -> Binned:
    generator = np.random.default_rng(m)
    a, b = generator.normal(size=(2, 6)) * (free and not arrival)
    law = Fixed(kind, m, Q, np.ones(6), NONE, NONE, arrival)
    held = inclusion(Q, m) if kind == "distinct" else 1 - (1 - Q) ** m
    return Binned(np.ones(6), P, held[None], np.array([held.sum()]), True, a, b, hits, law)


def every_set(kind: Kind, m: int) -> tuple[NDArray[np.bool_], Floats]:
    if kind == "union":
        members, chance = union_law(LOG_Q, m)
        return members.numpy(), chance.numpy()
    law = race.distinct_law(LOG_Q, m)
    return law.members.numpy(), law.probability.numpy()


@pytest.mark.parametrize("hits", ["mask", "keep"])
@pytest.mark.parametrize("m", [1, 3, 5])
@pytest.mark.parametrize("kind", ["union", "distinct"])
def test_losses_and_moments_are_sums_over_all_sets(kind: Kind, m: int, hits: Hits) -> None:
    b = problem(kind, m, hits)
    here = SetState(b, F, 1e-9)
    found = moments(here, np.array([0, 0, 1, 1, 2, 2]))
    loss = square = noise = 0.0
    pushed = np.zeros(6)
    for y in range(6):
        mean, second = np.zeros(6), 0.0
        for members, chance in zip(*every_set(kind, m), strict=True):
            terms = np.exp(b.log_a[y] + b.log_b + F - F[y]) * members
            terms[y] *= hits == "keep"
            value = math.log1p(terms.sum())
            pull = terms / (1 + terms.sum())
            pull[y] = 0
            pull[y] = -pull.sum()
            loss, square = loss + P[y] * chance * value, square + P[y] * chance * value**2
            mean, second = mean + chance * pull, second + chance * float(pull @ pull)
        square -= P[y] * here.losses[y] ** 2
        noise += P[y] * (second - float(mean @ mean))
        mean[y] = 0
        pushed += P[y] * mean
    assert found.loss == pytest.approx(loss, abs=1e-7)
    assert found.deviation**2 == pytest.approx(square, abs=1e-6)
    assert found.noise**2 == pytest.approx(noise, abs=1e-6)
    assert np.allclose(found.weight, pushed.reshape(3, 2).sum(1), atol=1e-7)


@pytest.mark.parametrize(
    "kind, m, hits, arrival",
    [
        ("union", 1, "mask", False),
        ("union", 4, "keep", False),
        ("distinct", 2, "mask", False),
        ("distinct", 5, "keep", False),
        ("distinct", 1, "mask", True),
        ("distinct", 4, "mask", True),
    ],
)
def test_derivatives_are_differences(kind: Kind, m: int, hits: Hits, arrival: bool) -> None:
    """Along a direction in which every coordinate moves: a wrong entry anywhere would show."""
    b, step = problem(kind, m, hits, arrival=arrival), 1e-4
    way = np.random.default_rng(m).normal(size=6)
    gradient, matrix = SetState(b, F, 1e-9).derivatives()
    up, down = (SetState(b, F + sign * step * way, 1e-9) for sign in (1, -1))
    slopes = (up.derivatives()[0] - down.derivatives()[0]) / (2 * step)
    assert np.allclose(matrix @ way, slopes, atol=1e-6)
    assert gradient @ way == pytest.approx((up.risk - down.risk) / (2 * step), abs=1e-7)
    assert np.allclose(matrix, matrix.T, atol=1e-12)


@pytest.mark.parametrize("m", [1, 4])
def test_the_label_out_of_the_race(m: int) -> None:
    """Against the sums of `sumexp.negatives.race`; the minimum is the truth."""
    b = problem("distinct", m, arrival=True)
    expected = race.race_losses(LOG_Q, m)(torch.from_numpy(F)).numpy()
    assert np.allclose(SetState(b, F, 1e-9).losses, expected, atol=1e-7)
    assert np.allclose(minimise(b, F).scores, np.log(P), atol=1e-6)


@pytest.mark.parametrize("kind, m", [("union", 3), ("distinct", 4)])
def test_the_minimum_is_that_of_the_search_over_all_sets(kind: Kind, m: int) -> None:
    b = problem(kind, m)
    members, chance = (torch.from_numpy(x) for x in every_set(kind, m))
    b = Binned(b.count, b.p, b.q, b.m, True, b.log_a, -b.log_a, "mask", b.fixed)  # one table, off all logits
    expected = minimiser(set_losses(members, chance, torch.from_numpy(b.log_a)), torch.from_numpy(P))
    found = minimise(b).scores
    assert np.allclose(found - found.mean(), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("kind, hits", [("union", "mask"), ("distinct", "mask"), ("distinct", "keep")])
def test_bins_and_classes_without_a_score_are_their_classes(kind: Kind, hits: Hits) -> None:
    """Two of six in one bin, and one that is only drawn."""
    q = np.array([0.4, 0.2, 0.2, 0.1, 0.06, 0.04])
    law = Fixed(kind, 3, q[[0, 1, 3, 5]], np.array([1.0, 2, 1, 1]), q[[4]], np.ones(1))
    zero = np.zeros(4)
    p, f = np.array([0.3, 0.2, 0.2, 0.1]), np.array([0.2, -0.3, 0.5, 0.0])
    b = Binned(law.count, p, np.full((1, 4), 0.5), np.array([3.0]), True, zero, zero, hits, law)
    log_q = torch.from_numpy(q).log()
    if kind == "union":
        members, chance = union_law(log_q, 3)
    else:
        members, chance, _ = race.distinct_law(log_q, 3)
    scores, found = np.array([0.2, -0.3, -0.3, 0.5, -np.inf, 0.0]), SetState(b, f, 1e-9).losses
    for label, place in enumerate((0, 1, 3, 5)):
        terms = np.where(members.numpy(), np.exp(scores - scores[place]), 0.0)
        terms[:, place] *= hits == "keep"
        expected = float(chance.numpy() @ np.log1p(terms.sum(1)))
        assert found[label] == pytest.approx(expected, abs=1e-7)


def test_inclusion_for_thousands_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the integral of `sumexp.negatives.race`; with values merged into fewer, and in rows of equal ones."""
    log_q = LogUniform(500).log_prob(torch.arange(500))
    q, expected = log_q.exp().numpy(), race.inclusion(log_q, 40).numpy()
    assert np.allclose(inclusion(q, 40), expected, rtol=1e-7)
    assert inclusion(q, 40).sum() == pytest.approx(40, rel=1e-7)
    monkeypatch.setattr(sets, "VALUES", 100)
    assert np.allclose(inclusion(q, 40), expected, rtol=2e-3)
    few = np.array([0.2, 0.1, 0.0])
    assert inclusion(few, 2, np.array([2.0, 6, 9]))[:2] == pytest.approx(
        race.inclusion(torch.tensor([0.2] * 2 + [0.1] * 6).double().log(), 2)[[0, 2]].numpy()
    )


def test_many_distinct_ids_by_drawing() -> None:
    """300 classes, 40 ids, 20,000 sets: the mean loss within five standard errors, a false alarm in 10^6 runs."""
    generator = np.random.default_rng(0)
    q = 1 / np.arange(1, 301.0)
    q /= q.sum()
    p = q * np.exp(generator.normal(size=300))
    p /= p.sum()
    for kind in ("distinct", "union"):
        law = Fixed(kind, 40, q, np.ones(300), NONE, NONE)  # type: ignore[arg-type]
        zero = np.zeros(300)
        held = inclusion(q, 40) if kind == "distinct" else 1 - (1 - q) ** 40
        b = Binned(np.ones(300), p, held[None], np.array([40.0]), True, zero, -np.log(held), "mask", law)
        exact = SetState(b, np.log(p)).risk
        drawn = np.zeros((20_000, 300), dtype=bool)
        if kind == "distinct":  # the first to arrive
            first = np.argpartition(generator.exponential(size=(20_000, 300)) / q, 40)[:, :40]
        else:
            first = generator.choice(300, size=(20_000, 40), p=q)
        np.put_along_axis(drawn, first, True, 1)
        labels = generator.choice(300, size=20_000, p=p)
        drawn[np.arange(20_000), labels] = False
        values = np.log1p(drawn @ (p / held) / p[labels])
        assert abs(values.mean() - exact) < 5 * values.std() / math.sqrt(20_000)


COUNTS = np.array([400, 170, 90, 40, 30, 20])


@pytest.mark.parametrize("sampler", ["distinct:unigram", "within-batch-union"])
def test_the_audit_of_a_set_is_exact(sampler: str) -> None:
    """Inclusion probabilities off all logits, hits left out: nearly right, and its error to three digits."""
    prior = COUNTS / COUNTS.sum()
    logits = np.log(P)[None]
    found = audit(COUNTS, sampler=sampler, weights="relative", hits="mask", m=3, scores=logits)
    log_q = torch.from_numpy(prior).log()
    if sampler == "within-batch-union":
        losses = set_losses(*union_law(log_q, 3), torch.log(1 - (1 - log_q.exp()) ** 3))
    else:
        losses = race.corrected(race.distinct_law(log_q, 3))
    p = torch.from_numpy(P)
    left = (p * (p.log() - minimiser(losses, p).log_softmax(-1))).sum().item()
    assert 0 < left < 0.01
    assert found.scheme.kl == pytest.approx(left, rel=1e-3)
    assert "coins" not in str(found)


def test_the_audit_of_tensorflows_distinct_ids_is_exact() -> None:
    """`weights="tries"`: the divergence of the minimum over all sets and numbers of tries."""
    counts, p = np.array([300, 170, 90, 60]), torch.tensor([0.3, 0.3, 0.25, 0.15], dtype=torch.float64)
    given = {"weights": "tries", "hits": "mask", "m": 2, "scores": p.log().unsqueeze(0)}
    found = audit(counts, sampler="distinct:unigram", **given)  # type: ignore[arg-type]
    law = race.tries_law(torch.from_numpy(counts / counts.sum()).log(), 2)
    left = (p * (p.log() - minimiser(race.corrected(law), p).log_softmax(-1))).sum().item()
    assert left > 1e-4
    assert found.scheme.kl == pytest.approx(left, rel=1e-4)


def test_a_law_that_falls_by_thirty_orders_of_magnitude() -> None:
    """After the one class that is always there the others come as if it were not: the first m - 1 of four alike."""
    q = np.array([1.0, 1e-36, 1e-36, 1e-36, 1e-36])
    assert inclusion(q, 3) == pytest.approx([1, 0.5, 0.5, 0.5, 0.5], rel=1e-6)


@pytest.mark.parametrize("sampler", ["distinct:unigram", "within-batch-union"])
def test_one_per_cent_of_a_set_by_visiting_all_sets(sampler: str) -> None:
    """The loss at the truth with the inclusion's logarithm off the negatives: within 1 % from there, not before."""
    found = audit(COUNTS, sampler=sampler, weights="importance", hits="mask", m=3, scores=np.log(P)[None])
    log_q, p, least = torch.from_numpy(COUNTS / COUNTS.sum()).log(), torch.from_numpy(P), found.one_per_cent
    assert least is not None

    def missing(m: int) -> float:
        if sampler == "within-batch-union":
            members, chance = union_law(log_q, m)
        else:
            members, chance, _ = race.distinct_law(log_q, m)
        held = chance @ members.double()
        loss = 0.0
        for y in range(6):
            terms = torch.where(members, p / held / p[y], 0.0)
            terms[:, y] = 0
            loss += P[y] * (chance @ torch.log1p(terms.sum(1))).item()
        return abs(loss / -(P @ np.log(P)) - 1)

    assert missing(least) <= 0.01 < missing(least - 1)


LAWS_OF_TRIES = {
    "even": [1 / 3, 1 / 3, 1 / 3],
    "falling": [0.5, 0.25, 0.15, 0.1],
    "steep": [0.6, 0.25, 0.1, 0.03, 0.02],
    "six": [0.3, 0.2, 0.2, 0.15, 0.1, 0.05],
    "far first": [0.94, 0.03, 0.02, 0.01],
    "far in the middle": [0.02, 0.03, 0.9, 0.03, 0.02],
    "far last": [0.04, 0.03, 0.02, 0.01, 0.9],
    "two far": [0.02, 0.5, 0.02, 0.46],
}
"""Laws with and without a class that takes nearly all draws, in every place; as a label it has circles of its own."""


def by_tries(q: Floats, m: int, hits: Hits, seed: int = 0) -> tuple[Binned, Floats]:
    """Classes whose weights know the number of tries, of a law P that is another, and scores of all sizes."""
    generator = np.random.default_rng(seed)
    p, f = generator.dirichlet(np.ones(len(q))), 2 * generator.standard_normal(len(q))
    held, one = inclusion(q, m), np.ones(len(q))
    law = Fixed("distinct", m, q, one, NONE, NONE, tries=True)
    return Binned(one, p, held[None], np.array([float(m)]), True, np.log(held), -np.log(held), hits, law), f


@pytest.mark.parametrize(
    "name, m, hits",
    [
        ("even", 2, "mask"),
        ("falling", 2, "keep"),
        ("falling", 3, "mask"),
        ("steep", 2, "keep"),
        ("six", 5, "mask"),
        ("far first", 2, "mask"),
        ("far first", 3, "keep"),
        ("far in the middle", 2, "mask"),
        ("far last", 2, "mask"),
        ("two far", 3, "mask"),
    ],
)
def test_the_number_of_tries_by_visiting_all_of_them(name: str, m: int, hits: Hits) -> None:
    """Losses of every label, moments and gradient, against the sum over sets and numbers of tries."""
    q = np.array(LAWS_OF_TRIES[name])
    b, f = by_tries(q, m, hits)
    p, classes = b.p, len(q)
    law, here = race.tries_law(torch.from_numpy(q).log(), m), SetState(b, f)
    found, gradient = moments(here, np.arange(classes) % 3), here.gradient()
    members, chance = law.members.numpy(), law.probability.numpy()
    loss, square, noise, mean_gradient = 0.0, 0.0, 0.0, np.zeros(classes)
    for y in range(classes):
        terms = np.exp(law.log_coin[:, [y]].numpy() - law.log_coin.numpy() + f - f[y]) * members
        terms[:, y] *= hits == "keep"
        total = terms.sum(1)
        mean = chance @ np.log1p(total)
        assert here.losses[y] == pytest.approx(mean, abs=2e-6)
        loss, square = loss + p[y] * mean, square + p[y] * (chance @ np.log1p(total) ** 2 - mean**2)
        pull = terms / (1 + total)[:, None]
        pull[:, y] = 0
        pull[:, y] = -pull.sum(1)
        noise += p[y] * (chance @ (pull**2).sum(1) - ((chance @ pull) ** 2).sum())
        mean_gradient += p[y] * (chance @ pull)
    assert found.loss == pytest.approx(loss, abs=2e-6)
    assert found.deviation**2 == pytest.approx(square, abs=1e-5)
    assert found.noise**2 == pytest.approx(noise, abs=1e-5)
    assert np.allclose(gradient, mean_gradient, atol=2e-6)


@pytest.mark.parametrize("name, m", [("falling", 2), ("far first", 2)])
def test_the_gradient_of_tries_is_a_difference_both_ways(name: str, m: int) -> None:
    """Forwards and backwards along two ways: each off by at most half the step times a curvature below a quarter."""
    b, f = by_tries(np.array(LAWS_OF_TRIES[name]), m, "mask", seed=1)
    step, generator = 1e-2, np.random.default_rng(1)
    here = SetState(b, f)
    gradient, risk = here.gradient(), here.risk
    for way in generator.normal(size=(2, len(f))):
        way /= np.linalg.norm(way)
        up, down = ((SetState(b, f + sign * step * way).risk - risk) / (sign * step) for sign in (1, -1))
        assert down < gradient @ way < up  # the loss is convex
        assert up - down < step / 4 * 2
        assert gradient @ way == pytest.approx((up + down) / 2, abs=2e-5)


def test_bins_and_classes_without_a_score_are_their_classes_by_tries() -> None:
    """Two of six in one bin, one of them far, and one that is only drawn."""
    q = np.array([0.5, 0.15, 0.15, 0.1, 0.06, 0.04])
    law = Fixed("distinct", 3, q[[0, 1, 3, 5]], np.array([1.0, 2, 1, 1]), q[[4]], np.ones(1), tries=True)
    zero, f = np.zeros(4), np.array([0.2, -0.3, 0.5, 0.0])
    b = Binned(law.count, np.array([0.3, 0.2, 0.2, 0.1]), np.full((1, 4), 0.5), np.array([3.0]), True, zero, zero,
               "mask", law)  # fmt: skip
    sets = race.tries_law(torch.from_numpy(q).log(), 3)
    scores, found = np.array([0.2, -0.3, -0.3, 0.5, -np.inf, 0.0]), SetState(b, f).losses
    for label, y in enumerate((0, 1, 3, 5)):
        coin = np.exp(sets.log_coin[:, [y]].numpy() - sets.log_coin.numpy())
        terms = np.where(sets.members.numpy(), coin * np.exp(scores - scores[y]), 0.0)
        terms[:, y] = 0
        expected = float(sets.probability.numpy() @ np.log1p(terms.sum(1)))
        assert found[label] == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("name, m", [("falling", 2), ("far first", 2)])
def test_the_minimum_of_tries_is_that_of_the_search_over_all_sets(name: str, m: int) -> None:
    q = np.array(LAWS_OF_TRIES[name])
    b, _ = by_tries(q, m, "mask", seed=2)
    law = race.tries_law(torch.from_numpy(q).log(), m)
    expected = minimiser(race.corrected(law), torch.from_numpy(b.p)).numpy()
    scores = minimise(b).scores
    assert np.allclose(scores - scores.mean(), expected, atol=3e-5)


def test_tries_and_sets_by_drawing() -> None:
    """40 classes, 12 ids, 20,000 sets with their numbers of tries: the mean loss within five standard errors."""
    generator = np.random.default_rng(0)
    q = 1 / np.arange(1, 41.0)
    q /= q.sum()
    p = np.sqrt(q) * np.exp(generator.normal(size=40))
    p /= p.sum()
    law = Fixed("distinct", 12, q, np.ones(40), NONE, NONE, tries=True)
    held, zero = inclusion(q, 12), np.zeros(40)
    b = Binned(np.ones(40), p, held[None], np.array([12.0]), True, zero, zero, "mask", law)
    exact = SetState(b, np.log(p), 1e-3).risk  # a thousandth is a tenth of what is told apart
    sets = np.arange(20_000)
    seen, tries = np.zeros((20_000, 40), dtype=bool), np.zeros(20_000)
    while (open_ := seen.sum(1) < 12).any():  # each set that is not full draws once more
        seen[sets[open_], generator.choice(40, size=open_.sum(), p=q)] = True
        tries[open_] += 1
    labels = generator.choice(40, size=20_000, p=p)
    coin = np.where(tries[:, None] == 12, 12 * q, 1 - (1 - q) ** tries[:, None])
    seen[sets, labels] = False
    values = np.log1p((seen * p / coin).sum(1) * coin[sets, labels] / p[labels])
    assert abs(values.mean() - exact) < 5 * values.std() / math.sqrt(20_000)


@pytest.mark.parametrize("variance, digits", [(0.0, 20.0), (0.3, 5.0), (40.0, 20.0)])
def test_how_far_a_sum_of_coins_strays(variance: float, digits: float) -> None:
    """Bernstein: a sum with variance v lies t or more above its mean with at most exp(-t^2 / (2 (v + t/3)))."""
    t = terms.tail(variance, digits)
    assert t * t / (2 * (variance + t / 3)) == pytest.approx(digits, rel=1e-14)
