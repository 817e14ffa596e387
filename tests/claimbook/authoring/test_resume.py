"""A training that is killed goes on from its checkpoint and ends with the same numbers."""

import multiprocessing
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from claimbook.authoring import runs
from claimbook.store import Store
from claimbook.store.checkpoints import Checkpoint
from sumexp._runtime import Task
from sumexp.chapters import longtail, retrieval, vae
from sumexp.chapters.longtail import residual
from sumexp.chapters.models.sampled.methods import Method

RATES = (0.01, 0.02, 0.03, 0.05, 0.1)  # each is trained as an epoch is elsewhere
SAMPLED = Method("softmax", "uniform", "importance", 4), Method("softmax", "batch", "tail", 4)
KILLED: Mapping[str, tuple[Task[Any], Any]] = {
    "vae": (
        vae.train,
        vae.Stack(
            members=(vae.Member("gumbel", seed=1), vae.Member("gaussian", divergence="exact", seed=2)),
            variables=3,
            hidden=16,
            epochs=5,
            images=200,
            samples=2,
            importance=2,
            test_images=20,
        ),
    ),
    "longtail": (
        longtail.train,
        longtail.Stack(methods=(Method(), *SAMPLED), filters=8, hidden=8, epochs=5, batch=32),
    ),
    "longtail, the paper's network": (
        residual.train,
        residual.Residual("digits", method=SAMPLED[0], blocks=1, width=4, epochs=5, batch=32),
    ),
    "retrieval": (retrieval.train, retrieval.Config(method=SAMPLED[0], width=4, epochs=1, batch=5000, rates=RATES)),
}


def train_until_the_fourth_epoch_kills(name: str, root: str) -> None:
    """What the process that is to be killed does: the third epoch is kept, the fourth is done and lost."""
    save, saved = Checkpoint.save, []

    def kill(checkpoint: Checkpoint, state: dict[str, object]) -> None:
        if len(saved) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        save(checkpoint, state)
        saved.append(checkpoint.path.exists())

    Checkpoint.save = kill  # type: ignore[assignment, method-assign]
    task, config = KILLED[name]
    runs.computed(task, config, store=Store(Path(root)), threads=1, save_every=0.0, quiet=True)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize("name", KILLED)
def test_a_training_that_is_killed_ends_with_the_same_numbers(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed, whole = Store(tmp_path / "killed"), Store(tmp_path / "whole")
    # One server imports what a training needs; each that is to be killed is a fork of it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "sklearn.datasets", "torch._dynamo"])
    process = context.Process(target=train_until_the_fourth_epoch_kills, args=(name, str(killed.root)))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    task, config = KILLED[name]
    wanted = runs.computation(task, config)
    assert killed.status(wanted) == "half-done"
    before = torch.load(killed.checkpoint(wanted), weights_only=True)["seconds"][0]
    resumed = runs.computed(task, config, store=killed, threads=1)
    assert resumed.provenance.seconds > before > 0
    assert [path.name for path in killed.root.glob("run/*/*")] == [resumed.key]
    assert "going on from a checkpoint" in caplog.text
    caplog.clear()
    expected = runs.computed(task, config, store=whole, threads=1)
    assert "going on from a checkpoint" not in caplog.text
    assert resumed.key == expected.key
    assert resumed.metrics == expected.metrics
    for kind in ("arrays", "history"):
        found, others = getattr(resumed, kind), getattr(expected, kind)
        assert found.keys() == others.keys()
        for column in found.keys() - {"seconds"}:
            np.testing.assert_array_equal(found[column], others[column], err_msg=column)
