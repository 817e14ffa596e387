"""The theory of sampled losses on a device gives what it gives on the CPU, and stays there."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sumexp.negatives import consistency, enumerated, hard, information, published, schemes, tilted, wild
from tests.accelerator.device import NAME, Device

Call = Callable[[Tensor, Tensor], Tensor]
CALLS: dict[str, Call] = {
    "minimiser": lambda p, q: consistency.minimiser(
        consistency.multiset_losses(q, 3, consistency.factors("relative", q, 3)), p.exp()
    ),
    "minimiser by graphs": lambda p, q: consistency.minimiser(consistency.coin_losses(q), p.exp()),
    "union_law": lambda p, q: consistency.union_law(q, 2)[1],
    "estimate": lambda p, q: enumerated.estimate(enumerated.kept, p, q, 2).covariance,
    "variance": lambda p, q: information.variance(information.information(p, q, 3)),
    "stationary": lambda p, q: published.stationary("refined", p, q, 4),
    "hard_minimum": lambda p, q: hard.hard_minimum(p, q, 4, 1.0),
    "tilted": lambda p, q: tilted.tilted(p, q, beta=1.0),
    "uniform": lambda p, q: schemes.uniform(5, p.device),
    "one_class_short": lambda p, q: wild.one_class_short(5, p.device)[1],
    "slice_inclusion": lambda p, q: wild.slice_inclusion(q, 6, 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_device_gives_what_the_cpu_gives(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    laws = torch.log_softmax(torch.randn(2, 5, generator=generator, dtype=torch.float64), -1)
    wanted = CALLS[name](*laws)
    with Device():
        actual = CALLS[name](*laws.to(NAME))
        assert actual.device.type == NAME
        torch.testing.assert_close(actual.cpu(), wanted, rtol=1e-9, atol=1e-11)
