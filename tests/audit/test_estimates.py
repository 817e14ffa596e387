"""Estimates of log q: sketches by hand, their cost by the exact search, fading counts by running them."""

import numpy as np
import pytest
import torch

from sumexp.audit import AuditError, audit
from sumexp.audit.estimates import cost, estimate
from sumexp.negatives import estimated

COUNTS = np.maximum(1, 4000 / np.arange(1, 201.0)).astype(np.int64)
PRIOR = COUNTS / COUNTS.sum()


def test_a_sketch_is_never_below_the_counts_and_is_exact_without_collisions() -> None:
    wide = estimate("count-min:1000003,3", COUNTS, 0)
    assert np.allclose(wide, np.log(PRIOR))
    narrow = estimate("count-min:16,2", COUNTS, 0)
    assert (narrow >= np.log(PRIOR) - 1e-12).all()
    assert len(np.unique(narrow)) <= 32
    assert np.allclose(estimate("count-min:1,1", COUNTS, 0), 0)  # one slot holds all


def test_what_an_estimate_costs_is_the_closed_form() -> None:
    delta = np.random.default_rng(0).normal(size=200) * 0.3
    log_p = torch.from_numpy(PRIOR).log()
    expected = estimated.cost(log_p, log_p, log_p + torch.from_numpy(delta)).item()
    assert cost(delta, PRIOR) == pytest.approx(expected, rel=1e-9)
    assert cost(np.full(200, 3.0), PRIOR) == pytest.approx(0, abs=1e-12)  # one factor everywhere costs nothing


def test_an_audit_reports_the_estimate_and_its_cost() -> None:
    logits = np.log(PRIOR)[None]
    table = estimate("count-min:64,2", COUNTS, 0)
    found = audit(COUNTS, weights="relative", m=31, scores=logits, log_q=table)
    [fault] = [each for each in found.faults if each.name == "a table of other probabilities"]
    expected = cost(table - np.log(PRIOR), PRIOR)
    assert fault.found
    assert f"it costs {expected:.2g} nats of KL" in fault.says
    assert found.scheme.kl == pytest.approx(expected, rel=0.02)
    fine = audit(COUNTS, weights="relative", m=31, scores=logits, log_q=estimate("count-min:1000003,2", COUNTS, 0))
    assert not any(each.found for each in fine.faults)
    assert fine.scheme.kl < 1e-9


@pytest.mark.parametrize(
    "name, message",
    [
        ("count-min:x", "write count-min:WIDTH,DEPTH"),
        ("count-min:0,2", "width is 0"),
        ("clipped:2", "the least probability of clipped is '2'"),
        ("sketch", "no estimate 'sketch'; there are count-min"),
    ],
)
def test_a_bad_estimate_is_one_message(name: str, message: str) -> None:
    with pytest.raises(AuditError, match=message):
        estimate(name, COUNTS, 0)
