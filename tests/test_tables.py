"""Tables that are kept between calls serve every later call, whatever surrounds the first."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from sumexp._tables import cached_table


def doubles(maxsize: int = 2) -> tuple[Callable[[int], Tensor], list[int]]:
    made = []

    @cached_table(maxsize)
    def table(size: int) -> Tensor:
        made.append(size)
        return 2 * torch.arange(size, dtype=torch.float64, device="cpu")

    return table, made


@pytest.mark.parametrize("mode", [nullcontext, torch.inference_mode, torch.no_grad, lambda: torch.device("meta")])
def test_a_table_is_made_once_and_serves_training(mode: Any) -> None:
    table, made = doubles()
    with mode():
        table(3)
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (w * table(3)).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [0, 2, 4]
    assert made == [3]


def test_no_tensor_without_values_is_kept() -> None:
    """Under ``FakeTensorMode`` and in ``torch.func`` they are of no use to later calls, and dead wrappers fail."""
    table, _ = doubles()
    with FakeTensorMode():
        assert type(table(3)) is not Tensor
    torch.func.grad(lambda x: x * table(3).sum())(torch.tensor(1.0))
    assert (table(3) + 1).tolist() == [1, 3, 5]
    assert type(table(3)) is Tensor


def test_the_oldest_table_is_dropped_and_all_can_be() -> None:
    table, made = doubles()
    for size in (1, 2, 3, 1, 1):
        table(size)
    table.cache_clear()  # type: ignore[attr-defined]
    table(1)
    assert made == [1, 2, 3, 1, 1]


def test_a_compiled_graph_has_the_table_in_it() -> None:
    table, _ = doubles()
    compiled = torch.compile(lambda x: x * table(3), fullgraph=True, backend="eager")
    assert compiled(torch.ones(3, dtype=torch.float64)).tolist() == [0, 2, 4]
    assert table(3).tolist() == [0, 2, 4]
