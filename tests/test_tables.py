"""Tables that are kept between calls serve every later call, whatever surrounds the first."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from sumexp._tables import cached_table


def doubles() -> tuple[Callable[[int], Tensor], list[int]]:
    made = []

    @cached_table(2)
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
    (gradient,) = torch.autograd.grad((w * table(3)).sum(), w)
    assert (gradient.tolist(), made) == ([0, 2, 4], [3])
    for size in (1, 2, 1):
        table(size)
    table.cache_clear()  # type: ignore[attr-defined]
    table(1)
    assert made == [3, 1, 2, 1]


def test_no_tensor_without_values_is_kept() -> None:
    table, _ = doubles()
    with FakeTensorMode():
        assert type(table(3)) is not Tensor
    torch.func.grad(lambda x: x * table(3).sum())(torch.tensor(1.0))
    compiled = torch.compile(lambda x: x * table(3), fullgraph=True, backend="eager")
    assert compiled(torch.ones(3, dtype=torch.float64)).tolist() == [0, 2, 4]
    assert type(table(3)) is Tensor
    assert table(3).tolist() == [0, 2, 4]
