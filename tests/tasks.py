"""Every training task at a tiny size: what the tests of all tasks run."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from sumexp._runtime import Result, State
from sumexp.chapters.catalogue import training as catalogue
from sumexp.chapters.fits import FitConfig
from sumexp.chapters.fits import training as fits
from sumexp.chapters.longtail import residual
from sumexp.chapters.longtail import training as longtail
from sumexp.chapters.models import multilabel, skipgram, wordmodel
from sumexp.chapters.models._queries import Queries
from sumexp.chapters.models.skipgram import SkipGramConfig
from sumexp.chapters.models.wordmodel import WordModelConfig
from sumexp.chapters.retrieval import training as retrieval
from sumexp.chapters.vae import Member, Stack, fixed
from sumexp.chapters.vae import training as vae
from sumexp.nce import Joint, gaussians
from sumexp.nce.gaussians import GaussianConfig
from tests.catalogue import test_training as test_catalogue
from tests.longtail import test_residual
from tests.longtail import test_training as test_longtail
from tests.models.test_multilabel import TINY
from tests.models.texts import corpus
from tests.retrieval import test_retrieval
from tests.vae.test_training import DIGITS


class Memory:
    """A checkpoint in memory: each state as a file would give it back."""

    def __init__(self, *states: State) -> None:
        self.states = list(states)

    def load(self) -> State | None:
        return self.states[-1] if self.states else None

    def save(self, state: State) -> None:
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        self.states.append(torch.load(file, weights_only=True))


@dataclass(frozen=True)
class Case:
    """A task at tiny size; `rounds` names the setting that counts steps or epochs, `kept`: it keeps checkpoints."""

    config: Any
    run: Callable[..., Result]
    rounds: str = "epochs"
    kept: bool = True

    def __call__(self, rounds: int, device: str = "cpu", **given: Any) -> Result:
        """Its result after so many rounds."""
        return self.run(replace(self.config, **{self.rounds: rounds}), device=device, **given)


TEXT = corpus(*(list("abacabadabacaba"[i:]) for i in range(12)))
LAW = Joint(torch.tensor([[0.3, 0.1, 0.05], [0.1, 0.15, 0.05], [0.05, 0.05, 0.15]], dtype=torch.float64))
FEW = replace(DIGITS, train=DIGITS.train[:60], validation=DIGITS.validation[:20], test=DIGITS.test[:20])
MEMBERS = (
    Member(categories=3),
    Member("gaussian", divergence="exact", categories=3, temperature=fixed(0.5)),
    Member("logistic", categories=3, seed=1, straight_through=True),
)
VAE = Stack(members=MEMBERS, variables=2, hidden=5, batch=20, precision="float64", samples=2, importance=3)


def queries() -> Queries:
    rng = np.random.default_rng(0)

    def part(size: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.random((size, 6)) < 0.3
        labels[np.arange(size), rng.integers(6, size=size)] = True
        return (rng.random((size, 8)) < 0.5).astype(np.float32), labels

    return Queries(*part(40), *part(20))


QUERIES = queries()


def pictures() -> longtail.Labelled:
    """Two pictures and more of each of four classes, 8 x 8."""
    rng = np.random.default_rng(0)

    def part(counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (sum(counts), 8, 8, 1)).astype(np.uint8), np.repeat(np.arange(4), counts)

    return longtail.Labelled(*part([20, 10, 6, 4]), *part([5] * 4), 4)


PICTURES = pictures()
FITS = FitConfig("discrete", "gumbel", temperatures=(0.5, 1.0), samples=5, seeds=(0, 1))
PAIRS = SkipGramConfig(batch=8, negatives=2)
GAUSSIAN = GaussianConfig(dim=3, candidates=4, evaluations=2, hidden=4)
TAGS = replace(TINY, batch=20)
TOWERS = replace(test_catalogue.TINY, rates=(0.05,))


def fitted(data: Any, train: Callable[..., Result]) -> Callable[..., Result]:
    """A task on its data."""
    return lambda config, **given: train(config, data, **given)


def steps(config: Any, run: Callable[..., Result]) -> Case:
    """A task whose rounds are steps, which are too few to keep anything."""
    return Case(config, run, "steps", kept=False)


on_pairs, on_queries = fitted(LAW, skipgram.train), fitted(QUERIES, multilabel.train)
on_labels, on_parts = fitted(test_retrieval.DATA, retrieval.train), fitted(test_catalogue.PARTS, catalogue.train)

CASES: Mapping[str, Case] = {
    "models.wordmodel": steps(WordModelConfig(rank=2, batch=4), fitted(TEXT, wordmodel.train)),
    "models.multilabel, softmax": Case(TAGS, on_queries),
    "models.multilabel, infonce": Case(replace(TAGS, loss="infonce"), on_queries),
    "models.skipgram, table": steps(PAIRS, on_pairs),
    "models.skipgram, low rank": steps(replace(PAIRS, rank=2, learning_rate=0.05), on_pairs),
    "models.skipgram, population": steps(replace(PAIRS, rank=2, population=True), on_pairs),
    "nce.gaussians, cpc": steps(GAUSSIAN, gaussians.train),
    "nce.gaussians, doe": steps(replace(GAUSSIAN, estimator="doe"), gaussians.train),
    "catalogue, in batch": Case(replace(TOWERS, form="refined"), on_parts),
    "catalogue, draws": Case(replace(TOWERS, form="popularity", negatives=8), on_parts),
    "catalogue, all items": Case(replace(TOWERS, form="full"), on_parts),
    "fits, draws": steps(FITS, fits.train),
    "fits, exact": steps(replace(FITS, samples=None), fits.train),
    "longtail": Case(test_longtail.TINY, fitted(PICTURES, longtail.train)),
    "longtail.residual": Case(
        replace(test_residual.TINY, methods=test_longtail.METHODS[-3:]), fitted(PICTURES, residual.train)
    ),
    "retrieval, all labels": Case(test_retrieval.TINY, on_labels),
    "retrieval, sampled": Case(replace(test_retrieval.TINY, method=test_retrieval.SAMPLED[0]), on_labels),
    "vae": Case(VAE, fitted(FEW, vae.train)),
}
