"""A training step of retrieval by number of labels.

TensorFlow's ``sampled_softmax_loss`` is timed too if ``SUMEXP_TENSORFLOW`` names the Python of an environment that has
it: its pins conflict with the book's.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count as numbers
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array

from benchmarks.measure import Tables, alone, by_turns, bytes_beside, keep, row
from sumexp._descent import generator
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval.bags import Bag, bag
from sumexp.chapters.retrieval.training import Config, Learner
from sumexp.datasets.extreme import Part

WIDTH, BATCH, NEGATIVES = 64, 256, 64
EXAMPLES, FEATURES, EACH, LABELS_EACH = 2_000, 20_000, 20, 4
FULL_BYTES = 4 << 30
"""The full step keeps its scores, their gradient and a copy: it is left out where these take more than this."""


def part(labels: int) -> Part:
    """Examples with random features, and labels by Zipf's law."""
    source = np.random.default_rng(0)

    def table(each: int, columns: int, drawn: Callable[[int], Any], dtype: type) -> csr_array:
        ids = drawn(EXAMPLES * each).astype(np.int32)
        starts = np.arange(0, EXAMPLES * each + 1, each)
        return csr_array((np.ones(len(ids), dtype), ids, starts), shape=(EXAMPLES, columns))

    zipf = lambda count: (labels ** source.random(count) - 1).astype(np.int64)  # noqa: E731
    return Part(
        table(EACH, FEATURES, lambda count: source.integers(FEATURES, size=count), np.float32),
        table(LABELS_EACH, labels, zipf, bool),
    )


def timed(step: Callable[[], object], repeats: int, threads: int) -> dict[str, float]:
    """The median seconds of a step, after one to warm up, and the peak memory of one."""
    step()
    return {"seconds": by_turns({"step": step}, repeats, threads)["step"], "bytes": bytes_beside(step)}


def learner(labels: int, method: Method) -> Learner:
    data = part(labels)
    counts = np.bincount(data.labels.indices, minlength=labels) + 1
    return Learner(Config(method=method, width=WIDTH, batch=BATCH), data, torch.from_numpy(counts), 0.05)


def batches(model: Learner) -> Iterator[tuple[Bag, torch.Tensor]]:
    for number in numbers():
        rows = np.arange(number * BATCH, (number + 1) * BATCH) % len(model.own)
        yield bag(model.part, model.examples[rows]), model.own[rows]


def sampled_step(labels: int, threads: int) -> dict[str, float]:
    """Draw, gather, loss, backward, update: of the learner that the chapter trains; and the rows that it touched."""
    torch.set_num_threads(threads)
    model = learner(labels, Method("softmax", "uniform", "importance", NEGATIVES))
    drawn, rows, examples = generator(0, "negatives"), 0, batches(model)

    def step() -> None:
        nonlocal rows
        x, targets = next(examples)
        loss = model.losses(x.ids, x.values, x.starts, targets, model.draw(drawn))
        model.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
            model.optimiser.step()
            touched = (table.grad for table in model.parameters.values())
            rows = sum(grad.coalesce().indices().shape[1] for grad in touched if grad is not None)

    timing = timed(step, 20, threads)
    # Parameters and the optimiser's state: each row read and written.
    return timing | {"moved": 4 * rows * WIDTH * 4}


def full_step(labels: int, threads: int) -> dict[str, float] | None:
    """The same with all labels, by ``F.cross_entropy``: gradient and state of the table are dense."""
    if 3 * 4 * BATCH * labels > FULL_BYTES:
        return None
    torch.set_num_threads(threads)
    model = learner(labels, Method())
    examples = batches(model)

    def step() -> None:
        x, targets = next(examples)
        loss = F.cross_entropy(model.hidden(x) @ model.labels.T, targets)
        model.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        model.optimiser.step()

    return timed(step, 2 if labels > 10**5 else 10, threads)


def tensorflow_step(labels: int, threads: int) -> dict[str, float] | None:
    """The same with TensorFlow, in another environment; None without it."""
    if not (python := os.environ.get("SUMEXP_TENSORFLOW")):
        return None
    settings = {"labels": labels, "width": WIDTH, "batch": BATCH, "negatives": NEGATIVES, "threads": threads}
    settings |= {"features": FEATURES, "each": EACH}
    script = Path(__file__).with_name("tensorflow_step.py")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "0"}
    done = subprocess.run([python, script, json.dumps(settings)], capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"  TensorFlow at {labels:.0e} labels: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    timing: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return timing


def bandwidth(threads: int) -> float:
    """Bytes a second that a copy of 256 MiB reads and writes."""
    torch.set_num_threads(threads)
    source = torch.ones(1 << 26)
    target = torch.empty_like(source)
    return 2 * 4 * len(source) / timed(lambda: target.copy_(source), 10, threads)["seconds"]


def main(threads: int, quick: bool) -> None:
    moves = alone(bandwidth, threads)
    tables: Tables = {"A step over many labels": []}
    for labels in [10**k for k in ((3, 4) if quick else (3, 4, 5, 6, 7))]:
        sampled = alone(sampled_step, labels, threads)
        peers = {"F.cross_entropy on all classes": full_step, "TensorFlow's sampled softmax": tensorflow_step}
        others = {name: alone(step, labels, threads) for name, step in peers.items()}
        tables["A step over many labels"].append(row(f"{labels:,} labels", sampled, others, sampled["moved"] / moves))
    keep("retrieval", tables, threads, quick)
