"""The stand-in itself: it computes what the CPU does, refuses what CUDA refuses, and counts what CUDA waits for."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.accelerator.standin import NAME, StandIn

ROW = [0.5, 2.0, -1.0]


def placed(values: object = ROW) -> Tensor:
    return torch.tensor(values, device=NAME)


def on_cpu(values: object = ROW) -> Tensor:
    return torch.tensor(values)


REFUSED: dict[str, Callable[[], object]] = {
    "sum": lambda: placed() + on_cpu(),
    "sum, the other way": lambda: on_cpu() + placed(),
    "in place": lambda: placed().add_(on_cpu()),
    "in place, of a number of the CPU": lambda: torch.tensor(1.0).add_(placed(1.0)),
    "out": lambda: torch.exp(placed(), out=on_cpu()),
    "stack": lambda: torch.stack([placed(), on_cpu()]),
    "stack of numbers": lambda: torch.stack([placed(1.0), on_cpu(1.0)]),
    "where": lambda: torch.where(placed() > 0, placed(), on_cpu()),
    "clamp by a number": lambda: placed().clamp(min=on_cpu(0.0)),
    "search of a number": lambda: torch.searchsorted(placed(), on_cpu(0.0)),
    "product": lambda: placed([ROW]) @ on_cpu(),
    "index of the device into the CPU": lambda: on_cpu()[placed([0])],
    "mask of the device into the CPU": lambda: on_cpu()[placed([True, False, True])],
    "values of the CPU": lambda: placed().index_put((on_cpu([0, 1]),), on_cpu([1.0, 2.0])),
    "gather": lambda: placed().gather(0, on_cpu([0])),
    "generator of the CPU": lambda: torch.rand(2, device=NAME, generator=torch.Generator()),
    "generator of the CPU, in place": lambda: placed().normal_(generator=torch.Generator()),
    "generator of the device": lambda: torch.rand(2, generator=torch.Generator(NAME)),
    "permutation": lambda: torch.randperm(3, device=NAME, generator=torch.Generator()),
    "draws": lambda: torch.multinomial(placed([0.5, 0.5]), 2, True, generator=torch.Generator()),
    "pinned": lambda: torch.empty(2, device=NAME, pin_memory=True),
    "integer product": lambda: placed([[1, 2]]) @ placed([[1], [2]]),
    "loss": lambda: torch.nn.functional.cross_entropy(placed([ROW]), on_cpu([1])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses_what_cuda_refuses(name: str) -> None:
    with StandIn(), pytest.raises(RuntimeError, match=r"device|pin|not implemented for"):
        REFUSED[name]()


def test_it_takes_numbers_of_the_cpu_where_cuda_does() -> None:
    with StandIn():
        low = placed() < 1
        for result in (torch.where(low, on_cpu(1.0), placed()), placed().masked_fill(low, on_cpu(1.0))):
            assert (result * on_cpu(2.0)).tolist() == [2.0, 4.0, 2.0]
        assert placed([1.0, 1.0]).topk(1).indices.tolist() != on_cpu([1.0, 1.0]).topk(1).indices.tolist()


def test_it_refuses_to_be_an_array() -> None:
    with StandIn():
        for convert in (lambda: placed().numpy(), lambda: np.asarray(placed()), lambda: placed().detach().numpy()):
            with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\) first"):
                convert()
        assert placed().cpu().numpy().tolist() == ROW == placed().numpy(force=True).tolist()


WAITS: dict[str, tuple[Callable[[Tensor], object], int, int]] = {
    # what is done, how often the host waits, bytes that come from the device
    "nothing": (lambda x: (x.exp() * 2).sum(), 0, 0),
    "item": (lambda x: x.sum().item(), 1, 4),
    "float": (lambda x: float(x[0]), 1, 4),
    "branch": (lambda x: 1 if bool((x > 0).all()) else 0, 1, 1),
    "cpu": (lambda x: x.cpu(), 1, 12),
    "list": (lambda x: x.tolist(), 1, 12),
    "copy": (lambda x: torch.empty(3).copy_(x), 1, 12),
    "nonzero": (lambda x: x.nonzero(), 1, 0),
    "mask": (lambda x: x[x > 0], 1, 0),
    "mask, written": (lambda x: x.index_put_((x > 0,), torch.zeros(1, device=NAME)), 1, 0),
    "where": (lambda x: torch.where(x > 0, x, 0.0), 0, 0),
    "unique": (lambda x: torch.unique(x), 1, 0),
    "repeats": (lambda x: x.repeat_interleave(torch.tensor([1, 2, 0], device=NAME)), 1, 0),
    "equal": (lambda x: torch.equal(x, x), 1, 0),
    "printed": (lambda x: f"{x.sum():.2f}", 1, 4),
}


@pytest.mark.parametrize("name", WAITS)
def test_it_counts_when_the_host_waits(name: str) -> None:
    action, waits, moved = WAITS[name]
    with StandIn():
        x = placed()
        with StandIn() as device:
            action(x)
    assert (device.synchronisations.total(), device.to_host) == (waits, moved), device.synchronisations


def test_it_counts_in_the_backward_pass() -> None:
    class Peek(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, *gradients: Tensor) -> Tensor:
            return gradients[0] * gradients[0].sum().item()

    with StandIn() as device:
        x = placed().requires_grad_()
        Peek.apply(x).sum().backward()
    assert device.synchronisations == {"aten::_local_scalar_dense": 1}
