"""Legal input of every awkward kind gives the right number, and illegal input one clear error: a table of both."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp import bias, expectations
from sumexp.expectations import Expectations

INF = math.inf


def double(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def expect(law: expectations.Law) -> Tensor:
    stats = expectations.expect(law)
    return torch.stack([stats.probability, stats.loss, stats.probability_variance, stats.loss_variance, stats.loss_gap])


def sampled(stats: Expectations) -> Tensor:
    return torch.stack([stats.probability, stats.loss, stats.probability_variance, stats.loss_variance, stats.loss_gap])


def biased(result: bias.Bias) -> Tensor:
    return torch.cat([result.probability[None], result.value[None], result.gradient.movedim(-1, 0)])


Function = Callable[[Tensor], Tensor]

FUNCTIONS: Mapping[str, Function] = {
    "with replacement": lambda x: expect(expectations.with_replacement(x, 2)),
    "with replacement, q": lambda x: expect(
        expectations.with_replacement(x, 2, torch.linspace(-1, 1, x.shape[-1], dtype=torch.float64).log_softmax(0))
    ),
    "without replacement": lambda x: expect(expectations.without_replacement(x, 1)),
    "independent": lambda x: expect(expectations.independent(x, torch.full((x.shape[-1],), -0.5).double())),
    "product": lambda x: expect(
        expectations.product(expectations.with_replacement(x, 1), expectations.without_replacement(x, 1))
    ),
    "sampled softmax": lambda x: sampled(expectations.sampled_softmax(x, 0, 2)),
    "sampled bias": lambda x: biased(bias.sampled_bias(x, 0, 2)),
    "mean square errors": lambda x: bias.estimators.mean_square_errors([1], x).movedim(-1, 0),
    "variance": lambda x: (
        bias.variance(bias.Schedule((1, x.shape[-1]), (1, 1)), x)[None]
        if x.shape[-1] > 1
        else bias.variance(bias.Schedule((1,), (1,)), x)[None]
    ),
}
ROW = double(0.5, 2.0, -1.0, 1.5)


@pytest.fixture(params=FUNCTIONS)
def function(request: pytest.FixtureRequest) -> Function:
    return FUNCTIONS[request.param]


def test_an_empty_batch_is_an_empty_answer(function: Function) -> None:
    whole = function(ROW)
    assert function(ROW.new_zeros(0, 4)).shape == (*whole.shape[:1], 0)
    assert function(ROW.new_zeros(2, 0, 4)).shape == (*whole.shape[:1], 2, 0)


@pytest.mark.parametrize("shape", [(1,), (3, 1), (2, 3)])
def test_shapes_strides_and_expanded_rows(function: Function, shape: tuple[int, ...]) -> None:
    expected = function(ROW)
    expanded = ROW.expand(*shape, 4)
    strided = torch.stack([ROW, -ROW], -1).expand(*shape, 4, 2)[..., 0]
    for rows in (expanded, strided, expanded.contiguous()):
        value = function(rows)
        assert value.shape[1:] == shape
        torch.testing.assert_close(value, expected.view(-1, *[1] * len(shape)).expand_as(value), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_precision_is_computed_in_double(function: Function, dtype: torch.dtype) -> None:
    actual = function(ROW.to(dtype))  # all of them exact in each
    assert actual.dtype == torch.float64
    torch.testing.assert_close(actual, function(ROW), rtol=0, atol=0)


@pytest.mark.parametrize("row", [
    (0.0, 0.0, 0.0, 0.0), (0.0, -INF, -INF, -INF), (0.0, 1.0, -INF, -INF), (0.0, 300.0, 300.0, -300.0),
    (0.0, -300.0, -300.0, -300.0), (-300.0, -300.0, -300.0, -300.0), (0.0, 1e-15, -1e-15, 1e-300),
])  # fmt: skip
def test_ties_masks_and_extreme_scales_are_numbers(function: Function, row: tuple[float, ...]) -> None:
    assert bool(torch.isfinite(function(double(*row))).all())


def test_a_proposal_for_some_dimensions_of_a_batch() -> None:
    loss = expectations.sampled_softmax(ROW.expand(2, 3, 4), 0, 2, ROW.expand(3, 4)).loss
    assert (loss - expectations.sampled_softmax(ROW, 0, 2, ROW).loss).abs().max() < 1e-12


def test_one_class_alone() -> None:
    # X is 2 x with two draws, x with a subset of one, and x or 0 with a coin of probability e^-.5.
    x = double(math.log(3.0))
    assert expectations.expect(expectations.with_replacement(x, 2)).loss.item() == pytest.approx(math.log(7), rel=1e-13)
    assert expectations.expect(expectations.without_replacement(x, 1)).loss.item() == pytest.approx(
        math.log(4), rel=1e-13
    )
    coin = expectations.expect(expectations.independent(x, double(-0.5)))
    assert coin.loss.item() == pytest.approx(math.exp(-0.5) * math.log(4), rel=1e-12)
    for call in (expectations.sampled_softmax, bias.sampled_bias):
        with pytest.raises(ValueError, match="logits has 1 classes; two are needed"):
            call(x, 0, 1)


@pytest.mark.parametrize("never", [0.0, 750.0, INF, -INF])
def test_a_class_of_probability_zero_may_be_anything(never: float) -> None:
    x, q = double(0.0, never), double(0.0, -INF)
    assert expectations.expect(expectations.with_replacement(x, 2, q)).loss.item() == pytest.approx(math.log(3))
    assert expectations.expect(expectations.independent(x, q)).loss.item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("logit", [1.0, -INF])
def test_the_sampled_softmax_does_not_see_what_is_never_drawn(logit: float) -> None:
    logits, log_q = double(0.0, 0.5, 2.0, logit), double(0.0, 0.2, 0.4, -INF)
    logits.requires_grad_()
    result = expectations.sampled_softmax(logits, 0, 3, log_q)
    expected = expectations.sampled_softmax(logits[:3], 0, 3, log_q[:3])
    torch.testing.assert_close(sampled(result), sampled(expected), rtol=1e-13, atol=0)
    (gradient,) = torch.autograd.grad(result.loss, logits)
    assert bool(torch.isfinite(gradient).all())
    assert gradient[3].item() == 0


@pytest.mark.parametrize("integer", [np.int64(3), np.int32(3), torch.tensor(3)])
def test_any_integer_counts_draws_and_names_a_label(integer: int) -> None:
    expected = sampled(expectations.sampled_softmax(ROW, 3, 3))
    assert torch.equal(sampled(expectations.sampled_softmax(ROW, integer, integer)), expected)
    assert torch.equal(bias.sampled_bias(ROW, integer, integer).value, bias.sampled_bias(ROW, 3, 3).value)
    expectations.without_replacement(ROW, integer)


@pytest.mark.parametrize("call,message", [
    (lambda: expectations.sampled_softmax(ROW.to(torch.complex64), 0, 1), "logits must be a floating-point.*complex64"),
    (lambda: expectations.sampled_softmax(ROW.long(), 0, 1), "logits must be a floating-point.*int64"),
    (lambda: expectations.sampled_softmax([0.0, 1.0], 0, 1), "logits must be a floating-point.*list"),
    (lambda: expectations.sampled_softmax(ROW, 0.0, 1), r"label is 0\.0"),
    (lambda: expectations.sampled_softmax(ROW, -1, 1), "label is -1"),
    (lambda: expectations.sampled_softmax(double(-INF, 0.0), 0, 1), "the label's, holds -inf"),
    (lambda: expectations.sampled_softmax(double(0.0, math.nan), 0, 1), "logits holds nan or inf"),
    (lambda: expectations.sampled_softmax(double(0.0, INF), 0, 1), "logits holds nan or inf"),
    (lambda: expectations.sampled_softmax(ROW, 0, 1, double(0.0, 1.0)), "one entry for each of 4 classes"),
    (lambda: expectations.sampled_softmax(ROW, 0, 1, double(0.0, -INF, -INF, -INF)), "-inf at every negative"),
    (lambda: expectations.sampled_softmax(ROW, 0, 1, double(0.0, math.nan, 0.0, 0.0)), "NaN or"),
    (lambda: expectations.sampled_softmax(ROW, 0, 1, double(0.0, INF, 0.0, 0.0)), r"\+inf"),
    (lambda: expectations.sampled_softmax(ROW, 0, 1, ROW.to(torch.complex128)), "log_q must be a floating-point"),
    (lambda: expectations.with_replacement(ROW.to(torch.complex128), 1), "floating-point logits, got torch.complex128"),
    (lambda: expectations.with_replacement(ROW, 1, ROW.long()), "log_q must be a floating-point tensor"),
    (lambda: expectations.with_replacement(ROW, 1, torch.full((4,), -INF)), r"q sums to 0\.0"),
    (lambda: expectations.with_replacement(double(0.0, math.nan), 1, double(0.0, -INF)), "log_x holds nan"),
    (lambda: expectations.independent(ROW, torch.zeros(2, 4)), "does not fit"),
    (lambda: expectations.independent(ROW.expand(2, 3, 4), torch.zeros(3, 2, 4)), r"\(3, 2, 4\), .* fit \(2, 3, 4\)"),
    (lambda: expectations.with_replacement(ROW.to_sparse(), 1), "must be a dense tensor"),
    (lambda: bias.sampled_bias(ROW, 9, 1), "label is 9"),
    (lambda: expectations.with_replacement(ROW[:0], 1), "at least one class"),
    (lambda: expectations.with_replacement(ROW, 1.5), "m is 1.5"),
    (lambda: expectations.with_replacement(ROW + INF, 1), "log_x holds inf"),
    (lambda: expectations.with_replacement(ROW[:3], 1, double(0.5, 0.25, 0.125).log()), "q sums to 0.875"),
    (lambda: expectations.with_replacement(ROW, 1, double(0.0, math.nan, 0.0, 0.0)), "log_q holds NaN"),
    (lambda: expectations.with_replacement(ROW, 1, method="fast"), "method is 'fast'"),
    (lambda: expectations.with_replacement(ROW * 300, 1, method="spread"), "too wide to spread"),
    (lambda: expectations.without_replacement(ROW, 5), "only 4 classes"),
    (lambda: expectations.without_replacement(torch.zeros(10**6), 1000), "use fewer draws, or with_replacement"),
    (lambda: expectations.independent(ROW[:3], double(0.0, 0.1, -1.0)), "inclusion probability is 1.1"),
    (lambda: expectations.product(), "one batch shape"),
    (lambda: expectations.product(*(expectations.with_replacement(x, 1) for x in (ROW, ROW[None]))), "batch shape"),
    (lambda: expectations.expect(expectations.with_replacement(ROW, 1), tol=1e-17), "tol is 1e-17"),
    (lambda: expectations.expect(expectations.with_replacement(ROW * 800, 1)), "below 700"),
    (lambda: expectations.expect(expectations.laplace(lambda u: u[:3], 0.0)), "log_laplace returned shape"),
    (lambda: expectations.expect(expectations.laplace(lambda u: -u.float().exp(), 0.0)), "in torch.float32; expected"),
    (lambda: expectations.sampled_softmax(ROW, 0, 0), "m is 0"),
    (lambda: expectations.sampled_softmax(ROW, 0, 1, tol="small"), "tol is 'small'"),
])  # fmt: skip
def test_bad_input_is_one_clear_error(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
