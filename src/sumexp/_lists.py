"""Lists, sets and sparse matrices of items, one for each row, as padded tensors."""

import reprlib
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sumexp import _checks as checks


class Sparse(Protocol):
    """A ``scipy.sparse`` matrix of any format; its explicit zeros are zeros."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def tocsr(self, copy: bool = ...) -> Any:
        """The same by rows."""


def entries(name: str, values: object) -> tuple[Tensor, Tensor, tuple[int, ...]] | None:
    """Of a sparse matrix the entries that are not zero: columns [B, R], -1 at padding, values [B, R] and its shape.

    None if it is not sparse; a nested tensor is a list of rows.

    Raises:
        ValueError: if it has not two sparse dimensions, or is complex.
    """
    by_torch = isinstance(values, Tensor) and values.layout != torch.strided and not values.is_nested
    if not by_torch and not hasattr(values, "tocsr"):
        return None
    matrix: Any = values
    shape = tuple(matrix.shape)
    if len(shape) != 2 or (by_torch and matrix.dense_dim()):
        raise ValueError(f"{name} is sparse of shape {shape}; it must be [B, L], with no dense dimension")
    if matrix.dtype.is_complex if by_torch else matrix.dtype.kind == "c":
        raise ValueError(f"{name} holds {matrix.dtype}; it must hold real numbers")
    marks = matrix.dtype in (torch.bool, np.bool_)  # twice true is true; other entries of a place add up
    if by_torch:
        full = matrix.detach().to_sparse_coo()
        full = (full if marks else checks.widest(full)).coalesce()
        (row, column), value = full.indices(), checks.widest(full.values())
    else:
        full = (matrix if marks else matrix.astype(np.float64)).tocsr(copy=True)
        full.sum_duplicates()
        row = torch.from_numpy(np.repeat(np.arange(shape[0]), np.diff(full.indptr)))
        column, value = torch.from_numpy(full.indices.astype(np.int64)), torch.from_numpy(full.data.astype(np.float64))
    kept = value != 0
    return (*in_rows(row[kept], column[kept], value[kept], shape[0]), shape)


def in_rows(row: Tensor, column: Tensor, value: Tensor | None, rows: int) -> tuple[Tensor, Tensor]:
    """Columns and values (1 if None) of entries in the order of their rows, [rows, R], -1 and 0 at padding."""
    start = torch.searchsorted(row.contiguous(), torch.arange(rows + 1, device=row.device))
    most = max(1, int(start.diff().max())) if rows else 1
    place = start[:-1, None] + torch.arange(most, device=row.device)
    is_entry = place < start[1:, None]
    place.masked_fill_(~is_entry, len(row))  # the place of the padding
    values = checks.widest(is_entry) if value is None else torch.constant_pad_nd(checks.widest(value), (0, 1))[place]
    return torch.constant_pad_nd(column, (0, 1), -1)[place], values


def listed(values: Any) -> Any:
    """``ranking.Labels`` as their padded items; another container as it is."""
    return values.padded()[0] if hasattr(values, "padded") else values


def pad_lists(name: str, lists: Any, padding: float) -> Tensor:
    """Lists, sets or arrays of any lengths as a tensor [B, T] with T >= 1; a tensor or an array as it is.

    A nested tensor, jagged or not, is a list of its rows.

    Raises:
        ValueError: if they hold no numbers.
    """
    lists = unbound(lists)
    if isinstance(lists, Tensor) or (isinstance(lists, np.ndarray) and lists.dtype != object):
        values = checks.tensor(name, lists)
        return torch.nn.functional.pad(values, (0, 1), value=padding) if values.shape[-1:] == (0,) else values
    if isinstance(lists, set | frozenset | dict):
        raise ValueError(f"{name} is a {type(lists).__name__}, which has no order; give one list for each row")
    try:
        rows = [row if isinstance(row, Tensor | np.ndarray | list | tuple | dict) else list(row) for row in lists]
        lengths = torch.from_numpy(np.fromiter(map(len, rows), np.int64, len(rows)))
        values = _joined(name, rows)
        shape = len(rows), max(1, int(lengths.max())) if rows else 1
        is_entry = torch.arange(shape[1], device="cpu") < lengths.unsqueeze(-1)
        if values.dtype == torch.bool and not is_entry.all():
            raise ValueError("marks are as many in each row")
        result = torch.full(shape, padding, dtype=values.dtype, device=values.device)
        result[is_entry.to(values.device)] = values
        return result
    except (TypeError, ValueError, RuntimeError):
        given = reprlib.repr(lists)
        raise ValueError(f"{name} must be lists of numbers, one list for each row, got {given}") from None


def pad_along(name: str, values: Any, padding: float, lists: Any, items: Tensor) -> Tensor:
    """Values of the items of lists, padded as these are to ``items`` [B, T].

    Raises:
        ValueError: if there are not as many in each row, or a set or a dict has no order.
    """
    values, lists = unbound(values), unbound(lists)
    padded = pad_lists(name, values, padding)
    if padded.shape != items.shape:
        raise ValueError(f"{name} have the shape {tuple(padded.shape)}, the items {tuple(items.shape)}")
    if not isinstance(values, Tensor | np.ndarray):
        check_ordered(name, values)
        is_padded = isinstance(lists, Tensor | np.ndarray)
        places = torch.arange(1, items.shape[1] + 1, device=items.device)  # padding may stand between items
        lengths = ((items >= 0) * places).amax(-1).tolist() if is_padded else map(len, lists)
        for row, (length, others) in enumerate(zip(lengths, values, strict=True)):
            if len(others) != length and not (is_padded and len(others) == items.shape[1]):
                raise ValueError(f"list {row} has {length} items and {len(others)} {name}; give one for each item")
    return padded


def unbound(lists: Any) -> Any:
    """The rows of a nested tensor; all else as it is."""
    return lists.unbind() if isinstance(lists, Tensor) and lists.is_nested else lists


def check_ordered(name: str, lists: Any) -> None:
    """Check that rows are lists: sets and dicts have no order of items.

    Raises:
        ValueError: if one is not.
    """
    if not isinstance(lists, Tensor | np.ndarray) and any(isinstance(row, set | frozenset | dict) for row in lists):
        raise ValueError(f"{name} holds a set or a dict, whose items have no order; give lists")


def _joined(name: str, lists: list[Any]) -> Tensor:
    """The numbers of all lists, one after another."""
    if not any(len(row) for row in lists):
        return torch.zeros(0, dtype=torch.int64, device="cpu")
    if all(isinstance(row, list | tuple) for row in lists):  # one array of them all, not one for each list
        return checks.tensor(name, list(chain.from_iterable(lists)))
    return torch.cat([checks.tensor(name, row) for row in lists if len(row)])
