r"""The offset that theory predicts for each method before training, from the label frequencies alone.

Let :math:`\pi` be the frequencies, and let x carry no information. The exact minimiser f of the method's implicit loss
then scores class y by :math:`f_y`, the true scores are :math:`\log\pi_y`, and

.. math:: b_y = f_y - \log\pi_y - \text{mean over all classes}

is what the method adds to a class. So of two methods *the one with the larger mean b on a group is predicted to err
less there*: the predicted order. Methods whose offsets agree, such as all that are consistent, tie.

Newton's method on the implicit loss gives f. The contrastive loss is a sum over classes; with
:math:`N_y = \sum_{y'\ne y}\pi_{y'}\rho_{y'y}` its minimiser is :math:`f_y = \pi_y/(\pi_y + N_y)`,
whose logarithm stands for f.
"""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.models.sampled.groups import Rule, groups
from sumexp.chapters.models.sampled.methods import SCHEMES, Method, log_margins
from sumexp.negatives import consistency, population, schemes


@dataclass(frozen=True)
class Forecast:
    """The label frequencies [C] and methods of a prediction, and the rule for head, torso and tail.

    Raises:
        ValueError: if there are fewer than two classes, one has no example, or there is no method.
    """

    counts: tuple[int, ...]
    methods: tuple[Method, ...]
    rule: Rule = "numbers"

    def __post_init__(self) -> None:
        if len(self.counts) < 2 or min(self.counts) < 1 or not self.methods:
            raise ValueError(
                f"{len(self.counts)} classes, of which one has {min(self.counts, default=0)} examples, and "
                f"{len(self.methods)} methods; give two classes or more, each with an example, and a method"
            )


def predict(
    config: Forecast, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    """The prediction for each method.

    Returns:
        arrays: ``counts`` [C]; ``offset`` [methods, C]; ``names`` of the groups; ``group_offset`` [methods, groups],
        the means of the offsets, which make the predicted order.
    """
    counts = np.array(config.counts, dtype=np.int64)
    prior = torch.from_numpy(counts / counts.sum())
    members = groups(counts, config.rule)
    predictions = [prediction(config.methods[i], prior) for i in progress(range(len(config.methods)))]
    offset = torch.stack(predictions).numpy()
    arrays = {"counts": counts, "offset": offset, "names": np.array(list(members))}
    arrays["group_offset"] = np.stack([offset[:, group].mean(1) for group in members.values()], 1)
    return Result(arrays)


def prediction(method: Method, prior: Tensor) -> Tensor:
    """The offset of one method [C], float64; a ValueError if the prior [C] is no distribution with full support."""
    prior = checks.law("prior", prior)
    offset = minimiser(method, prior) - prior.log()
    return offset - offset.mean()


def minimiser(method: Method, prior: Tensor) -> Tensor:
    """The scores [C] that minimise the expected loss where every x has the posterior ``prior``."""
    if method.loss == "contrastive":
        return (prior / (prior + _against(method, prior))).log()
    return consistency.minimiser(losses(method, prior), prior)


def losses(method: Method, prior: Tensor) -> population.Losses:
    """The exact implicit losses of a method of the softmax loss, as a function of the scores."""
    if method.law == "all":
        return population.margin_losses(log_margins(method, prior.log()))
    return consistency.multiset_losses(law(method, prior), method.negatives, factors(method, prior), method.hits)


def law(method: Method, prior: Tensor) -> Tensor:
    """The logarithm of the law of a sampled method's negatives, [C]."""
    return prior.log() if method.law == "batch" else schemes.uniform(len(prior))


def factors(method: Method, prior: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of a sampled method's weights [C], see :func:`sumexp.negatives.consistency.factors`."""
    checks.choice("weighting", method.weighting, SCHEMES)
    return consistency.factors(
        cast(schemes.Weights, method.weighting),
        law(method, prior),
        method.negatives,
        hits=method.hits,
        prior=prior.log(),
    )


def _against(method: Method, prior: Tensor) -> Tensor:
    r""":math:`N_y = \sum_{y'\ne y}\pi_{y'}\rho_{y'y}`, [C]."""
    if method.law == "all":
        return 1 - prior
    positive, negative = factors(method, prior)
    each = prior * positive.exp()
    return (each.sum() - each) * torch.exp(math.log(method.negatives) + law(method, prior) + negative)
