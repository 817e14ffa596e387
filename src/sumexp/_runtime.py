"""The interface of a training task: config, progress bar and checkpoint in, a result out."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from numpy.typing import NDArray

Progress: TypeAlias = Callable[[Iterable[int]], Iterable[int]]
"""Wraps the loop over the steps; ``iter`` shows nothing."""

State: TypeAlias = Mapping[str, Any]
"""Tensors, numbers and strings in dicts, lists and tuples: what ``torch.load(weights_only=True)`` gives back."""

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

Config = TypeVar("Config", contravariant=True)


@dataclass(frozen=True)
class Result:
    """What a computation found.

    Attributes:
        arrays: its arrays, by name.
        metrics: its numbers, by name.
        history: columns of one length, such as a number per epoch; none if it keeps no history.
    """

    arrays: Arrays
    metrics: Mapping[str, float] = field(default_factory=dict)
    history: Arrays = field(default_factory=dict)


class Checkpoint(Protocol):
    """Keeps what a killed computation needs to resume."""

    def load(self) -> State | None:
        """What was saved last; None at the first start."""

    def save(self, state: State) -> None:
        """Keep ``state`` in place of what was saved before, whole or not at all."""


class _NoCheckpoint:
    """Keeps nothing: a killed computation starts over."""

    def load(self) -> None:
        """None."""

    def save(self, state: State) -> None:
        """Does nothing."""


NO_CHECKPOINT: Checkpoint = _NoCheckpoint()
"""Where nothing is kept."""


class Task(Protocol[Config]):
    """A function of a module of the package that computes a result from its config, the same each time.

    A task whose steps take long goes on from what it saved in ``checkpoint``; a short one leaves it alone.
    """

    __module__: str
    __qualname__: str

    def __call__(self, config: Config, /, *, device: str, progress: Progress, checkpoint: Checkpoint) -> Result:
        """Compute; ``progress`` wraps the loop over the steps."""
