"""Estimates of log q: sketches by hand, their cost by the exact search, fading counts by running them."""

import math

import numpy as np
import pytest
import torch

from sumexp.audit import AuditError, audit
from sumexp.audit.estimates import cost, estimate
from sumexp.negatives import estimated
from sumexp.nn import StreamingLogQ

COUNTS = np.maximum(1, 4000 / np.arange(1, 201.0)).astype(np.int64)
PRIOR = COUNTS / COUNTS.sum()


def test_a_sketch_is_never_below_the_counts_and_is_exact_without_collisions() -> None:
    wide = estimate("count-min:1000003,3", COUNTS, 0)
    assert np.allclose(wide, np.log(PRIOR))
    narrow = estimate("count-min:16,2", COUNTS, 0)
    assert (narrow >= np.log(PRIOR) - 1e-12).all()
    assert len(np.unique(narrow)) <= 32
    assert np.allclose(estimate("count-min:1,1", COUNTS, 0), 0)  # one slot holds all


@pytest.mark.parametrize("kind, rate", [("gaps", 0.05), ("decayed", 1e-3)])
def test_what_fades_has_the_spread_of_the_module(kind: str, rate: float) -> None:
    """40 streams of 4,000 labels of 8 classes, against 2,000 draws of the stationary law: within five errors."""
    q = np.full(8, 1 / 8)
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(40):
        module = StreamingLogQ(8, kind="gap" if kind == "gaps" else "count", rate=rate)
        module.update(torch.randint(8, (4000,), generator=generator))
        found.append(module(torch.arange(8)).numpy())
    made = estimate(f"{kind}:{rate}", np.full(2000, 7), 0) - math.log(1 / 2000) if kind == "gaps" else np.log(
        np.random.default_rng(0).poisson(2 / rate * q[0], 2000) / (2 / rate * q[0])
    )  # fmt: skip
    if kind == "decayed":  # eight classes are few: give the estimate as many as it likes of the same share
        many = [estimate(f"decayed:{rate}", np.full(8, 500), seed) - math.log(1 / 8) for seed in range(250)]
        made = np.concatenate(many)
    theirs = np.concatenate(found) - math.log(1 / 8)
    assert theirs.std() == pytest.approx(made.std(), rel=0.25)


def test_what_an_estimate_costs_is_the_closed_form() -> None:
    delta = np.random.default_rng(0).normal(size=200) * 0.3
    log_p = torch.from_numpy(PRIOR).log()
    expected = estimated.cost(log_p, log_p, log_p + torch.from_numpy(delta)).item()
    assert cost(delta, PRIOR) == pytest.approx(expected, rel=1e-9)
    assert cost(np.full(200, 3.0), PRIOR) == pytest.approx(0, abs=1e-12)  # one factor everywhere costs nothing


def test_an_audit_reports_the_estimate_and_its_cost() -> None:
    logits = np.log(PRIOR)[None]
    found = audit(COUNTS, weights="relative", m=31, scores=logits, estimated="count-min:64,2")
    [fault] = [each for each in found.faults if each.name == "estimated q"]
    table = estimate("count-min:64,2", COUNTS, 0)
    expected = cost(table - np.log(PRIOR), PRIOR)
    assert fault.found
    assert f"{expected:.2g} nats of KL" in fault.says
    assert found.scheme.kl == pytest.approx(expected, rel=0.02)
    fine = audit(COUNTS, weights="relative", m=31, scores=logits, estimated="count-min:1000003,2")
    assert [each.found for each in fine.faults if each.name == "estimated q"] == [False]
    assert fine.scheme.kl < 1e-9


@pytest.mark.parametrize(
    "name, message",
    [
        ("count-min:x", "write count-min:WIDTH,DEPTH"),
        ("count-min:0,2", "width is 0"),
        ("gaps:2", "the rate of an estimate is '2'"),
        ("sketch", "no estimate 'sketch'; there are count-min"),
    ],
)
def test_a_bad_estimate_is_one_message(name: str, message: str) -> None:
    with pytest.raises(AuditError, match=message):
        audit(COUNTS, weights="relative", m=9, estimated=name)


def test_an_estimate_is_of_the_labels_and_in_the_place_of_a_table() -> None:
    with pytest.raises(AuditError, match="the sampler uniform has another law"):
        audit(COUNTS, weights="relative", sampler="uniform", m=9, estimated="gaps:0.01")
    with pytest.raises(AuditError, match="estimated and log_q are given"):
        audit(COUNTS, weights="relative", m=9, estimated="gaps:0.01", log_q=np.zeros(200))
    with pytest.raises(AuditError, match="subtract nothing from"):
        audit(COUNTS, weights="none", m=9, estimated="gaps:0.01")
