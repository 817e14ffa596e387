"""Mean and Hessian of the Perturb-Softmax, exact, beside Monte Carlo at a stated error: one wide row and a batch."""

import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Tables, alone, machine, peak_bytes, row, seconds, write
from sumexp.perturb import softmax
from sumexp.perturb.noises import Gaussian, Gumbel
from sumexp.perturb.transforms import Noise

NOISES: dict[str, Noise] = {"Gumbel": Gumbel(), "Gaussian": Gaussian()}
TAU = 1.0
TARGET = 1e-3
"""The relative error (Euclidean norm of a row) at which Monte Carlo is priced."""
YEAR = 3.15e7


def parameters(rows: int, classes: int, device: str = "cpu") -> Tensor:
    """Normal parameters of standard deviation 3."""
    generator = torch.Generator().manual_seed(0)
    return (3 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)).to(device)


def error_of(theta: Tensor, noise: Noise, p: Tensor) -> float:
    """Relative error of one row against the rule of half the step, without the table."""
    one = torch.tensor(TAU, dtype=torch.float64)
    x = (theta - theta.max()) / TAU
    direct = torch.zeros_like(x)
    for u in torch.arange(-48, 8, 0.125, dtype=torch.float64):
        parts = noise.transform(x + u, one)
        direct += 0.125 * torch.exp(parts.log_first + parts.log.sum())
    return ((p - direct).norm() / direct.norm()).item()


def sampled_moments(theta: Tensor, noise: Noise, samples: int) -> tuple[Tensor, Tensor]:
    """Per-sample variances of the Monte Carlo estimates of p and of the Hessian's diagonal, of the first row."""
    draws = noise.sample((samples, theta.shape[-1]), torch.Generator().manual_seed(1))
    p = torch.softmax((theta[0] + draws) / TAU, -1)
    return p.var(0), (p - p.square()).var(0)


def case(name: str, rows: int, classes: int, threads: int) -> dict[str, Any]:
    """All figures for one noise and one shape."""
    torch.set_num_threads(threads)
    noise, theta = NOISES[name], parameters(rows, classes)
    softmax.mean(theta[:1], noise, TAU)  # load all libraries first
    before = peak_bytes()
    p = softmax.mean(theta, noise, TAU)
    diagonal = softmax.hessian_diagonal(theta, noise, TAU)
    beside = peak_bytes() - before
    repeats = 3 if rows * classes <= 10**5 else 1
    generator = torch.Generator().manual_seed(2)
    samples = max(1, 10**6 // (rows * classes))

    def draw() -> Tensor:
        noisy = theta + noise.sample((samples, rows, classes), generator)
        return torch.softmax(noisy / TAU, -1).mean(0)

    of_mean, of_diagonal = sampled_moments(theta, noise, 2000)
    figures: dict[str, Any] = {
        "noise": name,
        "rows": rows,
        "classes": classes,
        "mean": seconds(lambda: softmax.mean(theta, noise, TAU), repeats),
        "diagonal": seconds(lambda: softmax.hessian_diagonal(theta, noise, TAU), repeats),
        "product": seconds(lambda: softmax.hessian_product(theta, p, noise, TAU), repeats),
        "hessian": None,
        "softmax": seconds(lambda: torch.softmax(theta, -1), 20),
        "bytes": beside,
        "error": error_of(theta[0], noise, p[0]),
        "sample": seconds(draw, 3) / samples,
        "samples_mean": (of_mean.sum() / p[0].square().sum()).item() / TARGET**2,
        "samples_diagonal": (of_diagonal.sum() / diagonal[0].square().sum()).item() / TARGET**2,
    }
    if classes <= 100:  # for d = 10^4 the full Hessian is 800 MB; its diagonal and products say all
        figures["hessian"] = seconds(lambda: softmax.hessian(theta, noise, TAU), 1)
    return figures


def gpu_case(name: str, rows: int, classes: int) -> dict[str, Any]:
    """The same on a GPU."""
    noise, theta = NOISES[name], parameters(rows, classes, "cuda")

    def timed(function: Any) -> float:
        def synchronised() -> None:
            function(theta, noise, TAU)
            torch.cuda.synchronize()

        return seconds(synchronised, 3)

    p = softmax.mean(theta, noise, TAU)
    torch.cuda.reset_peak_memory_stats()
    return {
        "noise": name,
        "rows": rows,
        "classes": classes,
        "mean": timed(softmax.mean),
        "diagonal": timed(softmax.hessian_diagonal),
        "bytes": torch.cuda.max_memory_allocated(),
        "difference": (p[0].cpu() - softmax.mean(theta[0].cpu(), noise, TAU)).abs().max().item(),
    }


def main(threads: int, quick: bool) -> None:
    shapes = [(1, 1000), (200, 50)] if quick else [(1, 10_000), (10_000, 50)]
    cases = [alone(case, name, *shape, threads) for name in NOISES for shape in shapes]
    print(f"Perturb-Softmax at tau = {TAU:g}, {threads} threads, seconds; / softmax = ratio to one plain softmax")
    print("noise       rows classes     mean  / softmax  diagonal   H v     full H   MiB beside   error")
    for f in cases:
        full = "      -" if f["hessian"] is None else f"{f['hessian']:7.2f}"
        print(
            f"{f['noise']:9s} {f['rows']:6d} {f['classes']:7d} {f['mean']:8.3f} {f['mean'] / f['softmax']:10.0f} "
            f"{f['diagonal']:9.3f} {f['product']:7.3f} {full} {f['bytes'] / 2**20:10.0f}   {f['error']:.0e}"
        )
    tables: Tables = {f"The mean of a relaxed draw, exactly, {name}": [] for name in NOISES}
    print(f"Monte Carlo to a relative error of {TARGET:g}, and to that of the exact rule (extrapolated)")
    for f in cases:
        priced = f["samples_mean"] * f["sample"]
        tables[f"The mean of a relaxed draw, exactly, {f['noise']}"].append(
            row(
                f"{f['rows']:,} × {f['classes']:,}",
                {"seconds": f["mean"]},
                {f"Monte Carlo, to {TARGET:g}": {"seconds": priced}},
            )
        )
        years = priced * (TARGET / max(f["error"], 1e-16)) ** 2 / YEAR
        print(
            f"{f['noise']:9s} {f['rows']:6d} {f['classes']:7d}  mean {f['samples_mean']:.1e} samples, {priced:8.1f} s, "
            f"{priced / f['mean']:.0f} times the exact; diagonal {f['samples_diagonal'] * f['sample']:8.1f} s; "
            f"at equal error 10^{math.log10(years):.0f} years"
        )
    gpu = []
    if torch.cuda.is_available():
        gpu = [gpu_case(name, *shape) for name in NOISES for shape in shapes]
        for f in gpu:
            print(f"GPU {f['noise']:9s} {f['rows']:6d} {f['classes']:7d} {f['mean']:8.4f} {f['diagonal']:8.4f} s")
    if not quick:
        found = {"tau": TAU, "target": TARGET, "cases": cases, "gpu": gpu}
        print(f"written to {write('perturb', {'machine': machine(threads), 'tables': tables, **found})}")
