"""What all laws of the package are: modules, so that they move, are saved and print themselves with a model."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from sumexp import _checks as checks

Shape = int | tuple[int, ...] | list[int] | torch.Size


class Law(nn.Module, ABC):
    """A law on the classes 0..classes-1 that ``.to()`` moves and ``state_dict`` holds; its doubles stay doubles.

    Args:
        classes: number of classes.
        device: where draws are made.
    """

    place: Tensor

    def __init__(self, classes: int, device: torch.device | str) -> None:
        super().__init__()
        self.classes = classes
        self.register_buffer("place", torch.empty(0, device=device), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where draws are made."""
        return self.place.device

    @abstractmethod
    def _log_prob(self, ids: Tensor) -> Tensor:
        """Log probability of ids that are classes for sure."""

    def log_prob(self, ids: checks.Values) -> Tensor:
        """Log probability of each class, float64, in the shape of ``ids``; -inf for a class that is never drawn.

        Raises:
            ValueError: if an id is no class.
        """
        return self._log_prob(checks.ids("id", ids, self.classes))

    def forward(self, ids: checks.Values) -> Tensor:
        """The same as ``log_prob``."""
        return self.log_prob(ids)

    def extra_repr(self) -> str:
        """What stands between the brackets."""
        return f"classes={self.classes}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        doubles = {name: held for name, held in self._buffers.items() if held is not None and held.dtype.itemsize == 8}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, held in doubles.items():
            moved: Any = self._buffers[name]
            if moved.dtype != held.dtype:  # model.half() would make another law of it
                self._buffers[name] = held.to(moved.device)
        return self


def dimensions(shape: object) -> tuple[int, ...]:
    """A shape, of a number or of several."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(checks.whole("shape", size, 0) for size in sizes)
