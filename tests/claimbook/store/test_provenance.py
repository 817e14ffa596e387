"""What an entry says of how it was made: the time that its making took."""

import time

import pytest

from claimbook.store.provenance import Meter


def test_a_meter_counts_from_its_making_on() -> None:
    meter = Meter()
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    wall, cpu = meter.elapsed()
    assert 0.04 < cpu < 1
    assert wall > 0.04
    made = meter.read()
    assert made.cpu_seconds == pytest.approx(cpu, abs=0.5)
    assert made.seconds >= round(wall, 3)


def test_what_was_spent_before_a_kill_counts() -> None:
    wall, cpu = Meter((100.0, 1000.0)).elapsed()
    assert wall == pytest.approx(100, abs=5)
    assert cpu == pytest.approx(1000, abs=5)
