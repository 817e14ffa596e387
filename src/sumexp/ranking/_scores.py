"""What a user hands over for scores and labels, as tensors in a type that sorts."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp import _checks as checks

Matrix = Tensor | NDArray[Any]
"""What a user may hand over for scores and for what is relevant."""


def as_tensor(name: str, values: Matrix) -> Tensor:
    """A tensor, of a tensor or a NumPy array.

    Raises:
        ValueError: if it is neither, or of a type or layout that has no order here.
    """
    if isinstance(values, np.ndarray):
        # What torch takes no view of: reversed axes, and bytes in another order.
        native = values.astype(values.dtype.newbyteorder("="), copy=any(step < 0 for step in values.strides))
        try:
            values = torch.as_tensor(native)
        except TypeError:
            raise ValueError(f"{name} is {values.dtype}, which torch does not have: take float64 or int64") from None
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise ValueError(f"{name} is {values.layout}; hand over .to_dense(), or ranking.Labels of what is relevant")
        if values.dtype in (torch.uint16, torch.uint32, torch.uint64):
            raise ValueError(f"{name} is {values.dtype}, which torch does not sort: take float64 or int64")
        checks.held(name, values)
    else:
        raise ValueError(
            f"{name} is {type(values).__name__}; it must be a tensor or a NumPy array (lists of relevant items are "
            "ranking.Labels)"
        )
    return values


def check_scores(scores: Matrix, items: int | None = None, mask: Tensor | None = None) -> Tensor:
    """Scores [B, L] in a type that sorts, without NaN, the lowest there is at what the mask leaves out.

    Raises:
        ValueError: if they are not real, of another shape, or NaN.
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
    scores = scores.detach() if mask is None else scores.detach().masked_fill(~mask, lowest(scores))
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if scores.is_floating_point() and scores.numel() and bool(scores.amax(-1).isnan().any()):  # rows may lie apart
        row = int(scores.isnan().any(-1).nonzero()[0])
        raise ValueError(f"a score of list {row} is NaN, which has no rank; use -inf for what should come last")
    return scores


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


def pad_lists(name: str, lists: Sequence[Sequence[float]] | Matrix, padding: float) -> Tensor:
    """Lists of any lengths, as a tensor [B, T]."""
    if isinstance(lists, Tensor | np.ndarray):
        return as_tensor(name, lists)
    try:
        lengths = torch.from_numpy(np.fromiter(map(len, lists), np.int64, len(lists)))
        values = _joined(lists)
        shape = len(lists), int(lengths.max()) if len(lists) else 1
        padded = torch.full(shape, padding, dtype=values.dtype, device=values.device)
        padded[(torch.arange(shape[1]) < lengths.unsqueeze(-1)).to(values.device)] = values
        return padded
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be lists of numbers, one list for each row of scores: {error}") from error


def _joined(lists: Sequence[Sequence[float]]) -> Tensor:
    """The numbers of all lists, one after another."""
    if not any(len(row) for row in lists):
        return torch.zeros(0, dtype=torch.int64)
    if all(isinstance(row, (list, tuple)) for row in lists):  # one array of them all, not one for each list
        return torch.from_numpy(np.asarray(list(chain.from_iterable(lists))))
    rows = [row if isinstance(row, Tensor) else torch.as_tensor(np.asarray(row)) for row in lists if len(row)]
    return torch.cat(rows)
