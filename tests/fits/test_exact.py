"""Fits without samples: why one family of noise beats another."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from sumexp.chapters import fits
from sumexp.chapters.fits import grids, objectives, targets
from sumexp.perturb import inversion, softmax
from sumexp.perturb.noises import FAMILIES, Family


@pytest.mark.claim("perturb-fig-4", shows="correction", evidence="quadrature")
@pytest.mark.claim("perturb-fig-9", shows="correction", evidence="quadrature")
@pytest.mark.parametrize("target", targets.NAMES)
@pytest.mark.parametrize("noise", FAMILIES)
def test_every_family_meets_every_target(target: targets.Name, noise: Family) -> None:
    # Nothing can be approximated "better": at theta* every objective is 0, to the last digits, at every temperature.
    p = fits.window(target, 1e-9).p
    for tau in (0.1, 1.0):
        law = softmax.mean(inversion.softmax_parameters(p, FAMILIES[noise](), tau), FAMILIES[noise](), tau)
        assert (law - p).abs().max() < 1e-12
        for objective in objectives.OBJECTIVES:
            assert abs(objectives.value(objective, law, p).item()) < 1e-12


# Exact means, temperature 0.1, after 200 steps: Gumbel's objective over Gaussian's at unit scale and at equal gain.
RATIOS = {
    "discrete": (2532, 1.81), "binomial": (4.75, 1.26), "poisson": (10.26, 1.08), "negative-binomial": (10.63, 1.08)
}  # fmt: skip


@cache
def trained(config: fits.FitConfig) -> Mapping[str, NDArray[np.float64]]:
    """The arrays of a fit: the Gumbel's at equal gain is that at unit scale."""
    return fits.train(config).arrays


@pytest.mark.claim("perturb-fig-4", shows="correction", evidence="quadrature")
@pytest.mark.claim("perturb-fig-9", shows="correction", evidence="quadrature")
@pytest.mark.parametrize("target", RATIOS)
def test_the_advantage_is_that_of_a_longer_first_step(target: targets.Name) -> None:
    for matching, expected in zip(("unit", "gain"), RATIOS[target], strict=True):
        normal, gumbel = (
            trained(grids.matched(target, noise, matching))["final"].item()  # type: ignore[arg-type]
            for noise in ("gaussian", "gumbel")
        )
        assert gumbel / normal == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("noise", FAMILIES)
def test_the_fit_begins_at_the_uniform_law_and_follows_the_exact_descent(noise: Family) -> None:
    drawn = fits.train(fits.FitConfig("discrete", noise, seeds=(0, 1, 2, 3), steps=50)).arrays
    exact = fits.train(fits.FitConfig("discrete", noise, samples=None, steps=50)).arrays
    p = fits.published("discrete").p
    uniform = -(p.log().mean() + torch.tensor(10.0).log())  # sum of (1/10) log((1/10)/p)
    assert exact["objective"][0, 0, 0, 0] == pytest.approx(uniform.item(), rel=1e-6)
    # 1,000 draws: the four last laws stay within 0.02 of the exact descent's, many times what was seen (0.006).
    assert np.abs(drawn["law"] - exact["law"]).max() < 0.02


@pytest.mark.parametrize("noise", ["gumbel", "logistic"])
def test_cold_gumbel_softmax_is_the_softmax(noise: Family) -> None:
    # E softmax((theta + gamma)/tau) = E softmax(theta + tau gamma): at tau = 0.1 hardly noise at all.
    objective = trained(grids.matched("poisson", noise, "unit"))["objective"][0, 0, 0]
    p, theta = fits.published("poisson").p, torch.zeros(100, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([theta], lr=0.01)
    for step in range(201):
        loss = torch.nn.functional.softmax(theta, -1) @ (theta.log_softmax(-1) - p.log())
        assert objective[step] == pytest.approx(loss.item(), rel=0.003 if noise == "gumbel" else 0.03)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()


def outcomes(mu: NDArray[np.float64], sigma: NDArray[np.float64]) -> list[float]:
    """Of the invertible Gaussian with three outcomes: the distribution of the argmax of (x_1, x_2, 0), x normal."""

    def first(outcome: int) -> float:
        other = 1 - outcome
        below = lambda x: norm.pdf(x, mu[outcome], sigma[outcome]) * norm.cdf(x, mu[other], sigma[other])  # noqa: E731
        return float(quad(below, 0, np.inf, epsabs=1e-13)[0])

    return [first(0), first(1), float(norm.cdf(0, mu, sigma).prod())]


@pytest.mark.claim("perturb-invertible-gaussian", shows="statement", evidence="quadrature")
def test_the_invertible_gaussian_has_one_distribution_for_many_parameters() -> None:
    # argmax(cx, 0) = argmax(x, 0) for c > 0: (c mu, c sigma) and (mu, sigma) have one distribution.
    mu, sigma = np.array([0.5, -0.2]), np.array([1.0, 2.0])
    probabilities = outcomes(mu, sigma)
    assert sum(probabilities) == pytest.approx(1, abs=1e-10)
    assert outcomes(3 * mu, 3 * sigma) == pytest.approx(probabilities, abs=1e-10)
    assert outcomes(3 * mu, sigma) != pytest.approx(probabilities, abs=0.1)

    # The mean of the softmax of (x, 0) rises in mu from 0 to 1 at every sigma, so that it reaches 0.3 at each.
    def mean(mu: float, sigma: float) -> float:
        at = lambda x: expit(x) * norm.pdf(x, mu, sigma)  # noqa: E731
        return float(quad(at, mu - 40 * sigma, mu + 40 * sigma, points=[mu], epsabs=1e-13)[0])

    roots = [brentq(lambda mu, sigma=sigma: mean(mu, sigma) - 0.3, -20, 20, xtol=1e-12) for sigma in (0.5, 1.0, 2.0)]
    assert [mean(*pair) for pair in zip(roots, (0.5, 1.0, 2.0), strict=True)] == pytest.approx([0.3] * 3, abs=1e-10)
    assert np.diff(roots).max() < -0.05
