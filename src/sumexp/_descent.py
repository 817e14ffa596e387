"""The training loop of every task: epochs, checkpoints, progress, finite losses, and steps captured in CUDA graphs."""

import math
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, State

Purpose: TypeAlias = Literal["weights", "order", "uniforms", "evaluation", "mirror", "negatives"]

Measure: TypeAlias = Callable[[int, Any], list[Any] | None]
"""The rows of an epoch's history, from its number and each model's mean loss; None ends the training."""

GRAPHS = "SUMEXP_GRAPHS"
"""Environment variable: with the value 0 no step is captured."""

WARM_UP = 3
"""Steps of a shape that run eagerly before it is captured."""


class Step:
    """A training step that is captured in a CUDA graph for each shape of its inputs, and replayed with one launch.

    A step reads parameters, optimiser state and its inputs alone: random numbers are drawn before it. The first
    `WARM_UP` steps of a shape run eagerly on a side stream, and train like all others.

    Attributes:
        eager: why steps run eagerly; empty where they are captured.
        graphs: by the shapes of the inputs the graph, its static inputs and its losses.
    """

    def __init__(
        self, step: Callable[..., Tensor], optimiser: torch.optim.Optimizer, device: str, eager: str = ""
    ) -> None:
        """Decide whether to capture the step, which updates the parameters and returns the losses before the update.

        ``eager`` says why it cannot be captured; Adam must be capturable.
        """
        self.eager = eager
        if not on_gpu(device):
            self.eager = f"device {device} has no CUDA graphs"
        elif os.environ.get(GRAPHS) == "0":
            self.eager = f"{GRAPHS}=0"
        self._step, self._optimiser = step, optimiser
        self._seen: Counter[Any] = Counter()
        self.graphs: dict[Any, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Tensor]] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Take a step."""
        if self.eager:
            return self._step(*inputs)
        shape = tuple((each.shape, each.dtype) for each in inputs)
        if shape not in self.graphs:
            self._seen[shape] += 1
            if self._seen[shape] <= WARM_UP:
                return self._aside(inputs)
            stream = torch.cuda.current_stream()
            try:
                self.graphs[shape] = self._capture(inputs)
            except RuntimeError as error:
                torch.cuda.set_stream(stream)  # which a capture that fails may not restore
                self.eager = f"capture was refused: {error}"
                self._optimiser.zero_grad(set_to_none=True)
                return self._step(*inputs)
        graph, static, losses = self.graphs[shape]
        for buffer, value in zip(static, inputs, strict=True):
            buffer.copy_(value)
        graph.replay()
        return losses.clone()

    def _aside(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Take a step on a side stream, which creates what a capture may not: handles, workspaces, optimiser state."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            losses = self._step(*inputs)
        torch.cuda.current_stream().wait_stream(side)
        return losses

    def _capture(self, inputs: tuple[Tensor, ...]) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Tensor]:
        """The graph of a step, its static inputs and its losses; nothing is computed."""
        static = tuple(each.clone() for each in inputs)
        graph = torch.cuda.CUDAGraph()
        self._optimiser.zero_grad(set_to_none=True)  # the gradients of a graph lie in its memory
        with torch.cuda.graph(graph):
            losses = self._step(*static)
        return graph, static, losses


class Learner(ABC):
    """Models that are trained epoch by epoch; a task defines the batches of an epoch and the losses of a batch.

    Attributes:
        steps: number of steps of an epoch.
        names: of the models, one for each loss.
        rates: the learning rate of each step of the whole training; empty for a constant rate.
        generators: sources of randomness that outlive an epoch.
        dynamic: why a step has no static shapes; empty if it has.
    """

    epoch: int = 0
    steps: int
    names: Sequence[str]
    parameters: Mapping[str, Tensor]
    optimiser: torch.optim.Optimizer
    rates: Sequence[float] = ()
    generators: Sequence[torch.Generator] = ()
    dynamic: str = ""

    def __init__(self, device: str) -> None:
        """Run on a device, and capture steps where it can."""
        self.device = device
        self._captured: Step | None = None

    @abstractmethod
    def batches(self) -> Iterable[tuple[Tensor, ...]]:
        """The inputs of each step of the next epoch, on the device, random draws among them."""

    @abstractmethod
    def losses(self, *batch: Tensor) -> Tensor:
        """The mean loss of each model on a batch, [] or [models]; reads nothing back from the device."""

    def backward(self, *batch: Tensor) -> Tensor:
        """Set the gradients of a batch; returns its losses."""
        losses = self.losses(*batch)
        self.optimiser.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def update(self) -> None:
        """Change the parameters by their gradients."""
        self.optimiser.step()

    @property
    def eager(self) -> str:
        """Why steps run eagerly; empty where they are captured in CUDA graphs."""
        return self._stepper().eager

    def run_epoch(self, progress: Progress = iter) -> Tensor:
        """Pass once over the batches; returns the losses before each step, [steps] or [steps, models]."""
        losses, first = [], self.epoch * self.steps
        for i, batch in zip(progress(range(self.steps)), self.batches(), strict=True):
            if self.rates:
                self._set_rate(self.rates[first + i])
            losses.append(self.take_step(*batch))
        self.epoch += 1
        return torch.stack(losses)

    def take_step(self, *batch: Tensor) -> Tensor:
        """Take a step, captured where it can be; returns the losses before it."""
        return self._stepper()(*batch)

    def _stepper(self) -> Step:
        if self._captured is None:
            self._captured = Step(self._descend, self.optimiser, self.device, self.dynamic)
        return self._captured

    def _descend(self, *batch: Tensor) -> Tensor:
        losses = self.backward(*batch)
        self.update()
        return losses

    def _set_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def state(self) -> State:
        """The state that :meth:`restore` resumes from."""
        return {
            "epoch": self.epoch,
            "parameters": {name: tensor.detach() for name, tensor in self.parameters.items()},
            "optimiser": self.optimiser.state_dict(),
            "generators": [source.get_state() for source in self.generators],
        }

    def restore(self, state: State) -> None:
        """Resume from a :meth:`state`."""
        self.epoch = state["epoch"]
        with torch.no_grad():
            for name, tensor in self.parameters.items():
                tensor.copy_(state["parameters"][name])
        rates = [group["lr"] for group in self.optimiser.param_groups]
        self.optimiser.load_state_dict(state["optimiser"])
        for group, rate in zip(self.optimiser.param_groups, rates, strict=True):
            if isinstance(rate, Tensor):  # on the device, whatever was loaded
                group["lr"] = rate.fill_(float(group["lr"]))
        for source, saved in zip(self.generators, state["generators"], strict=True):
            source.set_state(saved.cpu())


def train_epochs(
    learner: Learner,
    epochs: int,
    measure: Measure,
    *,
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
    start: Sequence[Any] = (),
) -> list[Any]:
    """Train to the last epoch, or until ``measure`` ends it, from the checkpoint if there is one.

    ``progress`` wraps the loop over the epochs; returns the rows of ``start`` and those that ``measure`` gives.

    Raises:
        FloatingPointError: if a loss is not finite.
    """
    rows = list(start)
    if (state := checkpoint.load()) is not None:
        learner.restore(state["learner"])
        rows = list(state["rows"])
    for epoch in progress(range(learner.epoch, epochs)):
        losses = mean(learner.run_epoch()).tolist()
        check(learner, losses, f"epoch {epoch}")
        if (more := measure(epoch, losses)) is None:
            break
        rows += more
        checkpoint.save({"learner": learner.state(), "rows": rows})
    return rows


class _Steps(Learner):
    """One epoch of steps on fresh batches, at a rate that falls to zero along a cosine."""

    def __init__(
        self,
        name: str,
        optimiser: torch.optim.Optimizer,
        loss: Callable[..., Tensor],
        draw: Callable[[], tuple[Tensor, ...]],
        steps: int,
        device: str,
    ) -> None:
        super().__init__(device)
        self.names, self.parameters, self.optimiser, self._loss, self._draw = [name], {}, optimiser, loss, draw
        self.steps, self.rates = steps, cosine(float(optimiser.param_groups[0]["lr"]), steps)

    def batches(self) -> Iterable[tuple[Tensor, ...]]:
        return (self._draw() for _ in range(self.steps))

    def losses(self, *batch: Tensor) -> Tensor:
        return self._loss(*batch)


def train_steps(
    name: str,
    optimiser: torch.optim.Optimizer,
    loss: Callable[..., Tensor],
    draw: Callable[[], tuple[Tensor, ...]],
    steps: int,
    *,
    device: str = "cpu",
    progress: Progress = iter,
) -> Tensor:
    """Take steps of an optimiser on batches from ``draw``, its learning rate falling to zero along a cosine.

    ``name`` says what is trained; returns the losses before each step, [steps].

    Raises:
        FloatingPointError: if a loss is not finite.
    """
    return train_once(_Steps(name, optimiser, loss, draw, steps, device), progress)


def train_once(learner: Learner, progress: Progress = iter) -> Tensor:
    """Train for one epoch; returns the losses of its steps, whose loop ``progress`` wraps.

    Raises:
        FloatingPointError: if a loss is not finite.
    """
    losses = learner.run_epoch(progress)
    check(learner, mean(losses).tolist(), f"one of {learner.steps} steps")
    return losses


def mean(losses: Tensor) -> Tensor:
    """The mean over the first dimension in float64, summed in its order."""
    return losses.double().cumsum(0)[-1] / len(losses)


def check(learner: Learner, losses: float | Sequence[float], when: str) -> None:
    """Raise a FloatingPointError if the loss of one of a learner's models is not finite."""
    for name, loss in zip(learner.names, losses if isinstance(losses, Sequence) else [losses], strict=True):
        if not math.isfinite(loss):
            rate = float(learner.optimiser.param_groups[0]["lr"])
            raise FloatingPointError(
                f"the loss of {name} is {loss} in {when}; lower the learning rate, which is {rate:.3g}"
            )


def on_gpu(device: str) -> bool:
    """Whether a device has CUDA graphs."""
    return torch.device(device).type == "cuda"


def adam(parameters: Iterable[Tensor], rate: float, device: str, *, fused: bool = True) -> torch.optim.Adam:
    """Adam; on a GPU in the form that a graph can capture, its rate a tensor that each replay reads."""
    if not on_gpu(device):
        return torch.optim.Adam(parameters, rate, fused=fused or None)
    return torch.optim.Adam(parameters, _tensor(rate, device), fused=True, capturable=True)


def sgd(parameters: Iterable[Tensor], rate: float, device: str, *, momentum: float, decay: float) -> torch.optim.SGD:
    """Momentum descent with weight decay; on a GPU in the form that a graph can capture."""
    lr, fused = (_tensor(rate, device), True) if on_gpu(device) else (rate, None)
    return torch.optim.SGD(parameters, lr, momentum, weight_decay=decay, fused=fused)


def adagrad(parameters: Iterable[Tensor], rate: float, device: str) -> torch.optim.Adagrad:
    """Adagrad for dense gradients; on a GPU in the form that a graph can capture."""
    if not on_gpu(device):
        return torch.optim.Adagrad(parameters, rate, fused=device == "cpu")
    return torch.optim.Adagrad(parameters, _tensor(rate, device), foreach=True)


def _tensor(rate: float, device: str) -> Tensor:
    return torch.tensor(rate, dtype=torch.float32, device=device)


def cosine(rate: float, steps: int) -> list[float]:
    """Learning rates that fall to zero along a cosine, as torch's ``CosineAnnealingLR`` has them."""
    rates = [rate]
    for t in range(1, steps):
        ratio = (1 + math.cos(math.pi * t / steps)) / (1 + math.cos(math.pi * (t - 1) / steps))
        rates.append(ratio * rates[-1])
    return rates


def generator(seed: int, purpose: Purpose, epoch: int = 0, device: str = "cpu") -> torch.Generator:
    """The generator of a seed for one purpose in one epoch: its draws are independent of all others.

    So a training that resumes after an epoch equals an uninterrupted one.
    """
    state = np.random.SeedSequence((seed, get_args(Purpose).index(purpose), epoch)).generate_state(1)
    return torch.Generator(device).manual_seed(int(state[0]))
