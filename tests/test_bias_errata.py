"""The code on the errata page runs as printed."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "book" / "errata" / "bias.md"
TEXT = PAGE.read_text("utf-8")
HEAD, *SECTIONS = re.split(r"^\(erratum-(b\d+)\)=$", TEXT, flags=re.MULTILINE)
BY_LABEL = dict(zip(SECTIONS[::2], SECTIONS[1::2], strict=True))


def code(text: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))


def test_every_erratum_has_its_section() -> None:
    assert list(BY_LABEL) == [f"b{i}" for i in range(1, 16)]


@pytest.mark.parametrize("label", BY_LABEL)
def test_code_of_a_section_runs(label: str) -> None:
    text = code(BY_LABEL[label])
    assert "assert" in text or label == "b11"  # misprints of indices have nothing to run
    exec(compile(code(HEAD) + "\n" + text, f"{PAGE.name}#{label}", "exec"), {})


def test_the_spike_among_negatives_that_sum_to_one_has_a_quarter_of_the_variance() -> None:
    from fractions import Fraction

    from sumexp.bias import estimators

    schedule = estimators.dyadic(1024, 1.0)
    _, alone = estimators.two_valued_moments(schedule, 10**6, Fraction(1, 10**9), 1)
    _, among = estimators.two_valued_moments(schedule, 10**6, Fraction(1, 1024), 1)
    assert float(among / alone) == pytest.approx(1 / 4, abs=0.005)  # F^2 = (1/2)^2
