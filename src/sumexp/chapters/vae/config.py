"""The settings of a stack of categorical VAEs that are trained together."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from sumexp import _checks as checks
from sumexp.perturb.noises import FAMILIES, Family

Divergence: TypeAlias = Literal["softmax", "exact"]
Precision: TypeAlias = Literal["float32", "float64"]
Source: TypeAlias = Literal["digits", "mnist", "fashion-mnist", "omniglot"]


@dataclass(frozen=True)
class Temperature:
    r"""The schedule :math:`\tau_t = \max(\tau_{\min}, \tau_0e^{-rt})`, t the step, refreshed every ``every`` steps.

    The public code refreshes at the end of a step t that is a multiple of ``every``, so that step t + 1 is the first
    to see :math:`\tau_t`: steps 0 to 1000 have :math:`\tau_0`, steps 1001 to 2000 have :math:`\tau_{1000}`. Here
    ``start`` is :math:`\tau_0`, ``rate`` r (0 for a fixed temperature) and ``floor`` :math:`\tau_{\min}`.
    """

    start: float = 1.0
    rate: float = 1e-5
    floor: float = 0.1
    every: int = 1000

    def __post_init__(self) -> None:
        checks.positive(self, "start", "floor", "every")
        if not (math.isfinite(self.rate) and self.rate >= 0):
            raise ValueError(f"rate is {self.rate}; it must be finite and >= 0")
        if self.floor > self.start:
            raise ValueError(f"floor {self.floor} lies above start {self.start}; the temperature falls from start")

    def at(self, step: int) -> float:
        """The temperature of step 0, 1, ..."""
        refreshed = max(0, step - 1) // self.every * self.every
        return max(self.floor, self.start * math.exp(-self.rate * refreshed))


def public(steps: int) -> Temperature:
    """The schedule of the public code, from 1 to 0.225 in 150,000 steps (300 epochs), compressed into ``steps``."""
    if steps < 1:
        raise ValueError(f"steps is {steps}; it must be at least 1")
    return Temperature(rate=1.5 / steps, every=max(1, round(steps / 150)))


def fixed(temperature: float) -> Temperature:
    """A fixed temperature."""
    return Temperature(start=temperature, rate=0.0, floor=temperature)


@dataclass(frozen=True)
class Member:
    """One model of a stack; two members of the same seed share initial weights, data order and uniform numbers.

    Attributes:
        scale: factor on the standard noise; sqrt(pi^2/6) gives a Gaussian the variance of the Gumbel.
        divergence: of softmax(logits), as published, or ``exact``, of the distribution of the argmax.
        categories: K.
        straight_through: whether the forward pass takes the argmax.
    """

    noise: Family = "gumbel"
    scale: float = 1.0
    divergence: Divergence = "softmax"
    categories: int = 10
    temperature: Temperature = Temperature()
    straight_through: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        checks.choice("noise", self.noise, FAMILIES)
        checks.choice("divergence", self.divergence, get_args(Divergence))
        checks.positive(self, "scale")
        checks.whole("categories", self.categories, 2)
        checks.whole("seed", self.seed, 0)


@dataclass(frozen=True)
class Stack:
    """A data set and the models that are trained on it together; all share the sizes and the optimiser.

    Attributes:
        members: the models, all of one K.
        variables: N, the number of categorical variables.
        hidden: width of the hidden layers.
        batch: images a step; the last batch of an epoch may be smaller.
        learning_rate: of Adam.
        images: number of training images, the first of them; 0 means all.
        precision: of the training; evaluation is in float64 where it is a probability.
        samples: samples of z an image for loss and bound.
        importance: samples of z a test image for the estimate of log p(x); at most 30 for a validation image.
        test_images: number of test and validation images that are evaluated, the first of them; 0 means all.
    """

    source: Source = "digits"
    members: tuple[Member, ...] = (Member(),)
    variables: int = 10
    hidden: int = 300
    epochs: int = 8
    batch: int = 100
    learning_rate: float = 1e-3
    images: int = 0
    precision: Precision = "float32"
    samples: int = 10
    importance: int = 30
    test_images: int = 0

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("members is empty; a stack trains at least one model")
        if len(several := {member.categories for member in self.members}) > 1:
            raise ValueError(f"the members have {sorted(several)} categories; give a stack to each")
        checks.choice("source", self.source, get_args(Source))
        checks.choice("precision", self.precision, get_args(Precision))
        checks.positive(self, "variables", "hidden", "epochs", "batch", "samples", "importance", "learning_rate")
        for name in ("images", "test_images"):
            checks.whole(name, getattr(self, name), 0)

    @property
    def categories(self) -> int:
        """K of all members."""
        return self.members[0].categories
