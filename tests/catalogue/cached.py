"""The runs of the grid that are in the store: what the findings on Gowalla rest on. Nothing is trained here."""

from dataclasses import dataclass
from functools import cache

from sumexp.chapters.catalogue import grids, summary, train
from sumexp.chapters.catalogue.summary import Table
from tests.complete import complete


@dataclass(frozen=True)
class Found:
    """The runs on Gowalla.

    Attributes:
        profile: the profile that asks for them.
        keys: theirs.
        table: what they say of each method.
    """

    profile: str
    keys: tuple[str, ...]
    table: Table


@cache
def found() -> Found | None:
    """Those of the largest profile of which all are there; None if none is."""
    for profile in ("paper", "cpu"):
        asked = grids.configs("gowalla", grids.PLANS[profile]["gowalla"])
        if own := complete(train, asked, grids.data):
            table = summary.summaries((one, run.arrays) for one, run in zip(asked, own, strict=True))
            return Found(profile, tuple(run.key for run in own), table)
    return None
