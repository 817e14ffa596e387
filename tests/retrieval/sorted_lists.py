"""The numbers of `chapters.retrieval.judging` by sorted lists: what is worth most comes last of equal scores."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sumexp.chapters.retrieval.judging import PRECISIONS, RECALLS


def precision(
    scores: NDArray[Any], relevant: NDArray[Any], k: int, worth: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the first k labels of each list are worth, over k, and the most that k labels could be, [B] each."""
    value = relevant * worth
    order = np.stack([np.lexsort((each, -score)) for score, each in zip(scores, value, strict=True)])
    return np.take_along_axis(value, order, 1)[:, :k].sum(1) / k, np.sort(value)[:, ::-1][:, :k].sum(1) / k


def judge(
    scores: NDArray[Any], relevant: NDArray[Any], counts: NDArray[np.int64], worth: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """The arrays of `judging.judge` from the scores of all test examples and the labels of each [N, L]."""
    relevant = relevant & (counts > 0)
    of, label = relevant.nonzero()
    rank = (scores[of] >= scores[of, label][:, None]).sum(1)
    labelled = relevant.any(1)
    plain = [precision(scores[labelled], relevant[labelled], k, np.ones(len(counts)))[0].mean() for k in PRECISIONS]
    scored = [precision(scores[labelled], relevant[labelled], k, worth) for k in PRECISIONS]
    return {
        "counts": counts,
        "pairs": relevant.sum(0),
        "found": np.stack([np.bincount(label[rank <= k], minlength=len(counts)) for k in RECALLS]),
        "precision": np.array(plain),
        "propensity": np.array([got.sum() / best.sum() for got, best in scored]),
    }
