"""The base of the package's distributions: modules, so that they move, are saved and print themselves with a model."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from sumexp import _checks as checks

Shape = int | tuple[int, ...] | list[int] | torch.Size


class Law(nn.Module, ABC):
    """A distribution on the classes 0..classes-1 that ``.to()`` moves and ``state_dict`` holds.

    Its tables are neither parameters nor buffers: nothing rounds them, averages them (EMA, SWA) or sends them to other
    processes. ``state_dict`` holds the integers they are made of with a checksum, so loading refuses what was rounded
    or averaged.

    Args:
        classes: number of classes.
        device: where draws are made.
    """

    place: Tensor

    def __init__(self, classes: int, device: torch.device | str) -> None:
        super().__init__()
        self.classes = classes
        self.register_buffer("place", torch.empty(0, device=device), persistent=False)
        self.others: dict[str, Any] = {}
        """Tables without some classes, which :func:`sumexp.samplers.draw` keeps."""

    @property
    def device(self) -> torch.device:
        """Where draws are made."""
        return self.place.device

    @abstractmethod
    def _log_prob(self, ids: Tensor) -> Tensor:
        """Log probability of valid ids."""

    @abstractmethod
    def sample(self, shape: int | Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        r"""Independent draws, int64 [\*shape]."""

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
        """The options and their values."""
        return f"classes={self.classes}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.device
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.device != before:
            self.others.clear()
            self._spread(self.device)
        return self

    def _spread(self, device: torch.device) -> None:
        """Derive what draws need, on a device."""


class Tabulated(Law):
    """A distribution by a table of integers, from which everything else is computed."""

    _integers: Tensor

    def _hold(self, integers: Tensor) -> None:
        """Keep the table on the CPU and derive what draws need."""
        self._integers = integers
        self.others.clear()
        self._spread(self.device)

    @abstractmethod
    def _is_law(self, integers: Tensor) -> bool:
        """Whether integers of a checkpoint are a table of this many classes."""

    def get_extra_state(self) -> Tensor:
        """The table and its checksum, int64."""
        return torch.cat([self._integers, self._integers.new_tensor([_checksum(self._integers)])])

    def set_extra_state(self, state: Any) -> None:
        """Take the table of a checkpoint.

        Raises:
            ValueError: if it is of another number of classes, or was rounded or averaged.
        """
        words = state.cpu() if isinstance(state, Tensor) and state.dtype == torch.int64 and state.ndim == 1 else None
        if words is None or not len(words) or int(words[-1]) != _checksum(words[:-1]):
            given = f"{state.dtype} of {tuple(state.shape)}" if isinstance(state, Tensor) else type(state).__name__
            raise ValueError(
                f"the saved table of {type(self).__name__} ({given}) was rounded or averaged after it was saved: "
                "take it as one checkpoint has it, int64"
            )
        if not self._is_law(words[:-1]):
            raise ValueError(f"the saved table of {type(self).__name__} is not one of {self.classes} classes")
        self._hold(words[:-1].clone())


def _checksum(words: Tensor) -> int:
    return zlib.crc32(words.numpy().tobytes())


def by_class(name: str, values: checks.Values) -> Tensor:
    """Numbers of the classes 0, 1, ..., [L], which can be read."""
    checks.check_order(name, values)
    given = checks.held(name, checks.reals(name, values))
    if given.ndim != 1 or not len(given):
        raise ValueError(f"{name} has shape {tuple(given.shape)}; it must be [L], a number for each class")
    return given


def dimensions(shape: object) -> tuple[int, ...]:
    """A shape as a tuple, from a number or several."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(checks.whole("shape", size, 0) for size in sizes)
