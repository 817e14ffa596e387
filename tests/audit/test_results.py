"""What an audit prints: each line fits the column of a page, and nothing of it is lost."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from sumexp.audit import Audit, audit
from sumexp.audit import _report as report
from sumexp.audit._text import digits, nats, percent, signed
from sumexp.audit.results import WIDTH, Line, folded

COUNTS = np.maximum(1, 3000 // np.arange(1, 301))


@pytest.fixture(scope="module")
def found() -> Audit:
    return audit(COUNTS, weights="none", hits="keep", m=255)


def test_lines_fit(found: Audit) -> None:
    more = Line("drift", True, "a long sentence " * 20, "a fix", code="one line\nand another")
    many = replace(found, faults=tuple(replace(f, found=True) for f in found.faults)).with_lines(more)
    for each in (found, many):
        lines = str(each).splitlines()
        assert max(map(len, lines)) <= WIDTH
        assert not any(line.endswith(" ") for line in lines)


def test_what_is_folded_is_all_there() -> None:
    line = "fault     a law: " + " ".join(f"word{i}" for i in range(40))
    text = folded(line)
    first, *rest = text.splitlines()
    assert len(rest) > 1
    assert first.startswith("fault     a law: word0")
    assert all(more.startswith(" " * 10 + "word") for more in rest)
    assert text.split() == line.split()


def test_numbers_stand_with_their_scheme(found: Audit) -> None:
    text = " ".join(str(found).split())
    for each in (found.scheme, *found.alternatives):
        words = each.title.split()
        assert words[0] in text
        assert f"{each.overlap:.3g}" in text
    for number in found.numbers:
        assert f"{number.m:,} {number.kl:.3g}" in text


def test_numbers_of_nats_and_errors() -> None:
    assert [nats(value) for value in (math.inf, 9e-8, 0.00012345, 0.0012345)] == ["infinite", "0", "1.2e-04", "0.00123"]
    assert [signed(value) for value in (-4e-4, 0.0041, -0.012345, 12.345)] == ["0", "+0.004", "-0.0123", "+12.3"]


def test_a_share_below_one_is_printed_below_100_per_cent_and_without_an_exponent() -> None:
    """By hand: .2g of 99.6 is 1e+02; .3g of 99.96 is 100."""
    assert percent(0.996, 2) == "99.6 %"
    assert percent(0.9996) == "99.96 %"
    assert percent(1, 2) == "100 %"
    assert [percent(x, 2) for x in (0, 0.00123, 0.125, 0.5)] == ["0 %", "0.12 %", "12 %", "50 %"]
    assert [digits(x, 2) for x in (-0.01, 99.6, 1234.0)] == ["-0.01", "100", "1,200"]
    assert [digits(x, 6) for x in (65_536, 2e6, 1e9, 511.5)] == ["65,536", "2,000,000", "1,000,000,000", "511.5"]
    assert [nats(x) for x in (1234.5, 99.96, math.inf)] == ["1,230", "100", "infinite"]
    assert [signed(x) for x in (1234.5, -1234.5, 0.5, 0.004, 1e-5)] == ["+1,230", "-1,230", "+0.5", "+0.004", "0"]


def test_no_sentence_of_an_audit_has_an_exponent_for_a_share() -> None:
    """Uniform counts of 40 classes and 1,023 keys of the batch: all but (39/40)^1023 = 6e-12 of examples have a hit;
    with 220 it is 1 - (39/40)^220 = .9962."""
    for m, share in ((220, "99.6 %"), (1023, "100 %")):
        result = audit(np.full(40, 100), weights="none", hits="keep", m=m)
        assert f"{share} of examples" in " ".join(result.lines())
        text = str(result) + report.page(result, "a.csv", "a.json")
        assert not re.search(r"\de\+\d+ (%|nats|times)", text)
