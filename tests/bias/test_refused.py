"""Inputs that the functions of the package refuse, with the number at fault."""

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch

from sumexp.bias import certificates, estimators, minimax, proof, reading, sampled_bias
from sumexp.bias.rational import maximise

Q = Fraction
HALVES = estimators.roulette([1, Q(1, 2), Q(1, 4), Q(1, 8)])
SUBSETS, REPEATS = reading.without_replacement(4, 3), reading.with_replacement((Q(1, 2), Q(1, 4), Q(1, 4)), 2)
ZEROS, COIN = torch.zeros(4), torch.Generator()


@pytest.mark.parametrize("call,message", [
    (lambda: certificates.certify(SUBSETS, (1,) * 4, (2, 2, 1, 2)), "side 2 .* from 1 to 1"),
    (lambda: certificates.certify(SUBSETS, (1,) * 4, (2, 2, 2)), "4 entries and upper 3"),
    (lambda: certificates.certify(SUBSETS, (0, 1, 1, 1), (2,) * 4), r"lower\[0\] is 0"),
    (lambda: certificates.certify(SUBSETS, (1,) * 4, (2,) * 4, "sigmoid"), "target is 'sigmoid'"),
    (lambda: certificates.certify(reading.with_replacement((Q(1, 2),) * 2, 2), (1, 1), (2, 2)), "read all 2 negatives"),
    (lambda: certificates.certify(SUBSETS, (1,) * 4, (2,) * 4, lambda a: 0.1 * float(a[0])), "target is 0.1 at a corner"),  # type: ignore[arg-type, return-value]  # noqa: E501
    (lambda: reading.outcomes(REPEATS, (1, 2)), "reads index 2 of 2 negatives"),
    (lambda: reading.outcomes(lambda _: {None: Q(1, 2)}, (1,)), "after reading nothing .* sum to 1"),
    (lambda: reading.fixed({(0,): Q(1, 2)}), "sum to 1/2"), (lambda: reading.fixed({(0,): 2, (1,): -1}), "fall to -1"),
    (lambda: reading.outcomes(lambda _: {None: Q(2), 0: Q(-1)}, (1,)), "0: -1; want"),
    (lambda: certificates.mixed_difference(len, (1,) * 15, (2,) * 15), "15 sides has 2.15 corners; at most 16384"),
    (lambda: certificates.cube_difference(0, 1, 2), "n is 0"), (lambda: proof.contradiction(2.5, 1), "must be whole"),
    (lambda: proof.contradiction(0, 0), "n is 0; there must"), (lambda: proof.contradiction(2, -1), "k is -1; the num"),
    (lambda: proof.contradiction(3, 0), "needs k >= 1"),
    (lambda: minimax.limit(4, 4), "k is 4 and n is 4.* take k < n"),
    (lambda: minimax.limit(4, 2).polynomial(-1), "s is -1; it must be a whole number from 0 to 4"),
    (lambda: minimax.limit(5000, 3), "n is 5000, more than the 4096.*lower_bound"),
    (lambda: minimax.on_grid([(1, 2)] * 7, 3), "128 points, more than the 100.*minimax.cube"),
    (lambda: minimax.on_grid([(1,), (1, 2)], 1), r"axes\[0\] is 1"),
    (lambda: minimax.on_grid([(2, 1), (1, 2)], 1), "is 2, 1; "), (lambda: minimax.lower_bound((2, 0), 0), "not from 0"),
    (lambda: minimax.best_estimate_anywhere(3, 1, (1, 2)), "a has 2 entries and n is 3"),
    (lambda: minimax.reads_needed(10, Q(1, 2)), "bias is 1/2"), (lambda: maximise([Q(1)], [], []), "unbounded"),
    (lambda: maximise([Q(1), Q(0)], [[Q(1), Q(-1)]], [Q(0)]), "unbounded"),
    (lambda: maximise([Q(1)], [[Q(-1)]], [Q(1)]), "no feasible point"),
    (lambda: estimators.roulette([]), r"levels are \(\)"),
    (lambda: estimators.roulette([1, Q(1, 2), 0]), "survival is 1, 1/2, 0.*is biased"),
    (lambda: estimators.roulette([Q(1, 2)]), "is 1/2;"), (lambda: estimators.roulette([1, Q(1, 2), 1]), "1/2, 1;"),
    (lambda: estimators.Schedule((1, 2), (Q(1),)), "2 levels but 1 survival"),
    (lambda: estimators.Schedule((0,), (1,)), r"are \(0,\)"), (lambda: estimators.dyadic(4, -1), "rate is -1; it"),
    (lambda: estimators.Schedule((1, 3), (Q(1), Q(1)), True), "twice the one before"),
    (lambda: estimators.dyadic(12, 1), "n is 12; it must be a power of two"),
    (lambda: estimators.moments(HALVES, (1, 2)), "a has 2 entries, but the schedule is for n = 4"),
    (lambda: estimators.moments(HALVES, (1, 2, -3, 4)), r"a\[2\] is -3"),
    (lambda: estimators.moments(estimators.dyadic(16, 1), (1,) * 16), "more than the 50000.*use variance"),
    (lambda: estimators.variance(estimators.dyadic(4, 1), ZEROS), "plain differences"),
    (lambda: estimators.variance(HALVES, ZEROS[:3]), r"log_a has shape \(3,\)"),
    (lambda: estimators.two_valued_moments(HALVES, 2, 1, 5), "count is 5"),
    (lambda: estimators.two_valued_moments(HALVES, 2, 1, -1), "count is -1"),
    (lambda: estimators.moments(HALVES, ()), "is empty"), (lambda: estimators.mean_square_errors([5], ZEROS), "has 5"),
    (lambda: estimators.sample(HALVES, lambda r, i: ZEROS[i], -1, generator=COIN), "batch is -1"),
    (lambda: estimators.sample(HALVES, lambda r, i: i.repeat(1, 9), 8, generator=COIN), "read returned shape"),
    (lambda: estimators.sample(HALVES, lambda r, i: 0.0, 8, generator=COIN), "what read returned is 0.0"),  # type: ignore[arg-type, return-value]
    (lambda: estimators.distinct_indices(3, 4, 1, COIN), "count is 4"),
    (lambda: sampled_bias(ZEROS.to(torch.complex128), 0, 1), r"logits is torch.complex128 .*; it must"),
])  # fmt: skip
def test_the_message_names_the_fault(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
