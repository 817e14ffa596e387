"""The residual network: parameter count, logits against modules of torch, and training."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sumexp import datasets
from sumexp.chapters.longtail import grids, images, residual
from sumexp.chapters.longtail.residual import RUNNING, Learner, Residual, initial, scores, train
from sumexp.chapters.longtail.training import rate
from sumexp.chapters.models.sampled.methods import Method
from sumexp.datasets import labelled
from sumexp.datasets.labelled import Labelled
from tests.longtail.pictures import patterns

CONSTANT = Method("softmax", "batch", "constant", 4)
TINY = Residual("digits", methods=(CONSTANT,), blocks=1, width=4, epochs=3, batch=16)


@pytest.fixture(scope="module")
def data() -> Labelled:
    return patterns()


class Unit(nn.Module):
    """Two convolutions with batch norms, and what they are added to: He et al.'s option A, without weights."""

    def __init__(self, taken: int, made: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(taken, made, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(made, made, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(made), nn.BatchNorm2d(made)])
        self.stride, self.new = stride, made - taken

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
        # Every other pixel is what a pool of one pixel keeps.
        kept = nn.functional.max_pool2d(x, 1, self.stride)
        zeros = kept.new_zeros(len(kept), self.new, *kept.shape[2:])
        return torch.relu(y + torch.cat([kept, zeros], 1))


def reference(blocks: int, width: int, channels: int, classes: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    sizes = [(width, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2)]
    for taken, made, stride in sizes:
        layers += [Unit(taken, made, stride), *(Unit(made, made, 1) for _ in range(blocks - 1))]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes))


def loaded(network: nn.Sequential, tensors: dict[str, Tensor]) -> nn.Sequential:
    """The reference with our weights, taken layer after layer in the order of the network."""
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    names = [name.removesuffix(".weight") for name in tensors if name.endswith(".weight") and name != "out.weight"]
    norms = [network[1], *(norm for module in network.modules() if isinstance(module, Unit) for norm in module.norms)]
    with torch.no_grad():
        for name, convolution, norm in zip(names, convolutions, norms, strict=True):
            convolution.weight.copy_(tensors[f"{name}.weight"])
            norm.weight.copy_(tensors[f"{name}.gain"])
            norm.bias.copy_(tensors[f"{name}.shift"])
            norm.running_mean.copy_(tensors[f"{name}.mean"])
            norm.running_var.copy_(tensors[f"{name}.variance"])
        network[-1].weight.copy_(tensors["out.weight"][0].T)
        network[-1].bias.copy_(tensors["out.bias"][0, 0])
    return network


def test_the_parameters_of_a_resnet_56_by_arithmetic() -> None:
    # A stage of 9 blocks has 18 convolutions of 3 x 3; the first of the second and third takes half the channels.
    stages = 18 * 9 * 16 * 16, 9 * 16 * 32 + 17 * 9 * 32 * 32, 9 * 32 * 64 + 17 * 9 * 64 * 64
    assert stages == (41_472, 161_280, 645_120)
    norms = 2 * (19 * 16 + 18 * 32 + 18 * 64)  # a gain and a shift for each channel
    body = 3 * 9 * 16 + sum(stages) + norms
    assert body == 852_368  # the published 0.85 million, of He et al., table 6
    tensors = initial(Residual(), 3, 100)
    assert sum(t.numel() for name, t in tensors.items() if not name.endswith(RUNNING)) == body + 64 * 100 + 100
    # 6 n + 2 layers with weights.
    assert sum(name.endswith(".weight") for name in tensors) == 56
    assert sum(tensor.numel() for tensor in reference(9, 16, 3, 100).parameters()) == body + 64 * 100 + 100


@pytest.mark.parametrize("blocks, side", [(1, 8), (3, 16), (9, 32)])
def test_scores_are_those_of_modules(blocks: int, side: int) -> None:
    config = Residual(blocks=blocks, width=4, seed=3)
    tensors = initial(config, 3, 7)
    source = torch.Generator().manual_seed(blocks)
    for name, tensor in tensors.items():  # all parts at work: gains, shifts and biases too
        if not name.endswith((".weight", ".variance")):
            tensor += 0.3 * torch.randn(tensor.shape, generator=source)
    tensors = {name: tensor.double().requires_grad_(not name.endswith(RUNNING)) for name, tensor in tensors.items()}
    network = loaded(reference(blocks, 4, 3, 7).double(), tensors)
    x = torch.randn(5, 3, side, side, generator=source, dtype=torch.float64)
    for training in (True, False):  # the second with the means and variances that the first has moved
        network.train(training)
        actual, expected = scores(tensors, x, config, training)[0], network(x)
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
        actual.square().sum().backward()
        expected.square().sum().backward()
        first = network[0]
        assert isinstance(first, nn.Conv2d)
        torch.testing.assert_close(tensors["first.weight"].grad, first.weight.grad, rtol=1e-7, atol=1e-9)
    assert not torch.equal(tensors["first.mean"], torch.zeros(4))


def test_the_contrastive_loss_has_cosines() -> None:
    config = replace(TINY, methods=(Method("contrastive"),))
    tensors = initial(config, 1, 3)
    x = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    cosines = scores(tensors, x, config)
    assert cosines.abs().max() <= 1 + 1e-6
    tensors["out.weight"] *= torch.tensor([1.0, 5.0, 0.1])
    torch.testing.assert_close(scores(tensors, x, config), cosines)


def test_the_first_weights() -> None:
    tensors = initial(Residual(seed=1), 3, 100)
    # He et al.: deviation sqrt(2 / (9 * 64)) = 0.0589 where 64 channels are made
    assert tensors["2.4.1.weight"].std().item() == pytest.approx(math.sqrt(2 / 576), rel=0.02)
    assert tensors["out.weight"].std().item() == pytest.approx(1 / 8, rel=0.03)
    again, other = initial(Residual(seed=1), 3, 100), initial(Residual(seed=2), 3, 100)
    assert torch.equal(tensors["first.weight"], again["first.weight"])
    assert not torch.equal(tensors["first.weight"], other["first.weight"])
    changed = replace(Residual(seed=1), methods=(CONSTANT,))
    assert torch.equal(initial(changed, 3, 100)["2.8.1.weight"], tensors["2.8.1.weight"])


def test_pictures_are_cut_out_and_mirrored() -> None:
    picture = torch.arange(1, 10).view(1, 1, 3, 3)
    padded = nn.functional.pad(picture, (4,) * 4).repeat(4, 1, 1, 1)
    corners = torch.tensor([[4, 3, 8, 4], [4, 5, 4, 6]])
    cuts = residual.cut_out(padded, corners, torch.tensor([False, False, False, True]))
    assert cuts[:, 0].tolist() == [
        [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
        [[0, 0, 0], [2, 3, 0], [5, 6, 0]],  # a row above, a column to the right
        [[0, 0, 0]] * 3,
        [[0, 0, 3], [0, 0, 6], [0, 0, 9]],
    ]


def test_a_step_sees_standardised_pictures_cut_anew_each_epoch(data: Labelled, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []

    def noted(parameters: dict[str, Tensor], x: Tensor, config: Residual, training: bool = False) -> Tensor:
        seen.append(x)
        return scores(parameters, x, config, training)

    monkeypatch.setattr(residual, "scores", noted)
    learner = Learner(TINY, data)
    learner.run_epoch()
    learner.run_epoch()
    assert [len(x) for x in seen] == [16] * 8  # 75 pictures: four whole batches
    # Black is (0 - mean) / deviation of the training pictures.
    black = -data.train.mean() / data.train.std()
    assert torch.cat(seen).min().item() == pytest.approx(black, rel=1e-5)
    plain = learner.standard(torch.from_numpy(data.train.transpose(0, 3, 1, 2)))
    assert (plain.mean().item(), plain.std().item()) == pytest.approx((0, 1), abs=1e-3)
    # Some are whole, and most are not; each has lost some border or is one of the pictures, mirrored or not.
    whole = [(x.flip(-1) if turned else x) for x in torch.cat(seen) for turned in (False, True)]
    kept = sum(any(torch.equal(cut, other) for other in plain) for cut in whole)
    assert 0 < kept < 20
    first, second = torch.cat(seen[:4]), torch.cat(seen[4:])
    assert sum(any(torch.equal(cut, other) for other in first) for cut in second) < 10  # of 162 cuts of a picture


def test_it_learns(data: Labelled) -> None:
    result = train(replace(TINY, epochs=12, width=8), data)
    assert result.arrays["errors"].shape == (1, 4)
    assert result.arrays["errors"].mean() == result.metrics["error"] < 0.5  # of 0.75 by chance
    assert result.arrays["counts"].tolist() == [40, 20, 10, 5]
    assert result.history["epoch"].tolist() == list(range(12))
    assert result.history["train_loss"][-1] < result.history["train_loss"][0] / 2


def test_each_network_of_a_stack_is_as_if_alone(data: Labelled) -> None:
    config = replace(TINY, methods=grids.methods((4, 2, 8))[::5], epochs=1)
    together, shown = trained(config, data)
    half, _ = trained(replace(config, precision="bfloat16"), data)
    assert {method.loss for method in config.methods} == {"softmax", "contrastive"}
    for i, method in enumerate(config.methods):
        alone, logits = trained(replace(config, methods=(method,)), data)
        torch.testing.assert_close(together[:, i], alone[:, 0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(shown[i], logits[0], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(half[:, i], alone[:, 0], rtol=0.1, atol=0.05)  # bfloat16 has 8 bits
        assert (alone > 0).all()


def trained(config: Residual, data: Labelled) -> tuple[Tensor, Tensor]:
    """The losses of an epoch [steps, S], and the scores of the test images after it [S, M, C]."""
    learner = Learner(config, data)
    losses = learner.run_epoch()
    x = learner.standard(torch.from_numpy(data.test.transpose(0, 3, 1, 2)))
    return losses, scores(learner.parameters, x, config).detach()


def test_seeds_differ_and_methods_share_what_is_random(data: Labelled) -> None:
    first, second = (train(replace(TINY, epochs=1, seed=seed), data).history["train_loss"] for seed in (0, 1))
    assert first != second
    # With a rate of next to nothing a weighting changes the loss alone, and all of its draws are shared.
    still = replace(TINY, epochs=1, learning_rate=1e-30)
    relative, importance = (
        train(replace(still, methods=(Method("softmax", "uniform", w, 4),)), data).history["train_loss"][0]
        for w in ("relative", "importance")
    )
    constant = train(replace(still, methods=(Method("softmax", "uniform", "constant", 4),)), data).history["train_loss"]
    # Uniform over 4 classes with m = 4: importance weights are 1 = those of relative ones; constant ones 1/4.
    assert relative == importance > constant[0]


def test_ties_at_the_top_are_errors(data: Labelled) -> None:
    model = Learner(TINY, data)
    model.parameters["out.weight"].data.zero_()
    pictures = data.test[:4]
    assert model.errors(pictures, np.array([0, 1, 2, 2])).tolist() == [[1, 1, 1, 0]]  # no picture of class 3
    model.parameters["out.bias"].data[..., 2] = 1.0
    assert model.errors(pictures, np.array([0, 1, 2, 2])).tolist() == [[1, 1, 0, 0]]


def test_the_published_schedule() -> None:
    assert (Residual().epochs, Residual().batch, Residual().decay, Residual().momentum) == (256, 128, 1e-4, 0.9)
    rates = [rate(Residual().learning_rate, epoch, 256) for epoch in (0, 159, 160, 179, 180, 255)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_the_task_reads_its_data() -> None:
    result = residual.train(replace(TINY, epochs=1))
    assert result.arrays["counts"].tolist() == images.counts("digits", "exp").tolist()
    ours, halves = images.published("digits", "step"), images.load("digits", "step")
    assert np.array_equal(ours.train, halves.train)


def test_its_pictures_are_those_that_the_small_network_sees_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)

    def part(each: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        return rng.integers(0, 256, (100 * each, 32, 32, 3)).astype(np.uint8), np.repeat(np.arange(100), each)

    archive = Labelled(*part(8), *part(1), 100)
    monkeypatch.setattr("sumexp.datasets.read", lambda name: archive)
    few = labelled.imbalanced_counts("exp", 100, 8, 4)
    monkeypatch.setattr(images, "counts", lambda source, imbalance: few)
    large, small = images.published("cifar-100", "exp"), images.load("cifar-100", "exp")
    assert large.train.shape[1:] == (32, 32, 3)
    assert np.array_equal(large.counts, small.counts)
    assert np.array_equal(labelled.halved(large.test), small.test)


def test_the_tail_that_is_ready_made_serves() -> None:
    try:
        published = images.published("cifar-100-lt", "exp")
    except datasets.DataError as error:
        pytest.skip(str(error))
    assert published.train.shape == (10_847, 32, 32, 3)
    assert published.test.shape == (10_000, 32, 32, 3)
    assert np.array_equal(published.counts, images.counts("cifar-100", "exp"))
    # Each of its pictures is one of the training pictures, of its class, as the small network sees them halved.
    every = datasets.read("cifar-100-small")
    assert isinstance(every, Labelled)
    known = {(image.tobytes(), label) for image, label in zip(every.train, every.train_labels.tolist(), strict=True)}
    halves = labelled.halved(published.train[::50])
    assert all((half.tobytes(), int(y)) in known for half, y in zip(halves, published.train_labels[::50], strict=True))
