"""What an audit prints: each line fits the column of a page, and nothing of it is lost."""

from dataclasses import replace

import numpy as np
import pytest

from sumexp.audit import Audit, audit
from sumexp.audit.evaluation import Evaluation
from sumexp.audit.results import WIDTH, folded

COUNTS = np.maximum(1, 3000 // np.arange(1, 301))


@pytest.fixture(scope="module")
def found() -> Audit:
    return audit(COUNTS, weights="none", hits="keep", m=255)


def test_lines_fit(found: Audit) -> None:
    ends = Evaluation(100, (("recall@10", 0.7),), (("recall@10", 0.0123, 0.7),))
    many = replace(found, evaluation=ends, faults=tuple(replace(f, found=True) for f in found.faults))
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
        assert f"{each.overlap:.3g} {each.noise:.3f}" in text
    for m, kl in found.by_m:
        assert f"{m:,} {kl:.3g}" in text
