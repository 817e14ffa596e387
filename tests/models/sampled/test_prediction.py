"""Exact predictions of offset and push, in two ways."""

import math
from itertools import product

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from sumexp.chapters.models.sampled import prediction
from sumexp.chapters.models.sampled.methods import SCHEMES, Law, Method, Weighting, method_losses
from sumexp.chapters.models.sampled.prediction import Forecast, predict
from sumexp.negatives import gradients, schemes
from sumexp.samplers import Negatives

PRIOR = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
LAWS: tuple[Law, ...] = ("uniform", "batch")


def centred(values: Tensor) -> Tensor:
    return values - values.mean()


@pytest.mark.parametrize("m", [1, 3, 20])
@pytest.mark.parametrize("law", LAWS)
def test_consistent_methods_add_nothing_and_adjusted_ones_minus_log_prior(law: Law, m: int) -> None:
    adjusted = centred(-PRIOR.log())
    for method, wanted in (
        (Method(), torch.zeros(4)),
        (Method(weighting="logit-adjusted"), adjusted),
        (Method("softmax", law, "relative", m, "keep"), torch.zeros(4)),
        # At equal scores X = 1 for sure, so that a class is pulled up by pi/2 and pushed down by m pi/m/2.
        (Method("softmax", "batch", "constant", m, "keep"), adjusted),
        (Method("contrastive"), torch.zeros(4)),
    ):
        offset, _ = prediction.prediction(method, PRIOR)
        assert torch.allclose(offset, wanted.double(), atol=1e-7), method.name
    masked, _ = prediction.prediction(Method("softmax", law, "relative", m), PRIOR)
    if m == 1:  # one draw makes pairs, of which a hit says nothing, left out or kept
        assert torch.allclose(masked, torch.zeros(4, dtype=torch.float64), atol=1e-7)
    else:
        assert masked[0] > 1e-3 > -1e-3 > masked[3]


@pytest.mark.parametrize("law, weighting, m", list(product(LAWS, SCHEMES, (1, 4))))
def test_push_by_the_moments_of_the_gradient(law: Law, weighting: Weighting, m: int) -> None:
    """Another integral: the mean of each coordinate of the stochastic gradient, label by label."""
    method = Method("softmax", law, weighting, m)
    log_q = PRIOR.log() if law == "batch" else schemes.uniform(4)
    down, up = torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    for label in range(4):
        one = schemes.scheme(log_q, label, m, weighting, "mask", prior=PRIOR.log())  # type: ignore[arg-type]
        moments = gradients.gradient_moments(torch.zeros(4, dtype=torch.float64), one).mean
        up[label] = -PRIOR[label] * moments[label]
        moments[label] = 0
        down += PRIOR[label] * moments
    assert torch.allclose(prediction.push(method, PRIOR), down / up, rtol=1e-9)


def test_push_over_all_labels_by_hand() -> None:
    # At equal scores the cross entropy gives each of 4 classes the probability 1/4: down (1 - pi)/4, up 3 pi / 4.
    wanted = (1 - PRIOR) / (3 * PRIOR)
    assert torch.allclose(prediction.push(Method(), PRIOR), wanted)
    adjusted = prediction.push(Method(weighting="logit-adjusted"), PRIOR)
    assert torch.allclose(adjusted, torch.ones(4, dtype=torch.float64))  # its loss is stationary where all are equal


@pytest.mark.parametrize("law, weighting", list(product(LAWS, SCHEMES)))
def test_the_contrastive_minimiser_by_search(law: Law, weighting: Weighting) -> None:
    method = Method("contrastive", law, weighting, 3)
    found = prediction.minimiser(method, PRIOR)
    p = PRIOR.tolist()
    q = p if law == "batch" else [1 / 4] * 4
    w = {
        "constant": lambda y, j: 1 / 3,
        "importance": lambda y, j: 1 / (3 * q[j]),
        "relative": lambda y, j: q[y] / q[j],
        "tail": lambda y, j: p[j] / (3 * q[j] * p[y]),
    }[str(weighting)]
    for j in range(4):

        def risk(f: float, j: int = j) -> float:
            others = sum(p[y] * 3 * q[j] * w(y, j) for y in range(4) if y != j)
            return p[j] * (1 - f) ** 2 + others * max(f, 0) ** 2

        least = minimize_scalar(risk, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
        assert math.exp(found[j].item()) == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("law, weighting", list(product(LAWS, SCHEMES)))
def test_the_expected_contrastive_loss_has_m_as_a_factor_or_not_at_all(law: Law, weighting: Weighting) -> None:
    # All draws of m of the four classes, hits left out, each with its probability.
    f = torch.tensor([[0.3, 0.7, 0.2, 0.5]], dtype=torch.float64)  # positive, so that every negative counts
    q = PRIOR if law == "batch" else torch.full((4,), 0.25, dtype=torch.float64)
    expected = []
    for m in (1, 2, 3):
        method, label, total = Method("contrastive", law, weighting, m), torch.tensor([1]), 0.0
        for ids in product(range(4), repeat=m):
            drawn = torch.tensor([ids])
            negatives = Negatives(drawn, q[drawn].log(), drawn == 1)
            loss = method_losses(f.unsqueeze(0), label, [method], PRIOR.log(), {(law, m): negatives})
            total += float(q[drawn].prod()) * (loss.item() - (1 - 0.7) ** 2)
        expected.append(total)
    factors = [1, 2, 3] if weighting == "relative" else [1, 1, 1]
    assert expected == pytest.approx([factor * expected[0] for factor in factors], rel=1e-9)
    assert expected[0] > 0.01


@pytest.mark.parametrize("weighting", ["none", "constant", "tail"])
def test_the_push_of_the_contrastive_loss_is_that_at_cosines_of_a_half(weighting: Weighting) -> None:
    # Within the batch each class y' is a negative of y with weight pi_y' / 1 (constant) or pi_y' / pi_y (tail).
    size = {"none": torch.ones(4, 4), "constant": PRIOR.expand(4, 4), "tail": PRIOR / PRIOR.unsqueeze(1)}[weighting]
    method = Method("contrastive") if weighting == "none" else Method("contrastive", "batch", weighting, 8)
    for f in (0.5, 0.1):
        own, others = (torch.full((4,), f, dtype=torch.float64, requires_grad=True) for _ in range(2))
        apart = size.double().clone().fill_diagonal_(0)
        loss = PRIOR @ ((1 - own).square() + apart @ others.relu().square())
        up, down = torch.autograd.grad(loss, (own, others))
        found = -down / up / (f / (1 - f))
        torch.testing.assert_close(prediction.push(method, PRIOR), found, rtol=1e-9, atol=0)


def test_a_forecast() -> None:
    methods = (Method(), Method(weighting="logit-adjusted"), Method("softmax", "batch", "constant", 4))
    found = predict(Forecast((500, 300, 150, 15), methods)).arrays
    assert found["names"].tolist() == ["head", "tail"]
    assert found["group_offset"].shape == (3, 2)
    assert found["group_offset"][1, 1] == pytest.approx(found["offset"][1, 3])
    assert found["group_offset"][1, 0] == pytest.approx(found["offset"][1, :3].mean())
    assert found["push"].shape == (3, 4)


@pytest.mark.parametrize("counts, methods", [((5,), (Method(),)), ((5, 0), (Method(),)), ((5, 1), ())])
def test_forecasts_that_are_none(counts: tuple[int, ...], methods: tuple[Method, ...]) -> None:
    with pytest.raises(ValueError, match=r"classes, of which one has .* give two classes or more"):
        Forecast(counts, methods)
