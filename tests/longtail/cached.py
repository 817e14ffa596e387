"""The runs of the grid that are in the store: what experiments on trained networks rest on. Nothing is trained here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sumexp.chapters.longtail import grids
from sumexp.chapters.longtail.config import Source
from sumexp.chapters.longtail.grids import Config, Plan
from sumexp.chapters.longtail.images import counts
from sumexp.chapters.models.sampled.comparison import Values
from sumexp.chapters.models.sampled.groups import Group, groups
from sumexp.chapters.models.sampled.methods import Method
from sumexp.datasets.labelled import Imbalance
from tests.complete import complete


@dataclass(frozen=True)
class Found:
    """The runs on one data set and profile.

    Attributes:
        data: the data set, as claims name it.
        profile: the profile that asks for them.
        keys: theirs.
        errors: of each method [seeds, C].
        members: which classes are head, torso and tail.
        m: the base number of negatives, the fewest and the most.
    """

    data: str
    profile: str
    keys: tuple[str, ...]
    errors: Mapping[Method, Values]
    members: Mapping[Group, NDArray[np.bool_]]
    m: tuple[int, int, int]


@cache
def found(imbalance: Imbalance) -> Found | None:
    """Those on CIFAR-100 of the largest profile of the book of which all seeds are there; None if none is."""

    def asked(source: Source, plan: Plan) -> list[Config]:
        return [one for one in grids.configs(source, plan) if one.imbalance == imbalance]

    return _found(asked, grids.tailed() if imbalance == "exp" else ())


@cache
def confirming() -> Found | None:
    """Those of the confirmation, of the largest profile that asks for one and has all of it; None if none does."""
    return _found(lambda source, plan: list(grids.confirmation(source, plan)))


def _found(asked: Callable[[Source, Plan], list[Config]], tail: Sequence[Config] = ()) -> Found | None:
    """The first of these that are all there; the tail that is ready-made comes after the archive."""
    for name in ("paper", "cpu"):
        every = [(source, plan, asked(source, plan)) for source, plan in grids.PLANS[name].items()]
        if name == "paper":
            every.insert(1, ("cifar-100", grids.PLANS[name]["cifar-100"], list(tail)))
        for source, plan, configs in every:
            if own := complete(grids.task(plan), configs, grids.data):
                base, fewest, most = plan.negatives
                imbalance = configs[0].imbalance
                return Found(
                    "cifar-100",
                    name,
                    tuple(run.key for run in own),
                    grids.gathered(zip(configs, (run.arrays["errors"] for run in own), strict=True))[imbalance],
                    groups(counts(source, imbalance), "numbers"),
                    (base, fewest, most),
                )
    return None
