"""The cost of an estimated log q: in closed form, by a search for the minimum, and for streamed estimates."""

from math import exp, inf, log
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian

from sumexp import samplers
from sumexp.negatives.consistency import minimiser, multiset_losses
from sumexp.negatives.estimated import cost
from sumexp.nn import StreamingLogQ

PAGE = Path(__file__).parents[2] / "book" / "api" / "nn.md"


def laws(classes: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    p, q, error = torch.randn(3, classes, generator=generator, dtype=torch.float64)
    return torch.log_softmax(p, -1), torch.log_softmax(q, -1), torch.log_softmax(q, -1) + error


def test_by_hand() -> None:
    half = torch.tensor([0.5, 0.5], dtype=torch.float64).log()
    # Class 0 estimated e times as frequent: log((e + 1)/2) - 1/2.
    off = half + torch.tensor([1.0, 0.0])
    assert cost(half, half, off).item() == pytest.approx(log((exp(1) + 1) / 2) - 0.5)
    assert cost(half, half, half + 3).item() == pytest.approx(0, abs=1e-15)
    p = (rows := torch.tensor([[0.6, 0.3, 0.1]] * 2, dtype=torch.float64).log())[0].exp()
    actual = hessian(lambda off: cost(rows[0], rows, off).sum(), rows - 1)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(actual[0, :, 0], p.diag() - p.outer(p), rtol=1e-12, atol=1e-15)  # the variance
    # The third class is never drawn: no matter where it does not occur.
    truth = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], dtype=torch.float64).log()
    assert cost(truth, truth[0], truth[0].clamp(min=-5)).tolist() == [0, inf]


@pytest.mark.parametrize("m", [1, 3, 100])
def test_it_is_the_divergence_of_the_minimum_of_the_exact_loss(m: int) -> None:
    log_p, log_q, estimate = laws()
    wanted = cost(torch.stack([log_p, log_q]), log_q, estimate)[0].item()
    assert wanted > 0.1
    scores = minimiser(multiset_losses(log_q, m, (estimate, -estimate), "keep"), log_p.exp())
    assert (log_p.exp() * (log_p - scores.log_softmax(-1))).sum().item() == pytest.approx(wanted, rel=1e-7)


def test_streamed_gaps_cost_a_quarter_of_the_rate() -> None:
    """20 streams of 100,000 draws of 60 classes; each error has the variance rate/2, independent of the others.

    With the truth uniform the cost is half the variance among 60 errors, rate/4 * 59/60, and its mean over 20 streams
    has a relative standard error of sqrt(2/(59 * 20)) = 4 % (gaps are no normal numbers: 5 %); five of them are
    allowed, and 5 % for what is left of the first estimates and of higher orders.
    """
    law, rate, truth = samplers.LogUniform(60), 0.02, torch.full((60,), -log(60), dtype=torch.float64)
    log_q, source, got = law.log_prob(range(60)).double(), torch.Generator().manual_seed(0), []
    for _ in range(20):
        stream = StreamingLogQ(60, rate=rate)
        stream.update(law.sample((100_000,), source))
        got.append(cost(truth, log_q, stream(range(60))).item())
    assert sum(got) / 20 == pytest.approx(rate / 4 * 59 / 60, rel=0.3)


def test_the_number_on_the_page_is_that_of_the_default_rate() -> None:
    rate = StreamingLogQ(2).rate
    assert f"{rate / 4:g} nats of divergence from the truth at the default rate of {rate:g}." in PAGE.read_text()
