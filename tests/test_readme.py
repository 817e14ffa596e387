"""The code in the README runs as printed."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from sumexp import functional

README = Path(__file__).parent.parent / "README.md"


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(found) == 3
    return [str(block) for block in found]


def run(*blocks: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(compile("\n".join(blocks), README.name, "exec"), names)
    return names


def test_the_python_code_runs(blocks: list[str]) -> None:
    names = run(blocks[0], blocks[2])
    # The training snippet is the scheme that the chapter on negatives recommends: log q off all logits, hits kept.
    negatives, log_q = names["negatives"], names["sampler"].log_prob(names["labels"])
    assert not negatives.hits.any()
    wanted = functional.info_nce(names["positive_logits"] - log_q, names["negative_logits"] - negatives.log_q)
    assert names["loss"].item() == pytest.approx(wanted.item(), rel=1e-5)


def test_two_towers_in_twenty_lines(blocks: list[str]) -> None:
    assert len(blocks[1].splitlines()) <= 20
    names = run(blocks[1])
    # The loss is the cross entropy of the scores less the log frequencies of the columns.
    columns = names["items"][names["batch"]]
    frequency = torch.stack([(names["items"] == item).sum() + 1 for item in range(200)]) / (5000 + 200)
    logits = names["scores"] - frequency.log()[columns]
    assert names["loss"].item() == pytest.approx(F.cross_entropy(logits, torch.arange(250)).item(), rel=1e-5)
    scores = names["user_tower"](names["users"][:100]) @ names["item_tower"].weight.T
    best = scores.topk(10).indices
    assert names["found"].item() == pytest.approx((best == names["items"][:100, None]).any(-1).double().mean().item())
