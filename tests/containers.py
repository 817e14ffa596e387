"""Marks [B, L] of items as every container of them that users have."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import bsr_array, coo_array, csc_matrix, csr_array, csr_matrix, dia_array, dok_array, lil_matrix
from torch import Tensor

from sumexp.ranking import Labels


def with_zeros(marks: np.ndarray) -> csr_matrix:
    """Every entry explicit, so that most are explicit zeros."""
    rows, items = marks.shape
    at = np.repeat(np.arange(rows), items), np.tile(np.arange(items), rows)
    return csr_matrix((marks.astype(float).ravel(), at), shape=marks.shape)


def cancelling(marks: np.ndarray) -> coo_array:
    """Each mark as 2 - 1, and where there is none 1 - 1: the entries of a place add up."""
    row, item = np.indices(marks.shape).reshape(2, -1)
    values = np.concatenate([1.0 + marks.ravel(), -np.ones(marks.size)])
    return coo_array((values, (np.tile(row, 2), np.tile(item, 2))), shape=marks.shape)


def ragged(marks: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in marks]


def in_rows(marks: np.ndarray) -> Tensor:
    lists = ragged(marks)
    width = 1 + max(map(len, lists))
    return torch.tensor([row + [-1] * (width - len(row)) for row in lists])


def jagged(lists: list[list[int]]) -> Tensor:
    return torch.nested.nested_tensor([torch.tensor(row, dtype=torch.int64) for row in lists], layout=torch.jagged)


CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "lists": ragged,
    "lists with an item twice": lambda m: [row + row[:1] for row in ragged(m)],
    "sets": lambda m: [set(row) for row in ragged(m)],
    "tuples and arrays": lambda m: [tuple(row) if i % 2 else np.array(row, int) for i, row in enumerate(ragged(m))],
    "array of lists": lambda m: np.array([*ragged(m), None], dtype=object)[:-1],
    "labels": lambda m: Labels(ragged(m)),
    "labels of a matrix": lambda m: Labels(with_zeros(m)),
    "padded": in_rows,
    "padding first": lambda m: in_rows(m).numpy()[:, ::-1],
    "jagged": lambda m: jagged(ragged(m)),
    "csr": lambda m: csr_array(m.astype(int)),
    "csr of bool": lambda m: csr_array(m),
    "explicit zeros": with_zeros,
    "csc": lambda m: csc_matrix(m),
    "coo that adds up": cancelling,
    "lil": lambda m: lil_matrix(m.astype(float)),
    "dok": lambda m: dok_array(m.astype(float)),
    "bsr": lambda m: bsr_array(m.astype(float)),
    "dia": lambda m: dia_array(m.astype(float)),
    "torch coo": lambda m: torch.from_numpy(m).to_sparse(),
    "torch coo with marks twice": lambda m: torch.sparse_coo_tensor(
        np.argwhere(m).T.repeat(2, axis=1), np.ones(2 * m.sum(), dtype=bool), m.shape, check_invariants=True
    ),
    "torch csr": lambda m: torch.from_numpy(m.astype(float)).to_sparse_csr(),
}
