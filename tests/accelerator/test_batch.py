"""Where no number can be read, in a CUDA graph or a compiled one, the in-batch loss has the values of eager mode."""

from typing import Any

import pytest
import torch

from sumexp import _checks as checks
from sumexp import functional
from tests.accelerator.device import GPU, NAME, Device
from tests.functional.test_batch import IDS, WAYS, batch

WAYS = WAYS | {"smoothing, mask": {"label_smoothing": 0.1, "hits": "mask"}, "importance": {"correct": "importance"}}


@pytest.mark.skipif(GPU, reason="a GPU captures by itself: tests of its graphs do")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_captured_loss_reads_nothing_and_is_right(way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Own scores 1,000 and 200 below the best, whose probabilities are 0 in double and in single precision."""
    for dtype, gap in ((torch.float64, 1000.0), (torch.float32, 200.0)):
        scores, log_q = (part.to(dtype) for part in batch())
        scores[0, 4], scores[1, 5], scores[2, 3] = gap, -torch.inf, gap
        leaf = scores.clone().requires_grad_()
        with monkeypatch.context() as patched:
            patched.setattr("sumexp.functional._batch.SMALL", 0)
            wanted = functional.in_batch(leaf, IDS, log_q=log_q, **way)
        [slope] = torch.autograd.grad(wanted, leaf)
        assert gap / 4 < wanted.item() < torch.inf
        by_graph = torch.compile(lambda z, q: functional.in_batch(z, IDS, log_q=q, **way), backend="eager")
        torch.testing.assert_close(by_graph(scores, log_q), wanted, rtol=1e-6, atol=0)
        with Device() as device, monkeypatch.context() as patched:
            patched.setattr(checks, "is_captured", lambda values: values.device.type == NAME)
            there = way | ({"positives": torch.as_tensor(way["positives"]).to(NAME)} if "positives" in way else {})
            z, ids, q = scores.to(NAME).requires_grad_(), IDS.to(NAME), log_q.to(NAME)
            found = functional.in_batch(z, ids, log_q=q, **there)
            [by] = torch.autograd.grad(found, z)
            assert not device.synchronisations
            torch.testing.assert_close(found.cpu(), wanted, rtol=1e-6, atol=0)
            torch.testing.assert_close(by.cpu(), slope, rtol=1e-5, atol=1e-6)
