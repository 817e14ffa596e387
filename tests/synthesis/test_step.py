"""The bar of one label: each paper's terms and share, against arithmetic on three classes and enumeration."""

import math
from itertools import product

import pytest
import torch

from sumexp import perturb, ranking
from sumexp.chapters.synthesis import bars

LOGITS = torch.tensor([0.0, math.log(3), math.log(2), -1.0], dtype=torch.float64)
LOG_Q = torch.tensor([0.4, 0.1, 0.2, 0.3], dtype=torch.float64).log()
LABEL = 2  # terms: 1/2, 3/2, -, 1/(2e)
X = [0.5, 1.5, math.exp(-1) / 2]
LAW = [0.4 / 0.8, 0.1 / 0.8, 0.3 / 0.8]  # without the label


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_what_is_not_random() -> None:
    by_name = bars(LOGITS, LABEL, LOG_Q, 2, generator())
    assert by_name["softmax"].terms.tolist() == pytest.approx([X[0], X[1], 0, X[2]], rel=1e-15)
    assert by_name["softmax"].share == pytest.approx(1 / (1 + sum(X)), rel=1e-15)
    assert by_name["softmax"].mean == by_name["softmax"].share
    assert by_name["ranked"].terms.tolist() == [0, 1, 0, 0]
    assert 1 / by_name["ranked"].mean == ranking.rank(LOGITS[None], torch.tensor([LABEL])).item() == 2


def test_ties_count_half() -> None:
    logits = torch.tensor([1.0, 1.0, 1.0, 2.0], dtype=torch.float64)
    bar = bars(logits, 0, torch.zeros(4), 1, generator())["ranked"]
    assert 1 / bar.share == 1 + 1 + 2 / 2 == ranking.rank(logits[None], torch.tensor([0])).item()


@pytest.mark.parametrize(("name", "weight"), [("sampled", None), ("contrasted", 1.0), ("reweighted", 1 / 3)])
def test_expected_shares_are_those_of_the_enumeration(name: str, weight: float | None) -> None:
    m = 3
    expected = 0.0
    for seen in product(range(3), repeat=m):
        total = sum(X[i] * (1 / (m * LAW[i]) if weight is None else weight) for i in seen)
        expected += math.prod(LAW[i] for i in seen) / (1 + total)
    bar = bars(LOGITS, LABEL, LOG_Q, m, generator())[name]  # type: ignore[index]
    assert bar.mean == pytest.approx(expected, rel=1e-12)


def test_one_throw_serves_all() -> None:
    m = 5
    by_name = bars(LOGITS, LABEL, LOG_Q, m, generator())
    counts = (by_name["contrasted"].terms / by_name["softmax"].terms).nan_to_num(0.0)
    assert counts.sum() == m
    assert counts[LABEL] == 0
    torch.testing.assert_close(by_name["reweighted"].terms, by_name["contrasted"].terms / m)
    law = torch.tensor([LAW[0], LAW[1], 1.0, LAW[2]], dtype=torch.float64)
    torch.testing.assert_close(by_name["sampled"].terms, by_name["reweighted"].terms / law)
    for bar in by_name.values():
        assert bar.terms[LABEL] == 0
        assert bar.share == pytest.approx(1 / (1 + bar.terms.sum().item()), rel=1e-15)


def test_perturbed_by_gumbel_noise_at_temperature_one() -> None:
    """The mean of 100,000 throws within 4.9 standard errors: a false alarm once in a million."""
    rows = torch.Generator().manual_seed(0)
    exact = bars(LOGITS, LABEL, LOG_Q, 1, rows)["perturbed"].mean
    shares = (LOGITS + perturb.Gumbel().sample((100_000, 4), rows)).softmax(-1)[:, LABEL]
    assert abs(shares.mean() - exact) < 4.9 * shares.std() / math.sqrt(100_000)


def test_the_share_of_the_rank_is_at_least_the_softmax() -> None:
    rows = torch.Generator().manual_seed(1)
    for _ in range(20):
        logits = 5 * torch.randn(7, dtype=torch.float64, generator=rows)
        by_name = bars(logits, 0, torch.zeros(7), 2, rows)
        assert by_name["ranked"].share >= by_name["softmax"].share
        assert by_name["sampled"].mean >= by_name["softmax"].share


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"vector of finite numbers, got shape \(1, 4\)"):
        bars(LOGITS[None], 0, LOG_Q, 1, generator())
    with pytest.raises(ValueError, match="vector of finite"):
        bars(torch.tensor([0.0, math.inf]), 0, torch.zeros(2), 1, generator())
    with pytest.raises(ValueError, match="label"):
        bars(LOGITS, 4, LOG_Q, 1, generator())
    with pytest.raises(ValueError, match="m "):
        bars(LOGITS, 0, LOG_Q, 0, generator())
