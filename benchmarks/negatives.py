"""Drawing negatives and the sampled training step against what a user would pick instead."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Tables, alone, bytes_beside, keep, row, seconds
from sumexp import functional, samplers
from sumexp.nn import SampledOutput

DRAWS = (8192, 256)
BATCH, FEATURES, NEGATIVES = 128, 64, 1000
CHUNK = 8192
"""Classes that the chunked full step takes at a time: its logits stay in the cache."""
FULL_BYTES = 3 << 30
"""The full step keeps its logits, their gradient and a copy: it is left out where these take more than this."""


def zipf(classes: int) -> Tensor:
    q = 1 / torch.arange(1, classes + 1, dtype=torch.float64)
    return q / q.sum()


def alias_draws(classes: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    q, generator = zipf(classes), torch.Generator().manual_seed(0)
    memory = bytes_beside(lambda: samplers.Categorical(q))
    sampler = samplers.Categorical(q)
    return {"seconds": seconds(lambda: sampler.sample(DRAWS, generator)), "bytes": memory}


def multinomial_draws(classes: int, threads: int) -> dict[str, float] | None:
    torch.set_num_threads(threads)
    q, generator = zipf(classes).float(), torch.Generator().manual_seed(0)
    draw = lambda: torch.multinomial(q, DRAWS[0] * DRAWS[1], replacement=True, generator=generator)  # noqa: E731
    try:
        return {"seconds": seconds(draw), "bytes": bytes_beside(draw)}
    except RuntimeError:
        return None  # more than 2^24 categories


def urn_draws(classes: int, threads: int) -> dict[str, float]:
    from scipy.stats.sampling import DiscreteAliasUrn

    warnings.simplefilter("ignore")  # of "serious round-off error" at 3 x 10^7 classes
    q = zipf(classes).numpy()
    memory = bytes_beside(lambda: DiscreteAliasUrn(q))
    urn = DiscreteAliasUrn(q, random_state=np.random.default_rng(0))
    return {"seconds": seconds(lambda: urn.rvs(DRAWS)), "bytes": memory}


PEERS: dict[str, Callable[[int, int], dict[str, float] | None]] = {
    "torch.multinomial": multinomial_draws,
    "scipy's alias urn": urn_draws,
}


def floor_draws(threads: int) -> dict[str, float]:
    """One random 64-bit word for each draw: no sampler does with less."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    return {"seconds": seconds(lambda: torch.randint(1 << 62, DRAWS, generator=generator))}


def examples(classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(BATCH, FEATURES, generator=generator).requires_grad_()
    return hidden, torch.randint(classes, (BATCH,), generator=generator)


def sampled_step(classes: int, threads: int) -> dict[str, float]:
    """Draw, gather, loss, backward, update."""
    torch.set_num_threads(threads)
    output = SampledOutput(FEATURES, classes, sparse=True)
    optimiser = torch.optim.SGD(output.parameters(), lr=0.1)
    hidden, labels = examples(classes)
    sampler, generator = samplers.LogUniform(classes), torch.Generator().manual_seed(0)

    def step() -> None:
        drawn = samplers.draw(sampler, labels, NEGATIVES, shared=True, hits="mask", generator=generator)
        positive, negative = output(hidden, labels, drawn.ids)
        loss = functional.sampled_softmax(positive, negative, log_q=drawn.log_q, correct="importance", hits=drawn.hits)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return {"seconds": seconds(step), "bytes": bytes_beside(step)}


def full_step(classes: int, threads: int) -> dict[str, float] | None:
    """The same with all classes, by ``F.cross_entropy``."""
    if 3 * 4 * BATCH * classes > FULL_BYTES:
        return None
    torch.set_num_threads(threads)
    weight = (0.1 * torch.randn(classes, FEATURES)).requires_grad_()
    optimiser = torch.optim.SGD([weight], lr=0.1)
    hidden, labels = examples(classes)

    def step() -> None:
        loss = F.cross_entropy(hidden @ weight.T, labels)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return {"seconds": seconds(step, 1 if classes > 10**5 else 5), "bytes": bytes_beside(step)}


def chunked_step(classes: int, threads: int) -> dict[str, float]:
    """The same with all classes in chunks: the logits are made twice and never kept, the update is done in place."""
    torch.set_num_threads(threads)
    weight = torch.empty(classes, FEATURES).uniform_(-0.1, 0.1)
    hidden, labels = examples(classes)
    hidden = hidden.detach()

    @torch.no_grad()
    def step() -> None:
        log_z = torch.full((BATCH,), -torch.inf)
        for rows in weight.split(CHUNK):
            log_z = torch.logaddexp(log_z, torch.logsumexp(hidden @ rows.T, -1))
        gradient = -weight[labels]
        pull = hidden / BATCH
        for rows in weight.split(CHUNK):
            p = torch.exp(hidden @ rows.T - log_z.unsqueeze(-1))
            gradient += p @ rows
            rows.addmm_(p.T, hidden, alpha=-0.1 / BATCH)
        weight.index_add_(0, labels, pull, alpha=0.1)

    return {"seconds": seconds(step, 1 if classes > 10**6 else 3), "bytes": bytes_beside(step)}


def main(threads: int, quick: bool) -> None:
    tables: Tables = {"Draws by popularity": [], "A training step, sampled": []}
    cases, floor = [], alone(floor_draws, threads)
    for classes in (10**5,) if quick else (10**6, 3 * 10**7):
        ours, *peers = (alone(draws, classes, threads) for draws in (alias_draws, *PEERS.values()))
        others = dict(zip(PEERS, peers, strict=True))
        cases.append({"classes": classes, "floor": floor, "Categorical": ours, **others})
        tables["Draws by popularity"].append(row(f"{classes:,} classes", ours, others, floor["seconds"]))
    steps = []
    for classes in [10**k for k in ((3, 4) if quick else (3, 4, 5, 6, 7))]:
        case: dict[str, Any] = {"classes": classes}
        for name, step in (("sampled", sampled_step), ("full", full_step), ("chunked", chunked_step)):
            case[name] = alone(step, classes, threads)
        steps.append(case)
        others = {"F.cross_entropy on all classes": case["full"], "F.cross_entropy in chunks": case["chunked"]}
        tables["A training step, sampled"].append(row(f"{classes:,} classes", case["sampled"], others))
    keep("negatives", tables, threads, quick, batch=BATCH, negatives=NEGATIVES, cases=cases, steps=steps)
