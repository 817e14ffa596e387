"""Generators in the workers of a DataLoader: one for each worker, and the check that no two share a seed."""

import mmap
import os

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import get_worker_info

from sumexp import _checks as checks

WORKERS, KEPT = 1024, 16
"""Workers that are distinguished, and generators of each that are remembered, the latest ones."""

# Memory that a process shares with those it forks. Each worker writes in a row of its own, and then reads all.
_MARKS = np.frombuffer(mmap.mmap(-1, 8 * WORKERS * KEPT), dtype=np.int64).reshape(WORKERS, KEPT)


def check_worker_generator(generator: torch.Generator | None) -> torch.Generator | None:
    """Check that no other worker draws from the same seed, and hand the generator on to what draws.

    A generator made before workers are forked is copied into each of them, and all then draw the same negatives. So do
    generators made in the workers with one seed for all. Either is found when a second worker of one pass of a
    ``DataLoader`` draws from a generator of the same seed: :class:`SampledSoftmax` looks for itself, and code
    that draws by :mod:`sumexp.samplers` alone says ``law.sample(m, check_worker_generator(generator))``. Outside
    workers nothing is looked for.

    >>> source = torch.Generator()
    >>> samplers.check_worker_generator(source) is source
    True

    Args:
        generator: source of a draw; None, for the generator that torch seeds in each worker, is never shared.

    Raises:
        ValueError: if another worker draws from a generator of this seed (workers that are spawned share no memory, in
            which that could be seen).
    """
    generator = checks.source(generator)
    if generator is None or torch.compiler.is_compiling() or (info := get_worker_info()) is None:
        return generator
    # Seeds of workers count up from one that each pass draws anew.
    seed = generator.initial_seed()
    mark, own_marks = hash((info.seed - info.id, seed)) | 1, _MARKS[info.id % WORKERS]
    if mark not in own_marks:
        own_marks[:] = np.append(own_marks[1:], mark)
    if len(clashes := np.flatnonzero(np.equal(_MARKS, mark).any(-1))) > 1:
        raise ValueError(
            f"workers {clashes[0]} and {clashes[1]} of a DataLoader both draw from a generator of seed {seed}, so that "
            "they draw the same: make one in each worker, in worker_init_fn, by samplers.worker_generator(seed)"
        )
    return generator


def worker_generator(seed: int) -> torch.Generator:
    """A generator for this worker of a ``DataLoader``, whose draws are not those of other workers and ranks.

    A generator made *before* workers are started is copied into each, and all of them then draw the same negatives,
    silently. Make one in each worker instead, in ``worker_init_fn`` or at the start of a dataset's ``__iter__``; give
    another seed for each epoch, or all epochs draw alike. Without any generator torch seeds each worker by itself,
    and alike in processes that were seeded alike. The rank is that of ``torch.distributed``, or torchrun's ``RANK``.

    >>> samplers.worker_generator(3).initial_seed()
    3

    Args:
        seed: a whole number from 0 to 2^62; the same seed, worker and rank draw the same.

    Raises:
        ValueError: if the seed is none.
    """
    seed, info = checks.whole("seed", seed, 0, 1 << 62), get_worker_info()
    worker = 0 if info is None else info.id + 1
    rank = dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))
    # Seeds are spread by odd constants, so that worker 1 of seed 0 is not worker 0 of seed 1.
    seed += worker * 0x9E3779B97F4A7C15 + rank * 0xC2B2AE3D27D4EB4F
    return torch.Generator().manual_seed(seed % (1 << 63))
