"""Training tasks and grids, as a book's package writes them: it imports nothing from here."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

from numpy.typing import NDArray

Progress: TypeAlias = Callable[[Iterable[int]], Iterable[int]]
"""Wraps the loop over the steps."""
State: TypeAlias = Mapping[str, Any]
"""Tensors, numbers and strings in dicts, lists and tuples: what ``torch.load(weights_only=True)`` gives back."""
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Config = TypeVar("Config", contravariant=True)


class Checkpoint(Protocol):
    """Where a task leaves what it needs to resume after it was killed."""

    def load(self) -> State | None:
        """What was saved last; None at the first start."""

    def save(self, state: State) -> None:
        """Keep ``state`` in place of what was saved before, whole or not at all."""


class Result(Protocol):
    """What a task returns, by name: arrays, numbers, and columns of one length, such as a number per epoch."""

    arrays: Arrays
    metrics: Mapping[str, float]
    history: Arrays


class Task(Protocol[Config]):
    """A function of a module of the package that computes a result from its config, the same each time.

    A task whose steps take long resumes from what it saved in ``checkpoint``; a short task leaves it alone.
    """

    __module__: str
    __qualname__: str

    def __call__(self, config: Config, /, *, device: str, progress: Progress, checkpoint: Checkpoint) -> Result:
        """Compute; ``progress`` wraps the loop over the steps."""


class Job(Protocol):
    """A run of a grid: its task, whose module and name is ``name``, config (a dataclass), data sets and threads.

    ``seconds`` is its duration on a core (``cpu``) and on a GPU (``cuda``), ``condense`` gives what of its arrays comes
    with the book.
    """

    name: str
    task: Task[Any]
    config: Any
    data: tuple[str, ...]
    threads: int
    seconds: Mapping[str, float]
    condense: Callable[[Arrays], Arrays]


Grid: TypeAlias = Callable[[str, Callable[[str], bool]], tuple[Job, ...]]
"""The runs that a chapter asks for, by profile and by whether a data set is there."""
