"""The sigmoid over pairs and gBCE: their definitions by hand, and their minima against those of the theory."""

import math
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.functional import jacobian

from sumexp import functional, nn
from sumexp.nce import Joint, pairs

JOINT = Joint(torch.tensor([[0.30, 0.10, 0.05], [0.05, 0.20, 0.30]], dtype=torch.float64))
P = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)


def scores() -> Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("hits", ["keep", "mask"])
def test_the_formula_as_published(hits: Any) -> None:
    """Labels of 1 and -1 times logits; a column of the row's own class is left out by ``mask``."""
    ids, law = torch.tensor([7, 2, 7, 2]), torch.tensor([0.5, 0.25, 0.5, 0.25]).log()
    logits = scores() / 0.1 - 3 - law
    terms = -F.logsigmoid(logits * (2 * torch.eye(3, 4) - 1))
    if hits == "mask":
        terms[[0, 1, 2], [2, 3, 0]] = 0
    actual = functional.sigmoid_pairs(
        scores(), ids, log_q=law, hits=hits, temperature=0.1, logit_bias=-3, reduction="none"
    )
    torch.testing.assert_close(actual, terms.sum(1), rtol=1e-6, atol=1e-6)  # log q is in single precision


@pytest.mark.parametrize("hits", ["keep", "mask"])
@pytest.mark.parametrize("corrected", [False, True])
def test_the_mean_gradient_over_all_batches_is_zero_at_the_minimum(hits: Any, corrected: bool) -> None:
    """Three independent pairs; with log q, the law of y, off, the minimum has it added."""
    log_y = JOINT.p.sum(0).log()
    minimum = pairs.sigmoid_pairs(JOINT, 3, hits) + (log_y if corrected else 0)
    batches = list(product(product(range(2), range(3)), repeat=3))

    def mean(table: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for batch in batches:
            x, y = (torch.tensor(side) for side in zip(*batch, strict=True))
            law = log_y[y] if corrected else None
            loss = functional.sigmoid_pairs(table[x][:, y], y, log_q=law, hits=hits)
            total = total + math.prod(JOINT.p[cell].item() for cell in batch) * loss
        return total

    assert jacobian(mean, minimum).abs().max() < 1e-12
    assert jacobian(mean, minimum + torch.eye(2, 3)).abs().max() > 1e-3


@pytest.mark.parametrize("calibration", [0.0, 0.75, 1.0])
@pytest.mark.parametrize("q", [None, torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)])
def test_the_mean_gradient_of_gbce_over_all_draws_is_zero_at_the_minimum(calibration: float, q: Tensor | None) -> None:
    """Two negatives, uniform from the other classes or from q, with log q subtracted."""

    def mean(table: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for label in range(4):
            drawn = torch.tensor(list(product([i for i in range(4) if i != label or q is not None], repeat=2)))
            law = {} if q is None else {"log_q": q.log()[drawn], "positive_log_q": q.log()[label]}
            options: dict[str, Any] = {"classes": 4, "calibration": calibration, "reduction": "none", **law}
            losses = functional.gbce(table[label].expand(len(drawn)), table[drawn], **options)
            total = total + P[label] * (losses.mean() if q is None else q[drawn].prod(-1) @ losses)
        return total

    beta = 1 - calibration * (1 - 2 / 3)
    minimum = pairs.gbce(P.log(), 2, calibration) if q is None else P.log() + math.log(beta / 2)
    assert jacobian(mean, minimum).abs().max() < 1e-12
    assert jacobian(mean, minimum + torch.eye(4)[0]).abs().max() > 1e-3


def test_gbce_without_calibration_is_binary_nce() -> None:
    given = scores()[:, 0], scores()[:, 1:]
    options: dict[str, Any] = {"log_q": torch.tensor([-1.0, -2, -3]), "positive_log_q": torch.full((3,), -2.0)}
    options["hits"] = torch.eye(3, dtype=torch.bool)
    binary = functional.binary_nce(*given, **options)
    assert torch.equal(functional.gbce(*given, classes=9, calibration=0, **options), binary)


def test_a_candidate_that_cannot_be_costs_nothing_and_has_no_gradient() -> None:
    given = scores()[:, :3].clone()
    given[0, 1] = -torch.inf
    leaf = given.requires_grad_()
    loss = functional.sigmoid_pairs(leaf, [0, 1, 2], reduction="none")
    [gradient] = torch.autograd.grad(loss.sum(), leaf)
    assert loss[0].item() == pytest.approx((-F.logsigmoid(given[0, 0]) - F.logsigmoid(-given[0, 2])).item(), rel=1e-12)
    assert gradient[0, 1] == 0
    assert gradient.isfinite().all()


def test_scale_and_bias_are_learned_and_said() -> None:
    layer = nn.SigmoidPairs(temperature=0.5, logit_bias=-1.0, learn_temperature=True, learn_logit_bias=True)
    assert {name for name, _ in layer.named_parameters()} == {"log_temperature", "logit_bias"}
    actual = layer(scores().float(), range(4))
    wanted = functional.sigmoid_pairs(scores().float(), range(4), temperature=0.5, logit_bias=-1.0)  # type: ignore[arg-type]
    torch.testing.assert_close(actual, wanted)
    actual.backward()
    assert all(parameter.grad is not None and parameter.grad != 0 for parameter in layer.parameters())
    assert "temperature=0.5, logit_bias=-1" in repr(layer)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: functional.sigmoid_pairs(scores(), [0, 1]), "there must be one for each of 4 columns"),
        (lambda: functional.sigmoid_pairs(scores(), range(4), logit_bias=math.inf), "logit_bias is inf; it must be"),
        (lambda: nn.SigmoidPairs(logit_bias=10**400), "logit_bias is 1000.*; it must be a finite"),
        (lambda: functional.sigmoid_pairs(scores(), range(4), logit_bias=torch.zeros(2)), "it must be one number"),
        (lambda: functional.sigmoid_pairs(scores(), range(4), log_q=torch.ones(4)), "must hold logarithms"),
        (lambda: functional.sigmoid_pairs(scores() * torch.nan, range(4)), "a score is NaN"),
        (lambda: functional.sigmoid_pairs(scores() - torch.eye(3, 4) * torch.inf, range(4)), "a score is"),
        (lambda: functional.gbce(scores()[:, 0], scores(), classes=1), "classes is 1"),
        (lambda: functional.gbce(scores()[:, 0], scores(), classes=9, calibration=1.5), "calibration is 1.5"),
    ],
)
def test_one_clear_error(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
