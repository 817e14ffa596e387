r"""Recall and KL at the exact minimum of each form, with free scores, on a catalogue.

Towers with biases, trained on all items with a seed of their own, give :math:`\hat P(y\mid x)` of some users; q are the
item frequencies. For each form and user the scores f at the exact minimum of the expected loss give

- KL(P̂ || softmax f);
- the expected recall at 20: the mass of P̂ on the 20 best items that the user did not train on, over its mass on all
  such items,

both for f and for :math:`f+\log q`. The minimum of ``refined`` is that of ``importance`` plus the difference of their
terms of order 1/m (:mod:`sumexp.negatives.published`). Mixed columns, draws and the full softmax have their minimum at
log P, the first of them approximately.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sumexp import _descent as descent
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.catalogue import training
from sumexp.chapters.catalogue.forms import Form
from sumexp.chapters.catalogue.pairs import Source, load
from sumexp.negatives import published
from sumexp.negatives.consistency import minimiser, multiset_losses


@dataclass(frozen=True)
class Outlook:
    """The forms that are predicted, for ``contexts`` users of a model whose seed no compared run has.

    The model is trained at ``rate`` for ``epochs``.
    """

    source: Source
    methods: tuple[Form, ...]
    users: int
    least: int
    dim: int
    batch: int
    seed: int = 1000
    rate: float = 0.01
    epochs: int = 4
    contexts: int = 16


def predict(
    config: Outlook, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    r"""The prediction for each form: ``recall`` and ``kl`` [methods, 2, contexts], for f and :math:`f+\log q`."""
    parts = load(config.source, config.users, config.least, config.seed)
    settings = {name: getattr(config, name) for name in ("source", "users", "least", "dim", "batch", "seed")}
    learner = training.Learner(training.Config(form="full", **settings), parts, config.rate, device)
    descent.train_epochs(learner, config.epochs, lambda epoch, loss: [])
    left, right, offset = (part.double().cpu() for part in learner.vectors())
    log_q = torch.from_numpy(parts.log_q)
    chosen = np.sort(np.random.default_rng(config.seed).permutation(config.users)[: config.contexts])
    recalls, divergences = [], []
    for place in progress(range(len(chosen))):
        user = int(chosen[place])
        log_p = torch.log_softmax(left[user] @ right.T + offset, 0)
        liked = torch.from_numpy(parts.train[[user]].indices).long()
        rows = [minimum(form, log_p, log_q, config.batch - 1) for form in config.methods]
        recalls.append([[expected_recall(row + more, log_p, liked) for more in (0, log_q)] for row in rows])
        divergences.append([[divergence(row + more, log_p) for more in (0, log_q)] for row in rows])
    recall, kl = (np.array(values).transpose(1, 2, 0) for values in (recalls, divergences))
    return Result({"recall": recall, "kl": kl})


def minimum(form: Form, log_p: Tensor, log_q: Tensor, m: int) -> Tensor:
    """Logits [items] that minimise a form's expected loss, up to a constant, for labels from P and draws from q."""
    zero = torch.zeros_like(log_q)

    def least(positive: Tensor, negative: Tensor) -> Tensor:
        return minimiser(multiset_losses(log_q, m, (positive, negative), "mask", tol=1e-9), log_p.exp(), tol=1e-6)

    match form:
        case "none" | "siglip":
            return log_p - log_q
        case "masked":
            return least(log_q, -log_q)
        case "negatives":
            return published.stationary("baseline", log_p, log_q, m)
        case "importance":
            return least(zero, -log_q - math.log(m))
        case "refined":
            refined, importance = (published.first_order(name, log_p, log_q) for name in ("refined", "importance"))
            return least(zero, -log_q - math.log(m)) + (refined - importance) / m
    return log_p


def divergence(scores: Tensor, log_p: Tensor) -> float:
    """KL of the softmax of the scores from P, in nats."""
    return float(log_p.exp() @ (log_p - torch.log_softmax(scores, 0)))


def expected_recall(scores: Tensor, log_p: Tensor, left_out: Tensor) -> float:
    """The share of P on the 20 highest scores, without the items that are left out."""
    listed, p = scores.clone(), log_p.exp()
    listed[left_out] = -math.inf
    p[left_out] = 0
    best = listed.topk(min(training.K, len(listed))).indices
    return float(p[best].sum() / p.sum())
