"""Estimates of a softmax probability, against enumeration."""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from itertools import combinations, product

import pytest
import torch

from sumexp import expectations
from sumexp.bias.rational import softmax
from sumexp.chapters.synthesis import Estimate, drawn, dyadic, estimates, front, halves, occasional, subset
from sumexp.expectations._laws import Law

A = (Fraction(1), Fraction(3), Fraction(1, 2), Fraction(2))
Q = (Fraction(1, 10), Fraction(4, 10), Fraction(2, 10), Fraction(3, 10))
LOG_A = torch.tensor([float(a) for a in A], dtype=torch.float64).log()
LOG_Q = torch.tensor([float(q) for q in Q], dtype=torch.float64).log()
F = Fraction(2, 15)  # 1/(1 + 1 + 3 + 1/2 + 2)


def moments(outcomes: Iterable[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """The mean and variance of (probability, value) pairs."""
    pairs = list(outcomes)
    assert sum(p for p, _ in pairs) == 1
    mean = sum((p * v for p, v in pairs), Fraction(0))
    return mean, sum((p * v * v for p, v in pairs), Fraction(0)) - mean**2


def check(estimate: Estimate, reads: float, outcomes: Iterable[tuple[Fraction, Fraction]], rel: float = 1e-11) -> None:
    mean, variance = moments(outcomes)
    assert estimate.reads == pytest.approx(reads, rel=1e-15)
    assert estimate.bias == pytest.approx(float(mean - F), rel=rel, abs=1e-15)
    assert estimate.deviation == pytest.approx(math.sqrt(variance), rel=rel)
    assert estimate.error == pytest.approx(math.sqrt(variance + (mean - F) ** 2), rel=rel)


def share(drawn: Iterable[int], q: tuple[Fraction, ...]) -> Fraction:
    """1/(1 + mean of a/q over what was drawn)."""
    terms = [A[i] / q[i] for i in drawn]
    return 1 / (1 + sum(terms, Fraction(0)) / len(terms))


def draws(k: int, q: tuple[Fraction, ...]) -> Iterable[tuple[Fraction, tuple[int, ...]]]:
    for seen in product(range(4), repeat=k):
        yield math.prod((q[i] for i in seen), start=Fraction(1)), seen


def test_the_softmax_of_the_case() -> None:
    assert softmax(A) == F


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_subset(k: int) -> None:
    sets = list(combinations(range(4), k))
    uniform = (Fraction(1, 4),) * 4
    outcomes = ((Fraction(1, len(sets)), share(drawn, uniform)) for drawn in sets) if k < 4 else [(Fraction(1), F)]
    check(subset(LOG_A, k), k, outcomes)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("q", [None, Q])
def test_draws(k: int, q: tuple[Fraction, ...] | None) -> None:
    law = q or (Fraction(1, 4),) * 4
    check(drawn(LOG_A, k, q and LOG_Q), k, ((p, share(seen, law)) for p, seen in draws(k, law)))


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("q", [None, Q])
def test_halves(k: int, q: tuple[Fraction, ...] | None) -> None:
    law = q or (Fraction(1, 4),) * 4

    def value(seen: tuple[int, ...]) -> Fraction:
        return 2 * share(seen, law) - (share(seen[:k], law) + share(seen[k:], law)) / 2

    estimate = halves(LOG_A, k, None if q is None else LOG_Q)
    check(estimate, 2 * k, ((p, value(seen)) for p, seen in draws(2 * k, law)), rel=1e-9)


def test_halves_take_the_first_order_out_of_the_bias() -> None:
    """The bias of k draws is c/k + O(1/k^2): four times the draws leave a quarter of it, and of halves a sixteenth."""
    assert drawn(LOG_A, 4000).bias / drawn(LOG_A, 16000).bias == pytest.approx(4, rel=0.01)
    assert halves(LOG_A, 2000).bias / halves(LOG_A, 8000).bias == pytest.approx(16, rel=0.02)


def test_all_of_them_at_times() -> None:
    chance = Fraction(1, 5)
    uniform = (Fraction(1, 4),) * 4

    def outcomes() -> Iterable[tuple[Fraction, Fraction]]:
        for i in range(4):
            first = share((i,), uniform)
            yield Fraction(1, 4) * (1 - chance), first
            yield Fraction(1, 4) * chance, first + (F - first) / chance

    estimate = occasional(LOG_A, 1, chance)
    check(estimate, 1 + 3 / 5, outcomes())
    assert estimate.bias == 0
    assert occasional(LOG_A, 1, 1).deviation == 0


def test_the_dyadic_roulette_reads_what_its_schedule_says() -> None:
    estimate = dyadic(LOG_A, 1.0)
    assert (estimate.reads, estimate.bias) == (1 + 1 / 2 + 2 / 4, 0)
    error_1, error_2 = (subset(LOG_A, k).error ** 2 for k in (1, 2))
    assert estimate.deviation**2 == pytest.approx(error_1 * (2 - 1) + error_2 * (4 - 2), rel=1e-12)


def test_the_front_has_what_nothing_beats() -> None:
    values = [(1, 0.2, 0.3), (1, -0.1, 0.3), (2, 0, 0.4), (2, 0.1, 0.2), (2, 0, 0.4), (3, 0, 0.5)]
    ours = [Estimate(*value) for value in values]
    assert front(ours) == [ours[1], ours[2], ours[3], ours[4]]
    assert front([]) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: subset(LOG_A, 5), "k"),
        (lambda: subset(LOG_A[None], 1), r"shape \(1, 4\)"),
        (lambda: drawn(LOG_A, 0), "k"),
        (lambda: drawn(LOG_A, 1, LOG_Q[:3]), r"log_q has shape \(3,\)"),
        (lambda: drawn(LOG_A, 1, LOG_Q + 1), "sums to 2.718"),
        (lambda: halves(LOG_A, 1, torch.tensor([1.0, 1, 1, 0]).div(3).log()), "never see it"),
        (lambda: occasional(LOG_A, 4, 0.5), "k"),
        (lambda: occasional(LOG_A, 1, 0.0), "chance is 0.0"),
        (lambda: dyadic(LOG_A[:3], 1.0), "n is 3"),
    ],
)
def test_what_is_refused(call: Callable[[], Estimate], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("numbers", [4_000_000, 50])
def test_the_transform_on_two_nodes_at_once(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also class by class: of 50 numbers there is one for each node."""
    monkeypatch.setattr(estimates, "NUMBERS", numbers)
    t = torch.linspace(0, 9, 50, dtype=torch.float64)
    alone, among = estimates._laplace(LOG_A, LOG_Q, 3, t)
    assert_close = partial(torch.testing.assert_close, rtol=1e-13, atol=1e-17)
    assert_close(alone, (torch.exp(-t[:, None] / 2 * LOG_A.exp()) @ LOG_Q.exp()) ** 3)
    assert_close(among, (torch.exp(-(t + t[:, None] / 2)[..., None] * LOG_A.exp()) @ LOG_Q.exp()) ** 3)


def test_schedules_share_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    law = expectations.without_replacement

    def counted(log_x: torch.Tensor, m: int) -> Law:
        counts.append(m)
        return law(log_x, m)

    monkeypatch.setattr(expectations, "without_replacement", counted)
    log_a = torch.linspace(-1, 1, 8, dtype=torch.float64)
    for rate in (0.5, 1.0, 2.0):
        dyadic(log_a, rate)
    subset(log_a, 2), occasional(log_a, 3, 0.5), dyadic(log_a + 1, 1.0)
    assert counts == [1, 2, 4, 3, 1, 2, 4]
