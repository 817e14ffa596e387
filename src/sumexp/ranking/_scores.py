"""What a user hands over for scores and labels, as tensors in a type that sorts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp import _checks as checks

Matrix = Tensor | NDArray[Any]
"""What a user may hand over for scores and for what is relevant."""


class Faults:
    """What was wrong with values, noted on the way and read together: each reading makes a GPU wait."""

    def __init__(self) -> None:
        self._noted: list[tuple[Tensor, Callable[[], str]]] = []

    def note(self, flag: Tensor, message: Callable[[], str]) -> None:
        """A condition [] and what to say if it holds."""
        self._noted.append((flag, message))

    def settle(self) -> None:
        """Look at all conditions.

        Raises:
            ValueError: by the first that holds.
        """
        if not self._noted:
            return
        device = self._noted[-1][0].device
        flags = torch.stack([flag.to(device) for flag, _ in self._noted]).tolist()
        for holds, (_, message) in zip(flags, self._noted, strict=True):
            if holds:
                raise ValueError(message())
        self._noted.clear()


def as_tensor(name: str, values: Matrix) -> Tensor:
    """A tensor, of a tensor or a NumPy array.

    Raises:
        ValueError: if it is neither, or of a type or layout that has no order here.
    """
    if not isinstance(values, Tensor | np.ndarray):
        raise ValueError(
            f"{name} is {type(values).__name__}; it must be a tensor or a NumPy array (lists of relevant items are "
            "ranking.Labels)"
        )
    given = checks.held(name, checks.tensor(name, values))
    unsorted = given.is_floating_point() and given.dtype not in checks.FLOATS
    if unsorted or given.dtype in (torch.uint16, torch.uint32, torch.uint64):
        raise ValueError(f"{name} is {given.dtype}, which torch does not sort: take float64 or int64")
    return given


def check_scores(scores: Matrix, items: int | None = None, mask: Tensor | None = None) -> Tensor:
    """Scores [B, L] in a type that sorts, the lowest there is at what the mask leaves out.

    Raises:
        ValueError: if they are not real, or of another shape.
    """
    scores = as_tensor("scores", scores)
    if scores.ndim != 2 or scores.dtype == torch.bool or scores.is_complex():
        raise ValueError(f"scores must be real numbers [B, L], got {scores.dtype} of shape {tuple(scores.shape)}")
    if items is not None and scores.shape[1] != items:
        raise ValueError(f"a chunk of {items} items has scores of the shape {tuple(scores.shape)}")
    if scores.shape[1] == 0:
        raise ValueError("the lists have no items, and so no ranks")
    if mask is not None:
        check_bool("mask", mask, scores)
    scores = scores.detach() if mask is None else torch.where(mask, scores.detach(), lowest(scores))
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def note_nan(faults: Faults, largest: Tensor, before: int) -> None:
    """Note rows whose largest score [B] is NaN, which is above all others; ``before`` rows stand before them."""
    if largest.is_floating_point() and len(largest):
        wrong = largest.isnan()
        faults.note(
            wrong.any(),
            lambda: (
                f"a score of list {before + int(wrong.nonzero()[0])} is NaN, which has no rank; use -inf for what "
                "should come last"
            ),
        )


def check_bool(name: str, values: Tensor, scores: Tensor) -> None:
    """Check that a matrix is bool of the scores' shape.

    Raises:
        ValueError: if it is not.
    """
    if values.shape != scores.shape or values.dtype != torch.bool:
        raise ValueError(
            f"{name} must be bool of the scores' shape {tuple(scores.shape)}, got {values.dtype} of "
            f"{tuple(values.shape)}"
        )


def lowest(scores: Tensor) -> float:
    """What no score is below."""
    return -torch.inf if scores.is_floating_point() else torch.iinfo(scores.dtype).min
