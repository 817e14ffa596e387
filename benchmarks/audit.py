"""Time and memory of an audit, from a table of counts to the result, and of counting a file of labels."""

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
    if not quick:
        results = {"machine": machine(threads), "negatives": NEGATIVES, "counted": counted, "audits": cases}
        print(write("audit", results))
