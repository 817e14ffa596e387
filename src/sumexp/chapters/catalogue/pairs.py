"""Users and items, and four disjoint parts of their pairs: training, validation, and two test sets.

*Validation* and *held* pairs are drawn from the published training pairs, all equally likely: one law with what is
trained on. *Public* pairs are the published test pairs of the same users and items: another law.
"""

from dataclasses import dataclass
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
"""In the synthetic catalogue the public law is the other one times the popularity to this power."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Pairs of users and items [users, items], bool, CSR; no two parts share one.

    Attributes:
        train: what is trained on.
        validation: what rates and epochs are picked on.
        held: what one law is judged on.
        public: what the other law is judged on.
    """

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
        """The law of the items among the training pairs, [items]; an item that has none there counts as one."""
        counts = np.maximum(self.counts, 1)
        result: NDArray[np.float64] = np.log(counts / counts.sum())
        return result


def load(source: Source, users: int, least: int, seed: int) -> Parts:
    """Some users of a source, the items that these took often enough, and their pairs, split by the seed.

    Args:
        source: Gowalla, or a catalogue that is drawn here.
        users: how many, the same for every seed.
        least: the fewest published training pairs with these users that keep an item.
        seed: of the split.

    Raises:
        DataError: if Gowalla is absent, damaged or undeclared.
        ValueError: if the source is unknown, or no item is left.
    """
    if source not in get_args(Source):
        raise ValueError(f"source is {source!r}, expected one of {', '.join(get_args(Source))}")
    return split(datasets.gowalla() if source == "gowalla" else synthetic(users), users, least, seed)


def split(pairs: Interactions, users: int, least: int, seed: int) -> Parts:
    """The parts of some pairs: see :func:`load`.

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
    """The law of a synthetic catalogue, [users, users // 2]: Zipf's popularity and tastes of eight dimensions."""
    rng, items, width = np.random.default_rng(2), users // 2, 8
    left, right = rng.standard_normal((users, width)), rng.standard_normal((items, width))
    scores = 2.0 * left @ right.T / width**0.5 - np.log(np.arange(1, items + 1) + 5.0)
    result: NDArray[np.float64] = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return result


def synthetic(users: int) -> Interactions:
    """A catalogue of half as many items as users; each user took 12 to train on, and 3 others to test on.

    Items are drawn without replacement, as the largest of their log probabilities and Gumbel noise.
    """
    log_p, rng = log_law(users), np.random.default_rng(3)
    log_q = np.log(np.exp(log_p).mean(0))
    noisy = log_p + rng.gumbel(size=log_p.shape)
    train = np.argsort(-noisy, axis=1)[:, :12]
    other = log_p + DRIFT * log_q + rng.gumbel(size=log_p.shape)
    np.put_along_axis(other, train, -np.inf, axis=1)
    test = np.argsort(-other, axis=1)[:, :3]
    shape = users, users // 2
    lists = (_marked(np.repeat(np.arange(users), own.shape[1]), own.ravel(), shape) for own in (train, test))
    return Interactions(*lists)


def _marked(rows: NDArray[np.int64], items: NDArray[np.int64], shape: tuple[int, int]) -> csr_array:
    return csr_array((np.ones(len(rows), dtype=bool), (rows, items)), shape=shape)
