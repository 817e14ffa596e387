"""How far a sampled softmax is from the full one, by the number of draws and the power of the proposal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from sumexp import expectations
from sumexp.chapters.classifiers import Example

DRAWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def draws(page: Any, examples: Sequence[Example], log_frequency: Tensor) -> Any:
    """The figure: bias and standard deviation of the sampled probability and of the loss of a prediction.

    The proposal is a power of the frequencies, whose logs are [classes], up to a constant.
    Source: `sumexp.expectations.sampled_softmax`.
    """
    logs = [power * log_frequency for power in POWERS]
    table = np.array([[[errors(example, m, log_q) for example in examples] for log_q in logs] for m in DRAWS])
    controls = (
        page.Control("negatives $m$", [f"{m:,}" for m in DRAWS], 6),
        page.Control("power of frequency", [f"{power:g}" for power in POWERS], 3),
        page.Control("prediction", [example.title for example in examples], len(examples) - 1, "select"),
        page.Control("error of", ("probability, relative", "loss, in nats"), 0, "select"),
    )
    error, ticks, limits = "size of the error", (1e-4, 1e-2, 1, 100), (1e-4, 300.0)
    panels = (
        page.Panel(DRAWS, "negatives $m$", error, (1, 10, 100, 1000, 10_000), ticks, limits, "xy", 0),
        page.Panel(POWERS, "power of frequency", error, (0, 0.5, 1), ticks, limits, "y", 1),
    )
    lines = []
    looks = ("bias", "blue", (), "+.2g"), ("standard deviation", "vermilion", (8, 4), ".2g")
    for part, (label, color, dash, spec) in enumerate(looks):
        sizes = np.abs(table[..., part])
        curves = {0: np.moveaxis(sizes, 0, -1)[None], 1: np.moveaxis(sizes, 1, -1)[:, None]}
        lines.append(page.Line(label, color, dash, curves, page.say(table[..., part], spec)))
    return page.Interactive(controls, panels, lines)


def errors(example: Example, m: int, log_q: Tensor) -> list[list[float]]:
    """Bias and standard deviation [quantities, 2]: of the probability, relative to the true one; of the loss."""
    expected = expectations.sampled_softmax(example.logits, example.label, m, log_q)
    loss = -example.logits.log_softmax(0)[example.label]
    p = (-loss).exp()
    return [
        [(expected.probability / p - 1).item(), (expected.probability_variance.sqrt() / p).item()],
        [(expected.loss - loss).item(), expected.loss_variance.sqrt().item()],
    ]
