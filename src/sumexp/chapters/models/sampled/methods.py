"""Methods with and without sampled negatives, and their losses on a batch.

Several methods are trained side by side on the scores of all classes [S, B, C]; those of one law and one m have the
same draws. The negatives of an example are m uniform draws, or the labels of the next m examples of the batch, which is
in random order: m of the B - 1 others.

Source: Rawat et al., sections 2 and 5.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.functional._full import pairwise_margin
from sumexp.functional._margins import adaptive, equalised, logit_adjusted
from sumexp.functional._sampled import CONTRASTIVE, decoupled, sampled_softmax
from sumexp.samplers._laws import Uniform, log_q_of
from sumexp.samplers._negatives import Negatives, within_batch
from sumexp.samplers._weights import constant, importance, relative, tail

Loss: TypeAlias = Literal["softmax", "contrastive"]
Law: TypeAlias = Literal["all", "uniform", "batch"]
Weighting: TypeAlias = Literal[
    "none", "logit-adjusted", "adaptive", "equalised", "constant", "importance", "relative", "tail"
]
Rule: TypeAlias = Literal["mask", "keep"]

MARGINS: tuple[Weighting, ...] = ("none", "logit-adjusted", "adaptive", "equalised")
"""Of losses over all labels."""

LAWS: tuple[Law, ...] = ("uniform", "batch")
"""Of negatives that are sampled."""

SCHEMES: tuple[Weighting, ...] = ("constant", "importance", "relative", "tail")
"""Of sampled losses."""


@dataclass(frozen=True, order=True)
class Method:
    """The loss and the negatives of a classifier.

    Attributes:
        loss: the softmax cross entropy, or the contrastive loss of cosines.
        law: ``all`` labels, or negatives that are ``uniform`` draws or the ``batch``'s other labels.
        weighting: of the negatives: a margin for ``all``, else a column of Table 1 or the tail weights.
        negatives: m; 0 for ``all``.
        hits: whether accidental hits are masked or kept.

    Raises:
        ValueError: if the parts do not fit together.
    """

    loss: Loss = "softmax"
    law: Law = "all"
    weighting: Weighting = "none"
    negatives: int = 0
    hits: Rule = "mask"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("loss", self.loss, get_args(Loss)),
            ("law", self.law, get_args(Law)),
            ("weighting", self.weighting, MARGINS if self.law == "all" else SCHEMES),
            ("hits", self.hits, get_args(Rule)),
        ):
            checks.choice(name, value, allowed)
        if (self.negatives > 0) == (self.law == "all") or self.negatives < 0:
            raise ValueError(f"negatives is {self.negatives} of the law {self.law!r}; 'all' has 0, others have some")
        if self.loss == "contrastive" and (self.hits == "keep" or self.weighting in MARGINS[1:]):
            raise ValueError("the contrastive loss is trained without margins and with hits left out")

    @property
    def name(self) -> str:
        """In few words, without m: ``cross entropy``, ``batch constant``, ``contrastive uniform relative``."""
        parts = [self.loss if self.loss == "contrastive" else "", "" if self.law == "all" else self.law]
        plain = "all labels" if self.loss == "contrastive" else "cross entropy"
        parts.append(plain if self.weighting == "none" else self.weighting)
        return " ".join(filter(None, parts)) + (", hits kept" if self.hits == "keep" else "")


Draws: TypeAlias = Mapping[tuple[Law, int], Negatives]

ADAPTIVE = 3.0
"""The adaptive margin of the rarest class; the paper gives no scale."""


def uniform_draws(methods: Sequence[Method], size: int, classes: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Classes [size, m] drawn uniformly for each m of :func:`uniform_sizes`, on the device of their generator."""
    law = Uniform(classes, generator.device)
    return tuple(law.sample((size, m), generator) for m in uniform_sizes(methods))


def uniform_sizes(methods: Sequence[Method]) -> list[int]:
    """The numbers of negatives of the methods that draw uniformly, each once."""
    return sorted({method.negatives for method in methods if method.law == "uniform"})


def draws(methods: Sequence[Method], labels: Tensor, log_prior: Tensor, uniform: Sequence[Tensor]) -> Draws:
    """The negatives of each law and m of the methods, with hits; ``uniform`` as :func:`uniform_draws` gives it."""
    positive, law = labels.unsqueeze(1), Uniform(len(log_prior))
    drawn: dict[tuple[Law, int], Negatives] = {
        ("uniform", m): Negatives(ids, log_q_of(law, ids), ids == positive)
        for m, ids in zip(uniform_sizes(methods), uniform, strict=True)
    }
    if within := {method.negatives for method in methods if method.law == "batch"}:
        others = within_batch(labels, log_prior, hits="mask")
        for m in within:
            columns = following(len(labels), m, labels.device)
            drawn["batch", m] = Negatives(*(part.gather(1, columns) for part in others))
    return drawn


def following(size: int, m: int, device: torch.device) -> Tensor:
    """In a matrix [B, B-1] of the other labels of each row, the columns of the next m of the batch, cyclically."""
    row = torch.arange(size, device=device).unsqueeze(1)
    other = (row + torch.arange(1, m + 1, device=device)) % size
    return other - (other > row).long()


def method_losses(scores: Tensor, labels: Tensor, methods: Sequence[Method], log_prior: Tensor, drawn: Draws) -> Tensor:
    """The mean loss of each method on a batch, [S], from logits [S, B, C], labels [B] and a float64 log prior [C]."""
    result: list[Tensor] = []
    places: list[int] = []
    for part, members in alike(methods):
        rows = torch.cat([scores[i] for i in part])  # a list as an index would be copied to the device at each step
        targets = labels.repeat(len(part))
        if members[0].law == "all":
            each = _full(rows, targets, members, labels, log_prior)
        else:
            negatives = drawn[members[0].law, members[0].negatives]
            weights = torch.cat([negative_weights(method, negatives, labels, log_prior) for method in members])
            hits = negatives.hits if members[0].hits == "mask" else torch.zeros_like(negatives.hits)
            ids = negatives.ids.repeat(len(part), 1)
            pair = rows.gather(1, targets.unsqueeze(1)).squeeze(1), rows.gather(1, ids)
            rest: dict[str, Any] = {"hits": hits.repeat(len(part), 1), "reduction": "none"}
            rest["weights"] = weights.to(rows.dtype)
            if members[0].loss == "softmax":
                each = sampled_softmax(*pair, **rest)
            else:
                each = decoupled(*pair, margins=CONTRASTIVE, **rest)
        result.append(each.view(len(part), -1).mean(1))
        places += part
    means = torch.cat(result).unbind()
    return torch.stack([means[i] for i in sorted(range(len(places)), key=places.__getitem__)])


def alike(methods: Sequence[Method]) -> Iterator[tuple[list[int], list[Method]]]:
    """Indices and methods of each group of methods that differ in their weighting alone."""

    def key(i: int) -> tuple[str, str, int, str]:
        method = methods[i]
        return method.loss, method.law, method.negatives, method.hits

    for _, places in groupby(sorted(range(len(methods)), key=key), key):
        part = list(places)
        yield part, [methods[i] for i in part]


def negative_weights(method: Method, negatives: Negatives, labels: Tensor, log_prior: Tensor) -> Tensor:
    """The weights of a sampled loss's negatives [B, m], float64."""
    m, log_q = method.negatives, negatives.log_q
    log_prior_y = log_prior[labels].unsqueeze(1)
    match method.weighting:
        case "constant":
            return constant(log_q, m)
        case "importance":
            return importance(log_q, m)
        case "relative":
            uniform = torch.full_like(log_prior_y, -math.log(len(log_prior)))
            return relative(log_q, uniform if method.law == "uniform" else log_prior_y)
        case "tail":
            return tail(log_q, m, log_prior[negatives.ids], log_prior_y)
    raise ValueError(f"{method.weighting!r} is no weighting of a sampled loss")


def log_margins(method: Method, log_prior: Tensor) -> Tensor:
    r"""The margins :math:`\log\rho_{yy'}` of a loss over all labels, [C, C] or broadcastable to it."""
    positive, negative = log_prior.unsqueeze(1), log_prior.unsqueeze(0)
    match method.weighting:
        case "logit-adjusted":
            return logit_adjusted(positive, negative)
        case "adaptive":
            return ADAPTIVE * (0.25 * log_prior.min()).exp() * adaptive(positive)
        case "equalised":
            return equalised(negative)
    return torch.zeros(1, 1, dtype=log_prior.dtype, device=log_prior.device)


def _full(rows: Tensor, targets: Tensor, members: Sequence[Method], labels: Tensor, log_prior: Tensor) -> Tensor:
    classes = len(log_prior)
    if members[0].loss == "contrastive":
        hits = torch.zeros_like(rows, dtype=torch.bool).scatter_(1, targets.unsqueeze(1), True)
        positive = rows.gather(1, targets.unsqueeze(1)).squeeze(1)
        return decoupled(positive, rows, margins=CONTRASTIVE, hits=hits, reduction="none")
    margins = [log_margins(method, log_prior).expand(classes, classes)[labels] for method in members]
    return pairwise_margin(rows, targets, torch.cat(margins).to(rows.dtype), reduction="none")
