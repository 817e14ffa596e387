"""Streamed log q: the closed form against the recursion one example at a time, and its error against its law."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sumexp import samplers
from sumexp.nn import StreamingLogQ


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def recursion(batches: list[list[int]], classes: int, rate: float) -> list[float]:
    """The mean gap of each id, example by example."""
    mean, last, count, t = [0.0] * classes, [0] * classes, [0] * classes, 0
    for batch in batches:
        for y in batch:
            t, count[y] = t + 1, count[y] + 1
            alpha = max(rate, 1 / count[y])
            mean[y] = (1 - alpha) * mean[y] + alpha * (t - last[y])
            last[y] = t
    still_open = [t - at for at in last]
    long = [mean[y] + still_open[y] / min(max(count[y], 1), 2 / rate) for y in range(classes)]
    return [max(long[y], still_open[y] / 5) if count[y] else t for y in range(classes)]


@pytest.mark.parametrize("rate", [0.3, 0.01])
def test_a_batch_at_once_is_the_recursion_example_by_example(rate: float) -> None:
    batches = torch.randint(7, (9, 13), generator=seeded()).tolist()
    stream = StreamingLogQ(8, rate=rate)  # class 7 never comes
    for batch in batches:
        stream.update(batch)
    wanted = [-math.log(gap) for gap in recursion(batches, 8, rate)]
    assert stream(range(8)).tolist() == pytest.approx(wanted, rel=1e-12)


def test_by_hand() -> None:
    stream = StreamingLogQ(3, rate=0.5)
    stream.update([0, 1, 0])
    stream.update([0])
    # Class 0 at 1, 3, 4: gaps 1, 2, 1 with alpha 1, 1/2, 1/2; class 1 at 2 of 4; class 2 not in 4.
    assert stream.log_prob([0, 1, 2]).exp().tolist() == pytest.approx([1 / (((1 + 2) / 2 + 1) / 2), 1 / 4, 1 / 4])
    counts = StreamingLogQ(3, kind="count", rate=0.5)
    counts.update([0, 1, 0])
    # Weights 1/4, 1/2, 1 of sum 7/4; what is below one occurrence counts as one.
    assert counts([0, 1, 2]).exp().tolist() == pytest.approx([(1 / 4 + 1) / (7 / 4), 1 / (7 / 4), 1 / (7 / 4)])
    counts.update([0, 1])  # by two more examples: 1/16, 1/8, 1/4, 1/2, 1
    assert counts([0, 1]).exp().tolist() == pytest.approx([1 / (31 / 16), (1 / 8 + 1) / (31 / 16)])


def test_up_to_one_over_the_rate_occurrences_gaps_are_frequencies() -> None:
    """n/t for every n up to 1/rate = 100, but where an open gap of more than 5/n of the stream says less."""
    stream, drawn = StreamingLogQ(2000), samplers.LogUniform(2000).sample(20_000, seeded(6))
    for batch in drawn.split(500):
        stream.update(batch)
    number = drawn.bincount(minlength=2000).double()
    last = torch.zeros(2000, dtype=torch.int64).scatter_reduce_(0, drawn, torch.arange(1, 20_001), "amax")
    few = (number > 0) & (number <= 100)
    bound = torch.minimum(number / 20_000, 5 / (20_000 - last))[few]
    torch.testing.assert_close(stream(range(2000))[few].exp(), bound, rtol=1e-12, atol=0)
    assert (number[few] == 1).sum() > 100


def test_an_id_that_never_comes_again_does_not_keep_its_q() -> None:
    """By hand: 400 occurrences in a row have a mean gap of 1; then 1/q is 1 + g/200, or g/5 once that is more."""
    stream = StreamingLogQ(2)
    stream.update([0] * 400)
    for number, q in ((4, 1 / 1.02), (996, 5 / 1000), (999_000, 5 / 10**6)):
        stream.update(torch.ones(number, dtype=torch.int64))
        assert stream([0]).exp().item() == pytest.approx(q, rel=1e-12)


def test_fading_counts_have_a_floor() -> None:
    """100 ids of q = rate/10 = 10^-5 among others, for 20/rate examples: log q is at least log(rate), 2.3 nats too
    high; in the mean of 100 ids up to .05 more, with a standard error of .003."""
    stream, source = StreamingLogQ(101, kind="count", rate=1e-4), seeded(7)
    for _ in range(20):
        stream.update(torch.randint(100_000, (10_000,), generator=source).clamp_max(100))
    off = stream(range(100)) - math.log(1e-5)
    assert off.min().item() >= math.log(10) - 1e-6
    assert off.mean().item() == pytest.approx(2.33, abs=0.03)


def test_gaps_cost_less_where_a_law_stays_and_counts_where_it_turns() -> None:
    """1,000 ids by a log-uniform law, then by its mirror, 10^5 examples each: log E e^d - E d nats for an error d.

    The seed is fixed; the costs are .006 and .022, then .089 and .021, and other seeds move them by some per cent.
    """
    law, source, ids = samplers.LogUniform(1000), seeded(5), torch.arange(1000)
    streams = {"gap": StreamingLogQ(1000), "count": StreamingLogQ(1000, kind="count", rate=1e-4)}
    for turned in (False, True):
        log_q, cost = law.log_prob(999 - ids if turned else ids), {}
        for _ in range(100):
            drawn = law.sample(1000, source)
            for stream in streams.values():
                stream.update(999 - drawn if turned else drawn)
        for kind, stream in streams.items():
            off = stream(ids) - log_q
            cost[kind] = float(torch.logsumexp(log_q + off, 0) - log_q.exp() @ off)
        worse, better = ("gap", "count") if turned else ("count", "gap")
        assert cost[better] < 0.5 * cost[worse]


@pytest.mark.parametrize("kind", ["gap", "count"])
def test_what_is_not_known_yet_counts_as_seen_once(kind: Any) -> None:
    stream = StreamingLogQ(3, kind=kind)
    assert stream([0, 1, 2]).tolist() == [0, 0, 0]  # log(1/1): before the first example as if one had come
    stream.update([1])
    assert stream([0, 1, 2]).tolist() == pytest.approx([0, 0, 0], abs=1e-15)
    stream.update([1])
    gaps, counts = [-math.log(2), 0], [-math.log(2 - 1e-5), math.log(1)]
    assert stream([0, 1]).tolist() == pytest.approx(gaps if kind == "gap" else counts)


def test_the_error_of_gaps_is_sqrt_of_half_the_rate_for_frequent_and_rare() -> None:
    """Each of 60 classes came 500 times at least, so that log q has the variance rate / 2 = 1/100 up to 4 %; the mean
    of 30 squares has a standard error of 26 % of that (of a chi-square with 30), and 5 of them are allowed: false alarm
    below 1e-4 for the upper end of so skew a law."""
    law = samplers.LogUniform(60)
    stream = StreamingLogQ(60, rate=0.02)
    source = seeded(1)
    for _ in range(150):
        stream.update(law.sample(1000, source))
    off = stream(range(60)) - law.log_prob(range(60))
    for part in (off[:30], off[30:]):
        assert 0.3 / 100 < part.square().mean().item() < 2.3 / 100


def test_the_error_of_counts_falls_with_the_expected_count() -> None:
    """Fading counts of the last 1/rate = 10^4 examples: variance rate / (2 q), less what sums to one; the mean of 30
    squares over their variances has a standard error of .26: false alarm below 1e-4."""
    law = samplers.LogUniform(60)
    stream = StreamingLogQ(60, kind="count", rate=1e-4)
    source = seeded(2)
    for _ in range(60):
        stream.update(law.sample(1000, source))
    log_q = law.log_prob(range(60))
    off = (stream(range(60)) - log_q) / (1e-4 / (2 * log_q.exp())).sqrt()
    for part in (off[:30], off[30:]):
        assert 0.2 < part.square().mean().item() < 2.3


@pytest.mark.parametrize("kind", ["gap", "count"])
def test_a_law_that_changes_is_followed(kind: Any) -> None:
    rate = 0.05 if kind == "gap" else 1e-3
    stream = StreamingLogQ(4, kind=kind, rate=rate)
    source = seeded(3)
    for q in ([0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]):
        law = samplers.Categorical(q)
        for _ in range(20):
            stream.update(law.sample(1000, source))
        # Five standard deviations: sqrt(.05/2) = .16 of gaps, sqrt(.001/.2) = .07 of counts.
        assert (stream(range(4)) - law.log_prob(range(4))).abs().max().item() < 5 * 0.16


@pytest.mark.parametrize("kind", ["gap", "count"])
def test_hashing_makes_ids_look_more_frequent_and_depth_less_so(kind: Any) -> None:
    law, batches = samplers.LogUniform(2000), []
    source = seeded(4)
    batches = [law.sample(1000, source) for _ in range(20)]
    seen = torch.cat(batches).unique()  # type: ignore[no-untyped-call]
    excess = {}
    exact = StreamingLogQ(2000, kind=kind, rate=0.01 if kind == "gap" else 1e-5)
    for depth in (1, 4):
        stream = StreamingLogQ(2000, width=500, depth=depth, kind=kind, rate=exact.rate, generator=seeded())
        assert stream.mean.numel() == 500 * depth  # bounded, whatever the ids
        for batch in batches:
            stream.update(batch)
            if depth == 1:
                exact.update(batch)
        excess[depth] = (stream(seen) - exact(seen)).mean().item()
        if kind == "count":
            assert (stream(seen) >= exact(seen) - 1e-12).all()
    assert 0 < excess[4] < excess[1] / 1.5


def test_ids_in_a_row_share_slots_as_often_as_chance_has_it_for_every_draw_of_the_hash_functions() -> None:
    """10,000 ids in 10,000 slots, twice: 1 - 1/e of them share a slot in one table, the square of that in both, with a
    standard deviation of .005 for slots drawn at random: six of them are allowed."""
    wanted = (1 - math.exp(-1)) ** 2
    for seed in range(20):
        stream = StreamingLogQ(10_000, width=10_000, depth=2, generator=seeded(seed))
        slots = stream._slots(torch.arange(10_000))
        shares = [table.bincount(minlength=20_000)[table] > 1 for table in slots]
        assert (shares[0] & shares[1]).double().mean().item() == pytest.approx(wanted, abs=0.03)


@pytest.mark.parametrize("options", [{}, {"kind": "count"}, {"width": 5}])
def test_it_goes_on_from_what_was_saved(options: dict[str, Any]) -> None:
    first, batch = StreamingLogQ(9, generator=seeded(), **options), torch.randint(9, (40,), generator=seeded())
    first.update(batch[:20])
    second = StreamingLogQ(9, generator=seeded(7), **options)
    second.load_state_dict(first.state_dict())
    torch.nn.Sequential(first).share_memory()
    for stream in (first, second):
        stream.update(batch[20:])
    assert all(buffer.is_shared() for buffer in first.buffers())
    assert torch.equal(first(range(9)), second(range(9)))
    assert "slots=" in repr(first)
    wanted = second(range(9))
    for change in SURVIVED.values():
        torch.testing.assert_close(change(copy.deepcopy(first))(range(9)), wanted, rtol=1e-12, atol=0)
    with pytest.raises(ValueError, match=r"mean is torch\.float32: counts that were rounded are lost; save float64"):
        second.load_state_dict({name: value.float() for name, value in first.state_dict().items()})


def averaged(stream: StreamingLogQ, **options: Any) -> StreamingLogQ:
    model = torch.nn.Sequential(stream, torch.nn.Linear(2, 2))
    copied = AveragedModel(model, **options)
    for _ in range(4):
        copied.update_parameters(model)
    return cast(StreamingLogQ, copied.module[0])


SURVIVED: dict[str, Callable[[StreamingLogQ], StreamingLogQ]] = {
    "half": lambda stream: stream.half(),
    "bfloat16 and back": lambda stream: stream.to(torch.bfloat16).double(),
    "averaged": lambda stream: averaged(stream, use_buffers=True),
    "averaged, weights alone": averaged,
    "EMA": lambda stream: averaged(stream, use_buffers=True, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
    "EMA, written": lambda stream: averaged(stream, use_buffers=True, avg_fn=lambda a, b, _: 0.3 * a + 0.7 * b),
    "meta and back": lambda stream: cast(StreamingLogQ, stream.to("meta").to_empty(device="cpu")),
}


class Counted(torch.nn.Module):
    """A model that counts the ids of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.stream = StreamingLogQ(1000)

    def forward(self, ids: Tensor) -> Tensor:
        self.stream.update(ids)
        return self.scale * self.stream(ids).mean()


def count(rank: int, folder: str) -> None:
    """Each of two processes has its half of the classes, 64 of them in a batch, or 32 in each third of one."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model = DistributedDataParallel(Counted())
    for batch in range(120):
        size = 32 if rank and batch % 3 == 0 else 64
        model(torch.arange(size) + 500 * rank).backward()
    torch.save((model.module.stream(range(1000)), model.module.stream.step), f"{folder}/{rank}")
    dist.destroy_process_group()


def test_processes_count_the_batches_of_all(tmp_path: Path) -> None:
    """One process that counts the batches of both, one after the other, has the same estimates."""
    mp.start_processes(count, (str(tmp_path),), nprocs=2, start_method="forkserver")
    alone = StreamingLogQ(1000)
    for batch in range(120):
        alone.update(torch.cat([torch.arange(64), torch.arange(32 if batch % 3 == 0 else 64) + 500]))
    for rank in range(2):
        estimates, step = torch.load(tmp_path / str(rank))
        assert torch.equal(estimates, alone(range(1000)))
        assert step == 120 * 64 + 80 * 64 + 40 * 32


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: StreamingLogQ(0), "classes is 0"),
        (lambda: StreamingLogQ(5, width=0), "width is 0"),
        (lambda: StreamingLogQ(5, rate=0.7), "rate is 0.7"),
        (lambda: StreamingLogQ(5, rate="fast"), "rate is 'fast'"),  # type: ignore[arg-type]
        (lambda: StreamingLogQ(5, kind="mean"), "kind is 'mean'"),  # type: ignore[arg-type]
        (lambda: StreamingLogQ(5).update([5]), "a class id is 5; the 5 classes are 0..4"),
    ],
)
def test_bad_input_is_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
