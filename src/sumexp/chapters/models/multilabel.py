r"""Queries with several relevant items: a network trained by four losses, each with the ranks that it should bound.

A query is a web page and the items are tags, or a word and the items are the words that follow it. Each relevant item
has a gain: 1 for a tag, and for a follower its number of occurrences. A query's loss is the mean over its items, each
taken as the only positive and weighted by its share t of the gains: with the softmax this is the ListNet loss. A linear
hidden layer, then scores z of all items:

- ``softmax``: :math:`-\log p_i`;
- ``cosface``, ``arcface``: the same on scaled cosines, with a margin subtracted from the item's own;
- ``infonce``: one item of the query, drawn by its share, against m items drawn uniformly from all others.

After every epoch losses and ranks are measured on a fixed sample of the queries of both parts; InfoNCE's mean over
draws is computed exactly.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from sumexp import _checks as checks
from sumexp import _descent as descent
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.models._queries import Queries, Source, load
from sumexp.expectations import _integrals as integrals
from sumexp.expectations import _laws as expected
from sumexp.functional import _full as full
from sumexp.functional import _lists as lists
from sumexp.functional import _margins as margins
from sumexp.functional import _sampled as sampled
from sumexp.ranking import _metrics as metrics
from sumexp.ranking.sampled import hit_losses
from sumexp.samplers._laws import Uniform
from sumexp.samplers._negatives import draw

Loss = Literal["softmax", "cosface", "arcface", "infonce"]


@dataclass(frozen=True)
class MultilabelConfig:
    """How the network is trained.

    Attributes:
        learning_rate: of Adam at the first step; it falls to zero along a cosine.
        scale: factor of the cosines.
        margin: of CosFace a cosine, of ArcFace an angle.
        negatives: m of InfoNCE.
        queries: how many queries of each part are measured.
        pairs: on how many of those, with one item each, the exact mean of InfoNCE is taken.
        seed: of all random draws; the measured queries are always the same.
    """

    source: Source = "delicious"
    loss: Loss = "softmax"
    width: int = 128
    epochs: int = 6
    batch: int = 256
    learning_rate: float = 3e-3
    scale: float = 16.0
    margin: float = 0.2
    negatives: int = 64
    queries: int = 1000
    pairs: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        checks.positive(self, "width", "epochs", "batch", "learning_rate", "scale", "negatives", "queries", "pairs")
        if not 0 <= self.margin <= math.pi / 2:
            raise ValueError(f"margin must be in [0, pi/2], got {self.margin!r}")
        checks.choice("loss", self.loss, get_args(Loss))
        checks.choice("source", self.source, get_args(Source))


_WORDS = MultilabelConfig(
    source="shakespeare", width=64, epochs=6, batch=16, learning_rate=0.02, negatives=16, queries=200, pairs=50
)

CONFIGS: Mapping[str, Mapping[Source, MultilabelConfig]] = {
    "smoke": {
        "delicious": MultilabelConfig(width=32, epochs=2, batch=512, queries=200, pairs=16),
        "shakespeare": replace(_WORDS, width=32, epochs=2, batch=64, queries=100, pairs=16),
    },
    "cpu": {"delicious": MultilabelConfig(), "shakespeare": _WORDS},
    "paper": {
        "delicious": MultilabelConfig(width=512, epochs=30, queries=3000, pairs=1000),
        "shakespeare": replace(_WORDS, width=256, epochs=30, queries=400, pairs=400),
    },
}
"""The configuration of each profile for each source; `dataclasses.replace` sets loss and seed."""


class Network(nn.Module):
    """Scores of all items: linear in the hidden layer, or a scale times cosines."""

    def __init__(self, features: int, items: int, config: MultilabelConfig, generator: torch.Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(config.width)
        where: Any = {"dtype": torch.float32, "device": generator.device}
        hidden = torch.randn(features, config.width, generator=generator, **where) / math.sqrt(features)
        self.hidden = nn.Parameter(hidden)
        weight = torch.empty(items, config.width, **where).uniform_(-bound, bound, generator=generator)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(items, **where))
        self.scale = config.scale if config.loss in ("cosface", "arcface") else None

    def forward(self, queries: Tensor) -> Tensor:
        """[B, features] -> [B, items]."""
        hidden = queries @ self.hidden
        if self.scale is None:
            return F.linear(hidden, self.weight, self.bias)
        return self.scale * F.normalize(hidden, dim=-1) @ F.normalize(self.weight, dim=-1).T


def label_losses(logits: Tensor, config: MultilabelConfig) -> Tensor:
    r"""The loss of each item [B, L] as the only positive, with the margin :math:`\delta_i` of the configured loss

    .. math:: \ell_i = \log\Big(1 + \sum_{j\ne i} e^{z_j - z_i + \delta_i}\Big)
              = -\log p_i + \delta_i + \log\big(1 - p_i(1 - e^{-\delta_i})\big).
    """  # noqa: D415
    log_p = torch.log_softmax(logits, -1)
    match config.loss:
        case "cosface":
            margin = torch.full_like(logits, config.scale * config.margin)
        case "arcface":
            margin = config.scale * margins.arcface_margin(logits / config.scale, config.margin)
        case _:
            return -log_p
    return margin - log_p + torch.log1p(log_p.exp() * torch.expm1(-margin))


def train(
    config: MultilabelConfig,
    /,
    data: Queries | None = None,
    *,
    device: str = "cpu",
    progress: Progress = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Result:
    """Train on ``data``, by default the source's, and measure both parts before the first epoch and after each.

    Returns:
        arrays: for ``part`` in train, test the curves [epochs + 1]

        - ``part_loss``: the mean loss (InfoNCE: its exact mean over draws, on the pairs);
        - ``part_cross_entropy``: the mean ListNet loss of the same scores, without margin;
        - ``part_log_rank``: the mean over queries of the mean over their items, by shares, of the pessimistic log rank;
        - ``part_log_mrr``: minus the log of the mean reciprocal rank of query and item;
        - ``part_first_log_mrr``: the same for the first of each query's items;
        - ``part_ndcg``: the mean NDCG;
        - ``part_entropy``: the mean entropy of the shares, the minimum of the cross entropy;
        - for InfoNCE ``part_pair_log_rank`` and ``part_pair_log_sampled_rank``: on the pairs, the mean log rank among
          all items, and its exact mean among the sampled ones;

        and after training, for one item of each measured test query, ``pair_loss`` (without margin) and ``pair_rank``,
        [queries];
        metrics: the last point of each curve.
    """
    data = data or load(config.source)
    parts = {
        "train": (torch.from_numpy(data.train).to(device), torch.from_numpy(data.train_gains).to(device)),
        "test": (torch.from_numpy(data.test).to(device), torch.from_numpy(data.test_gains).to(device)),
    }
    learner = Learner(config, *parts["train"], device)
    network, shown = learner.network, {part: _sample(*tensors, config) for part, tensors in parts.items()}
    curves = descent.train_epochs(
        learner,
        config.epochs,
        lambda epoch, loss: [_measure_all(network, shown, config)],
        progress=progress,
        checkpoint=checkpoint,
        start=[_measure_all(network, shown, config)],
    )
    arrays: dict[str, NDArray[np.generic]] = {name: np.array([point[name] for point in curves]) for name in curves[0]}
    queries, _, items = shown["test"]
    with torch.no_grad():
        logits = network(queries).double()
    arrays["pair_loss"] = full.cross_entropy(logits, items, reduction="none").cpu().numpy()
    arrays["pair_rank"] = metrics.rank(logits, items, ties="pessimistic").cpu().numpy()
    return Result(arrays, curves[-1])


def _sample(queries: Tensor, gains: Tensor, config: MultilabelConfig) -> tuple[Tensor, Tensor, Tensor]:
    """The queries measured, their gains, and one item of each [B]."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(queries), generator=generator)[: config.queries].to(queries.device)
    items = torch.multinomial(gains[chosen].float().cpu(), 1, generator=generator).squeeze(-1)
    return queries[chosen], gains[chosen], items.to(queries.device)


class Learner(descent.Learner):
    """A network in training, on queries [n, features] and the gains of their items [n, L]."""

    def __init__(self, config: MultilabelConfig, queries: Tensor, gains: Tensor, device: str = "cpu") -> None:
        """Start from the first weights."""
        super().__init__(device)
        self.config, self.queries, self.gains, self.names = config, queries, gains, [config.loss]
        self.steps = math.ceil(len(queries) / config.batch)
        self.generators = [torch.Generator(device).manual_seed(config.seed)]
        self.network = Network(queries.shape[1], gains.shape[1], config, self.generators[0])
        self.parameters = dict(self.network.named_parameters())
        self.optimiser = descent.adam(self.parameters.values(), config.learning_rate, device, fused=False)
        self.rates = [rate for rate in descent.cosine(config.learning_rate, config.epochs) for _ in range(self.steps)]

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Indices of queries [B]; for InfoNCE one item of each [B, 1], and m uniform draws from all others [B, m]."""
        config, (source,) = self.config, self.generators
        order = torch.randperm(len(self.queries), generator=source, device=self.device)
        for chosen in torch.split(order, config.batch):
            drawn: tuple[Tensor, ...] = ()
            if config.loss == "infonce":
                chances = self.gains[chosen].float()
                # What torch.multinomial computes, which would make the host wait.
                items = (chances / torch.empty_like(chances).exponential_(generator=source)).argmax(-1)
                law = Uniform(chances.shape[1], self.device)
                negatives = draw(law, items, config.negatives, hits="redraw", generator=source)
                drawn = items.unsqueeze(-1), negatives.ids
            yield chosen, *drawn

    def losses(self, *batch: Tensor) -> Tensor:
        """The mean loss, []."""
        chosen, *drawn = batch
        logits, gains = self.network(self.queries[chosen]), self.gains[chosen]
        if drawn:
            items, ids = drawn
            return sampled.info_nce(logits.gather(-1, items).squeeze(-1), logits.gather(-1, ids))
        return ((label_losses(logits, self.config) * gains).sum(-1) / gains.sum(-1)).mean()


@torch.no_grad()
def _measure_all(
    network: Network, shown: Mapping[str, tuple[Tensor, Tensor, Tensor]], config: MultilabelConfig
) -> dict[str, float]:
    return {
        f"{part}_{name}": value
        for part, (queries, gains, items) in shown.items()
        for name, value in measure(network(queries).double(), gains, items, config).items()
    }


def measure(logits: Tensor, gains: Tensor, items: Tensor, config: MultilabelConfig) -> dict[str, float]:
    """The point of each curve of :func:`train`, from float64 logits and gains [B, L] and an item per query [B]."""
    share = gains.double() / gains.double().sum(-1, keepdim=True)
    ranks = metrics.ranks(logits, ties="pessimistic")
    values = {
        "loss": (label_losses(logits, config) * share).sum(-1).mean(),
        "cross_entropy": lists.listnet(logits, gains),
        "log_rank": (ranks.log() * share).sum(-1).mean(),
        "log_mrr": -(share / ranks).sum(-1).mean().log(),
        "first_log_mrr": -metrics.mean_reciprocal_rank(logits, gains > 0, ties="pessimistic").log(),
        "ndcg": metrics.ndcg(logits, gains, ties="pessimistic").mean(),
        "entropy": -torch.special.xlogy(share, share).sum(-1).mean(),
    }
    if config.loss == "infonce":
        n, m = logits.shape[1] - 1, config.negatives
        z, y = logits[: config.pairs], items[: config.pairs].unsqueeze(-1)
        others = torch.ones_like(z, dtype=torch.bool).scatter(-1, y, False)
        terms = (z - z.gather(-1, y))[others].view(len(z), n)
        law = expected.with_replacement(terms, m, method="spread")
        values["loss"] = integrals.expect(law, tol=1e-9).loss.mean()
        rank = ranks[: config.pairs].gather(-1, y).squeeze(-1)
        values["pair_log_rank"] = rank.log().mean()
        values["pair_log_sampled_rank"] = hit_losses(n, m, 1.0, rank - 1).mean()
    return {name: value.item() for name, value in values.items()}
