"""In-batch negatives over processes: loss, gradients and training are those of one process on the joined batch."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from sumexp import functional
from sumexp.functional import cached, distributed_in_batch, gathered
from sumexp.nn import InBatchSoftmax

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"hits": "mask"},
    {"correct": "negatives", "temperature": 0.5},
    {"correct": "none"},
    {"symmetric": True},
    {"symmetric": True, "hits": "mask", "row_ids": True, "row_log_q": True},
    {"symmetric": True, "temperature": "by row", "correct": "importance"},
)
FEATURES, CLASSES, BATCH, STEPS = 5, 12, 8, 20


class Towers(nn.Module):
    """Two linear towers and the loss of their products."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.left, self.right = (
            nn.Parameter(torch.randn(5, 3, generator=generator, dtype=torch.float64)) for _ in range(2)
        )

    def forward(self, x: Tensor, z: Tensor, ids: Tensor, log_q: Tensor, way: dict[str, Any]) -> Tensor:
        return distributed_in_batch(x @ self.left, z @ self.right, ids, log_q=log_q, **way)


def joined() -> tuple[Tensor, ...]:
    """Eight examples, whose classes stand in the batches of several processes."""
    generator = torch.Generator().manual_seed(1)
    x, z = (torch.randn(8, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    ids = torch.tensor([0, 1, 0, 2, 1, 0, 3, 3])
    return x, z, ids, torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log()[ids]


def of_rows(way: dict[str, Any], part: slice) -> dict[str, Any]:
    """A way, with what it says of each row: two of the eight contexts are one and the same."""
    rows = {"row_ids": torch.arange(8) % 7, "row_log_q": torch.linspace(-3, -1, 8, dtype=torch.float64)}
    if way.get("temperature") == "by row":
        rows["temperature"] = torch.linspace(0.5, 2, 8, dtype=torch.float64)
    return {name: rows[name][part] if name in rows else value for name, value in way.items()}


class Learned(nn.Module):
    """Cached vectors, and the loss of in-batch and four further negatives to a temperature that is learned."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        self.tower = nn.Parameter(torch.randn(FEATURES, 3, generator=generator, dtype=torch.float64))
        self.vectors = nn.Parameter(torch.randn(CLASSES, 3, generator=generator, dtype=torch.float64))
        self.log_t = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor, ids: Tensor, log_q: Tensor) -> Tensor:
        left = cached(lambda rows: rows @ self.tower, x, chunk_size=1)
        return distributed_in_batch(
            left, self.vectors[ids], ids, log_q=log_q[ids], symmetric=True, temperature=self.log_t.exp()
        )


def learned(model: nn.Module, rank: int, world: int) -> list[Tensor]:
    """The weights after training on a rank's share of each batch: all of it, if there is one."""
    generator = torch.Generator().manual_seed(3)
    law = torch.softmax(torch.randn(CLASSES, generator=generator, dtype=torch.float64), 0)
    mixed = (law * (BATCH - 1) + 4 / CLASSES) / (BATCH - 1 + 4)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(STEPS):
        x = torch.randn(BATCH, FEATURES, generator=generator, dtype=torch.float64)
        labels = torch.multinomial(law, BATCH, replacement=True, generator=generator)
        further = torch.randint(CLASSES, (4,), generator=generator)
        local, ids, extra = (part.chunk(world)[rank] for part in (x, labels, further))
        optimiser.zero_grad()
        model(local, torch.cat([ids, extra]), mixed.log()).backward()
        optimiser.step()
    return [parameter.detach() for parameter in model.parameters()]


def process(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    share = slice(rank * 8 // world, (rank + 1) * 8 // world)
    results = []
    for way in WAYS:
        model = nn.parallel.DistributedDataParallel(Towers())
        loss = model(*(part[share] for part in joined()), of_rows(way, share))
        loss.backward()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        results.append((mean / world, model.module.left.grad, model.module.right.grad))
    weights = learned(nn.parallel.DistributedDataParallel(Learned()), rank, world)
    messages = []
    for size, further in ((1 + rank, 0), (2, 2 * (rank > 0))):  # then rank 0 alone has no further negatives
        items = torch.eye(size + further, 2)
        with pytest.raises(ValueError, match="the processes") as error:
            distributed_in_batch(items[:size], items, torch.arange(size + further), correct="none")
        messages.append(str(error.value))
    tempered = InBatchSoftmax(learn_temperature=True, temperature=0.25)
    fully_shard(tempered, mesh=init_device_mesh("cpu", (world,)))
    shown = repr(tempered), tempered.temperature.item()
    group = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    rows = torch.tensor([rank + 1.0], requires_grad=True)
    (slope,) = torch.autograd.grad(gathered(rows, group).pow(3).sum(), rows, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), rows)
    of_group = Towers()(*(part[share] for part in joined()), {"group": group})
    found = slope.item(), curvature.item(), of_group.item()
    torch.save((results, weights, messages, shown, found), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What each of four processes found."""
    world, folder = 4, tmp_path_factory.mktemp("ranks")
    # One server imports torch, and what its optimisers do at their first step: a spawned process would each.
    torch.multiprocessing.set_forkserver_preload([__name__, "torch._dynamo"])
    torch.multiprocessing.start_processes(  # type: ignore[no-untyped-call]
        process, (world, str(folder)), nprocs=world, start_method="forkserver"
    )
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]


def test_gradients_are_those_of_one_process_on_the_joined_batch(ranks: list[Any]) -> None:
    x, z, ids, log_q = joined()
    for results, *_ in ranks:
        for way, (value, left, right) in zip(WAYS, results, strict=True):
            model, options = Towers(), of_rows(way, slice(None))
            wanted = functional.in_batch((x @ model.left) @ (z @ model.right).T, ids, log_q=log_q, **options)
            wanted.backward()  # type: ignore[no-untyped-call]
            assert value.item() == pytest.approx(wanted.item(), rel=1e-13)
            torch.testing.assert_close(left, model.left.grad, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(right, model.right.grad, rtol=1e-12, atol=1e-14)


def test_unequal_processes_are_named_and_a_sharded_temperature_is_shown(ranks: list[Any]) -> None:
    sizes = f"the batches of the processes have sizes {[*range(1, len(ranks) + 1)]}; use drop_last=True"
    for _, _, messages, (text, temperature), *_ in ranks:
        assert messages == [sizes, "the processes have [0, 2] further negatives; give all as many"]
        assert (text.count("learn_temperature=True"), temperature) == (1, 0.25)


def test_training_over_processes_is_training_on_the_joined_batches(ranks: list[Any]) -> None:
    """Twenty steps of Adam, of in-batch, further and symmetric negatives to a learned temperature: rounding alone may
    differ, 1e-16 a sum, and 20 steps of .05 carry it to less than 1e-11."""
    start, wanted = [parameter.detach() for parameter in Learned().parameters()], learned(Learned(), 0, 1)
    assert all((a - b).abs().max() > 0.1 for a, b in zip(start, wanted, strict=True))
    for _, weights, *_ in ranks:
        torch.testing.assert_close(weights, wanted, rtol=0, atol=1e-11)


def test_a_group_of_processes_meets_alone_and_gathered_rows_have_second_derivatives(ranks: list[Any]) -> None:
    """Both of two processes have the sum of cubes of all their rows: slope 2 x 3 r^2, curvature 2 x 6 r."""
    for rank, (*_, found) in enumerate(ranks):
        x, z, ids, log_q = (part[torch.tensor([0, 1, 4, 5]) + 2 * (rank % 2)] for part in joined())
        scores = (x @ Towers().left) @ (z @ Towers().right).T
        each = functional.in_batch(scores, ids, log_q=log_q, reduction="none").view(2, 2).mean(1)
        assert list(found) == [6 * (rank + 1) ** 2, 12 * (rank + 1), pytest.approx(each[rank // 2].item(), rel=1e-13)]


def test_without_other_processes_it_is_the_loss_of_the_batch() -> None:
    x, z, ids, log_q = joined()
    model = Towers()
    wanted = functional.in_batch((x @ model.left) @ (z @ model.right).T, ids, log_q=log_q)
    assert model(x, z, ids, log_q, {}).item() == pytest.approx(wanted.item(), rel=1e-14)
    assert model(x, z, ids.numpy(), log_q.tolist(), {}).item() == pytest.approx(wanted.item(), rel=1e-14)


def test_arrays_are_no_vectors_that_learn() -> None:
    with pytest.raises(ValueError, match=r"queries must be a floating-point tensor \[B, d\], got ndarray"):
        distributed_in_batch(np.ones((2, 3)), torch.ones(2, 3), [0, 1], correct="none")  # type: ignore[arg-type]


def test_vectors_of_a_network_and_of_an_embedding_meet_under_autocast() -> None:
    x, z, ids, log_q = joined()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = distributed_in_batch(x[:, :4].bfloat16(), z[:, :4].float(), ids, log_q=log_q)
    wanted = functional.in_batch(x[:, :4] @ z[:, :4].T, ids, log_q=log_q)
    assert actual.dtype == torch.float32
    assert actual.item() == pytest.approx(wanted.item(), rel=0.02)
    with pytest.raises(ValueError, match=r"vectors are torch.bfloat16 and torch.float32: move one by .to\(\)"):
        distributed_in_batch(x.bfloat16(), z.float(), ids, log_q=log_q)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x, z, ids, log_q: (x, z[:3], ids, log_q, {}), r"must be \[B, d\] and \[B \+ E, d\]"),
        (lambda x, z, ids, log_q: (x, z, ids[:3], log_q, {}), r"ids have shape \(3,\).* each of 8 vectors"),
        (lambda x, z, ids, log_q: (x, z, ids, log_q[:3], {}), r"log_q have shape \(3,\).* each of 8 vectors"),
        (lambda *given: (*given, {"symmetric": True, "hits": "mask"}), "hits='mask' needs row_ids"),
    ],
)
def test_bad_input_is_named(change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Towers()(*change(*joined()))
