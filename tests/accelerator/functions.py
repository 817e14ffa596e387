"""What each public function of the subject is given on a device: the calls of all tests, and these.

A call makes everything of the scores it is given, float64 [4, 4], so that all of it is where they are.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from inspect import isclass, isfunction, ismodule, signature
from types import ModuleType
from typing import Any

import torch
from torch import Generator, Tensor

from sumexp import bias, distributions, expectations, functional, nce, negatives, nn, perturb, ranking, samplers
from sumexp.chapters import fits, vae
from sumexp.chapters.fits import objectives
from sumexp.chapters.models import multilabel, skipgram, wordmodel
from sumexp.chapters.vae import Member, bounds, gradients, posterior, stack
from sumexp.nce import Joint, families, gaussians, global_nce, local_nce, pairs
from sumexp.negatives import decoupled, race
from sumexp.perturb import argmax, batched, inversion, learner, representation, softmax
from tests import calls
from tests.perturb.test_extremes import FROM_LAW, FROM_THETA

Call = Callable[[Tensor], Any]

SUBJECT: tuple[ModuleType, ...] = (
    bias, expectations, functional, negatives, decoupled, race, nce, perturb, softmax, argmax, batched, distributions,
    inversion, learner, representation, ranking, samplers, fits, objectives, vae, gradients, skipgram, wordmodel,
    multilabel, nn,
)  # fmt: skip
"""Packages whose ``__all__`` counts, with the modules that it names; and modules, all of whose functions count."""

MEMBERS = (Member(categories=4), Member("gaussian", divergence="exact", categories=4))


def source(z: Tensor) -> Generator:
    return torch.Generator(z.device).manual_seed(0)


def row(z: Tensor) -> Tensor:
    return z[0]


def log_law(z: Tensor) -> Tensor:
    return z[1].log_softmax(-1)


def law(z: Tensor) -> Tensor:
    return log_law(z).exp()


def joint(z: Tensor) -> Joint:
    return Joint.from_counts(z.flatten().softmax(0).view(4, 4))


def square(z: Tensor) -> Joint:
    """A symmetric law."""
    p = joint(z).p
    return Joint((p + p.T) / 2)


def hollow(z: Tensor) -> Joint:
    """The same, and no pair of a word with itself."""
    p = square(z).p * (1 - torch.eye(4, dtype=z.dtype, device=z.device))
    return Joint(p / p.sum())


def scheme(z: Tensor) -> negatives.Scheme:
    return negatives.scheme(log_law(z), 0, 2, "importance", "redraw")


def coin(z: Tensor) -> expectations.Law:
    return expectations.independent(row(z), log_law(z))


def batch(z: Tensor) -> Tensor:
    """Images of 0 and 1, [5, 4]."""
    return (torch.cat([z, z[:1] + 1]) > 0).to(z.dtype)


def parameters(z: Tensor) -> stack.Parameters:
    return stack.initial(MEMBERS, 4, 3, 6, z.dtype, str(z.device))


def of_logits(z: Tensor) -> Tensor:
    """Logits of two members, [2, 2, 2, 4]."""
    return torch.stack([z.view(2, 2, 4), z.flip(0).view(2, 2, 4)])


def uniforms(z: Tensor) -> Tensor:
    return torch.sigmoid(of_logits(z))


def cost(z: Tensor) -> Tensor:
    """f of each image's one-hot codes [..., B, N, K]."""
    return (z * torch.linspace(-1, 1, z.shape[-1], dtype=z.dtype, device=z.device)).sum((-1, -2)).square()


def temperatures(z: Tensor) -> Tensor:
    return torch.tensor([0.5, 1.0], dtype=z.dtype, device=z.device)


HERE: Mapping[str, Call] = {
    "bias.sample": lambda z: bias.sample(
        bias.Schedule((1, 4), (1, Fraction(1, 2))), lambda batch, place: law(z)[place], 5,
        generator=source(z), device=z.device,
    ),
    "bias.sampled_bias": lambda z: bias.sampled_bias(row(z), 0, 2, log_law(z)),
    "bias.variance": lambda z: bias.variance(bias.Schedule((1, 4), (1, 1)), row(z)),
    "expectations.expect": lambda z: expectations.expect(coin(z)),
    "expectations.independent": lambda z: expectations.expect(coin(z)),
    "expectations.integrate": lambda z: expectations.integrate(coin(z), expectations.rule(1e-10, 10.0)),
    "expectations.laplace": lambda z: expectations.expect(
        expectations.laplace(lambda u: -torch.nn.functional.softplus(u), 40.0, device=z.device)
    ).loss,
    "expectations.product": lambda z: expectations.expect(
        expectations.product(coin(z), expectations.with_replacement(row(z), 2, log_law(z), "spread"))
    ),
    "expectations.sampled_softmax": lambda z: expectations.sampled_softmax(row(z), 0, 2, log_law(z)),
    "expectations.with_replacement": lambda z: expectations.expect(
        expectations.with_replacement(z, 2, log_law(z), "spread")
    ),
    "expectations.without_replacement": lambda z: expectations.expect(expectations.without_replacement(z, 2)),
    "negatives.exclude": lambda z: negatives.exclude(log_law(z), 1),
    "negatives.expansion": lambda z: negatives.expansion(row(z), scheme(z)),
    "negatives.gradient_moments": lambda z: negatives.gradient_moments(row(z), scheme(z)),
    "negatives.group_moments": lambda z: negatives.group_moments(row(z), scheme(z), torch.eye(4, device=z.device) > 0),
    "negatives.implicit_loss": lambda z: negatives.implicit_loss(row(z), scheme(z)),
    "negatives.log_prior": lambda z: negatives.log_prior(law(z)),
    "negatives.margin_losses": lambda z: negatives.margin_losses(z)(row(z)),
    "negatives.model_based": lambda z: negatives.model_based(row(z)),
    "negatives.scheme": scheme,
    "negatives.targeting": lambda z: negatives.targeting(row(z), log_law(z), 0, 2),
    "negatives.uniform": lambda z: negatives.uniform(4, z.device),
    "negatives.decoupled.least_variance_law": lambda z: decoupled.least_variance_law(row(z).square(), log_law(z), 0),
    "negatives.decoupled.moments": lambda z: decoupled.moments(row(z).square(), scheme(z)),
    "negatives.race.corrected": lambda z: race.corrected(race.distinct_law(log_law(z), 2))(row(z)),
    "negatives.race.distinct_law": lambda z: race.distinct_law(log_law(z), 2),
    "negatives.race.inclusion": lambda z: race.inclusion(log_law(z), 2),
    "negatives.race.race_law": lambda z: race.race_law(log_law(z), 2, 1),
    "negatives.race.race_losses": lambda z: race.race_losses(log_law(z), 2)(row(z)),
    "negatives.race.tries_law": lambda z: race.tries_law(log_law(z), 2),
    "nce.families.fit": lambda z: families.fit(
        z.unsqueeze(-1), lambda s: global_nce.cross_entropy(joint(z), s, 2, log_law(z))
    ),
    "nce.families.scores": lambda z: families.scores(z.view(4, 2, 2), row(z)[:2]),
    "nce.families.tilted": lambda z: families.tilted(z.view(4, 4, 1), row(z)[:1], law(z), log_law(z)),
    "nce.gaussians.info_nce_value": lambda z: gaussians.info_nce_value(z),
    "nce.gaussians.sample": lambda z: gaussians.sample(2, 0.5, (3,), Generator().manual_seed(0)),
    "nce.global_nce.bound": lambda z: global_nce.bound(joint(z), z, 3, log_law(z)),
    "nce.global_nce.cross_entropy": lambda z: global_nce.cross_entropy(joint(z), z, [2, 5], log_law(z)),
    "nce.global_nce.entropy": lambda z: global_nce.entropy(joint(z), 3, log_law(z)),
    "nce.global_nce.optimal_scores": lambda z: global_nce.optimal_scores(joint(z), log_law(z)),
    "nce.global_nce.posterior": lambda z: global_nce.posterior(
        joint(z), 1, torch.tensor([[0, 2], [3, 1]], device=z.device), log_law(z)
    ),
    "nce.global_nce.recover": lambda z: global_nce.recover(z, log_law(z)),
    "nce.local_nce.cross_entropy": lambda z: local_nce.cross_entropy(joint(z), z, 3, log_law(z)),
    "nce.local_nce.divergences": lambda z: local_nce.divergences(joint(z), 3, log_law(z)),
    "nce.local_nce.entropy": lambda z: local_nce.entropy(joint(z), 3, log_law(z)),
    "nce.local_nce.optimal_scores": lambda z: local_nce.optimal_scores(joint(z), 3, log_law(z)),
    "nce.local_nce.posterior": lambda z: local_nce.posterior(joint(z), 3, log_law(z)),
    "nce.local_nce.recover": lambda z: local_nce.recover(z, 3, log_law(z)),
    "nce.pairs.gbce": lambda z: pairs.gbce(log_law(z), 2, 0.5),
    "nce.pairs.sigmoid_pairs": lambda z: pairs.sigmoid_pairs(joint(z), 3, "mask"),
    "nce.pairs.softmax_pairs": lambda z: pairs.softmax_pairs(joint(z)),
    "vae.bounds.hard_bound": lambda z: bounds.hard_bound(parameters(z), MEMBERS, batch(z), 3, source(z)),
    "vae.bounds.importance": lambda z: bounds.importance(parameters(z), MEMBERS, batch(z), (1, 3), source(z)),
    "vae.bounds.relaxed_loss": lambda z: bounds.relaxed_loss(
        parameters(z), MEMBERS, temperatures(z), batch(z), 3, source(z)
    ),
    "vae.posterior.divergence": lambda z: posterior.divergence(of_logits(z), MEMBERS),
    "vae.posterior.log_probabilities": lambda z: posterior.log_probabilities(of_logits(z), MEMBERS),
    "vae.stack.alike": lambda z: [part for _, part in stack.alike(of_logits(z), MEMBERS, lambda member: member.noise)],
    "vae.stack.decode": lambda z: stack.decode(parameters(z), of_logits(z)[:, :, :1].expand(-1, -1, 3, -1)),
    "vae.stack.encode": lambda z: stack.encode(parameters(z), batch(z).expand(2, -1, -1), 4),
    "vae.stack.initial": parameters,
    "vae.stack.member": lambda z: stack.member(parameters(z), 1),
    "vae.stack.one_hot": stack.one_hot,
    "vae.stack.one_hot_of": lambda z: stack.one_hot_of(z.argmin(-1, keepdim=True), z),
    "vae.stack.perturbations": lambda z: stack.perturbations(uniforms(z), MEMBERS),
    "vae.stack.relaxed": lambda z: stack.relaxed(of_logits(z), uniforms(z), MEMBERS, temperatures(z)),
    "vae.gradients.equal_laws": lambda z: gradients.equal_laws(z.softmax(-1).view(2, 2, 4), MEMBERS),
    "vae.gradients.exact": lambda z: gradients.exact(cost, of_logits(z), MEMBERS),
    "vae.gradients.problem": lambda z: gradients.problem(batch(z), 2, 2, 2, 3, 2).q,
    "vae.gradients.quality": lambda z: gradients.quality(
        cost, of_logits(z), MEMBERS, 2 * gradients.BLOCKS, generator=source(z)
    ),
    "models.skipgram.compare": lambda z: skipgram.compare(hollow(z), z, 2),
    "models.skipgram.correlation": lambda z: skipgram.correlation(row(z), z[1], law(z)),
    "models.skipgram.newton": lambda z: skipgram.newton(square(z), 2),
    "models.wordmodel.draw_contexts": lambda z: wordmodel.draw_contexts(law(z), 5, source(z)),
    "models.wordmodel.loss_and_gradients": lambda z: wordmodel.loss_and_gradients(
        z[:2], z, row(z), law(z)[:2], (torch.tensor([0, 1], device=z.device), torch.tensor([3, 0], device=z.device)),
        law(z)[:2],
    ),
    "models.multilabel.label_losses": lambda z: multilabel.label_losses(z.tanh(), multilabel.MultilabelConfig()),
    "models.multilabel.measure": lambda z: multilabel.measure(
        z, z >= z.amax(-1, keepdim=True) - 1, z.argmax(-1), multilabel.MultilabelConfig(loss="infonce", negatives=2)
    ),
}  # fmt: skip
"""What is in no table of nasty inputs that fits."""

LAWS = ("PerturbSoftmax", "PerturbLogSoftmax", "PerturbArgmax")
PACKAGES = {"objectives": "fits", "fits": "", **dict.fromkeys(LAWS, "distributions")}


def _place(name: str) -> str:
    """The name in the package of an entry of the tables of ``perturb`` and ``fits``."""
    first = name.split(".")[0]
    return name if first == "fits" else f"{PACKAGES.get(first, 'perturb')}.{name}"


def _of_law(call: Call) -> Call:
    return lambda z: call(law(z)[:3] / law(z)[:3].sum())


TABLE: dict[str, Call] = {
    **calls.TABLE,
    **{_place(name): (lambda z, call=call: call(z[:, :3])) for name, call in FROM_THETA.items()},  # type: ignore[misc]
    **{_place(name): _of_law(call) for name, call in FROM_LAW.items()},
    **HERE,
}
"""Each public function of tensors, and what it is given of scores [4, 4]."""

TASKS = frozenset(
    ("fits.train", "vae.train", "nce.gaussians.train", "models.skipgram.train", "models.wordmodel.train",
     "models.multilabel.train", "longtail.train", "longtail.residual.train", "retrieval.train", "catalogue.train")
)  # fmt: skip
"""They have tests of their own: `test_tasks`."""


def public() -> Iterator[tuple[str, Any]]:
    """The public functions and classes of the subject, by where they are found."""
    for module in SUBJECT:
        place = module.__name__.removeprefix("sumexp.").removeprefix("chapters.")
        for name, entry in named(module):
            if ismodule(entry):
                yield from ((f"{place}.{name}.{inner}", part) for inner, part in named(entry) if not ismodule(part))
            else:
                yield f"{place}.{name}", entry


HOLDERS = ("Tensor", "Joint", "Scheme", "Law", "Sampler", "Generator", "device")
"""What a signature names that takes part in the choice of a device."""


def takes_tensors(function: Any) -> bool:
    """Whether a parameter is a tensor, holds some, or says where to make them."""
    kinds = " ".join(str(parameter.annotation) for parameter in signature(function).parameters.values())
    return any(holder in kinds for holder in HOLDERS)


def named(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What ``__all__`` names, else the functions and classes that the module defines."""
    if hasattr(module, "__all__"):
        yield from ((name, getattr(module, name)) for name in module.__all__)
        return
    for name, entry in vars(module).items():
        if not name.startswith("_") and (isfunction(entry) or isclass(entry)) and entry.__module__ == module.__name__:
            yield name, entry
