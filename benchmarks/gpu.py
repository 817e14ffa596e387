"""What a GPU does with the book: losses, exact expectations, metrics, relaxed samples, training steps, chapters.

``make gpu`` runs the tests of devices first. Without a GPU the cases run on the CPU at tiny sizes, with ``--quick``:
to see that they work. The chapters are executed twice, on the CPU alone and with training on the GPU, each from an
empty store and side by side.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import RelaxedOneHotCategorical

from benchmarks import steps
from benchmarks.measure import Tables, Timing, alone, keep, row
from sumexp import expectations, functional, ranking, samplers
from sumexp.distributions import PerturbSoftmax
from sumexp.perturb import Gaussian, Gumbel

CLASSES = 20_000
Calls = Mapping[str, Callable[[], object]]


def place() -> torch.device:
    """The GPU, or the CPU where there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def timed(action: Callable[[], object], rounds: int = 20) -> dict[str, float]:
    """The median seconds of a call, by the device's clock, and the bytes that it takes at its peak."""
    if place().type == "cpu":
        action()
        start = time.perf_counter()
        action()
        return {"seconds": time.perf_counter() - start}
    for _ in range(3):
        action()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(rounds):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        action()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / 1e3)
    return {"seconds": statistics.median(times), "bytes": torch.cuda.max_memory_allocated() - before}


def compare(size: str, ours: str, calls: Calls, floor: str = "") -> dict[str, Any]:
    """A row of the page: one call and what else does the same; ``floor`` is the least work that any of them does."""
    took: dict[str, Timing] = {name: timed(call) for name, call in calls.items()}
    least = took.pop(floor)["seconds"] if floor else None
    return row(size, took.pop(ours), took, least)


def backward(loss: Callable[[], Tensor], *leaves: Tensor) -> None:
    """A loss and its gradients."""
    torch.autograd.grad(loss(), leaves)


def batches(quick: bool) -> Iterator[dict[str, Any]]:
    """The in-batch loss of a matrix of scores that is there, forward and backward."""
    for size, dtype in ((64, torch.float32),) if quick else SIZES:
        source = torch.Generator(place()).manual_seed(0)
        labels = torch.randint(CLASSES, (size,), generator=source, device=place())
        log_q = samplers.LogUniform(CLASSES).log_prob(labels.cpu()).float().to(place())
        scores = torch.randn(size, size, generator=source, device=place()).to(dtype).requires_grad_()
        places = torch.arange(size, device=place())
        losses = {
            "in_batch": partial(functional.in_batch, scores, labels, log_q=log_q),
            "F.cross_entropy, log q subtracted": lambda s=scores, q=log_q, p=places: F.cross_entropy(s - q, p),
            "F.cross_entropy": partial(F.cross_entropy, scores, places),
        }
        calls = {name: partial(backward, loss, scores) for name, loss in losses.items()}
        yield compare(f"{size:,}, {str(dtype).removeprefix('torch.')}", "in_batch", calls)


def products(left: Tensor, right: Tensor) -> None:
    """The work of scores, of their computation anew and of both gradients."""
    for _ in range(4):
        left @ right.T


def towers(quick: bool) -> Iterator[dict[str, Any]]:
    """The in-batch loss from the vectors of two towers, forward and backward; the floor is four products."""
    for size in (64,) if quick else (4096, 32768):
        source = torch.Generator(place()).manual_seed(0)
        left, right = (
            F.normalize(torch.randn(size, 128, generator=source, device=place())).requires_grad_() for _ in range(2)
        )
        ids, places = torch.arange(size), torch.arange(size, device=place())
        log_q = torch.randn(size, generator=source, device=place()).log_softmax(0)
        losses = {
            "linear_in_batch": lambda a=left, b=right, i=ids, q=log_q: functional.linear_in_batch(
                a, b, i, log_q=q, temperature=0.1
            ),
            "in_batch": lambda a=left, b=right, i=ids, q=log_q: functional.in_batch(
                a @ b.T, i, log_q=q, temperature=0.1
            ),
            "F.cross_entropy, log q subtracted": lambda a=left, b=right, p=places, q=log_q: F.cross_entropy(
                a @ b.T / 0.1 - q, p
            ),
        }
        calls: dict[str, Callable[[], object]] = {
            name: partial(backward, loss, left, right) for name, loss in losses.items()
        }
        calls["products"] = partial(products, left.detach(), right.detach())
        yield compare(f"{size:,} × 128", "linear_in_batch", calls, floor="products")


SIZES = [(size, torch.float32) for size in (256, 1024, 4096, 16384)] + [(16384, torch.bfloat16)]


def exact(quick: bool) -> Iterator[dict[str, Any]]:
    """Exact expectations of a sampled softmax with 100 negatives; the floor is one pass of ``exp``."""
    for classes in (1000,) if quick else (10**5, 10**6, 10**7):
        source = torch.Generator(place()).manual_seed(0)
        logits = torch.randn(classes, generator=source, device=place(), dtype=torch.float64)
        target = torch.empty_like(logits)
        calls = {
            "exact": partial(expectations.sampled_softmax, logits, label=0, m=100),
            "one pass": partial(torch.exp, logits, out=target),
        }
        yield compare(f"{classes:,} classes", "exact", calls, floor="one pass")


def metrics(name: str, quick: bool) -> Iterator[dict[str, Any]]:
    """A ranking metric of matrices with ten relevant items a row."""
    for lists, items in ((20, 100),) if quick else ((10_000, 1000), (1000, 100_000)):
        source = torch.Generator(place()).manual_seed(0)
        scores = torch.randn(lists, items, generator=source, device=place())
        labels = torch.randint(items, (lists, 10), generator=source, device=place())
        relevant = torch.zeros(lists, items, dtype=torch.bool, device=place()).scatter_(1, labels, True)
        metric = getattr(ranking, name)
        first = (10,) if name == "recall" else ()
        calls = {name: lambda m=metric, s=scores, r=relevant, k=first: m(s, r, *k), "argsort": scores.argsort}
        calls |= {"topk(10)": partial(scores.topk, 10)} if first else {}
        yield compare(f"{lists:,} × {items:,}", name, calls)


def relaxed(quick: bool) -> Iterator[dict[str, Any]]:
    """Relaxed samples of ten classes with gradients."""
    rows = 100 if quick else 10**6
    loc = torch.randn(rows, 10, device=place(), requires_grad=True)
    tau = torch.tensor(0.5, device=place())
    draws: dict[str, Callable[[], Tensor]] = {
        "Gumbel": lambda: PerturbSoftmax(loc, 0.5, Gumbel(), validate_args=False).rsample(),
        "Gaussian": lambda: PerturbSoftmax(loc, 0.5, Gaussian(), validate_args=False).rsample(),
        "RelaxedOneHotCategorical": lambda: RelaxedOneHotCategorical(tau, logits=loc, validate_args=False).rsample(),
        "F.gumbel_softmax": lambda: F.gumbel_softmax(loc, tau=0.5),
    }
    calls = {name: partial(backward, lambda draw=draw: draw().square().sum(), loc) for name, draw in draws.items()}
    for noise in ("Gumbel", "Gaussian"):
        peers = ("RelaxedOneHotCategorical", "F.gumbel_softmax")
        yield compare(f"{rows:,} × 10, {noise}", noise, {name: calls[name] for name in (noise, *peers)})


def executed(profile: str, device: str, only: str = "") -> dict[str, float]:
    """Seconds of each chapter, all from an empty store, side by side on all cores."""
    from claimbook.pipeline import book, plan
    from claimbook.store import default
    from claimbook.store.entries import write_text

    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, SUMEXP_STORE=folder):
        made = plan.make(profile, device, only)
        plan.BUILD.mkdir(exist_ok=True)
        write_text(plan.PLAN, made.model_dump_json())
        book.execute(made, os.cpu_count() or 1)
        entries = {name: default().find(made.notebooks[name]) for name in made.selected}
        return {name: entry.provenance.seconds for name, entry in entries.items() if entry is not None}


def chapters(profile: str, only: str = "") -> list[dict[str, Any]]:
    """Seconds of each chapter on the CPU alone, and with training on the GPU."""
    seconds = {device: alone(executed, profile, device, only) for device in ("cpu", place().type)}
    on_cpu, on_gpu = seconds["cpu"], seconds[place().type]
    return [
        {"chapter": name, "CPU alone": on_cpu[name], "GPU": on_gpu[name], "CPU / GPU": on_cpu[name] / on_gpu[name]}
        for name in on_cpu
    ]


METRICS = ("recall", "ndcg", "reciprocal_rank")
TABLES: Mapping[str, Callable[[bool], Iterator[dict[str, Any]]]] = {
    "In-batch loss on scores, GPU": batches,
    "In-batch loss from two towers, GPU": towers,
    "Exact expectations, 100 negatives, GPU": exact,
    **{f"Ranking: {name.replace('_', ' ')}, GPU": partial(metrics, name) for name in METRICS},
    "Relaxed draws with gradient, GPU": relaxed,
    "A training step in a CUDA graph": steps.rows,
}


def _listed(title: str, quick: bool) -> list[dict[str, Any]]:
    return [*TABLES[title](quick)]


def main(threads: int, quick: bool) -> None:
    if not (quick or torch.cuda.is_available()):
        print("gpu: torch finds no CUDA device; nothing measured")
        return
    tables: Tables = {}
    try:
        for title in TABLES:
            tables[title] = alone(_listed, title, quick)
        tables["Chapters at profile smoke"] = chapters("smoke", "bias towers" if quick else "")
    finally:  # what was measured is kept where a case or a chapter fails
        keep("gpu", tables, threads, quick)


def book(threads: int, quick: bool) -> None:
    """The whole book at profile ``cpu``, which takes minutes."""
    tables = {"Chapters at profile cpu": chapters("smoke" if quick else "cpu", "bias towers" if quick else "")}
    keep("gpu-book", tables, threads, quick)
