"""What training loops share: steps down a loss, generators, and a state to go on from."""

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from sumexp._runtime import Progress, State

Purpose: TypeAlias = Literal["weights", "order", "uniforms", "evaluation", "mirror", "negatives"]


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


def generator(seed: int, purpose: Purpose, epoch: int = 0, device: str = "cpu") -> torch.Generator:
    """The generator of a seed for one purpose in one epoch: what is drawn here never shifts what is drawn elsewhere.

    So a training that goes on after an epoch goes on as if it had not been interrupted.
    """
    state = np.random.SeedSequence((seed, get_args(Purpose).index(purpose), epoch)).generate_state(1)
    return torch.Generator(device).manual_seed(int(state[0]))


class Resumable:
    """What is trained epoch by epoch, and can go on from a state.

    Attributes:
        epoch: how many epochs are done.
        parameters: what is trained, by name.
        optimiser: of the parameters.
    """

    epoch: int
    parameters: Mapping[str, Tensor]
    optimiser: torch.optim.Optimizer

    def state(self) -> State:
        """What :meth:`restore` needs to go on from here."""
        return {
            "epoch": self.epoch,
            "parameters": {name: tensor.detach() for name, tensor in self.parameters.items()},
            "optimiser": self.optimiser.state_dict(),
        }

    def restore(self, state: State) -> None:
        """Go on from a :meth:`state`."""
        self.epoch = state["epoch"]
        with torch.no_grad():
            for name, tensor in self.parameters.items():
                tensor.copy_(state["parameters"][name])
        self.optimiser.load_state_dict(state["optimiser"])
