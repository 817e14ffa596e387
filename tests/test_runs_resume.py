"""A stack of VAEs that is killed while it trains goes on from its checkpoint and ends with the same numbers."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sumexp import vae
from sumexp.companion import runs

STACK = vae.Stack(
    members=(vae.Member("gumbel", seed=1), vae.Member("gaussian", divergence="exact", categories=3, seed=2)),
    variables=3,
    hidden=16,
    epochs=15,
    images=300,
    samples=2,
    importance=2,
    test_images=20,
)


def ask(root: Path) -> None:
    runs.cached(vae.train, STACK, root=root, threads=1, save_every=0.0)


@pytest.mark.slow
def test_a_killed_stack_ends_with_the_same_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    killed = tmp_path / "killed"
    entry = runs.place(vae.train, STACK, root=killed, threads=1)
    checkpoint = entry.with_suffix(".checkpoint")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sumexp.companion.runs", "sumexp.vae"])
    process = context.Process(target=ask, args=(killed,))
    process.start()
    while not checkpoint.exists():
        assert process.is_alive()
        time.sleep(0.001)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join(60)
    assert not runs.exists(entry)

    resumed = runs.cached(vae.train, STACK, root=killed, threads=1)
    assert "going on from a checkpoint" in caplog.text
    assert not checkpoint.exists()
    whole = runs.cached(vae.train, STACK, root=tmp_path / "whole", threads=1)
    assert resumed.key == whole.key
    assert resumed.metrics == whole.metrics
    assert resumed.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(resumed.arrays[name], array, err_msg=name)
    measured = ["seconds"]  # of the clock, the one column that cannot be the same
    pd.testing.assert_frame_equal(resumed.history.drop(columns=measured), whole.history.drop(columns=measured))
    assert len(whole.history) == STACK.epochs * len(STACK.members)
