"""The exact optimum of local NCE by Newton, and how near scores come to it."""

from math import log

import numpy as np
import pytest
import torch

from sumexp.chapters.models import skipgram
from sumexp.nce import Joint, local_nce

LAW = Joint.from_counts(torch.tensor([[9.0, 3.0, 0.0], [3.0, 4.0, 5.0], [0.0, 5.0, 1.0]]))


@pytest.mark.claim("nce-local-optimum", shows="statement", evidence="quadrature")
@pytest.mark.claim("nce-pmi", shows="statement", evidence="quadrature")
@pytest.mark.parametrize("negatives", [1, 5, 1000])
def test_newton_finds_the_pmi(negatives: int) -> None:
    """Seen pairs to 1e-10; a pair never seen loses about 1 a step, without end."""
    found = skipgram.newton(LAW, negatives)
    seen = LAW.p > 0
    torch.testing.assert_close(found[seen], LAW.pmi[seen] - log(negatives), rtol=0, atol=1e-10)
    assert bool((found[~seen] < -55).all())
    assert bool((skipgram.newton(LAW, negatives, steps=61)[~seen] < found[~seen] - 0.99).all())


def test_newton_with_other_noise_finds_the_optimal_scores() -> None:
    log_q = torch.log_softmax(0.75 * LAW.y.log(), 0)
    seen = LAW.p > 0
    found = skipgram.newton(LAW, 3, log_q)[seen]
    torch.testing.assert_close(found, local_nce.optimal_scores(LAW, 4, log_q)[seen], rtol=0, atol=1e-10)


def test_correlation_is_numpys() -> None:
    a, b = torch.randn(2, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    times = torch.arange(1, 21)
    plain, repeated = (np.corrcoef(*(v.repeat_interleave(n).numpy() for v in (a, b))) for n in (1, times))
    assert skipgram.correlation(a, b, torch.ones_like(a)) == pytest.approx(plain[0, 1], rel=1e-12)
    assert skipgram.correlation(a, b, times.double()) == pytest.approx(repeated[0, 1], rel=1e-12)


def test_the_optimum_and_independence_are_the_ends_of_the_scale() -> None:
    log_q = torch.log_softmax(0.5 * LAW.y.log(), 0)
    at_best = skipgram.compare(LAW, skipgram.newton(LAW, 4, log_q), 4, log_q)
    assert at_best.won == pytest.approx(1, abs=1e-12)
    assert at_best.weighted == pytest.approx(1, abs=1e-12)
    assert at_best.unweighted == pytest.approx(1, abs=1e-12)
    nothing = LAW.y.log() - log_q - log(4)
    assert skipgram.compare(LAW, nothing.expand(3, 3) + 1e-9 * LAW.p, 4, log_q).won == pytest.approx(0, abs=1e-6)
