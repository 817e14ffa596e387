"""The runs of a chapter, which ``sumexp.chapters.X.grids`` declares in ``GRIDS``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sumexp._runtime import Arrays, Task

Present: TypeAlias = Callable[[str], bool]
"""Whether a data set is available."""


@dataclass(frozen=True)
class Job:
    """A run of a grid.

    Attributes:
        seconds: its rough length by device, one core and an H200; finished runs of its task correct it.
        condense: selects the arrays that come with the book; all of them by default.
    """

    task: Task[Any]
    config: Any
    data: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "cuda": 1.0})
    condense: Callable[[Arrays], Arrays] = lambda arrays: arrays

    @property
    def name(self) -> str:
        """The task, as the store names it."""
        return f"{self.task.__module__}.{self.task.__qualname__}"


Grid: TypeAlias = Callable[[str, Present], tuple[Job, ...]]
"""The runs that a chapter asks for, by profile and by the available data sets."""
