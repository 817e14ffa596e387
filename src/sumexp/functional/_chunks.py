"""Vectors of a batch that does not fit: gradients cached chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sumexp import _checks as checks


def cached(encode: Callable[..., Tensor], *inputs: Tensor, chunk_size: int) -> Tensor:
    """What an encoder makes of a batch, with the activations of one chunk in memory at a time.

    Forward keeps the vectors alone; backward encodes each chunk once more and goes through it, with the gradient that
    the loss of *all* vectors has there. So a loss that needs a large batch, as :func:`in_batch` or
    :func:`distributed_in_batch`, has the value and the gradient of one batch, at the memory of a chunk and the time of
    a second forward pass (gradient caching, GradCache):

    >>> tower, table = torch.nn.Linear(8, 4), torch.nn.Embedding(100, 4)
    >>> users, items = torch.randn(64, 8), torch.randint(100, (64,))
    >>> queries = functional.cached(tower, users, chunk_size=16)
    >>> scores = queries @ functional.cached(table, items, chunk_size=16).T
    >>> functional.in_batch(scores, items, log_q=torch.full((64,), -4.6)).backward()

    That holds for encoders in which examples do not meet. Of what is random, as dropout, backward replays the draws of
    torch's own generators on the CPU and the device, so that the gradient is that of the loss; but a chunk draws other
    numbers than a whole batch would. Batch normalisation takes the statistics of chunks, and counts each twice.

    Under ``DistributedDataParallel`` call this inside the ``forward`` of the wrapped model, which returns the loss.
    Outside, gradients of a chunk encoded by ``ddp.module`` stay those of one process, without a word.

    Args:
        encode: of a chunk of each input to vectors [b, d].
        inputs: [B, ...] each.
        chunk_size: examples of a chunk, at least 1.

    Returns:
        [B, d].

    Raises:
        ValueError: if there is no input, an input is no tensor of B rows, ``encode`` returns something else than a
            vector for each example, or the size is no positive whole number.

    Source: Gao et al. (2021), *Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup*; the replay is
    ``torch.utils.checkpoint``.
    """
    size = checks.whole("chunk_size", chunk_size, 1)
    if not inputs or not all(isinstance(given, Tensor) and given.ndim for given in inputs):
        raise ValueError("cached needs tensors [B, ...], of which it makes chunks; what else encode needs, bind to it")
    if len(lengths := {given.shape[0] for given in inputs}) > 1:
        raise ValueError(f"inputs have {sorted(lengths)} rows; all must have one for each example")
    chunks = list(zip(*(given.split(size) for given in inputs), strict=True))  # type: ignore[no-untyped-call]
    if torch.is_grad_enabled():
        encoded = [checkpoint(encode, *chunk, use_reentrant=False) for chunk in chunks]
    else:
        encoded = [encode(*chunk) for chunk in chunks]
    for vectors, (rows, *_) in zip(encoded, chunks, strict=True):
        if not isinstance(vectors, Tensor) or vectors.shape[:1] != rows.shape[:1]:
            made = f"of shape {tuple(vectors.shape)}" if isinstance(vectors, Tensor) else type(vectors).__name__
            raise ValueError(f"encode made {made} of {len(rows)} examples; it must return one tensor [{len(rows)}, d]")
    return torch.cat(encoded)
