"""Tables of what was measured: which other is the fastest, by what ratio, and how cells are shown."""

from typing import Any

import pytest

from benchmarks.measure import row
from sumexp.companion.pipeline.measured import NARROW, SPACE, slower, text


def compared(seconds: float, others: dict[str, Any], size: str = "b", **more: Any) -> dict[str, Any]:
    """A row of a task that others do; others are seconds, or seconds and bytes."""
    timings = {name: one if isinstance(one, dict) else {"seconds": one} for name, one in others.items()}
    return {"size": size, "seconds": seconds, "others": timings, **more}


def shown(*rows: dict[str, Any], title: str = "a") -> list[list[str]]:
    """The line above a table, its head and its rows."""
    first, _, *lines = text([{"tables": {title: rows}}]).splitlines()
    cells = (line.replace(NARROW, " ").replace(SPACE, " ") for line in lines if "---" not in line)
    return [[first]] + [[cell.strip() for cell in line.split("|")[1:-1]] for line in cells if line]


def test_the_fastest_other_and_ratios() -> None:
    others = {"slow": {"seconds": 30.0, "bytes": 100}, "quick": {"seconds": 4.0, "bytes": 8}}
    one = compared(3.0, others, "10 × 10", floor=1.5, bytes=2)
    other = compared(0.036, {"slow": 2.5, "quick": 900.0}, "20 × 10")
    assert shown(one, other, title="a task") == [
        ["**a task**"],
        ["size", "time", "fastest other", "of its time", "of the floor", "of its memory"],
        ["10 × 10", "3.0 s", "quick", "0.75", "2.00", "0.25"],  # 3 / 4, 3 / 1.5, 2 / 8
        ["20 × 10", "36 ms", "slow", "0.01", "", ""],  # .036 / 2.5
    ]
    assert f"10{SPACE}×{SPACE}10" in text([{"tables": {"a task": [one]}}])


def test_what_all_rows_share_and_what_is_not_known_is_in_no_column() -> None:
    assert shown(compared(3.0, {})) == [["**a**"], ["size", "time"], ["b", "3.0 s"]]
    found = shown(compared(3.0, {"one": 1e-3}, bytes=1))
    assert found == [["**a**, compared with one"], ["size", "time", "of its time"], ["b", "3.0 s", "3,000"]]


def test_there_is_no_ratio_to_what_took_no_time() -> None:
    assert shown(compared(3.0, {"one": 0.0}, floor=0.0))[-1] == ["b", "3.0 s"]


def test_memory_is_told_where_it_is_more_than_a_peak_can_tell_apart() -> None:
    ours, large = {"seconds": 1.0, "bytes": 2**20, "setup": 3.0}, {"seconds": 2.0, "bytes": 2**20 + 1}
    assert row("a size", ours, {"large": large, "unknown": {"seconds": 3.0}, "absent": None}) == {
        "size": "a size",
        "seconds": 1.0,
        "others": {"large": large, "unknown": {"seconds": 3.0}},
    }
    assert row("a size", large, {}, 0.5) == {"size": "a size", **large, "floor": 0.5, "others": {}}


@pytest.mark.parametrize(
    "ours, other, time, ratio",
    [
        (0.0097, 0.97, "9.7 ms", "0.01"),
        (0.00996, 1.0, "10 ms", "1/100"),
        (3.2e-4, 8.0, "320 µs", "1/25,000"),
        (1.5e-9, 1.0, "1.5 ns", "1/670,000,000"),
        (1234.0, 12.34, "1,200 s", "100"),
        (9.994, 1.0, "10 s", "9.99"),
        (97.99, 1.0, "98 s", "98.0"),
    ],
)
def test_numbers_without_exponents(ours: float, other: float, time: str, ratio: str) -> None:
    assert shown(compared(ours, {"one": other}))[-1] == ["b", time, ratio]


def test_rows_in_which_another_is_faster() -> None:
    rows = [compared(1.1, {"one": 1.0}), compared(1.2, {"one": 1.0, "two": 1.5}, "c"), compared(2.0, {})]
    file = {"tables": {"a task": rows, "another": [compared(3.0, {"two": 2.0})]}}
    assert slower([file]).splitlines()[2:] == ["| a task | c | one | 1.20 |", "| another | b | two | 1.50 |"]
    assert slower([{"tables": {"a task": rows[:1]}}]) == ""


def test_cells_of_all_kinds_and_numbers_flush_right() -> None:
    cells = {
        "notebook": "vae",
        "wall": 12.34,
        "peak memory": 300 * 2**20,
        "finished (UTC)": "2026-01-02T03:04:05+00:00",
    }
    more = {"key": "0123456789abcdef", "waits": 1560, "asked": {"seed": 0, "of": ""}, "data": [], "note": None}
    head, sides, line = text([{"tables": {"a": [cells | more]}}], "a").replace(SPACE, " ").splitlines()
    assert head == "| notebook | wall | peak memory | finished (UTC) | key | waits | asked | data |"
    assert sides == "| --- | ---: | ---: | --- | --- | ---: | --- | --- |"
    assert line == (
        "| [vae](../notebooks/vae) | 12.3 s | 300 MiB | 2026-01-02 03:04 | 0123456789ab | 1,560 | seed = 0, of = none "
        "| none |"
    )


def test_one_table_is_picked_and_the_machine_and_a_note_stand_around_it() -> None:
    machine = {"cores": 2, "cpu": "a kind", "torch": "2.0"}
    file = {"machine": machine, "tables": {"a": [{"kills": 1}], "b": [{"kills": 2}]}, "note": "It was full."}
    said = "Measured on 2 cores (a kind) with torch 2.0.\n\n"
    assert text([file], "b") == f"{said}| kills |\n| ---: |\n| 2 |\n\n\nIt was full."
    assert text([{"tables": {"a": []}}], "a") == ""
