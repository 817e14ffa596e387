"""Which loss to train with, by classes, batch, negatives and memory: the rule of the chapter `synthesis`."""

import math
from dataclasses import dataclass
from typing import Literal

from sumexp import _checks as checks
from sumexp._checks import typed

Means = Literal["batch", "draws"]
"""A step can score the labels of its batch only, as two towers do, or any classes."""

ENTRY = 8
"""Bytes of a logit in float32 and of its gradient."""


@dataclass(frozen=True)
class Choice:
    """The recommended scheme in words, the reason, the entry of the register, and the bytes of a step's logits."""

    use: str
    because: str
    claim: str
    bytes: int


@typed
def choose(
    classes: int, batch: int, negatives: int, skew: float, memory: int, means: Means = "draws", steps: int = 10**5
) -> Choice:
    r"""The scheme for these numbers, among those whose minimum with free scores is the truth.

    The first line that applies:

    1. any class can be scored, and all logits fit in memory: the full softmax;
    2. the rarest class, of frequency :math:`e^{-\text{skew}}/L`, is expected less than once among the negatives of one
       example a step: each negative from 3 or uniform, chosen by a coin flip, with log q of the mixture;
    3. in-batch negatives, or, if any class can be scored, negatives sampled by class counts; in either case subtract
       :math:`\log q` from every logit and keep hits.

    Args:
        classes: L.
        batch: examples of a step.
        negatives: of an example.
        skew: logarithm of the mean frequency of a class over that of the rarest one, in nats.
        memory: bytes for logits and their gradient.
        means: which classes a step can score.
        steps: of the run.
    """
    classes, batch = checks.whole("classes", classes, 2), checks.whole("batch", batch, 1)
    negatives, steps = checks.whole("negatives", negatives, 1), checks.whole("steps", steps, 1)
    memory = checks.whole("memory", memory, 1)
    if not 0 <= skew < math.inf:
        raise ValueError(f"skew is {skew!r}; it must be a number of nats, 0 or more")
    if means == "draws" and ENTRY * batch * classes <= memory:
        return Choice(
            "the full softmax",
            "all logits fit in memory, it has no bias, and its loss bounds the rank",
            "ranking-softmax-le-rr",
            ENTRY * batch * classes,
        )
    source = "in-batch negatives" if means == "batch" else "negatives sampled by class counts"
    needed = ENTRY * batch * (negatives + 1)
    if steps * negatives * math.exp(-skew) < classes:
        use = f"{source} or uniform ones, each chosen by a coin flip; subtract the mixture's log q from every logit"
        because = "otherwise the rarest classes would hardly ever be negatives, and nothing else pushes them down"
    else:
        use = f"{source}; subtract log q from every logit"
        because = "with free scores the minimum is the truth for every number of negatives"
    return Choice(f"{use}, keep accidental hits", because, "sumexp-consistent", needed)
