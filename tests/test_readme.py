"""The code in the README runs as printed."""

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from sumexp import functional

README = Path(__file__).parent.parent / "README.md"


TEXT = README.read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


def run(block: int) -> tuple[dict[str, Any], str]:
    """The names that a block leaves and what it prints; it runs alone."""
    names: dict[str, Any] = {}
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(BLOCKS[block], README.name, "exec"), names)
    return names, printed.getvalue()


def test_each_block_has_its_test() -> None:
    assert len(BLOCKS) == 3


def test_an_exact_expectation() -> None:
    names, _ = run(0)
    # Nine ordered pairs of the other classes, each negative of weight 3/2: three classes for two draws.
    odds = [1.5 * (exp(a - 2) + exp(b - 2)) for a in (1, 0, -1) for b in (1, 0, -1)]
    assert names["exact"].loss.item() == pytest.approx(sum(log(1 + x) for x in odds) / 9, abs=1e-13)


def test_two_towers() -> None:
    names, printed = run(1)
    learns(printed, {"towers": 0.550, "popularity": 0.488, "truth": 0.569})
    # Of the last batch: the cross entropy of the scores less the log frequencies of the columns.
    logits = names["scores"] - names["log_q"][names["columns"]]
    assert names["loss"].item() == pytest.approx(F.cross_entropy(logits, torch.arange(250)).item(), rel=1e-5)


def test_a_sampled_output() -> None:
    names, printed = run(2)
    learns(printed, {"sampled": 0.354, "popularity": 0.269, "truth": 0.389})
    # Log q off all logits, the positive's too; hits kept.
    negatives, log_q = names["negatives"], names["sampler"].log_prob(names["labels"])
    assert not negatives.hits.any()
    wanted = functional.info_nce(names["positive_logits"] - log_q, names["negative_logits"] - negatives.log_q)
    assert names["loss"].item() == pytest.approx(wanted.item(), rel=1e-5)


def learns(printed: str, stated: dict[str, float]) -> None:
    """The block prints what the text says, up to torch's version, and gains half of what there is to gain at least."""
    shares = {name: float(share) for name, share in re.findall(r"^(\w+): (\d\.\d+)$", printed, flags=re.MULTILINE)}
    assert shares == pytest.approx(stated, abs=0.02)
    assert all(f"{share:.3f}".removeprefix("0") in TEXT for share in stated.values())
    learned, popularity, truth = shares.values()
    assert learned - popularity > (truth - popularity) / 2


def test_the_milliseconds_of_a_gpu_are_those_that_were_measured() -> None:
    measured = json.loads((README.parent / "src/sumexp/measured/gpu.json").read_text("utf-8"))
    steps = {row["size"]: row for row in measured["tables"]["A training step in a CUDA graph"]}
    runs = "vae, 64 members", "longtail, all methods", "7 residual networks, bfloat16", "towers, in batch", "multilabel"
    row = next(filter(re.compile("without the graph").search, TEXT.splitlines()))
    cells = re.findall(r"\| ([\d.]+) \(([\d.]+)", row)
    for name, shown in zip(runs, cells, strict=True):
        times = 1e3 * steps[name]["seconds"], 1e3 * steps[name]["others"]["eager"]["seconds"]
        wanted = [float(f"{time:.2g}") for time in times]
        assert [float(text) for text in shown] == wanted, f"{name}: README has not what `make gpu` measured"
