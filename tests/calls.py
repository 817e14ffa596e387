"""A good call of every public function of losses, samplers, modules and ranking.

Tests of inputs give each call nasty scores, trials hand those of losses to torch's machinery, and tests of accelerators
make all of them on a device: a new function enters here and nowhere else.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp import functional, nn, ranking, samplers
from sumexp.ranking.sampled import WeightLaw
from sumexp.samplers._base import Law

Call = Callable[[Tensor], Tensor]
PACKAGES = {"functional": functional, "samplers": samplers, "nn": nn, "ranking": ranking}


def number(value: float) -> Tensor:
    """On the CPU, whatever the default device and type."""
    return torch.tensor(value, dtype=torch.float32 if isinstance(value, float) else None, device="cpu")


def exact(z: Tensor) -> Tensor:
    """In double precision where the device has it."""
    return z.to(checks.wide(z.device))


def label(z: Tensor) -> Tensor:
    """The best class of each row, and so never one of logit -inf."""
    return exact(z).argmax(-1) if z.shape[1] else torch.zeros(z.shape[0], dtype=torch.int64)


def square(z: Tensor, layer: nn.InBatchSoftmax | None = None) -> Tensor:
    """The losses of the first rows as examples and all columns, with the best of each row as its own."""
    z = z[: z.shape[1]]
    z = z.diagonal_scatter(z.amax(-1)) if z.numel() else z
    ids = torch.arange(z.shape[1], dtype=torch.int32, device="cpu") % 3
    log_q = torch.arange(-z.shape[1], 0.0, device="cpu")
    return functional.in_batch(z, ids, log_q=log_q, reduction="none") if layer is None else layer(z, ids, log_q=log_q)


def pairs(z: Tensor, layer: nn.SigmoidPairs | None = None) -> Tensor:
    """The same for the sigmoids of all pairs."""
    z = z[: z.shape[1]]
    z = z.diagonal_scatter(z.amax(-1)) if z.numel() else z
    ids = torch.arange(z.shape[1], dtype=torch.int32, device="cpu") % 3
    return functional.sigmoid_pairs(z, ids, reduction="none") if layer is None else layer(z, ids)


def relevant(z: Tensor) -> Tensor:
    return label(z).unsqueeze(-1) == torch.arange(z.shape[1], device=z.device)


def log_law(z: Tensor) -> Tensor:
    return torch.log_softmax(exact(z), -1)


def law(z: Tensor) -> Tensor:
    return log_law(z)[:1].exp().flatten()


def called_by(name: str) -> Callable[..., Any]:
    """A public function by its name, found when it is called."""
    module, function = name.split(".")
    package = PACKAGES[module]
    return lambda *given, **options: getattr(package, function)(*given, **options)


def sampled(name: str) -> Call:
    loss = called_by(name)
    return lambda z: loss(z.amax(-1) if z.shape[1] else z.sum(-1), z, reduction="none")


def full(name: str, *extra: float) -> Call:
    loss = called_by(name)
    return lambda z: loss(z, label(z), *extra, reduction="none")


def listed(name: str, *extra: object, **options: object) -> Call:
    function = called_by(name)
    return lambda z: function(z, relevant(z), *extra, **options)


def source(z: Tensor) -> torch.Generator:
    return torch.Generator(z.device).manual_seed(0)


def drawn(z: Tensor) -> Tensor:
    negatives = samplers.model_based(z, label(z), 3, hits="mask", generator=source(z))
    return torch.where(negatives.hits, 0.0, negatives.log_q)


SAMPLERS: Mapping[str, Callable[[Tensor], Law]] = {
    "Categorical": lambda q: samplers.Categorical(q),
    "LogUniform": lambda q: samplers.LogUniform(len(q), q.device),
    "Mixture": lambda q: samplers.Mixture([samplers.Uniform(len(q), q.device), samplers.Categorical(q)], [0.25, 0.75]),
    "Uniform": lambda q: samplers.Uniform(np.int64(len(q)), q.device),  # type: ignore[arg-type]
    "unigram": lambda q: samplers.unigram(q),
}
"""Each sampler of as many classes as there are probabilities."""


def by(sampler: Callable[[Tensor], Law]) -> Call:
    """The reported law of what is drawn."""

    def call(z: Tensor) -> Tensor:
        made = sampler(law(z))
        negatives = samplers.draw(made, label(z).to(torch.int32), np.int64(2), generator=source(z))  # type: ignore[arg-type]
        assert negatives.log_q.isfinite().all()
        return made.log_prob(torch.arange(made.classes, device=z.device))

    return call


def distinct(z: Tensor) -> Tensor:
    law = samplers.LogUniform(z.shape[1], z.device)
    return samplers.distinct(law, label(z), np.int64(2), generator=source(z)).weights  # type: ignore[arg-type]


def nats(z: Tensor) -> Tensor:
    """Cross entropies, made of scores."""
    losses = torch.nn.functional.softplus(exact(z))
    return losses.clamp(max=torch.finfo(losses.dtype).max / 2)


def of_batch(z: Tensor) -> Tensor:
    return samplers.within_batch(label(z), exact(z).new_full((z.shape[1],), -math.log(max(1, z.shape[1])))).log_q


def layer(z: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    output = nn.SampledOutput(z.shape[1], 5, generator=generator, dtype=torch.float64).to(z.dtype).to(z.device)
    ids = torch.tensor([0, 4], device=z.device)
    return torch.cat([part.flatten() for part in output(z.tanh(), label(z).clamp_max(4), ids)])


def called(z: Tensor) -> Tensor:
    """The sampled softmax of rows as hidden vectors, in double."""
    source = torch.Generator().manual_seed(0)
    options: dict[str, Any] = {"reduction": "none", "generator": source, "dtype": torch.float64}
    z = exact(z)
    model = nn.SampledSoftmax(z.shape[1], 5, samplers.Uniform(5), 3, **options).to(z.dtype).to(z.device)
    draws = torch.Generator(z.device).manual_seed(1)
    return model(z.tanh(), label(z).clamp_max(4).to(torch.int32), generator=draws)


def streamed(z: Tensor) -> Tensor:
    stream = nn.StreamingLogQ(max(1, z.shape[1])).to(z.device)
    stream.update(label(z).to(torch.int32))
    return stream(torch.arange(z.shape[1], device="cpu"))


def towers(z: Tensor) -> Tensor:
    z = exact(z).tanh()
    return functional.distributed_in_batch(z, z, label(z), log_q=torch.arange(-z.shape[0], 0.0, device="cpu"))


def vectors(z: Tensor) -> Tensor:
    z = exact(z).tanh()
    return functional.linear_in_batch(z, z, label(z), log_q=torch.arange(-z.shape[0], 0.0, device="cpu"))


def handed_on(generator: torch.Generator) -> torch.Generator:
    result = samplers.check_worker_generator(generator)
    assert result is not None
    return result


def of_items(z: Tensor) -> ranking.Chunks:
    return ranking.Chunks(lambda start, stop: z[:, start:stop], z.shape[1], 2)


def scheme(z: Tensor) -> Tensor:
    return number(ranking.worst_set(WeightLaw(law(z), law(z).expand(3, -1).T)).deficit)


TABLE: dict[str, Call] = {
    "nn.SampledOutput": layer,
    "functional.adaptive": lambda z: functional.adaptive(log_law(z).clamp_min(-60)),
    "functional.arcface_margin": lambda z: functional.arcface_margin(z.tanh(), 0.5),
    "functional.cached": lambda z: functional.cached(
        lambda x: (x if x.is_complex() else exact(x)).tanh(), z, chunk_size=2
    ),
    "functional.binary_nce": sampled("functional.binary_nce"),
    "functional.cross_entropy": full("functional.cross_entropy"),
    "functional.decoupled": sampled("functional.decoupled"),
    "functional.equalised": lambda z: functional.equalised(log_law(z)),
    "functional.gbce": lambda z: functional.gbce(
        z.amax(-1) if z.shape[1] else z.sum(-1), z, classes=9, reduction="none"
    ),
    "functional.hinge": sampled("functional.hinge"),
    "functional.in_batch": square,
    "functional.info_nce": sampled("functional.info_nce"),
    "functional.linear_cross_entropy": lambda z: functional.linear_cross_entropy(
        z, torch.eye(z.shape[1], dtype=z.dtype, device=z.device), label(z), reduction="none"
    ),
    "functional.linear_in_batch": vectors,
    "functional.listnet": listed("functional.listnet", reduction="none"),
    "functional.logit_adjusted": lambda z: functional.logit_adjusted(number(-1.0), log_law(z)),
    "functional.marginal": listed("functional.marginal", reduction="none"),
    "functional.pairwise_margin": full("functional.pairwise_margin", 0.5),
    "functional.sampled_softmax": sampled("functional.sampled_softmax"),
    "functional.sigmoid_pairs": pairs,
    "nn.SampledSoftmax": called,
    "nn.StreamingLogQ": streamed,
    "nn.BinaryNCE": lambda z: nn.BinaryNCE(reduction="none")(z.amax(-1) if z.shape[1] else z.sum(-1), z),
    "nn.GBCE": lambda z: nn.GBCE(9, reduction="none")(z.amax(-1) if z.shape[1] else z.sum(-1), z),
    "nn.InBatchSoftmax": lambda z: square(z, nn.InBatchSoftmax(reduction="none")),
    "nn.SigmoidPairs": lambda z: pairs(z, nn.SigmoidPairs(reduction="none")),
    "nn.ListNet": lambda z: nn.ListNet(reduction="none")(z, relevant(z)),
    "functional.gathered": lambda z: functional.gathered(z),
    "functional.distributed_in_batch": towers,
    "samplers.check_worker_generator": lambda z: number(
        handed_on(torch.Generator().manual_seed(z.shape[0])).initial_seed()
    ),
    **{f"samplers.{name}": by(sampler) for name, sampler in SAMPLERS.items()},
    "samplers.constant": lambda z: samplers.constant(log_law(z), 3),
    "samplers.distinct": distinct,
    "samplers.draw": by(SAMPLERS["Uniform"]),
    "samplers.importance": lambda z: samplers.importance(log_law(z).clamp_min(-60), 3),
    "samplers.log_inclusion": lambda z: samplers.log_inclusion(log_law(z), 3),
    "samplers.model_based": drawn,
    "samplers.off_diagonal": lambda z: samplers.off_diagonal(z[:, : z.shape[0]]),
    "samplers.relative": lambda z: samplers.relative(log_law(z).clamp_min(-60), number(-1.0)),
    "samplers.tail": lambda z: samplers.tail(log_law(z).clamp_min(-60), 3, log_law(z), number(-1.0)),
    "samplers.within_batch": of_batch,
    "samplers.worker_generator": lambda z: number(samplers.worker_generator(z.shape[0]).initial_seed()),
    "ranking.Retrieved": lambda z: ranking.recall(
        ranking.Retrieved(torch.argsort(z, dim=-1, descending=True, stable=True)[:, :2]),
        ranking.Labels(label(z).unsqueeze(-1)),
        2,
    ),
    "ranking.evaluate": lambda z: torch.stack(
        list(ranking.evaluate(z, relevant(z), ["recall@1", "ndcg"]).values()), -1
    ),
    "ranking.additive_constant": lambda z: number(ranking.additive_constant(z.shape[1], 2).constant),
    "ranking.Chunks": lambda z: ranking.reciprocal_rank(of_items(z), ranking.Labels(label(z).unsqueeze(-1))),
    "ranking.Labels": lambda z: ranking.ndcg(z, ranking.Labels(label(z).unsqueeze(-1))),
    "ranking.average_precision": listed("ranking.average_precision"),
    "ranking.certified_rank": lambda z: number(ranking.certified_rank(nats(z).mean().item(), 9, 3)),
    "ranking.dcg": listed("ranking.dcg"),
    "ranking.deficits": lambda z: ranking.deficits(9, 3, 1.0, label(z)),
    "ranking.expected_loss": lambda z: ranking.expected_loss(z, int(label(z[:1]).sum()), 2),
    "ranking.expected_rank": lambda z: ranking.expected_rank(z, label(z), 0.5),
    "ranking.hit_losses": lambda z: ranking.hit_losses(9, 3, 1.0, label(z)),
    "ranking.least_ndcg": lambda z: ranking.least_ndcg(nats(z)),
    "ranking.least_recall": lambda z: ranking.least_recall(nats(z), 3),
    "ranking.least_rr": lambda z: ranking.least_rr(nats(z)),
    "ranking.log_least_weight": lambda z: ranking.log_least_weight(law(z).clamp_min(1e-300), 3),
    "ranking.mean_reciprocal_rank": listed("ranking.mean_reciprocal_rank"),
    "ranking.ndcg": listed("ranking.ndcg"),
    "ranking.possible_ranks": lambda z: number(ranking.possible_ranks(nats(z).mean().item(), 9)),
    "ranking.precision": listed("ranking.precision", 1),
    "ranking.rank": lambda z: ranking.rank(z, label(z).to(torch.int32)),
    "ranking.ranks": lambda z: ranking.ranks(z),
    "ranking.recall": listed("ranking.recall", 1),
    "ranking.reciprocal_rank": listed("ranking.reciprocal_rank"),
    "ranking.worst_set": scheme,
}
"""Each public function, and what it is given of scores [B, C]."""
