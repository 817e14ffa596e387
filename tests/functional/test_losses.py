"""Losses by visible arithmetic, against torch's own and exact expectations, and one table of properties for all."""

import math
import re
from collections.abc import Callable
from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import expectations, functional
from sumexp.functional import CONTRASTIVE, HINGE, Margins, _sampled
from sumexp.nn import SampledOutput

Loss = Callable[..., Tensor]


def decoupled(margins: Margins) -> Loss:
    def loss(*arguments: Tensor, **options: Any) -> Tensor:
        return functional.decoupled(*arguments, margins=margins, **options)

    return loss


WEIGHTED: dict[str, Loss] = {
    "sampled_softmax": functional.sampled_softmax,
    "info_nce": functional.info_nce,
    "binary_nce": functional.binary_nce,
    "decoupled hinge": decoupled(HINGE),
    "decoupled contrastive": decoupled(CONTRASTIVE),
}
SAMPLED: dict[str, Loss] = WEIGHTED | {"hinge": functional.hinge}
every_loss = pytest.mark.parametrize("loss", SAMPLED.values(), ids=SAMPLED.keys())
every_weighted_loss = pytest.mark.parametrize("loss", WEIGHTED.values(), ids=WEIGHTED.keys())


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def batch(size: int = 4, m: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(size, generator=generator, dtype=torch.float64),
        torch.randn(size, m, generator=generator, dtype=torch.float64),
    )


def test_sampled_softmax_by_hand() -> None:
    positive, negative = double(2), double(0, 1).unsqueeze(0)
    value = functional.sampled_softmax(positive, negative)
    assert value.item() == pytest.approx(log(1 + exp(-2) + exp(-1)), rel=1e-15)
    weighted = functional.sampled_softmax(positive, negative, weights=double(3, 0))
    assert weighted.item() == pytest.approx(log(1 + 3 * exp(-2)), rel=1e-15)
    # m = 2 draws: w = 1 / (2 q)
    corrected = functional.sampled_softmax(positive, negative, log_q=double(0.25, 0.5).log(), correct="importance")
    assert corrected.item() == pytest.approx(log(1 + exp(-2) / (2 * 0.25) + exp(-1) / (2 * 0.5)), rel=1e-15)
    # with log_q the weights are margins: w = rho / (m q)
    both = functional.sampled_softmax(
        positive, negative, log_q=double(0.25, 0.5).log(), correct="importance", weights=double(3, 5)
    )
    assert both.item() == pytest.approx(log(1 + 3 * exp(-2) / (2 * 0.25) + 5 * exp(-1) / (2 * 0.5)), rel=1e-15)


def test_info_nce_is_the_cross_entropy_over_the_candidates_and_binary_nce_that_of_each() -> None:
    positive, negative = batch(5, 7)
    candidates = torch.cat([positive.unsqueeze(-1), negative], -1)
    expected = F.cross_entropy(candidates, torch.zeros(5, dtype=torch.int64))
    assert functional.info_nce(positive, negative).item() == pytest.approx(expected.item(), rel=1e-14)
    of_true = F.binary_cross_entropy_with_logits(positive, torch.ones(5, dtype=torch.float64), reduction="none")
    of_noise = F.binary_cross_entropy_with_logits(negative, torch.zeros(5, 7, dtype=torch.float64), reduction="none")
    assert torch.allclose(functional.binary_nce(positive, negative, reduction="none"), of_true + of_noise.sum(-1))


def test_one_matrix_of_scores_is_sent_to_in_batch() -> None:
    scores = torch.eye(3)
    with pytest.raises(TypeError, match=r"goes to in_batch\(scores, ids, log_q=\.\.\.\), or correct='none'"):
        functional.info_nce(scores)
    for loss in SAMPLED.values():
        with pytest.raises(ValueError, match=r"positive_logits must .* goes to in_batch\(scores, ids\)"):
            loss(scores, torch.tensor([7, 2, 9]))


def test_decoupled_margins_by_hand() -> None:
    positive, negative = double(0.25), double(0.5, -3).unsqueeze(0)
    # hinge: (1 - .25) + [1 + .5] + [1 - 3]_+
    assert decoupled(HINGE)(positive, negative).item() == pytest.approx(0.75 + 1.5 + 0)
    # contrastive: (1 - .25)^2 + [.5]_+^2 + [-3]_+^2: negatives of positive cosine cost, others do not
    assert decoupled(CONTRASTIVE)(positive, negative).item() == pytest.approx(0.75**2 + 0.5**2 + 0)


def test_logistic_margins_keep_what_float64_holds() -> None:
    # log(1 + e^25) = 25 + log(1 + e^-25), and the positive's log(1 + e^-30)
    value = functional.binary_nce(double(30), double(25).unsqueeze(0))
    assert value.item() - 25 == pytest.approx(math.log1p(exp(-30)) + math.log1p(exp(-25)), rel=1e-3)


def test_hinge_by_hand_takes_no_weights() -> None:
    rows = [double(0, 1.5), double(0, 5), double(-9, -9), double(0, 1e17)]
    positive, negative = double(2, 2, 2, 1e17), torch.stack(rows)
    expected = [1 - (2 - 1.5), 1 - (2 - 5), 0, 1]
    assert functional.hinge(positive, negative, reduction="none").tolist() == pytest.approx(expected)
    with pytest.raises(ValueError, match="no weight can correct"):
        functional.hinge(torch.zeros(2), torch.zeros(2, 3), weights=torch.ones(3))


def test_reductions() -> None:
    positive, negative = batch()
    each = functional.info_nce(positive, negative, reduction="none")
    of_sequences = functional.info_nce(positive.view(2, 2), negative.view(2, 2, 3), reduction="none")
    assert torch.equal(of_sequences, each.view(2, 2))
    assert functional.info_nce(positive, negative, reduction="sum").item() == pytest.approx(each.sum().item())
    assert functional.info_nce(positive, negative).item() == pytest.approx(each.sum().item() / 4)


@pytest.mark.parametrize("m", [1, 3])
def test_the_mean_over_all_draws_is_the_exact_expectation_and_so_is_the_gradient(m: int) -> None:
    logits = double(0.5, 2.0, -1.0, 1.0).requires_grad_()
    q = double(0.5, 0.2, 0.3)  # over the classes 1, 2, 3; the label is 0
    draws = torch.tensor(list(product(range(3), repeat=m)))
    probability = q[draws].prod(-1)
    mean = (
        probability
        * functional.sampled_softmax(
            logits[0].expand(len(draws)),
            logits[1:][draws],
            log_q=q.log()[draws],
            correct="importance",
            reduction="none",
        )
    ).sum()
    exact = expectations.sampled_softmax(logits, 0, m, torch.cat([double(1), q]).log()).loss
    assert mean.item() == pytest.approx(exact.item(), rel=1e-12)
    (by_draws,) = torch.autograd.grad(mean, logits)
    (by_quadrature,) = torch.autograd.grad(exact, logits)
    assert torch.allclose(by_draws, by_quadrature, atol=1e-12)


@pytest.mark.parametrize("margins", [functional.LOGISTIC, HINGE, CONTRASTIVE])
def test_the_decoupled_loss_with_log_q_is_unbiased_for_all_negatives(margins: Margins) -> None:
    positive, negatives, q = double(0.3), double(0.9, -0.4, 0.1), double(0.5, 0.2, 0.3)
    draws = torch.tensor(list(product(range(3), repeat=2)))
    each = functional.decoupled(
        positive.expand(9),
        negatives[draws],
        margins=margins,
        log_q=q.log()[draws],
        correct="importance",
        reduction="none",
    )
    full = margins.positive(positive) + margins.negative(-negatives).sum()
    assert (q[draws].prod(-1) * each).sum().item() == pytest.approx(full.item(), rel=1e-13)


@every_loss
def test_gradients_agree_with_differences(loss: Loss) -> None:
    positive, negative = (tensor.requires_grad_() for tensor in batch(3, 4, seed=1))
    assert torch.autograd.gradcheck(lambda p, n: loss(p, n, reduction="none"), (positive, negative))


@every_loss
def test_hits_are_as_if_they_were_not_there(loss: Loss) -> None:
    positive, negative = batch(3, 4)
    negative[:, 1] = 3  # the largest, so that every loss notices it
    negative.requires_grad_()
    hits = (torch.arange(4) == 1).expand(3, 4)
    without = loss(positive, negative, hits=hits)
    assert without.item() == pytest.approx(loss(positive, negative[:, [0, 2, 3]]).item(), rel=1e-14)
    assert without.item() != loss(positive, negative).item()
    (gradient,) = torch.autograd.grad(without, negative)
    assert gradient[:, 1].abs().max() == 0


@every_loss
def test_a_row_of_hits_only_has_a_finite_loss_and_gradient(loss: Loss) -> None:
    positive, negative = (tensor.requires_grad_() for tensor in batch(2, 3))
    value = loss(positive, negative, hits=torch.ones(2, 3, dtype=torch.bool))
    assert all(part.isfinite().all() for part in (value, *torch.autograd.grad(value, (positive, negative))))
    if loss in (functional.sampled_softmax, functional.hinge):
        assert value.item() == 0  # log 1, and a margin over nothing


@every_weighted_loss
def test_weights_zero_are_hits_and_counts_are_repetitions(loss: Loss) -> None:
    positive, negative = batch(2, 3)
    hits = torch.tensor([False, True, False]).expand(2, 3)
    assert loss(positive, negative, weights=double(1, 0, 1)).item() == loss(positive, negative, hits=hits).item()
    twice = torch.cat([negative, negative[:, :1]], -1)
    assert loss(positive, negative, weights=double(2, 1, 1)).item() == pytest.approx(loss(positive, twice).item())


@every_weighted_loss
def test_importance_is_the_weight_of_one_over_m_q(loss: Loss) -> None:
    positive, negative = batch(2, 3)
    q = double(0.1, 0.5, 0.4)
    expected = loss(positive, negative, weights=1 / (3 * q)).item()
    for log_q in (q.log(), q.log().expand(2, 3)):
        assert loss(positive, negative, log_q=log_q, correct="importance").item() == pytest.approx(expected, rel=1e-14)


@every_weighted_loss
def test_log_q_is_off_the_logits_that_correct_names(loss: Loss) -> None:
    positive, negative = batch(2, 3)
    log_q, label_log_q = double(0.1, 0.5, 0.4).log(), double(0.3, 0.7).log()
    shifted = {
        "all": (positive - label_log_q, negative - log_q),
        "negatives": (positive, negative - log_q),
        "none": (positive, negative),
    }
    law: dict[str, Any] = {"log_q": log_q.requires_grad_(), "positive_log_q": label_log_q.requires_grad_()}
    for correct, pair in shifted.items():
        actual = loss(positive, negative, **law, correct=correct)
        assert [actual.item(), actual.requires_grad] == [pytest.approx(loss(*pair).item(), rel=1e-14), False]
    assert loss(positive, negative, **law).item() == loss(positive, negative, **law, correct="all").item()


@every_weighted_loss
def test_log_q_that_is_missing_or_no_law_is_named(loss: Loss) -> None:
    positive, negative, log_q = double(0, 1), torch.zeros(2, 3, dtype=torch.float64), double(-1, -1, -1)
    with pytest.raises(ValueError, match=r"positive_log_q is missing: .*correct='importance'.*correct='negatives'"):
        loss(positive, negative, log_q=log_q)
    for options in ({"positive_log_q": double(-1, -1)}, {"correct": "negatives"}, {"correct": "importance"}):
        with pytest.raises(ValueError, match="log_q is missing: give the log probability of a draw"):
            loss(positive, negative, **options)
    with pytest.raises(ValueError, match="correct is 'positives'"):
        loss(positive, negative, correct="positives")
    for wrong, message in (
        (double(-1, 0.5), "positive_log_q must hold logarithms of probabilities, got 0.5"),
        (double(1e-7, 2e-7), "positive_log_q must hold logarithms of probabilities, got 1e-07"),
        (double(-1, math.nan), "positive_log_q must hold logarithms of probabilities, got nan"),
        (double(-1, -math.inf), "positive_log_q is -inf .*correct='importance'"),
        (double(-1, -1, -1), r"positive_log_q \(3,\) does not broadcast to \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            loss(positive, negative, log_q=log_q, positive_log_q=wrong)
        if wrong.shape != (3,):
            assert loss(positive, negative, log_q=log_q, positive_log_q=wrong, correct="importance").isfinite()
    hits = torch.tensor([True, False, False])
    with pytest.raises(ValueError, match=r"^log_q must hold logarithms of probabilities, got 1e-07"):
        loss(positive, negative, log_q=double(1e-7, 2e-7, 3e-7), positive_log_q=double(-1, -1), hits=hits)
    alone = double(4e-17, 4e-17)  # the rounded logarithm of 1: a history leaves each example one class
    assert loss(positive, negative, log_q=alone[:, None], positive_log_q=alone).isfinite()


@every_loss
def test_negatives_of_minus_infinity_count_for_nothing(loss: Loss) -> None:
    positive, negative = batch(3, 4)
    impossible = negative.clone()
    impossible[:, 2] = -math.inf
    leaf = impossible.requires_grad_()
    value = loss(positive, leaf)
    assert value.item() == pytest.approx(loss(positive, negative[:, [0, 1, 3]]).item(), rel=1e-14)
    (gradient,) = torch.autograd.grad(value, leaf)
    assert bool(torch.isfinite(gradient).all())
    assert gradient[:, 2].abs().max() == 0


@pytest.mark.parametrize("name", ["sampled_softmax", "info_nce", "hinge"])
def test_a_positive_of_plus_infinity_has_loss_0(name: str) -> None:
    positive = double(math.inf).requires_grad_()
    value = SAMPLED[name](positive, double(3, 4).unsqueeze(0))
    assert value.item() == 0
    assert torch.autograd.grad(value, positive)[0].item() == 0


@every_loss
def test_the_order_of_negatives_does_not_matter(loss: Loss) -> None:
    positive, negative = batch(3, 5)
    assert loss(positive, negative).item() == pytest.approx(loss(positive, negative.flip(-1)).item(), rel=1e-14)


@every_loss
def test_an_empty_batch(loss: Loss) -> None:
    positive, negative = torch.empty(0), torch.empty(0, 3)
    assert loss(positive, negative, reduction="none").shape == (0,)
    assert loss(positive, negative, reduction="sum").item() == 0
    with pytest.raises(ValueError, match="the batch is empty"):
        loss(positive, negative)


@every_loss
@pytest.mark.parametrize(
    "change, message",
    [
        ({"negative": torch.empty(2, 0)}, "there are 0 negatives"),
        ({"negative": torch.zeros(3, 3)}, "one row of negatives for each"),
        ({"negative": torch.zeros(2)}, "negative_logits must be a floating-point tensor"),
        ({"negative": torch.zeros(2, 3, dtype=torch.int64)}, "negative_logits must be a floating-point tensor"),
        ({"positive": torch.zeros(2, 1)}, "positive_logits must be a floating-point tensor"),
        ({"positive": torch.tensor([0.0, math.nan])}, "a logit is NaN"),
        ({"negative": torch.full((2, 3), math.nan)}, "a logit is NaN"),
        ({"positive": torch.tensor([0.0, -math.inf])}, "-inf"),
        ({"negative": torch.full((2, 3), math.inf)}, "infinite"),
        ({"hits": torch.zeros(2, 4, dtype=torch.bool)}, r"hits \(2, 4\) does not broadcast to \(2, 3\)"),
        ({"hits": torch.zeros(2, 3)}, "hits must be bool"),
        ({"reduction": "average"}, "reduction is 'average'"),
    ],
)
def test_bad_input_is_named(loss: Loss, change: dict[str, Any], message: str) -> None:
    arguments = {"positive": torch.zeros(2), "negative": torch.zeros(2, 3)} | change
    with pytest.raises(ValueError, match=message):
        loss(arguments.pop("positive"), arguments.pop("negative"), **arguments)


@every_weighted_loss
@pytest.mark.parametrize(
    "change, message",
    [
        ({"weights": torch.ones(2)}, r"weights \(2,\) does not broadcast to \(2, 3\)"),
        ({"weights": torch.tensor([1.0, -1.0, 1.0])}, "weights must be finite numbers >= 0, got -1.0"),
        ({"weights": torch.tensor([1.0, math.nan, 1.0])}, "weights must be finite numbers >= 0, got nan"),
        ({"log_q": torch.zeros(4)}, r"log_q \(4,\) does not broadcast"),
        ({"log_q": torch.tensor(0.5)}, r"log_q must hold logarithms of probabilities, got 0\.5$"),
        ({"log_q": torch.full((3,), math.nan)}, "got nan"),
        ({"weights": torch.tensor([1.0, math.inf, 1.0])}, "weights must be finite numbers >= 0, got inf"),
        ({"log_q": torch.tensor([-1.0, -math.inf, -1.0])}, r"log_q is -inf .* was never counted.* \(counts \+ 1\)"),
        ({"log_q": torch.tensor([-math.inf, -1.0, -1.0]), "weights": torch.tensor([0.0, 1.0, 1.0])}, "log_q is -inf"),
    ],
)
def test_bad_weights_are_named(loss: Loss, change: dict[str, Tensor], message: str) -> None:
    for correct in ("negatives", "importance") if "log_q" in change else ("all",):
        with pytest.raises(ValueError, match=message):
            loss(torch.zeros(2), torch.zeros(2, 3), correct=correct, **change)


@every_weighted_loss
def test_a_logarithm_of_a_probability_may_be_rounded_above_0_and_no_further(loss: Loss) -> None:
    arguments = double(0), double(0, 0).unsqueeze(0)
    for correct in ("negatives", "importance"):
        assert loss(*arguments, log_q=double(-1.0, 9e-7), correct=correct).isfinite()
        with pytest.raises(ValueError, match=r"logarithms of probabilities, got 1\.1e-06"):
            loss(*arguments, log_q=double(-1.0, 1.1e-6), correct=correct)


@every_weighted_loss
def test_a_weight_that_the_precision_does_not_hold_is_an_error_or_right(loss: Loss) -> None:
    # 1/q = e^800 is above all doubles. The softmax takes its logarithm, a decoupled loss the weight itself.
    log_q = double(-800.0, -1.0)
    if loss in (functional.sampled_softmax, functional.info_nce):
        value = functional.sampled_softmax(double(0), double(0, -1e9).unsqueeze(0), log_q=log_q, correct="importance")
        assert value.item() == pytest.approx(800 - log(2))
    else:
        with pytest.raises(ValueError, match="beyond the precision of the logits"):
            loss(double(0), double(0, 0).unsqueeze(0), log_q=log_q, correct="importance")


@every_loss
def test_what_stands_at_a_hit_does_not_matter(loss: Loss) -> None:
    hits = torch.tensor([[False, True, False]])
    positive, clean = double(0.3), double(0.5, 0, -1).unsqueeze(0)
    wanted = loss(positive, clean, hits=hits).item()
    weighted: dict[str, Any] = {}
    if loss is not functional.hinge:
        weighted = {"log_q": double(-1, -2, -3), "positive_log_q": double(-2)}
    clean_weighted = loss(positive, clean, hits=hits, **weighted).item()
    for wrong in (math.nan, math.inf, -math.inf):
        negative = double(0.5, wrong, -1).unsqueeze(0).requires_grad_()
        value = loss(positive, negative, hits=hits)
        assert value.item() == wanted
        (gradient,) = torch.autograd.grad(value, negative)
        assert gradient.isfinite().all()
        if weighted:
            given = weighted | {"log_q": double(-1, wrong, -3)}
            assert loss(positive, clean, hits=hits, **given).item() == clean_weighted
            weights = double(1, wrong, 1)
            assert loss(positive, clean, hits=hits, weights=weights).item() == wanted


def test_cross_entropy_by_hand_and_with_margins_of_which_its_own_class_has_none() -> None:
    logits, labels = double(2, 0, 1).unsqueeze(0), torch.tensor([0])
    value = functional.cross_entropy(logits, labels)
    assert value.item() == pytest.approx(log(1 + exp(-2) + exp(-1)), rel=1e-15)
    value = functional.pairwise_margin(logits, labels, double(99, 3, 5).log())
    assert value.item() == pytest.approx(log(1 + 3 * exp(-2) + 5 * exp(-1)), rel=1e-15)
    value = functional.pairwise_margin(logits, labels.int(), 0.7)  # one for all negatives, or less of the label's score
    assert value.item() == pytest.approx(log(1 + exp(0 - 1.3) + exp(1 - 1.3)), rel=1e-15)
    with pytest.raises(ValueError, match=r"log_rho \(4,\) does not broadcast"):
        functional.pairwise_margin(logits, labels, torch.zeros(4))


def test_margins_by_hand() -> None:
    log_prior = double(0.5, 0.3, 0.2).log()
    log_pi = log_prior[[2]].unsqueeze(-1)
    assert functional.adaptive(log_pi, 2.0).item() == pytest.approx(2 * 0.2**-0.25)
    assert functional.equalised(log_prior).exp().tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert functional.equalised([-math.inf, -1], exponent=0).exp().tolist() == [1, 1]
    assert functional.logit_adjusted(log_pi, log_prior).exp()[0].tolist() == pytest.approx([0.5 / 0.2, 0.3 / 0.2, 1])


@pytest.mark.parametrize("name", ["adaptive", "equalised", "logit_adjusted"])
def test_a_margin_loss_is_the_sampled_softmax_of_all_negatives_with_margins_for_weights(name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(5, (6,), generator=generator)
    log_prior = torch.log_softmax(torch.randn(5, generator=generator, dtype=torch.float64), 0)
    column, others = labels.unsqueeze(-1), torch.tensor([[y for y in range(5) if y != label] for label in labels])

    def margins(ids: Tensor) -> Tensor:
        positive, negative = log_prior[column], log_prior[ids]
        if name == "adaptive":
            return functional.adaptive(positive, 0.5).expand(ids.shape)
        return functional.equalised(negative) if name == "equalised" else functional.logit_adjusted(positive, negative)

    full = functional.pairwise_margin(logits, labels, margins(torch.arange(5).expand(6, 5)))
    sampled = functional.sampled_softmax(
        logits.gather(-1, column).squeeze(-1), logits.gather(-1, others), weights=margins(others).exp()
    )
    assert full.item() == pytest.approx(sampled.item(), rel=1e-14)


@pytest.mark.parametrize(
    "logits, labels, message",
    [
        (torch.zeros(2, 3), torch.tensor([0, 3]), "a label is 3; the 3 classes are 0..2"),
        (torch.zeros(2, 3), torch.tensor([-1, 0]), "a label is -1"),
        (torch.zeros(2, 3), torch.zeros(2), "labels are torch.float32"),
        (torch.zeros(2, 3), torch.tensor([0]), r"must be \[B, L\] and \[B\]"),
        (torch.full((1, 3), math.nan), torch.tensor([0]), "a logit is nan"),
        (torch.full((1, 3), math.inf), torch.tensor([0]), "a logit is inf"),
        (torch.tensor([[-math.inf, 0.0]]), torch.tensor([0]), "the logit of a label is -inf"),
        (torch.empty(0, 3), torch.empty(0, dtype=torch.int64), "the batch is empty"),
    ],
)
def test_bad_input_of_full_losses_is_named(logits: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        functional.cross_entropy(logits, labels)


def test_no_label_is_ignored_where_labels_are_not_read() -> None:
    for loss in (functional.cross_entropy, lambda z, y: functional.linear_cross_entropy(torch.eye(3), z, y)):
        with pytest.raises(RuntimeError, match="index -100 is out of bounds"):
            torch.func.vmap(loss)(torch.zeros(1, 3, 3), torch.tensor([[-100, 0, 1]]))


def test_arcface_margin_by_angles() -> None:
    theta = torch.linspace(0, math.pi, 50, dtype=torch.float64)
    for m in (0.0, 0.2, 0.5, math.pi / 2):
        printed = functional.arcface_margin(theta.cos(), m, guarded=False)
        assert torch.allclose(printed, theta.cos() - (theta + m).cos(), atol=1e-7)
        guarded = functional.arcface_margin(theta.cos(), m)
        assert (guarded >= -1e-12).all()
        assert torch.equal(guarded[theta < math.pi - m - 1e-6], printed[theta < math.pi - m - 1e-6])
        assert torch.allclose(guarded[theta > math.pi - m + 1e-6], double(m * math.sin(m)))
    assert functional.arcface_margin(double(math.nan, 0), 0.5).isnan().tolist() == [True, False]
    with pytest.raises(ValueError, match="margin is 2"):
        functional.arcface_margin(torch.zeros(1), 2)


def layer(classes: int = 50, **options: Any) -> SampledOutput:
    return SampledOutput(8, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64, **options)


def data(size: int = 6, classes: int = 50) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(size, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(classes, (size,), generator=generator)
    return hidden, labels, torch.randint(classes, (7,), generator=generator)


@pytest.mark.parametrize("bias", [True, False])
def test_the_layer_gathers_the_logits_that_a_dense_one_has(bias: bool) -> None:
    output, (hidden, labels, ids) = layer(bias=bias), data()
    if output.bias is not None:
        torch.nn.init.normal_(output.bias, generator=torch.Generator().manual_seed(2))
    full = output.logits(hidden)
    positive, negative = output(hidden, labels, ids)
    assert torch.allclose(positive, full.gather(-1, labels.unsqueeze(-1)).squeeze(-1))
    assert torch.allclose(negative, full[:, ids])
    _, gathered = output(hidden, labels, ids.expand(6, 7))
    assert torch.allclose(gathered, full[:, ids])


def test_its_gradients_are_sparse_and_equal_the_dense_ones() -> None:
    output, (hidden, labels, ids) = layer(sparse=True), data()
    functional.info_nce(*output(hidden, labels, ids)).backward()  # type: ignore[no-untyped-call]
    assert output.weight.grad is not None
    assert output.weight.grad.is_sparse
    touched = output.weight.grad.coalesce().indices().unique().tolist()  # type: ignore[no-untyped-call]
    assert touched == sorted({*labels.tolist(), *ids.tolist()})
    full = output.logits(hidden)
    dense = functional.info_nce(full.gather(-1, labels.unsqueeze(-1)).squeeze(-1), full[:, ids])
    expected = torch.autograd.grad(dense, (output.weight, output.bias))
    assert torch.allclose(output.weight.grad.to_dense(), expected[0])
    assert output.bias is not None
    assert output.bias.grad is not None
    assert torch.allclose(output.bias.grad.to_dense(), expected[1])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"labels": torch.tensor([0] * 5 + [50])}, "a label is 50; the 50 classes are 0..49"),
        ({"ids": torch.tensor([0, -1])}, "a negative is -1"),
        ({"ids": torch.zeros(5, 2, dtype=torch.int64)}, "ids have shape"),
        ({"hidden": torch.zeros(6, 9)}, r"must be \[B, 8\] and \[B\]"),
        ({"hidden": torch.zeros(6, 8)}, "hidden is torch.float32 and the weights torch.float64: move one by .to()"),
    ],
)
def test_bad_input_of_the_layer_is_named(change: dict[str, Tensor], message: str) -> None:
    hidden, labels, ids = data()
    with pytest.raises(ValueError, match=message):
        layer()(*({"hidden": hidden, "labels": labels, "ids": ids} | change).values())


def test_a_layer_says_what_it_is_and_needs_sizes() -> None:
    assert repr(layer(bias=False)) == "SampledOutput(features=8, classes=50, bias=False, normalize=False, sparse=False)"
    assert layer().weight.abs().max().item() == pytest.approx(1 / math.sqrt(8), rel=0.02)
    with pytest.raises(ValueError, match="features is 0; it must be a whole number >= 1"):
        SampledOutput(0, 5)


def columns(scores: Tensor) -> Tensor:
    return torch.arange(len(scores)) % (len(scores) - 1)


def marked(scores: Tensor) -> Tensor:
    return columns(scores) == columns(scores).unsqueeze(-1)


OF_SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: lambda z, loss=loss: loss(z[:, 0], z[:, 1:]) for name, loss in SAMPLED.items()},
    **{
        f"{name}, hits": lambda z, loss=loss: loss(z[:, 0], z[:, 1:], hits=marked(z)[:, 1:])
        for name, loss in SAMPLED.items()
    },
    "gbce": lambda z: functional.gbce(z[:, 0], z[:, 1:], classes=500),
    "cross_entropy": lambda z: functional.cross_entropy(z, columns(z)),
    "pairwise_margin": lambda z: functional.pairwise_margin(z, columns(z), 0.5),
    "listnet": lambda z: functional.listnet(z, marked(z)),
    "marginal": lambda z: functional.marginal(z, marked(z)),
    "sigmoid_pairs": lambda z: functional.sigmoid_pairs(z, columns(z)),
    "in_batch": lambda z: functional.in_batch(z, columns(z), correct="none"),
    "in_batch, mask": lambda z: functional.in_batch(z, columns(z), correct="none", hits="mask", temperature=0.5),
    "in_batch, learned temperature": lambda z: functional.in_batch(
        z, columns(z), correct="none", temperature=torch.ones(1, requires_grad=True)
    ),
    "in_batch, learned temperatures": lambda z: functional.in_batch(
        z, columns(z), correct="none", temperature=z.new_ones(len(z), requires_grad=True), symmetric=True
    ),
    "in_batch, all options": lambda z: functional.in_batch(
        z, columns(z), correct="none", positives=marked(z), label_smoothing=0.1, symmetric=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", [8, 400])
@pytest.mark.parametrize("name", OF_SCORES)
def test_scores_may_be_edited_after_the_loss(name: str, size: int) -> None:
    """As with torch's cross entropy, which does not keep what it is given; also in one block and in several."""
    vectors = torch.randn(size, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    gradients = []
    for edited in (False, True):
        scores = vectors @ vectors.T
        loss = OF_SCORES[name](scores)
        if edited:
            scores.detach().fill_diagonal_(-math.inf)  # the hardest negatives, for a log
        gradients.append(torch.autograd.grad(loss, vectors)[0])
    assert torch.equal(*gradients)


def test_labels_and_log_q_may_be_edited_after_the_loss() -> None:
    """Gradients made in the backward pass read them, as do second derivatives in a learned temperature."""
    scores, gradients = torch.eye(3, dtype=torch.float64, requires_grad=True), []
    for edited in (False, True):
        labels, log_q, t = torch.arange(3), double(-1, -2, -3), torch.ones(1, dtype=torch.float64, requires_grad=True)
        rows = functional.linear_cross_entropy(scores, scores, labels, log_q=log_q, reduction="none").sum()
        loss = functional.in_batch(scores, labels, log_q=log_q, correct="negatives", temperature=t)
        (slope,) = torch.autograd.grad(loss, t, create_graph=True)
        for values in (labels, log_q) if edited else ():
            values.mul_(0)
        gradients.append(torch.stack([torch.autograd.grad(of, scores)[0] for of in (rows, slope)]))
    assert torch.equal(*gradients)


def test_logits_are_dense_and_on_one_device() -> None:
    """Both were raw errors of torch; all on the device meta is no error, as for shapes."""
    positive, negative = torch.zeros(2), torch.zeros(2, 3)
    with pytest.raises(ValueError, match="positive_logits is on meta and negative_logits on cpu; they must be on one"):
        functional.decoupled(positive.to("meta"), negative)
    with pytest.raises(ValueError, match=r"negative_logits has the layout torch.sparse_coo; it must be dense"):
        functional.sampled_softmax(positive, negative.to_sparse())
    for wrong in (torch.arange(3).to_sparse(), torch.nested.nested_tensor([torch.arange(3)], layout=torch.jagged)):
        with pytest.raises(ValueError, match=r"label has the layout .*; it must be dense"):
            functional.cross_entropy(torch.zeros(3, 3), wrong)
    with pytest.raises(ValueError, match=r"logits must be a floating-point tensor \[B, L\], got torch.float8"):
        functional.cross_entropy(torch.zeros(3, 3).to(torch.float8_e4m3fn), [0, 1, 2])
    with pytest.raises(ValueError, match=r"logits has the layout torch.sparse_coo"):
        functional.marginal(negative.to_sparse(), torch.ones(2, 3, dtype=torch.bool))
    loss = functional.sampled_softmax(positive.to("meta"), negative.to("meta"), reduction="none")
    vectors, ids = negative.to("meta"), torch.arange(2, device="meta")
    in_blocks = functional.linear_in_batch(vectors, vectors, ids, correct="none", reduction="none")
    squared = functional.in_batch(vectors[:, :2], ids, log_q=positive.to("meta"), reduction="none")
    assert loss.shape == in_blocks.shape == squared.shape == (2,)


def test_the_simplest_loss_of_the_guide_to_contributing() -> None:
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "def dcl(" in block]
    names = dict(vars(_sampled))
    exec(code, names)
    dcl: Any = names["dcl"]
    positive, negative = double(2).requires_grad_(), double(0, 1).unsqueeze(0).requires_grad_()
    loss = dcl(positive, negative)
    assert loss.item() == pytest.approx(log(1 + exp(1)) - 2)
    assert torch.autograd.grad(loss, positive)[0].item() == -1
    assert dcl(positive, negative, hits=[[True, False]], reduction="none").tolist() == pytest.approx([1 - 2])
    with pytest.raises(ValueError, match="a logit is NaN"):
        dcl(positive * torch.nan, negative)
