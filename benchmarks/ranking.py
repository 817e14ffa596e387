"""Ranking metrics against the least that torch and NumPy do, and against ranx and pytrec_eval where installed."""

import importlib.util
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import Tables, alone, by_turns, bytes_beside, keep, row
from sumexp import ranking

SIZES = (10_000, 1_000), (500, 20_000)
RELEVANT = 10
"""Relevant items of a list."""


def lists(batch: int, items: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(batch, items, generator=generator)
    return scores, torch.randint(items, (batch, RELEVANT), generator=generator)


Figures = dict[str, dict[str, float]]
"""Of each call its seconds, and its memory in addition to scores and labels."""


def ours(batch: int, items: int, threads: int) -> Figures:
    """Metrics of a matrix, and the least that torch and NumPy do."""
    torch.set_num_threads(threads)
    scores, labels = lists(batch, items)
    relevant = torch.zeros(batch, items, dtype=torch.bool).scatter_(1, labels, True)
    return measured(
        {
            "topk(10)": lambda: scores.topk(10),
            "numpy.argsort": lambda: np.argsort(scores.numpy(), -1),
            "recall@10": lambda: ranking.recall(scores, relevant, 10),
            "reciprocal_rank": lambda: ranking.reciprocal_rank(scores, relevant),
            "ndcg": lambda: ranking.ndcg(scores, relevant),
            "ranks": lambda: ranking.ranks(scores),
        },
        threads,
    )


def measured(calls: dict[str, Callable[[], object]], threads: int, rounds: int = 5) -> Figures:
    for call in calls.values():
        call()  # what is made once is made now
    memory = {name: bytes_beside(call) for name, call in calls.items()}
    return {name: {"seconds": s, "bytes": memory[name]} for name, s in by_turns(calls, rounds, threads).items()}


def ranx(batch: int, items: int, threads: int) -> Figures:
    """The same lists in ranx, its Qrels and Run made beforehand, as it takes arrays: (batch, items, 2)."""
    from numba.typed import List
    from ranx import evaluate

    scores, labels = lists(batch, items)
    number = np.broadcast_to(np.arange(items, dtype=np.float64), (batch, items))
    run = np.stack([number, scores.numpy()], -1)
    judged = List(
        [np.stack([np.unique(row), np.ones(len(np.unique(row)))], -1) for row in labels.numpy().astype(float)]
    )

    def call(metric: str) -> object:  # arrays are taken as they stand: they must be sorted by score
        order = np.argsort(-run[..., 1], -1)
        return evaluate(judged, np.take_along_axis(run, order[..., None], 1), metric)

    metrics = {"recall@10": "recall@10", "reciprocal_rank": "mrr", "ndcg": "ndcg"}
    return measured({name: partial(call, metric) for name, metric in metrics.items()}, threads, 3)


def pytrec_eval(batch: int, items: int, threads: int) -> Figures:
    """Ten times the first tenth of the lists in pytrec_eval, the dictionaries that it takes made beforehand."""
    import pytrec_eval as peer

    scores, labels = (part[: batch // 10] for part in lists(batch, items))
    names = [str(item) for item in range(items)]
    run = {str(i): dict(zip(names, row, strict=True)) for i, row in enumerate(scores.tolist())}
    judged = {str(i): dict.fromkeys(map(str, row), 1) for i, row in enumerate(labels.tolist())}
    metrics = {"recall@10": "recall_10", "reciprocal_rank": "recip_rank", "ndcg": "ndcg"}
    evaluators = {name: peer.RelevanceEvaluator(judged, {metric}) for name, metric in metrics.items()}
    tenth = measured({name: partial(each.evaluate, run) for name, each in evaluators.items()}, threads, 3)
    return {name: {"seconds": 10 * each["seconds"]} for name, each in tenth.items()}


PEERS = {"ranx": ranx, "pytrec_eval": pytrec_eval}


def main(threads: int, quick: bool) -> None:
    tables: Tables = {}
    for batch, items in SIZES:
        batch = batch // 20 if quick else batch
        size, figures = f"{batch:,} × {items:,}", alone(ours, batch, items, threads)
        installed = {peer: call for peer, call in PEERS.items() if importlib.util.find_spec(peer)}
        peers = {peer: alone(call, batch, items, threads) for peer, call in installed.items()}
        for name in ("recall@10", "reciprocal_rank", "ndcg"):
            others = {peer: values[name] for peer, values in peers.items()}
            table = tables.setdefault(f"Ranking: {name.replace('_', ' ')}", [])
            table.append(row(size, figures[name], others, figures["topk(10)"]["seconds"]))
        sort = {"numpy.argsort": figures["numpy.argsort"]}
        tables.setdefault("Ranks of all items", []).append(row(size, figures["ranks"], sort))
    keep("ranking", tables, threads, quick)
