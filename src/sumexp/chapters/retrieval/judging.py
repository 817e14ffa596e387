"""Recall, precision and propensity-scored precision of ranked labels, without sorting all of them.

Only the ranks of an example's own labels count, up to k. So the K highest scores of each example are found once, where
K is k plus the largest number of labels of an example. The rank of a label is the number of these that are at least its
own score; a label with rank K lies beyond k, with or without ties.

Ties are pessimistic: of equal scores other labels come first, then the example's own, by ascending weight.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from sumexp.chapters.retrieval.bags import Bag, bag
from sumexp.datasets.extreme import Extreme, Part

RECALLS = (1, 10, 50)
PRECISIONS = (1, 3, 5)

EXAMPLES = 500
"""The most test examples that are judged at a time."""

SCORES = 1 << 25
"""The most scores that are held at a time, unless one example has more: 128 MiB."""


class Scorer(Protocol):
    """A model, on its device."""

    device: str

    def scores(self, x: Bag) -> Tensor:
        """The scores of all labels [B, L]."""


def most_frequent(counts: NDArray[np.int64], ks: Sequence[int]) -> NDArray[np.bool_]:
    """Whether a label is among the first k of the list of the most frequent labels, for each k [ks, L].

    >>> most_frequent(np.array([9, 4, 4, 1]), (1, 2, 3)).sum(1)  # of equally frequent labels each comes last
    array([1, 1, 3])
    """
    rank = len(counts) - np.searchsorted(np.sort(counts), counts)
    return np.stack([rank <= k for k in ks])


def propensities(counts: Tensor, examples: int, a: float = 0.55, b: float = 1.5) -> Tensor:
    r"""The probability that a relevant label was noted, from its number of training examples ``counts`` [L].

    .. math:: p_l = \frac1{1 + C e^{-A\log(N_l+B)}}, \qquad C = (\log N - 1)(B+1)^A .

    ``examples`` is N, all training examples; fewer than 3, where C is not positive, are a ValueError.

    Source: Jain, Prabhu, Varma (2016), section 4; A and B as the extreme-classification repository has them.
    """
    if examples < 3:
        raise ValueError(f"examples is {examples}; propensities need at least 3, where log N - 1 is positive")
    n = counts.to(torch.float64)
    c = (torch.log(torch.tensor(float(examples), dtype=torch.float64)) - 1) * (b + 1) ** a
    likely: Tensor = 1 / (1 + c * torch.exp(-a * torch.log(n + b)))
    return likely


def check(data: Extreme) -> None:
    """Check before training that a test example has a label that occurs in training; else a ValueError."""
    if not (data.counts > 0)[data.test.labels.indices].any():
        raise ValueError("no test example has a label that occurs in training; there is nothing to judge by")


@torch.no_grad()
def judge(learner: Scorer, data: Extreme) -> dict[str, NDArray[Any]]:
    """Recalls and precisions on the test examples, as :func:`sumexp.chapters.retrieval.training.train` returns them.

    Test labels that do not occur in training do not count.

    Raises:
        ValueError: if no test example has a label that counts.
    """
    check(data)
    counts = data.counts
    likely = propensities(torch.from_numpy(counts), data.train.features.shape[0])
    worths = {"precision": np.ones(len(counts)), "propensity": 1 / likely.numpy()}
    places = {name: Places(len(counts), worth) for name, worth in worths.items()}
    for scores, of, label in _blocks(learner, data.test, counts > 0):
        for place in places.values():
            place.add(scores, of, label)
    plain, scored = places["precision"], places["propensity"]
    return {
        "counts": counts,
        "pairs": plain.pairs,
        "found": plain.found,
        "precision": plain.got / plain.judged,
        "propensity": scored.got / scored.best,
    }


@torch.no_grad()
def recall(learner: Scorer, part: Part, known: csr_array, k: int) -> float:
    """Recall at k over all pairs of some examples, in lists without the ``known`` labels [N, L]."""
    within = [
        ranks(scores, of, label, np.zeros(len(of)), k)[0] <= k
        for scores, of, label in _blocks(learner, part, np.ones(known.shape[1], bool), known)
    ]
    return float(np.concatenate(within).mean())


def _blocks(
    learner: Scorer, part: Part, seen: NDArray[np.bool_], known: csr_array | None = None
) -> Iterator[tuple[Tensor, NDArray[np.int64], NDArray[np.int64]]]:
    """In blocks of examples: the scores [B, L], and for each pair the row of its example and its label, [P] each."""
    at_once = min(EXAMPLES, max(1, SCORES // len(seen)))
    for start in range(0, part.labels.shape[0], at_once):
        rows = np.arange(start, min(start + at_once, part.labels.shape[0]))
        pairs = part.labels[rows].tocoo()
        kept = seen[pairs.col]
        of, label = pairs.row[kept].astype(np.int64), pairs.col[kept].astype(np.int64)
        if len(of):
            scores = learner.scores(bag(part, rows, learner.device))
            if known is not None:
                scores[known[rows].tocoo().coords] = -torch.inf
            yield scores, of, label


class Places:
    """Counts and weights of the ranks so far.

    Attributes:
        pairs: test pairs of each label [L].
        found: those among the first 1, 10 and 50 [3, L].
        got: total weight of the relevant labels among the first 1, 3 and 5, over k, summed over examples [3].
        best: its maximum [3].
        judged: number of examples with a label.
    """

    def __init__(self, labels: int, worth: NDArray[np.float64]) -> None:
        """Start with no example; each label has a weight, ``worth`` [L]."""
        self.worth, self.judged = worth, 0
        self.pairs = np.zeros(labels, np.int64)
        self.found = np.zeros((len(RECALLS), labels), np.int64)
        self.got, self.best = np.zeros((2, len(PRECISIONS)))

    def add(self, scores: Tensor, of: NDArray[np.int64], label: NDArray[np.int64]) -> None:
        """Add scores [B, L], with the row [P] and the label [P] of each pair."""
        worth = self.worth[label]
        reach, place = ranks(scores, of, label, worth, max(*RECALLS, *PRECISIONS))
        highest = _within(of, -worth)[0]
        self.judged += len(np.unique(of))
        self.pairs += np.bincount(label, minlength=len(self.pairs))
        for i, k in enumerate(RECALLS):
            self.found[i] += np.bincount(label[reach <= k], minlength=len(self.pairs))
        for i, k in enumerate(PRECISIONS):
            self.got[i] += worth[place <= k].sum() / k
            self.best[i] += worth[highest <= k].sum() / k


def ranks(
    scores: Tensor, of: NDArray[np.int64], label: NDArray[np.int64], worth: NDArray[np.float64], first: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Two ranks of the label of each pair, [P] each; exact up to ``first``, any larger number beyond it.

    The first is the largest possible rank among equal scores [B, L]. For the second, of equal scores irrelevant labels
    come first, then relevant ones by ascending weight. A pair has its row ``of``, its label, each once an example, and
    the label's weight ``worth``, [P] each.
    """
    examples, score = torch.from_numpy(of), scores[of, label]
    most = int(np.bincount(of).max())
    top = scores.topk(min(scores.shape[1], first + most)).values
    reach = (top[examples] >= score.unsqueeze(1)).sum(1).cpu().numpy()
    # Ties within an example: at most `most` labels, so that labels beyond the cut stay beyond it.
    level = np.unique(score.cpu().numpy(), return_inverse=True)[1]
    place, size = _within(of * (int(level.max()) + 1) + level, worth)
    return reach, reach - size + place


def _within(group: NDArray[np.int64], value: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rank 1, 2, ... of each entry by value within its group, and the size of the group, [P] each."""
    order = np.lexsort((value, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    place, size = np.empty((2, len(order)), np.int64)
    place[order] = np.arange(len(order)) - np.repeat(starts, sizes) + 1
    size[order] = np.repeat(sizes, sizes)
    return place, size
