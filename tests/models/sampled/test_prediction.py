"""Exact predictions of the offset, in two ways."""

import math
from itertools import product

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from sumexp.chapters.models.sampled import prediction
from sumexp.chapters.models.sampled.methods import SCHEMES, Law, Method, Weighting, method_losses
from sumexp.chapters.models.sampled.prediction import Forecast, predict
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
        offset = prediction.prediction(method, PRIOR)
        assert torch.allclose(offset, wanted.double(), atol=1e-7), method.name
    masked = prediction.prediction(Method("softmax", law, "relative", m), PRIOR)
    if m == 1:  # one draw makes pairs, of which a hit says nothing, left out or kept
        assert torch.allclose(masked, torch.zeros(4, dtype=torch.float64), atol=1e-7)
    else:
        assert masked[0] > 1e-3 > -1e-3 > masked[3]


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


def test_a_forecast() -> None:
    methods = (Method(), Method(weighting="logit-adjusted"), Method("softmax", "batch", "constant", 4))
    found = predict(Forecast((500, 300, 150, 15), methods)).arrays
    assert found["names"].tolist() == ["head", "tail"]
    assert found["group_offset"].shape == (3, 2)
    assert found["group_offset"][1, 1] == pytest.approx(found["offset"][1, 3])
    assert found["group_offset"][1, 0] == pytest.approx(found["offset"][1, :3].mean())
    assert found["offset"].shape == (3, 4)


@pytest.mark.parametrize("counts, methods", [((5,), (Method(),)), ((5, 0), (Method(),)), ((5, 1), ())])
def test_forecasts_that_are_none(counts: tuple[int, ...], methods: tuple[Method, ...]) -> None:
    with pytest.raises(ValueError, match=r"classes, of which one has .* give two classes or more"):
        Forecast(counts, methods)
