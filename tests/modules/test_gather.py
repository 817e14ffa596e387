"""In-batch negatives over processes: loss and gradients are those of one process on the joined batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from sumexp import losses
from sumexp.modules import gathered, gathered_in_batch

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"hits": "mask"},
    {"correct": "negatives", "temperature": 0.5},
    {"correct": "none"},
)


class Towers(nn.Module):
    """Two linear towers and the loss of their products."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.left, self.right = (
            nn.Parameter(torch.randn(5, 3, generator=generator, dtype=torch.float64)) for _ in range(2)
        )

    def forward(self, x: Tensor, z: Tensor, ids: Tensor, log_q: Tensor, way: dict[str, Any]) -> Tensor:
        return gathered_in_batch(x @ self.left, z @ self.right, ids, log_q=log_q, **way)


def joined() -> tuple[Tensor, ...]:
    """Eight examples, whose classes stand in the batches of several processes."""
    generator = torch.Generator().manual_seed(1)
    x, z = (torch.randn(8, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    ids = torch.tensor([0, 1, 0, 2, 1, 0, 3, 3])
    return x, z, ids, torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log()[ids]


def process(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    mine = [part.chunk(world)[rank] for part in joined()]
    found = []
    for way in WAYS:
        model = nn.parallel.DistributedDataParallel(Towers())
        loss = model(*mine, way)
        loss.backward()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        found.append((mean / world, model.module.left.grad, model.module.right.grad))
    message = ""
    try:
        gathered(torch.zeros(1 + rank, 2))
    except ValueError as error:
        message = str(error)
    torch.save((found, message), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("world", [2, 4])
def test_gradients_are_those_of_one_process_on_the_joined_batch(world: int, tmp_path: Path) -> None:
    # One server imports torch, and its forks need not: a spawned process would each.
    torch.multiprocessing.set_forkserver_preload([__name__])
    torch.multiprocessing.start_processes(  # type: ignore[no-untyped-call]
        process, (world, str(tmp_path)), nprocs=world, start_method="forkserver"
    )
    x, z, ids, log_q = joined()
    for rank in range(world):
        found, message = torch.load(tmp_path / f"{rank}.pt")
        for way, (value, left, right) in zip(WAYS, found, strict=True):
            model = Towers()
            wanted = losses.in_batch((x @ model.left) @ (z @ model.right).T, ids, log_q=log_q, **way)
            wanted.backward()  # type: ignore[no-untyped-call]
            assert value.item() == pytest.approx(wanted.item(), rel=1e-13)
            torch.testing.assert_close(left, model.left.grad, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(right, model.right.grad, rtol=1e-12, atol=1e-14)
        assert message == f"the batches of the processes have sizes {list(range(1, world + 1))}; use drop_last=True"


def test_without_other_processes_it_is_the_loss_of_the_batch() -> None:
    x, z, ids, log_q = joined()
    model = Towers()
    wanted = losses.in_batch((x @ model.left) @ (z @ model.right).T, ids, log_q=log_q)
    assert model(x, z, ids, log_q, {}).item() == pytest.approx(wanted.item(), rel=1e-14)
    with pytest.raises(ValueError, match=r"must both be \[B, d\]"):
        gathered_in_batch(x, z[:3], ids, log_q=log_q)
