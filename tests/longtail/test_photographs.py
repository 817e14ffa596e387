"""The paper's network for photographs: its size by arithmetic, and a training that learns and goes on."""

import atexit
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from PIL import Image

from sumexp._runtime import Result
from sumexp.chapters.longtail import grids, photographs
from sumexp.chapters.longtail.photographs import Learner, Photographs, fit, network
from sumexp.chapters.models.sampled.methods import SCHEMES, Method
from sumexp.companion.grids import filling
from sumexp.datasets import DataError
from sumexp.datasets.listed import Listed
from tests.longtail.pictures import Memory

TINY = Photographs(
    method=Method("softmax", "batch", "constant", 4),
    blocks=(1, 1),
    width=4,
    side=16,
    epochs=3,
    batch=16,
    learning_rate=0.1,
)
COLOURS = (220, 30, 30), (30, 220, 30), (30, 30, 220)


@cache
def photos() -> tuple[Path, Listed, Listed]:
    """Red, green and blue pictures under noise, of several sizes, in a folder."""
    held = TemporaryDirectory()
    atexit.register(held.cleanup)
    folder, source, parts = Path(held.name), np.random.default_rng(0), []
    for part, counts in (("train", (24, 12, 6)), ("test", (5, 5, 5))):
        labels = np.repeat(np.arange(3), counts)
        names = [f"{part}{i}.png" for i in range(len(labels))]
        for name, label in zip(names, labels, strict=True):
            size = (*source.integers(20, 40, 2), 3)
            values = np.clip(np.array(COLOURS[label]) + source.normal(0, 25, size), 0, 255)
            Image.fromarray(values.astype(np.uint8)).save(folder / name)
        parts.append(Listed(tuple(names), labels))
    return folder, parts[0], parts[1]


def noise(rounds: int, device: str) -> Result:
    """A short training on any device."""
    return fit(replace(TINY, epochs=rounds), *photos(), device=device)


def test_the_parameters_of_a_resnet_50_by_arithmetic() -> None:
    # A block of width w that takes t channels: t w + 9 w w + 4 w w weights, and 2 (w + w + 4 w) of batch norms; the
    # first of a stage has t 4 w + 2 * 4 w more, of what it adds.
    body, taken = 3 * 64 * 49 + 2 * 64, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        w = 64 * 2**stage
        for block in range(blocks):
            body += taken * w + 13 * w * w + 12 * w + (block == 0) * (4 * taken * w + 8 * w)
            taken = 4 * w
    assert body + 2048 * 1000 + 1000 == 25_557_032  # as published, of ImageNet's 1000 classes
    with torch.device("meta"):
        assert sum(one.numel() for one in network(Photographs(), 1000).parameters()) == 25_557_032


def test_its_operations_by_arithmetic() -> None:
    # One block of width 4 at side 16, three classes: 7 x 7 at 8 x 8; then at 4 x 4 the four convolutions; the head.
    wanted = 3 * 4 * 49 * 64 + (4 * 4 + 9 * 4 * 4 + 4 * 16 + 4 * 16) * 16 + 16 * 3
    assert photographs.operations((1,), 4, 16, 3) == 2 * wanted
    # The published 4.1e9 products of a ResNet-50 (3.8e9 with the stride in the convolution of 1 x 1).
    assert photographs.operations((3, 4, 6, 3), 64, 224, 1000) == pytest.approx(2 * 4.09e9, rel=0.01)


def test_the_published_setting() -> None:
    one = Photographs()
    assert (one.epochs, one.batch, one.learning_rate, one.momentum, one.decay) == (90, 512, 0.4, 0.9, 5e-4)
    rates = [photographs.rate(one, step, 100) for step in (0, 25, 50, 100)]
    assert rates == pytest.approx([0.4, 0.2 + 0.2 * math.sqrt(0.5), 0.2, 0])


def test_it_learns() -> None:
    folder, first, last = photos()
    found = fit(replace(TINY, epochs=8), folder, first, last)
    assert found.arrays["errors"].shape == (1, 3)
    assert found.arrays["counts"].tolist() == [24, 12, 6]
    assert found.metrics["error"] < 0.4  # of 2/3 by chance
    assert found.history["train_loss"][-1] < found.history["train_loss"][0]


@pytest.mark.parametrize("method", [Method(), Method("contrastive"), Method("contrastive", "uniform", "tail", 4)])
def test_other_methods_train(method: Method) -> None:
    found = fit(replace(TINY, method=method, epochs=1), *photos())
    assert np.isfinite(found.history["train_loss"]).all()


def test_cosines_and_first_weights() -> None:
    folder, first, _ = photos()
    one = Learner(replace(TINY, method=Method("contrastive")), folder, first)
    x = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert one.network.eval()(x).abs().max() <= 1 + 1e-6
    again, other = (Learner(replace(TINY, seed=seed), folder, first) for seed in (0, 1))
    # The head of either loss has the same weights, and those before it too.
    assert all(torch.equal(tensor, again.parameters[name]) for name, tensor in one.parameters.items())
    assert not torch.equal(other.network[0].weight, again.network[0].weight)
    assert again.network[0].weight.std().item() == pytest.approx(math.sqrt(2 / (49 * 4)), rel=0.1)


def test_an_epoch_after_errors_were_counted_trains_again() -> None:
    folder, first, last = photos()
    one = Learner(replace(TINY, epochs=2), folder, first)
    one.errors(last)
    means = one.network[1].running_mean.clone()
    one.run_epoch()
    assert not torch.equal(one.network[1].running_mean, means)  # of a batch, not what stood there


def test_a_killed_run_goes_on_to_the_same_numbers() -> None:
    whole, memory = fit(TINY, *photos()), Memory(last=2)
    with pytest.raises(KeyboardInterrupt):
        fit(TINY, *photos(), checkpoint=memory)
    again = fit(TINY, *photos(), checkpoint=memory)
    assert np.array_equal(again.arrays["errors"], whole.arrays["errors"])
    assert np.array_equal(again.history["train_loss"], whole.history["train_loss"])


def test_the_photographs_of_a_source_lie_in_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder, first, last = photos()
    (tmp_path / "inaturalist-2018").symlink_to(folder)
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path))
    monkeypatch.setattr(photographs, "lists", {"inaturalist-2018": (first, last)}.__getitem__)
    whole, same = fit(TINY, folder, first, last), photographs.train(replace(TINY, source="inaturalist-2018"))
    assert np.array_equal(same.arrays["errors"], whole.arrays["errors"])


def test_pictures_are_cut_anew_in_each_epoch_and_alike_in_each_run() -> None:
    folder, first, _ = photos()
    seen = [photographs._Pictures(folder, first, TINY, epoch)[3][0] for epoch in (0, 0, 1)]
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


@pytest.mark.parametrize(
    "changes, fault",
    [
        ({"source": "imagenet"}, "source is 'imagenet'; expected one of imagenet-lt, inaturalist-2018"),
        ({"blocks": ()}, r"blocks, seed, momentum and decay are \(\), 0"),
        ({"epochs": 0}, "epochs must be positive"),
        ({"batch": 4}, "a batch of 4 has 3 other labels, fewer than 4 negatives"),
    ],
)
def test_networks_that_are_none(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        replace(TINY, **changes)  # type: ignore[arg-type]


def test_what_is_absent_is_named() -> None:
    folder, first, last = photos()
    with pytest.raises(ValueError, match="there are 42 photographs for a batch of 50; lower the batch"):
        fit(replace(TINY, batch=50), folder, first, last)
    with pytest.raises(ValueError, match="class 1 has no training picture"):
        fit(TINY, folder, Listed(first.paths, np.where(first.labels == 1, 0, first.labels)), last)
    with pytest.raises(DataError, match=r"train\d+.png is not there; name the folder that holds"):
        fit(TINY, folder / "elsewhere", first, last)


def test_a_loss_that_is_not_finite_is_named() -> None:
    with pytest.raises((FloatingPointError, ValueError), match=r"the loss of .* is nan in epoch|a logit is (NaN|nan)"):
        fit(replace(TINY, learning_rate=1e30), *photos())


def test_the_grid_has_the_published_methods() -> None:
    asked = {source: grids.photographed(source, 1) for source in ("imagenet-lt", "inaturalist-2018")}  # type: ignore[arg-type]
    numbers = {
        source: {law: {one.method.negatives for one in runs if one.method.law == law} for law in grids.LAWS}
        for source, runs in asked.items()
    }
    # Of 512 a batch has 511 others.
    assert numbers["imagenet-lt"] == {"batch": {32, 64, 128, 256, 511}, "uniform": {32, 64, 128, 256, 512}}
    assert numbers["inaturalist-2018"] == {"batch": {511}, "uniform": {512}}
    of_loss = [one.method.loss for one in asked["imagenet-lt"]]
    assert (of_loss.count("softmax"), of_loss.count("contrastive")) == (2 + 10 * len(SCHEMES), 1 + 2 * len(SCHEMES))
    assert {one.method.loss for one in asked["inaturalist-2018"]} == {"softmax"}
    first = asked["imagenet-lt"][0]
    # 90 epochs of 226 whole batches.
    products = photographs.operations((3, 4, 6, 3), 64, 224, 1000) * (3 * 90 * 226 * 512 + 50_000)
    assert grids.work(first) == products + grids.STARTED + 90 * 226 * grids.STEP
    assert grids.data(first) == ("imagenet-lt",)


def test_what_it_would_cost_is_told_where_nothing_is_there() -> None:
    asked = grids.GRIDS["photographs"].jobs("paper", lambda name: False)
    assert len(asked) == 5 * (51 + 10)
    assert filling.leave_marks("photographs", "paper", "cpu") == []  # no chapter waits for them
    assert {name for job in asked for name in job.data} == {"imagenet-lt", "inaturalist-2018"}
    # 2.6e17 operations of a run on ImageNet-LT, and 9.9e17 on iNaturalist, at 2e12 a second.
    hours = sum(job.work / job.rates["cuda"] for job in asked if job.rates) / 3600
    assert hours == pytest.approx(5 * (51 * 2.56e17 + 10 * 9.9e17) / 2e12 / 3600, rel=0.05)
