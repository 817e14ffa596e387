"""The constant model: independent pixels, each with its frequency among the training images.

A decoder that ignores z learns it; its bound is where training stays on a plateau or collapses to.
"""

from dataclasses import dataclass

import numpy as np
import torch

from sumexp import datasets
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.vae.config import Source
from sumexp.chapters.vae.training import binary


@dataclass(frozen=True)
class Constant:
    """The images, and the number of test images as in a `Stack`."""

    source: Source
    test_images: int = 0


def judge(
    config: Constant, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    r"""The mean of :math:`-\log p(x)` of the constant model over test images, in nats an image, ``nats``.

    A pixel that is black in a of n training images has the probability (a + 1) / (n + 2).
    """
    data = datasets.images(config.source)
    train, test = (binary(part, torch.float64, "cpu") for part in (data.train, data.test))
    black = (train.sum(0) + 1) / (len(train) + 2)
    x = test[: config.test_images or None]
    nats = -(x * black.log() + (1 - x) * (-black).log1p()).sum(-1)
    return Result({"nats": np.asarray(nats)}, {"nats": nats.mean().item()})
