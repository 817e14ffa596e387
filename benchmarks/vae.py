"""Training of categorical VAEs: a stack of models at once, beside the same models one by one, and beside the floor.

The unit is the model-epoch: one model's pass over the 50,000 images of MNIST, 500 steps. The floor of a step is the
operations of its matrix products at the rate of a large product on this machine, plus the bytes that Adam reads and
writes (weight, gradient and two moments in; weight and moments out) at the rate of a large copy. One by one means that
a single model is trained with torch's own modules and optimiser.
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Tables, alone, machine, peak_bytes, row, seconds, write
from sumexp.chapters.vae import Member, Stack
from sumexp.chapters.vae.training import Learner

BATCH, STEPS = 100, 500
PIXELS, CODE, HIDDEN = 784, 100, 300
WEIGHTS = 2 * PIXELS * HIDDEN + PIXELS + HIDDEN + 2 * CODE * HIDDEN + CODE + HIDDEN
OPERATIONS = 2 * BATCH * (5 * PIXELS * HIDDEN + 6 * CODE * HIDDEN)
CASES = {"published": Member("gumbel"), "exact": Member("gaussian", divergence="exact")}


def pictures(count: int, device: str) -> Tensor:
    """Random images of 0 and 1: what they show does not change the time."""
    generator = torch.Generator().manual_seed(0)
    return (torch.rand(count, PIXELS, generator=generator) > 0.8).float().to(device)


def timed(action: Any, device: str, repeats: int) -> float:
    """Seconds, with what a GPU has still to do."""

    def whole() -> None:
        action()
        if device == "cuda":
            torch.cuda.synchronize()

    return seconds(whole, repeats)


def floor(device: str) -> float:
    """The least seconds of a member's step."""
    size = 4096 if device == "cuda" else 1024
    a = torch.rand(size, size, device=device)
    rate = 2 * size**3 / timed(lambda: a @ a, device, 10)
    source = torch.rand(1 << 25, device=device)
    target = torch.empty_like(source)
    bandwidth = 2 * 4 * len(source) / timed(lambda: target.copy_(source), device, 10)
    return OPERATIONS / rate + 28 * WEIGHTS / bandwidth


def plain_epoch(device: str, images: Tensor) -> None:
    """One published model as torch's own modules and optimiser, written as one does for a single model."""
    encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CODE)).to(device)
    decoder = nn.Sequential(nn.Linear(CODE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PIXELS)).to(device)
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    for x in images[torch.randperm(len(images)).to(device)].split(BATCH):
        logits = encoder(x).view(-1, 10)
        noise = -torch.log(-torch.log(torch.rand_like(logits).clamp_min(1e-7)))
        pixels = decoder(torch.softmax(logits + noise, 1).view(-1, CODE))
        missed = nn.functional.binary_cross_entropy_with_logits(pixels, x, reduction="sum")
        log_q = torch.log_softmax(logits, 1)
        adam.zero_grad()
        ((missed + (log_q.exp() * log_q).sum()) / BATCH).backward()
        adam.step()


def case(name: str, size: int, precision: Any, steps: int, threads: int, device: str) -> dict[str, Any]:
    """All figures of a stack of ``size`` members, or of the plain model for size 0."""
    torch.set_num_threads(threads)
    images = pictures(BATCH * steps, device)
    plain_epoch(device, images[:BATCH])  # load all libraries first
    before = peak_bytes()
    if size == 0:
        epoch = timed(lambda: plain_epoch(device, images), device, 2)
    else:
        one = CASES[name]
        members = tuple(Member(one.noise, divergence=one.divergence, seed=seed) for seed in range(size))
        learner = Learner(Stack(members=members, precision=precision), images, device)
        epoch = timed(learner.run_epoch, device, 2)
    step = epoch / steps / max(size, 1)
    return {
        "case": name,
        "members": size,
        "precision": precision,
        "device": device,
        "step": step,
        "rate": 1 / (STEPS * step),
        "floors": step / floor(device),
        "bytes": torch.cuda.max_memory_allocated() if device == "cuda" else peak_bytes() - before,
    }


def main(threads: int, quick: bool) -> None:
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    cases = []
    for device in devices:
        largest = 4 if quick else 16 if device == "cpu" else 128
        steps = 4 if quick else 50
        plan = [("published", size, "float32") for size in (0, 1, largest)] + [("exact", largest, "float32")]
        cases += [alone(case, *row, steps, threads, device) for row in plan]
    print(
        f"Categorical VAE 784-300-10x10-300-784, batch {BATCH}, {threads} threads; / floor = time over the least time"
    )
    tables: Tables = {}
    print("device  KL term   precision  members  ms a model's step  model-epochs/s  / torch.nn  time / floor   MiB")
    for f in cases:
        single = next(g for g in cases if g["device"] == f["device"] and g["members"] == 0)
        members = str(f["members"]) if f["members"] else "torch.nn"
        if f["members"]:
            table = tables.setdefault(f"VAE, {f['case']} loss, on {f['device']}", [])
            others = {"torch.nn, one by one": {"seconds": single["step"]}}
            table.append(row(f"{members} at once", {"seconds": f["step"]}, others, f["step"] / f["floors"]))
        print(
            f"{f['device']:7s} {f['case']:9s} {f['precision']:9s} {members:>8s} {f['step'] * 1e3:18.3f} "
            f"{f['rate']:15.2f} {f['rate'] / single['rate']:11.2f} {f['floors']:13.2f} {f['bytes'] / 2**20:5.0f}"
        )
    if not quick:
        print(f"written to {write('vae', {'machine': machine(threads), 'tables': tables, 'cases': cases})}")
