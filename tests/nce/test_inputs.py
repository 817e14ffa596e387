"""Every public function of the chapter meets every legal but extreme input: a right number or one clear error."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp.nce import Joint, gan, gaussians, global_nce, gradient, local_nce
from tests.accelerator import functions
from tests.accelerator.test_functions import tensors
from tests.test_inputs import VALUES, outcome, same, scores

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


def test_empty_scores_and_rows_by_themselves() -> None:
    assert global_nce.recover(SCORES[:0], LOG_Q).shape == (0, 3)
    assert local_nce.recover(SCORES[:0], 3, LOG_Q).shape == (0, 3)
    rows = gradient.best_noise(SCORES, 1)
    for row, alone in zip(rows, SCORES, strict=True):
        assert torch.equal(row, gradient.best_noise(alone, 1))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 200.0])
def test_ties_masks_and_extreme_scales(scale: float) -> None:
    for values in (torch.zeros(2, 3).double(), scale * SCORES, torch.where(JOINT.p > 0, scale * SCORES, -INF)):
        for module in (global_nce, local_nce):
            assert math.isfinite(module.cross_entropy(JOINT, values, 4, LOG_Q).item())
        assert torch.allclose(global_nce.recover(values, LOG_Q).sum(-1), torch.ones(2).double())


def test_a_discriminator_of_half_precision_keeps_its_digits() -> None:
    """1 - 2^-14 is 1 in half precision, of which the logarithm is 0."""
    d = torch.tensor([2.0**-14, 2.0**-14], dtype=torch.float16)
    half = double(0.5, 0.5)
    expected = math.log(2.0**-14) + math.log1p(-(2.0**-14))
    assert gan.value(half, half, d).item() == pytest.approx(expected, rel=1e-15)


def test_vectors_of_two_precisions_meet_in_the_higher_one() -> None:
    x, y = torch.tensor([[0.5, -1.0]]), double([1.0, 0.25])
    assert torch.equal(gaussians.log_ratio(x, y, 0.5), gaussians.log_ratio(x.double(), y, 0.5))


def test_a_class_of_neither_player_is_left_alone() -> None:
    """With -inf for a class that the target lacks too, the game is that of the other classes."""
    padded = gan.play(double(0.25, 0.75, 0.0), double(0.5, 0.0, -INF), 20)
    alone = gan.play(double(0.25, 0.75), double(0.5, 0.0), 20)
    assert torch.allclose(padded.value, alone.value, rtol=1e-14)
    assert torch.equal(padded.q[:, 2], torch.zeros(21).double())


TABLE = {name: call for name, call in functions.TABLE.items() if name.startswith("nce.")}
DRAWS = {"nce.gaussians.sample", "nce.gaussians.train"}
every_function = pytest.mark.parametrize("name", sorted(TABLE.keys() - DRAWS))


def got(name: str, z: Tensor) -> Tensor | str:
    return outcome(lambda scores: torch.cat([part.flatten() for part in tensors(TABLE[name](scores))]), z)


@every_function
def test_layouts(name: str) -> None:
    z = scores(4, 4)
    wanted = got(name, z)
    assert isinstance(wanted, Tensor), wanted
    for other in (z.T.contiguous().T, torch.stack([z, z + 1], -1)[..., 0], z.clone().requires_grad_()):
        assert same(got(name, other), wanted, 1e-12)


@every_function
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types(name: str, dtype: torch.dtype) -> None:
    z = scores(4, 4)
    assert same(got(name, z.to(dtype)), got(name, z), 1e3 * torch.finfo(dtype).eps)


@every_function
@pytest.mark.parametrize("values", VALUES)
def test_values(name: str, values: str) -> None:
    got(name, torch.tensor([VALUES[values]] * 4, dtype=torch.float64))
