"""Which labels a scheme favours: closed forms of the bound's minimiser, and cases in which the loss is consistent."""

import math

import pytest
import torch

from sumexp.chapters import rawat

PRIOR = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).log()


@pytest.mark.parametrize("m", [1, 64])
def test_the_bounds_have_the_arrows_of_table_2_and_that_of_tail_weights_is_logit_adjusted(m: int) -> None:
    bounds = {weights: rawat.leaning(weights, PRIOR, m)[0] for weights in rawat.ARROWS}
    assert {weights: math.copysign(abs(bound) > 1e-6, bound) for weights, bound in bounds.items()} == rawat.ARROWS
    assert bounds["tail"] == pytest.approx(-math.log(0.7 / 0.1), abs=1e-6)


def test_one_negative_with_relative_weights_favours_no_label() -> None:
    assert rawat.leaning("relative", PRIOR, 1)[1] == pytest.approx(0, abs=1e-6)


def test_importance_weights_of_one_negative_favour_the_rarer_of_two_labels() -> None:
    """With q = (b, a) and t = exp(f_0 - f_1) the slopes a/(1 + a t) of label 0 and b t/(b + t) of label 1 balance.

    That is a b t^2 + (b - a) t - a b = 0; a = 1/5 and b = 4/5 give 4 t^2 + 15 t - 4 = 0, so t = 1/4.
    """
    _, loss = rawat.leaning("importance", torch.tensor([0.8, 0.2], dtype=torch.float64).log(), 1)
    assert loss == pytest.approx(math.log(1 / 4), abs=1e-6)


def test_the_prior_has_to_sum_to_one() -> None:
    with pytest.raises(ValueError, match="sum"):
        rawat.leaning("tail", PRIOR + 1, 4)
