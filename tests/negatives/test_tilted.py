"""Debiased and hard negatives: gradients, descent from random starts, a finite number of draws, the public code."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp.negatives.tilted import tilted
from tests.negatives.test_enumerated import logs

P, Q = logs(0.6, 0.25, 0.1, 0.05), logs(0.3, 0.2, 0.1, 0.4)


def risk(tau: float, beta: float) -> Callable[[Tensor], Tensor]:
    """The mean loss with infinite weight, up to a constant."""
    p, rest = P.exp(), (Q.exp() - tau * P.exp()) / (1 - tau)

    def of_scores(f: Tensor) -> Tensor:
        log_mean = torch.logsumexp(rest.log() + (1 + beta) * f, 0) - torch.logsumexp(rest.log() + beta * f, 0)
        return p @ (log_mean - f)

    return of_scores


@pytest.mark.claim("sumexp-tilted", shows="statement", evidence="exact")
@pytest.mark.parametrize("tau, beta", [(0, 0), (0.3, 0), (0, 0.5), (0.3, 2.0)])
def test_descent_from_random_scores_ends_at_the_stationary_point(tau: float, beta: float) -> None:
    expected = tilted(P, Q, tau=tau, beta=beta)
    assert torch.autograd.functional.jacobian(risk(tau, beta), expected).abs().max() < 1e-12
    v, rest = expected.exp(), (Q.exp() - tau * P.exp()) / (1 - tau)
    inverse = v**beta * ((1 + beta) * v - beta) * rest / P.exp()  # 1 / kappa, one number: the mean of v^beta
    torch.testing.assert_close(inverse, (rest @ v**beta).expand(4), rtol=1e-11, atol=0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        f = (2 * torch.randn(4, generator=generator, dtype=torch.float64)).requires_grad_()
        search = torch.optim.LBFGS(
            [f], max_iter=500, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
        )

        def again() -> Tensor:
            search.zero_grad()  # noqa: B023
            loss = risk(tau, beta)(f)  # noqa: B023
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        search.step(again)  # type: ignore[arg-type]
        moved = f.detach() - expected
        assert (moved - moved.mean()).abs().max() < 1e-5


@pytest.mark.claim("sumexp-tilted", shows="statement", evidence="exact")
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 30), min_size=3, max_size=6),
    st.lists(st.integers(1, 30), min_size=6, max_size=6),
    st.floats(0, 0.9),
    st.floats(0, 20),
)
@example([1, 1, 1], [1] * 6, 0.0, 5e-324)
def test_neither_tau_nor_beta_changes_the_order(labels: list[int], drawn: list[int], share: float, beta: float) -> None:
    counts = torch.tensor(labels).double(), torch.tensor(drawn[: len(labels)]).double()
    log_p, log_q = (torch.log(n / n.sum()) for n in counts)
    got = tilted(log_p, log_q, tau=share * (log_q - log_p).min().exp().item(), beta=beta)
    assert (got[(log_p - log_q).argsort()].diff() > -1e-12).all()
    floor = math.log(beta / (1 + beta)) if beta else -math.inf
    assert (got > floor - 1e-12).all()


@pytest.mark.claim("since-debiased-corrects", shows="statement", evidence="exact")
def test_the_mean_over_true_negatives_in_rational_numbers() -> None:
    positives = Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)
    negatives = Fraction(1, 4), Fraction(0), Fraction(3, 4)
    share, values = Fraction(1, 5), (7, -2, 3)
    draws = [share * a + (1 - share) * b for a, b in zip(positives, negatives, strict=True)]

    def mean(law: list[Fraction] | tuple[Fraction, ...]) -> Fraction:
        return sum((a * v for a, v in zip(law, values, strict=True)), Fraction(0))

    assert (mean(draws) - share * mean(positives)) / (1 - share) == mean(negatives)


@pytest.mark.claim("since-debiased-corrects", shows="statement", evidence="exact")
@pytest.mark.claim("sumexp-tilted", shows="statement", evidence="exact")
def test_debiased_learns_the_ratio_to_true_negatives() -> None:
    ratio, most = (P - Q).exp(), (Q - P).exp().min().item()
    for tau in (0.1, 0.9 * most):
        got = tilted(P, Q, tau=tau).exp()
        assert torch.allclose(got / got[0], ratio / (1 - tau * ratio) * (1 - tau * ratio[0]) / ratio[0])
    with pytest.raises(ValueError, match=r"less than min q/P, 0.5: no law is left"):
        tilted(P, Q, tau=most)
    for tau in (most + 0.01, 0.9):  # the class of the largest P/q up: what should be a mean of exponentials is negative
        f = torch.tensor([20.0, 0, 0, 0], dtype=torch.float64)
        assert (Q.exp() @ f.exp() - tau * P.exp() @ f.exp()) < 0


@pytest.mark.claim("since-hard-control", shows="statement", evidence="exact")
def test_hardness_compresses_the_top_and_lifts_the_bottom() -> None:
    log_q = torch.full((4,), 0.25, dtype=torch.float64).log()
    log_p = torch.tensor([0.0, -1e-3, -40.0, -80.0], dtype=torch.float64).log_softmax(0)
    gaps = []
    for beta in (0.5, 2.0, 8.0):
        got = tilted(log_p, log_q, beta=beta)
        floor = math.log(beta / (1 + beta))
        assert got[2:].tolist() == pytest.approx([floor, floor], abs=1e-12)  # 40 nats apart, and not distinguished
        gaps.append((got[0] - got[2]).item())
    assert gaps == sorted(gaps, reverse=True)
    steep = logs(*(torch.tensor([1.0, 2.0]) / torch.tensor([1.0, 2.0]).sum()).tolist())
    rare = torch.tensor([-30.0, -30.0, 0.0], dtype=torch.float64).log_softmax(0)
    mixed = torch.cat([steep + math.log(0.5), logs(0.5)])
    for beta in (1.0, 4.0):  # where P/q is 10^13, twice P/q is 2^(1/(1 + beta)) times e^f
        got = tilted(mixed, rare, beta=beta)
        assert (got[1] - got[0]).item() == pytest.approx(math.log(2) / (1 + beta), rel=1e-3)


@pytest.mark.claim("sumexp-tilted-share", shows="statement", evidence="exact")
def test_the_share_of_positives_among_tilted_draws() -> None:
    """e^f is 2 for the first class and 1 for the second; positives are all of the first, 1/3 of the draws."""
    positives, others, share, tilt = (1, 0), (0, 1), Fraction(1, 3), (2, 1)
    mass = [(share * a + (1 - share) * b) * e for a, b, e in zip(positives, others, tilt, strict=True)]
    assert mass[0] / sum(mass) == Fraction(1, 2) != share
    of_positives = share * sum(a * e for a, e in zip(positives, tilt, strict=True))
    assert of_positives / sum(mass) == Fraction(1, 2)  # tau E_P e^f / E_q e^f


def test_without_the_clamp_the_public_loss_takes_the_logarithm_of_a_negative_number() -> None:
    """A batch of 256, tau 0.1, temperature 0.5: a positive of cosine 1, all 510 negatives of cosine -1."""
    count, tau, temperature = 510, 0.1, 0.5
    positive, negative = math.exp(1 / temperature), math.exp(-1 / temperature)
    estimate = (-tau * count * positive + count * negative) / (1 - tau)
    assert positive + estimate < -300
    assert positive + max(estimate, count * math.exp(-1 / temperature)) > 0
