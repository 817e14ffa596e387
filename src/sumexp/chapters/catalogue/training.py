r"""Train one form at several learning rates; validation pairs pick the rate and the epoch.

Adam at a constant rate, on batches of pairs in random order; an incomplete last batch is dropped. Training at a rate
ends when `PATIENCE` epochs in a row have improved the validation NDCG of neither f nor :math:`f+\log q`. For each of
these two *served* scores the rate and epoch of the best validation NDCG are evaluated

- on held pairs, without the user's training and validation pairs;
- on public pairs, without all published training pairs; there also with :math:`\log q_\text{new}-\log q` added to the
  score that is right for the training distribution: f, or :math:`f+\log q` for a form that learns log P/q.
  :math:`q_\text{new}` is counted in the public pairs of the *other* half of the users, with as many pairs from q added
  as there are items.

Recall and NDCG at 20 are means over the users that have a pair; ties are pessimistic.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from sumexp import _descent as descent
from sumexp._descent import generator
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.catalogue import forms
from sumexp.chapters.catalogue.forms import Form, Towers
from sumexp.chapters.catalogue.pairs import Parts, Source, load

K = 20
"""Places of a list that count."""

PATIENCE = 2

SERVED = ("f", "f + log q")
"""The scores that rates and epochs are picked for."""

JUDGED = (("held", "f"), ("held", "f + log q"), ("public", "f"), ("public", "f + log q"), ("public", "moved"))
"""The rows of a run's results: which pairs, and which score; ``moved`` has the popularity of the public pairs."""

_BLOCK = {"cpu": 32, "cuda": 500}
"""Users whose scores are held at once: on a CPU as many as fit into its caches."""


@dataclass(frozen=True)
class Config:
    """How one form is trained.

    Attributes:
        number: whether each item has a bias.
        seed: of the split, the vectors, the order and the draws; forms of one seed share the first three.
        least: the fewest training pairs of an item.
        batch: pairs of a step, B.
        negatives: draws of a step, m, of ``popularity`` and ``gbce``; otherwise 0.
        epochs: maximal number of passes over the pairs.
        rates: learning rates of Adam that validation pairs choose from.
    """

    source: Source = "synthetic"
    form: Form = "kept"
    number: bool = True
    seed: int = 0
    users: int = 200
    least: int = 1
    dim: int = 64
    batch: int = 512
    negatives: int = 0
    epochs: int = 12
    rates: tuple[float, ...] = (0.02, 0.06)

    def __post_init__(self) -> None:
        if self.source not in get_args(Source) or self.form not in forms.FORMS:
            raise ValueError(f"source {self.source!r} and form {self.form!r} must be of pairs.Source and forms.FORMS")
        sizes = (self.users, self.least, self.dim, self.batch - 1, self.epochs, *self.rates)
        if not self.rates or not all(size > 0 for size in sizes) or self.seed < 0:
            raise ValueError(f"sizes and rates of {self} must be positive, the batch 2 or more, the seed >= 0")
        if (self.negatives > 0) != (self.form in ("popularity", "gbce")):
            raise ValueError(f"{self.form} with {self.negatives} negatives; give some to popularity and gbce alone")


def train(
    config: Config,
    /,
    parts: Parts | None = None,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """Train the form on ``parts``, by default those of its source, and evaluate the picked rate and epoch.

    Returns:
        arrays: ``counts`` [L], training pairs of each item; ``recall`` and ``ndcg`` [5], the rows of :data:`JUDGED`;
        ``validation`` [2, rates, epochs], the NDCG of the two served scores, NaN after the last epoch; ``picked``
        [2, 2], the indices of rate and epoch of each;
        metrics: recall at 20 of held pairs, f served.

    Raises:
        ValueError: if there are fewer training pairs than a batch.
    """
    parts = parts or load(config.source, config.users, config.least, config.seed)
    done: list[Mapping[str, Any]] = []
    if (state := checkpoint.load()) is not None:
        done = list(state["done"])
    for place in progress(range(len(done), len(config.rates))):
        done.append(_at_rate(config, parts, config.rates[place], device))
        checkpoint.save({"done": done})
    validation = np.stack([np.array(run["validation"]) for run in done], axis=1)
    best = [int(np.nanmax(rows, axis=1).argmax()) for rows in validation]
    picked = np.array([(rate, int(np.nanargmax(rows[rate]))) for rate, rows in zip(best, validation, strict=True)])
    judged = [done[best[SERVED.index(_base(config.form, served))]]["judged"][i] for i, (_, served) in enumerate(JUDGED)]
    arrays = {
        "counts": parts.counts,
        "recall": np.array([run["recall"] for run in judged]),
        "ndcg": np.array([run["ndcg"] for run in judged]),
        "validation": validation,
        "picked": picked,
    }
    return Result(arrays, {"recall": float(arrays["recall"][0])})


def _base(form: Form, served: str) -> str:
    """The picked score behind a served one: where popularity moves, f, or f + log q for forms that learn log P/q."""
    return served if served in SERVED else SERVED[form in forms.RATIOS]


def _per_item(pairs: csr_array) -> NDArray[np.int64]:
    return np.bincount(pairs.indices, minlength=pairs.shape[1]).astype(np.int64)


def _at_rate(config: Config, parts: Parts, rate: float, device: str) -> dict[str, Any]:
    """Validation NDCG [2, epochs] at one rate, and the metrics of its best epochs in the order of `JUDGED`."""
    learner = Learner(config, parts, rate, device)
    validation = np.full((len(SERVED), config.epochs), np.nan)
    best: list[tuple[Tensor, Tensor, Tensor]] = [learner.vectors()] * len(SERVED)

    def judged(epoch: int, loss: float) -> list[Any] | None:
        left, right, offset = learner.vectors()
        tables = judge(left, right, (offset, offset + learner.log_q), parts.validation, (parts.train,))
        for i, table in enumerate(tables):
            validation[i, epoch] = table["ndcg"]
            if np.nanargmax(validation[i]) == epoch:  # of equal epochs the first
                best[i] = left, right, offset
        return None if epoch - int(np.nanargmax(validation, axis=1).max()) >= PATIENCE else []

    descent.train_epochs(learner, config.epochs, judged)
    return {"validation": validation.tolist(), "judged": _judged(config.form, parts, best)}


def _judged(form: Form, parts: Parts, best: list[tuple[Tensor, Tensor, Tensor]]) -> list[dict[str, Any]]:
    device = best[0][0].device
    log_q = torch.from_numpy(parts.log_q).float().to(device)
    moved, groups = popularity(parts).to(device), torch.from_numpy(half(parts.train.shape[0])).to(device)
    added = {
        "f": torch.zeros_like(log_q),
        "f + log q": log_q,
        "moved": moved - (0 if form in forms.RATIOS else log_q),
    }
    tables = []
    for which, served in JUDGED:
        left, right, offset = best[SERVED.index(_base(form, served))]
        before = (parts.train, parts.validation) if which == "held" else (parts.train, parts.validation, parts.held)
        tables += judge(left, right, (offset + added[served],), getattr(parts, which), before, groups)
    return tables


def half(users: int) -> NDArray[np.int64]:
    """Which half, 0 or 1, each user belongs to [users]."""
    return np.random.default_rng(4).permutation(users) % 2


def popularity(parts: Parts) -> Tensor:
    """For the users of each half, log popularity of the others' public pairs, smoothed towards q, [2, items]."""
    halves, items = half(parts.public.shape[0]), parts.public.shape[1]
    counts = np.stack([_per_item(parts.public[halves != i]) for i in (0, 1)])
    smooth = (counts + items * np.exp(parts.log_q)) / (counts.sum(1, keepdims=True) + items)
    return torch.from_numpy(np.log(smooth)).float()


@torch.no_grad()
def judge(
    left: Tensor,
    right: Tensor,
    offsets: Sequence[Tensor],
    wanted: csr_array,
    before: Sequence[csr_array],
    groups: Tensor | None = None,
) -> list[dict[str, float]]:
    """Recall and NDCG at 20 of the ``wanted`` pairs [users, items], in lists without the items of earlier pairs.

    Scores are the products of ``left`` [users, dim] and ``right`` [items, dim], plus each of the ``offsets``, [items]
    or, by the ``groups`` of the users [users], [groups, items]. Each offset has a result: means over the users with a
    relevant pair.
    """
    hits: list[list[Tensor]] = [[] for _ in offsets]
    with_pairs = np.flatnonzero(np.diff(wanted.indptr))
    users, _ = _places(wanted[with_pairs], left.device)
    size = _BLOCK.get(left.device.type, _BLOCK["cpu"])
    buffers = left.new_empty(2, size, len(right))
    for first in range(0, len(with_pairs), size):
        rows = with_pairs[first : first + size]
        block = torch.from_numpy(rows).to(left.device)
        product, scores = buffers[:, : len(rows)]
        torch.mm(left[block], right.T, out=product)
        for earlier in before:
            product[_places(earlier[rows], left.device)] = -math.inf
        of, item = _places(wanted[rows], left.device)
        for places, offset in zip(hits, offsets, strict=True):
            torch.add(product, offset[groups[block]] if offset.ndim == 2 else offset, out=scores)  # type: ignore[index]
            top = scores.topk(min(K + 1, scores.shape[1])).values
            places.append((top[of] >= scores[of, item].unsqueeze(1)).sum(1))  # K + 1 for all that are further down
    return [_means(torch.cat(places), users) for places in hits]


def _places(pairs: csr_array, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows and columns of the pairs."""
    row, column = (torch.from_numpy(side).long().to(device) for side in pairs.tocoo().coords)
    return row, column


def _means(places: Tensor, users: Tensor) -> dict[str, float]:
    """Recall and NDCG from the ranks of pairs; each user has a pair."""
    discount = 1 / torch.arange(2, K + 2, dtype=torch.float64, device=places.device).log2()
    hit, each = places <= K, torch.bincount(users)
    gain = torch.where(hit, discount[places.clamp(max=K) - 1], 0.0)
    recall = torch.bincount(users, hit.double()) / each
    ndcg = torch.bincount(users, gain) / discount.cumsum(0)[each.clamp(max=K) - 1]
    return {"recall": recall.mean().item(), "ndcg": ndcg.mean().item()}


class Learner(descent.Learner):
    """A form in training."""

    def __init__(self, config: Config, parts: Parts, rate: float, device: str = "cpu") -> None:
        """Start from the first weights."""
        super().__init__(device)
        pairs = parts.train.tocoo()
        self.users, self.items = (torch.from_numpy(side.astype(np.int64)).to(device) for side in (pairs.row, pairs.col))
        if len(self.users) < config.batch:
            raise ValueError(
                f"there are {len(self.users)} training pairs for a batch of {config.batch}; lower the batch"
            )
        self.config, self.names = config, [f"{config.form} at the rate {rate}"]
        self.steps = len(self.users) // config.batch
        self.log_q = torch.from_numpy(parts.log_q).float()
        start, constant = forms.start(config.form, config.number, config.batch, config.negatives, self.log_q)
        first = generator(config.seed, "weights")
        towers = Towers(parts.train.shape[0], config.dim, start, constant, config.number, first)
        self.towers, self.log_q = towers.to(device), self.log_q.to(device)
        self.law = torch.from_numpy(np.exp(parts.log_q)).to(device)
        self.mixture = mixture(self.log_q, config.batch)
        self.parameters = {
            name: parameter for name, parameter in self.towers.named_parameters() if parameter.requires_grad
        }
        self.optimiser = descent.adam(self.parameters.values(), rate, device)

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Users [B], items [B] and draws of each step."""
        order = torch.randperm(len(self.users), generator=generator(self.config.seed, "order", self.epoch))
        drawn = generator(self.config.seed, "negatives", self.epoch, self.device)
        for batch in order[: self.steps * self.config.batch].to(self.device).view(-1, self.config.batch):
            yield self.users[batch], self.items[batch], self.draw(drawn)

    def losses(self, *batch: Tensor) -> Tensor:
        """The mean loss [] of a batch of users [B] and items [B], with the items from :meth:`draw`."""
        (users, items, drawn), form, towers = batch, self.config.form, self.towers
        match form:
            case "full":
                return F.cross_entropy(towers(users, None), items)
            case "mixed":
                columns = torch.cat([items, drawn])
                return forms.batch_loss(form, towers(users, columns), columns, self.mixture[columns])
            case "popularity" | "gbce":
                left = towers.left(users)
                positive = (left * towers.right(items)).sum(1) + towers.offset(items)
                others = torch.addmm(towers.offset(drawn), left, towers.right(drawn).T)
                return forms.sampled(form, positive, others, (self.log_q[items], self.log_q[drawn]), len(self.log_q))
        return forms.batch_loss(form, towers(users, items), items, self.log_q[items])

    def draw(self, drawn: torch.Generator) -> Tensor:
        """The items that a batch draws with replacement, by popularity or uniformly; none for most forms."""
        if self.config.form == "popularity":
            return torch.multinomial(self.law, self.config.negatives, replacement=True, generator=drawn)
        count = self.config.batch // 2 if self.config.form == "mixed" else self.config.negatives
        return torch.randint(len(self.law), (count,), generator=drawn, device=self.device)

    @torch.no_grad()
    def vectors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Copies for all users [users, dim] and all items [items, dim], and of the items' offsets [items]."""
        everyone = torch.arange(self.towers.users.shape[0], device=self.device)
        parts = (self.towers.left(everyone), self.towers.right(None), self.towers.offset(None))
        left, right, offset = (part.clone() for part in parts)
        return left, right, offset


def mixture(log_q: Tensor, batch: int) -> Tensor:
    """Log probabilities of a column among B - 1 of the batch and B // 2 uniform ones."""
    most = batch - 1 + batch // 2
    uniform = -math.log(len(log_q))
    return torch.logaddexp(
        log_q + math.log((batch - 1) / most), log_q.new_tensor(uniform + math.log(batch // 2 / most))
    )
