"""The page on speed: what it says in words is so by the committed results."""

import json
import re
from itertools import chain
from pathlib import Path

from claimbook.pipeline.measured import EQUAL, OF_TIME, cells, slower

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book" / "speed.md").read_text("utf-8")
*SHOWN, NAMES = [line.split() for line in re.findall(r"\{measured\} (.*)", PAGE)]
FILES = [json.loads((ROOT / f"src/sumexp/measured/{name}.json").read_text("utf-8")) for name in NAMES]
TABLES = {title: rows for file in FILES for title, rows in file["tables"].items() if "others" in rows[0]}


def test_every_task_is_held_against_others() -> None:
    assert {*chain(*SHOWN)} == set(NAMES)
    for rows in TABLES.values():
        assert all(row["seconds"] > 0 and all(peer["seconds"] > 0 for peer in row["others"].values()) for row in rows)
        assert any(row["others"] for row in rows)


def test_the_page_explains_all_where_something_else_is_faster() -> None:
    explained = re.findall(r"^(.*)\n: ", PAGE, re.MULTILINE)
    named = {line.split(" | ")[0].removeprefix("| ") for line in slower(FILES).splitlines()[2:]}
    assert named == set(explained)


def test_it_is_faster_over_the_most_classes_and_over_the_fewest() -> None:
    exact = ("The expected loss and its variance, exactly", -1, "Monte Carlo, to 0.001")
    for title, place, name in (exact, ("A training step, sampled", 0, "F.cross_entropy")):
        rows = [cells(row) for row in TABLES[title]]
        assert [row for row in rows if row[OF_TIME] > 1] == [rows[place]]
        assert rows[place]["fastest other"].startswith(name)


def test_losses_of_a_batch_are_slower_for_small_batches_alone() -> None:
    titles = [title for title in TABLES if title.startswith(("In-batch loss", "InfoNCE"))]
    assert len(titles) == 4
    rows = {title: [*map(cells, TABLES[title])] for title in titles}
    slow = {row["size"] for each in rows.values() for row in each if "256" in row["size"] and row[OF_TIME] > EQUAL}
    assert len(slow) == 6  # a matrix, and five options
    for title, each in rows.items():
        most = 1.25 if title.endswith("with options") else EQUAL
        assert all(row[OF_TIME] <= most for row in each if row["size"] not in slow)


def test_metrics_take_less_than_a_sort() -> None:
    sorts = {row["size"]: row["others"]["numpy.argsort"]["seconds"] for row in TABLES["Ranks of all items"]}
    metrics = [row for title, rows in TABLES.items() if title.startswith("Ranking: ") for row in rows]
    assert {row["size"] for row in metrics} == set(sorts)
    assert all(row["seconds"] < sorts[row["size"]] for row in metrics)


def test_what_two_towers_find_is_what_the_page_says() -> None:
    for seed in json.loads((ROOT / "src/sumexp/measured/catalogue.json").read_text("utf-8"))["seeds"]:
        recall = {name: metrics["held recall"] for name, metrics in seed.items()}
        assert min(recall, key=recall.__getitem__) == "the most popular items"
        assert max(recall, key=recall.__getitem__) == "F.cross_entropy of all items"
        for way in ("", ", hits masked"):
            ours, by_hand = seed[f"in_batch{way}"], seed[f"F.cross_entropy{way}"]
            assert all(abs(ours[metric] - by_hand[metric]) < 1e-3 for metric in ours)
        divided = recall["SampledSoftmax"], recall["F.cross_entropy of draws, number / T"]
        assert max(divided) < recall["F.cross_entropy of draws"]
