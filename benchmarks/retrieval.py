"""A training step of retrieval by number of labels, two sparse optimisers beside one another, and the text reader.

TensorFlow's ``sampled_softmax_loss`` runs beside them where ``SUMEXP_TENSORFLOW`` names the Python of an environment
that has it: its pins do not agree with those of the book.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array

from benchmarks.measure import Tables, alone, high_water, machine, row, write
from sumexp._descent import generator
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import judging, training
from sumexp.chapters.retrieval.bags import Bag, bag
from sumexp.chapters.retrieval.training import Config, Learner
from sumexp.datasets import DataError, extreme
from sumexp.datasets.extreme import Part

WIDTH, BATCH, NEGATIVES = 64, 256, 64
EXAMPLES, FEATURES, EACH, LABELS_EACH = 2_000, 20_000, 20, 4
FULL_BYTES = 4 << 30
"""The full step keeps its scores, their gradient and a copy: it is left out where these take more than this."""
RATES = {"Adagrad": (0.02, 0.05, 0.1), "SparseAdam": (0.0005, 0.002, 0.005)}
SEEDS = 3


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


def timed(step: Callable[[int], object], repeats: int, threads: int) -> dict[str, float]:
    """The least seconds of a step, and the most that a step held beside what was held before.

    Of one thread they are the process's own: what else the machine does is not counted.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    step(0)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak becomes what is held now
    before, times = high_water(), []
    for repeat in range(1, repeats + 1):
        start = clock()
        step(repeat)
        times.append(clock() - start)
    return {"seconds": min(times), "bytes": high_water() - before}


def learner(labels: int, method: Method) -> Learner:
    data = part(labels)
    counts = np.bincount(data.labels.indices, minlength=labels) + 1
    return Learner(Config(method=method, width=WIDTH, batch=BATCH), data, torch.from_numpy(counts), 0.05)


def batch_of(one: Learner, number: int) -> tuple[Bag, torch.Tensor]:
    rows = np.arange(number * BATCH, (number + 1) * BATCH) % len(one.own)
    return bag(one.part, one.examples[rows]), one.own[rows]


def sampled_step(labels: int, law: str, threads: int) -> dict[str, float]:
    """Draw, gather, loss, backward, update: of the learner that the chapter trains; and the rows that it touched."""
    torch.set_num_threads(threads)
    one = learner(labels, Method("softmax", law, "importance", NEGATIVES))  # type: ignore[arg-type]
    drawn, rows = generator(0, "negatives"), 0

    def step(number: int) -> None:
        nonlocal rows
        loss = one.loss(*batch_of(one, number), one.draw(drawn))
        one.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
            one.optimiser.step()
            touched = (table.grad for table in one.parameters.values())
            rows = sum(grad.coalesce().indices().shape[1] for grad in touched if grad is not None)

    found = timed(step, 20, threads)
    # Parameters and the optimiser's state: each row read and written.
    return found | {"moved": 4 * rows * WIDTH * 4}


def full_step(labels: int, threads: int) -> dict[str, float] | None:
    """The same with all labels, by ``F.cross_entropy``: gradient and state of the table are dense."""
    if 3 * 4 * BATCH * labels > FULL_BYTES:
        return None
    torch.set_num_threads(threads)
    one = learner(labels, Method())

    def step(number: int) -> None:
        x, own = batch_of(one, number)
        loss = F.cross_entropy(one.hidden(x) @ one.labels.T, own)
        one.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        one.optimiser.step()

    return timed(step, 2 if labels > 10**5 else 10, threads)


def tensorflow_step(labels: int, threads: int) -> dict[str, float] | None:
    """The same with TensorFlow, in its own environment; None where there is none."""
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
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def bandwidth(threads: int) -> float:
    """Bytes a second that a copy of 256 MiB reads and writes."""
    torch.set_num_threads(threads)
    source = torch.ones(1 << 26)
    target = torch.empty_like(source)
    return 2 * 4 * len(source) / timed(lambda number: target.copy_(source), 10, threads)["seconds"]


class Rival(Learner):
    """The same with another optimiser."""

    def __init__(self, config: Config, part: Part, counts: torch.Tensor, rate: float, name: str) -> None:
        super().__init__(config, part, counts, rate)
        kind = getattr(torch.optim, name)
        self.optimiser = kind(list(self.parameters.values()), rate)


def trained(source: training.Source, name: str, rate: float, seed: int, epochs: int) -> dict[str, float]:
    """What an optimiser finds with within-batch negatives."""
    torch.set_num_threads(1)
    data = training.load(source)
    method = Method("softmax", "batch", "importance", NEGATIVES)
    config = Config(source, method, seed, width=128, epochs=epochs)
    one, start = Rival(config, data.train, torch.from_numpy(data.counts), rate, name), time.process_time()
    for _ in range(epochs):
        one.run_epoch()
    seconds = time.process_time() - start
    arrays = judging.judge(one, data)
    recall = arrays["found"].sum(1) / arrays["pairs"].sum()
    return {"precision": float(arrays["precision"][0]), "recall": float(recall[1]), "seconds": seconds}


def optimisers(quick: bool) -> dict[str, Any]:
    """Each optimiser with three rates and three seeds, on Delicious or, where it is absent, Shakespeare."""
    try:
        training.load("delicious")
        source: training.Source = "shakespeare" if quick else "delicious"
    except DataError:
        source = "shakespeare"
    found: dict[str, Any] = {"source": source, "epochs": 1, "seeds": 1 if quick else SEEDS, "runs": []}
    for name, rates in RATES.items():
        for rate in rates[:1] if quick else rates:
            rows = [alone(trained, source, name, rate, seed, found["epochs"]) for seed in range(found["seeds"])]
            found["runs"].append({"optimiser": name, "rate": rate, "rows": rows})
            print(f"  {name:11s} {rate:7.4f}", *(f"P@1 {r['precision']:.3f} R@10 {r['recall']:.3f};" for r in rows))
    return found


def written(path: Path, lines: int) -> None:
    """A file of the text format: 5 labels and 20 features a line."""
    source = np.random.default_rng(0)
    with path.open("w") as stream:
        stream.write(f"{lines} 200000 100000\n")
        for start in range(0, lines, 10_000):
            count = min(10_000, lines - start)
            labels, ids = source.integers(100_000, size=(count, 5)), source.integers(200_000, size=(count, 20))
            for own, features in zip(labels.tolist(), ids.tolist(), strict=True):
                stream.write(f"{','.join(map(str, own))} {' '.join(f'{i}:0.5' for i in features)}\n")


def read(path: str, whole: bool, threads: int) -> dict[str, float]:
    """Seconds to read a file, as a stream or as a whole, and the most that was held."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before, start = high_water(), time.process_time()
    lines, held = 0, None
    if whole:
        held = extreme.read_part(Path(path))
        lines = held.features.shape[0]
    else:
        for block in extreme.blocks(Path(path)):
            lines += len(block.label_counts)
    return {"seconds": time.process_time() - start, "bytes": high_water() - before, "lines": lines}


def reader(lines: int, threads: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        written(path, lines)
        found = {"lines": lines, "file": path.stat().st_size}
        found |= {name: alone(read, str(path), name == "whole", threads) for name in ("stream", "whole")}
    return found


def main(threads: int, quick: bool) -> None:
    moves = alone(bandwidth, threads)
    steps: list[dict[str, Any]] = []
    tables: Tables = {"A step over many labels": []}
    for labels in [10**k for k in ((3, 4) if quick else (3, 4, 5, 6, 7))]:
        case: dict[str, Any] = {"labels": labels}
        case["uniform"] = alone(sampled_step, labels, "uniform", threads)
        case["batch"] = alone(sampled_step, labels, "batch", threads)
        case["full"] = alone(full_step, labels, threads)
        case["tensorflow"] = tensorflow_step(labels, threads)
        steps.append(case)
        print(f"A step of {BATCH} pairs, width {WIDTH}, m = {NEGATIVES}, {labels:.0e} labels: ms, MiB, / floor")
        floor = case["uniform"]["moved"] / moves
        others = {"F.cross_entropy on all classes": case["full"], "TensorFlow's sampled softmax": case["tensorflow"]}
        tables["A step over many labels"].append(row(f"{labels:,} labels", case["uniform"], others, floor))
        for name in ("uniform", "batch", "full", "tensorflow"):
            f = case[name]
            line = f"{1e3 * f['seconds']:9.2f} {f['bytes'] / 2**20:8.1f} {f['seconds'] / floor:9.1f}" if f else "-"
            print(f"  {name:11s} {line}")
    print("P@1 and recall at 10 after an epoch, by optimiser, rate and seed")
    rivals = optimisers(quick)
    lines = reader(10_000 if quick else 1_000_000, threads)
    for name in ("stream", "whole"):
        f = lines[name]
        print(f"{name}: {f['lines'] / f['seconds']:,.0f} lines a second, {f['bytes'] / 2**20:.0f} MiB")
    if not quick:
        settings = {"width": WIDTH, "batch": BATCH, "negatives": NEGATIVES, "features": FEATURES, "each": EACH}
        found = {"machine": machine(threads), "tables": tables, **settings, "bandwidth": moves, "steps": steps}
        print(f"written to {write('retrieval', found | {'optimisers': rivals, 'reader': lines})}")
