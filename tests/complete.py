"""The runs of a grid that are in the store: what experiments on trained networks rest on. Nothing is trained here."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TypeVar

from claimbook.authoring import runs
from claimbook.store import lookups
from sumexp._runtime import Task

Config = TypeVar("Config")


def complete(
    task: Task[Config], asked: Sequence[Config], data: Callable[[Config], tuple[str, ...]]
) -> list[runs.Run] | None:
    """All runs that a plan asks for, trained on one kind of device; None if one of them is lacking.

    It looks up to the first that is lacking: of the papers' networks there are hundreds.
    """
    code = runs.code_of(task)
    for device in ("cuda", "cpu"):
        wanted = (runs.computation(task, one, data=data(one), device=device, code=code) for one in asked)
        entries = [entry for entry in takewhile(bool, map(lookups.look, wanted)) if entry]
        if entries and len(entries) == len(asked):
            return [runs.read(entry) for entry in entries]
    return None
