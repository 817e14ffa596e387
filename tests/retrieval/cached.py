"""The runs of the grid that are in the store: what experiments on trained networks rest on. Nothing is trained here."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sumexp.companion.authoring import runs
from sumexp.companion.store import default
from sumexp.models.sampled.groups import Group, groups
from sumexp.models.sampled.methods import Method
from sumexp.retrieval import grids, train
from sumexp.retrieval.training import RECALLS, Source


@dataclass(frozen=True)
class Found:
    """The runs on one data set.

    Attributes:
        profile: the profile that asks for them.
        keys: theirs.
        recall: at 1, 10 and 50, of each method and group, [seeds, 3].
        m: the number of negatives.
    """

    profile: str
    keys: tuple[str, ...]
    recall: Mapping[tuple[Method, Group], NDArray[np.float64]]
    m: int

    def at_ten(self, method: Method, group: Group) -> NDArray[np.float64]:
        """Recall at 10 of each seed."""
        return self.recall[method, group][:, RECALLS.index(10)]


def found(source: Source) -> Found | None:
    """Those of the largest profile of the book of which all are there; None if none is."""
    for name in ("paper", "cpu"):
        if (plan := grids.PLANS[name].get(source)) is None:
            continue
        configs = grids.configs(source, plan)
        for device in ("cuda", "cpu"):
            wanted = [runs.computation(train, one, data=grids.data(one), device=device) for one in configs]
            entries = [entry for one in wanted if (entry := default().find(one)) is not None]
            if len(entries) < len(configs):
                continue
            own = [runs.read(entry) for entry in entries]
            members = groups(own[0].arrays["counts"], "quantiles")
            recall: dict[tuple[Method, Group], NDArray[np.float64]] = {}
            for method in grids.methods(plan.negatives):
                tables = [run.arrays for one, run in zip(configs, own, strict=True) if one.method == method]
                for group, which in members.items():
                    shares = [table["found"][:, which].sum(1) / table["pairs"][which].sum() for table in tables]
                    recall[method, group] = np.array(shares)
            return Found(name, tuple(run.key for run in own), recall, plan.negatives)
    return None
