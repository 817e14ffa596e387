"""Scores of pairs, and local NCE that trains them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from sumexp import _checks as checks
from sumexp import _descent as descent
from sumexp import datasets
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.models.skipgram.population import SkipGram, pairs
from sumexp.functional._sampled import binary_nce
from sumexp.nce.joint import Joint
from sumexp.samplers._alias import Categorical, unigram


@dataclass(frozen=True)
class SkipGramConfig:
    """How scores are trained by local NCE.

    Attributes:
        source: the data set of running text.
        vocabulary: how many of the most frequent words there are.
        window: the largest distance of a pair.
        rank: of the scores u_x · v_y + b_y; 0 for a full table, one score for each pair of words.
        power: negatives are drawn from the law of y to this power; 1 is that law itself.
        negatives: m, for each true pair.
        population: take exact gradients of the population loss; then nothing is drawn, and ``batch`` is not used.
        batch: true pairs in a step.
        steps: the number of optimiser steps.
        learning_rate: of Adagrad (full table) or Adam at the first step; it falls to zero along a cosine.
        seed: of all random draws.
    """

    source: Literal["brown", "shakespeare"] = "brown"
    vocabulary: int = 2000
    window: int = 5
    rank: int = 0
    power: float = 1.0
    negatives: int = 5
    population: bool = False
    batch: int = 262_144
    steps: int = 150
    learning_rate: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        checks.positive(self, "power", "negatives", "batch", "steps", "learning_rate")
        if self.rank < 0:
            raise ValueError(f"rank must not be negative, got {self.rank!r}; 0 is a full table")

    def load(self) -> SkipGram:
        """Count the pairs that this configuration trains on."""
        return pairs(datasets.corpus(self.source), self.vocabulary, self.window)


class Table(nn.Module):
    """A free score for each pair of V words."""

    def __init__(self, size: int, start: float) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.full((size, size), start))

    def forward(self) -> Tensor:
        """All scores [V, V]."""
        return self.scores


class LowRank(nn.Module):
    """u_x · v_y + b_y; u begins at random, v at zero."""

    def __init__(self, size: int, start: float, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.randn(size, rank, generator=generator) / math.sqrt(rank))
        self.v = nn.Parameter(torch.zeros(size, rank))
        self.b = nn.Parameter(torch.full((size,), start))

    def forward(self) -> Tensor:
        """All scores [V, V]: with so few words that is quicker than to gather two vectors for each drawn pair."""
        return torch.addmm(self.b, self.u, self.v.T)


def train(
    config: SkipGramConfig,
    /,
    joint: Joint | None = None,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """Train scores of a square law of pairs, by default the source's, by local NCE on drawn pairs and negatives.

    Returns:
        ``scores`` [V, V], float32, and the mean ``loss`` of the last tenth of the steps.

    Raises:
        DataError: if the corpus is absent, damaged or undeclared.
    """
    joint = joint or config.load().joint
    size = len(joint.p)
    generator = torch.Generator().manual_seed(config.seed)
    start = -math.log(config.negatives)  # what would be right if x and y were independent
    model = (LowRank(size, start, config.rank, generator) if config.rank else Table(size, start)).to(device)
    make = descent.adam if config.rank else descent.adagrad
    optimiser = make(model.parameters(), config.learning_rate, device)
    of_scores: Callable[..., Tensor] = _population(config, joint, device) if config.population else binary
    draw = tuple if config.population else _draw(config, joint, generator, device)
    history = descent.train_steps(
        "skip-gram scores",
        optimiser,
        lambda *batch: of_scores(model(), *batch),
        draw,
        config.steps,
        device=device,
        progress=progress,
    )
    loss = history[-max(1, config.steps // 10) :].double().mean().item()
    return Result({"scores": model().detach().cpu().numpy()}, {"loss": loss})


def _draw(
    config: SkipGramConfig, joint: Joint, generator: torch.Generator, device: str
) -> Callable[[], tuple[Tensor, ...]]:
    """Draws the cells of fresh pairs in all scores [V, V], each with its negatives, the true pair first: [B, 1 + m]."""
    size = len(joint.p)
    if descent.on_gpu(device):
        generator = torch.Generator(device).manual_seed(config.seed)
    cells = Categorical(joint.p.flatten()).to(generator.device)
    noise = unigram(joint.y, config.power).to(generator.device)

    def draw() -> tuple[Tensor, ...]:
        pair = cells.sample((config.batch,), generator)
        negatives = noise.sample((config.batch, config.negatives), generator)
        false = (pair // size * size).unsqueeze(-1) + negatives
        return (torch.cat([pair.unsqueeze(-1), false], -1).to(device),)

    return draw


def binary(scores: Tensor, candidates: Tensor) -> Tensor:
    """The loss of a batch of cells [B, 1 + m] of all scores [V, V], the true pairs first."""
    # One row for each example; index_select has a quicker gradient than indexing.
    chosen = scores.view(-1).index_select(0, candidates.view(-1)).view(candidates.shape)
    return binary_nce(chosen[:, 0], chosen[:, 1:])


def _population(config: SkipGramConfig, joint: Joint, device: str) -> Callable[[Tensor], Tensor]:
    """The loss of the whole population, in float32, as a function of all scores [V, V]."""
    true = joint.p.to(device, torch.float32)
    q = torch.softmax(config.power * joint.y.log(), 0)
    false = (config.negatives * joint.x.unsqueeze(1) * q).to(device, torch.float32)

    both = true + false
    return lambda scores: cast(Tensor, _Population.apply(scores, true, both))  # type: ignore[no-untyped-call]


class _Population(torch.autograd.Function):
    r"""The sum of :math:`t\log(1+e^{-s}) + f\log(1+e^s)`, its derivative :math:`(t+f)\sigma(s) - t` along with it."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, true: Tensor, both: Tensor) -> Tensor:
        ctx.save_for_backward(torch.sigmoid(scores).mul_(both).sub_(true))
        # softplus(-s) = softplus(s) - s
        return nn.functional.softplus(scores).mul_(both).addcmul_(true, scores, value=-1).sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return grads[0] * slope, None, None


_SMALL = SkipGramConfig(vocabulary=200, batch=16_384, steps=40)

CONFIGS: Mapping[str, Mapping[str, SkipGramConfig]] = MappingProxyType(
    {
        "smoke": {
            "table": _SMALL,
            "power": replace(_SMALL, power=0.75),
            "low rank": replace(_SMALL, rank=8, learning_rate=0.03),
        },
        "cpu": {
            "table": SkipGramConfig(),
            "power": SkipGramConfig(power=0.75, steps=60),
            "low rank": SkipGramConfig(rank=64, batch=65_536, steps=150, learning_rate=0.03),
        },
        "paper": {
            "table": SkipGramConfig(steps=5000),
            "power": SkipGramConfig(power=0.75, steps=5000),
            "low rank": SkipGramConfig(rank=64, steps=5000, learning_rate=0.03),
        },
    }
)
"""What each profile trains: a full table with q = pop_Y, one with q = pop_Y^0.75, and scores of low rank."""

_EXACT_STEPS: Mapping[str, int] = MappingProxyType({"smoke": 40, "cpu": 100, "paper": 2000})


def ranks(profile: str) -> Mapping[int, SkipGramConfig]:
    """Scores of several ranks trained without noise, which shows how far each rank can come."""
    like, steps = CONFIGS[profile]["low rank"], _EXACT_STEPS[profile]
    chosen = {"smoke": (2, 8), "cpu": (4, 16, 64), "paper": (4, 16, 64, 256)}[profile]
    return {rank: replace(like, rank=rank, population=True, steps=steps) for rank in chosen}
