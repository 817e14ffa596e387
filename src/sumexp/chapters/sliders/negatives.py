r"""How far the exact minimum of a sampled loss lies from the truth, by number of draws, law of the draws and hits."""

from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sumexp.negatives.consistency import factors, minimiser, multiset_losses
from sumexp.negatives.schemes import Weights
from sumexp.samplers._negatives import Hits

TRUTH = 1.5  # the exponent of the true distribution
DRAWS = tuple(2**k for k in range(9))
SKEWS = (0.0, 0.5, 1.0, 1.5)
HITS: dict[Hits, str] = {"mask": "masked", "keep": "kept", "redraw": "redrawn"}
LEAST = 1e-8  # nats below which a divergence is zero up to rounding
RANKS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 39, 50)  # of the classes whose scores are shown


def zipf(exponent: float, classes: int = 50) -> Tensor:
    r""":math:`\log q_y`, [classes], of the law :math:`q_y\propto y^{-s}`."""
    return (-exponent * torch.arange(1, classes + 1, dtype=torch.float64).log()).log_softmax(-1)


def consistency(page: Any) -> Any:
    """The figure: divergence by number of draws, and the error of each score, for two ways to weigh.

    Source: `sumexp.negatives.consistency.minimiser`, for 50 classes.
    """
    controls = (
        page.Control("negatives $m$", [str(m) for m in DRAWS], 4),
        page.Control("skew $s$ of the proposal", [f"{s:g}" for s in SKEWS], 2),
        page.Control("accidental hits are", list(HITS.values()), list(HITS).index("keep"), "select"),
    )
    nats_ticks, halves, truth = (1e-8, 1e-6, 1e-4, 1e-2, 1), (-1, -0.5, 0, 0.5, 1), zipf(TRUTH)
    panels = (
        page.Panel(DRAWS, "negatives $m$", "nats from the truth", DRAWS[::2], nats_ticks, (LEAST, 10), "xy", 0),
        page.Panel(RANKS, "rank of the class", "score minus truth", (1, 3, 10, 50), halves, (-1, 1), "x"),
    )
    lines = []
    looks: dict[Weights, tuple[str, tuple[int, ...]]] = {"importance": ("vermilion", ()), "relative": ("blue", (8, 4))}
    for weights, (color, dash) in looks.items():
        nats = np.empty((len(DRAWS), len(SKEWS), len(HITS)))
        errors = np.empty((*nats.shape, len(RANKS)))
        for (s, skew), (h, hits) in product(enumerate(SKEWS), enumerate(HITS)):
            scores, log_q = None, zipf(skew)
            for d, m in enumerate(DRAWS):
                losses = multiset_losses(log_q, m, factors(weights, log_q, m, hits=hits), hits)
                scores = minimiser(losses, truth.exp(), scores)
                shift = scores - truth
                nats[d, s, h] = (truth.exp() * (truth - scores.log_softmax(-1))).sum().item()
                errors[d, s, h] = (shift - (truth.exp() * shift).sum())[torch.tensor(RANKS) - 1].numpy()
        by_m = np.moveaxis(nats, 0, -1)[None].clip(min=LEAST)
        reading = np.where(nats < LEAST, "0 nats, up to rounding", page.say(nats, ".2g", " nats"))
        lines.append(page.Line(f"{weights} weights", color, dash, {0: by_m, 1: errors}, reading))
    return page.Interactive(controls, panels, lines)
