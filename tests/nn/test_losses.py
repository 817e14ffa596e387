"""Losses as modules: against the functions that they are made of, and places that are no example."""

from typing import Any, get_args
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp import _checks as checks
from sumexp import functional, samplers
from sumexp.functional._arguments import Correct
from sumexp.nn import GBCE, BinaryNCE, InBatchSoftmax, ListNet, SampledSoftmax, SigmoidPairs

IDS = torch.tensor([3, 1, 3, 0, 2, 1])


def batch(*shape: int) -> Tensor:
    return torch.randn(shape or (4, 6), generator=torch.Generator().manual_seed(0), dtype=torch.float64)


LOG_Q = torch.log_softmax(batch(4), 0)[IDS]


@pytest.mark.parametrize("correct", get_args(Correct))
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_in_batch_softmax_is_the_function(correct: Any, reduction: Any) -> None:
    options: dict[str, Any] = {"correct": correct, "hits": "mask", "label_smoothing": 0.1, "temperature": 0.5}
    layer = InBatchSoftmax(reduction=reduction, **options)
    actual = layer(batch(), IDS, log_q=LOG_Q, positives=[[1], [-1], [-1], [2]])
    wanted = functional.in_batch(
        batch(), IDS, log_q=LOG_Q, positives=[[1], [-1], [-1], [2]], reduction=reduction, **options
    )
    assert torch.equal(actual, wanted)
    assert f"correct={correct!r}, hits='mask', temperature=0.5, learn_temperature=False" in repr(layer)


def option(*values: Any) -> Any:
    return st.sampled_from(values)


OPTIONS = st.fixed_dictionaries(
    {
        "correct": option(*get_args(Correct)),
        "hits": option("keep", "mask"),
        "label_smoothing": option(0.0, 0.2),
        "symmetric": st.booleans(),
        "temperature": option(1.0, 0.3),
        "learn_temperature": st.booleans(),
        "reduction": option("mean", "sum", "none"),
    }
)
BATCHES = st.integers(1, 5).flatmap(
    lambda size: st.tuples(
        st.lists(st.booleans(), min_size=size, max_size=size).filter(any),
        st.lists(st.booleans(), max_size=3),
        option(None, "marks", "classes"),
        option("none", "by column", "by row"),
        st.booleans(),
        st.integers(0, 99),
    )
)


@settings(max_examples=150, deadline=None)
@given(options=OPTIONS, given_batch=BATCHES)
@pytest.mark.parametrize("way", ["eager", "as in a graph"])
def test_a_padded_batch_is_the_batch_without_its_padding(way: str, options: dict[str, Any], given_batch: Any) -> None:
    """Every option, with NaN where there is no example and masked candidates: values and gradients."""
    of_rows, further, several, law, named, seed = given_batch
    generator = torch.Generator().manual_seed(seed)
    size, present = len(of_rows), torch.tensor([*of_rows, *further])
    columns = len(present)
    rows, kept = present[:size], present.nonzero().squeeze(-1)
    ids = torch.randint(3, (columns,), generator=generator)
    scores = torch.randn(size, columns, generator=generator, dtype=torch.float64)
    if several is None:
        masked = (torch.rand(size, columns, generator=generator) < 0.2) & ~torch.eye(size, columns, dtype=torch.bool)
        scores = scores.masked_fill(masked, -torch.inf)
    shape = {"none": None, "by column": (columns,), "by row": (size, columns)}[law]
    log_q = None if shape is None else -1 - torch.rand(shape, generator=generator, dtype=torch.float64)
    if log_q is None:
        options = options | {"correct": "none"}
    positives = {
        None: None,
        "marks": torch.rand(size, columns, generator=generator) < 0.4,
        "classes": torch.randint(-1, 3, (size, columns + 1), generator=generator),
    }[several]
    extra = {"row_ids": torch.randint(2, (size,), generator=generator)} if named or options["hits"] == "mask" else {}
    if named:
        extra["row_log_q"] = -1 - torch.rand(size, generator=generator, dtype=torch.float64)
    padded, layer = scores.clone(), InBatchSoftmax(dtype=torch.float64, **options)
    padded[~rows], padded[:, ~present] = torch.nan, torch.nan
    unknown = ~present | ~rows.unsqueeze(-1) if law == "by row" else ~present
    laws = {} if log_q is None else {"log_q": log_q.masked_fill(unknown, torch.nan)}
    marks = positives
    if several == "classes":
        marks = torch.where(rows.unsqueeze(-1), positives.masked_fill(positives == -1, -100), 1)
    more = {"row_log_q": extra["row_log_q"].masked_fill(~rows, torch.nan)} if "row_log_q" in extra else {}
    leaves = padded.requires_grad_(), scores[rows][:, kept].requires_grad_()
    with mock.patch.object(checks, "is_traced", return_value=way != "eager"):
        actual = layer(leaves[0], ids.masked_fill(~present, -100), positives=marks, **laws, **(extra | more))

    cut = None if positives is None else positives[rows][:, kept] if several == "marks" else positives[rows]
    if log_q is not None:
        laws = {"log_q": log_q[kept] if log_q.ndim == 1 else log_q[rows][:, kept]}
    wanted = layer(leaves[1], ids[kept], positives=cut, **laws, **{name: value[rows] for name, value in extra.items()})
    if options["reduction"] == "none":
        assert (actual[~rows] == 0).all()
        actual = actual[rows]
    torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)
    learned, pairs = list(layer.parameters()), zip((actual, wanted), leaves, strict=True)
    each = [torch.autograd.grad(value.sum(), [leaf, *learned]) for value, leaf in pairs]
    gradients, *more_gradients = zip(*each, strict=True)
    for first, second in more_gradients:
        torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients[0][rows][:, kept], gradients[1], rtol=1e-12, atol=1e-12)
    assert (gradients[0][~rows] == 0).all()
    assert (gradients[0][:, ~present] == 0).all()


@settings(max_examples=50, deadline=None)
@given(hits=option("keep", "mask"), reduction=option("mean", "sum", "none"), given_batch=BATCHES)
@pytest.mark.parametrize("way", ["eager", "as in a graph"])
def test_padded_pairs_are_the_pairs_without_their_padding(
    way: str, hits: Any, reduction: Any, given_batch: Any
) -> None:
    """As above, with a learned scale and bias."""
    of_rows, further, masks, law, _, seed = given_batch
    generator = torch.Generator().manual_seed(seed)
    size, present = len(of_rows), torch.tensor([*of_rows, *further])
    rows, kept = present[:size], present.nonzero().squeeze(-1)
    ids = torch.randint(3, present.shape, generator=generator)
    scores = torch.randn(size, len(present), generator=generator, dtype=torch.float64)
    if masks:
        diagonal = torch.eye(*scores.shape, dtype=torch.bool)
        scores = scores.masked_fill((torch.rand(scores.shape, generator=generator) < 0.2) & ~diagonal, -torch.inf)
    unknown = ~present if law == "by column" else ~present | ~rows.unsqueeze(-1)
    log_q = None if law == "none" else -1 - torch.rand(unknown.shape, generator=generator, dtype=torch.float64)
    learned: dict[str, Any] = {"learn_temperature": True, "learn_logit_bias": True, "dtype": torch.float64}
    layer = SigmoidPairs(hits=hits, temperature=0.3, logit_bias=-1, reduction=reduction, **learned)
    leaves = scores.masked_fill(~present | ~rows.unsqueeze(-1), torch.nan), scores[rows][:, kept]
    laws = (None, None)
    if log_q is not None:
        laws = log_q.masked_fill(unknown, torch.nan), log_q[kept] if log_q.ndim == 1 else log_q[rows][:, kept]
    with mock.patch.object(checks, "is_traced", return_value=way != "eager"):
        actual = layer(leaves[0].requires_grad_(), ids.masked_fill(~present, -100), log_q=laws[0])
    wanted = layer(leaves[1].requires_grad_(), ids[kept], log_q=laws[1])
    if reduction == "none":
        assert (actual[~rows] == 0).all()
        actual = actual[rows]
    torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)
    pairs = zip((actual, wanted), leaves, strict=True)
    gradients, expected = (torch.autograd.grad(value.sum(), [leaf, *layer.parameters()]) for value, leaf in pairs)
    whole = torch.zeros_like(gradients[0]).masked_scatter(rows.unsqueeze(-1) & present, expected[0])
    torch.testing.assert_close(gradients, [whole, *expected[1:]], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layer", [InBatchSoftmax(correct="none"), SigmoidPairs()])
def test_a_batch_of_padding_alone_has_no_mean(layer: Any) -> None:
    with pytest.raises(ValueError, match="holds no example"):
        layer(batch(), torch.full((6,), -100))


TEMPERED: dict[str, Any] = {
    "InBatchSoftmax": lambda **options: InBatchSoftmax(correct="none", **options),
    "SigmoidPairs": SigmoidPairs,
    "SampledSoftmax": lambda **options: SampledSoftmax(
        6, 5, samplers.Uniform(5), 3, generator=torch.Generator().manual_seed(0), **options
    ),
}


@pytest.mark.parametrize("name", TEMPERED)
@pytest.mark.parametrize("learn", [False, True])
def test_a_temperature_is_a_number_or_a_tensor_of_one_and_loads_from_old_checkpoints(name: str, learn: bool) -> None:
    make, of = TEMPERED[name], (batch().float(), IDS[:4] if name == "SampledSoftmax" else IDS)

    def value(layer: Any) -> Any:
        torch.manual_seed(0)
        return layer(*of).item()

    layers = [make(temperature=t, learn_temperature=learn) for t in (0.5, torch.tensor([0.5]), torch.tensor(0.5))]
    assert value(layers[0]) == value(layers[1]) == value(layers[2])
    state = layers[0].state_dict()
    old = {key: held.squeeze() if key == "log_temperature" else held for key, held in state.items()}
    other = make(temperature=0.1, learn_temperature=learn)
    other.load_state_dict(old)
    assert (value(other) == value(layers[0])) is learn  # one that is fixed is an option and not saved
    assert ("log_temperature" in old) is learn
    with pytest.raises(ValueError, match=r"temperature requires a gradient, .*: give temperature.item\(\), or"):
        make(temperature=torch.tensor(0.5, requires_grad=True))


def test_a_bias_is_a_number_or_a_tensor_of_one_too() -> None:
    layers = [SigmoidPairs(logit_bias=b, learn_logit_bias=True) for b in (-1, torch.tensor([-1.0]))]
    assert layers[0](batch(), IDS).item() == layers[1](batch(), IDS).item()
    layers[1].load_state_dict({"logit_bias": torch.tensor(-2.0)})
    assert layers[1].logit_bias.tolist() == [-2]  # type: ignore[union-attr]
    layers[1].reset_parameters()
    assert layers[1].logit_bias.tolist() == [-1]  # type: ignore[union-attr]


@settings(max_examples=100, deadline=None)
@given(data=st.data(), reduction=option("mean", "sum", "none"))
def test_padded_lists_are_the_lists_without_their_padding(data: st.DataObject, reduction: Any) -> None:
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    logits = torch.randn(len(lengths), 6, generator=generator, dtype=torch.float64)
    gains = torch.randint(1, 4, logits.shape, generator=generator)
    absent = torch.arange(6) >= torch.tensor(lengths).unsqueeze(-1)
    actual = ListNet(reduction=reduction)(logits.masked_fill(absent, torch.nan), gains.masked_fill(absent, -100))
    each = torch.zeros(len(lengths), dtype=torch.float64)
    for i, n in enumerate(lengths):
        each[i] = functional.listnet(logits[i : i + 1, :n], gains[i : i + 1, :n]) if n else 0
    wanted = {"none": each, "sum": each.sum(), "mean": each.sum() / sum(map(bool, lengths))}[reduction]
    torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)


def test_the_slope_of_a_learned_temperature_is_that_of_differences() -> None:
    layer = InBatchSoftmax(temperature=0.5, learn_temperature=True, dtype=torch.float64)
    layer(batch(), IDS, log_q=LOG_Q).backward()  # type: ignore[no-untyped-call]
    assert layer.log_temperature is not None
    assert layer.log_temperature.grad is not None
    # d loss / d log T = -T-derivative by differences of the function
    h, t = 1e-6, 0.5
    ends = [functional.in_batch(batch(), IDS, log_q=LOG_Q, temperature=t * (1 + s * h)).item() for s in (1, -1)]
    assert layer.log_temperature.grad.item() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("make", TEMPERED.values(), ids=TEMPERED)
def test_a_temperature_is_of_one_kind_and_saved_if_it_is_learned(make: Any) -> None:
    fixed, learns = make(temperature=0.5), make(temperature=0.5, learn_temperature=True)
    for layer in (fixed, learns, fixed.half(), learns.half()):
        assert layer.temperature.shape == ()
        assert layer.temperature.dtype == torch.float32
        assert layer.temperature.item() == pytest.approx(0.5, rel=1e-3)
    for first, second in ((fixed, learns), (learns, fixed)):
        with pytest.raises(RuntimeError, match="log_temperature"):
            first.load_state_dict(second.state_dict())


def test_binary_nce_is_the_function() -> None:
    positive, negative = batch(4), batch(4, 3)
    of: dict[str, Any] = {"log_q": LOG_Q[:3], "positive_log_q": LOG_Q[:4], "weights": [1, 2, 3], "hits": negative > 0.5}
    for correct in get_args(Correct):
        layer = BinaryNCE(correct=correct, reduction="none")
        wanted = functional.binary_nce(positive, negative, correct=correct, reduction="none", **of)
        assert torch.equal(layer(positive, negative, **of), wanted)
    assert repr(BinaryNCE()) == "BinaryNCE(correct='all', reduction='mean')"


def test_gbce_is_the_function_and_takes_sequences() -> None:
    positive, negative = batch(4, 3), batch(4, 3, 5)
    layer = GBCE(9, calibration=0.5, reduction="none")
    wanted = functional.gbce(positive, negative, classes=9, calibration=0.5, reduction="none")
    assert torch.equal(layer(positive, negative), wanted)
    flat = functional.gbce(positive.flatten(), negative.flatten(0, 1), classes=9, calibration=0.5, reduction="none")
    assert torch.equal(wanted.flatten(), flat)
    assert repr(layer) == "GBCE(classes=9, calibration=0.5, correct='all', reduction='none')"
    with pytest.raises(ValueError, match="calibration is 2"):
        GBCE(9, calibration=2)


def test_small_integers_do_not_wrap_around_to_the_target_of_no_item() -> None:
    for gains, layer in (
        (torch.tensor([[156, 1]], dtype=torch.uint8), ListNet()),
        (torch.tensor([[1, 3]], dtype=torch.int8), ListNet(ignore_index=257)),
        (torch.tensor([[2048, 1]], dtype=torch.float16), ListNet(ignore_index=2049)),
    ):
        assert layer(batch(1, 2), gains).item() == functional.listnet(batch(1, 2), gains).item()


def test_a_list_has_marks_too_and_its_padding_no_gradient() -> None:
    marks, logits = torch.tensor([[True, False, True, False]]), batch(1, 4)
    assert ListNet(reduction="none")(logits, marks).tolist() == [functional.listnet(logits, marks).item()]
    dirty = logits.masked_fill(torch.arange(4) > 1, torch.nan).requires_grad_()
    (gradient,) = torch.autograd.grad(ListNet()(dirty, [[3, 1, -100, -100]]), dirty)
    assert gradient[:, 2:].tolist() == [[0, 0]]
    assert gradient.isfinite().all()
    with pytest.raises(ValueError, match="holds no example"):
        ListNet()(logits, torch.full((1, 4), -100))


@pytest.mark.parametrize("layer", [InBatchSoftmax, ListNet, SigmoidPairs, TEMPERED["SampledSoftmax"]])
def test_bad_options_are_named(layer: Any) -> None:
    with pytest.raises(ValueError, match="ignore_index is 'x'; it must be a whole number"):
        layer(ignore_index="x")
    with pytest.raises(ValueError, match="reduction is 'average'"):
        layer(reduction="average")
    with pytest.raises(ValueError, match="temperature is 0"):
        InBatchSoftmax(temperature=0)
    with pytest.raises(ValueError, match="correct is 'some'"):
        BinaryNCE(correct="some")  # type: ignore[arg-type]
