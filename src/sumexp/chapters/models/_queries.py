"""Queries with several relevant items: the tags of pages, or the words that follow a word."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sumexp import datasets

Source = Literal["delicious", "shakespeare"]


@dataclass(frozen=True, eq=False)
class Queries:
    """Training and test queries with their relevant items.

    Attributes:
        train: features [N, F], float32.
        train_gains: [N, L] numbers >= 0, or bool; each query has a positive gain, else a ValueError.
    """

    train: NDArray[np.float32]
    train_gains: NDArray[Any]
    test: NDArray[np.float32]
    test_gains: NDArray[Any]

    def __post_init__(self) -> None:
        if missing := int((~self.train_gains.any(1)).sum() + (~self.test_gains.any(1)).sum()):
            raise ValueError(f"{missing} queries have no relevant item, and so no loss; leave them out")


def load(source: Source) -> Queries:
    """The queries of the source that have a relevant item."""
    if source == "shakespeare":
        return followers(datasets.shakespeare())
    data = datasets.delicious()
    kept, tested = data.train_labels.any(1), data.test_labels.any(1)
    return Queries(data.train[kept], data.train_labels[kept], data.test[tested], data.test_labels[tested])


def followers(corpus: datasets.Corpus, words: int = 400, items: int = 1000) -> Queries:
    """The most frequent ``words`` of a text as queries, and the words that follow them as items, by how often they do.

    Every fifth document is the test part: the same queries, other gains. A query is identified by its word alone.
    """
    document = np.repeat(np.arange(len(corpus.documents)), np.diff(corpus.starts))
    x, y = corpus.tokens[:-1], corpus.tokens[1:]
    kept = (document[:-1] == document[1:]) & (x < words) & (y < items)
    tested = document[:-1] % 5 == 4

    def gains(part: NDArray[np.bool_]) -> NDArray[np.float32]:
        pairs = x[part] * items + y[part]
        return np.bincount(pairs, minlength=words * items).reshape(words, items).astype(np.float32)

    names = np.eye(words, dtype=np.float32)
    train, test = gains(kept & ~tested), gains(kept & tested)
    both = train.any(1) & test.any(1)
    return Queries(names[both], train[both], names[both], test[both])
