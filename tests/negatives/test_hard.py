"""Hard negatives from a few draws: the integral by every multiset and by chance, its minima, and another library's."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import optimize
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from sumexp.negatives import enumerated, hard
from sumexp.negatives.consistency import minimiser, multiset_losses
from sumexp.negatives.hard import hard_losses, hard_minimum
from sumexp.negatives.tilted import tilted
from tests.negatives.test_enumerated import logs

P, Q = logs(0.6, 0.25, 0.1, 0.05), logs(0.1, 0.2, 0.3, 0.4)
SCORES = torch.tensor([1.0, -2.0, 0.5, 0.3], dtype=torch.float64)


@pytest.mark.claim("sumexp-hard-finite", shows="statement", evidence="exact")
@pytest.mark.parametrize("m", [1, 3, 8])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 4.0, 20.0])
def test_the_integral_is_the_mean_over_all_multisets(m: int, beta: float) -> None:
    counts, chance = enumerated.draws(Q, m)
    for scores in (SCORES, 10 * SCORES):  # negatives far above the label, too
        expected = chance @ enumerated.hard(beta)(scores, counts, Q)
        assert torch.allclose(hard_losses(Q, m, beta)(scores), expected, rtol=1e-12, atol=1e-12)
    slope = jacobian(lambda f: P.exp() @ hard_losses(Q, m, beta)(f), SCORES)
    listed = jacobian(lambda f: P.exp() @ (chance @ enumerated.hard(beta)(f, counts, Q)), SCORES)
    assert torch.allclose(slope, listed, rtol=1e-10, atol=1e-12)


def test_interpolation_between_labels_is_exact_to_twelve_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    log_q = torch.randn(100, generator=generator, dtype=torch.float64).log_softmax(0)
    scores = 2 * torch.randn(100, generator=generator, dtype=torch.float64)
    assert len(hard._nodes(scores, 1e-12)[0]) < 70
    got = hard_losses(log_q, 7, 1.0)(scores)
    monkeypatch.setattr(hard, "_nodes", lambda scores, tol: (scores, lambda values: values))
    assert torch.allclose(got, hard_losses(log_q, 7, 1.0)(scores), rtol=1e-12)


def test_the_coarse_curvature_is_about_the_hessian() -> None:
    losses, vector = hard_losses(Q, 3, 1.0), torch.tensor([1.0, -1.0, 2.0, 0.0], dtype=torch.float64)
    full = hessian(lambda f: P.exp() @ losses(f), SCORES)
    product = losses.curvature(SCORES, P.exp())(vector)  # type: ignore[attr-defined]
    assert torch.allclose(product, full @ vector, rtol=1e-3, atol=1e-3)


@pytest.mark.claim("sumexp-hard-finite", shows="statement", evidence="exact")
@pytest.mark.parametrize("m, beta", [(1, 4.0), (2, 1.0), (5, 0.5), (5, 4.0)])
def test_the_minimum_by_the_integral_and_by_enumeration(m: int, beta: float) -> None:
    got = hard_minimum(P, Q, m, beta).log_softmax(0)
    assert torch.allclose(got, enumerated.estimate(enumerated.hard(beta), P, Q, m).log_f, rtol=0, atol=1e-8)


@pytest.mark.claim("sumexp-hard-finite", shows="statement", evidence="exact")
@pytest.mark.parametrize("m, beta", [(1, 3.0), (6, 0.0)])
def test_one_draw_or_no_hardness_learns_the_ratio(m: int, beta: float) -> None:
    got = hard_minimum(torch.nn.Parameter(P), Q, m, beta).log_softmax(0)
    assert torch.allclose(got, (P - Q).log_softmax(0), atol=1e-9)


@pytest.mark.claim("sumexp-hard-finite", shows="statement", evidence="exact")
def test_the_distance_to_the_limit_falls_as_one_over_the_number_of_draws() -> None:
    limit = hard_minimum(P, Q, math.inf, 1.0)
    first, second = ((hard_minimum(P, Q, m, 1.0) - limit).abs().max().item() for m in (500, 1000))
    assert first / second == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("beta", [1.0, 4.0, 20.0])
def test_no_descent_from_random_scores_ends_lower(beta: float) -> None:
    """Six random laws each, over all multisets of draws; one start alone ended higher for one law in forty."""
    generator, starts = torch.Generator().manual_seed(round(beta)), np.random.default_rng(0)

    def law(classes: int, scale: float) -> Tensor:
        return (scale * torch.randn(classes, generator=generator, dtype=torch.float64)).log_softmax(0)

    for case in range(6):
        classes, m = 3 + case % 2, 2 + case % 3
        log_p, log_q = law(classes, 2.0), law(classes, 1.0 + case % 2)
        counts, chance = enumerated.draws(log_q, m)

        def risk(scores: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            f = torch.from_numpy(scores).requires_grad_()
            value = chance @ enumerated.hard(beta)(f, counts, log_q) @ log_p.exp()  # noqa: B023
            return value.item(), torch.autograd.grad(value, f)[0].numpy()

        ends = [
            optimize.minimize(risk, scale * starts.standard_normal(classes), jac=True, method="BFGS").fun
            for scale in (0.5, 1, 2, 3)
        ]
        assert risk(hard_minimum(log_p, log_q, m, beta).numpy())[0] <= min(ends) + 1e-7


def test_the_lowest_of_two_minima_is_found() -> None:
    """A law of four classes whose minimum from the limit of many draws is .02 nats too high."""
    log_p, log_q = logs(0.331, 0.201, 0.005, 0.463), logs(0.297, 0.135, 0.403, 0.165)
    risks = []
    for scores in (hard_minimum(log_p, log_q, 3, 4.0), torch.tensor([0.772, 0.846, -2.680, 1.062])):
        risks.append((log_p.exp() @ hard_losses(log_q, 3, 4.0)(scores.double())).item())
    assert risks[0] <= risks[1] < 1.301


@pytest.mark.claim("sumexp-hard-finite", shows="statement", evidence="exact")
def test_great_hardness_and_three_draws_have_two_minima() -> None:
    """By the listed draws, whose Hessian has one eigenvalue 0, that of a common shift."""
    log_q = logs(0.3, 0.2, 0.1, 0.4)
    counts, chance = enumerated.draws(log_q, 3)

    def risk(f: Tensor) -> Tensor:
        return P.exp() @ (chance @ enumerated.hard(20.0)(f, counts, log_q))

    risks = []
    for start in ((P - log_q) / 3, tilted(P, log_q, beta=20.0)):
        f = minimiser(hard_losses(log_q, 3, 20.0), P.exp(), start, tol=1e-11)
        assert jacobian(risk, f).abs().max() < 1e-9
        assert torch.linalg.eigvalsh(hessian(risk, f))[1] > 0.01
        risks.append(risk(f).item())
    assert risks[0] - risks[1] > 1e-3


@pytest.mark.parametrize("m, level, power", [(10**6, 0.0, 2.0), (3, -14.0, 3.0), (200, -20.0, 3.0)])
def test_weights_without_gradient_and_without_a_mean_learn_by_the_level(m: int, level: float, power: float) -> None:
    r"""Those of sentence-transformers, :math:`e^{\beta f}`, here with :math:`\beta=1`.

    A constant that is added to all scores changes the loss. Where the negatives outweigh the label, as with many of
    them, P/q to the power of 1/(1 + beta) is stationary; where the label outweighs them, the power of 1/(2 + beta).
    """
    law, log_q = logs(0.5, 0.3, 0.2), logs(0.2, 0.3, 0.5)

    def slope(power: float) -> Tensor:
        scores = (law - log_q) / power + level
        losses = multiset_losses(log_q, m, (torch.zeros(3, dtype=torch.float64), scores), "keep")
        value: Tensor = jacobian(lambda f: law.exp() @ losses(f), scores)
        return value / value.new_tensor(1.0).clamp_max(m * math.exp(level))  # small where the loss is

    assert slope(power).abs().max() < 1e-4
    assert slope(5 - power).abs().max() > 1e-2
