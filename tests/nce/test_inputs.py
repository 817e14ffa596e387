"""Awkward input to the losses: a right number or one clear error."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp.nce import Joint, global_nce, gradient, local_nce

INF = math.inf


def double(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


JOINT = Joint(double([0.1, 0.2, 0.0], [0.2, 0.2, 0.3]))
LOG_Q = double(0.5, 0.25, 0.25).log()
SCORES = double([0.5, -1.0, 2.0], [0.0, 1.0, -0.5])  # exact in every precision


@pytest.mark.parametrize("n", [np.int64(3), torch.tensor(3)])
def test_any_integer_counts_candidates(n: int) -> None:
    for module in (global_nce, local_nce):
        assert module.cross_entropy(JOINT, SCORES, n, LOG_Q) == module.cross_entropy(JOINT, SCORES, 3, LOG_Q)
    assert global_nce.cross_entropy(JOINT, SCORES, [n, 5], LOG_Q).shape == (2,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_precision_is_computed_in_double(dtype: torch.dtype) -> None:
    for module in (global_nce, local_nce):
        low, high = (module.cross_entropy(JOINT, s, 3, LOG_Q) for s in (SCORES.to(dtype), SCORES))
        assert torch.equal(low, high)
    assert torch.equal(global_nce.recover(SCORES.to(dtype), LOG_Q), global_nce.recover(SCORES, LOG_Q))
    assert torch.equal(local_nce.recover(SCORES.to(dtype), 3, LOG_Q), local_nce.recover(SCORES, 3, LOG_Q))
    assert torch.equal(gradient.best_noise(SCORES[0].to(dtype), 0), gradient.best_noise(SCORES[0], 0))


def test_strided_and_empty_scores() -> None:
    strided = torch.stack([SCORES, -SCORES], -1)[..., 0]
    assert torch.equal(global_nce.recover(strided, LOG_Q), global_nce.recover(SCORES, LOG_Q))
    torch.testing.assert_close(
        global_nce.cross_entropy(JOINT, strided, 3), global_nce.cross_entropy(JOINT, SCORES, 3), rtol=1e-14, atol=0
    )
    assert global_nce.recover(SCORES[:0], LOG_Q).shape == (0, 3)
    assert local_nce.recover(SCORES[:0], 3, LOG_Q).shape == (0, 3)
    rows = gradient.best_noise(SCORES, 1)
    for row, alone in zip(rows, SCORES, strict=True):
        assert torch.equal(row, gradient.best_noise(alone, 1))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 200.0])
def test_ties_masks_and_extreme_scales(scale: float) -> None:
    for scores in (torch.zeros(2, 3).double(), scale * SCORES, torch.where(JOINT.p > 0, scale * SCORES, -INF)):
        for module in (global_nce, local_nce):
            assert math.isfinite(module.cross_entropy(JOINT, scores, 4, LOG_Q).item())
        assert torch.allclose(global_nce.recover(scores, LOG_Q).sum(-1), torch.ones(2).double())


@pytest.mark.parametrize("call,message", [
    (lambda: global_nce.recover(torch.full((2, 3), -INF), LOG_Q), r"row \[0\] where q\(y\) > 0 is -inf"),
    (lambda: global_nce.recover(double([0.0, 0.0, 0.0], [0.0, math.nan, 0.0]), LOG_Q), r"row \[1\] .* is nan"),
    (lambda: global_nce.recover(double(0.0, INF, 0.0), LOG_Q), "is inf"),
    (lambda: gradient.best_noise(double(0.0, -INF, -INF), 0), "largest logit of a negative is -inf"),
    (lambda: gradient.best_noise(double(0.0, math.nan, 0.0), 0), "is nan"),
    (lambda: gradient.best_noise(double(0.0, 1.0), 2), "target is 2"),
    (lambda: gradient.expected_gradient(double(0.0, 1.0), 5, 1, double(0.0, 0.0)), "target is 5"),
    (lambda: gradient.expected_gradient(double(0.0, 1.0), 0, 10**400, double(-INF, 0.0)), "m is 1000"),
    (lambda: global_nce.bound(JOINT, SCORES, 1), "n is 1; NCE compares"),
    (lambda: global_nce.bound(JOINT, SCORES, []), "n is 0; NCE compares"),
    (lambda: global_nce.ceiling(JOINT, 1), "n is 1; NCE compares"),
    (lambda: global_nce.ceiling(JOINT, 2.5), "n is 2.5; NCE compares"),
])  # fmt: skip
def test_bad_input_is_one_clear_error(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
