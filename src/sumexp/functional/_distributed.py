"""In-batch negatives of all processes of ``torch.distributed``."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sumexp import _checks as checks
from sumexp.functional._arguments import Correct, Reduction
from sumexp.functional._batch import InBatchHits
from sumexp.functional._linear import batch_vectors, linear_in_batch


def gathered(values: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    r"""The rows of all processes, in the order of their ranks, through which gradients flow back.

    Backward adds up what all processes ask of a process's rows; all of them must take part in it.

    >>> functional.gathered(torch.ones(2, 3)).shape  # one process
    torch.Size([2, 3])

    Args:
        values: [B, ...], of one shape and type in all processes.
        group: the processes, all by default; without ``torch.distributed`` there is one.

    Returns:
        [N B, ...].

    Raises:
        ValueError: if the batches of the processes differ in size.
    """
    if not isinstance(values, Tensor) or not values.ndim:
        raise ValueError(f"values are {values!r}; they must be a tensor [B, ...]")
    return _rows(values, group)


def _rows(values: Tensor, group: dist.ProcessGroup | None, further: int = 0) -> Tensor:
    """:func:`gathered`, where all processes must have as many ``further`` rows too: else they wait for each other."""
    if not dist.is_initialized() or dist.get_world_size(group) == 1:
        return values
    local = torch.tensor([values.shape[0], further], device=values.device)
    every = [torch.empty_like(local) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, local, group)
    batches, others = (sorted(set(sizes)) for sizes in torch.stack(every).T.tolist())
    if len(batches) > 1:
        raise ValueError(f"the batches of the processes have sizes {batches}; use drop_last=True")
    if len(others) > 1:
        raise ValueError(f"the processes have {others} further negatives; give all as many")
    rows: Tensor = _Gather.apply(values, group)  # type: ignore[no-untyped-call]
    return rows


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group, ctx.size = group, values.shape[0]
        parts = [torch.empty_like(values) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, values.contiguous(), group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Share.apply(gradient, ctx.group, ctx.size), None  # type: ignore[no-untyped-call]


class _Share(torch.autograd.Function):
    """A process's rows of the sum over all processes: the adjoint of what is gathered, and the reverse."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, group: dist.ProcessGroup | None, size: int) -> Tensor:
        ctx.group, total = group, gradient.contiguous().clone()
        dist.all_reduce(total, group=group)
        start = dist.get_rank(group) * size
        return total[start : start + size]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(gradient, ctx.group), None, None  # type: ignore[no-untyped-call]


def distributed_in_batch(
    queries: Tensor,
    items: Tensor,
    ids: checks.Values,
    *,
    log_q: checks.Values | None = None,
    correct: Correct = "all",
    hits: InBatchHits = "keep",
    temperature: float | Tensor = 1.0,
    symmetric: bool = False,
    row_ids: checks.Values | None = None,
    row_log_q: checks.Values | None = None,
    reduction: Reduction = "mean",
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    r"""The in-batch loss of this process's examples, with the items of all processes as candidates.

    The labels of other processes are draws from the same law, so they get the same :math:`\log q` and the theorem holds
    as in one batch (:func:`sumexp.functional.in_batch`). The mean of this loss over the processes is the loss of the
    joined batch, and ``DistributedDataParallel``, which averages gradients, gives its gradient. Scores are made in
    blocks (:func:`linear_in_batch`): there are no second derivatives.

    >>> queries, items = torch.eye(2), 2 * torch.eye(2)
    >>> functional.distributed_in_batch(queries, items, [5, 8], log_q=torch.tensor([0.25, 0.5]).log())
    tensor(0.1525)

    ``queries`` are [B, d], the vectors of this process's examples, and ``items`` [B + E, d], those of their classes and
    of further negatives. Further negatives serve all processes, so draw others in each (a generator with another seed);
    if their law is another, ``log_q`` is the mixture's, for the B and E of all processes together. Hits are found
    across processes, ``reduction`` is over this process's examples, and the candidates of the symmetric half are the
    queries of all processes. ``group`` are the processes, all by default; without ``torch.distributed`` this is the
    loss of one batch. The other arguments are those of :func:`in_batch`.

    Raises:
        ValueError: as :func:`in_batch`, for vectors that do not fit, and for processes with unequal numbers of examples
            or of further negatives.
    """
    queries, items = batch_vectors(queries, items, temperature)
    size = queries.shape[0]

    def loss(rows: Tensor, columns: Tensor, named: Tensor, law: checks.Values | None, correct: Correct) -> Tensor:
        log_q = None if law is None else checks.reals("log_q", law)
        return linear_in_batch(
            rows,
            _candidates(columns, size, group),
            _candidates(_beside(columns, "ids", named), size, group),
            log_q=None if log_q is None else _candidates(_beside(columns, "log_q", log_q), size, group),
            correct=correct,
            hits=hits,
            reduction=reduction,
        )

    across = loss(queries, items, checks.integers("id", ids), log_q, correct)
    if not symmetric:
        return across
    if row_ids is None and hits == "mask":
        raise ValueError("hits='mask' needs row_ids for the symmetric half: which examples are one and the same")
    named = torch.arange(size, device=items.device) if row_ids is None else checks.integers("row id", row_ids)
    down = loss(items[:size], queries, named, row_log_q, "none" if row_log_q is None else correct)
    return (across + down) / 2


def _beside(vectors: Tensor, name: str, values: Tensor) -> Tensor:
    """One constant for each vector, where the vectors lie: other processes gather as many."""
    if values.shape != vectors.shape[:1]:
        raise ValueError(
            f"{name} have shape {tuple(values.shape)}; there must be one for each of {len(vectors)} vectors"
        )
    return checks.onto(values.detach(), vectors.device)


def _candidates(values: Tensor, size: int, group: dist.ProcessGroup | None) -> Tensor:
    """What all processes have, their examples first, of which the first ``size`` are this process's own."""
    examples = _rows(values[:size], group, values.shape[0] - size)
    start = size * (dist.get_rank(group) if dist.is_initialized() else 0)
    rolled = examples[torch.arange(examples.shape[0], device=values.device).roll(-start)]
    return rolled if values.shape[0] == size else torch.cat([rolled, gathered(values[size:], group)])
