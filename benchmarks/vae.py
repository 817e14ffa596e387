"""Training of categorical VAEs: a stack of models at once, the same models one by one, and a lower bound.

The lower bound of a step is the operations of its matrix products at the rate of a large product on this machine, plus
the bytes that Adam reads and writes (weight, gradient and two moments in; weight and moments out) at the rate of a
large copy. One by one means a single model trained with torch's own modules and optimiser.
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Tables, alone, keep, row, seconds
from sumexp.chapters.vae import Member, Stack
from sumexp.chapters.vae.training import Learner

BATCH = 100
PIXELS, CODE, HIDDEN = 784, 100, 300
WEIGHTS = 2 * PIXELS * HIDDEN + PIXELS + HIDDEN + 2 * CODE * HIDDEN + CODE + HIDDEN
OPERATIONS = 2 * BATCH * (5 * PIXELS * HIDDEN + 6 * CODE * HIDDEN)
CASES = {"published": Member("gumbel"), "exact": Member("gaussian", divergence="exact")}


def pictures(count: int) -> Tensor:
    """Random images of 0 and 1."""
    return (torch.rand(count, PIXELS, generator=torch.Generator().manual_seed(0)) > 0.8).float()


def floor() -> float:
    """A lower bound of the seconds of a member's step."""
    a, source = torch.rand(1024, 1024), torch.rand(1 << 25)
    rate = 2 * 1024**3 / seconds(lambda: a @ a, 10)
    target = torch.empty_like(source)
    bandwidth = 2 * 4 * len(source) / seconds(lambda: target.copy_(source), 10)
    return OPERATIONS / rate + 28 * WEIGHTS / bandwidth


def plain_epoch(images: Tensor) -> None:
    """One published model as torch's own modules and optimiser, written as one does for a single model."""
    encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CODE))
    decoder = nn.Sequential(nn.Linear(CODE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PIXELS))
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    for x in images[torch.randperm(len(images))].split(BATCH):
        logits = encoder(x).view(-1, 10)
        noise = -torch.log(-torch.log(torch.rand_like(logits).clamp_min(1e-7)))
        pixels = decoder(torch.softmax(logits + noise, 1).view(-1, CODE))
        missed = nn.functional.binary_cross_entropy_with_logits(pixels, x, reduction="sum")
        log_q = torch.log_softmax(logits, 1)
        adam.zero_grad()
        ((missed + (log_q.exp() * log_q).sum()) / BATCH).backward()
        adam.step()


def case(name: str, size: int, steps: int, threads: int) -> dict[str, Any]:
    """All figures of a stack of ``size`` members, or of the plain model for size 0."""
    torch.set_num_threads(threads)
    images = pictures(BATCH * steps)
    plain_epoch(images[:BATCH])  # load all libraries first
    if size == 0:
        epoch = seconds(lambda: plain_epoch(images), 2)
    else:
        member = CASES[name]
        members = tuple(Member(member.noise, divergence=member.divergence, seed=seed) for seed in range(size))
        epoch = seconds(Learner(Stack(members=members), images, "cpu").run_epoch, 2)
    step = epoch / steps / max(size, 1)
    return {"case": name, "members": size, "device": "cpu", "step": step, "floors": step / floor()}


def main(threads: int, quick: bool) -> None:
    largest, steps = (4, 4) if quick else (16, 50)
    plan = [("published", size) for size in (0, 1, largest)] + [("exact", largest)]
    single, *stacks = [alone(case, *each, steps, threads) for each in plan]
    tables: Tables = {}
    for f in stacks:
        table = tables.setdefault(f"VAE, {f['case']} loss, on {f['device']}", [])
        others = {"torch.nn, one by one": {"seconds": single["step"]}}
        table.append(row(f"{f['members']} at once", {"seconds": f["step"]}, others, f["step"] / f["floors"]))
    keep("vae", tables, threads, quick)
