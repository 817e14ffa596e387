"""The runs of a grid, of the store or of the book: what experiments on trained networks rest on. Nothing is trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, TypeAlias, TypeVar
from unittest.mock import Mock

import pytest

from claimbook.authoring import runs
from claimbook.store import default, parts
from sumexp._runtime import Task
from sumexp.chapters import intervals

Config = TypeVar("Config")

State: TypeAlias = Callable[..., None]
"""The fixture `finding`: states what an experiment measured."""


def complete(
    task: Task[Config], asked: Sequence[Config], data: Callable[[Config], tuple[str, ...]]
) -> list[runs.Run] | None:
    """All runs that a plan asks for, of one kind of device; else those that come with the book; None if one is missing.

    In the store it looks up to the first that is missing: of the papers' networks there are hundreds.
    """
    code = parts.modules([task.__module__])
    for device in ("cuda", "cpu"):
        wanted = (runs.computation(task, config, data=data(config), device=device, code=code) for config in asked)
        entries = [entry for entry in takewhile(bool, map(default().find, wanted)) if entry]
        if entries and len(entries) == len(asked):
            return [runs.read(entry) for entry in entries]
    return runs.from_book([runs.computation(task, config, data=data(config), code=code) for config in asked])


@dataclass(frozen=True)
class Complete(Generic[Config]):
    """All runs of a plan, in the order of their settings, and the profile that asks for them."""

    profile: str
    configs: Sequence[Config]
    runs: Sequence[runs.Run]

    @property
    def stated(self) -> dict[str, Any]:
        """What a finding says that it rests on."""
        return {"profile": self.profile, "keys": tuple(run.key for run in self.runs)}


def largest(
    task: Task[Config], asked: Callable[[str], Sequence[Config]], data: Callable[[Config], tuple[str, ...]]
) -> Complete[Config] | None:
    """Those of the largest profile of which all are there; None if none is."""
    for profile in ("paper", "cpu"):
        if (configs := asked(profile)) and (results := complete(task, configs, data)):
            return Complete(profile, configs, results)
    return None


def of_one_mind(readings: Sequence[intervals.Decision], names: Sequence[str]) -> Sequence[intervals.Decision]:
    """The readings of a sentence that does not say which of them it means, if they agree; skip if they do not."""
    if len({decided.verdict for decided in readings}) > 1:
        verdicts = (
            f"{name} {entry.verdict}, {entry.interval.mean:.4f} [{entry.interval.low:.4f}, {entry.interval.high:.4f}]"
            for name, entry in zip(names, readings, strict=True)
        )
        pytest.skip(f"the sentence does not say of what, and it matters: {'; '.join(verdicts)}")
    return readings


def verdicts(finding: Mock) -> str:
    """What the register says of what was stated."""
    stated = ((*call.args, call.kwargs["margin"]) for call in finding.call_args_list)
    return " ".join(intervals.judge(span.low, span.high, of, margin, span.room) for span, of, margin in stated)
