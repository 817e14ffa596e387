"""What towers find on Gowalla by how they are held back: weight decay, or cosines of a learned or a fixed temperature.

Users, items, batch and length are those of the chapter's profile ``cpu``, items have biases, and the loss is the
in-batch softmax with log q subtracted from all logits. Of the four settings of each form, validation pairs choose one
and the epoch, for each seed. With biases a training without log q is the same training from another start, so that it
serves f - log q: the chapter *since* has the theorem. Weight decay spares the biases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Tables, keep
from sumexp import datasets
from sumexp.chapters import intervals
from sumexp.chapters.catalogue.forms import Towers
from sumexp.chapters.catalogue.grids import DRAWN, PLANS, Method, config
from sumexp.chapters.catalogue.pairs import Parts, Source, load
from sumexp.chapters.catalogue.training import PATIENCE, Config, Learner, judge

SERVED = ("f", "f + log q", "f - log q")


@dataclass(frozen=True)
class Setting:
    rate: float
    cosine: bool = False
    temperature: float = 0.0
    decay: float = 0.0


FORMS: Mapping[str, tuple[Setting, ...]] = {
    "dot product": tuple(Setting(rate) for rate in (0.003, 0.01, 0.02, 0.06)),
    "dot product, weight decay": tuple(Setting(rate, decay=d) for rate in (0.01, 0.02) for d in (3e-5, 1e-4)),
    "cosine, learned temperature": tuple(Setting(rate, cosine=True) for rate in (0.003, 0.01, 0.02, 0.06)),
    "cosine, fixed temperature": tuple(Setting(0.02, True, t) for t in (0.15, 0.2, 0.25, 0.35)),
}


class Dot(Towers):
    def left(self, users: Tensor) -> Tensor:
        return F.embedding(users, self.users)

    def right(self, items: Tensor | None) -> Tensor:
        return self.items if items is None else F.embedding(items, self.items)


def learner(asked: Config, parts: Parts, setting: Setting) -> Learner:
    model = Learner(asked, parts, setting.rate)
    towers = model.towers
    if not setting.cosine:
        towers.__class__ = Dot
    if setting.temperature:
        towers.log_temperature.data.fill_(setting.temperature).log_()
        towers.log_temperature.requires_grad_(False)
    vectors, rest = [towers.users, towers.items], [towers.numbers, towers.constant, towers.log_temperature]
    groups: list[dict[str, Any]] = [
        {"params": vectors, "weight_decay": setting.decay},
        {"params": [p for p in rest if p.requires_grad]},
    ]
    model.optimiser = torch.optim.Adam(groups, setting.rate, fused=True)
    return model


def evaluate(asked: Config, parts: Parts, settings: tuple[Setting, ...]) -> dict[str, Any]:
    """NDCG and recall at 20 of held pairs for each served score, at the setting and epoch that validation chose."""
    best: dict[str, Any] = {"validation": -1.0}
    for setting in settings:
        model, last = learner(asked, parts, setting), (-1.0, 0)
        for epoch in range(asked.epochs):
            model.run_epoch()
            left, right, offset = model.vectors()
            value = judge(left, right, (offset,), parts.validation, (parts.train,))[0]["ndcg"]
            last = max(last, (value, epoch), key=lambda pair: pair[0])
            if value > best["validation"]:
                offsets = [offset + sign * model.log_q for sign in (0, 1, -1)]
                tables = judge(left, right, offsets, parts.held, (parts.train, parts.validation))
                best = {"validation": value, "epoch": epoch, "setting": vars(setting)}
                best |= {metric: [table[metric] for table in tables] for metric in ("ndcg", "recall")}
            if epoch - last[1] >= PATIENCE:
                break
    return best


def main(threads: int, quick: bool) -> None:
    torch.set_num_threads(threads)
    source: Source = "gowalla" if datasets.available("gowalla") and not quick else "synthetic"
    plan = PLANS["cpu"]["gowalla"] if source == "gowalla" else DRAWN
    seeds: dict[str, list[Any]] = {name: [] for name in FORMS}
    for seed in range(plan.seeds):
        parts = load(source, plan.users, plan.least, seed)
        for name, settings in FORMS.items():
            seeds[name].append(evaluate(config(source, plan, Method("kept"), True, seed), parts, settings))
            print(f"  {seed} {name:28s} {seeds[name][-1]}")
    tables: Tables = {}
    for metric in ("ndcg", "recall"):
        pairs = [(name, i) for name in seeds for i in range(len(SERVED))]
        runs = {(name, SERVED[i]): [seed[metric][i] for seed in seeds[name]] for name, i in pairs}
        tables[f"{metric} at 20 on Gowalla, and less that of the plain dot product"] = [
            {"form": form, "served": served, metric: f"{sum(at) / len(at):.4f}", "difference": _apart(at, runs)}
            for (form, served), at in runs.items()
        ]
    keep("regularised", tables, threads, quick or source == "synthetic", seeds=seeds)


def _apart(values: list[float], runs: Mapping[tuple[str, str], list[float]]) -> str:
    plain = runs["dot product", "f"]
    if values == plain:
        return "-"
    apart = intervals.paired(values, plain)
    return f"{apart.mean:+.4f} [{apart.low:.4f}, {apart.high:.4f}]"
