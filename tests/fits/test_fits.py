"""Fits of perturbed softmaxes: targets, objectives, training and speed."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp.chapters import fits
from sumexp.chapters.fits import grids, objectives, reach, targets, training
from sumexp.perturb import argmax, softmax
from sumexp.perturb.noises import FAMILIES, Exponential, Gaussian, Gumbel, Logistic, Uniform, point_mass

SMALL = fits.FitConfig("discrete", "gumbel", samples=50, steps=3, seeds=(1, 2))
EXACT = replace(SMALL, samples=None)


def test_the_weights_and_the_binomial_by_hand() -> None:
    assert (fits.published("discrete").p * 46 - torch.tensor([10.0, 1, 5, 1, 10, 10, 1, 6, 1, 1])).abs().max() < 1e-14
    binomial = fits.published("binomial")
    by_hand = [math.comb(12, k) * 0.3**k * 0.7 ** (12 - k) for k in range(12)]
    assert len(binomial.p) == 12
    assert binomial.dropped == pytest.approx(0.3**12, rel=1e-9)
    assert binomial.p.tolist() == pytest.approx([mass / (1 - 0.3**12) for mass in by_hand], rel=1e-12)


def test_what_is_not_said_is_the_public_code_with_the_paper_s_samples() -> None:
    fit = fits.FitConfig("poisson", "gaussian")
    assert (fit.scale, fit.temperatures, fit.rates, fit.samples, fit.steps) == (1, (0.1,), (0.01,), 1000, 200)
    usual = torch.optim.Adam([torch.zeros(1)]).defaults
    assert (usual["betas"], usual["eps"]) == (training.BETAS, training.EPS)
    assert {grids.sampled("poisson", "gaussian", profile).steps for profile in ("cpu", "paper")} == {200}


@pytest.mark.parametrize("classes", [20, 40, 100])
def test_what_the_published_truncations_drop(classes: int) -> None:
    # Poisson(50) and the failures before the 50th success at 0.6, summed in log space from the definition.
    terms = {
        "poisson": [-50 + k * math.log(50) - math.lgamma(k + 1) for k in range(400)],
        "negative-binomial": [
            math.lgamma(k + 50) - math.lgamma(50) - math.lgamma(k + 1) + 50 * math.log(0.6) + k * math.log(0.4)
            for k in range(400)
        ],
    }
    for name, logs in terms.items():
        target = fits.published(name, classes)  # type: ignore[arg-type]
        beyond = math.fsum(math.exp(log) for log in logs[classes:])
        assert target.dropped == pytest.approx(beyond, rel=1e-9)
        kept = math.fsum(math.exp(log) for log in logs[:classes])
        assert target.p.tolist() == pytest.approx([math.exp(log) / kept for log in logs[:classes]], rel=1e-9)
        # KL to the law as it is, for the uniform q: the floor and the divergence to the renormalised law.
        uniform = torch.full((classes,), 1 / classes, dtype=torch.float64)
        raw = sum((math.log(1 / classes) - log) / classes for log in logs[:classes])
        assert objectives.value("reverse", uniform, target.p).item() + target.floor == pytest.approx(raw, rel=1e-9)


@pytest.mark.parametrize("name", targets.NAMES)
@pytest.mark.parametrize("dropped", [0.5, 1e-3, 1e-9])
def test_a_window_is_as_short_as_its_promise_allows(name: targets.Name, dropped: float) -> None:
    full, window = targets._masses(name), fits.window(name, dropped)
    end = window.first + len(window.p)
    left, right = full[: window.first].sum(), full[end:].sum()
    assert max(left, right) <= dropped / 2
    assert window.dropped == pytest.approx(left + right, rel=1e-9, abs=1e-300)
    assert left + full[window.first] > dropped / 2
    assert right + full[end - 1] > dropped / 2
    assert window.p.sum().item() == pytest.approx(1, abs=1e-14)


def test_wrong_targets_are_refused() -> None:
    wrong = (
        ("geometric", None, "expected one of discrete"),
        ("binomial", 14, "is 14"),
        ("poisson", 1, "classes is 1;"),
    )
    for name, classes, message in wrong:
        with pytest.raises(ValueError, match=message):
            fits.published(name, classes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dropped is 0"):
        fits.window("poisson", 0.0)


def test_objectives_by_hand() -> None:
    q, p = torch.tensor([0.5, 0.5]), torch.tensor([0.8, 0.2])
    expected = {
        "reverse": 0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2),
        "forward": 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5),
        "absolute": 0.3 + 0.3,
        "squared": 0.09 + 0.09,
    }
    for objective in objectives.OBJECTIVES:
        assert objectives.value(objective, q, p).item() == pytest.approx(expected[objective], rel=1e-6)
        assert objectives.value(objective, p, p).item() == 0
    for function in (objectives.value, objectives.slope):
        with pytest.raises(ValueError, match="objective is 'norm'"):
            function("norm", q, p)  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", objectives.OBJECTIVES)
@settings(deadline=None, max_examples=30)
@given(logits=st.lists(st.floats(-80, 80), min_size=3, max_size=3))
def test_slopes_are_gradients_on_the_simplex(objective: objectives.Objective, logits: list[float]) -> None:
    p = torch.tensor([0.5, 0.3, 0.2])
    theta = torch.tensor(logits, requires_grad=True)  # single precision: probabilities underflow
    q = theta.softmax(-1)
    along = objectives.slope(objective, q.detach(), p)
    by_slope = q.detach() * (along - (q.detach() * along).sum())
    assert bool(torch.isfinite(by_slope).all())
    (by_autograd,) = torch.autograd.grad(objectives.value(objective, q, p), theta)
    if q.min() > 1e-30:
        assert torch.allclose(by_slope, by_autograd, rtol=1e-3, atol=1e-5)


def test_a_fit_equals_torch_adam_on_autograd() -> None:
    target = fits.published("discrete").p
    config = replace(EXACT, temperatures=(0.5,), rates=(0.05,), steps=10, noise="logistic")
    result = fits.train(config)
    arrays, metrics = result.arrays, result.metrics
    theta = torch.zeros(10, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([theta], lr=0.05)
    for step in range(11):
        q = softmax.mean(theta, Logistic(), 0.5)
        loss = (q * (q / target).log()).sum()
        assert arrays["objective"][0, 0, 0, step] == pytest.approx(loss.item(), rel=1e-9)
        if step < 10:
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    assert arrays["theta"][0, 0, 0] == pytest.approx(theta.detach().numpy(), rel=1e-8)
    assert arrays["law"][0, 0, 0] == pytest.approx(q.detach().numpy(), rel=1e-9)
    assert arrays["final"][0, 0, 0] == pytest.approx(arrays["objective"][0, 0, 0, -1], rel=1e-9)
    assert metrics["final"] == arrays["final"][0, 0, 0]


def test_the_sampled_gradient_is_that_of_the_mean_of_the_draws() -> None:
    target = fits.published("discrete").p
    config = replace(SMALL, temperatures=(0.1, 1.0), rates=(0.01, 0.1))
    generators = [torch.Generator().manual_seed(seed) for seed in config.seeds]
    theta = torch.zeros(2, 2, 2, 10, dtype=torch.float64) + torch.linspace(0, 1, 10)
    values, gradients = training._drawn(theta, target, config, generators)
    generator = torch.Generator().manual_seed(2)
    noise = Gumbel().from_logit(torch.logit(torch.rand(50, 10, generator=generator)))
    logits = theta[0, 0, 1].float().requires_grad_()
    mean = torch.softmax((logits + noise) / 0.1, -1).mean(0)
    loss = (mean * (mean / target.float()).log()).sum()
    (expected,) = torch.autograd.grad(loss, logits)
    assert values[0, 0, 1].item() == pytest.approx(loss.item(), rel=1e-5)
    assert torch.allclose(gradients[0, 0, 1].float(), expected, rtol=1e-3, atol=1e-6)
    assert bool((values[:, 0] == values[:, 1]).all())  # the rates see the same draws


def test_the_objective_of_draws_is_near_the_exact_one() -> None:
    # 400 draws of the objective at 0: its mean is the exact value plus the excess; at z = 5 a false alarm in 2 million.
    config = replace(SMALL, samples=500, steps=1, seeds=tuple(range(400)))
    objective = fits.train(config).arrays["objective"][0, 0, :, 0]
    exact = fits.train(replace(EXACT, steps=1)).arrays["objective"][0, 0, 0, 0]
    above = exact + reach.excess(torch.full((10,), 0.1, dtype=torch.float64), Gumbel(), 0.1, 500)
    assert abs(objective.mean() - above) < 5 * objective.std() / math.sqrt(400)
    # and the excess is most of the nine degrees of freedom over twice the samples
    assert 0.8 * 9 / 1000 < above - exact < 9 / 1000


def test_members_are_the_single_runs() -> None:
    many = fits.train(replace(SMALL, temperatures=(0.1, 1.0), rates=(0.01, 0.1))).arrays
    for t, tau in enumerate((0.1, 1.0)):
        for r, rate in enumerate((0.01, 0.1)):
            for s, seed in enumerate((1, 2)):
                single = fits.train(replace(SMALL, temperatures=(tau,), rates=(rate,), seeds=(seed,))).arrays
                for name in single:
                    assert many[name][t, r, s] == pytest.approx(single[name][0, 0, 0], rel=1e-4, abs=1e-6)


def test_scale_temperature_and_rate_are_two_numbers_not_three() -> None:
    # theta = 2 theta', tau = 2 tau': the same laws, and Adam's steps do not notice the size of a gradient.
    narrow = fits.train(replace(EXACT, steps=30)).arrays
    wide = fits.train(replace(EXACT, steps=30, scale=2.0, temperatures=(0.2,), rates=(0.02,))).arrays
    assert wide["objective"] == pytest.approx(narrow["objective"], rel=1e-5)
    assert wide["theta"] == pytest.approx(2 * narrow["theta"], rel=1e-5)


@pytest.mark.parametrize("noise", [Gaussian(), Gumbel(), Logistic()])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_the_gain_is_the_slope_at_the_uniform_law(noise: Gumbel, tau: float) -> None:
    step = torch.zeros(5, dtype=torch.float64)
    step[0] = 1e-4
    change = softmax.mean(step, noise, tau) - 0.2
    c = reach.gain(noise, tau, 5)
    assert change.tolist() == pytest.approx([c / 5 * (4 / 5) * 1e-4] + [-c / 25 * 1e-4] * 4, rel=1e-3)


def test_the_gain_of_no_noise_is_one_and_that_of_gaussian_noise_grows() -> None:
    assert reach.gain(point_mass(), 1.0, 7) == pytest.approx(1, rel=1e-12)
    assert reach.gain(Gumbel(), 0.05, 7) == pytest.approx(1, rel=1e-3)  # the Gumbel-Max trick
    # Gaussian-Argmax of two: the difference has variance 2, so p' = 1/sqrt(4 pi) = c/4.
    assert reach.gain(Gaussian(), 0.05, 2) == pytest.approx(4 / math.sqrt(4 * math.pi), rel=5e-3)
    gains = [reach.gain(Gaussian(), 0.1, classes) for classes in (2, 10, 100, 1000)]
    assert gains == sorted(gains)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_the_gains_without_temperature(classes: int) -> None:
    # The argmax's Jacobian at 0 by quadrature, against K^2 int f^2 F^{K-2} = K/(K-1) (E s(max) + K f(b)) with
    # the score s and the density f(b) at the right end of the support. Uniform: s = 0, f = 1/2, so K^2/(2 (K-1)): 5.56
    # for ten classes, where the mean score alone says 0. Exponential: s = 1, f(b) = 0, so K/(K-1).
    largest = argmax.potential(torch.zeros(classes, dtype=torch.float64), Gaussian()).item()
    smooth = {Gumbel(): 1.0, Logistic(): classes / (classes + 1), Gaussian(): classes / (classes - 1) * largest}
    edged = {Uniform(): classes**2 / (2 * (classes - 1)), Exponential(): classes / (classes - 1)}
    for noise, limit in (smooth | edged).items():
        slope = argmax.jacobian(torch.zeros(classes, dtype=torch.float64), noise)[0, 0].item()
        assert slope * classes**2 / (classes - 1) == pytest.approx(limit, rel=1e-10)
    for noise, limit in smooth.items():
        assert reach.gain(noise, 0.1, classes) == pytest.approx(limit, rel=0.02)  # type: ignore[arg-type]
    if classes == 10:
        assert reach.gain(Uniform(), 0.05, 10) == pytest.approx(4.78, abs=5e-3)
    rule_of_thumb = math.sqrt(2 * math.log(classes))  # is too large
    assert rule_of_thumb / smooth[Gaussian()] == pytest.approx({2: 1.04, 10: 1.25, 100: 1.20}[classes], abs=0.01)


def test_condition_and_excess_without_noise() -> None:
    # Softmax: H = diag(p) - p p^T, theta = log p; for two classes there is one eigenvalue only.
    p = torch.tensor([0.7, 0.3], dtype=torch.float64)
    assert reach.condition(p, point_mass(), 1.0) == pytest.approx(1, rel=1e-9)
    assert reach.excess(p, point_mass(), 1.0, 10) == pytest.approx(0, abs=1e-14)
    assert reach.excess(p, Gumbel(), 0.05, 10) == pytest.approx(1 / 20, rel=0.05)  # near one-hot
    three = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    slope = torch.diag(three) - torch.outer(three, three)
    eigenvalues = torch.linalg.eigvalsh(slope @ torch.diag(1 / three) @ slope)
    expected = (eigenvalues[2] / eigenvalues[1]).item()
    assert reach.condition(three, point_mass(), 1.0) == pytest.approx(expected, rel=1e-9)


def test_steps_to() -> None:
    curves = [[3.0, 2.0, 1.0, 2.0], [3.0, 3.0, 3.0, 3.0], [0.0, 1.0, 1.0, 1.0]]
    assert reach.steps_to(curves, 2.0).tolist() == [1, math.inf, 0]


def test_the_cost_of_a_fit() -> None:
    # 4.2e7 a second of 3 x 5 x 200 x 1000 x 10 draws; 200 steps of 7.5 ms, and .06 ns a draw
    seconds = grids.seconds(grids.sampled("discrete", "gumbel"))
    assert seconds == pytest.approx({"cpu": 3e7 / 4.2e7, "cuda": 1.5 + 0.0018})


def test_deviations_are_those_of_the_noises() -> None:
    # By quadrature over the quantiles: the midpoint rule in p with 10^6 cells.
    p = (torch.arange(10**6, dtype=torch.float64) + 0.5) / 10**6
    for family, noise in FAMILIES.items():
        values = noise().from_logit(torch.logit(p))
        assert values.std().item() == pytest.approx(grids.DEVIATIONS[family], rel=1e-4)
        equal = grids.matched("discrete", family, "variance").scale * values.std().item()
        assert equal == pytest.approx(math.pi / math.sqrt(6), rel=1e-4)
