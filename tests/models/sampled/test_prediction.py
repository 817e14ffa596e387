"""Exact predictions of the offset, in two ways; groups of classes, and comparisons of methods, by hand."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar

from sumexp.chapters.models.sampled import comparison, prediction
from sumexp.chapters.models.sampled.groups import groups
from sumexp.chapters.models.sampled.informed import added
from sumexp.chapters.models.sampled.methods import LAWS, SCHEMES, Law, Method, Weighting, method_losses
from sumexp.chapters.models.sampled.prediction import Forecast, predict
from sumexp.samplers import Negatives

PRIOR = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)


@pytest.mark.parametrize("m", [1, 3, 20])
@pytest.mark.parametrize("law", LAWS)
def test_consistent_methods_add_nothing_and_adjusted_ones_minus_log_prior(law: Law, m: int) -> None:
    adjusted = PRIOR.log().mean() - PRIOR.log()
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
    scores = prediction.minimiser(Method("contrastive", law, weighting, 3), PRIOR)
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
        assert math.exp(scores[j].item()) == pytest.approx(least, rel=1e-5)


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
    arrays = predict(Forecast((500, 300, 150, 15), methods)).arrays
    assert arrays["names"].tolist() == ["head", "tail"]
    assert arrays["group_offset"].shape == (3, 2)
    assert arrays["group_offset"][1, 1] == pytest.approx(arrays["offset"][1, 3])
    assert arrays["group_offset"][1, 0] == pytest.approx(arrays["offset"][1, :3].mean())
    assert arrays["offset"].shape == (3, 4)


@pytest.mark.parametrize("counts, methods", [((5,), (Method(),)), ((5, 0), (Method(),)), ((5, 1), ())])
def test_forecasts_that_are_none(counts: tuple[int, ...], methods: tuple[Method, ...]) -> None:
    with pytest.raises(ValueError, match=r"classes, of which one has .* give two classes or more"):
        Forecast(counts, methods)


THREE = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def by_enumeration(method: Method, label: int, ratio: float) -> float:
    """The minimiser of the loss summed over all m-tuples of draws, found without derivatives of ours."""
    pi, classes, m = THREE.numpy(), range(3), method.negatives
    q = pi if method.law == "batch" else np.full(3, 1 / 3)
    weight = {
        "constant": lambda y, z: 1 / m,
        "importance": lambda y, z: 1 / (m * q[z]),
        "relative": lambda y, z: q[y] / q[z],
        "tail": lambda y, z: pi[z] / (m * q[z] * pi[y]),
    }[method.weighting]
    posterior = pi * np.where(np.arange(3) == label, ratio, 1)
    posterior /= posterior.sum()

    def loss(free: np.ndarray) -> float:  # type: ignore[type-arg]
        f, total = [*free, 0.0], 0.0
        for drawn in product(classes, repeat=m):
            for y in classes:
                terms = [weight(y, z) * math.exp(f[z] - f[y]) for z in drawn if method.hits == "keep" or z != y]
                total += math.prod(q[z] for z in drawn) * posterior[y] * math.log1p(sum(terms))
        return total

    b = np.append(minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x, 0) - np.log(posterior)
    others = np.arange(3) != label
    return float(b[label] - posterior[others] @ b[others] / posterior[others].sum())


@pytest.mark.parametrize("law, weighting", [*product(LAWS, SCHEMES)])
def test_by_enumeration(law: str, weighting: str) -> None:
    for hits in ("mask", "keep"):
        method = Method("softmax", law, weighting, 2, hits)  # type: ignore[arg-type]
        assert added(method, THREE, 2, 5.0) == pytest.approx(by_enumeration(method, 2, 5.0), abs=1e-4)


def test_margins_and_consistent_methods_by_arithmetic() -> None:
    adjusted = Method(weighting="logit-adjusted")
    # -log 0.2 less the mean of -log 0.5 and -log 0.3, five to three
    wanted = -math.log(0.2) + (5 * math.log(0.5) + 3 * math.log(0.3)) / 8
    for ratio in (0.1, 1.0, 50.0):
        assert added(Method(), THREE, 2, ratio) == pytest.approx(0, abs=1e-6)
        assert added(Method("softmax", "uniform", "relative", 4, "keep"), THREE, 1, ratio) == pytest.approx(0, abs=1e-6)
        assert added(adjusted, THREE, 2, ratio) == pytest.approx(wanted, abs=1e-6)


def test_differences_are_paired_and_over_the_members() -> None:
    first = np.array([[0.0, 0.2, 0.4], [0.1, 0.3, 0.9]])
    second = np.zeros((2, 3))
    tail = np.array([False, True, True])
    difference = comparison.difference(first, second, tail)
    assert (difference.mean, difference.count) == (pytest.approx((0.3 + 0.6) / 2), 2)
    assert difference.runs == pytest.approx((0.3, 0.6))
    assert comparison.difference(first, second).mean == pytest.approx((0.2 + 1.3 / 3) / 2)
    both = [comparison.difference(first, second, group, 0.9) for group in (tail, None)]
    assert comparison.against({"base": second, "a": first}, "base", (tail, None), 0.9) == {"a": both}


def test_an_order_by_hand() -> None:
    a, b, c = Method(), Method(weighting="equalised"), Method(weighting="adaptive")
    measured = {a: [0.5, 0.51, 0.5], b: [0.3, 0.31, 0.31], c: [0.1, 0.11, 0.09]}
    assert comparison.order({a: 0.0, b: 1.0, c: 2.0}, measured).mean == pytest.approx(1.0)
    assert comparison.order({a: 2.0, b: 1.0, c: 0.0}, measured).mean == pytest.approx(-1.0)
    # tau-b with one tie among the predicted: 2 / sqrt(2 * 3)
    assert comparison.order({a: 0.0, b: 1e-5, c: 2.0}, measured).mean == pytest.approx(2 / math.sqrt(6))


def test_groups_by_hand() -> None:
    numbers = groups(np.array([500, 100, 99, 20, 19, 1]), "numbers")
    members = {name: mask.nonzero()[0].tolist() for name, mask in numbers.items()}
    assert members == {"head": [0, 1], "torso": [2, 3], "tail": [4, 5]}
    # A fifth of the scale: 20 and 4.
    assert groups(np.array([100, 20, 19, 4, 3]), "numbers")["torso"].tolist() == [False, False, True, True, False]
    assert set(groups(np.array([500, 5]), "numbers")) == {"head", "tail"}
    # Of 1..100 the quantiles are 33.67 and 66.34.
    sizes = {name: mask.sum() for name, mask in groups(np.arange(1, 101), "quantiles").items()}
    assert sizes == {"head": 34, "torso": 33, "tail": 33}
    with pytest.raises(ValueError, match="rule is 'thirds'"):
        groups(np.array([1]), "thirds")  # type: ignore[arg-type]
    for wrong in ([], [0, 0], [-1, 2]):
        with pytest.raises(ValueError, match="they must be numbers >= 0, not all 0"):
            groups(np.array(wrong, dtype=np.int64), "numbers")
