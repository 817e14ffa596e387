"""Random numbers in the workers of a DataLoader."""

import torch
from torch.utils.data import get_worker_info

from sumexp import _checks as checks


def worker_generator(seed: int) -> torch.Generator:
    """A generator for this worker of a ``DataLoader``, whose draws are not those of the other workers.

    A generator made *before* workers are started is copied into each, and all of them then draw the same negatives,
    silently. Make one in each worker instead, in ``worker_init_fn`` or at the start of a dataset's ``__iter__``; give
    another seed for each epoch, or all epochs draw alike. Without any generator torch seeds each worker by itself.

    >>> samplers.worker_generator(3).initial_seed()
    3

    Args:
        seed: a whole number from 0 to 2^62; the same seed and worker draw the same.

    Raises:
        ValueError: if the seed is none.
    """
    seed, info = checks.whole("seed", seed, 0, 1 << 62), get_worker_info()
    generator = torch.Generator()
    # Seeds are spread by an odd constant, so that worker 1 of seed 0 is not worker 0 of seed 1.
    return generator.manual_seed(seed if info is None else (seed + (info.id + 1) * 0x9E3779B97F4A7C15) % (1 << 63))
