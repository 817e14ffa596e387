"""InfoNCE's best value between its two bounds, by the number of candidates and the mutual information."""

import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq

from sumexp.nce import Joint, global_nce

VALUES = 64
CANDIDATES = tuple(2**k for k in range(1, 17))
INFORMATION = (*(0.25 * k for k in range(1, 17)), math.log(VALUES))  # nats; 64 values can have no more


def law(information: float) -> Joint:
    """The law of 64 equally likely values with y = x in a share of the cases, else any, that has this information."""

    def mixed(share: float) -> Joint:
        same = torch.eye(VALUES, dtype=torch.float64) / VALUES
        return Joint(share * same + (1 - share) / VALUES**2)

    if information >= math.log(VALUES):
        return mixed(1.0)
    return mixed(brentq(lambda share: mixed(share).mutual_information.item() - information, 0, 1, xtol=1e-14))


def bounds(page: Any) -> Any:
    """The figure: the best value by candidates at one information, and by information at one number of candidates.

    Source: `sumexp.nce.global_nce.bound` at the best scores.
    """
    laws = map(law, INFORMATION)
    best = [global_nce.bound(joint, global_nce.optimal_scores(joint), CANDIDATES, tol=1e-8).numpy() for joint in laws]
    controls = (
        page.Control("candidates $N$", [f"{n:,}" for n in CANDIDATES], 5),
        page.Control("mutual information $I$ in nats", [f"{i:.2f}" for i in INFORMATION], 11),
    )
    nats = (0, 1, 2, 3, 4, 5)
    panels = (
        page.Panel(CANDIDATES, "candidates $N$", "nats", (4, 64, 1024, 16384), nats, (0, 5.2), "x", 0),
        page.Panel(INFORMATION, "mutual information $I$", "nats", nats[1:5], nats, (0, 5.2), "", 1),
    )
    lines = []
    for label, color, dash, values in (
        ("InfoNCE's best value $B$", "blue", (), np.array(best).T),
        ("log $N$", page.INK, (8, 4), np.log(CANDIDATES)[:, None]),
        ("$I$", "vermilion", (2, 4), np.array(INFORMATION)[None]),
    ):
        whole = np.broadcast_to(values, (len(CANDIDATES), len(INFORMATION)))
        curves = {0: whole.T[None], 1: whole[:, None]}
        lines.append(page.Line(label, color, dash, curves, page.say(values, ".3f", " nats")))
    return page.Interactive(controls, panels, lines)
