"""A step of the in-batch loss and of ``F.cross_entropy`` of the same matrix: time by turns, memory each by itself."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Tables, Timing, alone, by_turns, bytes_beside, keep, row
from sumexp import functional, samplers

FEATURES = 64
TEMPERATURE = 0.1
CLASSES = 20_000
TITLES = (
    "In-batch loss on scores", "In-batch loss from two towers", "InfoNCE from unit vectors",
    "In-batch loss, with options",
)  # fmt: skip
VECTORS = "Loss of two towers without their matrix of scores"

Loss = Callable[[Tensor], Tensor]


def contenders(size: int) -> dict[str, Loss]:
    """The loss of a matrix of scores: plain, corrected by the package, corrected in torch alone."""
    labels = torch.randint(CLASSES, (size,), generator=torch.Generator().manual_seed(0))
    places, log_q = torch.arange(size), samplers.LogUniform(CLASSES).log_prob(labels).float()
    return {
        "F.cross_entropy": lambda scores: F.cross_entropy(scores, places),
        "torch alone": lambda scores: F.cross_entropy(scores - log_q, places),
        "in_batch": lambda scores: functional.in_batch(scores, labels, log_q=log_q),
    }


def given(size: int, towers: bool) -> Callable[[], Tensor]:
    """Scores of two towers, whose product is part of the step, or a matrix that is there already."""
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(size, FEATURES, generator=generator).requires_grad_() for _ in range(2))
    matrix = (left @ right.T).detach().requires_grad_()
    return (lambda: left @ right.T) if towers else (lambda: matrix.clone())


def step_seconds(size: int, towers: bool, rounds: int, threads: int) -> dict[str, float]:
    """The median seconds of forward and backward of each loss, by turns."""
    torch.set_num_threads(threads)
    steps = {name: partial(backward, loss) for name, loss in contenders(size).items()}
    return by_turns(steps, rounds, threads, given(size, towers))


def backward(loss: Callable[..., Tensor], *arguments: Tensor) -> None:
    loss(*arguments).backward()  # type: ignore[no-untyped-call]


def step_bytes(name: str, size: int, threads: int) -> int:
    """The memory of a step in addition to the matrix of scores, after a small one to warm up."""
    torch.set_num_threads(threads)
    matrix, loss = torch.randn(size, size, requires_grad=True), contenders(size)[name]
    small = torch.zeros(8, 8, requires_grad=True)
    backward(contenders(8)[name], small)
    return bytes_beside(partial(backward, loss, matrix))


def whole_seconds(size: int, rounds: int, threads: int) -> dict[str, float]:
    """InfoNCE from two matrices of unit vectors to their gradients, as libraries of losses take it.

    pytorch-metric-learning's loss holds each pair against all others of both sides, and is left out where these fill
    the memory.
    """
    from info_nce import InfoNCE
    from pytorch_metric_learning.losses import SupConLoss

    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(1)
    left, right = (F.normalize(torch.randn(size, FEATURES, generator=generator)).requires_grad_() for _ in range(2))
    places, peer, supcon = torch.arange(size), InfoNCE(TEMPERATURE), SupConLoss(TEMPERATURE)
    whole: dict[str, Callable[[], Tensor]] = {
        "in_batch": lambda: functional.in_batch(left @ right.T, places, correct="none", temperature=TEMPERATURE),
        "F.cross_entropy": lambda: F.cross_entropy(left @ right.T / TEMPERATURE, places),
        "info-nce-pytorch": lambda: peer(left, right),
    }
    large = {"SupConLoss": lambda: supcon(torch.cat([left, right]), places.repeat(2))}

    # by itself: whatever came after it would pay for the memory that it gives back
    seconds = {}
    for losses in [whole, large] if size <= 1024 else [whole]:
        seconds |= by_turns({name: partial(backward, loss) for name, loss in losses.items()}, rounds, threads)
    return seconds


def options(size: int) -> dict[str, tuple[Loss, Loss]]:
    """What else a loss of a batch is asked for: by the package, and in torch as one would write it."""
    source = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (size,), generator=source)
    places, log_q = torch.arange(size), samplers.LogUniform(CLASSES).log_prob(labels).float()
    rows = torch.log_softmax(torch.randn(size, size, generator=source), -1)
    diagonal = torch.eye(size, dtype=torch.bool)
    positives = diagonal | (torch.rand(size, size, generator=source) < 3 / size)
    beta = 1 - 0.75 * (1 - (size - 1) / (CLASSES - 1))

    def several(scores: Tensor) -> Tensor:
        log_p = torch.log_softmax(scores - log_q, -1)
        return -(torch.where(positives, log_p, 0).sum(-1) / positives.sum(-1)).mean()

    def siglip(scores: Tensor) -> Tensor:
        return -F.logsigmoid((scores / TEMPERATURE - 10) * (2 * diagonal - 1)).sum(-1).mean()

    def gbce(scores: Tensor) -> Tensor:
        return -(beta * F.logsigmoid(scores[:, 0]) + F.logsigmoid(-scores[:, 1:]).sum(-1)).mean()

    return {
        "log q by row": (
            lambda scores: functional.in_batch(scores, labels, log_q=rows),
            lambda scores: F.cross_entropy(scores - rows, places),
        ),
        "several positives": (
            lambda scores: functional.in_batch(scores, labels, log_q=log_q, positives=positives),
            several,
        ),
        "label smoothing": (
            lambda scores: functional.in_batch(scores, labels, log_q=log_q, label_smoothing=0.1),
            lambda scores: F.cross_entropy(scores - log_q, places, label_smoothing=0.1),
        ),
        "sigmoid_pairs": (
            lambda scores: functional.sigmoid_pairs(scores, labels, temperature=TEMPERATURE, logit_bias=-10.0),
            siglip,
        ),
        "gbce": (lambda scores: functional.gbce(scores[:, 0], scores[:, 1:], classes=CLASSES), gbce),
    }


def option_seconds(name: str, size: int, rounds: int, threads: int) -> dict[str, float]:
    """An option by the package and in torch alone, which give the same value, forward and backward by turns."""
    ours, by_hand = options(size)[name]
    matrix = given(size, False)
    torch.testing.assert_close(ours(matrix()), by_hand(matrix()), rtol=1e-4, atol=1e-4)
    losses = {"ours": ours, "torch alone": by_hand}
    return by_turns({key: partial(backward, loss) for key, loss in losses.items()}, rounds, threads, matrix)


def vector_losses(size: int) -> dict[str, Loss]:
    """The loss of queries [B, d] among the items of their batch, in blocks, of all scores, and torch's in blocks."""
    generator = torch.Generator().manual_seed(2)
    items = torch.randn(size, FEATURES, generator=generator).requires_grad_()
    labels = torch.randint(CLASSES, (size,), generator=generator)
    places, log_q = torch.arange(size), samplers.LogUniform(CLASSES).log_prob(labels).float()
    return {
        "linear_in_batch": lambda queries: functional.linear_in_batch(queries, items, labels, log_q=log_q),
        "in_batch": lambda queries: functional.in_batch(queries @ items.T, labels, log_q=log_q),
        "F.linear_cross_entropy": lambda queries: F.linear_cross_entropy(
            queries, items, places, linear_bias=-log_q, options=torch.nn.LinearCrossEntropyOptions()
        ),
    }


def vector_seconds(size: int, rounds: int, threads: int) -> dict[str, float]:
    """Forward and backward by turns."""
    torch.set_num_threads(threads)
    queries = torch.randn(size, FEATURES, generator=torch.Generator().manual_seed(1)).requires_grad_()
    steps = {name: partial(backward, loss, queries) for name, loss in vector_losses(size).items()}
    return by_turns(steps, rounds, threads)


def vector_bytes(name: str, size: int, threads: int) -> int:
    torch.set_num_threads(threads)
    queries, loss = torch.randn(size, FEATURES, requires_grad=True), vector_losses(size)[name]
    backward(vector_losses(8)[name], torch.zeros(8, FEATURES, requires_grad=True))
    return bytes_beside(partial(backward, loss, queries))


def vector_row(size: int, threads: int) -> dict[str, Any]:
    """Losses of two towers' vectors, with the product of the towers."""
    took = alone(vector_seconds, size, (1 << 15) // size, threads)
    taken: dict[str, Timing] = {
        name: {"seconds": seconds, "bytes": alone(vector_bytes, name, size, threads)} for name, seconds in took.items()
    }
    return row(f"{size:,} × {FEATURES}", taken.pop("linear_in_batch"), taken)


def main(threads: int, quick: bool) -> None:
    matrix, vectors, unit, asked = TITLES
    tables: Tables = {title: [] for title in (matrix, vectors, unit, asked, VECTORS)}
    for size in (256,) if quick else (256, 1024, 4096):
        rounds, title = (1 << 16) // size, f"{size:,} × {FEATURES}"
        memory = {name: alone(step_bytes, name, size, threads) for name in contenders(8)}
        for table, towers in ((matrix, False), (vectors, True)):
            took = alone(step_seconds, size, towers, rounds, threads)
            taken: dict[str, Timing] = {name: {"seconds": took[name], "bytes": memory[name]} for name in took}
            others = {name: taken[name] for name in ("F.cross_entropy", "torch alone")}
            tables[table].append(row(title, taken["in_batch"], others))
        took = alone(whole_seconds, size, max(5, rounds // 4), threads)
        whole: dict[str, Timing] = {name: {"seconds": seconds} for name, seconds in took.items()}
        tables[unit].append(row(title, whole.pop("in_batch"), whole))
    for name in options(8):
        for size in (64,) if quick else (256, 1024):
            took = alone(option_seconds, name, size, (1 << 15) // size, threads)
            by_hand = {"torch alone": {"seconds": took["torch alone"]}}
            tables[asked].append(row(f"{name}, {size:,}", {"seconds": took["ours"]}, by_hand))
    tables[VECTORS] = [vector_row(size, threads) for size in ((256,) if quick else (1024, 4096, 8192))]
    keep("batch", tables, threads, quick)
