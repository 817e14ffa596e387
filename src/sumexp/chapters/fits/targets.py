"""The target distributions, and the mass that their truncation drops.

The paper's parameters are lost in the text we have. These are the parameters of the public code that its experiment
builds on (Potapczynski et al.): ten weights, binomial(12, 0.3), Poisson(50), negative binomial(50, 0.6).

Source: Cohen Indelman and Hazan, section 6.1; Potapczynski, Loaiza-Ganem and Cunningham.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from sumexp import _checks as checks

Name = Literal["discrete", "binomial", "poisson", "negative-binomial"]
NAMES: tuple[Name, ...] = get_args(Name)
PUBLISHED_CLASSES = {"discrete": 10, "binomial": 12, "poisson": 100, "negative-binomial": 100}
"""Classes of the public code; for the binomial it leaves out the last of 13."""

_TENS: NDArray[np.float64] = np.array([10.0, 1, 5, 1, 10, 10, 1, 6, 1, 1]) / 46
_REACH = 400
"""All four laws have less than 1e-60 beyond it."""


@dataclass(frozen=True)
class Target:
    r"""Consecutive classes of a distribution, renormalised.

    Attributes:
        first: the value of the first class.
        p: probabilities of the classes, [K].
        dropped: probability of all other values, :math:`\epsilon`.
    """

    first: int
    p: Tensor
    dropped: float

    @property
    def floor(self) -> float:
        r""":math:`-\log(1-\epsilon)`, by which KL(q || the full distribution) exceeds KL(q || p) for any q."""
        return -math.log1p(-self.dropped)


def published(name: Name, classes: int | None = None) -> Target:
    """The first K classes, by default as many as in the public code (it tries 20, 40 and 100 for infinite supports).

    Raises:
        ValueError: if the name is unknown, or K is not between 2 and the size of the support.
    """
    mass = _masses(name)
    count = PUBLISHED_CLASSES[name] if classes is None else classes
    if not 2 <= count <= len(mass):
        raise ValueError(f"classes is {count}; the law {name!r} has {len(mass)} values; take 2 to {len(mass)}")
    return _cut(mass, 0, count)


def window(name: Name, dropped: float) -> Target:
    """The shortest run of classes that leaves at most half of ``dropped`` on either side.

    Raises:
        ValueError: if the name is unknown or ``dropped`` is not in (0, 1).
    """
    mass = _masses(name)
    if not 0 < dropped < 1:
        raise ValueError(f"dropped is {dropped}; it must lie inside (0, 1)")
    first = int((np.cumsum(mass) > dropped / 2).argmax())
    beyond = int((np.cumsum(mass[::-1]) > dropped / 2).argmax())  # from the small end: no digit is lost
    return _cut(mass, first, len(mass) - beyond)


def _cut(mass: NDArray[np.float64], first: int, end: int) -> Target:
    kept = torch.from_numpy(mass[first:end].copy())
    return Target(first, kept / kept.sum(), float(mass[:first].sum() + mass[end:][::-1].sum()))


def _masses(name: Name) -> NDArray[np.float64]:
    checks.choice("target", name, NAMES)
    values = np.arange(_REACH)
    match name:
        case "discrete":
            return _TENS
        case "binomial":
            return np.asarray(stats.binom.pmf(values[:13], 12, 0.3), dtype=np.float64)
        case "poisson":
            return np.asarray(stats.poisson.pmf(values, 50), dtype=np.float64)
        case "negative-binomial":
            return np.asarray(stats.nbinom.pmf(values, 50, 0.6), dtype=np.float64)
