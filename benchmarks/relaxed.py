"""Relaxed samples with gradients: this package against torch's, and against the softmax of ready-made normals.

The floor is what every relaxed sample costs: as many random normals, a softmax of them plus the logits, taken across
rows as the classes are few, and its gradient. Seconds are the processor's, of one thread.
"""

import importlib.util
from typing import Any

import torch
from torch import Tensor
from torch.distributions import RelaxedOneHotCategorical
from torch.nn import functional

from benchmarks.measure import Tables, alone, by_turns, bytes_beside, keep, row
from sumexp.distributions import PerturbSoftmax
from sumexp.perturb import Gaussian, Gumbel

TAU = 0.5
SHAPES = ((1_000, 10), (10_000, 10), (100_000, 10), (1_000_000, 10))
ROUNDS = 15
PEERS = {"Gumbel": ("RelaxedOneHotCategorical", "F.gumbel_softmax"), "Gaussian": ("relaxit",)}
"""What else draws with a noise."""


def case(rows: int, classes: int, threads: int) -> dict[str, Any]:
    """Forward and backward of a sum of squares of one draw a row: seconds and bytes of each."""
    torch.set_num_threads(threads)
    source = torch.Generator().manual_seed(0)
    loc = torch.randn(rows, classes, generator=source, requires_grad=True)
    tau = torch.tensor(TAU)

    def plain() -> Tensor:
        return torch.softmax(((loc + torch.randn(loc.shape, generator=source)) / TAU).mT, -2).mT

    draws = {
        "softmax of normals": plain,
        "PerturbSoftmax, Gumbel": lambda: PerturbSoftmax(loc, TAU, Gumbel(), validate_args=False).rsample((), source),
        "PerturbSoftmax, Gaussian": lambda: PerturbSoftmax(loc, TAU, Gaussian(), validate_args=False).rsample(
            (), source
        ),
        "RelaxedOneHotCategorical": lambda: RelaxedOneHotCategorical(tau, logits=loc, validate_args=False).rsample(),
        "F.gumbel_softmax": lambda: functional.gumbel_softmax(loc, tau=TAU),
    }

    if importlib.util.find_spec("relaxit"):
        from relaxit.distributions.LogisticNormalSoftmax import LogisticNormalSoftmax

        draws["relaxit"] = lambda: LogisticNormalSoftmax(loc / TAU, 1 / tau, validate_args=False).rsample()

    def step(draw: Any) -> None:
        loc.grad = None
        draw().square().sum().backward()

    calls = {name: lambda draw=draw: step(draw) for name, draw in draws.items()}
    times = by_turns(calls, ROUNDS, threads)
    return {
        "rows": rows,
        "classes": classes,
        **{name: {"seconds": times[name], "bytes": bytes_beside(call)} for name, call in calls.items()},
    }


def main(threads: int, quick: bool) -> None:
    cases = [alone(case, *shape, 1) for shape in (SHAPES[:2] if quick else SHAPES)]
    tables: Tables = {}
    for timings in cases:
        floor = timings["softmax of normals"]["seconds"]
        for noise, peers in PEERS.items():
            table = tables.setdefault(f"Relaxed draws of {timings['classes']} classes with gradient, {noise}", [])
            others = {name: timings.get(name) for name in peers}
            table.append(row(f"{timings['rows']:,} rows", timings[f"PerturbSoftmax, {noise}"], others, floor))
    keep("relaxed", tables, 1, quick)
