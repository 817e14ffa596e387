r"""Train one method on multi-label data, in steps that touch only the rows of a batch.

An example with t labels gives t pairs of an example and a label. The hidden layer is linear,
:math:`h = \sum_i x_i E_i` over the non-zero features, and label y has the logit :math:`h\cdot V_y`, or their cosine for
the contrastive loss. A step with sampled negatives reads and writes the rows of E of the batch's features and the rows
of V of its labels and its m negatives; small tables have dense gradients, which is faster (`WHOLE`).

Adagrad leaves a row without gradient unchanged, so sparse and dense steps agree, and full and sampled losses share an
optimiser. The examples of a batch share its m negatives: uniform draws, or the labels of its first m examples.
Accidental hits are masked.

For each seed :data:`HELD_OUT` of the training pairs are validation pairs. The learning rate and epoch with the highest
recall at 10 of these pairs are kept; the ranked lists leave out the example's other training labels.

Source: Rawat et al., section 5.2 and appendix G.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor

from sumexp import _checks as checks
from sumexp import _descent as descent
from sumexp import datasets
from sumexp._descent import generator
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.models._queries import followers
from sumexp.chapters.models.sampled.methods import Method, negative_weights
from sumexp.chapters.retrieval import judging
from sumexp.chapters.retrieval.bags import Bag, bag
from sumexp.datasets import extreme
from sumexp.datasets.extreme import Extreme, Part
from sumexp.functional._full import cross_entropy
from sumexp.functional._sampled import CONTRASTIVE, decoupled, sampled_softmax
from sumexp.samplers._laws import Uniform, log_q_of
from sumexp.samplers._negatives import Negatives

Source: TypeAlias = Literal["delicious", "bibtex", "shakespeare"]

CROSS_ENTROPY = Method()

WHOLE = {"cpu": 1 << 20, "cuda": 1 << 27}
"""The most numbers in both tables with dense gradients of sampled steps: on Bibtex a step takes 9 ms, sparse 43."""

HELD_OUT = 0.1
"""The share of the training pairs that choose learning rate and epoch."""


@dataclass(frozen=True)
class Config:
    """Settings of a run: one method on one data set.

    Attributes:
        source: Delicious, Bibtex, or words and their followers in Shakespeare, which comes with the package.
        seed: of weights, order, negatives and validation pairs, which methods of one seed share.
        width: of the hidden layer.
        epochs: maximal number of passes over the pairs.
        batch: pairs of a step; an incomplete last batch is dropped.
        rates: learning rates of Adagrad to choose from.
    """

    source: Source = "shakespeare"
    method: Method = CROSS_ENTROPY
    seed: int = 0
    width: int = 512
    epochs: int = 4
    batch: int = 256
    rates: tuple[float, ...] = (0.05,)

    def __post_init__(self) -> None:
        checks.choice("source", self.source, get_args(Source))
        checks.positive(self, "width", "epochs", "batch")
        if not self.rates or not all(0 < rate < math.inf for rate in self.rates):
            raise ValueError(f"rates is {self.rates}; give one or more positive learning rates")
        if self.method.hits != "mask" or (self.method.law == "all" and self.method.weighting != "none"):
            raise ValueError(f"the method {self.method.name!r} keeps hits or has margins; take another")
        if self.seed < 0 or self.method.negatives > self.batch:
            raise ValueError(
                f"seed is {self.seed}, and {self.method.negatives} negatives come from a batch of {self.batch}; give a "
                "seed >= 0, and no more negatives than the batch has labels"
            )


def load(source: Source) -> Extreme:
    """The sparse data set, without unlabelled training examples; a DataError if it is absent, damaged or undeclared."""
    if source == "shakespeare":
        return _words()
    data = datasets.read(source)
    assert isinstance(data, datasets.MultiLabel)
    return extreme.of_dense(data)


@cache
def _words() -> Extreme:
    """Words and their followers."""
    words = followers(datasets.shakespeare())
    names = tuple(map(str, range(words.train_gains.shape[1])))
    return extreme.of_dense(
        datasets.MultiLabel(words.train, words.train_gains > 0, words.test, words.test_gains > 0, names)
    )


def train(
    config: Config,
    /,
    data: Extreme | None = None,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """Train at each rate on ``data``, by default the source's, and evaluate the rate and epoch of the best validation.

    Returns:
        arrays: ``counts`` [L], training examples of each label; ``pairs`` [L], test pairs of each label that occurs in
        training, and ``found`` [3, L], those with the label among the first 1, 10 and 50; ``precision`` and
        ``propensity`` [3], P@k and PSP@k (A = 0.55, B = 1.5) for k = 1, 3, 5, on the test examples with a label;
        ``validation`` [rates, epochs], recall at 10 of the validation pairs; ``picked`` [2], places of rate and epoch;
        metrics: ``recall`` at 10 over all test pairs, and ``popularity``, that of the list of the most frequent labels;
        history: at the picked rate, for each epoch ``epoch`` and ``train_loss``.

    Raises:
        ValueError: if there are fewer training pairs than a batch, or no test example has a label that counts.
    """
    data = data or load(config.source)
    judging.check(data)
    fitted, held = split(data.train, config.seed)
    counts = torch.from_numpy(np.bincount(fitted.labels.indices, minlength=len(data.counts)))
    state = checkpoint.load() or {"rows": [], "best": {"recall": -1.0}}
    rows, best = list(state["rows"]), state["best"]
    for place in progress(range(len(rows), len(config.rates))):
        learner = Learner(config, fitted, counts, config.rates[place], device)

        def judged(epoch: int, loss: float, place: int = place, learner: Learner = learner) -> list[Any]:
            nonlocal best
            recall = judging.recall(learner, held, fitted.labels, 10)
            if recall > best["recall"]:
                tables = {name: table.detach().clone() for name, table in learner.parameters.items()}
                best = {"recall": recall, "picked": (place, epoch), "tables": tables}
            return [(recall, loss)]

        rows.append(descent.train_epochs(learner, config.epochs, judged))
        checkpoint.save({"rows": rows, "best": best})
    learner = Learner(config, fitted, counts, config.rates[best["picked"][0]], device)
    with torch.no_grad():
        for name, table in learner.parameters.items():
            table.copy_(best["tables"][name])
    arrays, (validation, losses) = judging.judge(learner, data), np.moveaxis(np.array(rows), -1, 0)
    pairs, ten = arrays["pairs"], judging.RECALLS.index(10)
    popular = judging.most_frequent(data.counts, judging.RECALLS)
    recalls = {"recall": arrays["found"][ten].sum(), "popularity": pairs[popular[ten]].sum()}
    return Result(
        {**arrays, "validation": validation, "picked": np.array(best["picked"])},
        {name: float(number / pairs.sum()) for name, number in recalls.items()},
        {"epoch": np.arange(config.epochs), "train_loss": losses[best["picked"][0]]},
    )


def split(part: Part, seed: int) -> tuple[Part, Part]:
    """All examples with the pairs to train on, and with the :data:`HELD_OUT` of them that choose."""
    row, label = part.labels.tocoo().coords
    held = np.random.default_rng((seed, 1)).permutation(len(row)) < int(HELD_OUT * len(row))
    fitted, chosen = (
        csr_array((np.ones(len(row[which]), bool), (row[which], label[which])), shape=part.labels.shape)
        for which in (~held, held)
    )
    return Part(part.features, fitted), Part(part.features, chosen)


class Learner(descent.Learner):
    """A method in training: tables E [F, width] and V [L, width], with ``sparse`` or dense gradients."""

    def __init__(self, config: Config, part: Part, counts: Tensor, rate: float, device: str = "cpu") -> None:
        """Start from the first weights, on training examples and the counts of their labels [L]."""
        super().__init__(device)
        table = part.labels
        self.examples = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        self.positives = torch.from_numpy(table.indices.astype(np.int64))
        if len(self.positives) < config.batch:
            raise ValueError(
                f"there are {len(self.positives)} training pairs for a batch of {config.batch}; lower the batch"
            )
        self.config, self.part, self.names = config, part, [f"{config.method.name} at the rate {rate}"]
        self.steps = len(self.positives) // config.batch
        self.log_prior = (counts.double() / counts.sum()).log().to(device)
        first = generator(config.seed, "weights")
        per_example = max(1.0, part.features.nnz / max(1, part.features.shape[0]))
        tables = [
            torch.randn(rows, config.width, dtype=torch.float32, generator=first) / math.sqrt(scale)
            for rows, scale in ((part.features.shape[1], per_example), (len(counts), config.width))
        ]
        self.features, self.labels = (part_table.to(device).requires_grad_() for part_table in tables)
        self.parameters = {"features": self.features, "labels": self.labels}
        whole = WHOLE["cpu" if device == "cpu" else "cuda"]
        self.sparse = config.method.law != "all" and self.features.numel() + self.labels.numel() > whole
        self.dynamic = "gradients are sparse" if self.sparse else ""
        most = np.sort(np.diff(part.features.indptr)[self.examples])[-config.batch :].sum()
        self.size = 0 if device == "cpu" else int(most)  # of static shape where a step may be captured
        both = [self.features, self.labels]
        self.optimiser = torch.optim.Adagrad(both, rate) if self.sparse else descent.adagrad(both, rate, device)

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Of each step the bag of features, the labels [B] and uniform draws [m]."""
        config = self.config
        order = torch.randperm(len(self.positives), generator=generator(config.seed, "order", self.epoch))
        drawn = generator(config.seed, "negatives", self.epoch, self.device)
        for batch in order[: self.steps * config.batch].view(-1, config.batch):
            x = bag(self.part, self.examples[batch.numpy()], self.device, self.size)
            yield x.ids, x.values, x.starts, self.positives[batch].to(self.device), self.draw(drawn)

    def draw(self, drawn: torch.Generator) -> Tensor:
        """The shared uniform draws of a batch [m]; none for other laws."""
        m = self.config.method.negatives if self.config.method.law == "uniform" else 0
        return Uniform(len(self.log_prior), self.device).sample((m,), drawn)

    def losses(self, *batch: Tensor) -> Tensor:
        """The mean loss [] of a batch: a bag, a label of each example [B], and the draws of :meth:`draw`."""
        *parts, labels, uniform = batch
        x, method = Bag(*parts), self.config.method
        if method.law == "all":
            scores = self.scores(x)
            if method.loss == "softmax":
                return cross_entropy(scores, labels)
            hits = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, labels.unsqueeze(1), True)
            positive = scores.gather(1, labels.unsqueeze(1)).squeeze(1)
            return decoupled(positive, scores, margins=CONTRASTIVE, hits=hits)
        hidden = self.hidden(x)
        negatives = self.negatives(labels, uniform)
        weights = negative_weights(method, negatives, labels, self.log_prior).expand(len(labels), -1).to(hidden.dtype)
        positive, negative = (hidden * self.rows(labels)).sum(1), hidden @ self.rows(negatives.ids[0]).T
        if method.loss == "softmax":
            return sampled_softmax(positive, negative, weights=weights, hits=negatives.hits)
        return decoupled(positive, negative, margins=CONTRASTIVE, weights=weights, hits=negatives.hits)

    def update(self) -> None:
        """Change the rows by their gradients."""
        with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]  # or torch warns
            super().update()

    def hidden(self, x: Bag) -> Tensor:
        """The hidden layer [B, width], of unit length for cosines."""
        h = F.embedding_bag(
            x.ids,
            self.features,
            x.starts,
            mode="sum",
            per_sample_weights=x.values,
            sparse=self.sparse,
        )
        return F.normalize(h, dim=1) if self.config.method.loss == "contrastive" else h

    def rows(self, ids: Tensor | None = None) -> Tensor:
        """Rows of V, all by default, of unit length for cosines."""
        rows = self.labels if ids is None else F.embedding(ids, self.labels, sparse=self.sparse)
        return F.normalize(rows, dim=1) if self.config.method.loss == "contrastive" else rows

    def scores(self, x: Bag) -> Tensor:
        """The scores of all labels [B, L]."""
        return self.hidden(x) @ self.rows().T

    def negatives(self, labels: Tensor, uniform: Tensor) -> Negatives:
        """The shared negatives of a batch: ids and log q [1, m], hits [B, m]."""
        if self.config.method.law == "batch":
            ids = labels[: self.config.method.negatives]
            log_q = self.log_prior[ids]
        else:
            ids = uniform
            log_q = log_q_of(Uniform(len(self.log_prior)), ids)
        return Negatives(ids.unsqueeze(0), log_q.unsqueeze(0), ids == labels.unsqueeze(1))
