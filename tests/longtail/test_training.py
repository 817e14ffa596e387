"""Methods trained side by side: each as if it were alone; features, errors and the grid."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sumexp._runtime import Task
from sumexp.chapters.jobs import Job
from sumexp.chapters.longtail import Stack, grids, images, residual, training
from sumexp.chapters.longtail.features import features
from sumexp.chapters.longtail.residual import Residual
from sumexp.chapters.longtail.training import Learner, train
from sumexp.chapters.models.sampled.methods import SCHEMES, Method
from sumexp.datasets.labelled import Labelled
from tests.longtail.pictures import patterns

METHODS = (
    Method(),
    *(Method("softmax", "batch", w, 4) for w in SCHEMES),
    Method("softmax", "uniform", "relative", 4, "keep"),
    Method("contrastive"),
    Method("contrastive", "uniform", "tail", 4),
)
TINY = Stack(methods=METHODS, filters=5, hidden=6, epochs=3, batch=16)


@pytest.fixture(scope="module")
def data() -> Labelled:
    return patterns()


def test_each_method_is_as_if_alone(data: Labelled) -> None:
    together = train(TINY, data)
    assert together.arrays["errors"].shape == (len(METHODS), 4)
    for i in (0, 3, 5, 7):
        alone = train(replace(TINY, methods=(METHODS[i],)), data)
        assert alone.history["train_loss"].tolist() == pytest.approx(
            together.history["train_loss"][together.history["method"] == i].tolist(), rel=1e-4
        )


def test_it_learns(data: Labelled) -> None:
    result = train(replace(TINY, epochs=20, hidden=16, filters=20), data)
    balanced = result.arrays["errors"].mean(1)
    assert (balanced[:6] < 0.5).all()  # of 0.75 by chance
    assert result.arrays["counts"].tolist() == [40, 20, 10, 5]
    assert result.metrics["error"] == pytest.approx(balanced.mean())


def learner(data: Labelled, **changes: float) -> Learner:
    plain, mirrored, _ = features(data.train, data.test, TINY.filters)
    config = replace(TINY, **changes)  # type: ignore[arg-type]
    return Learner(config, torch.stack([plain, mirrored]), torch.from_numpy(data.train_labels), 4)


def test_gradients_are_clipped_method_by_method(data: Labelled) -> None:
    model = learner(data, clip=2.0)
    count, hidden = len(METHODS), TINY.hidden
    length = torch.arange(1, count + 1).float()
    for name, tensor in model.parameters.items():
        grad = torch.zeros_like(tensor)
        by_method = grad.view(*grad.shape[:-1], count, hidden).movedim(-2, 0) if name.startswith("hidden") else grad
        # Each method's gradient has four entries of half its length, one in each tensor.
        for s in range(count):
            by_method[(s, *(0,) * (by_method.ndim - 1))] = length[s] / 2
        tensor.grad = grad
    model.clip()
    weight = model.parameters["out_weight"].grad
    assert weight is not None
    assert weight[:, 0, 0].tolist() == pytest.approx([min(n, 2.0) / 2 for n in length.tolist()])
    bias = model.parameters["hidden_bias"].grad
    assert bias is not None
    assert bias.view(count, hidden)[:, 0].tolist() == pytest.approx([min(n, 2.0) / 2 for n in length.tolist()])


def test_ties_at_the_top_are_errors(data: Labelled) -> None:
    model = learner(data)
    for tensor in model.parameters.values():
        tensor.data.zero_()
    model.parameters["out_bias"].data[0, 0, 2] = 1.0
    errors = model.errors(torch.zeros(4, 40), torch.tensor([0, 1, 2, 2]))
    assert errors[0].tolist() == [1, 1, 0, 0]  # a class without test pictures has no error
    assert errors[1].tolist() == [1, 1, 1, 0]


def test_too_few_pictures_or_a_class_without_any(data: Labelled) -> None:
    with pytest.raises(ValueError, match="there are 75 training images for a batch of 100; lower the batch"):
        train(replace(TINY, batch=100), data)
    kept = data.train_labels != 1
    with pytest.raises(ValueError, match="class 1 has no training image"):
        train(TINY, replace(data, train=data.train[kept], train_labels=data.train_labels[kept]))


def test_features_mirror_with_the_picture(data: Labelled) -> None:
    plain, mirrored, test = features(data.train, data.test, 5)
    assert plain.shape == mirrored.shape == (75, 40)
    assert test.shape == (40, 40)
    assert torch.allclose(plain.mean(0), torch.zeros(40), atol=1e-5)
    assert torch.allclose(plain.std(0), torch.ones(40), atol=1e-3)
    turned = replace(data, train=np.ascontiguousarray(data.train[:, :, ::-1]))
    # The same filters on test pictures that are the training pictures, turned.
    _, again, judged = features(data.train, turned.train, 5)
    assert torch.allclose(judged, again, atol=1e-5)


@pytest.mark.parametrize("side, quadrants", [(15, [True, False, False, False]), (16, [True] * 4)])
def test_patches_of_pictures_from_16_pixels_on_are_of_6(side: int, quadrants: list[bool]) -> None:
    """What a change of the pixel (5, 5) reaches.

    A patch of 6 has 11 places in 16 pixels, the quadrants meet in place 5, and the patch there begins with pixel 5.
    A patch of 4 has 12 places in 15 pixels, and the last quadrants begin at place 6.
    """
    train = np.random.default_rng(0).integers(0, 256, (50, side, side, 1), dtype=np.uint8)
    changed = train.copy()
    changed[:, 5, 5] ^= 128
    _, _, plain = features(train, train, 20)
    _, _, other = features(train, changed, 20)
    assert (plain != other).unflatten(1, (40, 4)).any(1).tolist() == [quadrants] * 50


def test_the_data_of_the_smoke_profile() -> None:
    exp, step = (images.load("digits", imbalance) for imbalance in grids.IMBALANCES)
    # 100 * 50^(-i/9): 100, 64.7, 41.9, 27.1, 17.6, 11.4, 7.4, 4.8, 3.1, 2
    assert exp.counts.tolist() == [100, 64, 41, 27, 17, 11, 7, 4, 3, 2]
    assert step.counts.tolist() == [100] * 5 + [2] * 5
    assert len(exp.test) == 600


def test_both_imbalances_take_about_as_many_steps() -> None:
    for profile, available in (("smoke", []), ("cpu", []), ("cpu", ["cifar-100-small"])):
        chosen, plan = grids.chosen(profile, available)
        stacks = grids.configs(chosen, plan)
        exp, step = stacks[0], stacks[plan.seeds]
        assert (exp.imbalance, step.imbalance) == ("exp", "step")
        steps = [run.epochs * (int(images.counts(chosen, run.imbalance).sum()) // run.batch) for run in (exp, step)]
        assert 0.8 < steps[0] / steps[1] < 1.25
        assert [run.methods for run in grids.forecasts(chosen, plan)] == [exp.methods, exp.methods]


def test_what_confirms_has_seeds_that_no_other_run_has() -> None:
    source, plan = grids.chosen("cpu", ["cifar-100-small"])
    asked = grids.confirmation(source, plan)
    used = {run.seed for name in ("cpu", "paper") for s, p in grids.PLANS[name].items() for run in grids.configs(s, p)}
    assert len(asked) == len({run.seed for run in asked} - used) == 20
    first = grids.configs(source, plan)[0]
    for run in asked:  # the very training of the others, of two of their methods
        assert isinstance(run, Stack)
        assert replace(run, methods=first.methods, seed=0) == first
        assert run.methods == (Method(), Method("softmax", "batch", "constant", 32))
    assert grids.confirmation(*grids.chosen("paper", ["cifar-100"])) == ()


@pytest.mark.parametrize(
    "available, small, photographs",
    [
        ("", "digits", ""),
        ("cifar-100-small", "cifar-100-small", ""),
        ("cifar-100-small cifar-100-lt", "cifar-100-small", "cifar-100-lt"),
        ("cifar-100-small cifar-100-lt cifar-100", "cifar-100", "cifar-100"),
    ],
)
def test_paper_trains_the_paper_s_network_with_figure_1_alone(available: str, small: str, photographs: str) -> None:
    def asked(profile: str, task: Task[Any]) -> list[Job]:
        return [job for job in grids.GRIDS["longtail"](profile, available.split().__contains__) if job.task is task]

    stacks, networks = (asked("paper", task) for task in (training.train, residual.train))
    expected = {(small, imbalance, 49) for imbalance in grids.IMBALANCES}
    assert {(job.config.source, job.config.imbalance, len(job.config.methods)) for job in stacks} == expected
    seed = Residual(methods=grids.FIGURE_1, precision="bfloat16")
    seeds = [replace(seed, source=name, seed=number) for name in photographs.split() for number in range(5)]  # type: ignore[arg-type]
    assert [job.config for job in networks] == seeds
    # 10,847 // 128 = 84 steps in each of 256 epochs of ten networks: .13 hours of an H200.
    assert [job.seconds["cuda"] for job in networks] == pytest.approx([84 * 256 * 10 * 0.0022] * len(seeds))
    assert not asked("cpu", residual.train)
    base = [
        m for m in grids.methods((32, 8, 96)) if m.loss == "softmax" and m.hits == "mask" and m.negatives in (0, 32)
    ]
    assert [*grids.FIGURE_1] == [m for m in base if m.weighting not in ("adaptive", "equalised")]


def test_errors_are_gathered_by_imbalance_and_method() -> None:
    plain, equalised = Method(), Method(weighting="equalised")
    stacks = [replace(TINY, methods=(plain, equalised), imbalance="step", seed=seed) for seed in (0, 1)]
    tables = [np.arange(6).reshape(2, 3), np.arange(6, 12).reshape(2, 3)]
    errors = grids.gathered(zip(stacks, tables, strict=True))
    assert errors["step"][plain].tolist() == [[0, 1, 2], [6, 7, 8]]
    assert errors["step"][equalised].tolist() == [[3, 4, 5], [9, 10, 11]]
