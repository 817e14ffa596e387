"""Steps down a loss."""

from collections.abc import Callable

import torch
from torch import Tensor

from sumexp.runtime import Progress


def descend(
    optimiser: torch.optim.Optimizer, loss: Callable[[], Tensor], steps: int, progress: Progress = iter
) -> Tensor:
    """Take steps of an optimiser, its learning rate falling to zero along a cosine.

    Args:
        optimiser: of the parameters, with the first learning rate.
        loss: the loss of a fresh batch.
        steps: how many.
        progress: wraps the loop.

    Returns:
        The losses before each step, [steps].
    """
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=steps)
    values = []
    for _ in progress(range(steps)):
        optimiser.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        values.append(value.detach())
    return torch.stack(values)
