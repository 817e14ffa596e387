"""A corpus for tests, of a few words."""

import numpy as np

from sumexp.datasets import Corpus


def corpus(*documents: list[str]) -> Corpus:
    """Documents of one-letter words, the words in alphabetical order."""
    words = tuple(sorted({word for document in documents for word in document}))
    return Corpus(
        words=words,
        tokens=np.array([words.index(word) for document in documents for word in document]),
        starts=np.cumsum([0, *map(len, documents)]),
        documents=tuple(f"d{i}" for i in range(len(documents))),
        categories=("none",) * len(documents),
    )
