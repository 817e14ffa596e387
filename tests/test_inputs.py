"""Every public function of losses, samplers and ranking meets every legal but nasty input.

A function enters by what it makes of scores [B, C]: each gets them in every layout and type, of every size that is
legal, with values as extreme as scores come, and must give what it gives for the same numbers in plain float64, or one
clear error.
"""

import math
from collections.abc import Callable, Iterator
from inspect import isclass, isfunction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp import losses, modules, ranking, samplers
from sumexp.ranking.sampled import WeightLaw

Call = Callable[[Tensor], Tensor]
MODULES: tuple[ModuleType, ...] = (losses, samplers, modules, ranking)


def own(z: Tensor) -> Tensor:
    """The best class of each row, and so never one of logit -inf."""
    return z.double().argmax(-1) if z.shape[1] else torch.zeros(len(z), dtype=torch.int64)


def square(z: Tensor) -> Tensor:
    """The losses of the first rows as examples and all columns, with the best of each row as its own."""
    z = z[: z.shape[1]]
    z = z.diagonal_scatter(z.amax(-1)) if z.numel() else z
    ids = torch.arange(z.shape[1], dtype=torch.int32) % 3
    return losses.in_batch(z, ids, log_q=torch.full((z.shape[1],), -1.0), reduction="none")


def relevant(z: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(own(z), z.shape[1]).bool() if z.numel() else torch.zeros_like(z).bool()


def log_law(z: Tensor) -> Tensor:
    return torch.log_softmax(z.double(), -1)


def law(z: Tensor) -> Tensor:
    return log_law(z)[:1].exp().flatten()


def called_by(name: str) -> Callable[..., Any]:
    """A public function by its name, found when it is called."""
    module, function = name.split(".")
    return lambda *given, **options: getattr(globals()[module], function)(*given, **options)


def sampled(name: str) -> Call:
    loss = called_by(name)
    return lambda z: loss(z.amax(-1) if z.shape[1] else z.sum(-1), z, reduction="none")


def full(name: str, *extra: float) -> Call:
    loss = called_by(name)
    return lambda z: loss(z, own(z), *extra, reduction="none")


def listed(name: str, *extra: object, **options: object) -> Call:
    function = called_by(name)
    return lambda z: function(z, relevant(z), *extra, **options)


def source(z: Tensor) -> torch.Generator:
    return torch.Generator(z.device).manual_seed(0)


def drawn(z: Tensor) -> Tensor:
    negatives = samplers.model_based(z, own(z), 3, hits="mask", generator=source(z))
    return torch.where(negatives.hits, 0.0, negatives.log_q)


def by(sampler: Callable[[Tensor], samplers.Sampler]) -> Call:
    """The reported law of what is drawn."""

    def call(z: Tensor) -> Tensor:
        law = sampler(z)
        found = samplers.draw(law, own(z).to(torch.int32), np.int64(2), generator=source(z))  # type: ignore[arg-type]
        assert found.log_q.isfinite().all()
        return law.log_prob(torch.arange(law.classes, device=z.device))

    return call


def distinct(z: Tensor) -> Tensor:
    law = samplers.LogUniform(z.shape[1], z.device)
    return samplers.distinct(law, own(z), np.int64(2), generator=source(z)).weights  # type: ignore[arg-type]


def nats(z: Tensor) -> Tensor:
    """Cross entropies, made of scores."""
    return torch.nn.functional.softplus(z.double()).clamp(max=1e300)


def of_batch(z: Tensor) -> Tensor:
    return samplers.within_batch(
        own(z), z.new_full((z.shape[1],), -math.log(max(1, z.shape[1])), dtype=torch.float64)
    ).log_q


def layer(z: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    output = losses.SampledOutput(z.shape[1], 5, generator=generator, dtype=torch.float64).to(z.device, z.dtype)
    ids = torch.tensor([0, 4], device=z.device)
    return torch.cat([part.flatten() for part in output(z.tanh(), own(z).clamp_max(4), ids)])


def called(z: Tensor) -> Tensor:
    """The sampled softmax of rows as hidden vectors, in double."""
    model = modules.SampledSoftmax(
        z.shape[1], 5, samplers.Uniform(5), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).to(z.device)
    return model(
        z.double().tanh(),
        own(z).clamp_max(4).to(torch.int32),
        generator=torch.Generator(z.device).manual_seed(1),
        reduction="none",
    )


def streamed(z: Tensor) -> Tensor:
    stream = modules.StreamingLogQ(max(1, z.shape[1])).to(z.device)
    stream.update(own(z).to(torch.int32))
    return stream(torch.arange(z.shape[1]))


def towers(z: Tensor) -> Tensor:
    z = z.double().tanh()
    return modules.gathered_in_batch(z, z, own(z), log_q=torch.full((len(z),), -1.0))


def handed_on(generator: torch.Generator) -> torch.Generator:
    found = modules.unshared(generator)
    assert found is not None
    return found


def of_items(z: Tensor) -> ranking.Chunks:
    return ranking.Chunks(lambda start, stop: z[:, start:stop], z.shape[1], 2)


def scheme(z: Tensor) -> Tensor:
    return torch.tensor(ranking.worst_set(WeightLaw(law(z), law(z).expand(3, -1).T)).deficit)


TABLE: dict[str, Call] = {
    "losses.SampledOutput": layer,
    "losses.adaptive": lambda z: losses.adaptive(log_law(z).clamp_min(-60)),
    "losses.arcface_margin": lambda z: losses.arcface_margin(z.tanh(), 0.5),
    "losses.binary_nce": sampled("losses.binary_nce"),
    "losses.cross_entropy": full("losses.cross_entropy"),
    "losses.decoupled": sampled("losses.decoupled"),
    "losses.equalised": lambda z: losses.equalised(log_law(z)),
    "losses.hinge": sampled("losses.hinge"),
    "losses.in_batch": square,
    "losses.info_nce": sampled("losses.info_nce"),
    "losses.listnet": listed("losses.listnet", reduction="none"),
    "losses.logit_adjusted": lambda z: losses.logit_adjusted(torch.tensor(-1.0), log_law(z)),
    "losses.marginal": listed("losses.marginal", reduction="none"),
    "losses.pairwise_margin": full("losses.pairwise_margin", 0.5),
    "losses.sampled_softmax": sampled("losses.sampled_softmax"),
    "modules.SampledSoftmax": called,
    "modules.StreamingLogQ": streamed,
    "modules.gathered": lambda z: modules.gathered(z),
    "modules.gathered_in_batch": towers,
    "modules.unshared": lambda z: torch.tensor(handed_on(torch.Generator().manual_seed(len(z))).initial_seed()),
    "samplers.Categorical": by(lambda z: samplers.Categorical(law(z))),
    "samplers.LogUniform": by(lambda z: samplers.LogUniform(z.shape[1], z.device)),
    "samplers.Mixture": by(lambda z: samplers.Mixture([samplers.Uniform(z.shape[1], z.device)] * 2, [0.25, 0.75])),
    "samplers.Uniform": by(lambda z: samplers.Uniform(np.int64(z.shape[1]), z.device)),  # type: ignore[arg-type]
    "samplers.constant": lambda z: samplers.constant(log_law(z), 3),
    "samplers.distinct": distinct,
    "samplers.draw": by(lambda z: samplers.Uniform(z.shape[1], z.device)),
    "samplers.importance": lambda z: samplers.importance(log_law(z).clamp_min(-60), 3),
    "samplers.log_inclusion": lambda z: samplers.log_inclusion(log_law(z), 3),
    "samplers.model_based": drawn,
    "samplers.off_diagonal": lambda z: samplers.off_diagonal(z[:, : len(z)]),
    "samplers.relative": lambda z: samplers.relative(log_law(z).clamp_min(-60), torch.tensor(-1.0)),
    "samplers.tail": lambda z: samplers.tail(log_law(z).clamp_min(-60), 3, log_law(z), torch.tensor(-1.0)),
    "samplers.unigram": by(lambda z: samplers.unigram(law(z))),
    "samplers.within_batch": of_batch,
    "samplers.worker_generator": lambda z: torch.tensor(samplers.worker_generator(len(z)).initial_seed()),
    "ranking.additive_constant": lambda z: torch.tensor(ranking.additive_constant(z.shape[1], 2).constant),
    "ranking.Chunks": lambda z: ranking.reciprocal_rank(of_items(z), ranking.Labels(own(z).unsqueeze(-1))),
    "ranking.Labels": lambda z: ranking.ndcg(z, ranking.Labels(own(z).unsqueeze(-1))),
    "ranking.average_precision": listed("ranking.average_precision"),
    "ranking.certified_rank": lambda z: torch.tensor(ranking.certified_rank(nats(z).mean().item(), 9, 3)),
    "ranking.dcg": listed("ranking.dcg"),
    "ranking.deficits": lambda z: ranking.deficits(9, 3, 1.0, own(z)),
    "ranking.expected_loss": lambda z: ranking.expected_loss(z, int(own(z[:1]).sum()), 2),
    "ranking.expected_rank": lambda z: ranking.expected_rank(z, own(z), 0.5),
    "ranking.hit_losses": lambda z: ranking.hit_losses(9, 3, 1.0, own(z)),
    "ranking.least_ndcg": lambda z: ranking.least_ndcg(nats(z)),
    "ranking.least_recall": lambda z: ranking.least_recall(nats(z), 3),
    "ranking.least_rr": lambda z: ranking.least_rr(nats(z)),
    "ranking.log_least_weight": lambda z: ranking.log_least_weight(law(z).clamp_min(1e-300), 3),
    "ranking.mean_reciprocal_rank": listed("ranking.mean_reciprocal_rank"),
    "ranking.ndcg": listed("ranking.ndcg"),
    "ranking.possible_ranks": lambda z: torch.tensor(ranking.possible_ranks(nats(z).mean().item(), 9)),
    "ranking.precision": listed("ranking.precision", 1),
    "ranking.rank": lambda z: ranking.rank(z, own(z).to(torch.int32)),
    "ranking.ranks": lambda z: ranking.ranks(z),
    "ranking.recall": listed("ranking.recall", 1),
    "ranking.reciprocal_rank": listed("ranking.reciprocal_rank"),
    "ranking.worst_set": scheme,
}
"""Each public function, and what it is given of scores [B, C]."""

NOT_CALLED = {"losses.Margins", "samplers.Distinct", "samplers.Negatives", "samplers.Sampler", "ranking.Ranks"}
"""Types of arguments and of results."""

every_function = pytest.mark.parametrize("name", TABLE)


def public() -> Iterator[str]:
    for module in MODULES:
        for name in module.__all__:
            if isclass(thing := getattr(module, name)) or isfunction(thing):
                yield f"{module.__name__.removeprefix('sumexp.')}.{name}"


def test_every_public_function_is_in_the_table() -> None:
    assert set(public()) - NOT_CALLED == set(TABLE)


def outcome(call: Call, z: Tensor) -> Tensor | str:
    """What comes of it, or what a clear error says: nothing else may come of it."""
    try:
        value = call(z)
    except ValueError as error:
        return str(error)
    assert not value.isnan().any()
    return value.double()


def same(found: Tensor | str, wanted: Tensor | str, tolerance: float) -> bool:
    if isinstance(found, str) or isinstance(wanted, str):
        return isinstance(found, str) and isinstance(wanted, str)
    return found.shape == wanted.shape and torch.allclose(found, wanted, rtol=tolerance, atol=tolerance)


def scores(*shape: int) -> Tensor:
    # Whole eighths, which every type holds.
    generator = torch.Generator().manual_seed(0)
    return (24 * torch.randn(shape, generator=generator, dtype=torch.float64)).round() / 8


@every_function
def test_layouts(name: str) -> None:
    z = scores(4, 4)
    wanted = outcome(TABLE[name], z)
    assert isinstance(wanted, Tensor), wanted
    for other in (z.T.contiguous().T, torch.stack([z, z + 1], -1)[..., 0], z.flip(0).flip(0)):
        assert same(outcome(TABLE[name], other), wanted, 1e-12)
    row = z[:1]
    assert same(outcome(TABLE[name], row.expand(4, 4)), outcome(TABLE[name], row.repeat(4, 1)), 1e-12)
    assert same(outcome(TABLE[name], z.clone().requires_grad_()), wanted, 1e-12)


@every_function
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types(name: str, dtype: torch.dtype) -> None:
    # A layer multiplies in the type of its weights, and an angle is what the cosine is; all else is at least single.
    z = scores(4, 4)
    tolerance = 32 * torch.finfo(dtype).eps if name in ("losses.SampledOutput", "losses.arcface_margin") else 1e-5
    assert same(outcome(TABLE[name], z.to(dtype)), outcome(TABLE[name], z), tolerance)


@every_function
@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (4, 1), (1, 1), (1, 0), (0, 0), (3, 9)])
def test_sizes(name: str, shape: tuple[int, int]) -> None:
    outcome(TABLE[name], scores(*shape))


INF = math.inf
VALUES: dict[str, list[float]] = {
    "ties": [0.0, 0.0, 0.0, 0.0],
    "two values": [1.0, 0.0, 1.0, 0.0],
    "masked": [0.0, -INF, 1.0, -INF],
    "one left": [0.0, -INF, -INF, -INF],
    "huge": [1e30, -1e30, 1e29, 0.0],
    "far": [1e4, 1e4 - 1, 0.0, -1e4],
    "tiny": [1e-30, -1e-30, 0.0, 1e-38],
    "signed zero": [0.0, -0.0, -0.0, 0.0],
}


@every_function
@pytest.mark.parametrize("values", VALUES)
def test_values(name: str, values: str) -> None:
    z = torch.tensor([VALUES[values]] * 4, dtype=torch.float64)
    wanted = outcome(TABLE[name], z)
    # What stands in a batch beside an example is nothing to it.
    found = outcome(TABLE[name], z[:2])
    if isinstance(wanted, Tensor) and isinstance(found, Tensor) and found.shape == (2, *wanted.shape[1:]):
        assert same(found, wanted[:2], 1e-12)
    assert same(outcome(TABLE[name], z.float()), wanted, 1e-4)


@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith("losses.")])
@pytest.mark.parametrize("values", VALUES)
def test_gradients(name: str, values: str) -> None:
    z = torch.tensor([VALUES[values]] * 2, dtype=torch.float64).requires_grad_()
    try:
        value = TABLE[name](z)
    except ValueError:
        return
    if value.isfinite().all() and not (name == "losses.logit_adjusted" or "masked" in values or "left" in values):
        (gradient,) = torch.autograd.grad(value.sum(), z)
        assert gradient.isfinite().all()


ABSURD: dict[str, Callable[[int], object]] = {
    "draw": lambda m: samplers.draw(samplers.Uniform(3), torch.tensor([0]), m),
    "distinct": lambda m: samplers.distinct(samplers.Uniform(3), torch.tensor([0]), m),
    "model_based": lambda m: samplers.model_based(torch.zeros(1, 3), torch.tensor([0]), m),
    "log_inclusion": lambda m: samplers.log_inclusion(torch.zeros(1), m),
    "constant": lambda m: samplers.constant(torch.zeros(1), m),
    "importance": lambda m: samplers.importance(torch.zeros(1), m),
    "tail": lambda m: samplers.tail(torch.zeros(1), m, torch.zeros(1), torch.zeros(1)),
    "expected_loss": lambda m: ranking.expected_loss(torch.zeros(3), 0, m),
    "hit_losses": lambda m: ranking.hit_losses(5, m, 1.0, torch.tensor([1])),
    "deficits": lambda m: ranking.deficits(5, m, 1.0, torch.tensor([1])),
    "additive_constant": lambda m: ranking.additive_constant(5, m),
    "log_least_weight": lambda m: ranking.log_least_weight(torch.tensor([0.5]), m),
    "certified_rank": lambda m: ranking.certified_rank(1.0, 5, m),
    "recall": lambda m: ranking.recall(torch.zeros(1, 3), torch.ones(1, 3).bool(), m),
    "least_recall": lambda m: ranking.least_recall(1.0, m),
    "Uniform": lambda m: samplers.Uniform(m),
}


@pytest.mark.parametrize("name", ABSURD)
@pytest.mark.parametrize("m", [0, -1, 2.0, True, "2"])
def test_numbers_that_are_none(name: str, m: int) -> None:
    with pytest.raises(ValueError, match=r"(m|k|classes) is .*; it must be a whole number"):
        ABSURD[name](m)


@pytest.mark.parametrize("name", ABSURD)
@pytest.mark.parametrize("m", [10**30, 10**400])
def test_absurd_numbers(name: str, m: int) -> None:
    try:
        value = ABSURD[name](m)
    except ValueError as error:
        assert "it must be a whole number" in str(error)  # noqa: PT017
    else:
        assert torch.as_tensor(value).isfinite().all()


@pytest.mark.parametrize("name", ABSURD)
def test_numbers_of_numpy(name: str) -> None:
    ABSURD[name](np.int64(1))  # type: ignore[arg-type]


LABELLED: dict[str, Callable[[Tensor], object]] = {
    "cross_entropy": lambda y: losses.cross_entropy(torch.zeros(2, 3), y),
    "pairwise_margin": lambda y: losses.pairwise_margin(torch.zeros(2, 3), y, 0.5),
    "SampledOutput": lambda y: losses.SampledOutput(4, 3)(torch.zeros(2, 4), y, torch.tensor([0])),
    "draw": lambda y: samplers.draw(samplers.Uniform(3), y, 2),
    "distinct": lambda y: samplers.distinct(samplers.Uniform(3), y, 1),
    "within_batch": lambda y: samplers.within_batch(y, torch.full((3,), -1.0)),
    "model_based": lambda y: samplers.model_based(torch.zeros(2, 3), y, 2),
    "rank": lambda y: ranking.rank(torch.zeros(2, 3), y),
    "SampledSoftmax": lambda y: modules.SampledSoftmax(4, 3, samplers.Uniform(3), 2)(torch.zeros(2, 4), y),
    "StreamingLogQ": lambda y: modules.StreamingLogQ(3).update(y),
    "expected_rank": lambda y: ranking.expected_rank(torch.zeros(2, 3), y, 1.0),
    "Categorical": lambda y: samplers.Categorical([0.5, 0.25, 0.25]).log_prob(y),
    "Uniform": lambda y: samplers.Uniform(3).log_prob(y),
    "LogUniform": lambda y: samplers.LogUniform(3).log_prob(y),
    "Mixture": lambda y: samplers.Mixture([samplers.Uniform(3)], [1.0]).log_prob(y),
}


@pytest.mark.parametrize("name", LABELLED)
def test_labels_are_int32_or_int64(name: str) -> None:
    for dtype in (torch.int32, torch.int64):
        LABELLED[name](torch.tensor([0, 2], dtype=dtype))
    # uint8 indexes as a mask does: a law of three classes once gave draws of probability 2.33.
    for dtype in (torch.uint8, torch.bool, torch.int16, torch.float32):
        with pytest.raises(ValueError, match="they must be integers, int32 or int64"):
            LABELLED[name](torch.tensor([0, 1]).to(dtype))
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match=f"an? (label|class id|id) is {wrong}; the 3 classes are 0..2"):
            LABELLED[name](torch.tensor([0, wrong]))


ANOTHER: dict[str, Callable[[Any], object]] = {
    "an array": lambda held: held.detach().numpy() if isinstance(held, Tensor) else np.asarray(held),
    "a list": lambda held: held.tolist() if isinstance(held, Tensor) else [held],
    "text": lambda held: "0.5",
    "complex": lambda held: held.to(torch.complex128) if isinstance(held, Tensor) else 1j,
    "no value": lambda held: None,
}
"""What may stand where a tensor or a number is asked for."""


@every_function
@pytest.mark.parametrize("kind", ANOTHER)
def test_arguments_of_another_type(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function = name.split(".")
    original, calls = getattr(globals()[module], function), []

    def noted(*given: object, **options: object) -> object:
        calls.append((given, options))
        return original(*given, **options)

    monkeypatch.setattr(globals()[module], function, noted)
    TABLE[name](scores(4, 4))
    given, options = calls[0]
    wanted = original(*given, **options)
    for place, held in (dict(enumerate(given)) | options).items():
        if isinstance(held, bool) or not isinstance(held, (Tensor, int, float, torch.Generator)):
            continue
        other = 0 if isinstance(held, torch.Generator) else ANOTHER[kind](held)
        positional = [other if i == place else value for i, value in enumerate(given)]
        try:
            found = original(*positional, **{key: other if key == place else value for key, value in options.items()})
        except ValueError:
            continue
        assert not isinstance(held, torch.Generator), "a seed was taken for a source of randomness"
        if isinstance(wanted, Tensor):
            assert torch.allclose(found.to(torch.complex128), wanted.to(torch.complex128), rtol=1e-6), place
