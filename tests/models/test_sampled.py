"""Methods with sampled negatives: their losses by hand, exact predictions in two ways, what comparisons conclude."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import minimize_scalar
from torch import Tensor

from sumexp.intervals import Interval, interval
from sumexp.models.sampled import comparison, prediction
from sumexp.models.sampled.groups import groups
from sumexp.models.sampled.methods import (
    SCHEMES,
    Draws,
    Law,
    Method,
    Weighting,
    draws,
    following,
    log_margins,
    method_losses,
    negative_weights,
)
from sumexp.models.sampled.prediction import Forecast, predict
from sumexp.negatives import gradients, schemes
from sumexp.samplers import Negatives

PRIOR = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
LAWS: tuple[Law, ...] = ("uniform", "batch")


# Methods


@pytest.mark.parametrize(
    "fields, fault",
    [
        ({"loss": "hinge"}, "loss is 'hinge'"),
        ({"law": "all", "weighting": "tail"}, "weighting is 'tail'; expected one of none, logit-adjusted"),
        ({"law": "batch", "weighting": "none", "negatives": 3}, "weighting is 'none'; expected one of constant"),
        ({"law": "batch", "weighting": "tail"}, "negatives is 0 of the law 'batch'"),
        ({"negatives": 3}, "negatives is 3 of the law 'all'; 'all' has 0"),
        ({"hits": "redraw"}, "hits is 'redraw'"),
        ({"loss": "contrastive", "weighting": "equalised"}, "trained without margins and with hits left out"),
    ],
)
def test_methods_that_are_none(fields: dict[str, str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Method(**fields)  # type: ignore[arg-type]


def test_names() -> None:
    assert Method().name == "cross entropy"
    assert Method(weighting="equalised").name == "equalised"
    assert Method("contrastive").name == "contrastive all labels"
    assert Method("contrastive", "uniform", "tail", 8).name == "contrastive uniform tail"
    assert Method("softmax", "batch", "relative", 8, "keep").name == "batch relative, hits kept"


def test_the_next_examples_in_a_circle() -> None:
    # Of 4 rows the others of row 0 are 1, 2, 3, of row 2 they are 0, 1, 3: after 2 come 3 and 0, columns 2 and 0.
    assert following(4, 2, torch.device("cpu")).tolist() == [[0, 1], [1, 2], [2, 0], [0, 1]]
    labels = torch.tensor([2, 0, 1, 0])
    method = Method("softmax", "batch", "constant", 2)
    drawn = draws([method], labels, PRIOR.log(), torch.Generator())["batch", 2]
    assert drawn.ids.tolist() == [[0, 1], [1, 0], [0, 2], [2, 0]]
    assert drawn.hits.tolist() == [[False, False], [False, True], [False, False], [False, True]]
    assert torch.allclose(drawn.log_q.exp(), PRIOR[drawn.ids])


def test_losses_by_hand() -> None:
    labels = torch.tensor([0, 2])
    ids = torch.tensor([[1, 0], [3, 1]])  # the second draw of the first example is a hit
    log_q = PRIOR.log()[ids]
    drawn: Draws = {("batch", 2): Negatives(ids, log_q, ids == labels.unsqueeze(1))}
    methods = [Method()]
    methods += [Method("softmax", "batch", w, 2, h) for w in SCHEMES for h in ("mask", "keep")]  # type: ignore[arg-type]
    methods += [Method("contrastive", "batch", "tail", 2), Method("contrastive"), Method(weighting="logit-adjusted")]
    f = torch.tensor([[1.0, 2.0, 0.0, -1.0], [0.5, 0.25, -0.5, 1.0]], dtype=torch.float64)
    found = method_losses(f.expand(len(methods), 2, 4), labels, methods, PRIOR.log(), drawn)
    p, e = PRIOR.tolist(), math.exp

    def weight(w: Weighting, y: int, other: int) -> float:
        return {
            "constant": 1 / 2,
            "importance": 1 / (2 * p[other]),
            "relative": p[y] / p[other],
            "tail": 1 / (2 * p[y]),  # pi' / (m q' pi_y) of q = pi
        }[str(w)]

    for method, loss in zip(methods, found.tolist(), strict=True):
        if method.loss == "contrastive" and method.law == "all":
            first = (1 - 1) ** 2 + 2**2 + 0 + 0
            second = (1 + 0.5) ** 2 + 0.5**2 + 0.25**2 + 1
        elif method.loss == "contrastive":
            first = (1 - 1) ** 2 + weight("tail", 0, 1) * 2**2
            second = (1 + 0.5) ** 2 + weight("tail", 2, 3) * 1 + weight("tail", 2, 1) * 0.25**2
        elif method.law == "all":
            rho = [[1.0] * 4] * 2
            if method.weighting == "logit-adjusted":
                rho = [[p[j] / p[y] for j in range(4)] for y in (0, 2)]
            first = math.log(1 + rho[0][1] * e(1) + rho[0][2] * e(-1) + rho[0][3] * e(-2))
            second = math.log(1 + rho[1][0] * e(1) + rho[1][1] * e(0.75) + rho[1][3] * e(1.5))
        else:
            w = method.weighting
            hit = weight(w, 0, 0) if method.hits == "keep" else 0.0
            first = math.log(1 + weight(w, 0, 1) * e(1) + hit)
            second = math.log(1 + weight(w, 2, 3) * e(1.5) + weight(w, 2, 1) * e(0.75))
        assert loss == pytest.approx((first + second) / 2, rel=1e-12), method.name


def test_uniform_weights_by_hand() -> None:
    labels, ids = torch.tensor([3]), torch.tensor([[0, 1]])
    drawn = Negatives(ids, torch.full((1, 2), -math.log(4), dtype=torch.float64), torch.zeros(1, 2, dtype=torch.bool))
    # 1/m; L/m; 1; L pi' / (m pi_y) = 4 (0.5, 0.3) / (2 0.05)
    wanted = {"constant": [0.5, 0.5], "importance": [2, 2], "relative": [1, 1], "tail": [20, 12]}
    for weighting in SCHEMES:
        found = negative_weights(Method("softmax", "uniform", weighting, 2), drawn, labels, PRIOR.log())
        assert found.tolist() == [pytest.approx(wanted[weighting])]


def test_a_method_is_the_same_beside_others() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (9,), generator=generator)
    methods = [Method(), Method("contrastive"), *(Method("softmax", law, w, 3) for law in LAWS for w in SCHEMES)]
    f = torch.randn(len(methods), 9, 4, generator=generator, dtype=torch.float64)
    drawn = draws(methods, labels, PRIOR.log(), generator)
    together = method_losses(f, labels, methods, PRIOR.log(), drawn)
    for i, one in enumerate(methods):
        assert method_losses(f[i : i + 1], labels, [one], PRIOR.log(), drawn).item() == pytest.approx(
            together[i].item(), rel=1e-12
        )


def test_margins() -> None:
    rare = log_margins(Method(weighting="adaptive"), PRIOR.log())
    assert rare[3].item() == pytest.approx(3.0)
    assert rare[0].item() == pytest.approx(3.0 * (0.05 / 0.5) ** 0.25)
    assert log_margins(Method(weighting="equalised"), PRIOR.log()).exp().tolist() == [pytest.approx(PRIOR.tolist())]


# Predictions


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


# Groups


def test_groups_by_hand() -> None:
    numbers = groups(np.array([500, 100, 99, 20, 19, 1]), "numbers")
    assert {name: own.nonzero()[0].tolist() for name, own in numbers.items()} == {
        "head": [0, 1],
        "torso": [2, 3],
        "tail": [4, 5],
    }
    # A fifth of the scale: 20 and 4.
    assert groups(np.array([100, 20, 19, 4, 3]), "numbers")["torso"].tolist() == [False, False, True, True, False]
    assert set(groups(np.array([500, 5]), "numbers")) == {"head", "tail"}
    # Of 1..100 the quantiles are 33.67 and 66.34.
    sizes = {name: own.sum() for name, own in groups(np.arange(1, 101), "quantiles").items()}
    assert sizes == {"head": 34, "torso": 33, "tail": 33}
    with pytest.raises(ValueError, match="rule is 'thirds'"):
        groups(np.array([1]), "thirds")  # type: ignore[arg-type]
    for wrong in ([], [0, 0], [-1, 2]):
        with pytest.raises(ValueError, match="they must be numbers >= 0, not all 0"):
            groups(np.array(wrong, dtype=np.int64), "numbers")


# Comparisons


def test_differences_are_paired_and_over_the_members() -> None:
    first = np.array([[0.0, 0.2, 0.4], [0.1, 0.3, 0.9]])
    second = np.zeros((2, 3))
    tail = np.array([False, True, True])
    one = comparison.difference(first, second, tail)
    assert (one.mean, one.count) == (pytest.approx((0.3 + 0.6) / 2), 2)
    assert one == interval([0.3, 0.6]) or one.sd == pytest.approx(np.std([0.3, 0.6], ddof=1))
    assert comparison.difference(first, second).mean == pytest.approx((0.2 + 1.3 / 3) / 2)
    with pytest.raises(ValueError, match=r"tables of shapes \(2, 3\) and \(1, 3\) cannot be paired"):
        comparison.difference(first, second[:1])


def one(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 1.0, 5)


def test_outcomes() -> None:
    assert comparison.outcome(one(-0.005, 0.005), 0.01) == "alike"
    assert comparison.outcome(one(-0.03, -0.01), 0.01) == "less"
    assert comparison.outcome(one(0.01, 0.03), 0.01) == "more"
    assert comparison.outcome(one(-0.02, 0.005), 0.01) == "undecided"
    assert comparison.outcome(one(-0.01, 0.005), 0.01) == "undecided"  # within is not on the edge
    assert comparison.outcome(one(-0.005, 0.01), 0.01) == "undecided"


def test_all_below() -> None:
    assert comparison.below([one(-3, -2), one(-2, -1)]) == one(-2, -1)
    assert comparison.below([one(-3, -2), one(1, 2)]) == one(1, 2)
    assert comparison.below([one(-3, -2), one(-1, 1)]) is None
    # One that lies above decides, however wide another is.
    assert comparison.below([one(-9, 9), one(1, 2)]) == one(1, 2)


def test_what_a_design_could_have_seen() -> None:
    five = Interval(0.0, -1.0, 1.0, 2.0, 5)
    wanted = (stats.t.ppf(0.975, 4) + stats.t.ppf(0.8, 4)) * 2 / math.sqrt(5)
    assert comparison.detectable(five) == pytest.approx(wanted)
    # By simulation: at that difference 4,000 experiments show it about 8 times of 10. The formula is an approximation,
    # of which 0.03 is left here; the noise has standard deviation 0.006.
    runs = np.random.default_rng(0).normal(wanted, 2.0, (4000, 5))
    assert np.mean([interval(row).sign == 1 for row in runs]) == pytest.approx(0.8, abs=0.05)
    with pytest.raises(ValueError, match="power is 1"):
        comparison.detectable(five, power=1)


def test_an_order_by_hand() -> None:
    a, b, c = Method(), Method(weighting="equalised"), Method(weighting="adaptive")
    measured = {a: [0.5, 0.51, 0.5], b: [0.3, 0.31, 0.31], c: [0.1, 0.11, 0.09]}
    right = comparison.order({a: 0.0, b: 1.0, c: 2.0}, measured)
    assert (right.correlation.mean, right.right, right.wrong, right.untold) == (1.0, 3, 0, 0)
    wrong = comparison.order({a: 2.0, b: 1.0, c: 0.0}, measured)
    assert (wrong.correlation.mean, wrong.right, wrong.wrong) == (-1.0, 0, 3)
    tied = comparison.order({a: 0.0, b: 1e-5, c: 2.0}, measured)
    assert (tied.right, tied.wrong, tied.untold) == (2, 0, 1)
    # tau-b with one tie among the predicted: 2 / sqrt(2 * 3)
    assert tied.correlation.mean == pytest.approx(2 / math.sqrt(6))
    with pytest.raises(ValueError, match="give the same, two or more"):
        comparison.order({a: 0.0}, measured)


def test_agreement_of_two_numbers_by_hand() -> None:
    a, b, c = Method(), Method("contrastive"), Method(weighting="equalised")
    first = {a: np.array([1.0, 1.0]), b: np.array([2.0, 2.0]), c: np.array([3.0, 3.0])}
    second = {c: np.array([0.0, 3.0]), b: np.array([1.0, 1.0]), a: np.array([2.0, 2.0])}
    found = comparison.agreement(first, second)
    # Seed one: reversed, -1. Seed two: 2, 1, 3 has one of three pairs reversed, 1/3.
    assert found.mean == pytest.approx((-1 + 1 / 3) / 2)
    assert found.count == 2
    with pytest.raises(ValueError, match="3 and 2 methods; give the same"):
        comparison.agreement(first, {a: second[a], b: second[b]})
