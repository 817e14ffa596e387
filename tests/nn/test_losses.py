"""Losses as modules: against the functions that they are made of, and places that are no example."""

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from sumexp import functional
from sumexp.functional._arguments import Correct
from sumexp.nn import BinaryNCE, InBatchSoftmax, ListNet

IDS = torch.tensor([3, 1, 3, 0, 2, 1])


def batch(*shape: int) -> Tensor:
    return torch.randn(shape or (4, 6), generator=torch.Generator().manual_seed(0), dtype=torch.float64)


LOG_Q = torch.log_softmax(batch(4), 0)[IDS]


@pytest.mark.parametrize("correct", get_args(Correct))
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_in_batch_softmax_is_the_function(correct: Any, reduction: Any) -> None:
    options: dict[str, Any] = {"correct": correct, "hits": "mask", "label_smoothing": 0.1, "temperature": 0.5}
    layer = InBatchSoftmax(reduction=reduction, **options)
    found = layer(batch(), IDS, log_q=LOG_Q, positives=[[1], [-1], [-1], [2]])
    wanted = functional.in_batch(
        batch(), IDS, log_q=LOG_Q, positives=[[1], [-1], [-1], [2]], reduction=reduction, **options
    )
    assert torch.equal(found, wanted)
    assert f"correct={correct!r}, hits='mask', temperature=0.5, learn_temperature=False" in repr(layer)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("by_row", [False, True])
def test_rows_and_columns_that_are_not_there_count_for_nothing(symmetric: bool, by_row: bool) -> None:
    ids, law = IDS.clone(), LOG_Q.clone()
    ids[[1, 5]], law[[1, 5]] = -100, torch.nan
    kept = torch.tensor([0, 2, 3, 4])  # three examples and a further column
    dirty = batch()
    dirty[1], dirty[:, 1], dirty[:, 5] = torch.nan, torch.inf, torch.nan
    laws = (law.expand(4, 6), LOG_Q[kept].expand(3, 4)) if by_row else (law, LOG_Q[kept])
    leaves = dirty.requires_grad_(), batch()[kept[:3]][:, kept].requires_grad_()
    layer = InBatchSoftmax(symmetric=symmetric)
    found, wanted = layer(leaves[0], ids, log_q=laws[0]), layer(leaves[1], IDS[kept], log_q=laws[1])
    assert found.item() == pytest.approx(wanted.item(), rel=1e-14)
    gradients = torch.autograd.grad(found, leaves[0])[0], torch.autograd.grad(wanted, leaves[1])[0]
    torch.testing.assert_close(gradients[0][kept[:3]][:, kept], gradients[1])
    assert (gradients[0][1] == 0).all()
    layer.reduction = "none"
    assert layer(leaves[0], ids, log_q=laws[0])[1] == 0
    layer.reduction = "mean"
    with pytest.raises(ValueError, match="holds no example"):
        layer(batch(), torch.full((6,), -100), log_q=LOG_Q)


def test_a_learned_temperature_moves_and_is_saved() -> None:
    layer = InBatchSoftmax(temperature=0.5, learn_temperature=True, dtype=torch.float64)
    layer(batch(), IDS, log_q=LOG_Q).backward()  # type: ignore[no-untyped-call]
    assert layer.log_temperature is not None
    assert layer.log_temperature.grad is not None
    # d loss / d log T = -T-derivative by differences of the function
    h, t = 1e-6, 0.5
    ends = [functional.in_batch(batch(), IDS, log_q=LOG_Q, temperature=t * (1 + s * h)).item() for s in (1, -1)]
    assert layer.log_temperature.grad.item() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    other = InBatchSoftmax(learn_temperature=True, dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    assert other(batch(), IDS, log_q=LOG_Q).item() == layer(batch(), IDS, log_q=LOG_Q).item()
    assert list(InBatchSoftmax().parameters()) == []


def test_binary_nce_is_the_function() -> None:
    positive, negative = batch(4), batch(4, 3)
    laws = {"log_q": LOG_Q[:3], "positive_log_q": LOG_Q[:4]}
    for correct in get_args(Correct):
        layer = BinaryNCE(correct=correct, reduction="none")
        wanted = functional.binary_nce(positive, negative, correct=correct, reduction="none", **laws)
        assert torch.equal(layer(positive, negative, **laws), wanted)
    assert repr(BinaryNCE()) == "BinaryNCE(correct='all', reduction='mean')"


def test_lists_of_unequal_length_are_as_if_they_stood_alone() -> None:
    logits, gains = batch(3, 4), torch.tensor([[1, 0, 2, 0], [3, 1, -100, -100], [-100, -100, -100, -100]])
    dirty = logits.masked_fill(gains == -100, torch.nan).requires_grad_()
    alone = [
        functional.listnet(logits[:1], gains[:1]).item(),
        functional.listnet(logits[1:2, :2], gains[1:2, :2]).item(),
    ]
    each = ListNet(reduction="none")(dirty, gains)
    assert each.tolist() == pytest.approx([*alone, 0])
    value = ListNet()(dirty, gains)
    assert value.item() == pytest.approx(sum(alone) / 2)
    (gradient,) = torch.autograd.grad(value, dirty)
    assert gradient.isfinite().all()
    assert (gradient[gains == -100] == 0).all()
    marks = torch.tensor([[True, False, True, False]])
    assert ListNet()(logits[:1], marks).item() == functional.listnet(logits[:1], marks).item()
    with pytest.raises(ValueError, match="holds no example"):
        ListNet()(logits, torch.full((3, 4), -100))


@pytest.mark.parametrize("layer", [InBatchSoftmax, ListNet])
def test_bad_options_are_named(layer: Any) -> None:
    with pytest.raises(ValueError, match="ignore_index is 'x'; it must be a whole number"):
        layer(ignore_index="x")
    with pytest.raises(ValueError, match="reduction is 'average'"):
        layer(reduction="average")
    with pytest.raises(ValueError, match="temperature is 0"):
        InBatchSoftmax(temperature=0)
    with pytest.raises(ValueError, match="correct is 'some'"):
        BinaryNCE(correct="some")  # type: ignore[arg-type]
