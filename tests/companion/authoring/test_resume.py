"""A stack of VAEs that is cut short while it trains goes on from its checkpoint and ends with the same numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sumexp.companion.authoring import runs
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
    saved, save = [], runs._Checkpoint.save

    def cut_short(checkpoint: runs._Checkpoint, state: dict[str, object]) -> None:
        save(checkpoint, state)
        saved.append(checkpoint.path.exists())
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(runs._Checkpoint, "save", cut_short)
    with pytest.raises(KeyboardInterrupt):
        runs.cached(train, STACK, root=tmp_path / "cut", threads=1, save_every=0.0)
    monkeypatch.undo()
    entry = runs.path_of(train, STACK, root=tmp_path / "cut", threads=1)
    checkpoint = entry.with_suffix(".checkpoint")
    assert saved == [True, True]
    assert checkpoint.exists()
    assert not runs.exists(entry)

    resumed = runs.cached(train, STACK, root=tmp_path / "cut", threads=1)
    assert "going on from a checkpoint" in caplog.text
    assert not checkpoint.exists()
    whole = runs.cached(train, STACK, root=tmp_path / "whole", threads=1)
    assert resumed.key == whole.key
    assert resumed.metrics == whole.metrics
    assert resumed.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(resumed.arrays[name], array, err_msg=name)
    measured = ["seconds"]  # of the clock, the one column that cannot be the same
    pd.testing.assert_frame_equal(resumed.history.drop(columns=measured), whole.history.drop(columns=measured))
    assert len(whole.history) == STACK.epochs * len(STACK.members)
