r"""The paper's network for photographs: a ResNet-50 on ImageNet-LT or iNaturalist 2018; a run has one method.

The lists are in the catalogue; the photographs lie below the folder of the data, in a folder of the lists' name, as the
lists name them: ``imagenet-lt/train/n01440764/n01440764_190.JPEG``. They are read one by one as they are needed, each
cut and mirrored anew in each epoch by a generator of (seed, epoch, its place in the list), so that neither their order
nor the number of readers changes a run.

The network is that of He et al., with the stride of a block in its convolution of 3 x 3, as is usual: a convolution of
7 x 7 and a pool of 3 x 3, four stages of 3, 4, 6 and 3 blocks of convolutions of 1 x 1, 3 x 3 and 1 x 1, and the mean
over the picture. SGD with momentum, the rate falling along a cosine; the paper names no warm-up, and for iNaturalist no
setting at all, so that ImageNet's stand for both.

Source: Rawat et al., appendix E; K. He, X. Zhang, S. Ren and J. Sun, Deep Residual Learning for Image Recognition, CVPR
2016, table 1; P. Goyal et al., Accurate, Large Minibatch SGD, 2017, for the augmentation.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from sumexp import _checks as checks
from sumexp import datasets
from sumexp._descent import Resumable, generator
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.longtail.images import lists
from sumexp.chapters.longtail.residual import check_batch, run
from sumexp.chapters.models.sampled.methods import Method, draws, method_losses
from sumexp.datasets.listed import Listed, read_picture

Source: TypeAlias = Literal["imagenet-lt", "inaturalist-2018"]


@dataclass(frozen=True)
class Photographs:
    """A residual network that is trained by one method on listed photographs.

    Attributes:
        source: the data set, whose last list is judged.
        method: what it is trained on.
        seed: of weights, order, cuts and negatives.
        blocks: of each stage.
        width: channels within the blocks of the first stage; each next stage has twice as many.
        side: of a picture as the network takes it.
        epochs: passes over the photographs.
        batch: photographs of a step; a last one that is not whole is left out.
        learning_rate: of the first step; it falls to 0 along a cosine.
        momentum: of the descent.
        decay: of the weights.
    """

    source: Source = "imagenet-lt"
    method: Method = field(default_factory=Method)
    seed: int = 0
    blocks: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    side: int = 224
    epochs: int = 90
    batch: int = 512
    learning_rate: float = 0.4
    momentum: float = 0.9
    decay: float = 5e-4

    def __post_init__(self) -> None:
        checks.choice("source", self.source, get_args(Source))
        checks.positive(self, "width", "side", "epochs", "batch", "learning_rate")
        if not self.blocks or min(self.blocks) < 1 or self.seed < 0 or not 0 <= self.momentum < 1 or self.decay < 0:
            raise ValueError(
                f"blocks, seed, momentum and decay are {self.blocks}, {self.seed}, {self.momentum}, {self.decay}; give "
                "a block or more of each stage, numbers >= 0, and a momentum below 1"
            )
        check_batch(self.method, self.batch)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The method, as stacks of methods have theirs."""
        return (self.method,)


def train(
    config: Photographs, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    """Train the network on its photographs, and judge it on those of the last list.

    Returns:
        as :func:`sumexp.chapters.longtail.residual.train`.

    Raises:
        DataError: if a list or a photograph is absent, damaged or undeclared.
        FloatingPointError: if the loss is not finite.
    """
    first, *_, last = lists(config.source)
    folder = datasets.root() / config.source
    return fit(config, folder, first, last, device=device, progress=progress, checkpoint=checkpoint)


def fit(
    config: Photographs,
    folder: Path,
    first: Listed,
    last: Listed,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """The same for any lists of photographs in a folder.

    Raises:
        ValueError: if there are fewer photographs than a batch, or a class has none.
        DataError: if one cannot be read.
        FloatingPointError: if the loss is not finite.
    """
    learner = Learner(config, folder, first, device)
    settings = config.method, config.epochs, config.learning_rate
    return run(learner, learner.run_epoch, lambda: learner.errors(last), first.counts, settings, progress, checkpoint)


class Learner(Resumable):
    """The state of a network that is trained.

    Attributes:
        parameters: what is trained, and the running means and variances of the batch norms.
    """

    def __init__(self, config: Photographs, folder: Path, listed: Listed, device: str = "cpu") -> None:
        """Start anew.

        Args:
            config: what is trained.
            folder: of the photographs.
            listed: those to train on.
            device: where to train.

        Raises:
            ValueError: if there are fewer photographs than a batch, or a class has none.
        """
        if len(listed.paths) < config.batch:
            raise ValueError(
                f"there are {len(listed.paths)} photographs for a batch of {config.batch}; lower the batch"
            )
        if not listed.counts.all():
            raise ValueError(f"class {listed.counts.argmin()} has no training picture; leave it out")
        self.config, self.folder, self.listed, self.device = config, folder, listed, device
        self.log_prior = torch.from_numpy(listed.counts / listed.counts.sum()).log().to(device)
        self.network = network(config, len(listed.counts))
        reset(self.network, generator(config.seed, "weights"))
        self.network.to(device)
        self.parameters = {
            name: tensor
            for name, tensor in self.network.state_dict(keep_vars=True).items()
            if tensor.is_floating_point()
        }
        self.optimiser = torch.optim.SGD(
            self.network.parameters(), config.learning_rate, config.momentum, weight_decay=config.decay
        )
        self.epoch = 0

    def run_epoch(self) -> Tensor:
        """Pass once over the photographs; returns the mean loss over the steps, a number."""
        config, steps = self.config, len(self.listed.paths) // self.config.batch
        order = torch.randperm(len(self.listed.paths), generator=generator(config.seed, "order", self.epoch))
        drawn = generator(config.seed, "negatives", self.epoch)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        self.network.train()
        pictures = _Pictures(self.folder, self.listed, config, self.epoch)
        for step, (x, labels) in enumerate(self.batches(pictures, order[: steps * config.batch].tolist())):
            for group in self.optimiser.param_groups:
                group["lr"] = rate(config, self.epoch * steps + step, config.epochs * steps)
            negatives = draws(config.methods, labels, self.log_prior, drawn)
            logits = self.network(x).unsqueeze(0)
            loss = method_losses(logits, labels, config.methods, self.log_prior, negatives).sum()
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
            total += loss.detach()
        self.epoch += 1
        return total / steps

    def batches(self, pictures: "_Pictures", order: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Photographs and their classes, read side by side where a GPU waits for them."""
        readers = min(16, os.cpu_count() or 1) if self.device.startswith("cuda") else 0
        for x, labels in DataLoader(pictures, self.config.batch, sampler=order, num_workers=readers):
            yield x.to(self.device), labels.to(self.device)

    @torch.no_grad()
    def errors(self, judged: Listed) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The share of each class that is classified wrongly [C]; a tie at the top counts as wrong."""
        self.network.eval()
        missed = []
        pictures = _Pictures(self.folder, judged, self.config)
        for x, labels in self.batches(pictures, list(range(len(judged.paths)))):
            logits, label = self.network(x), labels.unsqueeze(1)
            best_other = logits.scatter(1, label, -torch.inf).amax(1)
            missed.append((best_other >= logits.gather(1, label).squeeze(1)).cpu())
        classes = len(self.log_prior)
        wrong = np.bincount(judged.labels, torch.cat(missed).numpy(), minlength=classes)
        return np.asarray(wrong / np.bincount(judged.labels, minlength=classes).clip(1))


class _Pictures(Dataset[tuple[Tensor, int]]):
    """Photographs as the network takes them: to train in an epoch, or to be judged."""

    def __init__(self, folder: Path, listed: Listed, config: Photographs, epoch: int | None = None) -> None:
        self.folder, self.listed, self.config, self.epoch = folder, listed, config, epoch

    def __len__(self) -> int:
        return len(self.listed.paths)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        own = None if self.epoch is None else np.random.default_rng((self.config.seed, self.epoch, place))
        picture = read_picture(self.folder, self.listed.paths[place], self.config.side, own)
        return torch.from_numpy(picture), int(self.listed.labels[place])


class Block(nn.Module):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1, each with a batch norm, added to what it takes."""

    def __init__(self, taken: int, inner: int, stride: int) -> None:
        """Weights that are to be reset.

        Args:
            taken: channels that it takes.
            inner: channels within; it makes four times as many.
            stride: of the convolution of 3 x 3.
        """
        super().__init__()
        made = 4 * inner
        self.way = nn.Sequential(
            *_unit(taken, inner, 1), nn.ReLU(), *_unit(inner, inner, 3, stride), nn.ReLU(), *_unit(inner, made, 1)
        )
        self.kept = nn.Sequential(*_unit(taken, made, 1, stride)) if stride > 1 or taken != made else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[B, made, side, side] from [B, taken, ...]."""
        added: Tensor = self.way(x) + self.kept(x)
        return added.relu()


class Head(nn.Linear):
    """The scores of all classes: of the contrastive loss cosines, which have no bias."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, C] from [B, features]."""
        return super().forward(x) if self.bias is not None else F.normalize(x, dim=1) @ F.normalize(self.weight).T


def network(config: Photographs, classes: int) -> nn.Sequential:
    """The network, with weights that are to be reset."""
    taken = config.width
    layers: list[nn.Module] = [*_unit(3, taken, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage, blocks in enumerate(config.blocks):
        for block in range(blocks):
            layers.append(Block(taken, config.width << stage, 2 if stage > 0 and block == 0 else 1))
            taken = 4 * config.width << stage
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), Head(taken, classes, config.method.loss == "softmax")]
    return nn.Sequential(*layers)


def _unit(taken: int, made: int, size: int, stride: int = 1) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    return nn.Conv2d(taken, made, size, stride, size // 2, bias=False), nn.BatchNorm2d(made)


@torch.no_grad()
def reset(whole: nn.Module, own: torch.Generator) -> None:
    """First weights: of convolutions normal of variance 2 / (size^2 x channels made), of the head 1 / features.

    Source: He et al., Delving Deep into Rectifiers, 2015, for the convolutions.
    """
    for part in whole.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu", generator=own)
        elif isinstance(part, Head):
            part.weight.normal_(0, 1 / math.sqrt(part.in_features), generator=own)
            if part.bias is not None:
                part.bias.zero_()


def rate(config: Photographs, step: int, steps: int) -> float:
    """The learning rate of step 0, 1, ... of all steps."""
    return config.learning_rate * (1 + math.cos(math.pi * step / steps)) / 2


@cache
def operations(blocks: tuple[int, ...], width: int, side: int, classes: int) -> float:
    """The floating-point operations of a picture's way through the network, counted by torch on shapes alone."""
    config = Photographs(blocks=blocks, width=width, side=side)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        network(config, classes).eval()(torch.empty(1, 3, side, side))
    return float(counter.get_total_flops())
