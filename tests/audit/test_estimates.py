"""Clipped probabilities: their table, and its cost by the closed form and by the exact minimum."""

import numpy as np
import pytest

from sumexp.audit import AuditError, audit
from sumexp.audit.estimates import estimate

COUNTS = np.maximum(1, 4000 / np.arange(1, 201.0)).astype(np.int64)
PRIOR = COUNTS / COUNTS.sum()


def test_an_audit_reports_the_estimate_and_its_cost() -> None:
    logits = np.log(PRIOR)[None]
    table = estimate("clipped:0.02", COUNTS)
    found = audit(COUNTS, weights="relative", m=31, scores=logits, log_q=table)
    [fault] = [each for each in found.faults if each.name == "a table of other probabilities"]
    delta = table - np.log(PRIOR)
    expected = float(np.log(PRIOR @ np.exp(delta)) - PRIOR @ delta)
    assert fault.found
    assert f"it costs {expected:.2g} nats of KL" in fault.says
    assert found.scheme.kl == pytest.approx(expected, rel=0.02)
    fine = audit(COUNTS, weights="relative", m=31, scores=logits, log_q=estimate("clipped:1e-6", COUNTS))
    assert not any(each.found for each in fine.faults)
    assert fine.scheme.kl < 1e-9


@pytest.mark.parametrize(
    "name, message",
    [("clipped:2", "the least probability of clipped is '2'"), ("sketch", "no estimate 'sketch'; there are clipped")],
)
def test_a_bad_estimate_is_one_message(name: str, message: str) -> None:
    with pytest.raises(AuditError, match=message):
        estimate(name, COUNTS)
