"""On a GPU: a training whose steps are captured in CUDA graphs is the eager one, and faster. Skipped elsewhere.

``pytest -q -s tests/accelerator/test_graphs.py`` prints the milliseconds of a step both ways.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse import random as random_sparse

from sumexp import _descent as descent
from sumexp.chapters import catalogue, longtail, retrieval
from sumexp.chapters.catalogue import training as towers
from sumexp.chapters.catalogue.pairs import Parts
from sumexp.chapters.longtail import grids, residual
from sumexp.chapters.longtail import training as stacks
from sumexp.chapters.models import multilabel
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import training as labels
from sumexp.chapters.vae import Member, Stack
from sumexp.chapters.vae import training as vae
from sumexp.datasets.extreme import Part
from sumexp.datasets.labelled import Labelled
from tests.tasks import CASES

DEVICE = "cuda"

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

EAGER = {
    "models.wordmodel": "a batch has as many rows as it has distinct contexts",
    "fits, draws": "",
    "fits, exact": "",
}
"""Tasks without captured steps; those of fits have a loop of their own."""


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
    assert [step.eager for step in made] == [""] * len(made)
    assert made
    assert all(step.graphs for step in made)
    for kind in ("arrays", "history"):
        one, other = getattr(captured, kind), getattr(eager, kind)
        for key in one.keys() - {"seconds"}:
            if one[key].dtype.kind == "f":
                np.testing.assert_allclose(one[key], other[key], rtol=1e-4, atol=1e-5, err_msg=f"{kind} {key}")
            else:
                assert (one[key] == other[key]).mean() > 0.99, key  # a tie may fall the other way


def test_a_training_that_cannot_be_captured_says_why(made: list[descent.Step]) -> None:
    CASES["models.wordmodel"](2, "cuda")
    assert [step.eager for step in made] == [EAGER["models.wordmodel"]]


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
    from tests.vae.test_training import Memory

    case = CASES["vae"]
    memory = Memory()
    whole = case(6, "cuda", checkpoint=memory)
    again = case(6, "cuda", checkpoint=Memory(memory.states[3]))
    np.testing.assert_allclose(again.history["train_loss"], whole.history["train_loss"], rtol=1e-6)


# Sizes of the book


def _pictures() -> Labelled:
    source = np.random.default_rng(0)
    counts = np.maximum(5, (500 * 0.955 ** np.arange(100)).astype(int))
    names = np.repeat(np.arange(100), counts)
    pictures = source.integers(0, 256, (len(names), 32, 32, 3)).astype(np.uint8)
    return Labelled(pictures, names, pictures[:100], np.arange(100), 100)


def _vae(members: int) -> Callable[[], descent.Learner]:
    def learner() -> descent.Learner:
        images = (torch.rand(5000, 784, generator=torch.Generator().manual_seed(0)) < 0.2).float().to(DEVICE)
        return vae.Learner(Stack("mnist", tuple(Member(seed=seed) for seed in range(members))), images, DEVICE)

    return learner


def _residual() -> descent.Learner:
    return residual.Learner(residual.Residual(method=Method("softmax", "uniform", "tail", 32)), _pictures(), DEVICE)


def _stack() -> descent.Learner:
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(2, 10_847, 8 * 50, generator=source).to(DEVICE)
    names = torch.cat([torch.arange(100), torch.randint(100, (10_747,), generator=source)])
    methods = grids.methods((32, 8, 96))
    return stacks.Learner(longtail.Stack("cifar-100", methods=methods), inputs, names, 100, DEVICE)


def _towers(form: str) -> Callable[[], descent.Learner]:
    def learner() -> descent.Learner:
        source = np.random.default_rng(0)
        users, items, pairs = 29_858, 40_981, 200_000
        sides = source.integers(0, users, pairs), source.integers(0, items, pairs)
        train = csr_array((np.ones(pairs, dtype=bool), sides), shape=(users, items))
        parts = Parts(train, train[:1], train[:1], train[:1])
        config = catalogue.Config("gowalla", form, users=users, batch=1024, negatives=128 * (form == "popularity"))  # type: ignore[arg-type]
        return towers.Learner(config, parts, 0.01, DEVICE)

    return learner


def _labels() -> descent.Learner:
    features = random_sparse(12_920, 500, 0.036, format="csr", random_state=0, dtype=np.float32)
    names = random_sparse(12_920, 983, 0.019, format="csr", random_state=1) > 0
    part = Part(csr_array(features), csr_array(names))
    counts = torch.from_numpy(np.asarray(part.labels.sum(0)).ravel() + 1)
    method = Method("softmax", "uniform", "importance", 64)
    return labels.Learner(retrieval.Config("delicious", method), part, counts, DEVICE)


def _tags() -> descent.Learner:
    source = torch.Generator().manual_seed(0)
    queries = (torch.rand(12_920, 500, generator=source) < 0.036).float().to(DEVICE)
    gains = torch.rand(12_920, 983, generator=source) < 0.02
    gains[:, 0] = True
    return multilabel.Learner(
        replace(multilabel.CONFIGS["cpu"]["delicious"], width=512), queries, gains.to(DEVICE), DEVICE
    )


SIZED: dict[str, Callable[[], descent.Learner]] = {
    "vae, 1 member": _vae(1),
    "vae, 16 members": _vae(16),
    "vae, 64 members": _vae(64),
    "vae, 128 members": _vae(128),
    "residual network of 56 layers": _residual,
    "longtail, all methods": _stack,
    "towers, in batch": _towers("kept"),
    "towers, 128 draws": _towers("popularity"),
    "towers, all items": _towers("full"),
    "retrieval, 64 uniform draws": _labels,
    "multilabel": _tags,
}


def milliseconds(learner: descent.Learner, steps: int = 40) -> float:
    """Of a step, after those that are warm-up and capture."""
    batches = iter(learner.batches())
    times = []
    for i in range(10 + steps):
        if i == 10:
            torch.cuda.synchronize()
            times.append(time.perf_counter())
        learner.take_step(*next(batches))
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - times[0]) / steps


@pytest.mark.parametrize("name", SIZED)
def test_a_captured_step_is_faster(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(descent.GRAPHS, "0")
    eager = milliseconds(SIZED[name]())
    monkeypatch.delenv(descent.GRAPHS)
    learner = SIZED[name]()
    captured = milliseconds(learner)
    print(f"\n{name}: {eager:.2f} ms eager, {captured:.2f} ms captured {learner.eager}")
    assert not learner.eager
    assert captured < eager
