"""Ranking metrics, beside the least that torch and NumPy do, and beside ranx where it is installed."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import alone, machine, peak_bytes, seconds, write
from sumexp import ranking

SIZES = {"many short lists": (10_000, 1_000), "few long lists": (500, 20_000)}
RELEVANT = 10
"""Relevant items of a list."""


def lists(batch: int, items: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(batch, items, generator=generator)
    return scores, torch.randint(items, (batch, RELEVANT), generator=generator)


def case(name: str, batch: int, items: int, threads: int) -> dict[str, float]:
    """Seconds, and the memory beside scores and labels."""
    torch.set_num_threads(threads)
    scores, labels = lists(batch, items)
    relevant = torch.zeros(batch, items, dtype=torch.bool).scatter_(1, labels, True)
    listed = ranking.Labels([row.nonzero().flatten().tolist() for row in relevant])
    calls: dict[str, Callable[[], object]] = {
        "topk(10)": lambda: scores.topk(10),
        "numpy.argsort": lambda: np.argsort(scores.numpy(), -1),
        "recall@10": lambda: ranking.recall(scores, relevant, 10),
        "recall@10 of labels": lambda: ranking.recall(scores, listed, 10),
        "ndcg@10": lambda: ranking.ndcg(scores, relevant, 10),
        "ndcg": lambda: ranking.ndcg(scores, relevant),
        "ndcg of labels": lambda: ranking.ndcg(scores, listed),
        "reciprocal_rank": lambda: ranking.reciprocal_rank(scores, relevant),
        "average_precision": lambda: ranking.average_precision(scores, relevant),
        "rank": lambda: ranking.rank(scores, labels[:, 0]),
        "ranks": lambda: ranking.ranks(scores),
    }
    before = peak_bytes()
    return {"seconds": seconds(calls[name], 3), "bytes": peak_bytes() - before}


NAMES = (
    "topk(10)",
    "numpy.argsort",
    "recall@10",
    "recall@10 of labels",
    "ndcg@10",
    "ndcg",
    "ndcg of labels",
    "reciprocal_rank",
    "average_precision",
    "rank",
    "ranks",
)


def ranx(metric: str, batch: int, items: int) -> dict[str, float]:
    """The same lists in ranx, its Qrels and Run made beforehand, as it takes arrays: (batch, items, 2)."""
    from numba.typed import List
    from ranx import evaluate

    scores, labels = lists(batch, items)
    number = np.broadcast_to(np.arange(items, dtype=np.float64), (batch, items))
    run = np.stack([number, scores.numpy()], -1)
    judged = List(
        [np.stack([np.unique(row), np.ones(len(np.unique(row)))], -1) for row in labels.numpy().astype(float)]
    )

    def call() -> object:  # arrays are taken as they stand: they must be sorted by score
        order = np.argsort(-run[..., 1], -1)
        return evaluate(judged, np.take_along_axis(run, order[..., None], 1), metric)

    before = peak_bytes()
    return {"seconds": seconds(call, 2), "bytes": peak_bytes() - before}


def catalogue(items: int, threads: int) -> dict[str, float]:
    """Recall@10 and MRR of 64 queries over a catalogue of items with 64 features, scored in chunks."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    queries, vectors = torch.randn(64, 64, generator=generator), torch.randn(items, 64, generator=generator)
    labels = ranking.Labels(torch.randint(items, (64, 1), generator=generator))
    chunks = ranking.Chunks(lambda start, stop: queries @ vectors[start:stop].T, items)
    before = peak_bytes()
    recall = seconds(lambda: ranking.recall(chunks, labels, 10), 2)
    memory = peak_bytes() - before
    product = seconds(lambda: [queries @ rows.T for rows in vectors.split(chunks.size)], 2)
    mrr = seconds(lambda: ranking.reciprocal_rank(chunks, labels), 2)
    return {"recall@10": recall, "reciprocal_rank": mrr, "product": product, "bytes": memory}


def main(threads: int, quick: bool) -> None:
    cases, catalogues = [], []
    for what, (batch, items) in SIZES.items():
        batch = batch // 20 if quick else batch
        figures: dict[str, Any] = {"lists": batch, "items": items, "relevant": RELEVANT}
        print(f"{what}, {batch} x {items}, {RELEVANT} relevant, {threads} threads: seconds, / topk, MiB")
        for name in NAMES:
            figures[name] = alone(case, name, batch, items, threads)
        for metric in ("recall@10", "mrr", "ndcg") if importlib.util.find_spec("ranx") else ():
            figures[f"ranx {metric}"] = alone(ranx, metric, batch, items)
        for name in list(figures)[3:]:
            ratio = figures[name]["seconds"] / figures["topk(10)"]["seconds"]
            print(f"  {name:20s} {figures[name]['seconds']:8.4f} {ratio:6.1f} {mebi(figures[name])}")
        cases.append(figures)
    print("64 queries, items in chunks: seconds of recall@10, of MRR, of the product alone, MiB")
    for items in (10**5,) if quick else (10**5, 10**6, 4 * 10**6):
        f = alone(catalogue, items, threads)
        catalogues.append({"items": items, **f})
        print(f"  {items:9,d} {f['recall@10']:8.3f} {f['reciprocal_rank']:8.3f} {f['product']:8.3f} {mebi(f)}")
    if not quick:
        print(f"written to {write('ranking', {'machine': machine(threads), 'cases': cases, 'catalogues': catalogues})}")


def mebi(f: dict[str, float]) -> str:
    return f"{f['bytes'] / 2**20:6.0f}"
