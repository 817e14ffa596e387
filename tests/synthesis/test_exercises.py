"""The solution of the exercise of the chapter `synthesis`."""

from fractions import Fraction

import pytest
import torch

from sumexp.chapters.synthesis import bars

LOGITS = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).log()
LABEL = 1
PIECES = (Fraction(1, 2), Fraction(3, 2), Fraction(4, 2))
MEAN = Fraction(93, 385)


def test_the_bars_of_four_classes() -> None:
    drawn = set()
    for seed in range(30):  # that one of three is never drawn: 3 (2/3)^30, once in 60,000 times, and seeds are fixed
        by_name = bars(LOGITS, LABEL, torch.zeros(4), 1, torch.Generator().manual_seed(seed))
        drawn.add(round(by_name["sampled"].terms.sum().item(), 9))
    assert sorted(drawn) == [1.5, 4.5, 6.0]  # 3/2, 9/2 and 6: one draw of three has weight 3
    assert by_name["softmax"].terms.tolist() == pytest.approx([1 / 2, 0, 3 / 2, 2], rel=1e-15)
    assert by_name["softmax"].share == pytest.approx(1 / 5, rel=1e-15)
    assert by_name["ranked"].terms.tolist() == [0, 0, 1, 1]
    assert by_name["ranked"].share == pytest.approx(1 / 3, rel=1e-15)
    assert by_name["sampled"].mean == pytest.approx(93 / 385, rel=1e-12)


def test_the_mean_of_the_sampled_share_is_above_the_softmax() -> None:
    shares = [1 / (1 + 3 * piece) for piece in PIECES]
    assert shares == [Fraction(2, 5), Fraction(2, 11), Fraction(1, 7)]
    assert sum(shares, Fraction(0)) / 3 == MEAN
    assert 1 / (1 + sum(PIECES)) == Fraction(1, 5) == Fraction(77, 385) < MEAN
