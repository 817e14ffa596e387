"""The table of speeds: which other is the fastest, and by what ratio."""

import json
from pathlib import Path

import pytest

from sumexp.companion.build.speeds import READERS, Row, compared, rows

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def cells(row: Row) -> list[str]:
    return [cell.strip() for cell in compared([row]).splitlines()[4].split("|")[1:-1]]


def test_the_fastest_other_and_ratios() -> None:
    memory = {"here": 2.0, "slow": 100.0, "quick": 8.0}
    row = Row("a task", "10 x 10", 3.0, {"slow": 30.0, "quick": 4.0}, floor=1.5, memory=memory)
    assert cells(row) == ["10 x 10", "3", "quick", "0.75", "2.00", "0.25"]  # 3 / 4, 3 / 1.5, 2 / 8


def test_what_is_not_known_is_left_out() -> None:
    assert cells(Row("a", "b", 3.0, {})) == ["b", "3", "none", "", "", ""]
    assert cells(Row("a", "b", 3.0, {"one": 1e-3}, memory={"here": 1.0})) == ["b", "3", "one", "3,000", "", ""]
    assert cells(Row("a", "b", 3.0, {"one": 3e4}))[3] == "1e-04"


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
