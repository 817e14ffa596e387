"""The runs of the grid that are in the store: what experiments on trained models rest on. Nothing is trained here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sumexp.chapters.vae import Member, Temperature, comparison, grids, train
from sumexp.chapters.vae.comparison import Trained
from sumexp.chapters.vae.config import Source, Stack
from tests.complete import largest


@dataclass(frozen=True)
class Found:
    """The runs of the families that are crossed with temperature, on one data set.

    Attributes:
        stated: what a finding rests on.
        cases: what the runs say, by case.
    """

    stated: Mapping[str, Any]
    cases: Mapping[Member, Trained]

    def pairs(self) -> list[tuple[Temperature, Trained, Trained]]:
        """At each temperature the Gaussian and the Gumbel, both with the published divergence."""
        ours, theirs = (comparison.temperatures(self.cases, family) for family in (grids.GAUSSIAN, grids.GUMBEL))
        return [(tau, ours[tau], theirs[tau]) for tau in ours]


def found(source: Source) -> Found | None:
    """Those of the largest profile of which all are there; None if none is."""

    def asked(profile: str) -> list[Stack]:
        plan = grids.PLANS[profile].get(source)
        return [one for one in grids.stacks(source, plan) if _families(one) == set(grids.CORE)] if plan else []

    if (runs := largest(train, asked, grids.data)) is None:
        return None
    cases: dict[Member, Trained] = {}
    for stack, run in zip(runs.configs, runs.runs, strict=True):
        cases = comparison.joined(cases, comparison.gathered(stack, run.arrays, run.history))
    return Found(runs.stated, cases)


def _families(stack: Stack) -> set[Member]:
    return {replace(one, seed=0, temperature=Temperature()) for one in stack.members}
