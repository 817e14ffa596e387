r"""Skip-gram: pairs of words that stand near each other, and scores that distinguish them from noise.

A pair is a word x and a word y at most ``window`` positions before or after it in the same document, both among the
most frequent ones; rare words keep their positions. The counts of the pairs are the population itself,
:math:`\mathrm{pop}(x,y) = n_{xy}/n`: it is symmetric, and its mutual information and losses are known exactly.

Local NCE with m negatives from q has the optimal score

.. math:: s(x,y) = \log\frac{\mathrm{pop}(y \mid x)}{q(y)} - \log m,

the pointwise mutual information less :math:`\log m` for :math:`q = \mathrm{pop}_Y`, and :math:`-\infty` for pairs
that never occur, to which a score can only drift.

Source: Stratos, section 2.2; O. Levy and Y. Goldberg, Neural word embedding as implicit matrix factorization, 2014.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from sumexp import _checks as checks
from sumexp import _descent as descent
from sumexp import datasets
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.datasets import Corpus
from sumexp.functional._sampled import binary_nce
from sumexp.nce import local_nce
from sumexp.nce.joint import Joint
from sumexp.samplers._alias import Categorical, unigram


@dataclass(frozen=True, eq=False)
class SkipGram:
    """The words [V], the most frequent first, and how often each pair of them occurs, float64 [V, V], symmetric."""

    words: tuple[str, ...]
    counts: Tensor

    @cached_property
    def joint(self) -> Joint:
        """The empirical law of the pairs, which serves as the population."""
        return Joint.from_counts(self.counts)


def pairs(corpus: Corpus, vocabulary: int, window: int) -> SkipGram:
    """Count the pairs of the most frequent words of a corpus; marks without a letter are no words, but keep positions.

    Raises:
        ValueError: if vocabulary or window is not positive, there are too few words, or one has no neighbour.
    """
    if vocabulary < 1 or window < 1:
        raise ValueError(f"vocabulary is {vocabulary} and window is {window}; both must be positive")
    kept = [i for i, word in enumerate(corpus.words) if any(map(str.isalpha, word))][:vocabulary]
    if len(kept) < vocabulary:
        raise ValueError(f"vocabulary is {vocabulary:,}, but the corpus has only {len(kept):,} words")
    index = np.full(len(corpus.words), -1)
    index[kept] = np.arange(vocabulary)
    places, document = index[corpus.tokens], np.repeat(np.arange(len(corpus.documents)), np.diff(corpus.starts))
    counts = np.zeros(vocabulary**2)
    for distance in range(1, window + 1):
        x, y = places[:-distance], places[distance:]
        valid = (x >= 0) & (y >= 0) & (document[:-distance] == document[distance:])
        counts += np.bincount(x[valid] * vocabulary + y[valid], minlength=vocabulary**2)
    table = torch.from_numpy(counts.reshape(vocabulary, vocabulary))
    return SkipGram(tuple(corpus.words[i] for i in kept), table + table.T)


@dataclass(frozen=True)
class SkipGramConfig:
    """How scores are trained by local NCE.

    Attributes:
        vocabulary: number of the most frequent words.
        window: the largest distance of a pair.
        rank: of the scores u_x · v_y + b_y; 0 for a full table, one score for each pair of words.
        power: negatives are drawn from the law of y to this power.
        negatives: m, for each true pair.
        population: take exact gradients of the population loss; then nothing is drawn, and ``batch`` is not used.
        batch: true pairs in a step.
        learning_rate: of Adagrad (full table) or Adam at the first step; it falls to zero along a cosine.
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
        self.scores = nn.Parameter(torch.full((size, size), start, dtype=torch.float32))

    def forward(self) -> Tensor:
        """All scores [V, V]."""
        return self.scores


class LowRank(nn.Module):
    """u_x · v_y + b_y; u begins at random, v at zero."""

    def __init__(self, size: int, start: float, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        u = torch.randn(size, rank, dtype=torch.float32, generator=generator) / math.sqrt(rank)
        self.u, self.v = nn.Parameter(u), nn.Parameter(torch.zeros_like(u))
        self.b = nn.Parameter(u.new_full((size,), start))

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
    """
    joint = joint or config.load().joint
    size = len(joint.p)
    generator = torch.Generator().manual_seed(config.seed)
    start = -math.log(config.negatives)  # the optimum if x and y were independent
    model = (LowRank(size, start, config.rank, generator) if config.rank else Table(size, start)).to(device)
    make = descent.adam if config.rank else descent.adagrad
    optimiser = make(model.parameters(), config.learning_rate, device)
    of_scores: Callable[..., Tensor] = _population(config, joint, device) if config.population else _binary
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


def _binary(scores: Tensor, candidates: Tensor) -> Tensor:
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

CONFIGS: Mapping[str, Mapping[str, SkipGramConfig]] = {
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
"""The runs of each profile: a full table with q = pop_Y, one with q = pop_Y^0.75, and scores of low rank."""

_EXACT_STEPS: Mapping[str, int] = {"smoke": 40, "cpu": 100, "paper": 2000}


def ranks(profile: str) -> Mapping[int, SkipGramConfig]:
    """Scores of several ranks trained on exact gradients."""
    like, steps = CONFIGS[profile]["low rank"], _EXACT_STEPS[profile]
    chosen = {"smoke": (2, 8), "cpu": (4, 16, 64), "paper": (4, 16, 64, 256)}[profile]
    return {rank: replace(like, rank=rank, population=True, steps=steps) for rank in chosen}


def newton(joint: Joint, negatives: int, log_q: Tensor | None = None, steps: int = 60) -> Tensor:
    r"""The full table's minimiser by Newton's method: [X, Y] after ``steps`` steps from 0.

    With :math:`\pi = \mathrm{pop}(y|x) / (\mathrm{pop}(y|x) + m\,q(y))` the share of true pairs among all pairs (x, y),
    the step of a score is :math:`(\pi - \sigma(s)) / (\sigma(s)\,\sigma(-s))`. It converges from 0 without
    overshooting; where a pair never occurs it stays at about -1. Negatives are m; ``log_q`` [Y] is that of the noise,
    by default the law of y.
    """
    share = local_nce.posterior(joint, negatives + 1, log_q)
    scores = torch.zeros_like(share)
    for _ in range(steps):
        true, false = torch.sigmoid(scores), torch.sigmoid(-scores)
        scores += (share - true).div_(false.mul_(true))
    return scores


def correlation(a: Tensor, b: Tensor, weights: Tensor) -> float:
    """Pearson's correlation of two vectors [K] under weights [K], which need not sum to 1."""
    w = weights / weights.sum()
    a, b = a - w @ a, b - w @ b
    return float((w * a) @ b / ((w @ a.square()) * (w @ b.square())).sqrt())


@dataclass(frozen=True)
class Comparison:
    """How near learned scores come to the exact pointwise mutual information (PMI).

    Attributes:
        weighted: correlation over the pairs that occur, weighted by probability.
        unweighted: correlation over the pairs that occur, equally weighted.
        won: the share of the loss between independence (PMI 0) and the optimum that the scores have gained.
    """

    weighted: float
    unweighted: float
    won: float


def compare(joint: Joint, scores: Tensor, negatives: int, log_q: Tensor | None = None) -> Comparison:
    r"""Compare learned scores [V, V], plus :math:`\log m q/\mathrm{pop}_Y`, with the exact PMI.

    ``log_q`` [V] is that of the noise in training, by default the law of y; ``negatives`` is m.
    """
    scores, seen, n = scores.double(), joint.p > 0, negatives + 1
    shift = math.log(negatives) + (0 if log_q is None else log_q - joint.y.log())
    learned = scores + shift
    nothing = torch.zeros_like(learned) - shift
    least, most, reached = (
        local_nce.cross_entropy(joint, s, n, log_q).item()
        for s in (local_nce.optimal_scores(joint, n, log_q), nothing, scores)
    )
    exact, p = joint.pmi[seen], joint.p[seen]
    return Comparison(
        weighted=correlation(learned[seen], exact, p),
        unweighted=correlation(learned[seen], exact, torch.ones_like(p)),
        won=(most - reached) / (most - least),
    )
