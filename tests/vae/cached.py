"""The runs of the grid that are in the store: what experiments on trained models rest on. Nothing is trained here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sumexp.chapters.vae import Member, Temperature, comparison, grids, train
from sumexp.chapters.vae.comparison import Trained
from sumexp.chapters.vae.config import Source
from sumexp.companion.authoring import runs
from sumexp.companion.store import lookups


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
    """Those of the largest profile that has any; None if none has."""
    for profile in ("paper", "cpu"):
        plan = grids.PLANS[profile].get(source)
        for device in ("cuda", "cpu"):
            keys, cases = [], {}
            for stack in grids.stacks(source, plan) if plan else ():
                if {replace(one, seed=0, temperature=Temperature()) for one in stack.members} != set(grids.CORE):
                    continue
                wanted = runs.computation(train, stack, data=grids.data(stack), device=device)
                if entry := lookups.look(wanted):
                    run = runs.read(entry)
                    keys.append(run.key)
                    cases |= comparison.gathered(stack, run.arrays, run.history)
            if keys:
                return Found(profile, tuple(keys), cases)
    return None
