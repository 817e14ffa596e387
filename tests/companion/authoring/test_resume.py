"""A stack of VAEs that is cut short while it trains goes on from its checkpoint and ends with the same numbers."""

from pathlib import Path

import numpy as np
import pytest

from sumexp.companion.authoring import runs
from sumexp.companion.store import Store
from sumexp.companion.store.checkpoints import Checkpoint
from sumexp.vae import Member, Stack, train

STACK = Stack(
    members=(Member("gumbel", seed=1), Member("gaussian", divergence="exact", categories=3, seed=2)),
    variables=3,
    hidden=16,
    epochs=4,
    images=200,
    samples=2,
    importance=2,
    test_images=20,
)


def test_a_stack_that_is_cut_short_ends_with_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    saved, save, cut = [], Checkpoint.save, Store(tmp_path / "cut")

    def cut_short(checkpoint: Checkpoint, state: dict[str, object]) -> None:
        save(checkpoint, state)
        saved.append(checkpoint.path.exists())
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", cut_short)
    with pytest.raises(KeyboardInterrupt):
        runs.cached(train, STACK, store=cut, threads=1, save_every=0.0)
    monkeypatch.undo()
    wanted = runs.computation(train, STACK)
    checkpoint = cut.checkpoint(wanted)
    assert saved == [True, True]
    assert checkpoint.exists()
    assert cut.status(wanted) == "half-done"

    resumed = runs.cached(train, STACK, store=cut, threads=1)
    assert "going on from a checkpoint" in caplog.text
    assert not checkpoint.exists()
    whole = runs.cached(train, STACK, store=Store(tmp_path / "whole"), threads=1)
    assert resumed.key == whole.key
    assert resumed.metrics == whole.metrics
    assert resumed.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(resumed.arrays[name], array, err_msg=name)
    assert resumed.history.keys() == whole.history.keys()
    for name in whole.history.keys() - {"seconds"}:  # of the clock, the one column that cannot be the same
        np.testing.assert_array_equal(resumed.history[name], whole.history[name], err_msg=name)
        assert len(whole.history[name]) == STACK.epochs * len(STACK.members)
