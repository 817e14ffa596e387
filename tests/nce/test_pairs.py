"""gBCE, the sigmoid and the softmax over pairs: all draws and all batches, as the public codes score them."""

import math
from itertools import product

import pytest
import sympy as sp
import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian
from torch.nn.functional import cross_entropy, softplus

from sumexp.nce import Joint, global_nce
from sumexp.nce.pairs import Drawn, PairHits, constant_loss, gbce, sigmoid_pairs, softmax_pairs

P = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
JOINT = Joint(torch.tensor([[0.30, 0.10, 0.05], [0.05, 0.20, 0.30]], dtype=torch.float64))


def gbce_loss(scores: Tensor, k: int, t: float, drawn: Drawn) -> Tensor:
    """The mean over labels and all sequences of k draws, as the public code scores one of them."""
    classes, total = len(scores), torch.zeros((), dtype=torch.float64)
    alpha = k / (classes - 1)
    beta = alpha * (t * (1 - 1 / alpha) + 1 / alpha)
    for label in range(classes):
        pool = [i for i in range(classes) if drawn == "all" or i != label]
        for ids in product(pool, repeat=k):
            chance = P[label] / len(pool) ** k
            total = total + chance * (beta * softplus(-scores[label]) + softplus(scores[list(ids)]).sum())
    return total


@pytest.mark.claim("since-gbce-mitigates", shows="statement", evidence="exact")
@pytest.mark.parametrize("drawn", ["others", "all"])
@pytest.mark.parametrize("t", [0.0, 0.75, 1.0])
@pytest.mark.parametrize("k", [1, 3])
def test_the_gradient_of_gbce_over_all_draws_is_zero_at_the_minimum(drawn: Drawn, t: float, k: int) -> None:
    got = gbce(P.log(), k, t, drawn)
    assert jacobian(lambda f: gbce_loss(f, k, t, drawn), got).abs().max() < 1e-12
    assert torch.linalg.eigvalsh(hessian(lambda f: gbce_loss(f, k, t, drawn), got)).min() > 1e-3
    if t == 1 and drawn == "others":
        assert torch.allclose(got.sigmoid(), P, rtol=1e-12)


@pytest.mark.claim("since-gbce-overconfident", shows="statement", evidence="exact")
def test_plain_binary_cross_entropy_is_overconfident_for_every_class() -> None:
    for k in (1, 2, 3, 6):
        odds = gbce(P.log(), k, 0.0).exp()
        torch.testing.assert_close(odds, 3 / k * P / (1 - P))
        assert (odds / (1 + odds) > P * (1 + 1e-9)).tolist() == [k < 3] * 4
        assert (odds / (1 + odds) < P * (1 - 1e-9)).tolist() == [k > 3] * 4


@pytest.mark.claim("since-gbce-order", shows="statement", evidence="exact")
def test_the_order_is_that_of_the_probabilities() -> None:
    for t, k, drawn in product((0.0, 0.5, 1.0), (1, 3, 100), ("others", "all")):
        assert (gbce(P.log(), k, t, drawn).diff() < 0).all()  # type: ignore[arg-type]


@pytest.mark.claim("sumexp-gbce-all", shows="statement", evidence="exact")
def test_with_hits_among_the_negatives_calibrated_becomes_too_small() -> None:
    got = gbce(P.log(), 2, 1.0, "all")
    assert jacobian(lambda f: gbce_loss(f, 2, 1.0, "all"), got).abs().max() < 1e-12
    assert torch.allclose(got.exp(), P * 4 / 3)
    assert ((got.sigmoid() < P) == (P > 1 / 4)).all()
    many = torch.cat([torch.tensor([0.5], dtype=torch.float64), torch.full((9999,), 0.5 / 9999, dtype=torch.float64)])
    assert torch.allclose(gbce(many.log(), 1, 1.0).sigmoid(), many, rtol=1e-14, atol=0)
    sigma = gbce(many.log(), 100, 1.0, "all").sigmoid()
    assert sigma[0].item() == pytest.approx(1 / 3, abs=1e-4)
    assert sigma[0] < many[0]
    assert sigma[1].item() == pytest.approx(many[1].item(), rel=1e-3)


def batches(size: int) -> list[tuple[float, list[int], list[int]]]:
    """All batches of independent pairs, with their probabilities."""
    cells = list(product(range(2), range(3)))
    return [
        (math.prod(JOINT.p[cell].item() for cell in batch), [x for x, _ in batch], [y for _, y in batch])
        for batch in product(cells, repeat=size)
    ]


def sigmoid_loss(scores: Tensor, size: int, hits: PairHits) -> Tensor:
    total, diagonal = torch.zeros((), dtype=torch.float64), torch.eye(size, dtype=torch.bool)
    for chance, xs, ys in batches(size):
        logits = scores[xs][:, ys]
        signs = 2 * diagonal.double() - 1
        same = torch.tensor([[a == b for b in ys] for a in ys]) & ~diagonal
        total = total + chance * (softplus(-signs * logits) * ~(same & (hits == "mask"))).sum() / size
    return total


def softmax_loss(scores: Tensor, size: int, sides: tuple[int, ...] = (0, 1)) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for chance, xs, ys in batches(size):
        logits = scores[xs][:, ys]
        for side in sides:
            total = total + chance * cross_entropy(logits if side == 0 else logits.T, torch.arange(size))
    return total


@pytest.mark.claim("sumexp-sigmoid-pairs", shows="statement", evidence="exact")
@pytest.mark.parametrize("hits", ["keep", "mask"])
@pytest.mark.parametrize("size", [2, 3])
def test_the_sigmoid_loss_over_all_batches_is_least_at_its_minimum(size: int, hits: PairHits) -> None:
    got = sigmoid_pairs(JOINT, size, hits)
    assert jacobian(lambda f: sigmoid_loss(f, size, hits), got).abs().max() < 1e-12
    ratio = JOINT.p / torch.outer(JOINT.p.sum(1), JOINT.p.sum(0))
    expected = ratio / (size - 1) / (1 if hits == "keep" else 1 - JOINT.p / JOINT.p.sum(1, keepdim=True))
    assert torch.allclose(got.exp(), expected)


@pytest.mark.claim("sumexp-sigmoid-pairs", shows="statement", evidence="exact")
@pytest.mark.parametrize("size", [2, 3])
def test_the_softmax_over_rows_and_columns_is_least_at_the_pmi(size: int) -> None:
    scores = torch.tensor([[0.4, -1.5, 2.0], [3.0, 0.1, -0.7]], dtype=torch.float64)
    # The other pairs of a batch are draws from the marginal of y.
    by_rows = global_nce.cross_entropy(JOINT, scores, size)
    torch.testing.assert_close(softmax_loss(scores, size, (0,)), by_rows, rtol=1e-12, atol=0)
    got = softmax_pairs(JOINT)
    assert jacobian(lambda f: softmax_loss(f, size), got).abs().max() < 1e-12
    free = torch.linalg.eigvalsh(hessian(lambda f: softmax_loss(f, size), got).reshape(6, 6))
    assert free[0].abs() < 1e-12 < 1e-3 < free[1]  # a constant, and nothing else
    rows = torch.linalg.eigvalsh(hessian(lambda f: softmax_loss(f, size, (0,)), got).reshape(6, 6))
    assert rows[1].abs() < 1e-12 < 1e-3 < rows[2]  # rows alone leave a number for each x


@pytest.mark.claim("since-siglip-local", shows="statement", evidence="exact")
def test_the_sigmoid_loss_is_a_sum_over_pairs_and_its_minimum_moves_with_the_batch() -> None:
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mixed = hessian(lambda f: softplus(-(2 * torch.eye(3) - 1) * f).sum(), logits).reshape(9, 9)
    assert torch.equal(mixed, mixed.diag().diag())  # no pair's gradient depends on another pair
    assert torch.allclose(sigmoid_pairs(JOINT, 5) - sigmoid_pairs(JOINT, 2), torch.tensor(-math.log(4)).double())


@pytest.mark.claim("since-siglip-prior", shows="statement", evidence="exact")
def test_minus_ten_is_close_to_the_prior_of_large_batches() -> None:
    def best(batch: int) -> float:
        return constant_loss(-math.log(batch - 1), batch)

    assert math.exp(10) + 1 == pytest.approx(22_027, abs=1)
    assert all(constant_loss(-10.0, batch) < 1.01 * best(batch) for batch in (16_384, 32_768))
    assert constant_loss(0.0, 32_768) > 1000 * best(32_768)
    assert constant_loss(21.0, 3) == pytest.approx(42 + 3 * math.log1p(math.exp(-21)), rel=1e-15)
    assert constant_loss(-10.0, 512) / best(512) == pytest.approx(1.385, abs=0.001)
    assert constant_loss(-10.0, 1 << 20) / best(1 << 20) == pytest.approx(3.876, abs=0.001)
    b, batch = sp.symbols("b B", positive=True)
    loss = sp.log(1 + sp.exp(-b)) + (batch - 1) * sp.log(1 + sp.exp(b))
    assert sp.simplify(sp.diff(loss, b).subs(b, -sp.log(batch - 1))) == 0


def test_a_pair_that_is_always_true_has_no_finite_score_if_hits_are_left_out() -> None:
    certain = Joint(torch.tensor([[0.5, 0.0], [0.25, 0.25]], dtype=torch.float64))
    assert sigmoid_pairs(certain, 4, "mask")[0].tolist() == [math.inf, -math.inf]
    assert sigmoid_pairs(certain, 4)[0, 0].isfinite()
    steep = torch.tensor([0.0, -34, -35], dtype=torch.float64)
    odds = gbce(steep, 1, 1.0)[0].item(), sigmoid_pairs(Joint(steep.exp()[None]), 2, "mask")[0, 0].item()
    assert odds == pytest.approx((34 - math.log1p(math.exp(-1)),) * 2, rel=1e-14)  # 1 / (e^-34 + e^-35)
