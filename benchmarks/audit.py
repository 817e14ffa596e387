"""The audit of a sampler: a table of counts to its whole result, each case in a process of its own.

Beside it stands the search over single classes, without bins, at a size that it can still do, and what a careful
person would do without an exact expectation: draw negatives in torch until the mean loss is known to a thousandth.
"""

import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import alone, machine, peak_bytes, write
from sumexp.audit import audit, inputs
from sumexp.negatives.consistency import factors, minimiser, multiset_losses

NEGATIVES = 256
SCHEMES = (
    ("within-batch", "none"),
    ("within-batch", "importance"),
    ("within-batch-union", "relative"),
    ("distinct:log-uniform", "relative"),
)
LABELS = 10**6
"""Classes of the files of labels, which are log-uniform."""


def zipf(classes: int) -> NDArray[np.int64]:
    return np.maximum(1, 5 * classes / np.arange(1, classes + 1.0)).astype(np.int64)


def timed(action: Any) -> dict[str, float]:
    """Wall and processor time of one run, and the process's peak memory after it."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return {
        "seconds": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "bytes": peak_bytes(),
    }


def audit_case(classes: int, sampler: str, weights: str, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    hits = "keep" if weights == "none" else "mask"
    return timed(lambda: audit(zipf(classes), sampler=sampler, weights=weights, hits=hits, m=NEGATIVES))  # type: ignore[arg-type]


def whole_case(classes: int, threads: int) -> dict[str, float]:
    """One minimum of one scheme over single classes."""
    torch.set_num_threads(threads)
    counts = torch.from_numpy(zipf(classes)).double()
    log_q = (counts / counts.sum()).log()
    p = (log_q + torch.randn(classes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).softmax(0)
    losses = multiset_losses(log_q, NEGATIVES, factors("importance", log_q, NEGATIVES), tol=1e-9)
    return timed(lambda: minimiser(losses, p, tol=1e-5))


def sampled_case(classes: int, threads: int) -> dict[str, float]:
    """One value of the expected loss by drawing, to a relative error of a thousandth: no minimum yet."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    counts = torch.from_numpy(zipf(classes)).double()
    q = counts / counts.sum()
    p = (q.log() + torch.randn(classes, dtype=torch.float64, generator=generator)).softmax(0)
    ends, log_p = (q.cumsum(0), p.cumsum(0)), p.log()

    def draw() -> None:
        total, square, number = 0.0, 0.0, 0
        while number < 10**4 or math.sqrt(square / number - (total / number) ** 2) > 1e-3 * total / math.sqrt(number):
            y, j = (
                torch.searchsorted(end, torch.rand(size, dtype=torch.float64, generator=generator)).clamp_max(
                    classes - 1
                )
                for end, size in ((ends[1], (4096, 1)), (ends[0], (4096, NEGATIVES)))
            )
            terms = (log_p[j] - q[j].log() - math.log(NEGATIVES) - log_p[y]).masked_fill(j == y, -math.inf)
            loss = torch.logaddexp(terms.logsumexp(-1), torch.zeros(4096, dtype=torch.float64))
            total, square, number = total + loss.sum().item(), square + loss.square().sum().item(), number + 4096

    return timed(draw)


def labels_case(rows: int, kind: str) -> dict[str, float]:
    """Counting a file of labels; one process writes it, another counts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"labels.{kind}"
        alone(write_labels, rows, path)
        return {"file": path.stat().st_size, **alone(count_labels, path)}


def count_labels(path: Path) -> dict[str, float]:
    return timed(lambda: inputs.counts(path))


def write_labels(rows: int, path: Path) -> None:
    law = f"floor(exp(random() * ln({LABELS})))::INTEGER - 1"
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"COPY (SELECT {law} AS label FROM range({rows})) TO '{path}'")


def main(threads: int, quick: bool) -> None:
    counted = []
    for rows, kind in [(10**5, "csv")] if quick else [(10**7, "csv"), (10**8, "csv"), (10**8, "parquet")]:
        case = {"rows": rows, "kind": kind, **labels_case(rows, kind)}
        counted.append(case)
        print(
            f"counting {rows:>11,} labels of {kind:7s} ({case['file'] / 2**20:5.0f} MiB) {case['seconds']:6.1f} s, "
            f"{case['processor']:6.1f} s of processor, {case['bytes'] / 2**20:6.0f} MiB"
        )
    cases = []
    for classes in (10**4,) if quick else (10**5, 10**6, 10**7):
        for sampler, weights in SCHEMES:
            with patch.dict(os.environ, OPENBLAS_NUM_THREADS="1"):  # as the command has it
                took = alone(audit_case, classes, sampler, weights, threads)
            case = {"classes": classes, "sampler": sampler, "weights": weights, **took}
            cases.append(case)
            print(
                f"audit of {classes:>10,} classes, {sampler:20s} {weights:10s} {case['seconds']:6.1f} s, "
                f"{case['processor']:6.1f} s of processor, {case['bytes'] / 2**20:6.0f} MiB"
            )
    size = 500 if quick else 5000
    whole, sampled = alone(whole_case, size, threads), alone(sampled_case, size, threads)
    print(f"over {size:,} single classes: one minimum {whole['seconds']:.1f} s, ", end="")
    print(f"one value by drawing {sampled['seconds']:.1f} s")
    if not quick:
        results = {"machine": machine(threads), "negatives": NEGATIVES, "counted": counted, "audits": cases}
        print(write("audit", results | {"whole": {"classes": size, **whole}, "sampled": {"classes": size, **sampled}}))
