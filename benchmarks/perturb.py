"""The mean of the Perturb-Softmax, exact, against Monte Carlo at a stated error."""

from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Tables, alone, keep, row, seconds
from sumexp.perturb import softmax
from sumexp.perturb.noises import Gaussian, Gumbel
from sumexp.perturb.transforms import Noise

NOISES: dict[str, Noise] = {"Gumbel": Gumbel(), "Gaussian": Gaussian()}
TAU = 1.0
TARGET = 1e-3
"""The relative error (Euclidean norm of a row) at which Monte Carlo is priced."""


def parameters(rows: int, classes: int) -> Tensor:
    """Normal parameters of standard deviation 3."""
    return 3 * torch.randn(rows, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def error_of(theta: Tensor, noise: Noise, p: Tensor) -> float:
    """Relative error of one row against the rule of half the step, without the table."""
    tau = torch.tensor(TAU, dtype=torch.float64)
    x = (theta - theta.max()) / TAU
    direct = torch.zeros_like(x)
    for u in torch.arange(-48, 8, 0.125, dtype=torch.float64):
        parts = noise.transform(x + u, tau)
        direct += 0.125 * torch.exp(parts.log_first + parts.log.sum())
    return ((p - direct).norm() / direct.norm()).item()


def samples_needed(theta: Tensor, noise: Noise, p: Tensor) -> float:
    """Monte Carlo samples for the target error of the first row, from the variance of 2,000 of them."""
    draws = noise.sample((2000, theta.shape[-1]), torch.Generator().manual_seed(1))
    variance = torch.softmax((theta[0] + draws) / TAU, -1).var(0)
    return (variance.sum() / p[0].square().sum()).item() / TARGET**2


def case(name: str, rows: int, classes: int, threads: int) -> dict[str, Any]:
    """All figures for one noise and one shape."""
    torch.set_num_threads(threads)
    noise, theta = NOISES[name], parameters(rows, classes)
    softmax.mean(theta[:1], noise, TAU)  # load all libraries first
    p = softmax.mean(theta, noise, TAU)
    repeats = 3 if rows * classes <= 10**5 else 1
    generator = torch.Generator().manual_seed(2)
    samples = max(1, 10**6 // (rows * classes))

    def draw() -> Tensor:
        noisy = theta + noise.sample((samples, rows, classes), generator)
        return torch.softmax(noisy / TAU, -1).mean(0)

    return {
        "noise": name,
        "rows": rows,
        "classes": classes,
        "mean": seconds(lambda: softmax.mean(theta, noise, TAU), repeats),
        "error": error_of(theta[0], noise, p[0]),
        "sample": seconds(draw, 3) / samples,
        "samples_mean": samples_needed(theta, noise, p),
    }


def main(threads: int, quick: bool) -> None:
    shapes = [(1, 1000), (200, 50)] if quick else [(1, 10_000), (10_000, 50)]
    cases = [alone(case, name, *shape, threads) for name in NOISES for shape in shapes]
    tables: Tables = {f"The mean of a relaxed draw, exactly, {name}": [] for name in NOISES}
    for f in cases:
        sampled = {f"Monte Carlo, to {TARGET:g}": {"seconds": f["samples_mean"] * f["sample"]}}
        rows = tables[f"The mean of a relaxed draw, exactly, {f['noise']}"]
        rows.append(row(f"{f['rows']:,} × {f['classes']:,}", {"seconds": f["mean"]}, sampled))
    keep("perturb", tables, threads, quick, cases=cases)
