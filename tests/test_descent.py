"""What all tasks share: schedules, generators, resumed runs, losses that are not finite, refused settings."""

from collections.abc import Sequence
from dataclasses import replace
from math import cos, inf, nan, pi
from typing import Any, get_args

import numpy as np
import pytest
import torch

from sumexp import _descent as descent
from sumexp._runtime import Result
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.vae import Member, Temperature
from tests.tasks import CASES, Memory


@pytest.fixture(params=["cpu", "a GPU that refuses to capture"])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps without a graph: none is tried, or torch refuses it after the warm-up."""

    def refuse(step: descent.Step, inputs: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    if request.param != "cpu":
        monkeypatch.setattr(descent, "on_gpu", lambda device: True)
        monkeypatch.setattr(descent.Step, "_capture", refuse)
        monkeypatch.setattr(descent.Step, "_aside", lambda step, inputs: step._step(*inputs))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
        monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: None)


@pytest.mark.usefixtures("eager")
def test_a_learning_rate_that_falls_to_zero_along_a_cosine() -> None:
    # Plain descent on (x - 1)^2/2: a step at rate h takes the error times 1 - h, h = (1 + cos(pi t/5))/4.
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    sgd = torch.optim.SGD([x], lr=0.5)
    losses = descent.train_steps("x", sgd, lambda target: (x - target).square() / 2, lambda: (torch.ones(()),), 5)
    error, expected = 2.0, []
    for t in range(5):
        expected.append(error**2 / 2)
        error *= 1 - (1 + cos(pi * t / 5)) / 4
    assert losses.tolist() == pytest.approx(expected, rel=1e-12)
    assert x.item() == pytest.approx(1 + error, rel=1e-12)
    assert not losses.requires_grad


@pytest.mark.parametrize("steps", [1, 2, 7, 400])
def test_the_cosine_is_torch_s(steps: int) -> None:
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.03)
    schedule, rates = torch.optim.lr_scheduler.CosineAnnealingLR(sgd, T_max=steps), []
    for _ in range(steps):
        rates.append(sgd.param_groups[0]["lr"])
        sgd.step()
        schedule.step()
    assert descent.cosine(0.03, steps) == rates


def test_the_mean_of_losses_is_taken_in_float64_in_their_order() -> None:
    assert descent.mean(torch.tensor([[1.0, 2e8], [3.0, 1.0]])).tolist() == [2.0, 100_000_000.5]


def test_generators_of_two_purposes_differ() -> None:
    purposes = get_args(descent.Purpose)
    first = [
        torch.rand(1, generator=descent.generator(5, purpose, epoch)).item() for purpose in purposes for epoch in (0, 1)
    ]
    assert len(set(first)) == 2 * len(purposes)
    assert torch.rand(1, generator=descent.generator(5, "weights")).item() == first[0]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kept])
def test_a_run_that_was_killed_goes_on_to_the_same_bits(name: str) -> None:
    memory = Memory()
    whole = CASES[name](3, checkpoint=memory)
    assert 1 <= len(memory.states) <= 3
    for state in (memory.states[0], memory.states[-1]):  # killed early, and before its result was written
        same(CASES[name](3, checkpoint=Memory(state)), whole)


def same(first: Result, second: Result) -> None:
    assert first.metrics == second.metrics
    for before, after in ((first.arrays, second.arrays), (first.history, second.history)):
        assert before.keys() == after.keys()
        for key in before:
            np.testing.assert_array_equal(before[key], after[key], err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_a_config_has_one_result_and_leaves_global_randomness_alone(name: str, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    case = CASES[name]
    first = case(1)
    torch.set_default_dtype(torch.float64)
    same(first, case(1))
    if hasattr(case.config, "seed"):
        other = replace(case, config=replace(case.config, seed=case.config.seed + 1))(1)
        assert any((first.arrays[key] != other.arrays[key]).any() for key in first.arrays)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


@pytest.mark.parametrize("name", CASES)
def test_progress_sees_every_round(name: str) -> None:
    seen: list[int] = []
    CASES[name](2, progress=lambda rounds: (seen.append(number) or number for number in rounds))
    # Fits look at the law after the last step too; tuned tasks count rates, not epochs.
    assert seen in ([0, 1], [0, 1, 2], [0])


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("fits")])
def test_a_loss_that_is_not_finite_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent.Learner, "take_step", lambda self, *batch: self.losses(*batch).detach() * nan)
    with pytest.raises(FloatingPointError, match=r"the loss of .* is nan in .*; lower the learning rate, which is \d"):
        CASES[name](2)


SOFTMAX, TAIL = Method("softmax", "batch", "constant", 4), Method("softmax", "batch", "tail", 3, "keep")

REFUSED: Sequence[tuple[Any, dict[str, Any], str]] = [
    ("vae", {"members": ()}, "members is empty"),
    ("vae", {"members": (Member(), Member(categories=3))}, r"the members have \[3, 10\] categories; give a stack"),
    ("vae", {"source": "cifar"}, "source is 'cifar'; expected one of digits"),
    ("vae", {"precision": "int8"}, "precision is 'int8'; expected one of float32"),
    ("vae", {"batch": -3}, "batch must be positive, got -3"),
    ("vae", {"images": -1}, "images is -1; it must be a whole number >= 0"),
    ("vae", {"learning_rate": nan}, "learning_rate must be positive, got nan"),
    (Member(), {"noise": "cauchy"}, "noise is 'cauchy'; expected one of gaussian, gumbel, logistic"),
    (Member(), {"divergence": "none"}, "divergence is 'none'; expected one of softmax, exact"),
    (Member(), {"scale": 0.0}, "scale must be positive, got 0.0"),
    (Member(), {"categories": 1}, "categories is 1; it must be a whole number >= 2"),
    (Member(), {"seed": -1}, "seed is -1; it must be a whole number >= 0"),
    (Temperature(), {"start": 0.0}, "start must be positive, got 0.0"),
    (Temperature(), {"floor": nan}, "floor must be positive, got nan"),
    (Temperature(), {"rate": -1.0}, "rate is -1.0"),
    (Temperature(), {"floor": 2.0}, "floor 2.0 lies above start 1.0"),
    ("longtail", {"source": "svhn"}, "source is 'svhn'"),
    ("longtail", {"imbalance": "wave"}, "imbalance is 'wave'"),
    ("longtail", {"methods": (Method(), Method())}, "2 methods, of which 1 differ"),
    ("longtail", {"seed": -1}, "seed, momentum and decay are -1, 0.9, 0.0001"),
    ("longtail", {"batch": 4}, "a batch of 4 has 3 other labels, fewer than 4 negatives"),
    ("longtail.residual", {"source": "cifar-100-small"}, "source is 'cifar-100-small'; expected one of digits"),
    ("longtail.residual", {"source": "cifar-100-lt", "imbalance": "step"}, "is 'step' of cifar-100-lt, which"),
    ("longtail.residual", {"blocks": 0}, "blocks must be positive"),
    ("longtail.residual", {"precision": "float16"}, "precision is 'float16'; expected one of float32, bfloat"),
    ("longtail.residual", {"methods": (SOFTMAX,), "batch": 4}, "a batch of 4 has 3 other labels, fewer than 4"),
    ("retrieval, all labels", {"source": "wiki"}, "source is 'wiki'"),
    ("retrieval, all labels", {"width": 0}, "width must be positive"),
    ("retrieval, all labels", {"method": Method(weighting="equalised")}, "'equalised' keeps hits or has"),
    ("retrieval, all labels", {"method": TAIL}, "keeps hits or has margins"),
    ("retrieval, all labels", {"method": Method("softmax", "batch", "tail", 17)}, "17 negatives come from a"),
    ("retrieval, all labels", {"seed": -1}, "seed is -1"),
    ("retrieval, all labels", {"rates": (0.1, nan)}, "give one or more positive learning rates"),
    ("catalogue, in batch", {"form": "clip"}, "form 'clip' must be of"),
    ("catalogue, in batch", {"rates": ()}, "must be positive"),
    ("catalogue, in batch", {"batch": 1}, "the batch 2 or more"),
    ("catalogue, in batch", {"negatives": 4}, "refined with 4 negatives"),
    ("catalogue, in batch", {"form": "gbce"}, "gbce with 0 negatives"),
    ("models.multilabel, softmax", {"learning_rate": nan}, "learning_rate must be positive, got nan"),
    ("models.multilabel, softmax", {"margin": 2.0}, r"margin must be in \[0, pi/2\]"),
    ("models.multilabel, softmax", {"loss": "hinge"}, "loss is 'hinge'"),
    ("models.multilabel, softmax", {"source": "brown"}, "source is 'brown'"),
    ("models.wordmodel", {"steps": "many"}, "steps must be positive, got 'many'"),
    ("models.wordmodel", {"dropout": 1.0}, r"dropout must be a number in \[0, 1\), got 1.0"),
    ("models.wordmodel", {"penalty": -1.0}, "penalty must be a number that is not negative, got -1.0"),
    ("models.wordmodel", {"held_out": "train"}, "held_out is 'train'; expected one of validation, test"),
    ("models.wordmodel", {"source": "digits"}, "source is 'digits'; expected one of brown, shakespeare"),
    ("models.skipgram, table", {"negatives": 0}, "negatives must be positive, got 0"),
    ("models.skipgram, table", {"power": -1.0}, "power must be positive, got -1.0"),
    ("models.skipgram, table", {"rank": -1}, "rank must not be negative, got -1"),
    ("nce.gaussians, cpc", {"steps": 0}, "steps must be positive, got 0"),
    ("nce.gaussians, cpc", {"learning_rate": inf}, "learning_rate must be finite, got inf"),
    ("nce.gaussians, cpc", {"rho": 1.0}, "rho must lie strictly between -1 and 1, got 1.0"),
    ("nce.gaussians, cpc", {"hidden": -1}, "hidden must not be negative, got -1"),
    ("fits, draws", {"noise": "cauchy"}, "noise is 'cauchy'; expected one of gaussian"),
    ("fits, draws", {"temperatures": ()}, "temperatures is empty"),
    ("fits, draws", {"rates": (0.1, 0.0)}, "rates is .0.1, 0.0.; it must be > 0"),
    ("fits, draws", {"samples": 0}, "samples is 0"),
]


@pytest.mark.parametrize(("config", "changes", "message"), REFUSED, ids=lambda given: str(given)[:40])
def test_a_setting_that_makes_no_sense_is_refused(config: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CASES[config].config if isinstance(config, str) else config, **changes)
