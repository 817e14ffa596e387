"""How far a sampled loss can fall below the log rank, by the number of draws and the weight of each."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sumexp import ranking

NEGATIVES = 1000
DRAWS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
WEIGHTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
RANKS = np.unique(np.geomspace(2, NEGATIVES + 1, 40).round()).astype(int)  # where curves have their points


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
    uniform, sizes = torch.tensor(1 / NEGATIVES, dtype=torch.float64), torch.arange(1, NEGATIVES + 1)
    least = np.array([[ranking.log_least_weight(uniform, m).item()] for m in DRAWS])
    lines = [page.Line("log rank", "grey", (), {0: np.zeros((1, 1, len(RANKS)))}, np.array([[""]]))]
    for label, color, dash, log_weights in (
        ("weight $w$", "vermilion", (), np.array([np.log(WEIGHTS)] * len(DRAWS))),
        ("importance weight $n/m$", "blue", (8, 4), np.log(NEGATIVES / np.array(DRAWS))[:, None]),
        ("least valid weight", "green", (2, 4), least),
    ):
        pairs = zip(DRAWS, np.exp(log_weights), strict=True)
        values = np.array([[-np.asarray(ranking.deficits(NEGATIVES, m, w, sizes)) for w in row] for m, row in pairs])
        texts = np.array([[worst(ranks) for ranks in row] for row in values])
        if color != "vermilion":  # its weight stands at the control
            texts = np.char.add(page.say(np.exp(log_weights), ".3g", ", "), texts)
        lines.append(page.Line(label, color, dash, {0: values[..., RANKS - 2]}, texts))
    return page.Interactive(controls, [panel], lines)


def worst(gaps: NDArray[np.float64]) -> str:
    """How far the least expected loss falls below the log rank, at the ranks from 2 on, and where."""
    rank = int(gaps.argmin())
    return "never falls below" if gaps[rank] > -1e-9 else f"falls {-gaps[rank]:.2f} below, at rank {rank + 2:,}"
