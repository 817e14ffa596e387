"""Keys, and what differs between two computations."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimbook.store import Computation
from claimbook.store.computation import digest

SHORT = st.text("12:ab", max_size=3)  # in which lengths and texts can be mistaken for one another
TEXTS = st.dictionaries(SHORT, SHORT, max_size=4)


def test_the_key_is_of_kind_name_and_parts() -> None:
    computation = Computation("run", "task", {"b": "2", "a": "1"})
    assert computation.key == sha256(b"3:run4:task1:a1:11:b1:2").hexdigest()
    assert computation.key == Computation("run", "task", {"a": "1", "b": "2"}).key


@given(TEXTS, TEXTS)
def test_other_parts_are_another_key(first: dict[str, str], second: dict[str, str]) -> None:
    assert (Computation("k", "n", first).key == Computation("k", "n", second).key) is (first == second)


def test_no_two_sequences_run_together() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("", "abc"), digest("2:ab", "c")}) == 5
    assert digest("ö") == sha256("2:ö".encode()).hexdigest()


@pytest.mark.parametrize(
    "before, now, differences",
    [
        ({"a": "1"}, {"a": "1"}, []),
        ({"seed": "0"}, {"seed": "1"}, ["seed: 0 -> 1"]),
        ({"a": "1"}, {"b": "2"}, ["a: gone", "b: new"]),
        ({"pins": "0" * 64}, {"pins": "f" * 64}, ["pins: 00000000... -> ffffffff..."]),
        ({"text": "x"}, {"text": "y" * 100}, [f"text: x -> {'y' * 57}..."]),
    ],
)
def test_differences_in_words(before: dict[str, str], now: dict[str, str], differences: list[str]) -> None:
    assert Computation("k", "n", now).differences(Computation("k", "n", before)) == differences
