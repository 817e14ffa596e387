"""Users and their items, split into training and test as in the repository of LightGCN.

Training pairs are a sparse matrix of a graph, in SciPy's ``.npz``: rows and columns are the users and, after them, the
items, with an entry that is not 0 for each pair, in both directions. Test pairs are lines of whole numbers, a user and
its items, one line for each user in their order, counted from 0.

Source: X. He et al., LightGCN: Simplifying and Powering Graph Convolution Network for Recommendation, SIGIR 2020.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sumexp.datasets._declarations import DataError, arrays


@dataclass(frozen=True, eq=False)
class Interactions:
    """The items of each user, in two disjoint parts.

    Attributes:
        train: [users, items], bool, CSR.
        test: [users, items], bool, CSR; a user may have none.
    """

    train: csr_array
    test: csr_array

    @property
    def counts(self) -> NDArray[np.int64]:
        """Training pairs of each item, [items]."""
        return _counts(self.train)

    @property
    def served(self) -> NDArray[np.int64]:
        """Test pairs of each item, [items]."""
        return _counts(self.test)


def read_interactions(graph: Path, test: Path) -> Interactions:
    """Read a split of two such files.

    Raises:
        DataError: if a file is not of this form, or both have a pair.
    """
    matrix = _graph(graph)
    users = _lines(test)
    items = matrix.shape[0] - len(users)
    if items < 1:
        raise DataError(f"{graph} has {matrix.shape[0]:,} users and items, but {test} a line for {len(users):,} users")
    train = csr_array(matrix[: len(users), len(users) :])
    back = csr_array(matrix[len(users) :, : len(users)].T)
    if not matrix.nnz == 2 * train.nnz == 2 * train.multiply(back).nnz:
        raise DataError(f"{graph} does not join {len(users):,} users to {items:,} items alone, both ways")
    parts = Interactions(train, _rows(test, users, items))
    both = (parts.train.multiply(parts.test)).tocoo()
    if both.nnz:
        raise DataError(f"{test}: user {both.row[0]} has item {both.col[0]}, which is a training pair in {graph}")
    return parts


def _counts(pairs: csr_array) -> NDArray[np.int64]:
    return np.bincount(pairs.indices, minlength=pairs.shape[1]).astype(np.int64)


def _graph(path: Path) -> csr_array:
    """The graph's matrix, whose entries are True."""
    kind, shape, indptr, indices, data = arrays(path, "format", "shape", "indptr", "indices", "data")
    try:
        if kind.item() != b"csr" or shape.shape != (2,) or shape[0] != shape[1]:
            raise ValueError(f"its format is {kind.item()!r} and its shape {shape.tolist()}; expected b'csr', square")
        if data.shape != indices.shape or not (data != 0).all():
            raise ValueError("it stores an entry that is 0, or not one for each index")
        matrix = csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} is no sparse matrix in SciPy's format: {str(error).splitlines()[0]}") from error
    pairs = matrix.nnz
    matrix.sum_duplicates()
    if matrix.nnz != pairs:
        raise DataError(f"{path} has a pair more than once")
    return matrix


def _lines(path: Path) -> list[NDArray[np.int64]]:
    """The items of each user."""
    users = []
    with path.open(encoding="ascii", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if not all(word.isdecimal() and len(word) < 10 for word in words) or words[:1] != [str(number - 1)]:
                expected = f"user {number - 1} and its items, in whole numbers"
                raise DataError(f"{path}, line {number}: expected {expected}, got {line[:40]!r}")
            users.append(np.array([int(word) for word in words[1:]], dtype=np.int64))
    if not users:
        raise DataError(f"{path} is empty")
    return users


def _rows(path: Path, users: list[NDArray[np.int64]], items: int) -> csr_array:
    taken = np.concatenate(users)
    lines = np.repeat(np.arange(1, len(users) + 1), [len(items_of_user) for items_of_user in users])
    for place in np.flatnonzero(taken >= items)[:1]:
        raise DataError(f"{path}, line {lines[place]}: item {taken[place]} is none of the {items:,}, counted from 0")
    order = np.lexsort((taken, lines))
    taken, lines = taken[order], lines[order]
    for place in np.flatnonzero((np.diff(taken) == 0) & (np.diff(lines) == 0))[:1]:
        raise DataError(f"{path}, line {lines[place]}: item {taken[place]} stands there twice")
    return csr_array((np.ones(len(taken), dtype=bool), (lines - 1, taken)), shape=(len(users), items))
