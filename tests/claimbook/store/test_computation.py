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
    one = Computation("run", "task", {"b": "2", "a": "1"})
    assert one.key == sha256(b"3:run4:task1:a1:11:b1:2").hexdigest()
    assert one.key == Computation("run", "task", {"a": "1", "b": "2"}).key


@given(TEXTS, TEXTS)
def test_other_parts_are_another_key(one: dict[str, str], other: dict[str, str]) -> None:
    assert (Computation("k", "n", one).key == Computation("k", "n", other).key) is (one == other)


def test_no_two_sequences_run_together() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("", "abc"), digest("2:ab", "c")}) == 5
    assert digest("ö") == sha256("2:ö".encode()).hexdigest()


@pytest.mark.parametrize(
    "before, now, said",
    [
        ({"a": "1"}, {"a": "1"}, []),
        ({"seed": "0"}, {"seed": "1"}, ["seed: 0 -> 1"]),
        ({"a": "1"}, {"b": "2"}, ["a: gone", "b: new"]),
        ({"pins": "0" * 64}, {"pins": "f" * 64}, ["pins: 00000000... -> ffffffff..."]),
        ({"text": "x"}, {"text": "y" * 100}, [f"text: x -> {'y' * 57}..."]),
    ],
)
def test_differences_in_words(before: dict[str, str], now: dict[str, str], said: list[str]) -> None:
    assert Computation("k", "n", now).differences(Computation("k", "n", before)) == said
