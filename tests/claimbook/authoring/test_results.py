"""Numbers that the prose quotes."""

import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

from claimbook import BookError
from claimbook.authoring import results


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, str], dict[str, Any]]]:
    outputs: list[tuple[dict[str, str], dict[str, Any]]] = []
    monkeypatch.setattr(results, "display", lambda data, raw, metadata: outputs.append((data, metadata)))
    return outputs


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        *((2 / 3, ".3g", "0.667"), (-2.5e-13, ".2g", "−2.5 × 10⁻¹³"), (3e20, ".1e", "3.0 × 10²⁰")),
        *((49815, ",", "49,815"), (10**20 + 1, "d", "100000000000000000001"), (Decimal("0.125"), ".1%", "12.5%")),
        *((np.float32(0.5), ".2f", "0.50"), (np.int64(7), "d", "7"), (torch.tensor(0.25).double(), ".2f", "0.25")),
    ],
)
def test_a_number_is_printed_as_in_print_and_kept_as_it_is(shown: list[Any], value: Any, spec: str, text: str) -> None:
    results.record("share", value, spec, rtol=1e-3)
    ((data, metadata),) = shown
    assert data == {"application/papermill.record/text/plain": repr(text)}
    assert metadata["scrapbook"] == {"name": "share", "mime_prefix": "application/papermill.record/"}
    assert metadata["sumexp"] == {"result": "share", "value": value, "rtol": 1e-3}


def test_a_sentence_is_recorded_under_its_name(shown: list[Any]) -> None:
    assert results.sentence("order", "It falls to 0.3.") == "It falls to 0.3."
    ((data, metadata),) = shown
    assert list(data.values()) == ["It falls to 0.3."]
    assert metadata["sumexp"] == {"sentence": "order", "text": "It falls to 0.3."}
    assert metadata["scrapbook"]["name"] == "order"


def test_where_guarded_words_are_false_the_build_breaks(shown: list[Any]) -> None:
    with pytest.raises(BookError, match="the text says 'It rises', and in this run it is not so"):
        results.guard("It rises", holds=False)
    assert shown == []
    results.guard("It falls", holds=True)
    assert shown[0][1] == {"sumexp": {"guard": "It falls"}}


@pytest.mark.parametrize(
    ("name", "value", "spec", "rtol", "message"),
    [
        ("share", math.nan, ".3g", 0.0, "result 'share' is nan"),
        ("share", -math.inf, ".3g", 0.0, "result 'share' is -inf"),
        ("share", torch.tensor(float("nan")), ".3g", 0.0, "result 'share' is nan"),
        ("the share", 1.0, ".3g", 0.0, "result 'the share': a name is"),
        ("share", 1.0, "d", 0.0, "result 'share' is 1.0, format 'd': Unknown format code"),
        ("share", 1.0, ".3g", -0.5, "result 'share' is 1.0, rtol -0.5: both must be finite"),
    ],
)
def test_what_cannot_be_quoted_is_refused_by_name(
    shown: list[Any], name: str, value: Any, spec: str, rtol: float, message: str
) -> None:
    with pytest.raises(BookError, match=re.escape(message)):
        results.record(name, value, spec, rtol)
    assert shown == []
