r"""Skip-gram: pairs of words that stand near each other, and scores that learn to tell them from noise.

A pair is a word x and a word y at most ``window`` places before or after it in the same document, both among the most
frequent ones; all words count as places, so that leaving out the rare ones moves none nearer. The counts of the pairs
are the population itself, :math:`\mathrm{pop}(x,y) = n_{xy}/n`: it is symmetric, its mutual information and all its
losses are known exactly, and training can be held against them.

Local NCE with m negatives from q has the optimal score

.. math:: s(x,y) = \log\frac{\mathrm{pop}(y \mid x)}{q(y)} - \log m,

the pointwise mutual information less :math:`\log m` for :math:`q = \mathrm{pop}_Y`, and :math:`-\infty` for pairs
never seen, to which a score can only drift.

Source: Stratos, section 2.2; O. Levy and Y. Goldberg, Neural word embedding as implicit matrix factorization, 2014.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sumexp import datasets, losses, samplers
from sumexp.datasets import Brown
from sumexp.nce import Joint, local_nce

Progress = Callable[[Iterable[int]], Iterable[int]]
"""Wraps the training steps to report them, as ``tqdm.tqdm`` does."""


@dataclass(frozen=True, eq=False)
class SkipGram:
    """Counted pairs.

    Attributes:
        words: the words [V], the most frequent first.
        counts: how often each pair occurs, float64 [V, V], symmetric.
    """

    words: tuple[str, ...]
    counts: Tensor

    @cached_property
    def joint(self) -> Joint:
        """The empirical law of the pairs, which is the population here."""
        return Joint.from_counts(self.counts)


def pairs(corpus: Brown, vocabulary: int, window: int) -> SkipGram:
    """Count the pairs of the most frequent words of a corpus; marks without a letter are no words, but keep places.

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


def invented(seed: int = 0) -> Brown:
    """A text for where the corpus is absent: 60 syllables, each leaning to the next of its kind, in 20 documents."""
    words = tuple(sorted(a + b for a in "bdfgklmnprst" for b in "aeiou"))
    rng, size = np.random.default_rng(seed), len(words)
    kind = np.arange(size) % 5
    weights = (1 / np.arange(1, size + 1)) * np.where(kind[:, None] == kind, 6.0, 1.0)
    edges = (weights / weights.sum(1, keepdims=True)).cumsum(1)
    tokens = [0]
    for u in rng.random(19_999):
        tokens.append(min(int(np.searchsorted(edges[tokens[-1]], u)), size - 1))
    names = tuple(f"d{i}" for i in range(20))
    return Brown(words, np.array(tokens), np.arange(0, 20_001, 1_000), names, ("invented",) * 20)


@dataclass(frozen=True)
class SkipGramConfig:
    """How scores are trained by local NCE.

    Attributes:
        source: the Brown corpus, or the invented text, which needs no data.
        vocabulary: how many of the most frequent words there are.
        window: the largest distance of a pair.
        rank: of the scores u_x · v_y + b_y; 0 for a full table, one score for each pair of words.
        power: negatives are drawn from the law of y to this power; 1 is that law itself.
        negatives: m, for each true pair.
        batch: true pairs in a step.
        steps: the number of optimiser steps.
        learning_rate: of Adagrad (full table) or Adam at the first step; it falls to zero along a cosine.
        seed: of all random draws.
    """

    source: Literal["brown", "invented"] = "brown"
    vocabulary: int = 2000
    window: int = 5
    rank: int = 0
    power: float = 1.0
    negatives: int = 5
    batch: int = 262_144
    steps: int = 150
    learning_rate: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("power", "negatives", "batch", "steps", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        if self.rank < 0:
            raise ValueError(f"rank must not be negative, got {self.rank!r}; 0 is a full table")

    def load(self) -> SkipGram:
        """Count the pairs that this configuration trains on."""
        corpus = datasets.brown() if self.source == "brown" else invented()
        return pairs(corpus, self.vocabulary, self.window)


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
    config: SkipGramConfig, *, device: str = "cpu", progress: Progress = iter
) -> tuple[dict[str, NDArray[np.generic]], dict[str, float]]:
    """Train scores by local NCE on drawn pairs and drawn negatives.

    Returns:
        ``scores`` [V, V], float32, and the mean ``loss`` of the last tenth of the steps.

    Raises:
        DataError: if the corpus is absent, damaged or undeclared.
    """
    return fit(config, config.load().joint, device=device, progress=progress)


def fit(
    config: SkipGramConfig, joint: Joint, *, device: str = "cpu", progress: Progress = iter
) -> tuple[dict[str, NDArray[np.generic]], dict[str, float]]:
    """The same for any square law of pairs."""
    size = len(joint.p)
    generator = torch.Generator().manual_seed(config.seed)
    cells = samplers.Categorical(joint.p.flatten())
    noise = samplers.unigram(joint.y, config.power)
    start = -math.log(config.negatives)  # what would be right if x and y were independent
    model = (LowRank(size, start, config.rank, generator) if config.rank else Table(size, start)).to(device)
    make = torch.optim.Adam if config.rank else torch.optim.Adagrad
    optimiser = make(model.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=config.steps)
    history = []
    for _ in progress(range(config.steps)):
        pair = cells.sample((config.batch,), generator)
        negatives = samplers.draw(noise, pair % size, config.negatives, hits="keep", generator=generator)
        false = (pair // size * size).unsqueeze(-1) + negatives.ids
        # One row for each example, the true pair first; index_select has a quicker gradient than indexing.
        candidates = torch.cat([pair.unsqueeze(-1), false], -1).to(device)
        scores = model().view(-1).index_select(0, candidates.view(-1)).view(candidates.shape)
        loss = losses.binary_nce(scores[:, 0], scores[:, 1:])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        history.append(loss.item())
    return {"scores": model().detach().cpu().numpy()}, {"loss": float(np.mean(history[-max(1, config.steps // 10) :]))}


def newton(joint: Joint, negatives: int, log_q: Tensor | None = None, steps: int = 60) -> Tensor:
    r"""The full table's minimiser by Newton's method, without noise: [X, Y] after ``steps`` steps from 0.

    Each score has a loss of its own, with :math:`\pi = \mathrm{pop}(y|x) / (\mathrm{pop}(y|x) + m\,q(y))` the share of
    true pairs among all pairs (x, y), and its step is :math:`(\pi - \sigma(s)) / (\sigma(s)\,\sigma(-s))`. It converges
    from 0 without a step too far, and takes a step of about -1 for ever where a pair is never seen.

    Args:
        joint: the law of pairs.
        negatives: m.
        log_q: [Y] of the noise, the law of y if None.
        steps: how many.
    """
    share = local_nce.posterior(joint, negatives + 1, log_q)
    scores = torch.zeros_like(share)
    for _ in range(steps):
        scores = scores + (share - torch.sigmoid(scores)) / (torch.sigmoid(scores) * torch.sigmoid(-scores))
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
        weighted: correlation over the pairs seen, each by its probability.
        unweighted: correlation over the pairs seen, all alike.
        unseen: the mean learned PMI of the pairs never seen, whose exact one is minus infinity: they are in neither
            correlation.
        won: the part of the loss between independence (PMI 0) and the optimum that the scores have won; 1 at the
            optimum, and negative where they are worse than independence.
    """

    weighted: float
    unweighted: float
    unseen: float
    won: float


def compare(joint: Joint, scores: Tensor, negatives: int, log_q: Tensor | None = None) -> Comparison:
    r"""Hold learned scores [V, V], plus :math:`\log m q/\mathrm{pop}_Y`, against the exact PMI.

    Args:
        joint: the law of pairs.
        scores: what local NCE has learned.
        negatives: m.
        log_q: [V] of the noise they were learned with, the law of y if None.
    """
    scores, seen, n = scores.double(), joint.p > 0, negatives + 1
    shift = math.log(negatives) + (0 if log_q is None else log_q - joint.y.log())
    learned = scores + shift
    nothing = torch.zeros_like(learned) - shift
    least, most, found = (
        local_nce.cross_entropy(joint, s, n, log_q).item()
        for s in (local_nce.optimal_scores(joint, n, log_q), nothing, scores)
    )
    exact, p = joint.pmi[seen], joint.p[seen]
    return Comparison(
        weighted=correlation(learned[seen], exact, p),
        unweighted=correlation(learned[seen], exact, torch.ones_like(p)),
        unseen=learned[~seen].mean().item(),
        won=(most - found) / (most - least),
    )


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
            "power": SkipGramConfig(power=0.75, steps=75),
            "low rank": SkipGramConfig(rank=64, batch=65_536, steps=200, learning_rate=0.03),
        },
        "paper": {
            "table": SkipGramConfig(steps=5000),
            "power": SkipGramConfig(power=0.75, steps=5000),
            "low rank": SkipGramConfig(rank=256, steps=5000, learning_rate=0.03),
        },
    }
)
"""What each profile trains: a full table with q = pop_Y, one with q = pop_Y^0.75, and scores of low rank."""


def without_corpus(config: SkipGramConfig) -> SkipGramConfig:
    """The same on the invented text."""
    return replace(config, source="invented", vocabulary=60)
