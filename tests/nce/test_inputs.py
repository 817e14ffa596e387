"""Every public function of the chapter gives in every layout and type what it gives in plain float64."""

import pytest
import torch
from torch import Tensor

from tests.accelerator import functions
from tests.accelerator.test_functions import tensors
from tests.test_inputs import outcome, same, scores

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
