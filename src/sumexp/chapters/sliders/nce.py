"""InfoNCE's best value between its two bounds, by the number of candidates and the mutual information."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq

from sumexp.nce import Joint, global_nce

VALUES = 64
CANDIDATES = tuple(2**k for k in range(1, 17))
INFORMATION = (*(0.25 * k for k in range(1, 17)), math.log(VALUES))
"""Nats; the last is the most that 64 values can have."""


def law(information: float) -> Joint:
    """The law of 64 equally likely values with y = x in a share of the cases, else any, that has this information."""

    def mixed(share: float) -> Joint:
        same = torch.eye(VALUES, dtype=torch.float64) / VALUES
        return Joint(share * same + (1 - share) / VALUES**2)

    if information >= math.log(VALUES):
        return mixed(1.0)
    share = brentq(lambda share: mixed(share).mutual_information.item() - information, 0, 1, xtol=1e-14)
    return mixed(share)


def bounds(page: Any) -> Any:
    """The figure: the best value by candidates at one information, and by information at one number of candidates.

    Source: `sumexp.nce.global_nce.bound` at the best scores.
    """
    laws = [law(information) for information in INFORMATION]
    best = [global_nce.bound(joint, global_nce.optimal_scores(joint), CANDIDATES, tol=1e-8).numpy() for joint in laws]
    value = np.array(best).T  # [candidates, informations], as the two below
    log_n = np.broadcast_to(np.log(CANDIDATES)[:, None], value.shape)
    information = np.broadcast_to(INFORMATION, value.shape)
    controls = (
        page.Control("candidates $N$", [f"{n:,}" for n in CANDIDATES], 5),
        page.Control("mutual information $I$ in nats", [f"{i:.2f}" for i in INFORMATION], 11),
    )
    nats = (0, 1, 2, 3, 4, 5)
    panels = (
        page.Panel(CANDIDATES, "candidates $N$", "nats", (4, 64, 1024, 16384), nats, (0, 5.2), "x", (0, CANDIDATES)),
        page.Panel(INFORMATION, "mutual information $I$", "nats", nats[1:5], nats, (0, 5.2), "", (1, INFORMATION)),
    )
    lines = (
        _line(page, "InfoNCE's best value $B$", "blue", (), value),
        _line(page, "log $N$", page.INK, (8, 4), log_n),
        _line(page, "$I$", "vermilion", (2, 4), information),
    )
    return page.Interactive(controls, panels, lines)


def _line(page: Any, label: str, color: str, dash: tuple[int, ...], values: NDArray[np.float64]) -> Any:
    """Of [candidates, informations]: by candidates for an information chosen, and the other way round."""
    return page.Line(label, color, dash, {0: values.T[None], 1: values[:, None]}, page.say(values, ".3f", " nats"))
