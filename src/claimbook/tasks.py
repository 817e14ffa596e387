"""Training tasks and grids, as a book's package writes them: it imports nothing from here.

A task is a function of a module of the package that computes a result from its config, a dataclass, the same each time:
``task(config, *, device, progress, checkpoint)``. ``progress`` wraps the loop over the steps. ``checkpoint.load()`` is
what ``checkpoint.save(state)`` kept last, before the process was killed, or None; a short task leaves it alone.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

State: TypeAlias = Mapping[str, Any]
"""Tensors, numbers and strings in dicts, lists and tuples: what ``torch.load(weights_only=True)`` gives back."""
Arrays: TypeAlias = Mapping[str, NDArray[Any]]


class Result(Protocol):
    """What a task returns, by name: arrays, numbers, and columns of one length, such as a number per epoch."""

    arrays: Arrays
    metrics: Mapping[str, float]
    history: Arrays


Task: TypeAlias = Callable[..., Result]


class Job(Protocol):
    """A run of a grid: its task, whose module and name is ``name``, config and data sets.

    ``seconds`` is its duration on a core (``cpu``) and on a GPU (``cuda``), ``condense`` gives what of its arrays comes
    with the book.
    """

    name: str
    task: Task
    config: Any
    data: tuple[str, ...]
    seconds: Mapping[str, float]
    condense: Callable[[Arrays], Arrays]


Grid: TypeAlias = Callable[[str, Callable[[str], bool]], tuple[Job, ...]]
"""The runs that a chapter asks for, by profile and by whether a data set is there."""
