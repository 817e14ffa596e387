"""The runs of the grid that are in the store: what experiments on trained networks rest on. Nothing is trained here."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from sumexp.chapters.models.sampled.comparison import Values
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import grids, summary, train
from sumexp.chapters.retrieval.judging import RECALLS
from sumexp.chapters.retrieval.summary import Summary
from sumexp.chapters.retrieval.training import Source
from tests.complete import complete


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
    for profile in ("paper", "cpu"):
        if plan := grids.PLANS[profile].get(source):
            asked = grids.configs(source, plan)
            if own := complete(train, asked, grids.data):
                methods = summary.summaries((one.method, run.arrays) for one, run in zip(asked, own, strict=True))
                return Found(profile, tuple(run.key for run in own), methods, plan.negatives)
    return None
