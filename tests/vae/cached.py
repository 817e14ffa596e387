"""The runs of the grid that are in the store: what experiments on trained models rest on. Nothing is trained here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sumexp.chapters.vae import Member, Temperature, comparison, grids, train
from sumexp.chapters.vae.comparison import Trained
from sumexp.chapters.vae.config import Source, Stack
from tests.complete import complete


@dataclass(frozen=True)
class Found:
    """The runs of the families that are crossed with temperature, on one data set.

    Attributes:
        profile: the profile that asks for them.
        keys: theirs.
        cases: what they say, by case.
    """

    profile: str
    keys: tuple[str, ...]
    cases: Mapping[Member, Trained]

    def pairs(self) -> list[tuple[Temperature, Trained, Trained]]:
        """At each temperature the Gaussian and the Gumbel, both with the published divergence."""
        ours, theirs = (comparison.temperatures(self.cases, family) for family in (grids.GAUSSIAN, grids.GUMBEL))
        return [(tau, ours[tau], theirs[tau]) for tau in ours]


def found(source: Source) -> Found | None:
    """Those of the largest profile of which all are there; None if none is."""
    for profile in ("paper", "cpu"):
        if plan := grids.PLANS[profile].get(source):
            asked = [stack for stack in grids.stacks(source, plan) if _families(stack) == set(grids.CORE)]
            if own := complete(train, asked, grids.data):
                cases: dict[Member, Trained] = {}
                for stack, run in zip(asked, own, strict=True):
                    cases = comparison.joined(cases, comparison.gathered(stack, run.arrays, run.history))
                return Found(profile, tuple(run.key for run in own), cases)
    return None


def _families(stack: Stack) -> set[Member]:
    return {replace(one, seed=0, temperature=Temperature()) for one in stack.members}
