"""Two towers on Gowalla, by the package and by torch alone: what they find, and time and memory of a step.

What they find is of 6,000 users and the items that these took four times, three seeds; each seed has its own split,
vectors, order and draws, the same for all methods. All have one learning rate and stop by their own validation pairs:
the losses are compared in the chapter *since*, where each has a choice of rates. The steps are timed on all users and
items, and take turns on the same batches.
"""

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Tables, Timing, alone, by_turns, bytes_beside, keep, row
from claimbook.pipeline.measured import SPACE
from sumexp import datasets, functional, nn, samplers
from sumexp.chapters.catalogue.forms import TEMPERATURE, Form, Towers
from sumexp.chapters.catalogue.pairs import Parts, Source, load
from sumexp.chapters.catalogue.training import PATIENCE, Config, Learner, judge
from sumexp.functional._batch import InBatchHits

NEGATIVES = 512
RATE = 0.01
SEEDS = 3
METRICS = "recall", "ndcg"


class InBatch(Learner):
    """The towers of the chapter and the package's in-batch loss."""

    hits: InBatchHits = "keep"

    def losses(self, *batch: Tensor) -> Tensor:
        users, items, _ = batch
        return functional.in_batch(self.towers(users, items), items, log_q=self.log_q[items], hits=self.hits)


class Masked(InBatch):
    """The same, without hits."""

    hits: InBatchHits = "mask"


class Scaled(Towers):
    """Towers whose numbers are divided by the temperature as the cosines are, which a layer's are, too."""

    def offset(self, items: Tensor | None) -> Tensor:
        return super().offset(items) * torch.exp(-self.log_temperature)


class Divided(Learner):
    """Such towers and the chapter's losses."""

    def __init__(self, config: Config, parts: Parts, rate: float) -> None:
        super().__init__(config, parts, rate)
        self.towers.__class__ = Scaled
        with torch.no_grad():
            self.towers.numbers.mul_(TEMPERATURE)


class Layer(Learner):
    """The items are a layer of the package."""

    def __init__(self, config: Config, parts: Parts, rate: float) -> None:
        super().__init__(config, parts, rate)
        sampler = samplers.unigram(np.maximum(parts.counts, 1), 1)
        self.layer = nn.SampledSoftmax(
            config.dim,
            len(self.log_q),
            sampler,
            NEGATIVES,
            normalize=True,
            temperature=TEMPERATURE,
            learn_temperature=True,
        )
        with torch.no_grad():
            self.layer.output.weight.copy_(self.towers.items)
            self.layer.output.bias.copy_(TEMPERATURE * self.log_q.unsqueeze(1))
        self.source = torch.Generator().manual_seed(config.seed)
        self.optimiser = torch.optim.Adam([self.towers.users, *self.layer.parameters()], lr=rate, fused=True)

    def losses(self, *batch: Tensor) -> Tensor:
        users, items, _ = batch
        loss: Tensor = self.layer(F.embedding(users, self.towers.users), items, generator=self.source)
        return loss

    @torch.no_grad()
    def vectors(self) -> tuple[Tensor, Tensor, Tensor]:
        output, scale = self.layer.output, 1 / self.layer.temperature
        left, right = F.normalize(self.towers.users, dim=1), F.normalize(output.weight, dim=1)
        return left * scale, right, output.bias.squeeze(1) * scale


FORMS: Mapping[str, tuple[type[Learner], Form]] = {
    "F.cross_entropy, no log q": (Learner, "none"),
    "F.cross_entropy": (Learner, "kept"),
    "in_batch": (InBatch, "kept"),
    "F.cross_entropy, hits masked": (Learner, "masked"),
    "in_batch, hits masked": (Masked, "kept"),
    "F.cross_entropy of draws": (Learner, "popularity"),
    "F.cross_entropy of draws, number / T": (Divided, "popularity"),
    "SampledSoftmax": (Layer, "popularity"),
    "F.cross_entropy of all items": (Learner, "full"),
}
PAIRS = {
    "in-batch": ("in_batch", "F.cross_entropy"),
    "in-batch, hits masked": ("in_batch, hits masked", "F.cross_entropy, hits masked"),
    f"{NEGATIVES} draws": ("SampledSoftmax", "F.cross_entropy of draws, number / T"),
}
"""By task the package's method and torch's, which the full softmax is held against, too."""


def learner(name: str, parts: Parts, config: Callable[..., Config]) -> Learner:
    kind, form = FORMS[name]
    return kind(config(form=form, negatives=NEGATIVES * (form == "popularity")), parts, RATE)


def evaluate(
    source: Source, users: int, least: int, epochs: int, batch: int, seed: int, threads: int
) -> dict[str, dict[str, float]]:
    """Recall and NDCG at 20 of each method on held pairs, and on the public ones, at its best epoch."""
    torch.set_num_threads(threads)
    parts = load(source, users, least, seed)
    log_q = torch.from_numpy(parts.log_q).float()
    config = partial(Config, source, seed=seed, users=users, least=least, batch=batch, epochs=epochs, rates=(RATE,))
    nothing = torch.zeros(users, 1), torch.zeros(len(log_q), 1)
    results = {"the most popular items": _judged(parts, *nothing, log_q)}
    for name in FORMS:
        served = {name: 0.0} | ({f"{name}, log q added when served": 1.0} if name.endswith("no log q") else {})
        towers = learner(name, parts, config)
        best = dict.fromkeys(served, (0.0, towers.vectors()))
        since = 0
        while towers.epoch < epochs and since <= PATIENCE:
            towers.run_epoch()
            since += 1
            left, right, offset = towers.vectors()
            offsets = [offset + share * log_q for share in served.values()]
            tables = judge(left, right, offsets, parts.validation, (parts.train,))
            for each, table, with_log_q in zip(served, tables, offsets, strict=True):
                if table["ndcg"] > best[each][0]:
                    best[each], since = (table["ndcg"], (left, right, with_log_q)), 0
        results |= {each: _judged(parts, *vectors) for each, (_, vectors) in best.items()}
    return results


def _judged(parts: Parts, left: Tensor, right: Tensor, offset: Tensor) -> dict[str, float]:
    before = parts.train, parts.validation
    [held] = judge(left, right, (offset,), parts.held, before)
    [public] = judge(left, right, (offset,), parts.public, (*before, parts.held))
    tables = {"held": held, "public": public}
    return {f"{which} {metric}": table[metric] for which, table in tables.items() for metric in METRICS}


def _step(towers: Learner) -> Callable[[], None]:
    """A step on the first batch."""
    size = towers.config.batch
    users, items, source = towers.users[:size], towers.items[:size], torch.Generator().manual_seed(0)

    def step() -> None:
        towers.optimiser.zero_grad()
        towers.losses(users, items, towers.draw(source)).backward()  # type: ignore[no-untyped-call]
        towers.optimiser.step()

    return step


def _whole(source: Source, users: int, batch: int) -> tuple[Parts, Callable[..., Config]]:
    return load(source, users, 1, 0), partial(Config, source, users=users, batch=batch)


def step_seconds(source: Source, users: int, batch: int, rounds: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    parts, config = _whole(source, users, batch)
    return by_turns({name: _step(learner(name, parts, config)) for name in FORMS}, rounds, threads)


def step_bytes(name: str, source: Source, users: int, batch: int, threads: int) -> int:
    """The memory of a step in addition to the parameters and Adam's moments."""
    torch.set_num_threads(threads)
    step = _step(learner(name, *_whole(source, users, batch)))
    step()
    return bytes_beside(step)


def _shown(each: list[dict[str, dict[str, float]]], which: str) -> list[dict[str, Any]]:
    """The table of what was found of some pairs: means and standard deviations over the seeds."""

    def cell(values: list[float]) -> str:
        return f"{100 * statistics.mean(values):.1f}{SPACE}±{SPACE}{100 * statistics.stdev(values):.1f}"

    heads = {"recall (%)": f"{which} recall", "NDCG (%)": f"{which} ndcg"}
    return [
        {"trained with": name} | {head: cell([seed[name][metric] for seed in each]) for head, metric in heads.items()}
        for name in each[0]
    ]


def main(threads: int, quick: bool) -> None:
    source: Source = "gowalla" if datasets.available("gowalla") else "synthetic"
    if quick or source == "synthetic":
        sizes: tuple[Any, ...] = ("synthetic", 200, 1, 2, 128)
        whole: tuple[Any, ...] = ("synthetic", 200, 128)
    else:
        sizes, whole = ("gowalla", 6_000, 4, 20, 1024), ("gowalla", 29_858, 1024)
    times = alone(step_seconds, *whole, 3 if quick else 30, threads)
    memory = {name: alone(step_bytes, name, *whole, threads) for name in FORMS}
    taken: dict[str, Timing] = {name: {"seconds": times[name], "bytes": memory[name]} for name in FORMS}
    full = "F.cross_entropy of all items"
    steps = [
        row(task, taken[ours], {"torch alone": taken[by_hand], full: taken[full]})
        for task, (ours, by_hand) in PAIRS.items()
    ]
    seeds = [alone(evaluate, *sizes, seed, threads) for seed in range(SEEDS)]
    tables: Tables = {"A step of two towers on Gowalla": steps}
    for which in ("held", "public"):
        tables[f"What two towers find on Gowalla: {which} pairs"] = _shown(seeds, which)
    keep("catalogue", tables, threads, quick or source == "synthetic", rate=RATE, seeds=seeds)
