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

from sumexp import functional, nn, ranking, samplers
from tests.calls import TABLE, Call

MODULES: tuple[ModuleType, ...] = (functional, samplers, nn, ranking)

NOT_CALLED = {"functional.Margins", "samplers.Distinct", "samplers.Negatives", "samplers.Sampler", "ranking.Ranks"}
"""Types of arguments and of results."""

every_function = pytest.mark.parametrize("name", TABLE)


def public() -> Iterator[str]:
    for module in MODULES:
        for name in module.__all__:
            if isclass(member := getattr(module, name)) or isfunction(member):
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


def same(actual: Tensor | str, wanted: Tensor | str, tolerance: float) -> bool:
    if isinstance(actual, str) or isinstance(wanted, str):
        return isinstance(actual, str) and isinstance(wanted, str)
    return actual.shape == wanted.shape and torch.allclose(actual, wanted, rtol=tolerance, atol=tolerance)


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
    tolerance = 32 * torch.finfo(dtype).eps if name in ("nn.SampledOutput", "functional.arcface_margin") else 1e-5
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
    actual = outcome(TABLE[name], z[:2])
    if isinstance(wanted, Tensor) and isinstance(actual, Tensor) and actual.shape == (2, *wanted.shape[1:]):
        assert same(actual, wanted[:2], 1e-12)
    assert same(outcome(TABLE[name], z.float()), wanted, 1e-4)


@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith("functional.")])
@pytest.mark.parametrize("values", VALUES)
def test_gradients(name: str, values: str) -> None:
    z = torch.tensor([VALUES[values]] * 2, dtype=torch.float64).requires_grad_()
    try:
        value = TABLE[name](z)
    except ValueError:
        return
    if value.isfinite().all() and not (name == "functional.logit_adjusted" or "masked" in values or "left" in values):
        (gradient,) = torch.autograd.grad(value.sum(), z)
        assert gradient.isfinite().all()


LABELLED: dict[str, Callable[[Tensor], object]] = {
    "cross_entropy": lambda y: functional.cross_entropy(torch.zeros(2, 3), y),
    "pairwise_margin": lambda y: functional.pairwise_margin(torch.zeros(2, 3), y, 0.5),
    "SampledOutput": lambda y: nn.SampledOutput(4, 3)(torch.zeros(2, 4), y, torch.tensor([0])),
    "draw": lambda y: samplers.draw(samplers.Uniform(3), y, 2),
    "distinct": lambda y: samplers.distinct(samplers.Uniform(3), y, 1),
    "within_batch": lambda y: samplers.within_batch(y, torch.full((3,), -1.0)),
    "model_based": lambda y: samplers.model_based(torch.zeros(2, 3), y, 2),
    "rank": lambda y: ranking.rank(torch.zeros(2, 3), y),
    "SampledSoftmax": lambda y: nn.SampledSoftmax(4, 3, samplers.Uniform(3), 2)(torch.zeros(2, 4), y),
    "StreamingLogQ": lambda y: nn.StreamingLogQ(3).update(y),
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
    for backwards in (np.array([2, 0])[::-1], np.array([0, 2], dtype=">i8")):
        LABELLED[name](backwards)
    for text in (["a", "b"], np.array(["a", "b"]), [[0], [1, 2]], [None, object()]):
        with pytest.raises(ValueError, match=r" is (an array of <U1|\[.*); it must hold numbers, as float64"):
            LABELLED[name](text)  # type: ignore[arg-type]
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
            actual = original(*positional, **{key: other if key == place else value for key, value in options.items()})
        except ValueError:
            continue
        except TypeError as error:  # info_nce of one matrix: it names the function that takes one
            if "goes to in_batch" in str(error):
                continue
            raise
        assert not isinstance(held, torch.Generator), "a seed was taken for a source of randomness"
        if isinstance(wanted, Tensor):
            assert torch.allclose(actual.to(torch.complex128), wanted.to(torch.complex128), rtol=1e-6), place
