"""Losses of vectors in blocks: against the plain losses of all scores, for every option and size of block."""

import itertools
import math
from functools import partial
from typing import Any, get_args
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from sumexp.functional import _linear, distributed_in_batch, in_batch, linear_cross_entropy, linear_in_batch
from sumexp.functional._arguments import REDUCTIONS, Correct
from sumexp.nn import SampledOutput

B, E, D = 7, 4, 5
BLOCKS = {"one": (1 << 20, 1 << 17), "rows": (12, 1 << 17), "rows and columns": (12, 5)}
blocks = pytest.mark.parametrize("block", BLOCKS)
forward_mode = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
"""torch's own formulas of forward mode are scripted."""


def cut(block: str) -> Any:
    """Small blocks: cells, and columns up to which one holds all."""
    cells, widest = BLOCKS[block]
    return mock.patch.multiple(_linear, CELLS=cells, WIDEST=widest, LEAST_ROWS=2)


def batch(further: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
    """Vectors, classes of which some come twice, and what the rows are."""
    generator = torch.Generator().manual_seed(further)
    queries, items = (torch.randn(n, D, generator=generator, dtype=dtype).requires_grad_() for n in (B, B + further))
    ids = torch.randint(4, (B + further,), generator=generator)
    rows = {
        "row_ids": torch.randint(4, (B,), generator=generator),
        "row_log_q": -torch.rand(B, generator=generator, dtype=torch.float64),
    }
    log_q = -1 - torch.rand(len(ids), generator=generator, dtype=torch.float64)
    return queries, items, ids, {"log_q": log_q, "rows": rows}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_cosines_of_zero_long_and_short_vectors(dtype: torch.dtype) -> None:
    """Lengths and squares are beyond the range, and 1e-12, by which F.normalize divides zeros, is 0 in float16."""
    ends = {torch.float64: (1e300, 1e-300, 1e-310), torch.float16: (6e4, 1e-4, 0)}
    long, short, least = ends.get(dtype, (3e38, 1e-30, 1e-40))  # the least is denormal
    queries = torch.tensor([[least, 0, 0], [1, 1, -1], [3, 4, 0]], dtype=dtype, requires_grad=True)
    items = torch.tensor([[0] * 3, [long, long, -long], [3 * short, 4 * short, 0]], dtype=dtype, requires_grad=True)
    across = 1.4 / math.sqrt(3)
    cosines = torch.tensor([[0, 0, 0], [0, 1, across], [0, across, 1]], dtype=torch.float64)
    eps, ids = torch.finfo(dtype).eps, [0, 1, 2]
    actual = linear_in_batch(queries, items, ids, correct="none", normalize=True)
    assert actual.item() == pytest.approx(in_batch(cosines, ids, correct="none").item(), abs=2 * eps + 1e-12)
    layer = SampledOutput(3, 3, bias=False, normalize=True, dtype=dtype)
    layer.load_state_dict({"weight": items.detach()})
    for logits in (layer.logits(queries), torch.stack([layer(queries, [i] * 3, [i])[0] for i in range(3)], 1)):
        torch.testing.assert_close(logits.double(), cosines, rtol=0, atol=2 * eps)
    [first] = torch.autograd.grad(logits.square().sum(), queries, create_graph=True)
    [second] = torch.autograd.grad(first.sum(), queries)
    for slope in (first, second, *torch.autograd.grad(actual, [queries, items])):
        assert slope.isfinite().all()
        assert not slope[0].any()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_grad_scaler_keeps_small_gradients(reduction: Any, dtype: torch.dtype) -> None:
    """Each of 63 negatives has probability e^-12.25: over 64 it is 7e-8, of which float16 keeps no digit."""
    for loss in (partial(linear_in_batch, correct="none"), linear_cross_entropy):
        slopes = []
        for kind in (dtype, torch.float64):
            vectors = 3.5 * torch.eye(64, dtype=kind)
            value = loss(vectors, vectors.requires_grad_(), torch.arange(64), reduction=reduction)
            value = value / 64 if reduction == "sum" else value.mean()
            (65_536 * value).backward()
            slopes.append(vectors.grad.double() / 65_536)
        torch.testing.assert_close(*slopes, rtol=4 * torch.finfo(dtype).eps, atol=0)


@blocks
@pytest.mark.parametrize("hits", ["keep", "mask"])
@pytest.mark.parametrize("correct", get_args(Correct))
def test_blocks_are_the_loss_of_all_scores(correct: Any, hits: Any, block: str) -> None:
    ways = itertools.product((False, True), (False, True), REDUCTIONS, ("none", "number", "learned", "by row"), (0, E))
    for symmetric, normalize, reduction, kind, further in [*ways][::5]:  # each pair of options, in 20 of 96 ways
        queries, items, ids, given = batch(further)
        t = {
            "none": 1.0,
            "number": 0.3,
            "learned": torch.tensor(0.7, dtype=torch.float64, requires_grad=True),
            "by row": torch.linspace(0.5, 2, B, dtype=torch.float64).requires_grad_(),
        }[kind]
        options: dict[str, Any] = {"log_q": given["log_q"], "correct": correct, "hits": hits, "temperature": t}
        options |= {"symmetric": symmetric, "reduction": reduction} | (given["rows"] if symmetric else {})
        unit = [F.normalize(part, dim=-1) for part in (queries, items)] if normalize else [queries, items]
        wanted = in_batch(unit[0] @ unit[1].T, ids, **options)
        with cut(block):
            actual = linear_in_batch(queries, items, ids, normalize=normalize, **options)
            torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)
            leaves = [queries, items, *([t] if isinstance(t, Tensor) else [])]
            uneven = torch.linspace(1, 2, wanted.numel(), dtype=torch.float64).view(wanted.shape)
            gradients = [torch.autograd.grad((value * uneven).sum(), leaves) for value in (actual, wanted)]
        for gradient, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-12)


@blocks
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("normalize", [False, True])
def test_all_classes_of_a_catalogue(normalize: bool, reduction: Any, block: str) -> None:
    hidden, weight, _, given = batch(E)
    labels = torch.tensor([0, 10, 3, 3, 9, 5, 0])
    bias = torch.linspace(-1, 1, len(weight), dtype=torch.float64).unsqueeze(1).requires_grad_()
    t = torch.tensor([0.6], dtype=torch.float64, requires_grad=True)
    leaves = [hidden, weight, bias, t]
    for temperature, taken in itertools.product((t, 0.5), (None, given["log_q"])):
        unit = [F.normalize(part, dim=-1) for part in (hidden, weight)] if normalize else [hidden, weight]
        scores = (unit[0] @ unit[1].T + bias.T) / temperature - (0 if taken is None else taken)
        wanted = F.cross_entropy(scores, labels, reduction=reduction)
        with cut(block):
            actual = linear_cross_entropy(
                hidden, weight, labels, class_bias=bias, log_q=taken, temperature=temperature, normalize=normalize,
                reduction=reduction,
            )  # fmt: skip
            torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)
            uneven = torch.linspace(1, 2, wanted.numel(), dtype=torch.float64).view(wanted.shape)
            by = [torch.autograd.grad((v * uneven).sum(), leaves, allow_unused=True) for v in (actual, wanted)]
        for gradient, expected in zip(*by, strict=True):
            assert (gradient is None) == (expected is None)
            if gradient is not None:
                torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-12)


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor, of a type if one is given, that any step makes."""

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.dtype, self.size = dtype, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().nbytes() and self.dtype in (None, tensor.dtype):
                self.size = max(self.size, tensor.untyped_storage().nbytes() // tensor.element_size())
        return made


@pytest.mark.parametrize("symmetric", [False, True])
def test_no_step_makes_a_matrix_of_all_scores(symmetric: bool) -> None:
    """Of 300 x 300 scores at most a block of 64 rows, also under reduction none; the plain loss makes all 90,000."""
    queries, items = (torch.randn(300, 8).requires_grad_() for _ in range(2))
    ids = torch.arange(300)
    for reduction in REDUCTIONS:
        with cut("one"), mock.patch.multiple(_linear, CELLS=64 * 300, LEAST_ROWS=1), Largest() as largest:
            options: dict[str, Any] = {"correct": "none", "symmetric": symmetric, "reduction": reduction}
            linear_in_batch(queries, items, ids, **options).sum().backward()
            distributed_in_batch(queries, items, ids, **options).sum().backward()
            linear_cross_entropy(queries, items, ids, reduction=reduction).sum().backward()
        assert largest.size == 64 * 300
    with Largest() as largest:
        in_batch(queries @ items.T, ids, correct="none")
    assert largest.size == 300 * 300
    with Largest(torch.bool) as largest:  # the check of log q reads its ends
        in_batch(queries @ items.T, ids, log_q=torch.full((300, 300), -1.0))
    assert largest.size <= 300


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_and_autocast_are_those_of_the_plain_loss(half: torch.dtype) -> None:
    """Products in half precision, sums in single: equal up to the rounding of products, 8 eps."""
    queries, items, ids, given = batch(E, torch.float32)
    with torch.autocast("cpu", dtype=half):
        actual = linear_in_batch(queries, items, ids, log_q=given["log_q"])
        wanted = in_batch(queries @ items.T, ids, log_q=given["log_q"])
    low = linear_in_batch(queries.to(half), items.to(half), ids, log_q=given["log_q"])
    assert actual.dtype == wanted.dtype == low.dtype == torch.float32
    for value in (actual, low):
        torch.testing.assert_close(value, wanted, rtol=8 * torch.finfo(half).eps, atol=0)
        gradient, expected = (torch.autograd.grad(loss, queries, retain_graph=True)[0] for loss in (value, wanted))
        torch.testing.assert_close(gradient, expected, rtol=0.1, atol=16 * torch.finfo(half).eps)


@forward_mode
def test_autocast_leaves_double_as_it_is_and_forward_mode_and_graphs_take_all_scores() -> None:
    queries, items, ids, given = batch(0)
    log_q, bias = given["log_q"], torch.linspace(-1, 1, B, dtype=torch.float64).requires_grad_()
    leaves = queries, items, bias
    for loss in (
        lambda q, v, _: distributed_in_batch(q, v, ids, log_q=log_q),
        lambda q, v, b: linear_cross_entropy(q, v, range(B), class_bias=b),
    ):
        wanted = loss(*leaves).item()
        with torch.autocast("cpu"):
            assert loss(*leaves).item() == wanted
            with pytest.raises(ValueError, match=r"are torch.float64 and torch.float32: move one by .to\(\)$"):
                loss(queries, items.float(), bias)
        assert torch.autograd.gradcheck(loss, leaves, check_forward_ad=True)
        slopes = [torch.autograd.grad(f(*leaves), queries) for f in (loss, make_fx(loss)(*leaves))]
        torch.testing.assert_close(*slopes)


def test_without_gradients_and_of_no_example() -> None:
    queries, items, ids, given = batch(E)
    with torch.no_grad():
        assert linear_in_batch(queries, items, ids, log_q=given["log_q"]).grad_fn is None
    for reduction, shape in (("sum", ()), ("none", (0,))):
        options: Any = {"log_q": given["log_q"], "reduction": reduction}
        assert linear_in_batch(queries[:0], items, ids, **options).shape == shape
        for loss in (
            linear_in_batch(queries[:0], items, ids, **options),
            linear_in_batch(queries[:0], items[:0], [], log_q=[], hits="mask", reduction=reduction),
            linear_cross_entropy(queries[:0], items, [], reduction=reduction),
        ):
            assert torch.autograd.grad(loss.sum(), items)[0].eq(0).all()  # a replica without examples takes part
    with pytest.raises(ValueError, match="the batch is empty"):
        linear_cross_entropy(queries[:0], items, [])
    loss = linear_in_batch(queries, items, ids, log_q=given["log_q"])
    with pytest.raises(RuntimeError, match="a loss in blocks has no second derivatives: take in_batch"):
        torch.autograd.grad(loss, queries, create_graph=True)
    with pytest.raises(NotImplementedError, match="one at a time here: leave out is_grads_batched"):
        torch.autograd.grad(loss, queries, torch.ones(1), is_grads_batched=True)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"items": torch.ones(3, D, dtype=torch.float64)}, r"items \(3, 5\) must be \[B, d\] and \[B \+ E, d\]"),
        ({"items": torch.ones(B, 2, dtype=torch.float64), "ids": [0] * B}, r"items \(7, 2\) must be \[B, d\]"),
        ({"items": torch.ones(B, D), "ids": [0] * B}, "are torch.float64 and torch.float32: move one by .to()"),
        ({"queries": torch.full((B, D), torch.nan, dtype=torch.float64)}, "queries hold NaN or infinity"),
        ({"log_q": [0.5] * (B + E)}, "log_q must hold logarithms of probabilities, got 0.5"),
        ({"log_q": [1e-7] * (B + E)}, "log_q must hold logarithms of probabilities, got 1e-07"),
        ({"log_q": [-torch.inf] * (B + E)}, r"log_q is -inf for column 0.* give .* \(counts \+ 1\)"),
        ({"log_q": None}, "log_q is missing"),
        ({"ids": [1]}, "there must be one for each of 11 columns"),
        ({"ids": [0.5] * 11}, "they must be integers"),
        ({"symmetric": True, "hits": "mask"}, "needs row_ids"),
        ({"temperature": 0}, "temperature is 0"),
        ({"temperature": True}, "temperature is True"),
        ({"reduction": "average"}, "reduction is 'average'"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    queries, items, ids, given = batch(E)
    arguments = {"queries": queries, "items": items, "ids": ids, "log_q": given["log_q"]} | change
    with pytest.raises(ValueError, match=message):
        linear_in_batch(arguments.pop("queries"), arguments.pop("items"), arguments.pop("ids"), **arguments)


def test_bad_input_of_a_catalogue_is_named() -> None:
    hidden, weight, *_ = batch(E)
    for labels, options, message in (
        ([0, 1], {}, r"and labels \(2,\) must be \[B, d\], \[L, d\] and \[B\]"),
        ([11] * B, {}, "a label is 11; the 11 classes are 0..10"),
        ([0] * B, {"class_bias": torch.ones(3)}, "there must be one for each of 11 classes"),
        ([0] * B, {"class_bias": [0.0] * 11}, r"class_bias must be a floating-point tensor \[L\]"),
        ([0] * B, {"class_bias": torch.ones(11), "temperature": "x"}, "temperature is 'x'"),
        ([0] * B, {"temperature": torch.ones(B)}, r"temperature has shape \(7,\)"),
        ([0] * B, {"class_bias": torch.full((11,), -math.inf)}, "the class_bias of a label is -inf"),
        ([0] * B, {"class_bias": torch.full((11,), math.nan)}, "class biases hold NaN or infinity"),
        ([0] * B, {"temperature": 1e-307}, "scores are beyond their precision; take a larger temperature"),
    ):
        with pytest.raises(ValueError, match=message):
            linear_cross_entropy(hidden, weight, labels, **options)  # type: ignore[arg-type]
