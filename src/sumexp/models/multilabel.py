r"""Tags for pages: a network trained by four losses, each watched beside the ranks that it is said to bound.

A page has several labels, and its loss is the mean over them, each taken for the only right one: with the softmax this
is the ListNet loss with uniform labels. One hidden layer, linear, then scores z of all labels:

- ``softmax``: :math:`-\log p_i`;
- ``cosface``, ``arcface``: the same on scaled cosines, with a margin taken off the label's own;
- ``infonce``: one label of the page, drawn at random, against m labels drawn uniformly from all others.

After every epoch the losses and the ranks are taken on a fixed sample of the pages of both parts, without dropout or
noise: what InfoNCE averages over its draws is computed exactly.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from sumexp import checks, datasets, expectations, losses, ranking, samplers
from sumexp.runtime import UNKEPT, Checkpoint, Progress, Result

Loss = Literal["softmax", "cosface", "arcface", "infonce"]

CURVES = ("loss", "cross_entropy", "log_rank", "log_mrr", "first_log_mrr", "ndcg")
"""What is measured of both parts after every epoch; see :func:`train`."""


@dataclass(frozen=True)
class MultilabelConfig:
    """How the network is trained.

    Attributes:
        source: Delicious, or scikit-learn's digits, which need no download and have one label each.
        loss: one of the four.
        width: of the hidden layer.
        epochs: passes over the pages.
        batch: pages in a step.
        learning_rate: of Adam at the first step; it falls to zero along a cosine.
        scale: what cosines are multiplied by.
        margin: of CosFace a cosine, of ArcFace an angle.
        negatives: m of InfoNCE.
        pages: how many pages of each part are measured.
        pairs: on how many of those, with one label each, the exact mean of InfoNCE is taken.
        seed: of all random draws; the pages measured are always the same.
    """

    source: Literal["delicious", "digits"] = "delicious"
    loss: Loss = "softmax"
    width: int = 128
    epochs: int = 6
    batch: int = 256
    learning_rate: float = 3e-3
    scale: float = 16.0
    margin: float = 0.2
    negatives: int = 64
    pages: int = 1000
    pairs: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        checks.positive(self, "width", "epochs", "batch", "learning_rate", "scale", "negatives", "pages", "pairs")
        if not 0 <= self.margin <= math.pi / 2:
            raise ValueError(f"margin must be in [0, pi/2], got {self.margin!r}")
        if self.loss not in get_args(Loss):
            raise ValueError(f"loss must be one of {', '.join(get_args(Loss))}, got {self.loss!r}")


CONFIGS: Mapping[str, MultilabelConfig] = MappingProxyType(
    {
        "smoke": MultilabelConfig(width=32, epochs=2, batch=512, pages=200, pairs=16),
        "cpu": MultilabelConfig(),
        "paper": MultilabelConfig(width=512, epochs=30, pages=3000, pairs=1000),
    }
)
"""The configuration of each profile; `dataclasses.replace` sets loss, source and seed."""


class Network(nn.Module):
    """Scores of all labels: linear in the hidden layer, or a scale times cosines."""

    def __init__(self, features: int, labels: int, config: MultilabelConfig, generator: torch.Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(config.width)
        self.hidden = nn.Parameter(torch.randn(features, config.width, generator=generator) / math.sqrt(features))
        self.weight = nn.Parameter(torch.empty(labels, config.width).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(labels))
        self.scale = config.scale if config.loss in ("cosface", "arcface") else None

    def forward(self, pages: Tensor) -> Tensor:
        """[B, features] -> [B, labels]."""
        hidden = pages @ self.hidden
        if self.scale is None:
            return F.linear(hidden, self.weight, self.bias)
        return self.scale * F.normalize(hidden, dim=-1) @ F.normalize(self.weight, dim=-1).T


def label_losses(logits: Tensor, config: MultilabelConfig) -> Tensor:
    r"""The loss of each label, if it were the right one: with the margin :math:`\delta_i` of the configured loss

    .. math:: \ell_i = \log\Big(1 + \sum_{j\ne i} e^{z_j - z_i + \delta_i}\Big)
              = -\log p_i + \delta_i + \log\big(1 - p_i(1 - e^{-\delta_i})\big).

    Args:
        logits: [B, L].
        config: its loss, scale and margin; InfoNCE and the softmax have none.

    Returns:
        [B, L].
    """  # noqa: D415
    log_p = torch.log_softmax(logits, -1)
    match config.loss:
        case "cosface":
            margin = torch.full_like(logits, config.scale * config.margin)
        case "arcface":
            margin = config.scale * losses.arcface_margin(logits / config.scale, config.margin)
        case _:
            return -log_p
    return margin - log_p + torch.log1p(log_p.exp() * torch.expm1(-margin))


def load(source: Literal["delicious", "digits"]) -> datasets.MultiLabel:
    """The pages of the source that have a label; of digits a quarter is the second part.

    Raises:
        DataError: if Delicious is absent, damaged or undeclared.
    """
    if source == "delicious":
        data = datasets.delicious()
        kept, tested = data.train_labels.any(1), data.test_labels.any(1)
        return datasets.MultiLabel(
            data.train[kept], data.train_labels[kept], data.test[tested], data.test_labels[tested], data.labels
        )
    from sklearn.model_selection import train_test_split

    digits = datasets.digits()
    own = np.eye(10, dtype=bool)[digits.labels]
    train, test, labels, tested = train_test_split(
        digits.images.astype(np.float32), own, test_size=0.25, random_state=0, stratify=digits.labels
    )
    return datasets.MultiLabel(train, labels, test, tested, tuple(map(str, range(10))))


def train(
    config: MultilabelConfig, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = UNKEPT
) -> Result:
    """Train on the configured source and measure both parts before the first epoch and after each.

    Returns:
        arrays: for ``part`` in train, test the curves [epochs + 1]

        - ``part_loss``: the mean loss (InfoNCE: its exact mean over draws, on the pairs);
        - ``part_cross_entropy``: the mean ListNet loss of the same scores, without margin;
        - ``part_log_rank``: the mean over pages of the mean over labels of the log rank, the worst among ties;
        - ``part_log_mrr``: minus the log of the mean reciprocal rank of page and label;
        - ``part_first_log_mrr``: the same of the first of each page's labels;
        - ``part_ndcg``: the mean NDCG;
        - for InfoNCE ``part_pair_log_rank`` and ``part_pair_log_sampled_rank``: on the pairs, the mean log rank among
          all labels, and its exact mean among the sampled ones;

        and after training, of one label of each page measured of the test part, ``pair_loss`` (without margin) and
        ``pair_rank``, [pages];
        metrics: the last point of each curve.

    Raises:
        DataError: if Delicious is absent, damaged or undeclared.
    """
    return fit(config, load(config.source), device=device, progress=progress)


def fit(
    config: MultilabelConfig, data: datasets.MultiLabel, *, device: str = "cpu", progress: Progress = iter
) -> Result:
    """The same for any data.

    Raises:
        ValueError: if a page has no label.
    """
    if missing := int((~data.train_labels.any(1)).sum() + (~data.test_labels.any(1)).sum()):
        raise ValueError(f"{missing} pages have no label, and so no loss; leave them out")
    generator = torch.Generator().manual_seed(config.seed)
    parts = {
        "train": (torch.from_numpy(data.train).to(device), torch.from_numpy(data.train_labels).to(device)),
        "test": (torch.from_numpy(data.test).to(device), torch.from_numpy(data.test_labels).to(device)),
    }
    pages, labels = parts["train"]
    network = Network(pages.shape[1], labels.shape[1], config, generator).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=config.epochs)
    shown = {part: _sample(*tensors, config) for part, tensors in parts.items()}
    curves = [_measure_all(network, shown, config)]
    for _ in progress(range(config.epochs)):
        for chosen in torch.split(torch.randperm(len(pages), generator=generator).to(device), config.batch):
            logits, own = network(pages[chosen]), labels[chosen]
            if config.loss == "infonce":
                loss = _info_nce(logits, own, config.negatives, generator)
            else:
                loss = ((label_losses(logits, config) * own).sum(-1) / own.sum(-1)).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        schedule.step()
        curves.append(_measure_all(network, shown, config))
    arrays: dict[str, NDArray[np.generic]] = {name: np.array([point[name] for point in curves]) for name in curves[0]}
    pages, labels, one = shown["test"]
    with torch.no_grad():
        logits = network(pages).double()
    arrays["pair_loss"] = losses.cross_entropy(logits, one, reduction="none").cpu().numpy()
    arrays["pair_rank"] = ranking.rank(logits, one, ties="pessimistic").cpu().numpy()
    return Result(arrays, curves[-1])


def _sample(pages: Tensor, labels: Tensor, config: MultilabelConfig) -> tuple[Tensor, Tensor, Tensor]:
    """The pages measured, their labels, and one label of each [B]."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(pages), generator=generator)[: config.pages].to(pages.device)
    one = torch.multinomial(labels[chosen].float().cpu(), 1, generator=generator).squeeze(-1)
    return pages[chosen], labels[chosen], one.to(pages.device)


def _info_nce(logits: Tensor, labels: Tensor, m: int, generator: torch.Generator) -> Tensor:
    """One label of each page against m uniform draws from all others."""
    one = torch.multinomial(labels.float().cpu(), 1, generator=generator).squeeze(-1)
    drawn = samplers.draw(samplers.Uniform(labels.shape[1]), one, m, hits="redraw", generator=generator)
    one = one.to(logits.device).unsqueeze(-1)
    return losses.info_nce(logits.gather(-1, one).squeeze(-1), logits.gather(-1, drawn.ids.to(logits.device)))


@torch.no_grad()
def _measure_all(
    network: Network, shown: Mapping[str, tuple[Tensor, Tensor, Tensor]], config: MultilabelConfig
) -> dict[str, float]:
    return {
        f"{part}_{name}": value
        for part, (pages, labels, one) in shown.items()
        for name, value in measure(network(pages).double(), labels, one, config).items()
    }


def measure(logits: Tensor, labels: Tensor, one: Tensor, config: MultilabelConfig) -> dict[str, float]:
    """What :func:`train` says of each curve, at given scores.

    Args:
        logits: [B, L], float64.
        labels: [B, L] bool.
        one: [B] one label of each page.
        config: its loss, and for InfoNCE how many negatives and pairs.
    """
    share = labels / labels.sum(-1, keepdim=True)
    ranks = ranking.ranks(logits, ties="pessimistic")
    values = {
        "loss": (label_losses(logits, config) * share).sum(-1).mean(),
        "cross_entropy": losses.listnet(logits, labels),
        "log_rank": (ranks.log() * share).sum(-1).mean(),
        "log_mrr": -(share / ranks).sum(-1).mean().log(),
        "first_log_mrr": -ranking.mean_reciprocal_rank(logits, labels, ties="pessimistic").log(),
        "ndcg": ranking.ndcg(logits, labels, ties="pessimistic").mean(),
    }
    if config.loss == "infonce":
        n, m = logits.shape[1] - 1, config.negatives
        z, y = logits[: config.pairs], one[: config.pairs].unsqueeze(-1)
        others = torch.ones_like(z, dtype=torch.bool).scatter(-1, y, False)
        terms = (z - z.gather(-1, y))[others].view(len(z), n)
        law = expectations.with_replacement(terms, m, method="spread")
        values["loss"] = expectations.expect(law, tol=1e-9).log.mean()
        rank = ranks[: config.pairs].gather(-1, y).squeeze(-1)
        values["pair_log_rank"] = rank.log().mean()
        values["pair_log_sampled_rank"] = ranking.hit_losses(n, m, 1.0, rank - 1).mean()
    return {name: value.item() for name, value in values.items()}
