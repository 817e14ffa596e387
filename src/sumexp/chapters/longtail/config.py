"""The settings of classifiers that are trained together on a long-tailed set of images."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from sumexp import _checks as checks
from sumexp.chapters.models.sampled.methods import Method
from sumexp.datasets.labelled import Imbalance

Source: TypeAlias = Literal["digits", "cifar-100", "cifar-100-small"]


@dataclass(frozen=True)
class Stack:
    """Methods that are trained side by side: of one seed, on the same batches, draws and initial weights.

    Attributes:
        imbalance: ``exp`` or ``step``.
        seed: of weights, order, mirrored images and negatives.
        filters: number of fixed features, see `sumexp.chapters.longtail.features`.
        hidden: width of the hidden layer.
        batch: images of a step; an incomplete last batch is dropped.
        learning_rate: of the first step; times 0.1 after 160/256 of the steps, and 0.01 after 180/256.
        clip: the largest norm of a classifier's gradient.
    """

    source: Source = "digits"
    imbalance: Imbalance = "exp"
    methods: tuple[Method, ...] = (Method(),)
    seed: int = 0
    filters: int = 50
    hidden: int = 64
    epochs: int = 20
    batch: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    decay: float = 1e-4
    clip: float = 5.0

    def __post_init__(self) -> None:
        checks.choice("source", self.source, get_args(Source))
        checks.positive(self, "filters", "hidden", "clip")
        check_descent(self)


def check_descent(config: Any) -> None:
    """Check the settings that both networks of this chapter share; raises ValueError."""
    if not config.methods or len(set(config.methods)) < len(config.methods):
        raise ValueError(f"{len(config.methods)} methods, of which {len(set(config.methods))} differ; give some, once")
    checks.choice("imbalance", config.imbalance, get_args(Imbalance))
    checks.positive(config, "epochs", "batch", "learning_rate")
    if config.seed < 0 or not 0 <= config.momentum < 1 or config.decay < 0:
        raise ValueError(
            f"seed, momentum and decay are {config.seed}, {config.momentum}, {config.decay}; "
            "they must be >= 0, and the momentum below 1"
        )
    others, most = config.batch - 1, max(method.negatives * (method.law == "batch") for method in config.methods)
    if most > others:
        raise ValueError(f"a batch of {config.batch} has {others} other labels, fewer than {most} negatives")
