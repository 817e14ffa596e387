"""Divergence, and mean and deviation of the loss, for other numbers of negatives."""

import math
from typing import NamedTuple

import numpy as np

from sumexp.audit._effects import Effect, Minimum, Truth, minimum
from sumexp.audit._risks import State
from sumexp.audit._rows import Rows
from sumexp.audit._setup import Setup

DRAWS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
"""Numbers of negatives at which the divergence is shown."""

COARSE = 0.02, 320
"""Relative change to stop at and largest number of bins, for the curve over the number of negatives."""


class ByNumber(NamedTuple):
    """The results for a number of negatives.

    Attributes:
        m: the number; of draws, where repetitions are removed.
        kl: divergence at the minimum, nats.
        loss: mean sampled loss at the true scores minus the full loss there, nats.
        deviation: standard deviation of the sampled loss there, nats.
    """

    m: int
    kl: float
    loss: float
    deviation: float


def by_number(truth: Truth, rows: Rows, setup: Setup, row_setup: Setup, first: Effect) -> tuple[ByNumber, ...]:
    """The results for other numbers of negatives, on fewer bins; the user's number has the audit's result.

    Args:
        truth: the law, in cells for this scheme's sampler.
        rows: of its classes.
        setup: the scheme, on classes.
        row_setup: the same on rows.
        first: what the audit found for the scheme.
    """
    asked, most = setup.asked or round(setup.negatives), math.inf
    if setup.kind == "distinct" and setup.law is not None:
        most = int((setup.law > 0).sum()) - (2 if setup.weights == "arrival" else 1)
    full = float(-(truth.number * truth.p) @ np.log(np.maximum(truth.p, 1e-300)))
    results = [ByNumber(asked, first.kl, first.loss - full, first.deviation)]
    last: Minimum | None = None
    for m in (m for m in DRAWS if len(setup.m) <= m <= most and m != asked):
        variant = row_setup.draws(m, rows.number)
        last = minimum(truth.by(variant) if setup.is_set else truth, variant, *COARSE, last)
        problem = last.state.problem
        at_truth = State(problem, np.log(problem.p))
        entropy = float(-(problem.count * problem.p) @ np.log(problem.p))
        results.append(ByNumber(m, last.kl, at_truth.risk - entropy, at_truth.deviation))
    return tuple(sorted(results))
