r"""The losses that are compared, in plain torch, and the towers that they train.

Scores are :math:`f=\cos(u,v)/T + b_v`, with a vector for each user and item, a learned temperature, and in one of two
models a number b for each item. In batch, B pairs :math:`(u_i,v_i)` give the scores [B, B] of each user and each of the
batch's items, m = B - 1 of which are others' :

========== =======================================================================================
none       cross entropy of the row
kept       :math:`\log q` subtracted from every logit, accidental hits kept
masked     the same, hits left out
negatives  :math:`\log q` subtracted from the negatives only, hits left out: the public baseline
importance :math:`\log(mq)` subtracted from the negatives only, hits left out
refined    the public refined loss: the positive out of the denominator, :math:`q'=q/(1-q_y)`, weight :math:`1-\hat p`
siglip     a sigmoid for each of the B x B pairs
mixed      kept, with B/2 further uniform columns, and the mixture's log probability for log q
popularity kept, with m draws from q, shared by the batch, in the place of the batch's items
full       cross entropy over all items
gbce       the generalised binary cross entropy with m uniform draws, shared by the batch, from all items; t = 0.75
========== =======================================================================================

A constant that all scores share is learned too, and only siglip and gbce see it.
"""

import math
from typing import Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Form: TypeAlias = Literal[
    "none", "kept", "masked", "negatives", "importance", "refined", "siglip", "mixed", "popularity", "full", "gbce"
]
FORMS: tuple[Form, ...] = get_args(Form)

RATIOS: frozenset[Form] = frozenset({"none", "siglip"})
"""Those whose minimum with free scores is log P/q, and log P with log q added when served."""

CALIBRATION = 0.75
"""t of gBCE, the published default."""

TEMPERATURE = 0.1
"""T at the start."""

SCALE = 0.1
"""Deviation of a vector's coordinates at the start. Cosines do not see it; to Adam, shorter vectors turn faster."""


class Towers(nn.Module):
    """A vector for each user and item, a temperature, a constant, and optionally a bias for each item."""

    def __init__(
        self,
        users: int,
        dim: int,
        start: Tensor,
        constant: float,
        number: bool,
        generator: torch.Generator,
    ) -> None:
        """Start from random vectors and the biases ``start`` [items]."""
        super().__init__()
        sizes = users, len(start)
        left, right = (torch.randn(n, dim, dtype=torch.float32, generator=generator) for n in sizes)
        self.users, self.items = nn.Parameter(SCALE * left), nn.Parameter(SCALE * right)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(TEMPERATURE), dtype=torch.float32))
        self.constant = nn.Parameter(torch.tensor(constant, dtype=torch.float32))
        self.numbers = nn.Parameter(start.clone() if number else torch.zeros_like(start), requires_grad=number)

    def left(self, users: Tensor) -> Tensor:
        """Vectors of users [B] divided by the temperature, [B, dim]."""
        return F.normalize(F.embedding(users, self.users), dim=1) * torch.exp(-self.log_temperature)

    def right(self, items: Tensor | None) -> Tensor:
        """Vectors of items [C], of all by default, [C, dim]."""
        return F.normalize(self.items if items is None else F.embedding(items, self.items), dim=1)

    def offset(self, items: Tensor | None) -> Tensor:
        """The part of the scores of items [C] that is the same for all users, [C]."""
        return (self.numbers if items is None else self.numbers[items]) + self.constant

    def forward(self, users: Tensor, items: Tensor | None) -> Tensor:
        """Scores [B, C] of users [B] and items [C], all if None."""
        return torch.addmm(self.offset(items), self.left(users), self.right(items).T)


def batch_loss(form: Form, scores: Tensor, ids: Tensor, log_q: Tensor) -> Tensor:
    """The mean loss of one of the first seven forms or ``mixed``, from logits of users and columns [B, C].

    The positives are on the diagonal; ``ids`` are the items of the columns [C], ``log_q`` their log probabilities [C].

    Raises:
        ValueError: if the form is not an in-batch loss.
    """
    places = torch.arange(len(scores), device=scores.device)
    if form == "none":
        return F.cross_entropy(scores, places)
    if form in ("kept", "mixed"):
        return F.cross_entropy(scores - log_q, places)
    diagonal = torch.zeros_like(scores, dtype=torch.bool).fill_diagonal_(True)
    hits = (ids == ids[: len(scores)].unsqueeze(1)) & ~diagonal
    match form:
        case "masked":
            return F.cross_entropy((scores - log_q).masked_fill(hits, -math.inf), places)
        case "negatives" | "importance":
            copies = math.log(len(ids) - 1) if form == "importance" else 0.0
            off = torch.where(diagonal, 0.0, log_q + copies)
            return F.cross_entropy((scores - off).masked_fill(hits, -math.inf), places)
        case "refined":
            positive = scores.diagonal()
            drawn = (~hits & ~diagonal).sum(1)
            law = log_q - torch.log1p(-log_q[: len(scores)].exp()).unsqueeze(1)
            left_out = (hits | diagonal) & (drawn > 0).unsqueeze(1)  # a row of hits adds nothing
            negative = torch.logsumexp((scores - law).masked_fill(left_out, -math.inf), 1)
            negative = negative - drawn.clamp(min=1).to(scores.dtype).log()
            each = torch.where(drawn > 0, negative - positive, 0.0)
            return (torch.sigmoid(each.detach()) * each).mean()
        case "siglip":
            return F.softplus(torch.where(diagonal, -scores, scores)).sum(1).mean()
    raise ValueError(f"form is {form!r}, which has no loss in batch")


def sampled(form: Form, positive: Tensor, negative: Tensor, log_q: tuple[Tensor, Tensor], items: int) -> Tensor:
    """The mean loss of ``popularity`` or ``gbce`` from positive [B] and shared negative [B, m] logits.

    ``log_q`` has the log probabilities of the positives [B] and of the draws [m]; ``items`` is the number of items.

    Raises:
        ValueError: if the form has no draws.
    """
    m = negative.shape[1]
    match form:
        case "popularity":
            logits = torch.cat([(positive - log_q[0]).unsqueeze(1), negative - log_q[1]], 1)
            return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))
        case "gbce":
            false = F.softplus(negative).sum(1)
            return (beta(m, items) * F.softplus(-positive) + false).mean() / (m + 1)
    raise ValueError(f"form is {form!r}, which has no loss of draws")


def beta(m: int, items: int) -> float:
    """The weight of a positive in gBCE."""
    return 1 - CALIBRATION * (1 - m / (items - 1))


def start(form: Form, number: bool, batch: int, negatives: int, log_q: Tensor) -> tuple[Tensor, float]:
    """Numbers [items] and constant at the start: with numbers, the served scores start at the popularity."""
    match form:
        case "none":
            return torch.zeros_like(log_q), 0.0
        case "siglip":
            return torch.zeros_like(log_q), -math.log(batch - 1)
        case "gbce":
            # f = log P + log(beta L / m) at the minimum; without numbers P is that of an item at random, 1/L
            return log_q, math.log(beta(negatives, len(log_q)) / negatives) + number * math.log(len(log_q))
    return log_q, 0.0
