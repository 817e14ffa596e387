"""A first afternoon: six schemes train two towers on 20,000 items, beside torch alone; time of a step, and the result.

50,000 interactions, 4 epochs, one seed. The steps of all take turns on the same batches.
"""

import statistics
import time
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import alone, machine, write
from sumexp import samplers
from sumexp.chapters import towers

ALONE = "torch alone, log q off all, hits kept"


def by_hand(model: towers.Towers, contexts: Tensor, items: Tensor, log_q: Tensor, generator: torch.Generator) -> Tensor:
    """The two lines that one writes without the package."""
    return F.cross_entropy(model(contexts, items) - log_q[items], torch.arange(len(items)))


def afternoon(setting: towers.Setting, interactions: int, epochs: int, threads: int) -> dict[str, dict[str, float]]:
    """The median seconds of a step of each scheme, and its metrics at the end."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    seeded = torch.Generator().manual_seed
    truth = towers.world(setting, seeded(0))
    each = interactions // setting.contexts
    items = torch.multinomial(truth.log_p.exp(), each, replacement=True, generator=seeded(1)).flatten()
    contexts = torch.arange(setting.contexts).repeat_interleave(each)
    counts = items.bincount(minlength=setting.items)
    log_q, features = samplers.unigram(counts + 1, 1).log_prob(range(setting.items)).float(), truth.contexts.float()
    schemes = towers.SCHEMES | {ALONE: by_hand}
    models = {
        name: towers.Towers(setting, torch.zeros_like(log_q) if name == "no log q" else log_q, seeded(2))
        for name in schemes
    }
    adams = {name: torch.optim.Adam(model.parameters(), lr=setting.rate) for name, model in models.items()}
    draws = {name: seeded(3) for name in schemes}
    times: dict[str, list[float]] = {name: [] for name in schemes}
    order, names = seeded(4), list(schemes)
    for _ in range(epochs):
        for turn, batch in enumerate(torch.randperm(len(items), generator=order).split(setting.batch)[:-1]):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                start = clock()
                loss = schemes[name](models[name], features[contexts[batch]], items[batch], log_q, draws[name])
                adams[name].zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                adams[name].step()
                times[name].append(clock() - start)
    return {
        name: {"seconds": statistics.median(times[name])} | towers.evaluate(model, truth)
        for name, model in models.items()
    }


def main(threads: int, quick: bool) -> None:
    setting = towers.Setting(items=500 if quick else 20_000, features=64, taste=2.0, batch=512, rate=0.01)
    run = partial(afternoon, setting, 5_000 if quick else 50_000, 1 if quick else 4)
    found: dict[str, dict[str, Any]] = alone(run, threads)
    print(f"{setting.items} items, batch {setting.batch}: ms a step, / torch alone, KL, Recall@10, MRR")
    for name, figures in found.items():
        ratio = figures["seconds"] / found[ALONE]["seconds"]
        learned = " ".join(f"{figures[metric]:6.3f}" for metric in towers.METRICS)
        print(f"  {name:40s} {1e3 * figures['seconds']:8.2f} ({ratio:4.2f}) {learned}")
    if not quick:
        results = {"machine": machine(threads), "items": setting.items, "batch": setting.batch, "schemes": found}
        print(f"written to {write('towers', results)}")
