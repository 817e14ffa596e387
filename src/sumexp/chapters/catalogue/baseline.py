"""One list of items for all users, the most frequent first: the baseline of trained models."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sumexp import ranking
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.catalogue import training
from sumexp.chapters.catalogue.pairs import Parts, Source, load
from sumexp.chapters.catalogue.training import JUDGED, K

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Baseline:
    """The pairs of a seed, as `training.Config` has them."""

    source: Source
    users: int
    least: int
    seed: int


def judge(
    config: Baseline, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    """The ``recall`` at 20 of the list [5], the rows of `training.JUDGED`; equal items are in random order."""
    return Result({"recall": popular(load(config.source, config.users, config.least, config.seed))})


def popular(parts: Parts) -> Values:
    """Recall at 20 of one list for all users, the items by their frequency, [5].

    In the column of moved popularity it is the frequency among the public pairs of the other half of the users.
    """
    log_q, halves = torch.from_numpy(parts.log_q), training.half(parts.train.shape[0])
    recalls = []
    for which, served in JUDGED:
        wanted = parts.held if which == "held" else parts.public
        before = parts.train + parts.validation + (parts.held if which == "public" else 0 * parts.held)
        with_pairs = np.flatnonzero(np.diff(wanted.indptr))
        by_half = training.popularity(parts).double() if served == "moved" else log_q.expand(2, -1)
        total = 0.0
        for first in range(0, len(with_pairs), 500):
            rows = with_pairs[first : first + 500]
            relevant, exclude = (ranking.Labels(_lists(part[rows])) for part in (wanted, before))
            scores = by_half[torch.from_numpy(halves[rows])]
            k = min(K, scores.shape[1])
            total += ranking.recall(scores, relevant, k, exclude=exclude).sum().item()
        recalls.append(total / len(with_pairs))
    return np.array(recalls)


def _lists(part: csr_array) -> list[list[int]]:
    return [part.indices[a:b].tolist() for a, b in zip(part.indptr[:-1], part.indptr[1:], strict=True)]
