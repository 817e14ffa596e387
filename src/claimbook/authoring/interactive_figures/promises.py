"""What a cross entropy says of a rank, by its size, the number of items and how many places count."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from claimbook.authoring.interactive import INK, Control, Interactive, Line, Panel, say
from sumexp import ranking

LOSSES = np.linspace(0, 8, 33)
ITEMS = (10, 100, 1000, 10_000)
PLACES = (1, 3, 10, 100)
FINE = np.linspace(0, 8, 321)
"""Where curves have their points: ranks make a staircase."""


def promises() -> Interactive:
    """The figure: the ranks that one loss allows, and what a mean loss guarantees of three metrics.

    Source: `sumexp.ranking.possible_ranks`, `least_rr`, `least_ndcg` and `least_recall`.
    """
    controls = (
        Control("cross entropy $c$", [f"{c:.2f}" for c in LOSSES], 6),
        Control("items $L$", [f"{n:,}" for n in ITEMS], 2),
        Control("cutoff $k$ of recall", [str(k) for k in PLACES], 2),
    )
    entropies, mark = (0, 2, 4, 6, 8), (0, LOSSES.tolist())
    decades, quarters = (1e-4, 1e-3, 1e-2, 0.1, 1), (0, 0.25, 0.5, 0.75, 1)
    panels = (
        Panel(FINE.tolist(), "cross entropy $c$", "1 / rank", entropies, decades, (8e-5, 1.3), "y", mark, (0, 1)),
        Panel(FINE.tolist(), "mean cross entropy $c$", "at least", entropies, quarters, (0, 1.03), "", mark),
    )
    lines = [
        _rank("best rank that one loss allows", 0, "purple", ()),
        _rank("worst rank that one loss allows", 1, INK, (2, 3)),
        _metric("MRR, at least", "blue", (), lambda c, n, k: ranking.least_rr(c, classes=n)),
        _metric("NDCG, at least", "vermilion", (8, 4), lambda c, n, k: ranking.least_ndcg(c, classes=n)),
        _metric("recall at $k$, at least", "green", (2, 4), recall),
    ]
    return Interactive(controls, panels, lines)


def recall(c: Tensor, items: int, k: int) -> Tensor:
    """`sumexp.ranking.least_recall`, which knows of no number of items: 1 where all of them count."""
    return ranking.least_recall(c, k) if items > k else torch.ones_like(c)


def _rank(label: str, end: int, color: str, dash: tuple[int, ...]) -> Line:
    """The least (0) or the greatest (1) rank of a loss."""

    def ranks(losses: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([[ranking.possible_ranks(c, n)[end] for n in ITEMS] for c in losses.tolist()], dtype=float)

    curve = 1 / ranks(FINE).T[None, :, None]
    return Line(label, color, dash, {0: curve}, say(ranks(LOSSES)[..., None], ",.0f"))


def _metric(label: str, color: str, dash: tuple[int, ...], least: Callable[[Tensor, int, int], Tensor]) -> Line:
    def values(losses: NDArray[np.float64]) -> NDArray[np.float64]:
        c = torch.from_numpy(losses)
        return np.array([[least(c, n, k).numpy() for k in PLACES] for n in ITEMS])

    said = np.moveaxis(values(LOSSES), -1, 0)
    return Line(label, color, dash, {1: values(FINE)[None]}, say(said, ".2f"))
