"""Exact expectations against a plain exp over classes x nodes, a pass over the classes, Monte Carlo and enumeration."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Tables, alone, bytes_beside, keep, row, seconds
from sumexp import expectations

DRAWS = 1000
TOLERANCE = 1e-12
TARGET = 1e-3
"""The relative error at which Monte Carlo is priced."""


def logits(classes: int) -> Tensor:
    """Log terms with the spread of a trained softmax's: normal, standard deviation 5, importance weights included."""
    generator = torch.Generator().manual_seed(0)
    result = torch.empty(classes, dtype=torch.float64)
    for part in result.split(1 << 22):
        part.normal_(0.0, 5.0, generator=generator)
    return result.add_(-math.log(DRAWS))


def expected(log_x: Tensor, method: Any = "auto") -> expectations.Expectations:
    """Both expectations and both variances."""
    return expectations.expect(expectations.with_replacement(log_x, DRAWS, method=method), TOLERANCE)


def case(classes: int, threads: int, with_direct: bool) -> dict[str, Any]:
    """All figures for one number of classes."""
    torch.set_num_threads(threads)
    log_x = logits(classes)
    expected(log_x[:1000])  # load all libraries first
    result = expected(log_x)
    exact = partial(expected, log_x)
    repeats = 5 if classes <= 10**7 else 2
    # A plain exp over classes x nodes, at its best: in blocks that stay in the cache, nothing allocated.
    block = log_x[: min(classes, 1 << 16)]
    out = torch.empty_like(block)
    return {
        "classes": classes,
        "nodes": result.nodes,
        "spread": seconds(exact, repeats),
        "exp": seconds(lambda: torch.exp(block, out=out), 50) * classes / len(block) * result.nodes,
        "floor": seconds(log_x.max, repeats),
        "bytes_beside_logits": bytes_beside(exact),
        # samples for a standard error of TARGET times the mean
        "samples_log": result.loss_variance.item() / (TARGET * result.loss.item()) ** 2,
        "samples_inverse": result.probability_variance.item() / (TARGET * result.probability.item()) ** 2,
        "log10_multisets": log10_multisets(classes),
        "direct": seconds(partial(expected, log_x, "direct"), 1) if with_direct else None,
    }


def sample_seconds(classes: int, threads: int) -> float:
    """Time of one Monte Carlo sample of X: draw the classes, add the terms."""
    torch.set_num_threads(threads)
    x = logits(classes).exp_()
    generator = torch.Generator().manual_seed(1)
    samples = 1000

    def draw() -> Tensor:
        drawn = torch.randint(classes, (samples, DRAWS), generator=generator)
        return x[drawn].sum(-1).log1p().mean()

    return seconds(draw) / samples


def log10_multisets(classes: int) -> float:
    """Decimal logarithm of the number of multisets of DRAWS classes: what enumeration would have to visit."""
    log = math.lgamma(classes + DRAWS) - math.lgamma(DRAWS + 1) - math.lgamma(classes)
    return log / math.log(10)


def main(threads: int, quick: bool) -> None:
    sizes = [10**3, 10**4, 10**5] if quick else [10**k for k in range(3, 9)]
    cases = [alone(case, size, threads, size <= 10**5 or (size == 10**6 and not quick)) for size in sizes]
    for figures in cases:
        figures["sample"] = alone(sample_seconds, figures["classes"], threads)
    tables: Tables = {"The expected loss and its variance, exactly": [_row(figures) for figures in cases]}
    keep("expectations", tables, threads, quick, draws=DRAWS, target=TARGET, cases=cases)


def _row(figures: dict[str, Any]) -> dict[str, Any]:
    others = {f"Monte Carlo, to {TARGET:g}": {"seconds": figures["samples_log"] * figures["sample"]}}
    if figures["direct"] is not None:
        others["the sum over all classes at each node"] = {"seconds": figures["direct"]}
    return row(f"{figures['classes']:,} classes", {"seconds": figures["spread"]}, others, figures["floor"])
