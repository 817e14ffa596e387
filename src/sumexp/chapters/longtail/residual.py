r"""The paper's network: a residual network on images of 32 x 32, by the published schedule, for several methods.

The network is that of He et al. for CIFAR: a 3 x 3 convolution, three stages of n blocks of two such convolutions, of
16, 32 and 64 channels, each followed by a batch norm, and the mean over positions; 6n + 2 layers, 56 for n = 9. A block
adds its input; the first block of a stage takes every other pixel of it, with zeros as the new channels. With the
features h the scores are h B + b, or for the contrastive loss the cosines of h and the columns of B.

A training image is padded by 4 black pixels on each side, cropped at random, and mirrored or not. All methods of a seed
have the same batches, crops, initial weights and, for one law and m, draws. There is no clipping and no warm-up.

The methods of a run train side by side, each as if it were alone: their channels lie next to each other, a convolution
has a group for each method, and a batch norm treats each channel by itself. Convolutions on a GPU are deterministic and
never use TF32; only the order of sums in gradients of repeated logits may vary.

Source: Rawat et al., section 5.1 and appendix E; K. He, X. Zhang, S. Ren and J. Sun, Deep Residual Learning for Image
Recognition, CVPR 2016, section 4.2.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from sumexp import _checks as checks
from sumexp import _descent as descent
from sumexp._descent import generator
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.longtail import images
from sumexp.chapters.longtail.config import check_descent
from sumexp.chapters.longtail.training import checked, class_errors, heads, names, rate, result
from sumexp.chapters.models.sampled.methods import Method, draws, method_losses, uniform_sizes
from sumexp.datasets.labelled import Imbalance, Labelled
from sumexp.samplers._laws import Uniform

Source: TypeAlias = Literal["digits", "cifar-100", "cifar-100-lt"]
Precision: TypeAlias = Literal["float32", "bfloat16"]

STAGES = 3
PADDING = 4
"""Black pixels on each side of a training image before it is cropped."""


@dataclass(frozen=True)
class Residual:
    """Residual networks that are trained side by side, one by each method, on a long-tailed set of images.

    Attributes:
        source: the data set; ``cifar-100-lt`` has a tail already, of imbalance ``exp``.
        blocks: n, of each stage.
        width: channels of the first stage; the next ones have twice and four times as many.
        batch: images of a step; an incomplete last batch is dropped.
        learning_rate: of the first epoch; times 0.1 after 160/256 of the epochs, and 0.01 after 180/256.
        precision: of activations; weights, statistics, features and losses are always float32.
    """

    source: Source = "cifar-100"
    imbalance: Imbalance = "exp"
    methods: tuple[Method, ...] = (Method(),)
    seed: int = 0
    blocks: int = 9
    width: int = 16
    epochs: int = 256
    batch: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    decay: float = 1e-4
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        checks.choice("source", self.source, get_args(Source))
        checks.choice("precision", self.precision, get_args(Precision))
        checks.positive(self, "blocks", "width")
        check_descent(self)
        if self.source == "cifar-100-lt" and self.imbalance != "exp":
            raise ValueError(f"imbalance is {self.imbalance!r} of cifar-100-lt, which has the images of exp alone")


def train(
    config: Residual,
    /,
    data: Labelled | None = None,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """Train the networks on ``data``, by default its source, with images of a side divisible by 4.

    Results and errors are those of :func:`sumexp.chapters.longtail.training.train`.
    """
    data = data or images.published(config.source, config.imbalance)
    learner = Learner(config, data, device)
    losses = descent.train_epochs(
        learner, config.epochs, lambda epoch, loss: [loss], progress=progress, checkpoint=checkpoint
    )
    return result(config, losses, learner.errors(data.test, data.test_labels), data.counts)


class Learner(descent.Learner):
    """Networks in training; ``parameters``, see :func:`initial`, include the batch norms' running statistics."""

    def __init__(self, config: Residual, data: Labelled, device: str = "cpu") -> None:
        """Start from the first weights."""
        super().__init__(device)
        labels, self.log_prior = checked(torch.from_numpy(data.train_labels), data.classes, config.batch, device)
        self.config, self.labels, self.steps = config, labels, len(labels) // config.batch
        self.names = names(config.methods)
        self.pictures = _channels_first(F.pad(torch.from_numpy(data.train), (0, 0, *(PADDING,) * 4))).to(device)
        colours = data.train.reshape(-1, data.train.shape[-1]) / 255
        self.centre, self.scale = (
            torch.tensor(part, dtype=torch.float32, device=device).view(-1, 1, 1)
            for part in (colours.mean(0), colours.std(0) + 1e-6)
        )
        first = initial(config, data.train.shape[-1], data.classes)
        self.parameters = {name: tensor.to(device) for name, tensor in first.items()}
        trained = [self.parameters[name].requires_grad_() for name in first if not name.endswith(RUNNING)]
        self.optimiser = descent.sgd(
            trained, config.learning_rate, device, momentum=config.momentum, decay=config.decay
        )
        epochs = range(config.epochs)
        self.rates = [rate(config.learning_rate, e, config.epochs) for e in epochs for _ in range(self.steps)]

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Indices of images [B], their corners [2, B], whether each is mirrored [B], and uniform draws [B, m]."""
        config, n = self.config, len(self.labels)
        order = torch.randperm(n, generator=generator(config.seed, "order", self.epoch)).to(self.device)
        cuts = generator(config.seed, "mirror", self.epoch)
        turned = torch.randint(2, (n,), generator=cuts).bool().to(self.device)
        corners = torch.randint(2 * PADDING + 1, (2, n), generator=cuts).to(self.device)
        law, sizes = Uniform(len(self.log_prior), self.device), uniform_sizes(config.methods)
        # A generator for each m: draws of one m are independent of what else the run trains.
        sources = [generator(config.seed, "negatives", self.epoch, self.device) for _ in sizes]
        for batch in order[: self.steps * config.batch].view(-1, config.batch):
            uniform = (law.sample((config.batch, m), source) for m, source in zip(sizes, sources, strict=True))
            yield batch, corners[:, batch], turned[batch], *uniform

    def backward(self, *batch: Tensor) -> Tensor:
        """Set the gradients of a batch by deterministic convolutions; returns its losses."""
        with _convolving():
            return super().backward(*batch)

    def losses(self, *batch: Tensor) -> Tensor:
        """The mean loss of each method [S]."""
        pictures, corners, turned, *uniform = batch
        x = self.standard(cut_out(self.pictures[pictures], corners, turned))
        labels, methods = self.labels[pictures], self.config.methods
        drawn = draws(methods, labels, self.log_prior, uniform)
        logits = scores(self.parameters, x, self.config, training=True)
        return method_losses(logits, labels, methods, self.log_prior, drawn)

    def standard(self, pictures: Tensor) -> Tensor:
        """Images [B, channels, side, side], uint8, with each colour of mean 0 and variance 1 in the training set."""
        return (pictures.float() / 255 - self.centre) / self.scale

    @torch.no_grad()
    def errors(self, pictures: NDArray[np.uint8], labels: NDArray[np.int64]) -> Tensor:
        """The error of each class [S, C] on images [M, side, side, channels] with labels [M]; ties are errors."""

        def logits(part: Tensor) -> Tensor:
            return scores(self.parameters, self.standard(_channels_first(part).to(self.device)), self.config)

        with _convolving():
            return class_errors(logits, torch.from_numpy(pictures), torch.from_numpy(labels), len(self.log_prior))


def _convolving() -> AbstractContextManager[None]:
    """Deterministic convolutions without TF32."""
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)


RUNNING = (".mean", ".variance")
"""How the names of a batch norm's running mean and variance end, which are not trained."""


def convolutions(config: Residual, channels: int) -> Iterator[tuple[str, int, int, int]]:
    """Name, input channels, output channels and stride of each 3 x 3 convolution, in their order."""
    yield "first", channels, config.width, 1
    taken = config.width
    for stage, block in product(range(STAGES), range(config.blocks)):
        made = config.width << stage
        yield f"{stage}.{block}.0", taken, made, stride(stage, block)
        yield f"{stage}.{block}.1", made, made, 1
        taken = made


def stride(stage: int, block: int) -> int:
    """The stride of a block: 2 for the first block of the second and third stage, else 1."""
    return 2 if stage > 0 and block == 0 else 1


def initial(config: Residual, channels: int, classes: int) -> dict[str, Tensor]:
    """The first weights by name, the same for all methods of a seed; channels of S methods lie next to each other.

    Those of convolutions are normal of variance 2 / (9 x output channels) (He et al., Delving Deep into Rectifiers,
    2015), the batch norms' gains 1, their shifts and running means 0 and variances 1, ``out.weight`` [S, 4 width, C]
    normal of variance 1 / (4 width), ``out.bias`` [S, 1, C] 0.
    """
    source, weights, count = generator(config.seed, "weights"), {}, len(config.methods)
    for name, taken, made, _ in convolutions(config, channels):
        weight = torch.randn(made, taken, 3, 3, dtype=torch.float32, generator=source) * math.sqrt(2 / (9 * made))
        weights[f"{name}.weight"] = weight.repeat(count, 1, 1, 1)
        weights |= {f"{name}.{part}": weight.new_ones(count * made) for part in ("gain", "variance")}
        weights |= {f"{name}.{part}": weight.new_zeros(count * made) for part in ("shift", "mean")}
    features = config.width << (STAGES - 1)
    out = torch.randn(features, classes, dtype=torch.float32, generator=source) / math.sqrt(features)
    return weights | {"out.weight": out.repeat(count, 1, 1), "out.bias": out.new_zeros(count, 1, classes)}


def scores(parameters: Mapping[str, Tensor], x: Tensor, config: Residual, training: bool = False) -> Tensor:
    """The scores of all classes [S, B, C] for standardised images ``x`` [B, channels, side, side].

    ``training`` uses the statistics of the batch and updates the running ones in ``parameters`` (:func:`initial`).
    """
    count = len(config.methods)

    def unit(name: str, x: Tensor, stride: int = 1, groups: int = count) -> Tensor:
        mean, variance, gain, shift = (parameters[f"{name}.{part}"] for part in ("mean", "variance", "gain", "shift"))
        weight = parameters[f"{name}.weight"].to(x.dtype)
        convolved = F.conv2d(x, weight, stride=stride, padding=1, groups=groups)
        return F.batch_norm(convolved, mean, variance, gain, shift, training)

    if config.precision == "bfloat16":
        x = x.to(torch.bfloat16, memory_format=torch.channels_last)
    h = unit("first", x, groups=1).relu()  # all methods see the same images
    for stage, block in product(range(STAGES), range(config.blocks)):
        by = stride(stage, block)
        added = unit(f"{stage}.{block}.1", unit(f"{stage}.{block}.0", h, by).relu())
        if by > 1:
            h = torch.unflatten(h[:, :, ::by, ::by], 1, (count, -1))
            h = F.pad(h, (0, 0, 0, 0, 0, h.shape[2])).flatten(1, 2)  # zeros for the new channels of each method
        h = (added + h).relu()
    weight, bias = parameters["out.weight"], parameters["out.bias"]
    features = torch.unflatten(h.to(weight.dtype).mean((2, 3)), 1, (count, -1)).transpose(0, 1)
    return heads(features, weight, bias, config.methods)


def cut_out(padded: Tensor, corners: Tensor, turned: Tensor) -> Tensor:
    """Crops of padded images [B, channels, side + 2 `PADDING`, the same], mirrored where ``turned`` [B].

    ``corners`` [2, B] are the first row and column of each crop, 0 to 2 `PADDING`.
    """
    reach = torch.arange(padded.shape[-1] - 2 * PADDING, device=padded.device)
    columns = torch.where(turned[:, None], reach.flip(0), reach)
    rows, columns = corners[0, :, None] + reach, corners[1, :, None] + columns
    picture = torch.arange(len(padded), device=padded.device)[:, None, None]
    return padded[picture, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _channels_first(pictures: Tensor) -> Tensor:
    return pictures.permute(0, 3, 1, 2).contiguous()
