"""What a long computation is given besides its config: a progress bar, and a place for its half-finished state."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

Progress: TypeAlias = Callable[[Iterable[int]], Iterable[int]]
"""Wraps the loop over the steps; ``iter`` shows nothing."""

State: TypeAlias = Mapping[str, Any]
"""Tensors, numbers and strings in dicts, lists and tuples: what ``torch.load(weights_only=True)`` gives back."""


class Checkpoint(Protocol):
    """Where a computation leaves what it needs to go on after it was killed."""

    def load(self) -> State | None:
        """What was saved last; None at the first start."""

    def save(self, state: State) -> None:
        """Keep ``state`` in place of what was saved before, whole or not at all."""


class NoCheckpoint:
    """Keeps nothing: a killed computation starts anew."""

    def load(self) -> None:
        """None."""

    def save(self, state: State) -> None:
        """Does nothing."""
