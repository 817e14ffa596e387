"""Counts of neighbouring words, and their empirical distribution."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sumexp.datasets import Corpus
from sumexp.nce.joint import Joint


@dataclass(frozen=True, eq=False)
class SkipGram:
    """Counted pairs.

    Attributes:
        words: the words [V], the most frequent first.
        counts: how often each pair occurs, float64 [V, V], symmetric.
    """

    words: tuple[str, ...]
    counts: Tensor

    @cached_property
    def joint(self) -> Joint:
        """The empirical law of the pairs, which is the population here."""
        return Joint.from_counts(self.counts)


def pairs(corpus: Corpus, vocabulary: int, window: int) -> SkipGram:
    """Count the pairs of the most frequent words of a corpus; marks without a letter are no words, but keep places.

    Raises:
        ValueError: if vocabulary or window is not positive, there are too few words, or one has no neighbour.
    """
    if vocabulary < 1 or window < 1:
        raise ValueError(f"vocabulary is {vocabulary} and window is {window}; both must be positive")
    kept = [i for i, word in enumerate(corpus.words) if any(map(str.isalpha, word))][:vocabulary]
    if len(kept) < vocabulary:
        raise ValueError(f"vocabulary is {vocabulary:,}, but the corpus has only {len(kept):,} words")
    index = np.full(len(corpus.words), -1)
    index[kept] = np.arange(vocabulary)
    places, document = index[corpus.tokens], np.repeat(np.arange(len(corpus.documents)), np.diff(corpus.starts))
    counts = np.zeros(vocabulary**2)
    for distance in range(1, window + 1):
        x, y = places[:-distance], places[distance:]
        valid = (x >= 0) & (y >= 0) & (document[:-distance] == document[distance:])
        counts += np.bincount(x[valid] * vocabulary + y[valid], minlength=vocabulary**2)
    table = torch.from_numpy(counts.reshape(vocabulary, vocabulary))
    return SkipGram(tuple(corpus.words[i] for i in kept), table + table.T)
