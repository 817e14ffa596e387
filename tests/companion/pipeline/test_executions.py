"""What the page on executions says of builds that were killed."""

from typing import Any

from sumexp.companion.pipeline.executions import kills

KILLED: dict[str, Any] = {
    "book": {"kills": 40, "latest end, seconds": 1.26, "entries": 7},
    "grid": {"kills": 30, "latest end, seconds": 0.4, "entries": 9},
}
FULL = {"tried": True, "said so": True, "exit code": 1, "whole entries": 3}
SAID = "On a disk that held half of what it needs a grid ended with exit code 1, "


def told(**disk: Any) -> list[str]:
    return kills({**KILLED, "full disk": disk}).replace("\N{NO-BREAK SPACE}", " ").splitlines()


def test_kills_have_a_row_for_the_book_and_one_for_a_grid() -> None:
    table = told(tried=False)
    assert table[2:] == ["| the book | 40 | 1.3 s | 7 |", "| a grid of training runs | 30 | 0.4 s | 9 |"]


def test_a_full_disk_is_spoken_of_where_one_was_tried() -> None:
    table = told(tried=False)
    assert told(**FULL) == [*table, "", f"{SAID}named the full disk, and left 3 entries, all whole."]
    silent = told(**FULL | {"said so": False})
    assert silent[-1] == f"{SAID}did not name the full disk, and left 3 entries, all whole."
