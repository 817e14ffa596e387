"""The losses, lemmas, propositions and remarks of the paper, and their errors, in rational arithmetic."""

from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from sumexp import functional, negatives
from sumexp.bias import certificates
from sumexp.negatives import decoupled, reference
from sumexp.negatives.reference import draws, exponentiated, mean, weighted_sum
from sumexp.negatives.schemes import Weights
from tests.exact import floats, log_of
from tests.negatives.test_tables import NEGATIVES, PI, UNIFORM, VALUES, S, Y, expected_sum, several_m

Q = Fraction
positive = st.fractions(min_value=Q(1, 20), max_value=20, max_denominator=20)


@pytest.mark.claim("negatives-ce", shows="statement", evidence="proof")
def test_the_three_forms_of_the_cross_entropy() -> None:
    # S stands for the sum of e^{f_y'} over all negatives, whatever their number.
    f, S = sp.symbols("f S", positive=True)
    p = sp.exp(f) / (sp.exp(f) + S)
    assert sp.simplify(sp.exp(-f + sp.log(sp.exp(f) + S)) - (1 + S * sp.exp(-f))) == 0
    assert sp.simplify(p * (1 + S * sp.exp(-f)) - 1) == 0  # so it is -log p


class Elements(TorchDispatchMode):
    """Counts the elements that torch's operators write, which is what an elementwise operation costs."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.written += sum(tensor.numel() for tensor in pytree.tree_leaves(result) if isinstance(tensor, torch.Tensor))
        return result


def full_losses(scores: torch.Tensor) -> dict[str, torch.Tensor]:
    """The softmax cross entropy and the decoupled loss of label 0, over all labels."""
    return {
        "cross entropy": functional.cross_entropy(scores[None], [0]),
        "decoupled": functional.decoupled(scores[:1], scores[None, 1:]),
    }


@pytest.mark.claim("negatives-linear-cost", shows="statement", evidence="exact")
@pytest.mark.parametrize("loss", ["cross entropy", "decoupled"])
def test_both_losses_write_as_many_elements_as_labels_and_every_score_matters(loss: str) -> None:
    written = []
    for classes in (1000, 2000, 4000):
        with Elements() as mode:
            full_losses(torch.zeros(classes, dtype=torch.float64))[loss]
        written.append(mode.written)
    # At most linear: twice as many labels more, twice as many elements more, and no more than thirty for a label.
    assert written[2] - written[1] == 2 * (written[1] - written[0])
    assert 0 < written[1] - written[0] <= 30 * 1000
    # At least linear: the loss changes with each score, so that each has to be read.
    scores = torch.linspace(-1, 1, 100, dtype=torch.float64).requires_grad_()
    (slopes,) = torch.autograd.grad(full_losses(scores)[loss], scores)
    assert bool((slopes != 0).all())


@pytest.mark.claim("negatives-lemma-1-mean", shows="statement", evidence="exact")
@pytest.mark.claim("negatives-lemma-1-var", shows="statement", evidence="exact")
@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(positive, positive, positive), min_size=2, max_size=4), st.integers(1, 4))
def test_lemma_1(terms: list[tuple[Fraction, Fraction, Fraction]], m: int) -> None:
    # The classes are the negatives, q_y = 0; phi(f_y) is a constant and left out.
    q = tuple(t[0] / sum(t[0] for t in terms) for t in terms)
    w, values = [t[1] for t in terms], [t[2] for t in terms]
    rho = [m * p * weight for p, weight in zip(q, w, strict=True)]
    total = sum((r * v for r, v in zip(rho, values, strict=True)), Q(0))
    squares = sum((weight * r * v**2 for weight, r, v in zip(w, rho, values, strict=True)), Q(0))
    assert mean(q, m, lambda counts: weighted_sum(counts, w, values)) == total
    assert mean(q, m, lambda counts: (weighted_sum(counts, w, values) - total) ** 2) == squares - total**2 / m
    if m > 1:  # D4: the last line of the printed proof has m times too much
        assert m * total != total


@pytest.mark.claim("negatives-lemma-1-mean", shows="statement", evidence="proof")
@pytest.mark.claim("negatives-lemma-1-var", shows="statement", evidence="proof")
def test_lemma_1_for_any_number_of_labels() -> None:
    # m independent draws of a term w phi with moments A = sum q w phi and B = sum q w^2 phi^2 have the mean m A and the
    # variance m (B - A^2). With rho = m q w: sum rho phi = m A, sum w rho phi^2 = m B, term by term.
    m, q, w, phi, A, B = sp.symbols("m q w phi A B", positive=True)
    rho = m * q * w
    assert sp.simplify(rho * phi - m * (q * w * phi)) == 0
    assert sp.simplify(w * rho * phi**2 - m * (q * w**2 * phi**2)) == 0
    assert sp.simplify((m * B - (m * A) ** 2 / m) - m * (B - A**2)) == 0


@pytest.mark.claim("negatives-rho-one", shows="statement", evidence="proof")
@pytest.mark.claim("negatives-only-admissible", shows="statement", evidence="proof")
def test_no_bias_at_all_scores_forces_rho_one() -> None:
    # The bias sum (rho - 1) phi is linear in the phi, which the scores move independently: its slope in phi_k is
    # rho_k - 1. Only rho = 1, so w = 1/(m q), makes all slopes 0. At one fixed score others do, too. The bound is
    # log(1 + .) of the same sum with e^{f_y' - f_y} for phi, so that it is the cross entropy for rho = 1 alone.
    m, q, w = sp.symbols("m q w", positive=True)
    phi = sp.symbols("phi:3", positive=True)
    rho = sp.symbols("rho:3", positive=True)
    bias = sum((r - 1) * v for r, v in zip(rho, phi, strict=True))
    assert sp.solve([sp.diff(bias, v) for v in phi], rho, dict=True) == [dict.fromkeys(rho, 1)]
    assert sp.solve(m * q * w - 1, w) == [1 / (m * q)]
    assert bias.subs(dict(zip(rho, (2, sp.Rational(1, 2), 1), strict=True)) | {phi[0]: 1, phi[1]: 2}) == 0


@pytest.mark.claim("negatives-lemma-2", shows="statement", evidence="proof")
def test_lemma_2_by_the_tangent() -> None:
    # With u = (1 + X)/(1 + EX), E u = 1: log u <= u - 1, since u - 1 - log u has slope 1 - 1/u, negative before 1 and
    # positive after it, and vanishes at 1. So E log(1 + X) <= log(1 + EX); EX = sum rho e^{..} is Lemma 1 again.
    u = sp.symbols("u", positive=True)
    difference = u - 1 - sp.log(u)
    assert difference.subs(u, 1) == 0
    assert sp.solve(sp.diff(difference, u), u) == [1]
    assert sp.diff(difference, u, 2) == 1 / u**2


MODEL = tuple(v / sum(VALUES) for v in VALUES)  # q proportional to e^f over all labels, the label's own term 1


@pytest.mark.claim("negatives-lemma-2", shows="statement", evidence="exact")
@pytest.mark.claim("negatives-importance-coincide", shows="statement", evidence="exact")
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("weights", ["constant", "importance", "tail"])
def test_the_expected_loss_lies_below_the_bound_in_integers(m: int, weights: Weights) -> None:
    # e^{D E log(1 + X)} < (1 + EX)^D, D the common denominator of the probabilities; equal where X is one number.
    for law in (PI, UNIFORM, MODEL):
        q, w = reference.scheme(law, Y, m, weights, "redraw", PI)
        power, d = exponentiated(q, m, w, VALUES)
        mu = sum((m * q[y] * w[y] * VALUES[y] for y in NEGATIVES), Q(0))
        bound, attained = (1 + mu) ** d, (law, weights) == (MODEL, "importance")
        assert power == bound if attained else power < bound
        assert mu == expected_sum(law, weights, m, "redraw")
        if weights == "importance":
            assert mu == S


def test_the_model_law_with_dropped_positives_is_below_the_bound() -> None:
    """Outside the hypothesis q_y = 0 of the sentence: the law of section 2.2, over all labels."""
    # In integers as above; one draw misses with probability q_y = 2/19, and its loss is then log 1.
    q, w = reference.scheme(MODEL, Y, 1, "importance", "mask")
    power, d = exponentiated(q, 1, w, VALUES)
    assert power < (1 + S) ** d
    assert MODEL[Y] == Q(2, 19)


@pytest.mark.claim("negatives-qstar-equality", shows="statement", evidence="exact")
@several_m
def test_the_model_law_on_the_negatives_gives_the_cross_entropy_every_time(m: int) -> None:
    q, w = reference.scheme(MODEL, Y, m, "importance", "redraw")
    assert {weighted_sum(counts, w, VALUES) for _, counts in draws(q, m)} == {S}


def test_no_weights_are_unbiased_for_the_cross_entropy_with_two_negatives_or_more() -> None:
    # Let one negative's a go to infinity. A sample in which it occurs c > 0 times has log(1 + c w a + rest) / log a ->
    # 1, any other a bounded loss; so E loss / log a -> P(drawn) = 1 - (1 - q)^m. The full loss has 1. No bias would
    # force q = 1 for each of the negatives. This covers every law and weights fixed before the scores, with
    # replacement, for every m; within fewer than n reads the mixed difference does it too.
    a, c, w, rest = sp.symbols("a c w rest", positive=True)
    assert sp.limit(sp.log(1 + c * w * a + rest) / sp.log(a), a, sp.oo) == 1
    assert sp.limit(sp.log(1 + rest) / sp.log(a), a, sp.oo) == 0
    q, m = sp.symbols("q m", positive=True)
    assert sp.solve(1 - (1 - q) ** m - 1, q) == [1]
    assert certificates.log_difference((1, 1, 1), (2, 2, 2)) != 1  # what every mean of two reads would make 1
    # With a single negative every sample has the full loss.
    for kind in ("importance", "constant"):
        alone, weights = reference.scheme((Q(1, 3), Q(2, 3)), 0, 3, kind, "redraw")  # type: ignore[arg-type]
        assert {weighted_sum(counts, weights, (Q(1), Q(5))) for _, counts in draws(alone, 3)} == {5}


@pytest.mark.claim("negatives-only-admissible", shows="statement", evidence="exact")
def test_importance_weights_are_unbiased_for_the_decoupled_loss_and_right_in_the_bound() -> None:
    for law, hits in product((PI, UNIFORM), ("redraw", "mask")):
        assert expected_sum(law, "importance", 3, hits) == S


@pytest.mark.claim("negatives-prop-4", shows="counterexample", evidence="exact")
def test_proposition_4_fails_where_q_vanishes_and_rho_does_not() -> None:
    # D10. q = (0, 1, 0): class 2 is never drawn, so whatever its weight the bound lacks its term.
    q, rho, values = (Q(0), Q(1), Q(0)), (Q(0), Q(1), Q(1)), (Q(1), Q(2), Q(3))
    for last in (Q(0), Q(1), Q(10**6)):
        w = (Q(0), rho[1], last)
        assert mean(q, 1, lambda counts: weighted_sum(counts, w, values)) == 2  # noqa: B023
    assert sum(r * v for r, v in zip(rho, values, strict=True)) == 5


@pytest.mark.claim("negatives-prop-4", shows="correction", evidence="proof")
def test_proposition_4_where_q_is_positive() -> None:
    m, q, rho = sp.symbols("m q rho", positive=True)
    assert sp.simplify(m * q * (rho / (m * q)) - rho) == 0
    log_rho = torch.tensor([0.0, -1.0, 2.0, -torch.inf], dtype=torch.float64)
    log_pi = log_of(PI)
    logits = torch.tensor([[0.5, 2.0, -1.0, 1.0]], dtype=torch.float64)
    for log_q in (log_pi, negatives.exclude(log_pi, Y)):  # q_y > 0 is covered as well
        bound = negatives.implicit_loss(logits[0], negatives.targeting(log_rho, log_q, Y, 7)).bound
        margin = functional.pairwise_margin(logits, torch.tensor([Y]), log_rho, reduction="sum")
        assert bound.item() == pytest.approx(margin.item(), rel=1e-14)


@pytest.mark.claim("negatives-prop-5", shows="statement", evidence="proof")
def test_the_variance_is_a_sum_of_squares() -> None:
    # m Var = sum b^2/q - (sum b)^2 with b = rho phi; for q summing to 1 it is, by Lagrange's identity,
    # sum over pairs of (b_i q_j - b_j q_i)^2 / (q_i q_j): zero if and only if q is proportional to b.
    b, q = sp.symbols("b:4", real=True), sp.symbols("q:4", positive=True)
    variance = sum(x**2 / p for x, p in zip(b, q, strict=True)) * sum(q) - sum(b) ** 2
    squares = sum((b[i] * q[j] - b[j] * q[i]) ** 2 / (q[i] * q[j]) for i, j in combinations(range(4), 2))
    assert sp.simplify(variance - squares) == 0
    assert sp.simplify(squares.subs(dict(zip(q, b, strict=True)))) == 0


@pytest.mark.claim("negatives-prop-5", shows="statement", evidence="exact")
@several_m
def test_the_least_variance_is_zero_for_margin_losses_and_not_for_signed_ones(m: int) -> None:
    rho = (Q(2), Q(1), Q(1, 3))
    for values in ((Q(1), Q(2), Q(6)), (Q(1), Q(0), Q(6)), (Q(1), Q(-2), Q(6))):  # 0, as the hinge loss: never drawn
        b = [r * v for r, v in zip(rho, values, strict=True)]
        size = sum(abs(x) for x in b)
        q = tuple(abs(x) / size for x in b)
        w = [r / (m * p) if p else Q(0) for r, p in zip(rho, q, strict=True)]
        total = mean(q, m, lambda counts: weighted_sum(counts, w, values))  # noqa: B023
        variance = mean(q, m, lambda counts: (weighted_sum(counts, w, values) - total) ** 2)  # noqa: B023
        assert variance == (size**2 - sum(b) ** 2) / m  # D13: q* needs the absolute value
        assert (variance == 0) == (min(values) >= 0)
        # The same in floating point: class 3 is the label.
        of_negatives = torch.tensor([*map(float, values), 1.0], dtype=torch.float64)
        log_rho = torch.tensor([*map(float, rho), 1.0], dtype=torch.float64).log()
        law = decoupled.least_variance_law(of_negatives, log_rho, 3)
        assert torch.allclose(law.exp()[:3], floats(q))
        drawn = log_rho.where(law.isfinite(), -torch.inf)
        attained = decoupled.moments(of_negatives, negatives.targeting(drawn, law, 3, m))
        assert [x.item() for x in attained] == pytest.approx([float(total), float(variance)], abs=1e-13)


@pytest.mark.claim("negatives-prop-5-cost", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("classes", [3, 100])
def test_the_best_law_takes_the_loss_of_every_negative(classes: int) -> None:
    # Each probability of q* moves with the loss of each negative: d q*_a / d phi_b = q*_a ([a = b] - q*_b) / phi_b.
    losses = 1 / torch.arange(1.0, classes + 1, dtype=torch.float64)
    rho = torch.zeros(classes, dtype=torch.float64)

    def law(phi: torch.Tensor) -> torch.Tensor:
        return decoupled.least_variance_law(phi, rho, 0)[1:].exp()

    moves = torch.autograd.functional.jacobian(law, losses)[:, 1:]
    q = law(losses)
    torch.testing.assert_close(moves, q[:, None] * (torch.eye(classes - 1) - q) / losses[1:], rtol=1e-10, atol=0)
    assert bool((moves != 0).all())


def gradient_variance(q: reference.Law, w: reference.Law, a: tuple[Fraction, ...], m: int) -> Fraction:
    """The summed variances of the gradient's coordinates n_l w_l a_l / (1 + X), the label's with them."""

    def gradient(counts: tuple[int, ...]) -> list[Fraction]:
        total = weighted_sum(counts, w, a)
        share = [c * u * v / (1 + total) for c, u, v in zip(counts, w, a, strict=True)]
        return [*share, -sum(share, Q(0))]

    means = [mean(q, m, lambda counts: gradient(counts)[k]) for k in range(len(a) + 1)]  # noqa: B023
    spreads = (mean(q, m, lambda counts: (gradient(counts)[k] - means[k]) ** 2) for k in range(len(a) + 1))  # noqa: B023
    return sum(spreads, Q(0))


@pytest.mark.claim("negatives-remark-3", shows="statement", evidence="exact")
def test_the_law_of_least_loss_variance_is_not_that_of_least_gradient_variance() -> None:
    # Three negatives with e^f as the positive's, m = 1, importance weights. The uniform law has the loss log 4 for each
    # draw, and its gradient puts all of 3/4 on the one negative drawn: variance 3 * (9/16/3 - 1/16) = 3/8.
    a, skew = (Q(1),) * 3, (Q(1, 8), Q(1, 8), Q(3, 4))
    best = (Q(1, 3),) * 3
    weights = {q: tuple(1 / p for p in q) for q in (best, skew)}
    sums = {q: {weighted_sum(c, weights[q], a) for _, c in draws(q, 1)} for q in (best, skew)}
    assert len(sums[best]) == 1 < len(sums[skew])
    assert gradient_variance(best, weights[best], a, 1) == Q(3, 8)
    assert gradient_variance(skew, weights[skew], a, 1) < Q(3, 8)


x, y, z, w, c = sp.symbols("x y z w c", positive=True)


@pytest.mark.claim("negatives-remark-4", shows="counterexample", evidence="proof")
def test_the_printed_correction_inverts_the_weight() -> None:
    # D2. Printed is f - log w; a term w e^{f' - f} becomes e^{f' - f} / w, wrong by w^-2.
    printed = sp.exp(x - sp.log(w) - y)
    assert sp.simplify(printed / (w * sp.exp(x - y)) - w**-2) == 0


@pytest.mark.claim("negatives-remark-4", shows="correction", evidence="proof")
def test_weights_are_added_logarithms() -> None:
    assert sp.simplify(sp.exp(x + sp.log(w) - y) - w * sp.exp(x - y)) == 0


@pytest.mark.claim("negatives-remark-4-positive", shows="statement", evidence="proof")
def test_a_counted_positive_is_a_correction_of_its_logit() -> None:
    # y the positive's logit, drawn c times with weight w; z stands for the negatives' weighted sum of e^f.
    loss = sp.log(1 + c * w + z * sp.exp(-y))
    corrected = sp.log(1 + z * sp.exp(-(y + sp.log(1 + c * w)))) + sp.log(1 + c * w)
    assert sp.simplify(sp.exp(loss) - sp.exp(corrected)) == 0


@pytest.mark.claim("negatives-remark-5", shows="statement", evidence="proof")
def test_corrections_of_both_logits_give_relative_weights() -> None:
    m, label_q, other_q = sp.symbols("m label_q other_q", positive=True)  # q_y and q_y'
    importance = sp.exp(x - sp.log(m * other_q) - y) / sp.exp(x - y)
    relative = sp.exp(x - sp.log(m * other_q) - (y - sp.log(m * label_q))) / sp.exp(x - y)
    assert sp.simplify(importance - 1 / (m * other_q)) == 0
    assert sp.simplify(relative - label_q / other_q) == 0


@pytest.mark.claim("negatives-remark-6", shows="statement", evidence="exact")
def test_leaving_hits_out_is_not_excluding_the_positive() -> None:
    # Masked: m draws of which Binomial(m, 1 - q_y) count; redrawn: all m do, each from q_y'/(1 - q_y).
    m = 3
    masked, _ = reference.scheme(PI, Y, m, "constant", "mask")
    redrawn, _ = reference.scheme(PI, Y, m, "constant", "redraw")
    counting = {hits: mean(q, m, lambda n: Q(sum(n) - n[Y])) for hits, q in (("mask", masked), ("redraw", redrawn))}
    assert counting == {"mask": m * (1 - PI[Y]), "redraw": m}
    assert all(redrawn[y] == masked[y] / (1 - PI[Y]) for y in NEGATIVES)
