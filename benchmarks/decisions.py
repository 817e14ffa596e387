"""How often intervals over seeds decide wrongly, by simulation: six shapes of runs whose median is 0.

Each rate is that of the experiments in which the interval lies on one side of 0, on the side where it is larger. It may
be half of 1 - confidence. The last row is the normal difference that a design decides with probability 0.8.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks import measure
from sumexp.chapters.intervals import FAMILIES, ends, family_confidence, has_width

Values = NDArray[np.float64]
SEEDS = (2, 3, 5, 8)
LEVELS = sorted({0.95, *map(family_confidence, FAMILIES)})


def diverging(rng: np.random.Generator, shape: tuple[int, int]) -> Values:
    """Normal runs, of which one in ten ends 20 standard deviations higher."""
    runs: Values = rng.normal(size=shape) + 20 * (rng.random(shape) < 0.1) - ndtri(0.5 / 0.9)
    return runs


SHAPES: Mapping[str, Callable[[np.random.Generator, tuple[int, int]], Values]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "Student, 2 degrees": lambda rng, shape: rng.standard_t(2, shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape) - np.log(2),
    "lognormal": lambda rng, shape: rng.lognormal(size=shape) - 1,
    "one in ten diverges": diverging,
    "ties (-1, 0, 1)": lambda rng, shape: rng.integers(-1, 2, shape).astype(float),
}


def wrong(name: str, seeds: int, confidence: float, times: int) -> float:
    """The share of the experiments of a shape that are decided, on the side where it is larger."""
    low, high = ends(SHAPES[name](np.random.default_rng(seeds), (times, seeds)), confidence)
    decided = has_width(low, high)
    return float(max((decided & (low > 0)).mean(), (decided & (high < 0)).mean()))


def detected(seeds: int, confidence: float, times: int) -> float:
    """How many standard deviations a normal difference must have to be decided with probability 0.8."""
    low, _ = ends(np.random.default_rng(seeds).normal(size=(times, seeds)), confidence)
    return -float(np.quantile(low, 0.2))


def rows(confidence: float, times: int) -> list[dict[str, str]]:
    """A row for each shape, before them the rate that is stated, and last what a design detects."""

    def row(head: str, cell: Callable[[int], str]) -> dict[str, str]:
        return {"shape": head, **{f"{seeds} seeds": cell(seeds) for seeds in SEEDS}}

    return [
        row("stated, at most", lambda _: f"{(1 - confidence) / 2:.4f}"),
        *(row(name, lambda seeds, name=name: f"{wrong(name, seeds, confidence, times):.4f}") for name in SHAPES),  # type: ignore[misc]
        row("detected (standard deviations)", lambda seeds: f"{detected(seeds, confidence, times):.1f}"),
    ]


def main(threads: int, quick: bool) -> None:
    """Simulate the tables, print and keep them."""
    del threads
    tables = {f"At {100 * level:.4g} %": rows(level, 1000 if quick else 1_000_000) for level in LEVELS}
    for title, table in tables.items():
        print(title, *("\t".join(row.values()) for row in table), sep="\n")
    if not quick:
        measure.write("decisions", {"tables": tables})
