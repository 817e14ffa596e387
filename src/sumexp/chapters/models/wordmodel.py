r"""The classifier whose logits the book studies: a next-word model of a running text.

It is a low-rank softmax over the whole vocabulary,

.. math:: p(w \mid c) = \frac{\exp(u_c \cdot v_w + b_w)}{\sum_{w'} \exp(u_c \cdot v_{w'} + b_{w'})},

where :math:`c` is the preceding word. It is fitted to the bigram counts :math:`n_{cw}` of the text: with
:math:`n_c = \sum_w n_{cw}` the loss of a context is

.. math:: \ell_c = -\sum_w n_{cw} \log p(w \mid c), \qquad
          \frac{\partial \ell_c}{\partial z_{cw}} = n_c\, p(w \mid c) - n_{cw}, \qquad z_{cw} = u_c \cdot v_w + b_w.

A penalty draws the vectors of rare words to zero and their predictions to the bias:

.. math:: \sum_c \Big( \ell_c + \frac{\lambda}{2} \lVert u_c \rVert^2 \Big)
          + \frac{\lambda}{2} \sum_w \lVert v_w \rVert^2.

Each step draws contexts :math:`c` with probability :math:`\pi_c \propto \sqrt{n_c}` and weights them by
:math:`1/\pi_c`, so that its gradient is unbiased. The softmax is the full one, and dropout acts on :math:`u_c`. The
vocabulary has every type of the corpus, also those of the held-out documents alone.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from sumexp import _checks as checks
from sumexp import _descent as descent
from sumexp import datasets
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.datasets import Corpus

Source = Literal["brown", "shakespeare"]
"""The data sets of running text."""


@dataclass(frozen=True)
class WordModelConfig:
    """How the next-word model is fitted.

    Attributes:
        rank: length of the vectors u and v.
        batch: number of contexts that a step draws.
        learning_rate: of Adam at the first step; it falls to zero along a cosine.
        dropout: probability with which a step drops an entry of u.
        penalty: the weight lambda of the squared lengths of u and v.
        smoothing: added to each training count for the first bias, b = log unigram.
        held_out: the documents that perplexity is taken on. Choose settings on ``validation`` only.
        seed: of all random draws but the split of the documents, which is fixed.
    """

    source: Source = "brown"
    rank: int = 64
    steps: int = 400
    batch: int = 512
    learning_rate: float = 0.03
    dropout: float = 0.3
    penalty: float = 4.0
    smoothing: float = 1.0
    held_out: Literal["validation", "test"] = "test"
    seed: int = 0

    def __post_init__(self) -> None:
        checks.choice("source", self.source, get_args(Source))
        checks.positive(self, "rank", "steps", "batch", "learning_rate", "smoothing")
        if not (isinstance(self.dropout, int | float) and 0 <= self.dropout < 1):
            raise ValueError(f"dropout must be a number in [0, 1), got {self.dropout!r}")
        if not (isinstance(self.penalty, int | float) and self.penalty >= 0):
            raise ValueError(f"penalty must be a number that is not negative, got {self.penalty!r}")
        checks.choice("held_out", self.held_out, ("validation", "test"))


CONFIGS: Mapping[str, Mapping[str, WordModelConfig]] = {
    "brown": {
        "smoke": WordModelConfig(rank=16, steps=20, batch=256),
        "cpu": WordModelConfig(),
        "paper": WordModelConfig(rank=256, steps=4000, batch=2048),
    },
    "shakespeare": {
        "smoke": WordModelConfig("shakespeare", rank=16, steps=20, batch=256),
        "cpu": WordModelConfig("shakespeare", steps=100),
        "paper": WordModelConfig("shakespeare", steps=100, batch=2048),
    },
}
"""The configuration of each data set and profile; `dataclasses.replace` sets the seed."""


@dataclass(frozen=True)
class WordModel:
    """A fitted next-word model, on the CPU.

    Attributes:
        context_vectors: u, float64 [V, r].
        word_vectors: v, float64 [V, r].
        bias: b, float64 [V].
        labels: the words [V], the most frequent first.
        class_counts: occurrences of each word in the whole corpus, float64 [V], all positive.
        held_out_perplexity: of this model on the held-out documents.
        unigram_perplexity: of the smoothed unigram model that it started from, on the same documents.
        source: the data set it was fitted to.
    """

    context_vectors: Tensor
    word_vectors: Tensor
    bias: Tensor
    labels: tuple[str, ...]
    class_counts: Tensor
    held_out_perplexity: float
    unigram_perplexity: float
    source: Source

    def logits(self, context: Tensor) -> Tensor:
        """u_c · v_w + b_w for each context word's index, int64 [...] -> float64 [..., V]."""
        return self.context_vectors[context] @ self.word_vectors.T + self.bias

    def index(self, word: str) -> int:
        """The class index of ``word``; a ValueError for a word outside the vocabulary."""
        if word not in self.labels:
            raise ValueError(f"{word!r} is not one of the {len(self.labels):,} words (they are lower-cased)")
        return self.labels.index(word)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]], metrics: Mapping[str, float]) -> "WordModel":
        """The model of the arrays and metrics of :func:`train`."""

        def tensor(name: str) -> Tensor:
            return torch.from_numpy(arrays[name]).double()

        return cls(
            context_vectors=tensor("context_vectors"),
            word_vectors=tensor("word_vectors"),
            bias=tensor("bias"),
            labels=tuple(arrays["labels"].tolist()),
            class_counts=tensor("class_counts"),
            source=arrays["source"].item(),
            **metrics,
        )


def train(
    config: WordModelConfig,
    /,
    corpus: Corpus | None = None,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """Fit the model to ``corpus``, by default that of its source; `WordModel.from_arrays` reads the result."""
    corpus = corpus or datasets.corpus(config.source)
    documents = split(len(corpus.documents))
    counts = bigram_counts(corpus, documents["train"])
    held_out = bigram_counts(corpus, documents[config.held_out])
    unigram = smoothed_unigram(counts, config.smoothing)
    learner = Learner(config, counts, unigram, device)
    descent.train_once(learner, progress)
    vectors, word_vectors, bias = learner.parameters.values()
    arrays = {
        "context_vectors": vectors.cpu().numpy(),
        "word_vectors": word_vectors.cpu().numpy(),
        "bias": bias.cpu().numpy(),
        "class_counts": np.bincount(corpus.tokens, minlength=len(corpus.words)).astype(float),
        "labels": np.array(corpus.words),
        "source": np.array(config.source),
    }
    perplexities = {
        "held_out_perplexity": perplexity(held_out, _log_likelihood(held_out, vectors, word_vectors, bias)),
        "unigram_perplexity": perplexity(held_out, float(held_out.sum(axis=0) @ np.log(unigram))),
    }
    return Result(arrays, perplexities)


def split(n_documents: int) -> dict[str, NDArray[np.int64]]:
    """Documents for ``train`` (80 %), ``validation`` and ``test`` (10 % each), drawn once and for all."""
    order = np.random.default_rng(0).permutation(n_documents)
    tenth = n_documents // 10
    return {"test": order[:tenth], "validation": order[tenth : 2 * tenth], "train": order[2 * tenth :]}


def bigram_counts(corpus: Corpus, documents: NDArray[np.int64]) -> sparse.csr_array:
    """How often word w follows word c within the given documents: n_cw, float64 [V, V], sparse."""
    n_words, of = len(corpus.words), np.repeat(np.arange(len(corpus.documents)), np.diff(corpus.starts))
    kept = (of[:-1] == of[1:]) & np.isin(of[:-1], documents)
    pair = (corpus.tokens[:-1][kept], corpus.tokens[1:][kept])
    return sparse.coo_array((np.ones(int(kept.sum())), pair), shape=(n_words, n_words)).tocsr()


def smoothed_unigram(counts: sparse.csr_array, smoothing: float) -> NDArray[np.float64]:
    """(n_w + smoothing) / sum: the share of each following word [V]."""
    smoothed = counts.sum(axis=0) + smoothing
    return np.asarray(smoothed / smoothed.sum())


def perplexity(counts: sparse.csr_array, log_likelihood: float) -> float:
    """exp(-log-likelihood / number of bigrams)."""
    return math.exp(-log_likelihood / counts.sum())


def loss_and_gradients(
    vectors: Tensor, word_vectors: Tensor, bias: Tensor, counts: Tensor, pairs: tuple[Tensor, Tensor], weights: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    r""":math:`\sum_c a_c \ell_c` [] and its gradients in u, v and b, in one buffer of the size of the logits [B, V].

    Args:
        vectors: u of the batch's contexts [B, r].
        word_vectors: v [V, r].
        bias: b [V].
        counts: the non-zero counts n_cw of the batch [K].
        pairs: their rows (places in the batch) and columns (words), int64 [K] each, no pair twice.
        weights: a [B].
    """
    weighted = counts * weights[pairs[0]]
    totals = torch.zeros_like(weights).index_put((pairs[0],), weighted, accumulate=True)
    p = torch.addmm(bias, vectors, word_vectors.T)
    torch.softmax(p, dim=-1, out=p)
    loss = -weighted @ p[pairs].log()
    p *= totals[:, None]
    p[pairs] -= weighted
    return loss, (p @ word_vectors, p.T @ vectors, p.sum(dim=0))


def draw_contexts(totals: Tensor, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw contexts with replacement and probability proportional to the square root of their counts n_c [V].

    Returns the distinct contexts, int64 [B], and weights a, float64 [B]: the expected sum of a_c g_c over the drawn c
    is the sum of g_c over all c with n_c > 0.
    """
    proposal = totals.sqrt() / totals.sqrt().sum()
    drawn = torch.multinomial(proposal, batch, replacement=True, generator=generator)
    contexts, times = torch.unique(drawn, return_counts=True)
    return contexts, times / (batch * proposal[contexts])


class Learner(descent.Learner):
    """A model in training: u, v and b, float32, by Adam on the objective per token."""

    names = ("the next-word model",)
    dynamic = "a batch has as many rows as it has distinct contexts"

    def __init__(
        self, config: WordModelConfig, counts: sparse.csr_array, unigram: NDArray[np.float64], device: str
    ) -> None:
        """Start from the counts n_cw and the shares of the following words [V]."""
        super().__init__(device)
        self.config, self.rows, self.tokens = config, _Rows(counts, device), float(counts.sum())
        self.totals = torch.from_numpy(counts.sum(axis=1)).to(device)
        self.generators = [torch.Generator(device).manual_seed(config.seed)]
        first: Any = {"size": (counts.shape[0], config.rank), "dtype": torch.float32, "device": device}
        self.parameters = {
            "vectors": torch.zeros(**first),
            "word_vectors": 0.1 * torch.randn(generator=self.generators[0], **first),
            "bias": torch.from_numpy(np.log(unigram)).float().to(device),
        }
        self.optimiser = descent.adam(self.parameters.values(), config.learning_rate, device, fused=False)
        self.steps, self.rates = config.steps, descent.cosine(config.learning_rate, config.steps)

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Contexts [B], their dropout masks [B, r] and weights [B], and their counts [K] with rows and columns."""
        config, (source,) = self.config, self.generators
        for _ in range(self.steps):
            contexts, per_context = draw_contexts(self.totals, config.batch, source)
            mask = torch.empty((len(contexts), config.rank), dtype=torch.float32, device=self.device)
            mask = (mask.uniform_(generator=source) >= config.dropout).float() / (1 - config.dropout)
            values, pairs = self.rows(contexts)
            yield contexts, mask, (per_context / self.tokens).float(), values, *pairs

    def losses(self, *batch: Tensor) -> Tensor:
        """The loss per token without the penalty, []; sets the gradients of the objective."""
        contexts, mask, weights, values, *pairs = batch
        vectors, word_vectors, bias = self.parameters.values()
        drawn = vectors[contexts]
        loss, (gradient, word_vectors.grad, bias.grad) = loss_and_gradients(
            drawn * mask, word_vectors, bias, values, (pairs[0], pairs[1]), weights
        )
        vectors.grad = torch.zeros_like(vectors)
        vectors.grad[contexts] = gradient * mask + self.config.penalty * weights[:, None] * drawn
        word_vectors.grad += self.config.penalty / self.tokens * word_vectors
        return loss

    def backward(self, *batch: Tensor) -> Tensor:
        """As :meth:`losses`, which needs no graph of autograd."""
        return self.losses(*batch)


class _Rows:
    """Counts [V, V] on a device, which gives the non-zero ones of some rows."""

    def __init__(self, counts: sparse.csr_array, device: torch.device | str) -> None:
        parts = counts.indptr.astype(np.int64), counts.indices.astype(np.int64), counts.data.astype(np.float32)
        self._start, self._column, self._value = (torch.from_numpy(part).to(device) for part in parts)

    def __call__(self, contexts: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The non-zero counts of some contexts, float32 [K], with their (row, column), int64."""
        start, end = self._start[contexts], self._start[contexts + 1]
        row = torch.repeat_interleave(end - start)
        place = torch.arange(len(row), device=row.device) + (end - (end - start).cumsum(0))[row]
        return self._value[place], (row, self._column[place])


def _log_likelihood(
    counts: sparse.csr_array, vectors: Tensor, word_vectors: Tensor, bias: Tensor, chunk: int = 64
) -> float:
    """The sum over c and w of n_cw log p(w | c), the logits in chunks of contexts."""
    contexts, rows = torch.from_numpy(np.flatnonzero(np.diff(counts.indptr))), _Rows(counts, vectors.device)
    total = 0.0
    for part in torch.split(contexts.to(vectors.device), chunk):
        values, pairs = rows(part)
        logits = torch.addmm(bias, vectors[part], word_vectors.T)
        log_p = logits[pairs] - logits.logsumexp(dim=-1)[pairs[0]]
        total += float(values.double() @ log_p.double())
    return total
