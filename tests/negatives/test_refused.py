"""Inputs that the functions of the package refuse, with the number at fault."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from sumexp import negatives
from sumexp.negatives import consistency, decoupled, enumerated, race, reference, sets, wild
from sumexp.negatives.enumerated import draws, estimate
from sumexp.negatives.estimated import cost
from sumexp.negatives.hard import hard_losses, hard_minimum
from sumexp.negatives.information import information
from sumexp.negatives.published import stationary
from sumexp.negatives.tilted import tilted
from sumexp.negatives.training import Problem, bound_minimum, principal
from tests.negatives.test_enumerated import logs

INF, NAN = math.inf, math.nan


FOUR, THREE, TWO, SURE = logs(0.5, 0.25, 0.15, 0.1), logs(0.5, 0.3, 0.2), logs(0.5, 0.5), logs(0.5, 0.5, 0.0)
SIX, ZEROS, ONES = logs(0.6, 0.25, 0.1, 0.03, 0.015, 0.005), torch.zeros(4).double(), torch.ones(4).double()
SCHEME = negatives.scheme(FOUR, 0, 2, "importance")
BY_ROW, RARE = (
    negatives.scheme(FOUR.expand(2, 4), 0, 2, "tail", prior=FOUR),
    negatives.targeting(TWO, logs(1, 5e-104), 0, 1),
)


def of_draws(log_q: Tensor, m: int = 2, hits: str = "keep", believed: Tensor | None = None) -> negatives.Losses:
    corrected = log_q if believed is None else believed
    return consistency.multiset_losses(log_q, m, consistency.factors("relative", corrected, m, hits=hits), hits)  # type: ignore[arg-type]


def loss_of(*logits: float) -> object:
    return negatives.implicit_loss(torch.tensor(logits), SCHEME)


@pytest.mark.parametrize("call, message", [
    (lambda: loss_of(NAN, 0, 0, 0), r"logits\[0\] is nan"),
    (lambda: loss_of(0, INF, 0, 0), r"\+inf"),
    (lambda: loss_of(-INF, 0, 0, 0), "the label is -inf"),
    (lambda: loss_of(0.0, 0, 0), "the scheme has 4 classes"),
    (lambda: negatives.expansion(torch.zeros(0, 4), SCHEME), "the batch is empty"),
    (lambda: loss_of(0.0, 800.0, 0.0, 0.0), "must be below 700"),
    (lambda: negatives.gradient_moments(torch.tensor([0.0, 800.0, 0.0, 0.0]), SCHEME), "must be below 700"),
    (lambda: negatives.scheme(FOUR, 4, 1, "constant"), "label is 4; it must be a whole number from 0 to 3"),
    (lambda: negatives.scheme(torch.zeros(1), 0, 1, "constant"), "at least two classes"),
    (lambda: negatives.scheme(torch.tensor([0.0, -INF]), 0, 1, "constant"), "no mass to the negatives"),
    (lambda: negatives.scheme(FOUR, 0, 1, "tail"), "tail weights need prior"),
    (lambda: negatives.scheme(FOUR, 0, 1, "tail", prior=torch.zeros(1)), "prior must cover all 4 classes"),
    (lambda: negatives.scheme(SURE, 2, 2, "tail", "mask", prior=SURE), "positive mass on label 2"),
    (lambda: negatives.Scheme(0, 1, FOUR, torch.zeros(3)), r"log_w has shape \(3,\), log_q \(4,\)"),
    (lambda: negatives.Scheme(0, 1, FOUR, torch.full((4,), INF)), "a log weight is NaN or"),
    (lambda: negatives.log_prior(torch.tensor([1.0, -1.0])), "counts must be finite"),
    (lambda: negatives.log_prior(torch.ones(2, 3)), r"not all 0 and \[classes\], not \(2, 3\)"),
    (lambda: negatives.implicit_loss(torch.zeros(3, 4), BY_ROW), "do not broadcast"),
    (lambda: negatives.expansion(ZEROS[:2], RARE), "a moment of the terms overflows"),
    (lambda: negatives.targeting(torch.zeros(3), SURE, 0, 1), "no weight can correct"),
    (lambda: negatives.group_moments(ZEROS, SCHEME, torch.ones(1, 3, dtype=torch.bool)), r"give bool \[groups, 4\]"),
    (lambda: decoupled.moments(ONES[:3], SCHEME), "expected 4 classes"),
    (lambda: decoupled.moments(INF * ONES, SCHEME), "NaN or infinite"),
    (lambda: decoupled.least_variance_law(ZEROS, ZEROS, 0), "no mass"),
    (lambda: reference.scheme([Fraction(1, 4)] * 3, 0, 1, "constant", "mask"), "q sums to 3/4"),
    (lambda: of_draws(THREE)(ZEROS[:2]), r"scores \(2,\) must be finite numbers \(3,\)"),
    (lambda: of_draws(logs(1, 0, 0), 1, "redraw"), "drawn with certainty"),
    (lambda: consistency.factors("tail", THREE, 1), "need prior"),
    (lambda: consistency.factors("constant", THREE, 0), "m is 0"),
    (lambda: consistency.coin_losses(torch.tensor([0.0, -1.0])), "is 1 or more"),
    (lambda: consistency.union_law(torch.zeros(13).log_softmax(0), 2), "at most 12"),
    (lambda: consistency.minimiser(of_draws(THREE), SURE.exp()), "give a positive law"),
    (lambda: consistency.minimiser(of_draws(SURE, believed=THREE), THREE.exp()), "is the minimum finite"),
    (lambda: cost(FOUR, FOUR, FOUR[:3]), r"must hold \(4,\) finite numbers"),
    (lambda: cost(FOUR, FOUR, -INF * ONES), "finite numbers: give unseen classes one"),
    (lambda: hard_minimum(FOUR, FOUR, 3, -1.0), "beta is -1.0"),
    (lambda: hard_minimum(FOUR, FOUR, 3, 25.0), r"beta is 25.0; give at most 20, or m = math.inf"),
    (lambda: hard_minimum(FOUR, TWO, 3, 1.0), "must be positive laws"),
    (lambda: hard_losses(SURE, 3, 1.0), "must be a positive law"),
    (lambda: hard_losses(FOUR, 3, 1.0)(ZEROS[:3]), r"scores \(3,\) must be finite numbers \(4,\)"),
    (lambda: information(torch.zeros(1), TWO, 1), "must be positive laws on the same classes"),
    (lambda: information(torch.tensor([0.0, -700.0]), TWO, 1), "leave out any below 1e-299"),
    (lambda: stationary("baseline", FOUR, FOUR, INF), "class 0 has probability 0.5"),
    (lambda: stationary("refined", SURE, THREE, 1), "must be positive laws"),
    (lambda: stationary("refined", logs(1), logs(1), 1), "same classes, two or more"),
    (lambda: stationary("refined", TWO, logs(1, 1e-30), 1), "leaves no negative"),
    (lambda: race.inclusion(torch.tensor([0.0, -700.0]), 1), "is 9.86e-305; leave out classes below 1e-300"),
    (lambda: race.distinct_law(SIX, 7), "m is 7, with 6 classes"),
    (lambda: race.tries_law(logs(1, 1e-6), 2, tol=0.0), "all but 1 classes have probability 1e-06"),
    (lambda: race.race_law(SIX, 5, 0), "expected m >= 1, 7 to 12 classes"),
    (lambda: sets.least_worst_error(torch.tensor([[True, False]]), ONES[:1], [TWO.exp()]), "class 1 is never drawn"),
    (lambda: tilted(FOUR, FOUR, tau=-0.1), "tau is -0.1"),
    (lambda: tilted(FOUR, FOUR, beta=INF), "beta is inf; it must be a number >= 0"),
    (lambda: Problem(torch.zeros(3, 2), torch.tensor([0, 1]), 1), "must be"),
    (lambda: Problem(torch.zeros(2, 2), torch.tensor([0, 2]), 1), "does not occur"),
    (lambda: Problem(torch.zeros(2, 2), torch.tensor([0, 1]), 0), "m is 0"),
    (lambda: Problem(torch.zeros(2, 2), torch.tensor([0, 1]), 1, penalty=0.0), "penalty 0.0"),
    (lambda: bound_minimum(Problem(torch.eye(2), torch.tensor([0, 1]), 1, 1e-18)), "minimum; penalty is 1e-18: raise"),
    (lambda: principal(torch.eye(3), 3), "components is 3; it must be a whole number from 1 to 2"),
    (lambda: wild.modulo_share(3, 0, 0), "classes 0; expected"),
    (lambda: draws(torch.zeros(100).double().log_softmax(0), 4), "at most 20000 are listed"),
    (lambda: estimate(enumerated.kept, THREE, TWO, 2), "must be positive laws"),
    (lambda: estimate(lambda s, counts, log_q: (s - s.mean()).expand_as(counts), THREE, THREE, 1), "is it finite"),
])  # fmt: skip
def test_the_message_names_the_fault(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
