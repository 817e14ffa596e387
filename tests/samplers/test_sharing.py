"""A generator that workers share is named in the workers of a real DataLoader; what does not share is let be."""

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from sumexp import samplers
from sumexp.nn import SampledSoftmax
from sumexp.samplers import check_worker_generator


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


LAW = samplers.LogUniform(10**6)
LAYER = SampledSoftmax(3, 50, samplers.Uniform(50), 4, generator=seeded())


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that is given up waits for each worker as long as this, five seconds."""
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.2)


class Draws(Dataset[Tensor]):
    """Of each of four examples five negatives."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self.generator = generator

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        return LAW.sample(5, check_worker_generator(self.generator))


class Losses(Draws):
    """Of each of four examples its loss: the layer looks by itself."""

    def __getitem__(self, index: int) -> Tensor:
        return LAYER(torch.ones(1, 3), [index], generator=self.generator).detach()


def loaded(data: Draws, init: Callable[[int], None] | None = None, workers: int = 2) -> Tensor:
    loader = DataLoader(
        data,
        batch_size=1,
        num_workers=workers,
        worker_init_fn=init,
        multiprocessing_context="fork" if workers else None,
    )
    return torch.cat(list(loader))


def separate(_: int) -> None:
    of_worker().generator = samplers.worker_generator(7)


def alike(_: int) -> None:
    of_worker().generator = seeded(7)


def of_worker() -> Any:
    info = get_worker_info()
    assert info is not None
    return info.dataset


@pytest.mark.parametrize("data", [Draws, Losses])
@pytest.mark.parametrize("init", [None, alike])
def test_a_generator_of_all_workers_is_named(data: type[Draws], init: Any) -> None:
    fault = "workers 0 and 1 of a DataLoader both draw from a generator of seed 7.* by samplers.worker_generator"
    for _ in range(2):  # the second pass forks again
        with pytest.raises(ValueError, match=fault):
            loaded(data(seeded(7)), init)


def test_what_is_not_shared_is_let_be() -> None:
    first, second = (loaded(Draws(None), separate) for _ in range(2))
    assert torch.equal(first, second)  # the same seeds in the next pass are no other worker's
    assert len(first.unique()) > 15  # of 20
    assert len(loaded(Draws(None)).unique()) > 15  # the generators that torch seeds
    assert len(loaded(Draws(seeded(7)), workers=1)) == 4  # one worker has nobody to share with
    assert len(loaded(Draws(seeded(7)), workers=0)) == 4
    generator = seeded()
    assert check_worker_generator(generator) is generator


def test_each_seed_worker_and_rank_has_a_generator_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = set()
    for rank, worker, seed in product(range(16), [None, *range(16)], range(16)):
        monkeypatch.setenv("RANK", str(rank))
        info = None if worker is None else SimpleNamespace(id=worker)
        monkeypatch.setattr("sumexp.samplers._sharing.get_worker_info", lambda info=info: info)
        seeds.add(samplers.worker_generator(seed).initial_seed())
    assert len(seeds) == 16 * 17 * 16


def test_without_the_look_two_workers_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked for is there."""
    monkeypatch.setattr("tests.samplers.test_sharing.check_worker_generator", lambda generator: generator)
    first, second, third, fourth = loaded(Draws(seeded(7)))
    assert torch.equal(first, second)
    assert torch.equal(third, fourth)
