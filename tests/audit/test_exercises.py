"""The solution of the exercise of the chapter `audit`."""

import math
from fractions import Fraction
from itertools import product

import pytest
import torch

from sumexp import functional
from sumexp.negatives import consistency

PI = tuple(Fraction(1, n) for n in (2, 4, 8, 8))
LOG_PI = torch.tensor([float(p) for p in PI], dtype=torch.float64).log()


@pytest.mark.parametrize("m", [1, 3])
def test_counts_alone_without_a_correction_give_every_class_the_same_score(m: int) -> None:
    plain = torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)  # weights of 1
    scores = consistency.minimiser(consistency.multiset_losses(LOG_PI, m, plain, "keep"), LOG_PI.exp())
    assert (scores - scores.mean()).abs().max() < 1e-9


@pytest.mark.parametrize("m", [1, 3])
def test_a_batch_decides_nothing_with_importance_weights(m: int) -> None:
    batches = list(product(range(4), repeat=m))
    for batch in batches:
        assert sum(PI[y] / (m * PI[y]) for y in batch) == 1  # each of the m weighted negatives is e^f / (m pi) = 1/m
    drawn = LOG_PI[torch.tensor(batches)]  # the scores f = log pi of all batches, hits among them, and log q of each
    for y, p in enumerate(PI):
        actual = functional.sampled_softmax(
            LOG_PI[y].expand(len(drawn)), drawn, log_q=drawn, correct="importance", reduction="none"
        )
        wanted = math.log(1 + 1 / p)
        assert actual.tolist() == pytest.approx([wanted] * len(drawn), rel=1e-14)
        full = functional.cross_entropy(LOG_PI[None], torch.tensor([y])).item()
        assert full == pytest.approx(math.log(1 / p), rel=1e-14)
        # At most pi: it matters where labels are frequent.
        assert wanted - full == pytest.approx(math.log1p(p), rel=1e-12)
