"""Methods with sampled negatives: their names, draws, weights and losses by hand."""

import math

import pytest
import torch

from sumexp.chapters.models.sampled.methods import (
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
    uniform_draws,
)
from sumexp.samplers import Negatives

PRIOR = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
LAWS: tuple[Law, ...] = ("uniform", "batch")


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
    drawn = draws([Method("softmax", "batch", "constant", 2)], labels, PRIOR.log(), ())["batch", 2]
    assert drawn.ids.tolist() == [[0, 1], [1, 0], [0, 2], [2, 0]]
    assert drawn.hits.tolist() == [[False, False], [False, True], [False, False], [False, True]]
    assert torch.allclose(drawn.log_q.exp(), PRIOR[drawn.ids])


def test_losses_by_hand() -> None:
    labels = torch.tensor([0, 2])
    ids = torch.tensor([[1, 0], [3, 1]])  # the second draw of the first example is a hit
    drawn: Draws = {("batch", 2): Negatives(ids, PRIOR.log()[ids], ids == labels.unsqueeze(1))}
    methods = [Method()]
    methods += [Method("softmax", "batch", w, 2, h) for w in SCHEMES for h in ("mask", "keep")]  # type: ignore[arg-type]
    methods += [Method("contrastive", "batch", "tail", 2), Method("contrastive"), Method(weighting="logit-adjusted")]
    f = torch.tensor([[1.0, 2.0, 0.0, -1.0], [0.5, 0.25, -0.5, 1.0]], dtype=torch.float64)
    losses = method_losses(f.expand(len(methods), 2, 4), labels, methods, PRIOR.log(), drawn)
    p, e = PRIOR.tolist(), math.exp

    def weight(w: Weighting, y: int, other: int) -> float:
        return {
            "constant": 1 / 2,
            "importance": 1 / (2 * p[other]),
            "relative": p[y] / p[other],
            "tail": 1 / (2 * p[y]),  # pi' / (m q' pi_y) of q = pi
        }[str(w)]

    for method, loss in zip(methods, losses.tolist(), strict=True):
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
        weights = negative_weights(Method("softmax", "uniform", weighting, 2), drawn, labels, PRIOR.log())
        assert weights.tolist() == [pytest.approx(wanted[weighting])]


def test_a_method_is_the_same_beside_others() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (9,), generator=generator)
    methods = [Method(), Method("contrastive"), *(Method("softmax", law, w, 3) for law in LAWS for w in SCHEMES)]
    f = torch.randn(len(methods), 9, 4, generator=generator, dtype=torch.float64)
    drawn = draws(methods, labels, PRIOR.log(), uniform_draws(methods, 9, 4, generator))
    together = method_losses(f, labels, methods, PRIOR.log(), drawn)
    for i, method in enumerate(methods):
        alone = method_losses(f[i : i + 1], labels, [method], PRIOR.log(), drawn)
        assert alone.item() == pytest.approx(together[i].item(), rel=1e-12)


def test_margins() -> None:
    rare = log_margins(Method(weighting="adaptive"), PRIOR.log())
    assert rare[3].item() == pytest.approx(3.0)
    assert rare[0].item() == pytest.approx(3.0 * (0.05 / 0.5) ** 0.25)
    assert log_margins(Method(weighting="equalised"), PRIOR.log()).exp().tolist() == [pytest.approx(PRIOR.tolist())]
