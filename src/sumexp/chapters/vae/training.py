r"""Train a stack of categorical VAEs: all members at once, each as if it were alone.

The loss of a member at a step is, over the B images of its batch,

.. math:: \frac1B\sum_{b=1}^B\big(-\log p(x_b\mid z_b) + \mathrm{KL}_b\big),
          \qquad z_b = \mathrm{softmax}\big((\ell(x_b) + \gamma_b)/\tau\big),

with one draw of the noise per image, and the KL term of the member's ``divergence``. The stack descends the sum over
its members; Adam works elementwise, so members do not interact. Members of equal seed share initial weights, order of
the images and uniform numbers.

Source: Cohen Indelman and Hazan, section 6.2 and appendix 9.2; the public code of Direct-VAE for what they leave open.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from sumexp import _descent as descent
from sumexp import datasets
from sumexp._descent import generator
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.vae import bounds, posterior, stack
from sumexp.chapters.vae.config import Member, Stack

Arrays = dict[str, NDArray[Any]]

CHUNK = 25
"""Steps whose uniforms are drawn at once."""

SHOWN = 10
"""Images of which reconstructions are kept, and samples from the prior."""

PROBED = 200
"""Test images of which the logits of one Gaussian member are kept."""

VALIDATED = 30
"""The most samples of z a validation image, for the estimate of -log p(x)."""


def train(
    config: Stack,
    /,
    data: datasets.ImageData | None = None,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """Train the stack on ``data``, by default its source, rounded to 0 and 1, and evaluate it on the test images.

    Returns:
        arrays: of the S members after the last epoch, in nats, of each of B images, the first ``test_images`` of
        ``part``, which is ``validation`` or ``test``

        - ``{part}_relaxed`` [S, B]: the training loss, at the last step's temperature;
        - ``{part}_published`` [S, B]: the negative bound as published, hard samples with the KL of softmax(logits);
        - ``{part}_bound`` [S, B]: with the KL of the true q, so that its mean bounds -log p(x) from above;
        - ``{part}_likelihood`` [S, B]: the importance-weighted estimate of -log p(x) of the most samples;
        - ``counts``, and ``by_count`` [S, counts]: the mean of that estimate over test images by number of samples;
        - ``images`` [SHOWN, P], test images, and of the first member of each noise (``shown``, their indices)
          ``reconstructions`` and samples from the prior, ``imagined``, as probabilities of pixels [shown, SHOWN, P];
        - ``probe_logits`` [PROBED, N, K], if a member is Gaussian: the logits that ``probe``, the first, gives test
          images;

        metrics: the means over members of the last training loss and the test bound;
        history: for each epoch and member ``epoch``, ``member`` and the mean relaxed ``train_loss``.

    Raises:
        ValueError: if a part has no image, or the parts differ in their pixels.
    """
    data = data or datasets.images(config.source)
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    train, validation, test = (binary(part, dtype, device) for part in (data.train, data.validation, data.test))
    if min(map(len, (train, validation, test))) == 0 or not train.shape[1] == validation.shape[1] == test.shape[1]:
        shapes = ", ".join(str(tuple(part.shape)) for part in (train, validation, test))
        raise ValueError(f"the three parts have the shapes {shapes}; each needs images, all of the same pixels")
    learner = Learner(config, train[: config.images or None], device)

    def rows(epoch: int, losses: list[float]) -> list[list[float]]:
        return [[epoch, s, loss] for s, loss in enumerate(losses)]

    table = np.array(descent.train_epochs(learner, config.epochs, rows, progress=progress, checkpoint=checkpoint))
    epoch, member = table[:, :2].T.astype(np.int64)
    history: Arrays = {"epoch": epoch, "member": member, "train_loss": table[:, 2]}
    arrays = evaluate(config, learner.parameters, learner.step - 1, validation, test)
    last = float(table[-len(config.members) :].mean(0)[2])
    return Result(arrays, {"train_loss": last, "test_bound": float(arrays["test_bound"].mean())}, history)


@torch.no_grad()
def evaluate(config: Stack, parameters: stack.Parameters, last_step: int, validation: Tensor, test: Tensor) -> Arrays:
    """The arrays of :func:`train`, of binary images [n, P]; the last step has the temperatures of the relaxed loss."""
    members, device = config.members, str(test.device)
    drawn = generator(0, "evaluation", config.epochs, device)
    temperatures = torch.tensor([case.temperature.at(last_step) for case in members], dtype=test.dtype, device=device)
    arrays: dict[str, Tensor] = {}
    for part, images, most in (
        ("validation", validation, min(config.importance, VALIDATED)),
        ("test", test, config.importance),
    ):
        x = images[: config.test_images or None]
        counts = bounds.counts(most)
        bound = bounds.hard_bound(parameters, members, x, config.samples, drawn)
        values = {
            "relaxed": bounds.relaxed_loss(parameters, members, temperatures, x, config.samples, drawn),
            "published": bound.published,
            "bound": bound.value,
        }
        likelihood = bounds.importance(parameters, members, x, counts, drawn)
        values["likelihood"] = likelihood[:, -1]
        arrays |= {f"{part}_{name}": value.float() for name, value in values.items()}
    shown = [first for first, member in enumerate(members) if member.noise not in {m.noise for m in members[:first]}]
    pictures = [_pictures(config, stack.member(parameters, s), members[s], test[:SHOWN]) for s in shown]
    arrays |= {
        "counts": torch.tensor(counts),
        "by_count": likelihood.mean(2),
        "images": test[:SHOWN],
        "shown": torch.tensor(shown),
        "reconstructions": torch.cat([again for again, _ in pictures]),
        "imagined": torch.cat([imagined for _, imagined in pictures]),
    }
    if gaussian := [s for s, member in enumerate(members) if member.noise == "gaussian"]:
        single = stack.member(parameters, gaussian[0])
        logits = stack.encode(single, test[:PROBED].unsqueeze(0), config.categories)
        arrays |= {"probe": torch.tensor(gaussian[0]), "probe_logits": logits[0]}
    return {name: tensor.cpu().numpy() for name, tensor in arrays.items()}


def _pictures(config: Stack, single: stack.Parameters, member: Member, x: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of the pixels: images through one hard sample of q, and samples from the prior; [1, n, P]."""
    own_draws = generator(0, "evaluation", config.epochs + 1, str(x.device))
    shape = (1, len(x), config.variables, member.categories)
    u = torch.rand(shape, generator=own_draws, dtype=x.dtype, device=x.device)
    logits = stack.encode(single, x.unsqueeze(0), config.categories)
    drawn = stack.one_hot(logits + stack.perturbations(u, [member]))
    return stack.decode(single, drawn).sigmoid(), stack.decode(single, stack.one_hot(u)).sigmoid()


def binary(images: NDArray[np.float32], dtype: torch.dtype, device: str) -> Tensor:
    """The pixels rounded to 0 and 1, as published: 1 above one half."""
    return (torch.from_numpy(images) > 0.5).to(device, dtype)


def objective(
    parameters: stack.Parameters,
    x: Tensor,
    uniforms: Tensor,
    members: Sequence[Member],
    temperatures: Tensor,
) -> Tensor:
    """The loss of each member [S] on its batch of images ``x`` [S, B, P]; ``uniforms`` as in :func:`stack.relaxed`."""
    logits = stack.encode(parameters, x, members[0].categories)
    pixels = stack.decode(parameters, stack.relaxed(logits, uniforms, members, temperatures))
    missed = F.binary_cross_entropy_with_logits(pixels, x, reduction="none").sum((1, 2))
    result: Tensor = (missed + posterior.divergence(logits, members).sum(1)) / x.shape[1]
    return result


class Learner(descent.Learner):
    """A stack in training."""

    def __init__(self, config: Stack, images: Tensor, device: str = "cpu") -> None:
        """Start on images of 0 and 1, [n, P]."""
        super().__init__(device)
        self.config, self.images, self.steps = config, images, math.ceil(len(images) / config.batch)
        self.names = [f"member {s} ({member})" for s, member in enumerate(config.members)]
        initial = stack.initial(config.members, images.shape[1], config.variables, config.hidden, images.dtype, device)
        self.parameters = {name: tensor.requires_grad_() for name, tensor in initial.items()}
        self.optimiser = descent.adam(self.parameters.values(), config.learning_rate, device)

    @property
    def step(self) -> int:
        """The number of finished steps."""
        return self.epoch * self.steps

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Indices of images [S, B], uniform numbers [S, B, N, K] and temperatures [S] of each step."""
        members = self.config.members
        temperatures = torch.tensor(
            [[member.temperature.at(self.step + i) for member in members] for i in range(self.steps)],
            dtype=self.images.dtype,
            device=self.device,
        )
        order = orders(members, self.epoch, len(self.images)).to(self.device)
        noises = uniforms(self.config, self.epoch, self.steps, self.images.dtype, self.device)
        for batch, noise, tau in zip(torch.split(order, self.config.batch, 1), noises, temperatures, strict=True):
            yield batch, noise[:, : batch.shape[1]], tau

    def losses(self, *batch: Tensor) -> Tensor:
        """The loss of each member [S]."""
        images, noise, tau = batch
        return objective(self.parameters, self.images[images], noise, self.config.members, tau)


def orders(members: Sequence[Member], epoch: int, images: int) -> Tensor:
    """The order in which each member sees the images in an epoch: a permutation of its seed, [S, images]."""
    drawn = {
        seed: torch.randperm(images, generator=generator(seed, "order", epoch))
        for seed in {member.seed for member in members}
    }
    return torch.stack([drawn[member.seed] for member in members])


def uniforms(config: Stack, epoch: int, steps: int, dtype: torch.dtype, device: str = "cpu") -> Iterator[Tensor]:
    """The uniform numbers of each step of an epoch, [S, batch, N, K]: the same for members of equal seed."""
    seeds = list(dict.fromkeys(member.seed for member in config.members))
    which = torch.tensor([seeds.index(member.seed) for member in config.members], device=device)
    generators = [generator(seed, "uniforms", epoch, device) for seed in seeds]
    least = torch.finfo(dtype).eps / 4  # half the spacing of torch's numbers, which may be 0 but never 1
    shape = (min(CHUNK, steps), config.batch, config.variables, config.categories)
    for start in range(0, steps, CHUNK):
        chunk = [torch.rand(shape, generator=source, dtype=dtype, device=device) for source in generators]
        drawn = torch.stack(chunk).clamp_min_(least)
        for i in range(min(CHUNK, steps - start)):
            yield drawn[which, i]
