"""Losses against those of the package and sums over pairs; the towers."""

import math

import pytest
import torch
from torch import Tensor

from sumexp import functional, samplers
from sumexp.chapters.catalogue import forms
from sumexp.chapters.catalogue.forms import Form
from sumexp.chapters.catalogue.training import mixture
from sumexp.functional._arguments import Correct
from sumexp.functional._batch import InBatchHits

SIZE, ITEMS = 7, 5
IDS = torch.tensor([0, 1, 0, 2, 3, 1, 0])
"""Own items of a batch, with hits."""
LAW = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05], dtype=torch.float64).log()


def scores(rows: int = SIZE, columns: int = SIZE) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()


def agree(actual: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    """One value and one gradient."""
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    for first, second in zip(torch.autograd.grad(actual, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("form", "correct", "hits"),
    [
        *(("none", "none", "keep"), ("kept", "all", "keep"), ("masked", "all", "mask")),
        *(("negatives", "negatives", "mask"), ("importance", "importance", "mask")),
    ],
)
def test_the_forms_in_batch_are_in_batch_of_the_package(form: Form, correct: Correct, hits: InBatchHits) -> None:
    matrix = scores()
    ours = functional.in_batch(matrix, IDS, log_q=LAW[IDS], correct=correct, hits=hits)
    agree(forms.batch_loss(form, matrix, IDS, LAW[IDS]), ours, matrix)


def test_mixed_columns_have_the_law_of_themixture() -> None:
    columns = torch.cat([IDS, torch.tensor([4, 0, 3])])
    matrix = scores(SIZE, len(columns))
    share = (SIZE - 1) / (SIZE - 1 + SIZE // 2)
    parts = [samplers.unigram(torch.tensor([8, 6, 3, 2, 1]), 1.0), samplers.Uniform(ITEMS)]
    law = samplers.Mixture(parts, [share, 1 - share])
    by_hand = forms.batch_loss("mixed", matrix, columns, mixture(LAW, SIZE)[columns])
    agree(by_hand, functional.in_batch(matrix, columns, log_q=law.log_prob(columns)), matrix)


def test_draws_by_popularity_are_the_sampled_softmax_of_the_package() -> None:
    ids = torch.tensor([4, 0, 0])
    positive, negative = scores(SIZE, 1).squeeze(1), scores(SIZE, 3)
    ours = functional.sampled_softmax(positive, negative, log_q=LAW[ids], positive_log_q=LAW[IDS])
    agree(forms.sampled("popularity", positive, negative, (LAW[IDS], LAW[ids]), ITEMS), ours, positive, negative)


def test_the_step_of_refined_is_that_of_importance_weights_whose_hits_are_drawn_again() -> None:
    matrix = scores()
    (step,) = torch.autograd.grad(forms.batch_loss("refined", matrix, IDS, LAW[IDS]), matrix)
    each = []
    for i, item in enumerate(IDS.tolist()):
        others = [j for j in range(SIZE) if IDS[j] != item]
        law = LAW[IDS[others]] - math.log(1 - LAW[item].exp()) + math.log(len(others))
        logits = torch.cat([matrix[i, i].unsqueeze(0), matrix[i, others] - law])
        each.append(torch.logsumexp(logits, 0) - matrix[i, i])
    (wanted,) = torch.autograd.grad(torch.stack(each).mean(), matrix)
    torch.testing.assert_close(step, wanted, rtol=1e-10, atol=1e-12)


def test_an_example_of_hits_alone_adds_nothing_to_refined() -> None:
    same, matrix = torch.zeros(3, dtype=torch.long), scores(3, 3)
    loss = forms.batch_loss("refined", matrix, same, LAW[same])
    (step,) = torch.autograd.grad(loss, matrix)
    assert loss == 0
    assert not step.any()


def test_sigmoids_are_sums_over_pairs() -> None:
    matrix = scores()
    rows = [
        -math.log(1 / (1 + math.exp(-(f if i == j else -f)))) / SIZE
        for i, row in enumerate(matrix.tolist())
        for j, f in enumerate(row)
    ]
    assert forms.batch_loss("siglip", matrix, IDS, LAW[IDS]).item() == pytest.approx(math.fsum(rows), rel=1e-12)
    positive, negative = scores(2, 1).squeeze(1), scores(2, 3)
    weight = 1 - 0.75 * (1 - 3 / 4)  # m = 3 of the 4 other items
    loss = forms.sampled("gbce", positive, negative, (LAW[:2], LAW[:3]), ITEMS).item()
    true = [weight * math.log(1 + math.exp(-f)) for f in positive.tolist()]
    false = [math.log(1 + math.exp(f)) for f in negative.flatten().tolist()]
    assert loss == pytest.approx(math.fsum(true + false) / (2 * 4), rel=1e-12)


def test_with_numbers_what_is_served_begins_at_the_popularity() -> None:
    for form in forms.FORMS:
        start, constant = forms.start(form, True, 8, 3, LAW)
        served = start + constant + (LAW if form in forms.RATIOS else 0)
        assert torch.allclose(served - served[0], LAW - LAW[0]), form
    # gBCE of draws from all items is least at log P + log(beta L / m), the sigmoid over pairs at PMI - log(B - 1).
    assert forms.start("gbce", True, 8, 3, LAW)[1] == pytest.approx(math.log(forms.beta(3, 5) * 5 / 3))
    assert forms.start("siglip", True, 8, 3, LAW)[1] == -math.log(7)


def test_scores_of_the_towers_are_cosines_over_the_temperature() -> None:
    towers = forms.Towers(4, 3, LAW.float(), 0.5, True, torch.Generator().manual_seed(0))
    score = towers(torch.tensor([2]), torch.tensor([1])).item()
    u, v = towers.users[2].tolist(), towers.items[1].tolist()
    cosine = math.fsum(a * b for a, b in zip(u, v, strict=True)) / (math.hypot(*u) * math.hypot(*v))
    assert score == pytest.approx(cosine / 0.1 + math.log(0.3) + 0.5, rel=1e-5)
    without = forms.Towers(4, 3, LAW.float(), 0.0, False, torch.Generator().manual_seed(0))
    assert not without.numbers.requires_grad
    assert without.numbers.abs().max() == 0


def test_a_form_without_such_a_loss() -> None:
    with pytest.raises(ValueError, match="form is 'full', which has no loss in batch"):
        forms.batch_loss("full", scores(), IDS, LAW[IDS])
    with pytest.raises(ValueError, match="form is 'kept', which has no loss of draws"):
        forms.sampled("kept", scores(2, 1).squeeze(1), scores(2, 3), (LAW[:2], LAW[:3]), ITEMS)
