"""Checkpoints: what is half done, whole or not at all."""

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
import torch

from claimbook.store import Store
from claimbook.store.checkpoints import Checkpoint

from .conftest import asked, flip, keep


def checkpoint(store: Store, number: int = 0, every: float = 0.0) -> Checkpoint:
    return Checkpoint(store, asked(number), "cpu", every)


def test_a_state_comes_back_with_the_time_it_took(store: Store) -> None:
    first = checkpoint(store)
    assert first.load() is None
    time.sleep(0.05)
    first.save({"step": 3, "weights": torch.arange(3)})
    again = checkpoint(store)
    state = again.load()
    assert state is not None
    assert (state["step"], state["weights"].tolist()) == (3, [0, 1, 2])
    assert again.meter.elapsed()[0] > 0.05
    assert [path.name for path in first.path.parent.iterdir()] == [f"{asked().key}.checkpoint"]


def test_a_finished_entry_needs_none(store: Store) -> None:
    checkpoint(store).save({"step": 1})
    keep(store, asked())
    assert not store.checkpoint(asked()).exists()
    assert store.find(asked())


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit": flip,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "something else": lambda path: torch.save([1], path),
    "code": lambda path: torch.save({"seconds": [1.0, 1.0], "state": {"step": datetime.now}}, path),
    "of another run": lambda path: path.with_name(f"{asked(1).key}.checkpoint").replace(path),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_reported_and_ignored(
    store: Store, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2):
        checkpoint(store, number).save({"step": 2, "weights": torch.arange(10_000)})  # the middle of the file
    saved = checkpoint(store)
    damage(saved.path)
    assert saved.load() is None
    assert f"the checkpoint {saved.path} is damaged" in caplog.text
    assert "starts anew" in caplog.text
    assert saved.meter.elapsed()[0] < 1
    saved.save({"step": 1})
    assert checkpoint(store).load() == {"step": 1}


def test_fast_steps_do_not_pay_for_checkpoints(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, saved = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(torch, "save", lambda state, file: saved.append(clock[0]))
    kept = checkpoint(store, every=30.0)
    for second in range(100):
        clock[0] = second
        kept.save({})
    assert saved == [30, 60, 90]


def test_on_a_full_disk_the_last_state_stays(full: Path) -> None:
    kept = checkpoint(Store(full))
    kept.save({"step": 1})
    with pytest.raises(OSError, match="No space left"):
        kept.save({"weights": torch.zeros(1 << 20)})
    assert checkpoint(Store(full)).load() == {"step": 1}
    assert [path.name for path in kept.path.parent.iterdir()] == [kept.path.name]
