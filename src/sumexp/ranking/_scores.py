"""What a user hands over for scores and labels, as tensors in a type that sorts."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp import _checks as checks

Matrix = Tensor | NDArray[Any]
"""What a user may hand over for scores and for what is relevant."""


class Sparse(Protocol):
    """A ``scipy.sparse`` matrix of any format; its explicit zeros are zeros."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def tocsr(self, copy: bool = ...) -> Any:
        """The same by rows."""


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
    checks.check_unmasked(name, values)
    if isinstance(values, np.ndarray):
        # What torch takes no view of: reversed axes, and bytes in another order.
        native = values.astype(values.dtype.newbyteorder("="), copy=any(step < 0 for step in values.strides))
        try:
            values = torch.as_tensor(native)
        except TypeError:
            raise ValueError(f"{name} is {values.dtype}, which torch does not have: take float64 or int64") from None
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise ValueError(f"{name} is {values.layout}; hand over .to_dense()")
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
    scores = scores.detach() if mask is None else scores.detach().masked_fill(~mask, lowest(scores))
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


def entries(name: str, values: object) -> tuple[Tensor, Tensor, tuple[int, ...]] | None:
    """Of a sparse matrix the entries that are not zero: columns [B, R], -1 at padding, values [B, R] and its shape.

    None if it is not sparse.

    Raises:
        ValueError: if it has not two dimensions.
    """
    by_torch = isinstance(values, Tensor) and values.layout != torch.strided
    if not by_torch and not hasattr(values, "tocsr"):
        return None
    matrix: Any = values
    shape = tuple(matrix.shape)
    if len(shape) != 2:
        raise ValueError(f"{name} is sparse of shape {shape}; it must be [B, L]")
    if by_torch:
        full = checks.widest(matrix.detach().to_sparse_coo()).coalesce()
        (row, column), value = full.indices(), full.values()
    else:
        full = matrix.tocsr(copy=True)
        full.sum_duplicates()
        row = torch.from_numpy(np.repeat(np.arange(shape[0]), np.diff(full.indptr)))
        column, value = torch.from_numpy(full.indices.astype(np.int64)), torch.from_numpy(full.data.astype(np.float64))
    kept = value != 0
    return (*padded(row[kept], column[kept], value[kept], shape[0]), shape)


def padded(row: Tensor, column: Tensor, value: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Columns and values of entries in the order of their rows, [rows, R], -1 and 0 at padding."""
    count = torch.zeros(rows, dtype=torch.int64, device=row.device).index_add_(0, row, torch.ones_like(row))
    place = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    shape = rows, max(1, int(count.max())) if rows else 1
    columns = torch.full(shape, -1, device=row.device)
    values = torch.zeros(shape, dtype=checks.wide(row.device), device=row.device)
    columns[row, place], values[row, place] = column, checks.widest(value)
    return columns, values


def pad_lists(name: str, lists: Sequence[Any] | Matrix, padding: float) -> Tensor:
    """Lists or sets of any lengths, as a tensor [B, T] with T >= 1."""
    if isinstance(lists, Tensor) or (isinstance(lists, np.ndarray) and lists.dtype != object):
        values = as_tensor(name, lists)
        empty = values.ndim == 2 and not values.shape[1]
        return torch.nn.functional.pad(values, (0, 1), value=padding) if empty else values
    try:
        if isinstance(lists, set | frozenset | dict):
            raise TypeError(f"a {type(lists).__name__} has no order")
        rows = [row if isinstance(row, Tensor | np.ndarray | list | tuple) else list(row) for row in lists]
        lengths = torch.from_numpy(np.fromiter(map(len, rows), np.int64, len(rows)))
        values = _joined(rows)
        shape = len(rows), max(1, int(lengths.max())) if rows else 1
        result = torch.full(shape, padding, dtype=values.dtype, device=values.device)
        result[(torch.arange(shape[1]) < lengths.unsqueeze(-1)).to(values.device)] = values
        return result
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be lists of numbers, one list for each row of scores: {error}") from error


def _joined(lists: list[Any]) -> Tensor:
    """The numbers of all lists, one after another."""
    if not any(len(row) for row in lists):
        return torch.zeros(0, dtype=torch.int64)
    if all(isinstance(row, list | tuple) for row in lists):  # one array of them all, not one for each list
        return torch.from_numpy(np.asarray(list(chain.from_iterable(lists))))
    rows = [row if isinstance(row, Tensor) else torch.as_tensor(np.asarray(row)) for row in lists if len(row)]
    return torch.cat(rows)
