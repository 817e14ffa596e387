"""Errors name the value and the fix."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, log, nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp import functional, ranking, samplers
from sumexp.ranking._scores import as_tensor


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), torch.tensor(3)])
def test_a_whole_number_of_any_type(value: object) -> None:
    assert checks.whole("m", value, 1, 3) == 3
    assert type(checks.whole("m", value, 1)) is int


@pytest.mark.parametrize("value", [0, 4, 10**400, 3.0, np.float64(3), True, "3", None, torch.tensor([1, 2])])
def test_what_is_none_or_out_of_range_is_named(value: object) -> None:
    with pytest.raises(ValueError, match=r"m is .*; it must be a whole number from 1 to 3"):
        checks.whole("m", value, 1, 3)
    with pytest.raises(ValueError, match="m is 0; it must be a whole number >= 1"):
        checks.whole("m", 0, 1)
    with pytest.raises(ValueError, match=r"m is 1000*; it must be a whole number >= 1 of at most 64 bits"):
        checks.whole("m", 10**400, 1)


def test_a_number_beyond_double_precision_is_infinite() -> None:
    for value in (10**400, -(10**400), inf, nan, True, "1"):
        with pytest.raises(ValueError, match=r"temperature is .*; it must be a positive number"):
            checks.number("temperature", value)
    with pytest.raises(ValueError, match="rate must be finite, got 1000"):
        checks.positive(Config(rate=10**400), "rate")


def test_one_of_several_names() -> None:
    checks.choice("hits", "mask", ("mask", "keep"))
    with pytest.raises(ValueError, match="hits is 'drop'; expected one of mask, keep"):
        checks.choice("hits", "drop", ("mask", "keep"))


@dataclass
class Config:
    steps: object = 1
    rate: object = 0.5


def test_positive_fields() -> None:
    checks.positive(Config(np.int32(1), np.float32(0.5)), "steps", "rate")
    for value in (0, -1.5, nan, "many", None):
        with pytest.raises(ValueError, match=rf"rate must be positive, got {value!r}"):
            checks.positive(Config(rate=value), "steps", "rate")
    with pytest.raises(ValueError, match="rate must be finite, got inf"):
        checks.positive(Config(rate=inf), "rate")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids(dtype: torch.dtype) -> None:
    actual = checks.ids("label", torch.tensor([[0, 2]], dtype=dtype), 3)
    assert actual.dtype == torch.int64
    assert actual.tolist() == [[0, 2]]
    assert checks.ids("label", torch.empty(0, dtype=dtype), 3).shape == (0,)
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match=f"a label is {wrong}; the 3 classes are 0..2"):
            checks.ids("label", torch.tensor([0, wrong], dtype=dtype), 3)


def test_laws_are_normalised() -> None:
    q = torch.tensor([[0.2, 0.8 + 4e-7], [0, 1]], dtype=torch.float64)
    assert checks.law("q", q).sum(-1).tolist() == pytest.approx([1, 1], abs=1e-15)
    assert checks.law("q", q)[0, 0].item() == pytest.approx(0.2 / (1 + 4e-7), rel=1e-15)
    log_q = checks.log_law("log_q", q.log().requires_grad_())
    assert log_q.requires_grad
    assert log_q.exp().sum(-1).tolist() == pytest.approx([1, 1], abs=1e-15)
    assert log_q[1].tolist() == [-inf, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_laws_may_be_as_far_off_as_their_precision_explains(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    classes = 1_000_000 if dtype == torch.float32 else 1000
    for _ in range(6):
        scores = 3 * torch.randn(classes, generator=generator)
        assert checks.law("q", scores.softmax(0).to(dtype)).sum().item() == pytest.approx(1, abs=1e-12)
        assert checks.log_law("log_q", scores.log_softmax(0).to(dtype)).exp().sum().item() == pytest.approx(1)
    # In double precision the same deviation is no rounding.
    with pytest.raises(ValueError, match=r"q sums to 1\.00002.*, not 1; divide it by its sum"):
        checks.law("q", torch.tensor([0.5, 0.50002], dtype=torch.float64))


@pytest.mark.parametrize(
    "check, given, message",
    [
        (checks.law, torch.tensor([0.5, 0.4]), r"q sums to 0\.9.*, not 1; divide it by its sum"),
        (checks.law, torch.tensor([1.5, -0.5]), "q must hold finite numbers >= 0, got -0.5 at 1"),
        (checks.law, torch.tensor([[0.5, 0.5], [nan, 1]]), r"got nan at \(1, 0\)"),
        (checks.law, torch.tensor([inf, 1.0]), "got inf at 0"),
        (checks.law, torch.empty(2, 0), r"at least one class, got torch.float32 of \(2, 0\)"),
        (checks.law, torch.tensor([1, 0]), "q must be floating-point"),
        (checks.law, torch.tensor(1.0), "q must be floating-point"),
        (
            checks.log_law,
            torch.tensor([log(0.5), log(0.4)]),
            r"exp\(q\) sums to 0\.8.*, not 1; normalise it, as torch.log_softmax",
        ),
        (checks.log_law, torch.tensor([nan, 0.0]), "q holds nan; it must hold logarithms"),
        (checks.log_law, torch.tensor([inf, 0.0]), "q holds inf"),
        (checks.log_law, torch.tensor([-inf, -inf]), "sums to 0.0, not 1"),
        (checks.log_law, torch.empty(0), "at least one class"),
    ],
)
def test_what_is_no_law_is_named(check: Callable[[str, Tensor], Tensor], given: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check("q", given)


def test_masked_arrays_are_refused_since_their_masks_would_be_lost() -> None:
    masked = np.ma.masked_array([[3.0, 2.0]], mask=[[True, False]])
    for take in (checks.tensor, as_tensor):
        with pytest.raises(ValueError, match=r"scores is a masked array, .*; give scores.filled\(VALUE\)"):
            take("scores", masked)


def test_numbers_of_classes_in_another_order_are_refused() -> None:
    """As ``pandas.Series.value_counts`` gives them: popular first, the ids in an index."""
    popular: Any = SimpleNamespace(index=[1, 0])
    for call in (
        lambda: functional.linear_cross_entropy(torch.ones(1, 2), torch.ones(2, 2), [0], log_q=popular),
        lambda: functional.pairwise_margin(torch.zeros(1, 2), [0], popular),
        lambda: functional.logit_adjusted(-1.0, popular),
        *(partial(each, popular) for each in (functional.adaptive, functional.equalised)),
        lambda: ranking.expected_loss(popular, 0, 1),
        lambda: ranking.expected_loss(torch.ones(2), 0, 1, popular),
        lambda: ranking.expected_loss(torch.ones(2), 0, 1, log_q=popular),
        lambda: samplers.LogUniform(2, counts=popular),
        lambda: samplers.within_batch([0, 1], popular),
        lambda: samplers.relative(popular, -1.0),
        lambda: samplers.tail(-1.0, 1, popular, -1.0),
        *(partial(each, popular) for each in (samplers.Categorical, samplers.unigram)),
        *(partial(each, popular, 1) for each in (samplers.constant, samplers.importance, samplers.log_inclusion)),
        lambda: ranking.log_least_weight(popular, 1),
    ):
        with pytest.raises(ValueError, match=r"^(\w+) has the index \[1, 0\], not 0, 1, \.\.\.: take \1\.r") as fault:
            call()
        assert ("log_" in str(fault.value)) == ("fill_value=-math.inf), or " in str(fault.value))
