r"""How far the exact minimum of a sampled loss lies from the truth, by number of draws, law of the draws and hits."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp.negatives.consistency import factors, minimiser, multiset_losses
from sumexp.negatives.schemes import Weights
from sumexp.samplers._negatives import Hits

CLASSES = 50
TRUTH = 1.5
"""The exponent of the true law."""
DRAWS = tuple(2**k for k in range(9))
SKEWS = (0.0, 0.5, 1.0, 1.5)
HITS: dict[Hits, str] = {"mask": "masked", "keep": "kept", "redraw": "redrawn"}
LEAST = 1e-8
"""Nats below which a divergence is zero up to rounding."""
RANKS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 39, 50)
"""Those of the classes whose scores are shown."""

_LOOKS: dict[Weights, tuple[str, tuple[int, ...]]] = {"importance": ("vermilion", ()), "relative": ("blue", (8, 4))}


def zipf(exponent: float, classes: int = CLASSES) -> Tensor:
    r""":math:`\log q_y`, [classes], of the law :math:`q_y\propto y^{-s}`."""
    return (-exponent * torch.arange(1, classes + 1, dtype=torch.float64).log()).log_softmax(-1)


def minimum(weights: Weights, hits: Hits, skew: float, m: int, start: Tensor | None = None) -> Tensor:
    """The scores [classes] that minimise the exact sampled loss where the truth is Zipf's law of exponent `TRUTH`."""
    log_q = zipf(skew)
    losses = multiset_losses(log_q, m, factors(weights, log_q, m, hits=hits), hits)
    return minimiser(losses, zipf(TRUTH).exp(), start)


def divergence(scores: Tensor) -> float:
    """Nats by which the law that the scores predict misses the truth."""
    truth = zipf(TRUTH)
    return (truth.exp() * (truth - scores.log_softmax(-1))).sum().item()


def consistency(page: Any) -> Any:
    """The figure: divergence by number of draws, and the error of each score, for two ways to weigh.

    Source: `sumexp.negatives.consistency.minimiser`, for 50 classes.
    """
    controls = (
        page.Control("negatives $m$", [str(m) for m in DRAWS], 4),
        page.Control("skew $s$ of the proposal", [f"{s:g}" for s in SKEWS], 2),
        page.Control("accidental hits are", list(HITS.values()), list(HITS).index("keep"), "select"),
    )
    halves = (-1, -0.5, 0, 0.5, 1)
    panels = (
        page.Panel(
            *(DRAWS, "negatives $m$", "nats from the truth", DRAWS[::2], (1e-8, 1e-6, 1e-4, 1e-2, 1)),
            *((LEAST, 10), "xy", (0, DRAWS)),
        ),
        page.Panel(RANKS, "rank of the class", "score minus truth", (1, 3, 10, 50), halves, (-1, 1), "x"),
    )
    return page.Interactive(controls, panels, [_line(page, weights) for weights in _LOOKS])


def _line(page: Any, weights: Weights) -> Any:
    nats = np.empty((len(DRAWS), len(SKEWS), len(HITS)))
    errors = np.empty((*nats.shape, len(RANKS)))
    truth = zipf(TRUTH)
    for s, skew in enumerate(SKEWS):
        for h, hits in enumerate(HITS):
            scores = None
            for d, m in enumerate(DRAWS):
                scores = minimum(weights, hits, skew, m, scores)
                shift = scores - truth
                nats[d, s, h] = divergence(scores)
                errors[d, s, h] = (shift - (truth.exp() * shift).sum())[torch.tensor(RANKS) - 1].numpy()
    color, dash = _LOOKS[weights]
    by_m: NDArray[np.float64] = np.moveaxis(nats, 0, -1)[None].clip(min=LEAST)
    reading = np.where(nats < LEAST, "0 nats, up to rounding", page.say(nats, ".2g", " nats"))
    return page.Line(f"{weights} weights", color, dash, {0: by_m, 1: errors}, reading)
