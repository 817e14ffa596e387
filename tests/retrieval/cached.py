"""The runs of the grid that are in the store: what experiments on trained networks rest on. Nothing is trained here."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

from sumexp.chapters.models.sampled.comparison import Values
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import grids, summary, train
from sumexp.chapters.retrieval.summary import Summary
from sumexp.chapters.retrieval.training import RECALLS, Source
from sumexp.companion.authoring import runs
from sumexp.companion.store import lookups


@dataclass(frozen=True)
class Found:
    """The runs on one data set.

    Attributes:
        profile: the profile that asks for them.
        keys: theirs.
        methods: what the runs say of each.
        m: the number of negatives.
    """

    profile: str
    keys: tuple[str, ...]
    methods: Mapping[Method, Summary]
    m: int

    def at_ten(self, method: Method, group: str) -> Values:
        """Recall at 10 of each seed."""
        return self.methods[method].recall[group][:, RECALLS.index(10)]


@cache
def found(source: Source) -> Found | None:
    """Those of the largest profile of the book of which all are there; None if none is."""
    code = runs.code_of(train)
    for name in ("paper", "cpu"):
        if (plan := grids.PLANS[name].get(source)) is None:
            continue
        configs = grids.configs(source, plan)
        for device in ("cuda", "cpu"):
            wanted = (runs.computation(train, one, data=grids.data(one), device=device, code=code) for one in configs)
            entries = [entry for entry in takewhile(bool, map(lookups.look, wanted)) if entry]
            if len(entries) < len(configs):
                continue
            own = [runs.read(entry) for entry in entries]
            methods = summary.summaries((one.method, run.arrays) for one, run in zip(configs, own, strict=True))
            return Found(name, tuple(run.key for run in own), methods, plan.negatives)
    return None
