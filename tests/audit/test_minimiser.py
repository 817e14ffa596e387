"""The minimum over bins against the search over single classes, against enumeration and against closed forms."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sumexp import negatives
from sumexp.audit._risks import Binned, State, minimise
from sumexp.negatives.consistency import coin_losses, factors, minimiser, multiset_losses
from sumexp.negatives.schemes import Weights
from sumexp.samplers import Hits

Floats = NDArray[np.float64]


def laws(classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    p, q = (torch.randn(classes, generator=generator, dtype=torch.float64).mul(1.5).softmax(0) for _ in range(2))
    return p, q


def single(p: torch.Tensor, q: torch.Tensor, m: int, weights: Weights, hits: Hits) -> Binned:
    a, b = factors(weights, q.log(), m, hits=hits)
    return Binned(np.ones(len(p)), p.numpy(), q.numpy()[None], np.array([float(m)]), False, a.numpy(), b.numpy(), hits)


@pytest.mark.parametrize("hits", ["keep", "mask", "redraw"])
@pytest.mark.parametrize("weights", ["constant", "importance", "relative"])
@pytest.mark.parametrize("m", [1, 2, 31])
def test_single_classes_have_the_minimum_of_the_other_search(m: int, weights: Weights, hits: Hits) -> None:
    p, q = laws(12)
    losses = multiset_losses(q.log(), m, factors(weights, q.log(), m, hits=hits), hits)
    expected = minimiser(losses, p)
    minimum = minimise(single(p, q, m, weights, hits))
    f = torch.from_numpy(minimum.scores)
    assert torch.allclose(f - f.mean(), expected, atol=3e-7)
    assert minimum.risk == pytest.approx((p @ losses(f)).item(), rel=1e-9)


@pytest.mark.parametrize("hits", ["keep", "mask"])
def test_a_bin_of_equal_classes_is_its_classes(hits: Hits) -> None:
    count = np.array([1.0, 3.0, 2.0])
    p, q = np.array([0.4, 0.1, 0.15]), np.array([0.5, 0.1, 0.1])
    each = count.astype(int)
    p1, q1 = (torch.from_numpy(np.repeat(x, each)) for x in (p, q))
    a, b = factors("importance", torch.from_numpy(np.log(q)), 5)
    binned = minimise(Binned(count, p, q[None], np.array([5.0]), False, a.numpy(), b.numpy(), hits))
    whole = minimise(single(p1, q1, 5, "importance", hits))
    assert np.allclose(np.repeat(binned.scores, each), whole.scores, atol=1e-6)
    assert binned.risk == pytest.approx(whole.risk, rel=1e-9)


def test_the_coins_are_those_of_the_other_search() -> None:
    p, q = laws(8)
    coin = q.clamp(max=0.6)
    zero = np.zeros(8)
    minimum = minimise(Binned(np.ones(8), p.numpy(), coin.numpy()[None], np.array([1.0]), True, zero, zero, "mask"))
    expected = minimiser(coin_losses(coin.log(), torch.zeros(8, dtype=torch.float64)), p)
    assert np.allclose(minimum.scores - minimum.scores.mean(), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("hits", ["keep", "mask", "redraw"])
def test_two_pools_by_enumeration(hits: Hits) -> None:
    """Two draws of one law and one of another: all 27 outcomes, each by hand."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    a, b, f = np.array([0.3, -0.2, 0.1]), np.array([0.1, 0.4, -0.5]), np.array([0.2, -0.4, 0.9])
    expected = 0.0
    for y in range(3):
        laws = q.copy()
        if hits == "redraw":
            laws[:, y] = 0
            laws /= laws.sum(-1, keepdims=True)
        for drawn in product(range(3), repeat=3):
            chance = laws[0, drawn[0]] * laws[0, drawn[1]] * laws[1, drawn[2]]
            used = [j for j in drawn if hits == "keep" or j != y]
            total = sum(math.exp(a[y] + b[j] + f[j] - f[y]) for j in used)
            expected += p[y] * chance * math.log1p(total)
    problem = Binned(np.ones(3), p, q, np.array([2.0, 1.0]), False, a, b, hits)
    assert State(problem, f).risk == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    "coins, hits", [(False, "keep"), (False, "mask"), (False, "redraw"), (True, "keep"), (True, "mask")]
)
def test_derivatives_are_differences(hits: Hits, coins: bool) -> None:
    generator = np.random.default_rng(0)
    count = np.array([1.0, 2.0, 3.0, 1.0])
    p, q = generator.random(4), generator.random((1 if coins else 2, 4)) * 0.8
    p /= count @ p
    if not coins:
        q /= (q @ count)[:, None]
    a, b, f = generator.normal(size=(3, 4))
    problem = Binned(count, p, q, np.array([3.0, 5.0])[: len(q)], coins, a, b, hits)
    gradient, matrix = State(problem, f).derivatives()
    step, units = 1e-5, np.eye(4)

    def slope(function: str, unit: Floats) -> Floats:
        up, down = (State(problem, f + sign * step * unit, 1e-14) for sign in (1, -1))
        if function == "risk":
            return np.array((up.risk - down.risk) / (2 * step))
        return np.asarray((up.derivatives()[0] - down.derivatives()[0]) / (2 * step))

    assert np.allclose(gradient, [slope("risk", unit) for unit in units], atol=1e-8)
    assert np.allclose(matrix, [slope("gradient", unit) for unit in units], atol=1e-8)
    assert np.allclose(matrix.sum(0), 0, atol=1e-9)  # a common shift changes nothing


@pytest.mark.parametrize("hits", ["keep", "mask", "redraw"])
def test_loss_and_deviation_are_those_of_single_labels(hits: Hits) -> None:
    p, q = laws(6)
    f = torch.tensor([0.3, -0.5, 1.0, 0.2, -1.0, 0.0], dtype=torch.float64)
    state = State(single(p, q, 4, "importance", hits), f.numpy())
    each = [negatives.implicit_loss(f, negatives.scheme(q.log(), y, 4, "importance", hits)) for y in range(6)]
    assert state.risk == pytest.approx(sum(s * e.loss.item() for s, e in zip(p.tolist(), each, strict=True)), rel=1e-8)
    variance = sum(s * e.variance.item() for s, e in zip(p.tolist(), each, strict=True))
    assert state.deviation**2 == pytest.approx(variance, rel=1e-6)


def test_no_minimum_is_said() -> None:
    """A class that is a label and never drawn: its score rises for ever."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([[0.5, 0.5, 0.0]])
    zero = np.zeros(3)
    problem = Binned(np.ones(3), p, q, np.array([2.0]), False, zero, zero, "keep")
    with pytest.raises(ValueError, match=r"still moves a score by|must be below 700|is the minimum finite"):
        minimise(problem)
