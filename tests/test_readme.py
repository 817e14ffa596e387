"""The code in the README runs as printed."""

import re
from pathlib import Path
from typing import Any

import pytest

from sumexp import losses

README = Path(__file__).parent.parent / "README.md"


def test_the_python_code_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    exec(compile("\n".join(blocks), README.name, "exec"), names)
    # The training snippet is the scheme that the chapter on negatives recommends: log q off all logits, hits kept.
    negatives, log_q = names["negatives"], names["sampler"].log_prob(names["labels"])
    assert not negatives.hits.any()
    wanted = losses.info_nce(names["positive_logits"] - log_q, names["negative_logits"] - negatives.log_q)
    assert names["loss"].item() == pytest.approx(wanted.item(), rel=1e-5)
