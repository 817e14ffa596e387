"""On a GPU: a training whose steps are captured in CUDA graphs is the eager one. Skipped elsewhere.

``python -m benchmarks gpu`` measures a step both ways.
"""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from sumexp import _descent as descent
from tests.accelerator.test_tasks import EAGER
from tests.tasks import CASES, Memory

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[descent.Step]:
    """The steps that a task makes."""
    steps: list[descent.Step] = []

    class Noted(descent.Step):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            steps.append(self)

    monkeypatch.setattr(descent, "Step", Noted)
    return steps


@pytest.mark.parametrize("name", [name for name in CASES if name not in EAGER])
def test_a_captured_training_equals_an_eager_one(
    name: str, made: list[descent.Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 4 if CASES[name].rounds == "epochs" else 12
    monkeypatch.setenv(descent.GRAPHS, "0")
    eager = CASES[name](rounds, "cuda")
    assert made[0].eager == "SUMEXP_GRAPHS=0"
    made.clear()
    monkeypatch.delenv(descent.GRAPHS)
    captured = CASES[name](rounds, "cuda")
    assert made
    assert [step.eager for step in made] == [""] * len(made)
    assert all(step.graphs for step in made)
    for kind in ("arrays", "history"):
        actual, wanted = getattr(captured, kind), getattr(eager, kind)
        for key in actual:
            if actual[key].dtype.kind == "f":
                np.testing.assert_allclose(actual[key], wanted[key], rtol=1e-4, atol=1e-5, err_msg=f"{kind} {key}")
            else:
                assert (actual[key] == wanted[key]).mean() > 0.99, key  # a tie may fall the other way


def test_a_training_that_cannot_be_captured_says_why(made: list[descent.Step]) -> None:
    CASES["models.wordmodel"](2, "cuda")
    assert [step.eager for step in made] == ["a batch has as many rows as it has distinct contexts"]


READS_BACK = """
import torch
from sumexp import _descent as descent

x = torch.tensor(3.0, device="cuda", requires_grad=True)
optimiser = descent.adam([x], 0.1, "cuda")

def read():
    loss = (x - 1).square() * (1.0 if x.item() else 2.0)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.detach()

step = descent.Step(read, optimiser, "cuda")
losses = torch.stack([step() for _ in range(8)])
assert step.eager.startswith("capture was refused"), step.eager
assert losses.diff().max() < 0, losses
"""


def test_a_step_that_reads_back_falls_back_to_eager_steps() -> None:
    # In a process of its own: a capture that fails leaves torch's default generator unusable.
    done = subprocess.run([sys.executable, "-c", READS_BACK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_captured_training_goes_on_from_its_checkpoint() -> None:
    case = CASES["vae"]
    memory = Memory()
    whole = case(6, "cuda", checkpoint=memory)
    again = case(6, "cuda", checkpoint=Memory(memory.states[3]))
    np.testing.assert_allclose(again.history["train_loss"], whole.history["train_loss"], rtol=1e-6)
