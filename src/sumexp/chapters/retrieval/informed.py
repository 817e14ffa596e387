r"""The offset that a method adds to the logits of an informative example, which predictions from frequencies miss.

The prediction of `chapters.models.sampled.prediction` takes examples as uninformative. Then all terms of importance
weights within the batch are equal, :math:`e^{f_y}/\pi_y`, and every sampled loss is exact. An informative example has a
posterior :math:`p\ne\pi`. A label that it makes likely is still drawn rarely, and the logarithm is concave: the rare
large term counts for less than its mean, so this label is pushed down less.

Here an example is one feature of the data set, and p are the shares of the labels among the training examples that have
it, smoothed towards :math:`\pi`. The minimiser f of the exact implicit loss gives :math:`b_y=f_y-\log p_y`, less its
mean under p; a group has the mean of b under p, by which its labels are asked for.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp import _checks as checks
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.models.sampled.groups import groups
from sumexp.chapters.models.sampled.informed import offset
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval.training import Source, load
from sumexp.datasets.extreme import Part

DRAWN = 20.0
"""Number of pairs of the prior that smooth a feature's pairs."""

RARE = 50
"""A feature whose training examples have fewer pairs is not taken."""


@dataclass(frozen=True)
class Informed:
    """Methods of the sampled softmax loss, and the number of features and the seed of their choice."""

    source: Source
    methods: tuple[Method, ...]
    features: int
    seed: int = 0

    def __post_init__(self) -> None:
        checks.positive(self, "features")
        if wrong := [method.name for method in self.methods if method.law == "all" or method.loss != "softmax"]:
            raise ValueError(f"the method {wrong[0]!r} samples no softmax; give such that do")


def explain(
    config: Informed, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    """What each method adds on head, torso and tail, where an example is one feature.

    Returns:
        arrays: ``features`` [n]; ``offset`` [methods, n, groups]; ``names`` of the groups.
    """
    data = load(config.source)
    seen = data.counts > 0
    counts = data.counts[seen]
    prior = torch.from_numpy(counts / counts.sum())
    pairs = data.train.features.astype(bool).T @ np.diff(data.train.labels.indptr)
    frequent = np.flatnonzero(pairs >= RARE)
    chosen = np.random.default_rng(config.seed).choice(frequent, min(config.features, len(frequent)), replace=False)
    laws = [posterior(data.train, int(feature), prior, seen) for feature in chosen]
    members = groups(counts, "quantiles")
    offsets = np.zeros((len(config.methods), len(chosen), len(members)))
    for i in progress(range(len(config.methods))):
        for j, law in enumerate(laws):
            added = offset(config.methods[i], prior, law)
            offsets[i, j] = [grouped(added, law, torch.from_numpy(which)) for which in members.values()]
    return Result({"features": chosen, "offset": offsets, "names": np.array(list(members))})


def posterior(part: Part, feature: int, prior: Tensor, seen: NDArray[np.bool_]) -> Tensor:
    """The distribution [C] of the labels ``seen`` [L] in examples with a feature, smoothed by `DRAWN` pairs."""
    rows = np.flatnonzero(part.features[:, [feature]].toarray().ravel())
    pairs = np.asarray(part.labels[rows].sum(0), dtype=np.float64).ravel()[seen]
    law: Tensor = (torch.from_numpy(pairs) + DRAWN * prior) / (pairs.sum() + DRAWN)
    return law


def grouped(added: Tensor, law: Tensor, members: Tensor) -> float:
    """The mean of an offset [C] over some classes under the posterior [C]."""
    return float((law * added)[members].sum() / law[members].sum())
