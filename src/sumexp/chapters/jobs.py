"""Runs that a chapter asks for: ``sumexp.chapters.X.grids`` declares its own in ``GRIDS``, by which they are found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sumexp._runtime import Task

Present: TypeAlias = Callable[[str], bool]
"""Whether a data set is there."""


@dataclass(frozen=True)
class Job:
    """A run of a grid.

    Attributes:
        task: what computes it.
        config: its settings.
        data: the data sets that it reads.
        threads: how many it uses.
        work: floating-point operations that it takes.
        rates: as of its grid, where those of its task are others.
    """

    task: Task[Any]
    config: Any
    data: tuple[str, ...] = ()
    threads: int = 1
    work: float = 0.0
    rates: Mapping[str, float] | None = None

    @property
    def name(self) -> str:
        """The task, as the store names it."""
        return f"{self.task.__module__}.{self.task.__qualname__}"


@dataclass(frozen=True)
class Grid:
    """What is known of the runs that a chapter asks for.

    Attributes:
        jobs: gives them, from the profile and what tells whether a data set is there.
        rates: by kind of device how many operations a second they do, assumed where no finished run tells.
    """

    jobs: Callable[[str, Present], tuple[Job, ...]]
    rates: Mapping[str, float]
