"""Which laws of three classes a half space and a line of parameters represent, by noise and temperature."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from claimbook.authoring.interactive import INK, Control, Interactive, Line, Panel, Triangle
from sumexp.perturb import softmax
from sumexp.perturb.noises import Gaussian, Gumbel, Uniform, point_mass, signs
from sumexp.perturb.transforms import Noise

NOISES: Mapping[str, Noise] = {"Gumbel": Gumbel(), "Gaussian": Gaussian(), "uniform": Uniform(), "±1": signs()}
TEMPERATURES = (0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0, 8.0)
EDGE, RAY, STAR = ([1.0, -1.0, 0.0], [1.0, 2.0, 3.0], [1.0, 1.0, 0.0])
POINTS = 25
"""Of a curve on the page, on either side of the middle."""

Laws = NDArray[np.float64]


def sets() -> Interactive:
    """The figure: the images of the half space, of the line and of one point, and the share of laws that is missed.

    Source: `sumexp.perturb.softmax.mean`.
    """
    controls = (
        Control("noise", list(NOISES), 0, "select"),
        Control("temperature $τ$", [f"{tau:g}" for tau in TEMPERATURES], 4),
    )
    panels = (
        Triangle(
            "The triangle of all distributions over three classes, with those that are represented", ("1", "2", "3")
        ),
        Panel(
            *(TEMPERATURES, "temperature $τ$", "share missed", (0.1, 1, 8), (0.46, 0.47, 0.48, 0.49, 0.5)),
            *((0.46, 0.505), "x", (1, TEMPERATURES)),
        ),
    )
    return Interactive(controls, panels, _lines())


def _lines() -> list[Line]:
    grid = [[(noise, tau) for tau in TEMPERATURES] for noise in NOISES.values()]
    edges = [[edge(*case) for case in row] for row in grid]
    rays = [[ray(*case) for case in row] for row in grid]
    dots = np.array([[law([STAR], *case) for case in row] for row in grid])
    shares = np.array([[missed(case) for case in row] for row in edges])
    plain = edge(point_mass(), 1.0)
    flat = np.full((1, 1, len(TEMPERATURES)), missed(plain))
    drawn = (
        np.array([[region(case) for case in row] for row in edges]),
        np.array([[thinned(case) for case in row] for row in rays]),
    )
    said = np.array([[f"misses {100 * share:.1f} % of all distributions" for share in row] for row in shares])
    third = np.array([[f"class 2 gets at most {case[:, 1].max():.3f}" for case in row] for row in rays])
    point = np.array([[", ".join(f"{p:.3f}" for p in case[0]) for case in row] for row in dots])
    return [
        Line("half space", "blue", (), {0: drawn[0], 1: shares[:, None]}, said, "area"),
        Line("half space, without noise", "grey", (8, 4), {0: thinned(plain)[None, None], 1: flat}),
        Line("line $(t, 2t, 3t)$", "vermilion", (2, 4), {0: drawn[1]}, third),
        Line("distribution of $(1, 1, 0)$", INK, (), {0: dots}, point, "dots"),
    ]


def law(theta: Tensor | list[list[float]], noise: Noise, tau: float) -> Laws:
    """The means [points, 3] of the softmax of parameters [points, 3]."""
    return softmax.mean(torch.as_tensor(theta, dtype=torch.float64), noise, tau).numpy()


def steps(tau: float) -> Tensor:
    """Lengths at which a direction is looked at, rising from 0 until its law is at the edge of the triangle."""
    near = torch.linspace(0, 3, 37, dtype=torch.float64)
    far = torch.logspace(0, 1, 13, dtype=torch.float64)[1:] * 3
    return torch.cat([near, far]) * max(tau, 1.0)


def edge(noise: Noise, tau: float) -> Laws:
    """The half space's boundary, [points, 3], from where class 2 wins to where class 1 does."""
    half = law(steps(tau)[:, None] * torch.tensor(EDGE, dtype=torch.float64), noise, tau)
    return np.concatenate([half[:0:-1, [1, 0, 2]], half])


def ray(noise: Noise, tau: float) -> Laws:
    """The line, [points, 3], from where class 1 wins to where class 3 does."""
    t = steps(tau)[::2]
    return law(torch.cat([-t.flip(0)[:-1], t])[:, None] * torch.tensor(RAY, dtype=torch.float64), noise, tau)


def missed(boundary: Laws) -> float:
    """The share of the triangle that lies between its lower side and the boundary [points, 3]."""
    p = np.concatenate([boundary, np.eye(3)[[0, 1]]])
    x, y = p[:, 1], p[:, 2]  # of coordinates in which the triangle has area 1/2
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


def region(boundary: Laws) -> Laws:
    """The outline [points, 3] of what lies above a boundary."""
    corners = np.eye(3)
    return np.concatenate([corners[[1]], thinned(boundary), corners[[0, 2, 1]]])


def thinned(curve: Laws) -> Laws:
    """Of the points of a curve some that lie about as far from one another, its ends and its middle among them."""
    middle = len(curve) // 2
    halves = curve[: middle + 1], curve[middle:]
    first, second = (half[_spread(half)] for half in halves)
    return np.concatenate([first[:-1], second])


def _spread(curve: Laws) -> NDArray[np.int64]:
    """Which `POINTS` points of a curve divide its length about evenly."""
    length = np.r_[0, np.linalg.norm(np.diff(curve, axis=0), axis=1).cumsum()]
    wanted = np.linspace(0, length[-1], POINTS)
    nearest: NDArray[np.int64] = np.abs(length[:, None] - wanted).argmin(0)
    return nearest
