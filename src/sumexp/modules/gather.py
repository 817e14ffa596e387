"""In-batch negatives of all processes of ``torch.distributed``."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sumexp import checks, losses
from sumexp.losses.arguments import Reduction
from sumexp.losses.batch import Correct, InBatchHits


def gathered(values: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    r"""The rows of all processes, in the order of their ranks, through which gradients flow back.

    Backward adds up what all processes ask of a process's rows; all of them must take part in it.

    Args:
        values: [B, ...], of one shape and type in all processes.
        group: the processes, all by default; without ``torch.distributed`` there is one.

    Returns:
        [N B, ...].

    Raises:
        ValueError: if the batches of the processes differ in size.
    """
    if not dist.is_initialized() or dist.get_world_size(group) == 1:
        return values
    sizes = [torch.zeros(1, dtype=torch.int64, device=values.device) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, torch.tensor([len(values)], device=values.device), group)
    if len(found := {int(size) for size in sizes}) > 1:
        raise ValueError(f"the batches of the processes have sizes {sorted(found)}; use drop_last=True")
    rows: Tensor = _Gather.apply(values, group)  # type: ignore[no-untyped-call]
    return rows


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group, ctx.size = group, len(values)
        parts = [torch.empty_like(values) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, values.contiguous(), group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = gradient.contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        start = dist.get_rank(ctx.group) * ctx.size
        return total[start : start + ctx.size], None


def gathered_in_batch(
    queries: Tensor,
    items: Tensor,
    ids: checks.Values,
    *,
    log_q: checks.Values | None = None,
    correct: Correct = "all",
    hits: InBatchHits = "keep",
    temperature: float | Tensor = 1.0,
    reduction: Reduction = "mean",
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    r"""The in-batch loss of this process's examples, with the items of all processes as candidates.

    The other processes' labels are draws from the same law, so they are taken off the same :math:`\log q` and the
    theorem holds as in one batch (:func:`sumexp.losses.in_batch`). The mean of this loss over the processes is the loss
    of the joined batch, and ``DistributedDataParallel``, which averages gradients over processes, gives the gradient of
    that: what one process with all examples would have.

    Args:
        queries: [B, d] vectors of this process's examples.
        items: [B, d] vectors of their classes.
        ids: [B] their classes.
        log_q: [B] log probability of a draw of each.
        correct: as there.
        hits: as there: equal ids of other processes are hits too.
        temperature: as there.
        reduction: ``mean``, ``sum`` or ``none``, over this process's examples.
        group: the processes, all by default; without ``torch.distributed`` this is the loss of one batch.

    Raises:
        ValueError: as there, for vectors that do not fit, and if the batches of the processes differ in size.
    """
    if queries.ndim != 2 or queries.shape != items.shape:
        raise ValueError(f"queries {tuple(queries.shape)} and items {tuple(items.shape)} must both be [B, d]")
    classes = gathered(checks.integers("id", ids).to(items.device), group)
    law = None if log_q is None else gathered(checks.reals("log_q", log_q).detach().to(items.device), group)
    candidates = gathered(items, group)
    # An example's own column is that of its place in this process: it comes first.
    size = len(queries)
    start = size * (dist.get_rank(group) if dist.is_initialized() else 0)
    order = torch.arange(len(candidates), device=items.device).roll(-start)
    return losses.in_batch(
        queries @ candidates[order].T,
        classes[order],
        log_q=None if law is None else law[order],
        correct=correct,
        hits=hits,
        temperature=temperature,
        reduction=reduction,
    )
