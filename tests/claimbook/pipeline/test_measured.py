"""Tables of what was measured: which other is the fastest, by what ratio, and how cells are shown."""

from typing import Any

from benchmarks.measure import row
from claimbook.pipeline.measured import NARROW, SPACE, slower, text


def compared(seconds: float, others: dict[str, Any], size: str = "b", **more: Any) -> dict[str, Any]:
    """A row of a task that others do; others are seconds, or seconds and bytes."""
    timings = {name: value if isinstance(value, dict) else {"seconds": value} for name, value in others.items()}
    return {"size": size, "seconds": seconds, "others": timings, **more}


def shown(*rows: dict[str, Any], title: str = "a") -> list[list[str]]:
    """The line above a table, its head and its rows."""
    first, _, *lines = text([{"tables": {title: rows}}]).splitlines()
    cells = (line.replace(NARROW, " ").replace(SPACE, " ") for line in lines if "---" not in line)
    return [[first]] + [[cell.strip() for cell in line.split("|")[1:-1]] for line in cells if line]


def test_the_fastest_other_and_ratios() -> None:
    others = {"slow": {"seconds": 30.0, "bytes": 100}, "quick": {"seconds": 4.0, "bytes": 8}}
    first = compared(3.0, others, "10 × 10", floor=1.5, bytes=2)
    second = compared(0.036, {"slow": 2.5, "quick": 900.0}, "20 × 10")
    assert shown(first, second, title="a task") == [
        ["**a task**"],
        ["size", "time", "fastest other", "ours / best other", "ours / lower bound", "memory: ours / other"],
        ["10 × 10", "3.0 s", "quick", "0.75", "2.0", "0.25"],  # 3 / 4, 3 / 1.5, 2 / 8
        ["20 × 10", "36 ms", "slow", "0.014", "", ""],  # .036 / 2.5
    ]
    assert f"10{SPACE}×{SPACE}10" in text([{"tables": {"a task": [first]}}])


def test_memory_is_told_where_it_is_more_than_a_peak_can_tell_apart() -> None:
    ours, large = {"seconds": 1.0, "bytes": 2**20, "setup": 3.0}, {"seconds": 2.0, "bytes": 2**20 + 1}
    assert row("a size", ours, {"large": large, "unknown": {"seconds": 3.0}, "absent": None}) == {
        "size": "a size",
        "seconds": 1.0,
        "others": {"large": large, "unknown": {"seconds": 3.0}},
    }
    assert row("a size", large, {}, 0.5) == {"size": "a size", **large, "floor": 0.5, "others": {}}


def test_rows_in_which_another_is_faster() -> None:
    rows = [compared(1.1, {"one": 1.0}), compared(1.2, {"one": 1.0, "two": 1.5}, "c"), compared(2.0, {})]
    file = {"tables": {"a task": rows, "another": [compared(3.0, {"two": 2.0})]}}
    assert slower([file]).splitlines()[2:] == ["| a task | c | one | 1.2 |", "| another | b | two | 1.5 |"]
    assert slower([{"tables": {"a task": rows[:1]}}]) == ""
