"""Inputs that the functions of the package refuse, with the number at fault."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from sumexp.nce import Joint, families, gaussians, global_nce, gradient, local_nce, pairs, rational
from tests.exact import vector

Q = Fraction
INF, NAN, HALF = math.inf, math.nan, math.log(0.5)
JOINT = Joint(vector([0.1, 0.2, 0.0], [0.2, 0.2, 0.3]))
SCORES, LOG_Q, EVEN = torch.zeros(2, 3), vector(0.5, 0.25, 0.25).log(), vector(0.5, 0.5)
FEATURES = vector([0.5, -1.0, 2.0], [0.0, 1.0, -0.5]).unsqueeze(-1)
GLOBAL, LOCAL = global_nce.cross_entropy, local_nce.cross_entropy


def candidates(x: int | Tensor, ys: object, log_q: Tensor | None = None) -> Tensor:
    return global_nce.posterior(JOINT, x, torch.as_tensor(ys), log_q)


@pytest.mark.parametrize("call,message", [
    (lambda: GLOBAL(JOINT, SCORES, 2, vector(HALF, HALF)), r"log_q has shape \(2,\); it must be \[3\]"),
    (lambda: LOCAL(JOINT, SCORES, 2, LOG_Q.exp()), r"exp\(log_q\) sums to 4.2.*not 1"),  # q itself
    (lambda: LOCAL(JOINT, SCORES, 1), "n is 1; it must be a whole number from 2 to 9007199254740992"),
    (lambda: GLOBAL(JOINT, torch.zeros(3, 2), 2), r"scores has shape \(3, 2\); the joint law has \(2, 3\)"),
    (lambda: LOCAL(JOINT, vector([0.0] * 3, [INF, 0.0, 0.0]), 2), r"scores\[1, 0\] is inf; .* only where q\(y\) = 0"),
    (lambda: Joint([[0.5, 0.5]]), "list; give a floating-point tensor"),  # type: ignore[arg-type]
    (lambda: Joint(vector([0.5, -0.1], [0.3, 0.3])), r"p\[0, 1\] is -0.1; it must be finite and not negative"),
    (lambda: Joint(vector([0.5, 0.4])), r"p sums to 0.9, not 1; normalise it"),
    (lambda: Joint(vector([0.5, 0.5], [0.0, 0.0])), r"row 1 is all zero; drop every x that never occurs \(1 of them\)"),
    (lambda: Joint.from_counts(torch.tensor([[1, -2]])), r"counts\[0, 1\] is -2.0"),
    (lambda: Joint.from_counts(torch.tensor([[1.0, 1j]])), "counts is torch.complex64"),
    (lambda: GLOBAL(JOINT, vector([0.0, 800.0, 0.0], [0.0, 0.0, 0.0]), 2), "below 700"),
    (lambda: global_nce.bound(JOINT, SCORES, []), "n is 0; it must be a whole number from 2"),
    (lambda: candidates(2, [0, 1]), "a value of x is 2; the 2 classes are 0..1"),
    (lambda: candidates(0, [2, 2]), "cannot occur"), (lambda: candidates(0, [1]), "n is 1; it must"),
    (lambda: candidates(1, [2, 2], vector(HALF, HALF, -INF)), "cannot occur"),
    (lambda: candidates(torch.tensor([0, 1, 1]), [[0, 1], [1, 0]]), r"x \(3,\) and ys"),
    (lambda: global_nce.recover(torch.full((2, 3), -INF), LOG_Q), r"row \[0\] where q\(y\) > 0 is -inf"),
    (lambda: global_nce.recover(torch.tensor(1.0), LOG_Q), r"scores is one number; it must be \[..., classes\]"),
    (lambda: local_nce.recover(torch.tensor(1.0), 3, LOG_Q), "scores is one number"),
    (lambda: local_nce.recover(vector(0.0, INF, 0.0), 3, LOG_Q), "NaN or .inf where"),
    (lambda: gradient.rational_expected_gradient([Q(1)] * 3, 0, [Q(0), Q(1), Q(0)], 1), "positive on all classes but"),
    (lambda: gradient.rational_gradient([Q(1)] * 3, -1), "target is -1; it must be a whole number from 0 to 2"),
    (lambda: gradient.rational_best_noise([Q(1)] * 3, -1), "target is -1"),
    (lambda: gaussians.GaussianConfig(estimator="CPC"), "estimator is 'CPC'; it must be one of cpc, doe"),  # type: ignore[arg-type]
    (lambda: gaussians.optimal_bound(1, 1e-6, 2, 4), "rho is 1e-06; SciPy.* of size 5e-05 or more"),
    (lambda: families.fit(FEATURES, torch.sum, -1.0), "is -1.0; it must be positive"),
    (lambda: local_nce.recover(SCORES + 800, 2, LOG_Q), r"is e\^799; shift the scores"),
    (lambda: families.scores(SCORES, vector(1.0)), r"features is \(2, 3\)"),
    (lambda: families.scores(FEATURES, vector(1.0, 2.0)), r"theta is \[1.0, 2.0\]; it must be \[1\]"),
    (lambda: families.tilted(FEATURES, vector(1.0), vector(1.0), LOG_Q), r"x has shape \(1,\)"),
    (lambda: families.tilted(1e200 * FEATURES, vector(1e200), EVEN, LOG_Q), "double precision"),
    (lambda: families.fit(FEATURES, lambda s: -s[0, 0]), "the gradient is still 5.0e-01 .* no minimum"),
    (lambda: pairs.gbce("values", 3, 0.5), "log_p is 'values'"),  # type: ignore[arg-type]
    (lambda: pairs.gbce(LOG_Q, 1, 1.5), "t is 1.5"), (lambda: pairs.gbce(vector(0.0), 1, 1.0), "two classes or more"),
    (lambda: pairs.constant_loss(NAN, 2), "bias is nan"), (lambda: rational.log(0), "positive rational"),
])  # fmt: skip
def test_the_message_names_the_fault(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
