"""Train the methods of a stack side by side, each as if it were alone.

All methods share batches, mirrored images, initial weights and draws, and differ in their loss alone. The features x of
a batch go through one hidden layer, h = max(0, x A + a), whose weights of all methods are one matrix; the logits are
h B + b, or for the contrastive loss the cosines of h and the columns of B.

Source: Rawat et al., section 5.1 and appendix E, for losses, schedule and m; the network is ours.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp import _checks as checks
from sumexp import _descent as descent
from sumexp._descent import generator
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.longtail import images
from sumexp.chapters.longtail.config import Stack
from sumexp.chapters.longtail.features import features
from sumexp.chapters.models.sampled.methods import Method, draws, method_losses, uniform_draws
from sumexp.datasets.labelled import Labelled


def train(
    config: Stack,
    /,
    data: Labelled | None = None,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """Train the methods on ``data``, by default their source, and evaluate each on the test images.

    Returns:
        arrays: ``counts`` [C], training images of each class; ``errors`` [methods, C], the error of each class on the
        test images (ties are errors);
        metrics: the mean over methods and classes of the errors;
        history: for each epoch and method ``epoch``, ``method`` and the mean ``train_loss``.

    Raises:
        ValueError: if there are fewer training images than a batch.
    """
    data = data or images.load(config.source, config.imbalance)
    plain, mirrored, test = (part.to(device) for part in features(data.train, data.test, config.filters))
    judged = torch.from_numpy(data.test_labels).to(device)
    learner = Learner(config, torch.stack([plain, mirrored]), torch.from_numpy(data.train_labels), data.classes, device)

    losses = descent.train_epochs(
        learner, config.epochs, lambda epoch, loss: [loss], progress=progress, checkpoint=checkpoint
    )
    return result(config, losses, learner.errors(test, judged), data.counts)


def result(config: Any, losses: list[Any], errors: Tensor, counts: NDArray[np.int64]) -> Result:
    """The result of methods with losses by epoch [epochs, S] and errors [S, C]."""
    epochs, count = config.epochs, len(config.methods)
    history: dict[str, NDArray[Any]] = {"epoch": np.repeat(np.arange(epochs), count)}
    history |= {"method": np.tile(np.arange(count), epochs), "train_loss": np.ravel(losses)}
    arrays = {"counts": counts, "errors": errors.cpu().numpy()}
    return Result(arrays, {"error": float(arrays["errors"].mean())}, history)


def names(methods: Sequence[Method]) -> list[str]:
    """The methods with their numbers of negatives, in words."""
    return [f"{method.name} (m = {method.negatives})" for method in methods]


class Learner(descent.Learner):
    """The methods of a stack in training.

    ``parameters``: ``hidden_weight`` [F, S H], ``hidden_bias`` [S H], ``out_weight`` [S, H, C], ``out_bias`` [S, 1, C].
    """

    def __init__(self, config: Stack, inputs: Tensor, labels: Tensor, classes: int, device: str = "cpu") -> None:
        """Start on features of the training images and of their mirror images [2, N, F], with labels [N]."""
        super().__init__(device)
        labels, self.log_prior = checked(labels, classes, config.batch, device)
        self.config, self.inputs, self.labels, self.steps = config, inputs, labels, len(labels) // config.batch
        self.names = names(config.methods)
        first = initial(config, inputs.shape[2], classes)
        self.parameters = {name: tensor.to(device).requires_grad_() for name, tensor in first.items()}
        self.optimiser = descent.sgd(
            self.parameters.values(), config.learning_rate, device, momentum=config.momentum, decay=config.decay
        )
        steps = config.epochs * self.steps
        self.rates = [rate(config.learning_rate, step, steps) for step in range(steps)]

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Indices of images [B], whether each is mirrored [B], and uniform draws [B, m] of each m."""
        config, n = self.config, len(self.labels)
        order = torch.randperm(n, generator=generator(config.seed, "order", self.epoch)).to(self.device)
        turned = torch.randint(2, (n,), generator=generator(config.seed, "mirror", self.epoch)).to(self.device)
        drawn = generator(config.seed, "negatives", self.epoch, self.device)
        for batch in order[: self.steps * config.batch].view(-1, config.batch):
            yield batch, turned[batch], *uniform_draws(config.methods, config.batch, len(self.log_prior), drawn)

    def losses(self, *batch: Tensor) -> Tensor:
        """The loss of each method [S]."""
        pictures, turned, *uniform = batch
        labels, methods = self.labels[pictures], self.config.methods
        drawn = draws(methods, labels, self.log_prior, uniform)
        return method_losses(self.scores(self.inputs[turned, pictures]), labels, methods, self.log_prior, drawn)

    def update(self) -> None:
        """Change the parameters by their clipped gradients."""
        self.clip()
        super().update()

    def scores(self, x: Tensor) -> Tensor:
        """The logits of all classes [S, B, C], of features [B, F]."""
        parameters, methods = self.parameters, self.config.methods
        joint = torch.addmm(parameters["hidden_bias"], x, parameters["hidden_weight"]).relu()
        hidden = torch.unflatten(joint, -1, (len(methods), -1)).transpose(0, 1)
        return heads(hidden, parameters["out_weight"], parameters["out_bias"], methods)

    @torch.no_grad()
    def clip(self) -> None:
        """Shorten the gradient of each method that is longer than `Stack.clip`."""
        count = len(self.config.methods)
        parts = {}
        for name, tensor in self.parameters.items():
            if tensor.grad is not None:  # as that of the bias, where all methods have cosines
                split = name.startswith("hidden")
                parts[name] = torch.unflatten(tensor.grad, -1, (count, -1)) if split else tensor.grad
        square = torch.zeros(count, dtype=torch.float32, device=self.device)
        for name, part in parts.items():
            square += part.square().sum(
                [i for i in range(part.ndim) if i != (part.ndim - 2 if "hidden" in name else 0)]
            )
        factor = (self.config.clip / square.sqrt().clamp_min(1e-12)).clamp_max(1.0)
        for name, part in parts.items():
            part *= factor.unsqueeze(-1) if name.startswith("hidden") else factor.view(-1, 1, 1)

    @torch.no_grad()
    def errors(self, x: Tensor, labels: Tensor) -> Tensor:
        """The error of each class [S, C], float64, of features [M, F] with labels [M]; a tie at the top is an error."""
        return class_errors(self.scores, x, labels, len(self.log_prior))


def heads(hidden: Tensor, weight: Tensor, bias: Tensor, methods: Sequence[Method]) -> Tensor:
    """Scores [S, B, C] from hidden layers [S, B, H], linear or cosines: weights [S, H, C], biases [S, 1, C]."""
    outputs = []
    for loss, members in groupby(range(len(methods)), lambda i: methods[i].loss):
        part = slice((places := list(members))[0], places[-1] + 1)
        if loss == "softmax":
            outputs.append(torch.baddbmm(bias[part], hidden[part], weight[part]))
        else:
            unit = torch.nn.functional.normalize
            outputs.append(unit(hidden[part], dim=-1) @ unit(weight[part], dim=1))
    return torch.cat(outputs)


def class_errors(scores: Callable[[Tensor], Tensor], x: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The error of each class [S, C], float64, of inputs with scores [S, B, C]; a tie at the top is an error."""
    wrong = []
    for part, truth in zip(torch.split(x, 500), torch.split(labels, 500), strict=True):
        logits = scores(part)
        label = truth.to(logits.device).view(1, -1, 1).expand(len(logits), -1, 1)
        missed = (logits.scatter(-1, label, -torch.inf).amax(-1, keepdim=True) >= logits.gather(-1, label)).double()
        wrong.append(
            logits.new_zeros(len(logits), classes, dtype=torch.float64).scatter_add_(1, label[..., 0], missed[..., 0])
        )
    return torch.stack(wrong).sum(0) / torch.bincount(labels, minlength=classes).clamp_min(1).to(wrong[0].device)


def checked(labels: Tensor, classes: int, batch: int, device: str) -> tuple[Tensor, Tensor]:
    """Labels [N] and the log prior of their classes [C], float64, on a device.

    Raises:
        ValueError: if there are fewer images than a batch, or a class has none.
    """
    if len(labels) < batch:
        raise ValueError(f"there are {len(labels)} training images for a batch of {batch}; lower the batch")
    labels = checks.ids("label", labels, classes)
    counts = torch.bincount(labels, minlength=classes)
    if not bool((counts > 0).all()):
        raise ValueError(f"class {int(counts.argmin())} has no training image; leave it out")
    return labels.to(device), (counts.double() / counts.sum()).log().to(device)


def initial(config: Stack, inputs: int, classes: int) -> dict[str, Tensor]:
    r"""The first weights: normal of variance 2/F and 1/H, the same for all methods of a seed; biases 0."""
    source, count = generator(config.seed, "weights"), len(config.methods)
    hidden = torch.randn(inputs, config.hidden, dtype=torch.float32, generator=source) * math.sqrt(2 / inputs)
    out = torch.randn(config.hidden, classes, dtype=torch.float32, generator=source) / math.sqrt(config.hidden)
    return {
        "hidden_weight": hidden.repeat(1, count),
        "hidden_bias": hidden.new_zeros(count * config.hidden),
        "out_weight": out.repeat(count, 1, 1),
        "out_bias": out.new_zeros(count, 1, classes),
    }


def rate(first: float, step: int, steps: int) -> float:
    """The learning rate of step 0, 1, ...: a tenth from 160/256 of the steps, a hundredth from 180/256."""
    lowered = 256 * step >= 160 * steps, 256 * step >= 180 * steps
    return first * 0.1 ** sum(lowered)
