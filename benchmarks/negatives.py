"""Drawing negatives, the sampled step beside full ones, and in-batch InfoNCE, beside what a user would pick instead."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Tables, alone, machine, peak_bytes, row, seconds, write
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
    before = peak_bytes()
    setup = seconds(lambda: samplers.Categorical(q), 1)
    memory = peak_bytes() - before
    sampler = samplers.Categorical(q)
    return {"seconds": seconds(lambda: sampler.sample(DRAWS, generator)), "setup": setup, "bytes": memory}


def law_draws(name: str, classes: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    sampler, generator = getattr(samplers, name)(classes), torch.Generator().manual_seed(0)
    return {"seconds": seconds(lambda: sampler.sample(DRAWS, generator))}


def multinomial_draws(classes: int, threads: int) -> dict[str, float] | None:
    torch.set_num_threads(threads)
    q, generator = zipf(classes).float(), torch.Generator().manual_seed(0)
    before = peak_bytes()
    draw = lambda: torch.multinomial(q, DRAWS[0] * DRAWS[1], replacement=True, generator=generator)  # noqa: E731
    try:
        draw()
    except RuntimeError:
        return None  # more than 2^24 categories
    return {"seconds": seconds(draw), "bytes": peak_bytes() - before}


def urn_draws(classes: int, threads: int) -> dict[str, float]:
    from scipy.stats.sampling import DiscreteAliasUrn

    warnings.simplefilter("ignore")  # of "serious round-off error" at 3 x 10^7 classes
    q = zipf(classes).numpy()
    before = peak_bytes()
    setup = seconds(lambda: DiscreteAliasUrn(q, random_state=np.random.default_rng(0)), 1)
    urn = DiscreteAliasUrn(q, random_state=np.random.default_rng(0))
    return {"seconds": seconds(lambda: urn.rvs(DRAWS)), "setup": setup, "bytes": peak_bytes() - before}


def choice_draws(classes: int, threads: int) -> dict[str, float]:
    q, generator = zipf(classes).numpy(), np.random.default_rng(0)
    return {"seconds": seconds(lambda: generator.choice(classes, DRAWS, p=q), 1)}


def floor_draws(threads: int) -> dict[str, float]:
    """One random 64-bit word for each draw: no sampler does with less."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    return {"seconds": seconds(lambda: torch.randint(1 << 62, DRAWS, generator=generator))}


def examples(classes: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(BATCH, FEATURES, generator=generator).to(device).requires_grad_()
    return hidden, torch.randint(classes, (BATCH,), generator=generator).to(device)


def sampled_step(classes: int, threads: int, device: str = "cpu") -> dict[str, float]:
    """Draw, gather, loss, backward, update."""
    torch.set_num_threads(threads)
    output = SampledOutput(FEATURES, classes, sparse=True, device=device)
    optimiser = torch.optim.SGD(output.parameters(), lr=0.1)
    hidden, labels = examples(classes, device)
    sampler, generator = samplers.LogUniform(classes, device), torch.Generator(device).manual_seed(0)

    def step() -> None:
        drawn = samplers.draw(sampler, labels, NEGATIVES, shared=True, hits="mask", generator=generator)
        positive, negative = output(hidden, labels, drawn.ids)
        loss = functional.sampled_softmax(positive, negative, log_q=drawn.log_q, correct="importance", hits=drawn.hits)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return timed(step, device)


def full_step(classes: int, threads: int, device: str = "cpu") -> dict[str, float] | None:
    """The same with all classes, by ``F.cross_entropy``."""
    if 3 * 4 * BATCH * classes > FULL_BYTES:
        return None
    torch.set_num_threads(threads)
    weight = (0.1 * torch.randn(classes, FEATURES, device=device)).requires_grad_()
    optimiser = torch.optim.SGD([weight], lr=0.1)
    hidden, labels = examples(classes, device)

    def step() -> None:
        loss = F.cross_entropy(hidden @ weight.T, labels)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return timed(step, device, 1 if classes > 10**5 else 5)


def chunked_step(classes: int, threads: int, device: str = "cpu") -> dict[str, float]:
    """The same with all classes in chunks: the logits are made twice and never kept, the update is done in place."""
    torch.set_num_threads(threads)
    weight = torch.empty(classes, FEATURES, device=device).uniform_(-0.1, 0.1)
    hidden, labels = examples(classes, device)
    hidden = hidden.detach()

    @torch.no_grad()
    def step() -> None:
        log_z = torch.full((BATCH,), -torch.inf, device=device)
        for rows in weight.split(CHUNK):
            log_z = torch.logaddexp(log_z, torch.logsumexp(hidden @ rows.T, -1))
        gradient = -weight[labels]
        own = hidden / BATCH
        for rows in weight.split(CHUNK):
            p = torch.exp(hidden @ rows.T - log_z.unsqueeze(-1))
            gradient += p @ rows
            rows.addmm_(p.T, hidden, alpha=-0.1 / BATCH)
        weight.index_add_(0, labels, own, alpha=0.1)

    return timed(step, device, 1 if classes > 10**6 else 3)


def timed(step: Callable[[], object], device: str, repeats: int = 5) -> dict[str, float]:
    """Seconds of a step and the memory that it takes beside what was there before."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()

        def synchronised() -> None:
            step()
            torch.cuda.synchronize()

        return {"seconds": seconds(synchronised, 20), "bytes": torch.cuda.max_memory_allocated() - held}
    before = peak_bytes()
    return {"seconds": seconds(step, repeats), "bytes": peak_bytes() - before}


def gpu_case(classes: int) -> dict[str, Any]:
    """The draws and the steps on a GPU."""
    q, generator = zipf(classes).cuda(), torch.Generator("cuda").manual_seed(0)
    sampler = samplers.Categorical(q)

    def drawn() -> None:
        sampler.sample(DRAWS, generator)
        torch.cuda.synchronize()

    figures: dict[str, Any] = {"classes": classes, "draw": seconds(drawn), "sampled": sampled_step(classes, 1, "cuda")}
    figures["full"] = full_step(classes, 1, "cuda") if classes <= 10**7 else None
    figures["chunked"] = chunked_step(classes, 1, "cuda")
    return figures


def main(threads: int, quick: bool) -> None:
    tables: Tables = {"Draws by popularity": [], "A training step, sampled": []}
    floor = alone(floor_draws, threads)
    draws = []
    for classes in (10**5,) if quick else (10**6, 3 * 10**7):
        case: dict[str, Any] = {"classes": classes, "floor": floor}
        case["Categorical"] = alone(alias_draws, classes, threads)
        for name in ("Uniform", "LogUniform"):
            case[name] = alone(law_draws, name, classes, threads)
        case["torch.multinomial"] = alone(multinomial_draws, classes, threads)
        case["DiscreteAliasUrn"] = alone(urn_draws, classes, threads)
        case["Generator.choice"] = alone(choice_draws, classes, threads)
        draws.append(case)
        others = {
            "torch.multinomial": case["torch.multinomial"],
            "scipy's alias urn": case["DiscreteAliasUrn"],
            "NumPy's choice": case["Generator.choice"],
        }
        tables["Draws by popularity"].append(row(f"{classes:,} classes", case["Categorical"], others, floor["seconds"]))
        print(f"{DRAWS[0]} x {DRAWS[1]} draws from {classes:.0e} classes, {threads} threads: seconds, / floor, set-up")
        for name, f in case.items():
            if name != "classes":
                print(f"  {name:18s} " + ("cannot" if f is None else _row(f, floor["seconds"])))
    steps = []
    for classes in [10**k for k in ((3, 4) if quick else (3, 4, 5, 6, 7))]:
        case = {"classes": classes}
        for name, step in (("sampled", sampled_step), ("full", full_step), ("chunked", chunked_step)):
            case[name] = alone(step, classes, threads)
        steps.append(case)
        others = {"F.cross_entropy on all classes": case["full"], "F.cross_entropy in chunks": case["chunked"]}
        tables["A training step, sampled"].append(row(f"{classes:,} classes", case["sampled"], others))
        print(f"A step of batch {BATCH}, {FEATURES} features, m = {NEGATIVES}, {classes:.0e} classes: seconds, MiB")
        for name in ("sampled", "full", "chunked"):
            f = case[name]
            print(f"  {name:8s} " + ("too large" if f is None else f"{f['seconds']:9.4f} {f['bytes'] / 2**20:8.0f}"))
    gpu = [gpu_case(10**k) for k in (4, 5, 6, 7)] if torch.cuda.is_available() and not quick else []
    for f in gpu:
        print(f"GPU {f}")
    if not quick:
        settings = {"draws": DRAWS, "batch": BATCH, "features": FEATURES, "negatives": NEGATIVES}
        results = {
            "machine": machine(threads),
            "tables": tables,
            **settings,
            "cases": draws,
            "steps": steps,
            "gpu": gpu,
        }
        print(f"written to {write('negatives', results)}")


def _row(f: dict[str, float], floor: float) -> str:
    setup = f"{f['setup']:7.2f} s" if "setup" in f else ""
    memory = f"{f['bytes'] / 2**20:6.0f} MiB" if "bytes" in f else ""
    return f"{f['seconds']:8.4f} {f['seconds'] / floor:7.1f} {setup} {memory}"
