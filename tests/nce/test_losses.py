"""The torch losses against the population losses: their means over all candidate sets, and over samples."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp import functional
from sumexp.nce import Joint, global_nce, local_nce

JOINT = Joint(torch.tensor([[0.1, 0.2, 0.0], [0.2, 0.2, 0.3]], dtype=torch.float64))
LOG_Q = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
SCORES = torch.tensor([[0.4, -1.5, 2.0], [3.0, 0.1, -0.7]], dtype=torch.float64)


def candidate_sets(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """All (x, y, negatives) with their probabilities: x [S], candidates [S, n], the positive first, chances [S]."""
    xs, ys = [], []
    for x, *candidates in product(range(2), *[range(3)] * n):
        xs.append(x)
        ys.append(candidates)
    x, y = torch.tensor(xs), torch.tensor(ys)
    return x, y, JOINT.p[x, y[:, 0]] * LOG_Q.exp()[y[:, 1:]].prod(1)


@pytest.mark.parametrize("n", [2, 3, 5])
@given(scale=st.floats(0, 20))
@settings(deadline=None, max_examples=10)
def test_the_mean_over_all_candidate_sets_is_the_population_loss(n: int, scale: float) -> None:
    x, y, chance = candidate_sets(n)
    assert chance.sum().item() == pytest.approx(1)
    for loss, population in (
        (functional.info_nce, global_nce.cross_entropy),
        (functional.binary_nce, local_nce.cross_entropy),
    ):
        s = (scale * SCORES).requires_grad_()
        logits = s[x.unsqueeze(1), y]
        mean = chance @ loss(logits[:, 0], logits[:, 1:], reduction="none")
        exact = population(JOINT, s, n, LOG_Q)
        assert mean.item() == pytest.approx(exact.item(), rel=1e-12)
        (by_samples,) = torch.autograd.grad(mean, s)
        (by_formula,) = torch.autograd.grad(exact, s)
        assert torch.allclose(by_samples, by_formula, atol=1e-11)


def test_the_word2vec_form_absorbs_the_number_of_negatives() -> None:
    # Scores log pop(y|x) themselves: with log(m q) subtracted from each logit the loss is at its minimum, the entropy.
    n = 4
    x, y, chance = candidate_sets(n)
    possible = chance > 0
    x, y, chance = x[possible], y[possible], chance[possible]
    floor = JOINT.log_y_given_x.clamp_min(-700)
    logits = floor[x.unsqueeze(1), y] - LOG_Q[y] - math.log(n - 1)
    mean = chance @ functional.binary_nce(logits[:, 0], logits[:, 1:], reduction="none")
    assert mean.item() == pytest.approx(local_nce.entropy(JOINT, n, LOG_Q).item(), rel=1e-12)
