"""Users and items, and four disjoint parts of their pairs: training, validation, and two test sets.

*Validation* and *held* pairs are drawn from the published training pairs, all equally likely: one law with what is
trained on. *Public* pairs are the published test pairs of the same users and items: another law.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sumexp import datasets
from sumexp.datasets.pairs import Interactions

Source: TypeAlias = Literal["gowalla", "synthetic"]

HELD_OUT = 0.1
"""The share of the training pairs that is kept for validation, and again to judge on."""

DRIFT = 0.5
"""The synthetic public distribution is the training one times the popularity to this power."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Disjoint sets of pairs [users, items], bool, CSR: to train on, to tune on, and two test sets."""

    train: csr_array
    validation: csr_array
    held: csr_array
    public: csr_array

    @property
    def counts(self) -> NDArray[np.int64]:
        """Training pairs of each item, [items]."""
        return np.bincount(self.train.indices, minlength=self.train.shape[1]).astype(np.int64)

    @property
    def log_q(self) -> NDArray[np.float64]:
        """Log frequencies of the items in training [items]; an item without a training pair counts as one."""
        counts = np.maximum(self.counts, 1)
        result: NDArray[np.float64] = np.log(counts / counts.sum())
        return result


@cache
def load(source: Source, users: int, least: int, seed: int) -> Parts:
    """Some users of a source, the items that they took at least ``least`` times, and their pairs, split by the seed.

    Raises:
        ValueError: if the source is unknown, or no item is left.
    """
    if source not in get_args(Source):
        raise ValueError(f"source is {source!r}, expected one of {', '.join(get_args(Source))}")
    return split(datasets.gowalla() if source == "gowalla" else synthetic(users), users, least, seed)


def split(pairs: Interactions, users: int, least: int, seed: int) -> Parts:
    """Split the pairs, see :func:`load`; the users are the same for every seed.

    Raises:
        ValueError: if there are fewer users, or no item is left.
    """
    if users > pairs.train.shape[0]:
        raise ValueError(f"{users} users are asked for, and there are {pairs.train.shape[0]}; ask for fewer")
    chosen = np.sort(np.random.default_rng(0).permutation(pairs.train.shape[0])[:users])
    taken, public = pairs.train[chosen], pairs.test[chosen]
    often = np.flatnonzero(np.bincount(taken.indices, minlength=taken.shape[1]) >= least)
    if not len(often):
        raise ValueError(f"no item has {least} training pairs with {users} users; lower least, or take more users")
    rows, items = (side.astype(np.int64) for side in taken[:, often].tocoo().coords)
    order = np.random.default_rng((seed, 1)).permutation(len(rows))
    size = int(HELD_OUT * len(rows))

    def part(some: NDArray[np.int64]) -> csr_array:
        return _marked(rows[some], items[some], (users, len(often)))

    kept = csr_array(public[:, often])
    return Parts(part(order[2 * size :]), part(order[:size]), part(order[size : 2 * size]), kept)


def log_law(users: int) -> NDArray[np.float64]:
    """Log probabilities of a synthetic catalogue [users, users // 2]: Zipf's popularity, tastes in eight dimensions."""
    rng, items, width = np.random.default_rng(2), users // 2, 8
    left, right = rng.standard_normal((users, width)), rng.standard_normal((items, width))
    scores = 2.0 * left @ right.T / width**0.5 - np.log(np.arange(1, items + 1) + 5.0)
    result: NDArray[np.float64] = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return result


def synthetic(users: int) -> Interactions:
    """A synthetic catalogue with half as many items as users: 12 training and 3 test items a user, all distinct."""
    log_p, rng = log_law(users), np.random.default_rng(3)
    log_q = np.log(np.exp(log_p).mean(0))
    noisy = log_p + rng.gumbel(size=log_p.shape)
    train = np.argsort(-noisy, axis=1)[:, :12]
    other = log_p + DRIFT * log_q + rng.gumbel(size=log_p.shape)
    np.put_along_axis(other, train, -np.inf, axis=1)
    test = np.argsort(-other, axis=1)[:, :3]
    shape = users, users // 2
    lists = (_marked(np.repeat(np.arange(users), part.shape[1]), part.ravel(), shape) for part in (train, test))
    return Interactions(*lists)


def _marked(rows: NDArray[np.int64], items: NDArray[np.int64], shape: tuple[int, int]) -> csr_array:
    return csr_array((np.ones(len(rows), dtype=bool), (rows, items)), shape=shape)
