"""Tables 1 to 3 of the paper row by row, and the labels of a batch as negatives, in rational arithmetic."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import log, prod

import pytest
import torch

from sumexp import samplers
from sumexp.negatives import reference
from sumexp.negatives.reference import mean, weighted_sum
from sumexp.negatives.schemes import Weights
from sumexp.samplers import Hits

Q = Fraction

# Four classes; label 1, of which pi is not 1/L; terms e^{f_y' - f_y} or values of the margin loss (not the label's).
PI = (Q(9, 20), Q(3, 10), Q(3, 20), Q(1, 10))
UNIFORM = (Q(1, 4),) * 4
L, Y = 4, 1
VALUES = (Q(3), Q(1), Q(1, 2), Q(5))
NEGATIVES = (0, 2, 3)


@pytest.mark.claim("negatives-table1-w", shows="statement", evidence="exact")
@pytest.mark.parametrize("m", [1, 3])
def test_weights_of_table_1(m: int) -> None:
    for law in (PI, UNIFORM):
        q, w = reference.scheme(law, Y, m, "importance", "mask")
        assert all(m * q[y] * w[y] == 1 for y in NEGATIVES)
        q, w = reference.scheme(law, Y, m, "constant", "mask")
        assert all(w[y] == Q(1, m) for y in NEGATIVES)
        q, w = reference.scheme(law, Y, m, "relative", "mask")
        assert all(w[y] == law[Y] / law[y] > 0 for y in NEGATIVES)
        assert m * w[0] == m * law[Y] / law[0]  # Theorem 3's eta = m w: it moves with m


@pytest.mark.claim("negatives-within-batch-q", shows="statement", evidence="exact")
@pytest.mark.parametrize("batch", [2, 4])
def test_counts_and_inclusion_of_the_other_labels(batch: int) -> None:
    # Every batch of labels: of the others' multiset the counts have mean (B - 1) pi, of its union 1 - (1 - pi)^(B-1).
    for y in range(L):
        expected, included = Q(0), Q(0)
        for others in product(range(L), repeat=batch - 1):
            p = prod((PI[other] for other in others), start=Q(1))
            expected += p * others.count(y)
            included += p * (y in others)
        assert expected == (batch - 1) * PI[y]
        assert included == 1 - (1 - PI[y]) ** (batch - 1)
        log_pi = torch.tensor(log(PI[y]), dtype=torch.float64)
        assert samplers.log_inclusion(log_pi, batch - 1).exp().item() == pytest.approx(float(included), rel=1e-14)


Row = Callable[[int, int], Fraction]
"""m and y' to the coefficient of y' in the row's sum."""

COEFFICIENTS: dict[tuple[reference.Law, Weights], Row] = {
    (UNIFORM, "constant"): lambda m, y: Q(1, L),
    (UNIFORM, "importance"): lambda m, y: Q(1),
    (UNIFORM, "relative"): lambda m, y: Q(m, L),
    (UNIFORM, "tail"): lambda m, y: PI[y] / PI[Y],
    (PI, "constant"): lambda m, y: PI[y],
    (PI, "importance"): lambda m, y: Q(1),
    (PI, "relative"): lambda m, y: m * PI[Y],
    (PI, "tail"): lambda m, y: PI[y] / PI[Y],
}
"""As Table 2 has them, if the positive can be drawn and is left out."""


def expected_sum(law: reference.Law, weights: Weights, m: int, hits: Hits) -> Fraction:
    """E of the weighted sum over the sample, by every multiset of draws."""
    q, w = reference.scheme(law, Y, m, weights, hits, PI)
    return mean(q, m, lambda counts: weighted_sum(counts, w, VALUES))


def by_table(law: reference.Law, weights: Weights, m: int) -> Fraction:
    return sum((COEFFICIENTS[law, weights](m, y) * VALUES[y] for y in NEGATIVES), Q(0))


def penalties(law: reference.Law, weights: Weights, label: int, m: int) -> list[Fraction]:
    """m q w of each negative of a label: its factor in the implicit loss."""
    q, w = reference.scheme(law, label, m, weights, "mask", PI)
    return [m * q[y] * w[y] for y in range(L) if y != label]


S = sum((VALUES[y] for y in NEGATIVES), Q(0))
several_m = pytest.mark.parametrize("m", [1, 2, 4])


@several_m
@pytest.mark.parametrize("law, weights", [
    pytest.param(UNIFORM, "constant", marks=[
        pytest.mark.claim("negatives-t2-uniform-constant", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-t3-uniform-constant", shows="correction", evidence="exact"),
        pytest.mark.claim("negatives-uniform-downweight", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-sampling-bias", shows="statement", evidence="exact"),
    ]),
    pytest.param(UNIFORM, "importance", marks=[
        pytest.mark.claim("negatives-t2-uniform-importance", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-t3-uniform-importance", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-importance-coincide", shows="statement", evidence="exact"),
    ]),
    pytest.param(UNIFORM, "relative", marks=[
        pytest.mark.claim("negatives-t2-uniform-relative", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-t3-uniform-relative", shows="statement", evidence="exact"),
    ]),
    pytest.param(UNIFORM, "tail", marks=[
        pytest.mark.claim("negatives-t2-uniform-tail", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-t3-uniform-tail", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-eq-16", shows="statement", evidence="exact"),
    ]),
    pytest.param(PI, "constant", marks=[
        pytest.mark.claim("negatives-t2-batch-constant", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-t3-batch-constant", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-eq-13", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-sampling-bias", shows="statement", evidence="exact"),
    ]),
    pytest.param(PI, "importance", marks=[
        pytest.mark.claim("negatives-t2-batch-importance", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-t3-batch-importance", shows="statement", evidence="exact"),
    ]),
    pytest.param(PI, "relative", marks=[
        pytest.mark.claim("negatives-t2-batch-relative", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-t3-batch-relative", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-eq-14", shows="correction", evidence="exact"),
    ]),
    pytest.param(PI, "tail", marks=[
        pytest.mark.claim("negatives-t2-batch-tail", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-t3-batch-tail", shows="statement", evidence="exact"),
        pytest.mark.claim("negatives-eq-16", shows="statement", evidence="exact"),
    ]),
])  # fmt: skip
def test_rows_of_both_tables(law: reference.Law, weights: Weights, m: int) -> None:
    total = by_table(law, weights, m)
    assert expected_sum(law, weights, m, "mask") == total
    assert penalties(law, weights, Y, m) == [COEFFICIENTS[law, weights](m, y) for y in NEGATIVES]
    # D5, D6: if the positive cannot be drawn, constant weights have another factor, and relative ones are 0.
    redrawn = expected_sum(law, weights, m, "redraw")
    factor = {"constant": 1 / (1 - law[Y]), "relative": 0}.get(weights, 1)
    assert redrawn == factor * total
    # Constant weights have less than the S of the cross entropy; uniform relative ones where m < L.
    assert weights != "constant" or max(total, redrawn) < S
    assert (law, weights) != (UNIFORM, "relative") or (total < S) == (m < L)
    # Comments of Table 3: where all labels are equally probable, phi(f_k) + N_k varphi(-f_k) decides f_k, N_k the sum
    # of rho_yk over y, so that f_k falls as N_k rises. PI falls from head to tail.
    against = [sum((penalties(law, weights, y, m)[k - (k > y)] for y in range(L) if y != k), Q(0)) for k in range(L)]
    steps = sorted(set(against), reverse=weights != "relative")
    heavy = weights == "tail" or (law == PI and weights != "importance")
    assert against == steps * (1 if heavy else L)


@pytest.mark.claim("negatives-t3-uniform-constant", shows="counterexample", evidence="exact")
@several_m
def test_the_uniform_constant_row_of_table_3_is_not_of_its_caption(m: int) -> None:
    # D5. The caption says q_y > 0 and w_yy = 0; printed is 1 / (L - 1).
    assert expected_sum(UNIFORM, "constant", m, "mask") == Q(3, 4) * (S / (L - 1))


@pytest.mark.claim("negatives-eq-14", shows="counterexample", evidence="exact")
def test_equation_14_as_printed_is_equation_13() -> None:
    # D3, with the prior (1/2, 1/3, 1/6), m = 4 and y = 0: rho is 2 for both negatives; our text has 1/3 and 1/6, and if
    # it lost a prime, so that pi_y is printed, 1/2: the factor m is missing either way.
    prior, values = (Q(1, 2), Q(1, 3), Q(1, 6)), (Q(7), Q(3), Q(1))
    q, w = reference.scheme(prior, 0, 4, "relative", "mask")
    printed = [rho[0] * values[1] + rho[1] * values[2] for rho in (prior[1:], prior[:1] * 2)]
    assert [mean(q, 4, lambda counts: weighted_sum(counts, w, values)), *printed] == [8, Q(7, 6), 2]


@pytest.mark.claim("negatives-t3-caption", shows="statement", evidence="exact")
@several_m
def test_entries_of_table_3_bound_the_expectations_and_all_but_one_are_equal(m: int) -> None:
    # D12. Of one entry, 1/(L-1) in the row uniform-constant, the caption is all that can be said (D5).
    for law, weights in COEFFICIENTS:
        exact = expected_sum(law, weights, m, "mask")
        if (law, weights) == (UNIFORM, "constant"):
            assert exact == Q(3, 4) * (S / (L - 1))
        else:
            assert by_table(law, weights, m) == exact


@pytest.mark.claim("negatives-variable-penalty", shows="counterexample", evidence="exact")
def test_under_uniform_sampling_all_negatives_have_one_penalty() -> None:
    for label in range(L):
        assert set(penalties(UNIFORM, "constant", label, 5)) == {Q(1, 4)}
        assert set(penalties(UNIFORM, "relative", label, 5)) == {Q(5, 4)}


@pytest.mark.claim("negatives-variable-penalty", shows="correction", evidence="exact")
def test_within_a_batch_the_penalty_varies() -> None:
    for label in range(L):
        assert penalties(PI, "constant", label, 5) == [PI[y] for y in range(L) if y != label]
        assert penalties(PI, "relative", label, 5) == [5 * PI[label]] * 3
        assert set(penalties(PI, "importance", label, 5)) == {1}
