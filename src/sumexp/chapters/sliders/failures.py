"""How far a sampled loss can fall below the log rank, by the number of draws and the weight of each."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sumexp import ranking

NEGATIVES = 1000
DRAWS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
WEIGHTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
RANKS = np.unique(np.geomspace(2, NEGATIVES + 1, 40).round()).astype(int)
"""Where curves have their points; what is said of them looks at every rank."""

Gaps = NDArray[np.float64]
"""Least expected loss minus log rank at the ranks from 2 on, [NEGATIVES]."""


def failures(page: Any) -> Any:
    """The figure: least expected loss minus log rank, for a weight that is chosen and for two that follow from m.

    Source: `sumexp.ranking.deficits` and `log_least_weight`, for 1,000 negatives drawn uniformly.
    """
    controls = (
        page.Control("negatives drawn, $m$", [str(m) for m in DRAWS], 3),
        page.Control("weight $w$ of each", [f"{w:,}" for w in WEIGHTS], 0),
    )
    ticks = (2, 10, 100, 1000), (-4, -2, 0, 2, 4)
    panel = page.Panel(RANKS.tolist(), "rank", "least loss − log rank", *ticks, (-5.5, 5.5), "x")
    chosen = [[gaps(m, math.log(w)) for w in WEIGHTS] for m in DRAWS]
    importance = [math.log(NEGATIVES / m) for m in DRAWS]
    least = [ranking.log_least_weight(torch.tensor(1 / NEGATIVES, dtype=torch.float64), m).item() for m in DRAWS]
    said = [[*map(worst, row)] for row in chosen]
    lines = [
        page.Line("log rank", "grey", (), {0: np.zeros((1, 1, len(RANKS)))}),
        page.Line("weight $w$", "vermilion", (), {0: _curves(chosen)}, np.array(said)),
        _follows(page, "importance weight $n/m$", importance, "blue", (8, 4)),
        _follows(page, "least valid weight", least, "green", (2, 4)),
    ]
    return page.Interactive(controls, [panel], lines)


def gaps(m: int, log_weight: float) -> Gaps:
    """How far above the log rank the least expected loss lies, at each rank from 2 on, [NEGATIVES]."""
    sizes = torch.arange(1, NEGATIVES + 1)
    return np.asarray(-ranking.deficits(NEGATIVES, m, math.exp(log_weight), sizes))


def worst(gaps: Gaps) -> str:
    """How far the loss falls, and where."""
    rank = int(gaps.argmin())
    if gaps[rank] > -1e-9:
        return "never falls below"
    return f"falls {-gaps[rank]:.2f} below, at rank {rank + 2:,}"


def _follows(page: Any, label: str, log_weights: Sequence[float], color: str, dash: tuple[int, ...]) -> Any:
    """The line of a weight that m alone decides."""
    rows = [[gaps(m, log_w)] for m, log_w in zip(DRAWS, log_weights, strict=True)]
    said = [[f"{_weight(page, log_w)}, {worst(row)}"] for log_w, [row] in zip(log_weights, rows, strict=True)]
    return page.Line(label, color, dash, {0: _curves(rows)}, np.array(said))


def _curves(rows: Sequence[Sequence[Gaps]]) -> NDArray[np.float64]:
    return np.array(rows)[..., RANKS - 2]


def _weight(page: Any, log: float) -> str:
    """A weight, which may be a number of hundreds of digits."""
    return f"{math.exp(log):,.3g}" if log < math.log(1e3) else page.typeset(f"{math.exp(log):.1e}")
