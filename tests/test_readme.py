"""The code in the README runs as printed."""

import re
from math import exp, log
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


def shares(printed: str) -> dict[str, float]:
    """What a block prints: the share of the truth that the ten highest scores hold."""
    return {name: float(share) for name, share in re.findall(r"^(\w+): (\.?\d*\.\d+)$", printed, flags=re.MULTILINE)}


def test_exact_expectations(blocks: list[str]) -> None:
    names = run(blocks[0])
    # Nine ordered pairs of the other classes, each negative of weight 3/2: three classes for two draws.
    odds = [1.5 * (exp(a - 2) + exp(b - 2)) for a in (1, 0, -1) for b in (1, 0, -1)]
    assert names["exact"].log.item() == pytest.approx(sum(log(1 + x) for x in odds) / 9, abs=1e-13)


@pytest.mark.parametrize("block, name, reached", [(1, "towers", 0.55), (2, "sampled", 0.354)])
def test_an_example_learns(
    blocks: list[str], block: int, name: str, reached: float, capsys: pytest.CaptureFixture[str]
) -> None:
    run(blocks[block])  # alone: it imports what it needs
    share = shares(capsys.readouterr().out)
    # Half of what there is to gain at least; and what the text says, up to torch's version.
    assert share[name] - share["popularity"] > (share["truth"] - share["popularity"]) / 2
    said = f"{reached:.3f}".lstrip("0")
    assert said in README.read_text("utf-8")
    assert share[name] == pytest.approx(reached, abs=0.02)


def test_the_examples_take_log_q_off_all_logits(blocks: list[str]) -> None:
    names = run(blocks[1].split("\nscores = ")[0])  # the scores stay those of the last batch
    logits = names["scores"] - names["log_q"][names["columns"]]
    assert names["loss"].item() == pytest.approx(F.cross_entropy(logits, torch.arange(250)).item(), rel=1e-5)
    names = run(blocks[2])
    negatives, log_q = names["negatives"], names["sampler"].log_prob(names["labels"])
    assert not negatives.hits.any()
    wanted = functional.info_nce(names["positive_logits"] - log_q, names["negative_logits"] - negatives.log_q)
    assert names["loss"].item() == pytest.approx(wanted.item(), rel=1e-5)
