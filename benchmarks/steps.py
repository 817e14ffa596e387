"""Learners of the book's sizes, on random data: what a training step costs, captured in a CUDA graph and eager."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse import random as random_sparse

from benchmarks.measure import row
from sumexp import _descent as descent
from sumexp.chapters import catalogue, longtail, retrieval
from sumexp.chapters.catalogue import training as towers
from sumexp.chapters.catalogue.pairs import Parts
from sumexp.chapters.longtail import grids, residual
from sumexp.chapters.longtail import training as stacks
from sumexp.chapters.models import multilabel
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import training as labels
from sumexp.chapters.vae import Member, Stack
from sumexp.chapters.vae import training as vae
from sumexp.datasets.extreme import Part
from sumexp.datasets.labelled import Labelled

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def _pictures() -> Labelled:
    source = np.random.default_rng(0)
    counts = np.maximum(5, (500 * 0.955 ** np.arange(100)).astype(int))
    names = np.repeat(np.arange(100), counts)
    pictures = source.integers(0, 256, (len(names), 32, 32, 3)).astype(np.uint8)
    return Labelled(pictures, names, pictures[:100], np.arange(100), 100)


def _vae(members: int) -> Callable[[], descent.Learner]:
    def learner() -> descent.Learner:
        images = (torch.rand(5000, 784, generator=torch.Generator().manual_seed(0)) < 0.2).float().to(DEVICE)
        return vae.Learner(Stack("mnist", tuple(Member(seed=seed) for seed in range(members))), images, DEVICE)

    return learner


def _residual(members: int, precision: residual.Precision) -> Callable[[], descent.Learner]:
    methods = grids.methods((32, 8, 96))[7 : 7 + members]
    config = residual.Residual(methods=methods, precision=precision)
    return lambda: residual.Learner(config, _pictures(), DEVICE)


def _stack() -> descent.Learner:
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(2, 10_847, 8 * 50, generator=source).to(DEVICE)
    names = torch.cat([torch.arange(100), torch.randint(100, (10_747,), generator=source)])
    methods = grids.methods((32, 8, 96))
    return stacks.Learner(longtail.Stack("cifar-100", methods=methods), inputs, names, 100, DEVICE)


def _towers(form: str) -> Callable[[], descent.Learner]:
    def learner() -> descent.Learner:
        source = np.random.default_rng(0)
        users, items, pairs = 29_858, 40_981, 200_000
        sides = source.integers(0, users, pairs), source.integers(0, items, pairs)
        train = csr_array((np.ones(pairs, dtype=bool), sides), shape=(users, items))
        parts = Parts(train, train[:1], train[:1], train[:1])
        config = catalogue.Config("gowalla", form, users=users, batch=1024, negatives=128 * (form == "popularity"))  # type: ignore[arg-type]
        return towers.Learner(config, parts, 0.01, DEVICE)

    return learner


def _labels() -> descent.Learner:
    features = random_sparse(12_920, 500, 0.036, format="csr", random_state=0, dtype=np.float32)
    names = random_sparse(12_920, 983, 0.019, format="csr", random_state=1) > 0
    part = Part(csr_array(features), csr_array(names))
    counts = torch.from_numpy(np.asarray(part.labels.sum(0)).ravel() + 1)
    method = Method("softmax", "uniform", "importance", 64)
    return labels.Learner(retrieval.Config("delicious", method), part, counts, 0.05, DEVICE)


def _tags() -> descent.Learner:
    source = torch.Generator().manual_seed(0)
    queries = (torch.rand(12_920, 500, generator=source) < 0.036).float().to(DEVICE)
    gains = torch.rand(12_920, 983, generator=source) < 0.02
    gains[:, 0] = True
    return multilabel.Learner(
        replace(multilabel.CONFIGS["cpu"]["delicious"], width=512), queries, gains.to(DEVICE), DEVICE
    )


SIZED: dict[str, Callable[[], descent.Learner]] = {
    "vae, 1 member": _vae(1),
    "vae, 16 members": _vae(16),
    "vae, 64 members": _vae(64),
    "vae, 128 members": _vae(128),
    "residual network of 56 layers, bfloat16": _residual(1, "bfloat16"),
    "7 residual networks, float32": _residual(7, "float32"),
    "7 residual networks, bfloat16": _residual(7, "bfloat16"),
    "longtail, all methods": _stack,
    "towers, in batch": _towers("kept"),
    "towers, 128 draws": _towers("popularity"),
    "towers, all items": _towers("full"),
    "retrieval, 64 uniform draws": _labels,
    "multilabel": _tags,
}


def step(name: str, graphs: bool, steps: int) -> dict[str, float]:
    """Seconds of a step after those that warm up and capture, and the peak of the GPU's memory."""
    torch.set_num_threads(1)
    os.environ[descent.GRAPHS] = "1" if graphs else "0"
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    learner = SIZED[name]()
    batches = iter(learner.batches())
    start = 0.0
    for i in range(10 + steps):
        if i == 10:
            _finish()
            start = time.perf_counter()
        learner.take_step(*next(batches))
    _finish()
    assert not (graphs and DEVICE == "cuda" and learner.eager), learner.eager  # a refused capture says so only now
    took = {"seconds": (time.perf_counter() - start) / steps}
    return took | ({"bytes": torch.cuda.max_memory_allocated()} if DEVICE == "cuda" else {})


def _finish() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    """A row for each learner: a step that is captured, and the same step taken eagerly."""
    for name in ("multilabel",) if quick else SIZED:
        captured, eager = (step(name, graphs, 2 if quick else 30) for graphs in (True, False))
        yield row(name, captured, {"eager": eager})
