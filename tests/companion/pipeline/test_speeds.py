"""The table of speeds: which other is the fastest, and by what ratio."""

import json
from pathlib import Path

import pytest

from sumexp.companion.pipeline.speeds import NARROW, READERS, Row, _timed, compared, rows

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def shown(*found: Row) -> list[list[str]]:
    """The line above a table, its head and its rows."""
    title, _, *lines = compared(found).splitlines()
    rows = (line.replace(NARROW, " ") for line in lines if "---" not in line)
    return [[title]] + [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]


def test_the_fastest_other_and_ratios() -> None:
    memory = {"here": 2.0, "slow": 100.0, "quick": 8.0}
    row = Row("a task", "10 x 10", 3.0, {"slow": 30.0, "quick": 4.0}, floor=1.5, memory=memory)
    other = Row("a task", "20 x 10", 0.036, {"slow": 2.5, "quick": 900.0})
    assert shown(row, other) == [
        ["**a task**"],
        ["size", "time", "fastest other", "of its time", "of the floor", "of its memory"],
        ["10 x 10", "3.0 s", "quick", "0.75", "2.00", "0.25"],  # 3 / 4, 3 / 1.5, 2 / 8
        ["20 x 10", "36 ms", "slow", "0.01", "", ""],  # .036 / 2.5
    ]


def test_what_all_rows_share_and_what_is_not_known_is_in_no_column() -> None:
    assert shown(Row("a", "b", 3.0, {})) == [["**a**"], ["size", "time"], ["b", "3.0 s"]]
    found = shown(Row("a", "b", 3.0, {"one": 1e-3}, memory={"here": 1.0}))
    assert found == [["**a**, beside one"], ["size", "time", "of its time"], ["b", "3.0 s", "3,000"]]


def test_there_is_no_ratio_to_what_took_no_time() -> None:
    assert shown(Row("a", "b", 3.0, {"one": 0.0}, floor=0.0))[-1] == ["b", "3.0 s"]


def test_memory_is_told_where_it_is_more_than_a_peak_can_tell_apart() -> None:
    case = {
        "mine": {"seconds": 1.0, "bytes": 2**20},
        "large": {"seconds": 2.0, "bytes": 2**20 + 1},
        "unknown": {"seconds": 3.0},
        "absent": None,
    }
    assert _timed(case, "mine", ["large", "unknown", "absent"]) == {
        "here": 1.0,
        "others": {"large": 2.0, "unknown": 3.0},
        "memory": {"large": 2**20 + 1},
    }
    assert _timed(case, "large", [])["memory"] == {"here": 2**20 + 1}


@pytest.mark.parametrize(
    "here, other, time, ratio",
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
def test_numbers_without_exponents(here: float, other: float, time: str, ratio: str) -> None:
    assert shown(Row("a", "b", here, {"one": other}))[-1] == ["b", time, ratio]


@pytest.mark.parametrize("name", READERS)
def test_every_result_is_read(name: str) -> None:
    file = RESULTS / f"{name}.json"
    found = rows({name: json.loads(file.read_text("utf-8"))})
    assert found
    assert all(row.here > 0 and all(seconds > 0 for seconds in row.others.values()) for row in found)
    assert any(row.others for row in found)


def test_a_row_of_the_committed_results() -> None:
    """The step over ten million labels, TensorFlow's beside it."""
    results = json.loads((RESULTS / "retrieval.json").read_text("utf-8"))
    step = results["steps"][-1]
    row = rows({"retrieval": results})[-1]
    assert row.here == step["uniform"]["seconds"]
    assert row.others == {"TensorFlow's sampled softmax": step["tensorflow"]["seconds"]}
    assert row.floor == step["uniform"]["moved"] / results["bandwidth"]


def test_the_page_names_all_where_something_else_is_faster() -> None:
    results = {name: json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in READERS}
    slower = {row.task for row in rows(results) if row.here > 1.1 * min(row.others.values(), default=float("inf"))}
    assert slower == {"The expected loss and its variance, exactly", "A training step, sampled", "Ranks of all items"}


def measured(task: str) -> list[Row]:
    """The rows of a task, by the committed results."""
    results = {name: json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in READERS}
    return [row for row in rows(results) if row.task.startswith(task)]


def fastest(row: Row) -> tuple[str, float]:
    """The name of the fastest other, and our time over its."""
    name = min(row.others, key=row.others.__getitem__)
    return name, row.here / row.others[name]


def says(*sentences: str) -> None:
    """See that the page has these words."""
    page = (RESULTS.parents[1] / "book" / "speed.md").read_text("utf-8")
    assert [one for one in sentences if one not in page] == []


def test_the_page_says_where_monte_carlo_is_faster() -> None:
    says("Monte Carlo, to three digits of the mean, takes less time at a hundred million classes")
    found = {row.size: fastest(row) for row in measured("The expected loss")}
    assert [size for size, (_, ratio) in found.items() if ratio > 1] == ["100,000,000 classes"]
    assert found["100,000,000 classes"][0] == "Monte Carlo, to 0.001"


def test_the_page_says_where_the_full_softmax_is_faster() -> None:
    says("A sampled step over a thousand classes", "sampling pays from about ten thousand classes")
    found = {row.size: fastest(row) for row in measured("A training step, sampled")}
    assert [size for size, (_, ratio) in found.items() if ratio > 1] == ["1,000 classes"]
    assert found["1,000 classes"][0].startswith("F.cross_entropy")  # the full softmax
    assert "10,000 classes" in found


def test_the_page_says_what_takes_less_than_a_sort() -> None:
    says("The rank of one item, and the metrics that need no more, take less than a sort.")
    sorts = {row.size: row.others["numpy.argsort"] for row in measured("Ranks of all items")}
    assert all(fastest(row)[1] > 1 for row in measured("Ranks of all items"))
    metrics = measured("Ranking: ")
    assert {row.size for row in metrics} == set(sorts)
    assert all(row.here < sorts[row.size] for row in metrics)


def test_in_all_other_rows_no_other_is_faster_by_more_than_a_tenth() -> None:
    says("In all other rows no other is faster by more than a tenth.")
    named = (("The expected loss", "100,000,000"), ("A training step, sampled", "1,000 "), ("Ranks of all items", ""))
    others = [
        row for row in measured("") if not any(row.task.startswith(t) and row.size.startswith(s) for t, s in named)
    ]
    assert max(fastest(row)[1] for row in others if row.others) < 1.1
