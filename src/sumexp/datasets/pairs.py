"""Users and their items, split into training and test as in the repository of LightGCN.

Training pairs are a sparse matrix of a graph, in SciPy's ``.npz``: rows and columns are the users and, after them, the
items, with an entry that is not 0 for each pair, in both directions. Test pairs are lines of whole numbers, a user and
its items, one line for each user in their order, counted from 0.

Source: X. He et al., LightGCN: Simplifying and Powering Graph Convolution Network for Recommendation, SIGIR 2020.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, load_npz


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
    """Read a split of two such files."""
    users = [np.array(line.split()[1:], dtype=np.int64) for line in test.read_text("ascii").splitlines()]
    matrix: Any = load_npz(graph)
    train = csr_array(matrix.astype(bool)[: len(users), len(users) :])
    train.sort_indices()
    places = np.repeat(np.arange(len(users)), [len(items) for items in users]), np.concatenate(users)
    return Interactions(train, csr_array((np.ones(len(places[0]), dtype=bool), places), shape=train.shape))


def _counts(pairs: csr_array) -> NDArray[np.int64]:
    return np.bincount(pairs.indices, minlength=pairs.shape[1]).astype(np.int64)
