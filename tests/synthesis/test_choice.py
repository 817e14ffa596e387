"""What to train with: each line of the rule, at its edge, and each bad number."""

from pathlib import Path
from typing import Any

import pytest

from sumexp.negatives.choice import choose

GIVEN: dict[str, Any] = {"classes": 1000, "batch": 100, "negatives": 50, "skew": 0.0, "memory": 10**5, "steps": 1000}


def test_all_logits_that_fit_are_taken() -> None:
    """100 x 1000 logits and their gradient in float32 are 800,000 bytes."""
    assert choose(**GIVEN | {"memory": 800_000}).use == "the full softmax"
    assert choose(**GIVEN | {"memory": 800_000}).bytes == 800_000
    choice = choose(**GIVEN | {"memory": 799_999})
    assert choice.use == "negatives sampled by class counts; subtract log q from every logit, keep accidental hits"
    assert choice.bytes == 100 * 51 * 8


def test_towers_have_the_batch_only() -> None:
    assert choose(**GIVEN | {"means": "batch", "memory": 10**9}).use.startswith("in-batch negatives; subtract log q")


def test_classes_that_are_never_negatives_need_uniform_ones() -> None:
    """1000 steps of 50 negatives: a class of frequency 1/1000 e^-skew is expected 50 e^-skew times, log 50 = 3.912."""
    assert "uniform ones" not in choose(**GIVEN | {"skew": 3.911}).use
    assert "sampled by class counts or uniform ones" in choose(**GIVEN | {"skew": 3.913}).use
    assert "in-batch negatives or uniform ones" in choose(**GIVEN | {"skew": 3.913, "means": "batch"}).use


def test_each_choice_rests_on_an_entry_of_the_register() -> None:
    entries = "\n".join(path.read_text() for path in (Path(__file__).parents[2] / "claims").glob("*.yml"))
    for given in ({"memory": 10**9}, {}, {"skew": 9.0}):
        assert f"- id: {choose(**GIVEN | given).claim}\n" in entries


@pytest.mark.parametrize(
    "given, message",
    [
        *(({"classes": 1}, "classes is 1"), ({"memory": 0}, "memory is 0"), ({"means": "all"}, "means is 'all'")),
        *(({"skew": -1.0}, "skew is -1.0"), ({"skew": float("nan")}, "skew is nan"), ({"skew": "a"}, "skew is 'a'")),
    ],
)
def test_bad_numbers(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose(**GIVEN | given)
