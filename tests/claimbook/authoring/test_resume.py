"""A killed task goes on from its checkpoint and ends with the same numbers; all tasks: `tests/test_descent.py`."""

import multiprocessing
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from claimbook.authoring import runs
from claimbook.store import Store, parts
from claimbook.store.checkpoints import Checkpoint
from sumexp._runtime import Result


@dataclass(frozen=True)
class Config:
    steps: int = 6


def task(config: Config, /, *, checkpoint: Any, **_: object) -> Result:
    state = checkpoint.load() or {"step": 0, "sum": torch.zeros(1)}
    first = state["step"]
    for step in range(first, config.steps):
        state = {"step": step + 1, "sum": state["sum"] * 1.1 + step}
        checkpoint.save(state)
    return Result({"sum": state["sum"].numpy()}, {"first": first})


def code(names: object) -> dict[str, str]:
    """The task is outside the package."""
    return {"module task": "code"}


def compute_until_the_fourth_step_kills(root: str) -> None:
    """What the process that is to be killed does: the third step is kept, the fourth is done and lost."""
    save, parts.modules = Checkpoint.save, code  # type: ignore[assignment]

    def kill(checkpoint: Checkpoint, state: dict[str, int]) -> None:
        if state["step"] == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        checkpoint._every = 0.0
        save(checkpoint, state)

    Checkpoint.save = kill  # type: ignore[assignment, method-assign]
    runs.computed(task, Config(), store=Store(Path(root)))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_task_that_is_killed_ends_with_the_same_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "modules", code)
    killed, whole = Store(tmp_path / "killed"), Store(tmp_path / "whole")
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=compute_until_the_fourth_step_kills, args=(str(killed.root),))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    wanted = runs.computation(task, Config())
    before = torch.load(killed.checkpoint(wanted), weights_only=True)["seconds"][0]
    resumed = runs.computed(task, Config(), store=killed)
    assert resumed.provenance.seconds > before > 0
    assert [path.name for path in killed.root.glob("run/*/*")] == [resumed.key]
    assert "going on from a checkpoint" in caplog.text
    expected = runs.computed(task, Config(), store=whole)
    assert (resumed.key, resumed.metrics, expected.metrics) == (expected.key, {"first": 3}, {"first": 0})
    assert resumed.arrays["sum"].tobytes() == expected.arrays["sum"].tobytes()
