"""In-batch scores: against sampled_softmax and torch's cross entropy, and by all batches against the theorem."""

import math
from functools import partial
from itertools import product
from math import exp, log
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from sumexp import functional
from sumexp.functional import _batch_autograd as blocks
from sumexp.functional import in_batch
from sumexp.functional._arguments import Correct
from sumexp.functional._batch import InBatchHits
from sumexp.ranking import Labels
from tests.containers import jagged
from tests.functional.test_linear import Largest, forward_mode

WAYS: dict[str, dict[str, Any]] = {
    "all, keep": {},
    "all, mask": {"hits": "mask"},
    "negatives, keep": {"correct": "negatives"},
    "negatives, mask": {"correct": "negatives", "hits": "mask"},
    "none": {"correct": "none"},
    "temperature": {"temperature": 0.25},
    "symmetric": {"symmetric": True},
    "positives": {"positives": torch.tensor([[2], [0], [-1], [1]]), "hits": "mask"},
    "positives, marked": {"positives": torch.tensor([[j % 3 == i % 2 for j in range(7)] for i in range(4)])},
    "positives, negatives": {"positives": torch.tensor([[2], [0], [-1], [1]]), "correct": "negatives"},
    "smoothing": {"label_smoothing": 0.1},
    "smoothing, mask": {"label_smoothing": 0.1, "hits": "mask"},
    "temperature by row": {"temperature": torch.tensor([0.25, 0.5, 1, 2]), "correct": "negatives"},
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())

IDS = torch.tensor([3, 1, 3, 0, 2, 1, 3])
"""Four examples, of which two have class 3, and three further columns."""


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def batch(seed: int = 0, *shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(shape or (4, 7), generator=generator, dtype=torch.float64)
    return scores, torch.log_softmax(torch.randn(4, generator=generator, dtype=torch.float64), 0)[IDS]


def test_by_hand() -> None:
    # Two examples of classes 5 and 8, whose labels have the frequencies 1/4 and 1/2.
    scores, ids, log_q = torch.stack([double(2, 1), double(0, 3)]), [5, 8], double(0.25, 0.5).log()
    # log q subtracted from both: e^2/.25 against e^1/.5, and e^3/.5 against e^0/.25
    everywhere = [log(1 + exp(1 - 2) * 0.25 / 0.5), log(1 + exp(0 - 3) * 0.5 / 0.25)]
    assert in_batch(scores, ids, log_q=log_q, reduction="none").tolist() == pytest.approx(everywhere)
    # log q subtracted from the negative alone: e^2 against e^1/.5, and e^3 against e^0/.25
    negatives = [log(1 + exp(1 - 2) / 0.5), log(1 + exp(0 - 3) / 0.25)]
    actual = in_batch(scores, ids, log_q=log_q, correct="negatives", reduction="none")
    assert actual.tolist() == pytest.approx(negatives)
    # no correction, at temperature 2
    plain = [log(1 + exp((1 - 2) / 2)), log(1 + exp((0 - 3) / 2))]
    actual = in_batch(scores, ids, correct="none", temperature=2, reduction="none")
    assert actual.tolist() == pytest.approx(plain)
    # One class twice: kept it costs log 2, left out nothing, as there is no other negative.
    scores, log_q = torch.zeros(2, 2), double(0.5, 0.5).log()
    assert in_batch(scores, [7, 7], log_q=log_q).item() == pytest.approx(log(2))
    assert in_batch(scores, [7, 7], log_q=log_q, hits="mask").item() == 0


def test_log_q_has_one_meaning_by_hand() -> None:
    # An example of class 0 (score 2, q 1/8) against negatives of the classes 1 (score 1, q 1/2) and 0 again (score
    # 3): the loss is minus the logarithm of the positive's share of e^s, s the corrected score.
    scores, log_q = double(2, 1, 3).unsqueeze(0), double(1 / 8, 1 / 2, 1 / 8).log()
    positive, other, again = exp(2), exp(1), exp(3)
    by_hand = {
        "all": 8 * positive / (8 * positive + 2 * other + 8 * again),
        "negatives": positive / (positive + 2 * other + 8 * again),
        "importance": positive / (positive + other / (2 * 1 / 2) + again / (2 * 1 / 8)),
        "none": positive / (positive + other + again),
    }
    assert set(by_hand) == set(get_args(Correct))
    for correct, share in by_hand.items():
        options: dict[str, Any] = {"correct": correct}
        pair = {"log_q": log_q[1:], "positive_log_q": log_q[:1]}
        actual = [
            in_batch(scores, [0, 1, 0], log_q=log_q, **options),
            functional.distributed_in_batch(double(1).view(1, 1), scores.T, [0, 1, 0], log_q=log_q, **options),
            functional.sampled_softmax(scores[:, 0], scores[:, 1:], **pair, **options),
            functional.info_nce(scores[:, 0], scores[:, 1:], **pair, **options),
        ]
        assert [value.item() for value in actual] == pytest.approx([-log(share)] * 4, rel=1e-13)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_log_q_has_one_meaning_for_any_scores(data: st.DataObject) -> None:
    """Two rows of one batch, as a matrix with its diagonal and as positives and negatives, with every option."""
    columns = data.draw(st.integers(2, 5))
    numbers = st.floats(-20, 20)
    scores = double(*data.draw(st.lists(numbers, min_size=2 * columns, max_size=2 * columns))).view(2, columns)
    log_q = double(*data.draw(st.lists(st.floats(-30, 0), min_size=columns, max_size=columns)))
    ids = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=columns, max_size=columns)))
    options = {"correct": data.draw(st.sampled_from(get_args(Correct)))}
    hits = data.draw(st.sampled_from(["keep", "mask"]))
    others = torch.stack([torch.tensor([j for j in range(columns) if j != i]) for i in range(2)])
    marks = (ids[others] == ids[:2].unsqueeze(1)) & (hits == "mask")
    actual = in_batch(scores, ids, log_q=log_q, hits=hits, reduction="none", **options)
    wanted = functional.sampled_softmax(
        scores.diagonal(),
        scores.gather(1, others),
        log_q=log_q[others],
        positive_log_q=log_q[:2],
        hits=marks,
        reduction="none",
        **options,
    )
    torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_it_is_torch_s_cross_entropy_of_corrected_scores(smoothing: float) -> None:
    scores, log_q = batch()
    wanted = F.cross_entropy(scores / 0.1 - log_q, torch.arange(4), label_smoothing=smoothing)
    actual = in_batch(scores, IDS, log_q=log_q.requires_grad_(), temperature=0.1, label_smoothing=smoothing)
    assert [actual.item(), actual.requires_grad] == [pytest.approx(wanted.item(), rel=1e-13), False]


@every_way
def test_no_digit_is_lost_if_scores_have_an_offset(way: dict[str, Any]) -> None:
    """In sixteenths single precision holds scores and logits up to 2^20; their sums it does not."""
    scores, log_q = ((16 * values).round().float() / 16 for values in batch())
    low, high = (in_batch(scores + offset, IDS, log_q=log_q, **way, reduction="none") for offset in (0, 2**17))
    torch.testing.assert_close(high, low, rtol=1e-6, atol=0)


def test_the_symmetric_loss_is_the_mean_of_rows_and_columns() -> None:
    scores, log_q = batch()
    users, log_users = torch.tensor([9, 9, 4, 5]), double(0.5, 0.5, 0.3, 0.2).log()
    of_rows: dict[str, Any] = {"row_ids": users, "row_log_q": log_users}
    for hits in get_args(InBatchHits):
        actual = in_batch(scores, IDS, log_q=log_q, hits=hits, symmetric=True, **of_rows)
        rows = in_batch(scores, IDS, log_q=log_q, hits=hits)
        columns = in_batch(scores[:, :4].T, users, log_q=log_users, hits=hits)
        assert actual.item() == pytest.approx((rows.item() + columns.item()) / 2, rel=1e-14)
    # Without a law of the rows they count as equally frequent.
    actual = in_batch(scores, IDS, log_q=log_q, symmetric=True)
    columns = in_batch(scores[:, :4].T, users, correct="none")
    rows = in_batch(scores, IDS, log_q=log_q)
    assert actual.item() == pytest.approx((rows.item() + columns.item()) / 2, rel=1e-14)


def by_loop(scores: Tensor, ids: Tensor, log_q: Tensor, marks: Tensor, **way: Any) -> Tensor:
    """Each row's loss as a mean over its positives, term by term."""
    correct, hits, t = way.get("correct", "all"), way.get("hits", "keep"), way.get("temperature", 1.0)
    eps = way.get("label_smoothing", 0.0)
    rows = []
    for i in range(len(scores)):
        law = log_q[i] if log_q.ndim == 2 else log_q
        positives = [j for j in range(scores.shape[1]) if j == i or marks[i, j]]
        others = [j for j in range(scores.shape[1]) if j not in positives]
        taken = {j: law[j] if correct == "all" else 0.0 for j in positives}
        m = max(1, len(others))
        taken |= {
            j: {"all": law[j], "negatives": law[j], "importance": law[j] + log(m), "none": 0.0}[correct] for j in others
        }
        columns = positives + [j for j in others if hits == "keep" or ids[j] != ids[i]]
        s = {j: scores[i, j] / t - taken[j] for j in columns}
        total = torch.stack(list(s.values())).logsumexp(0)
        of_positives = torch.stack([total - s[j] for j in positives]).mean()
        of_all = torch.stack([total - s[j] for j in columns]).mean()
        rows.append((1 - eps) * of_positives + eps * of_all)
    return torch.stack(rows)


MARKS = torch.tensor([[0, 0, 0, 0, 1, 1, 0], [0] * 7, [1, 1, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 0]], dtype=torch.bool)
"""Of four rows: two further columns; none; three, of which two are of the own class; its own alone."""


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("hits", ["keep", "mask"])
@pytest.mark.parametrize("correct", get_args(Correct))
def test_positives_laws_by_row_and_smoothing_are_the_loop(
    correct: str, hits: str, smoothing: float, by_row: bool
) -> None:
    scores, log_q = batch()
    if by_row:
        log_q = torch.log_softmax(batch(5)[0], -1)
    options: dict[str, Any] = {"correct": correct, "hits": hits, "temperature": 0.5, "label_smoothing": smoothing}
    gradients = []
    for marks in (MARKS, torch.zeros_like(MARKS)):
        given = {"positives": marks} if marks.any() else {}
        for call in (
            lambda z, given=given: in_batch(z, IDS, log_q=log_q, reduction="none", **options, **given),
            lambda z, marks=marks: by_loop(z, IDS, log_q, marks, **options),
        ):
            leaf = scores.clone().requires_grad_()
            value = call(leaf)
            (gradient,) = torch.autograd.grad(value @ double(1, 2, 3, 4), leaf)
            gradients.append(torch.cat([value.detach(), gradient.flatten()]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients[2], gradients[3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cells", [4, 8])  # a row with a column left out and a row without: two blocks, and one
def test_second_derivatives_of_smoothing_at_its_minimum(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each probability is its target, 1/2 + 1/6 and 1/6 of three columns, 5/8 and 1/8 of four, so that errors are 0."""
    scores = torch.stack([double(log(4), 0, 0, -math.inf), double(0, log(5), 0, 0)])
    monkeypatch.setattr(blocks, "CELLS", cells)

    def loss(z: Tensor) -> Tensor:
        return in_batch(z, [0, 1, 2, 3], correct="none", label_smoothing=0.5, reduction="sum")

    leaf = scores.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
    assert slope.abs().max() < 1e-300
    rows = [torch.autograd.grad(each, leaf, retain_graph=True)[0].flatten() for each in slope.flatten()]
    p = torch.stack([double(4, 1, 1, 0) / 6, double(1, 5, 1, 1) / 8])
    wanted = torch.block_diag(*(row.diag() - row.outer(row) for row in p))  # type: ignore[no-untyped-call]
    torch.testing.assert_close(torch.stack(rows), wanted, rtol=1e-12, atol=1e-15)


def test_positives_by_class_are_the_marks_of_their_columns() -> None:
    scores, log_q = batch()
    named = [[1, -1], [9, -1], [3, 2], [0, 0]]  # of the columns 3 1 3 0 2 1 3
    marks = torch.tensor([
        [True, True, False, False, False, True, False],
        [False, True, False, False, False, False, False],
        [True, False, True, False, True, False, True],
        [False, False, False, True, False, False, False],
    ])  # fmt: skip
    actual = in_batch(scores, IDS, log_q=log_q, positives=named).item()
    lists = [[1], [9], [3, 2], [0]]
    for same in (marks, lists, jagged(lists), [{1}, set(), {2, 3}, {0}], Labels(lists), csr_array(marks.numpy())):
        assert actual == in_batch(scores, IDS, log_q=log_q, positives=same).item()
    assert actual == pytest.approx(by_loop(scores, IDS, log_q, marks).mean().item(), rel=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", WAYS)
def test_many_gradients_at_once(way: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SMALL", 0)
    scores, log_q = batch()
    leaf = scores.to(dtype).requires_grad_()
    losses = in_batch(leaf, IDS, log_q=log_q, **WAYS[way], reduction="none")
    (together,) = torch.autograd.grad(losses, leaf, torch.eye(4), is_grads_batched=True, retain_graph=True)
    alone = [torch.autograd.grad(loss, leaf, retain_graph=True)[0] for loss in losses]
    assert torch.equal(together, torch.stack(alone))


def test_the_symmetric_half_has_the_positives_of_the_columns() -> None:
    scores, log_q = batch()
    actual = in_batch(scores, IDS, log_q=log_q, positives=MARKS, symmetric=True).item()
    rows = by_loop(scores, IDS, log_q, MARKS).mean()
    columns = by_loop(scores[:, :4].T, IDS[:4], torch.zeros(4, dtype=torch.float64), MARKS[:, :4].T).mean()
    assert actual == pytest.approx((rows + columns).item() / 2, rel=1e-13)


def test_a_positive_beyond_the_precision_and_one_that_cannot_be() -> None:
    # In single precision e^-300 is 0: the mean of the cross entropies of the scores 0 and -300 is 150.
    scores = torch.tensor([[0.0, -300.0], [0.0, 0.0]])
    value = in_batch(scores, [0, 1], correct="none", positives=[[1], [-1]], reduction="none")
    assert value.tolist() == pytest.approx([150, log(2)])
    scores, log_q = batch()
    scores[0, 4] = -math.inf
    with pytest.raises(ValueError, match="the score of a positive is -inf"):
        in_batch(scores, IDS, log_q=log_q, positives=MARKS)


JOINT = double(0.25, 0.10, 0.05, 0.05, 0.15, 0.40).view(2, 3)
"""P(x, y) of two contexts and three classes."""
PRIOR = JOINT.sum(0)
UNIFORM = torch.full((3,), 1 / 3, dtype=torch.float64)


def slope(law: Tensor, further: Tensor, u: Tensor, extra: int, mined: Tensor | None = None, **way: Any) -> float:
    """The largest slope, at f = log P(y|x), of the loss's mean over all batches of three pairs and ``extra`` columns.

    ``law`` is the q of in-batch columns and ``further`` that of the others, drawn from u or ``mined`` by context.
    """
    scores = (JOINT / JOINT.sum(1, keepdim=True)).log().requires_grad_()
    mean = torch.zeros((), dtype=torch.float64)
    for pairs in product(range(6), repeat=3):
        x, y = torch.tensor(pairs) // 3, torch.tensor(pairs) % 3
        for drawn in product(range(3), repeat=extra):
            more = torch.tensor(drawn, dtype=torch.int64) if mined is None else mined[x]
            probability = JOINT.flatten()[list(pairs)].prod() * u[list(drawn)].prod()
            ids, rows = torch.cat([y, more]), x if law.ndim == 2 else ...
            log_q = torch.cat([law[rows][..., y], further[rows][..., more]], -1).log()
            mean = mean + probability * in_batch(scores[x][:, ids], ids, log_q=log_q, **way)
    (gradient,) = torch.autograd.grad(mean, scores)
    return gradient.abs().max().item()


def test_the_defaults_are_stationary_at_the_truth_and_the_other_ways_or_a_wrong_mixture_are_not() -> None:
    assert slope(PRIOR, PRIOR, PRIOR, 0) < 1e-15
    for way in ("all, mask", "negatives, keep", "none"):
        assert slope(PRIOR, PRIOR, PRIOR, 0, **WAYS[way]) > 0.01
    assert slope(PRIOR, PRIOR, PRIOR, 1) < 1e-15  # columns of the same law change nothing
    # Two in-batch negatives and a uniform one: (2 pi + u) / 3 in all columns, or each column's own law.
    mixture = (2 * PRIOR + UNIFORM) / 3
    mixed, by_column = slope(mixture, mixture, UNIFORM, 1), slope(PRIOR, UNIFORM, UNIFORM, 1)
    assert 1e-6 < mixed < by_column / 10
    # Each context's likeliest class, a column of all rows: certain in its own row, in others as often as the context.
    hard = F.one_hot(JOINT.argmax(1), 3).double()
    mixture = (2 * PRIOR + hard + 2 * JOINT.sum(1) @ hard) / 5
    mixed, *others = (slope(law, law, PRIOR, 0, JOINT.argmax(1)) for law in (mixture, PRIOR, UNIFORM))
    assert 1e-6 < mixed < min(others) / 10


@forward_mode
@every_way
def test_gradients_of_all_kinds(way: dict[str, Any]) -> None:
    scores, log_q = batch()
    options = way | ({"row_ids": [0, 1, 0, 2]} if way.get("symmetric") else {})

    def loss(z: Tensor, *t: Tensor) -> Tensor:
        return in_batch(z, IDS, log_q=log_q, **options | ({"temperature": t[0]} if t else {}))

    z, t = scores.clone().requires_grad_(), double(0.5, 1, 2, 0.7).requires_grad_()
    for inputs in ((z,), (z, t[:1] if "symmetric" in way else t.unsqueeze(-1))):
        assert torch.autograd.gradcheck(loss, inputs, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(loss, inputs)
        gradients = [torch.autograd.grad(f(*inputs), inputs) for f in (loss, make_fx(loss)(*inputs))]
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-15)
    # Of many batches at once, by vmap, as of each by itself; and the Hessian against that of whole matrices.
    many = torch.stack([scores, scores.flip(0), 2 * scores])
    each = torch.func.vmap(torch.func.grad(loss))(many)
    for logits, gradient in zip(many, each, strict=True):
        leaf = logits.clone().requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(loss(leaf), leaf)[0], gradient)


@every_way
def test_blocks_of_rows_are_the_whole(way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    scores, log_q = batch()
    options = way | ({"row_ids": [0, 1, 0, 2]} if way.get("symmetric") else {})
    results = []
    for cells in (1, 14, 1 << 18):  # one row at a time, two, all
        monkeypatch.setattr(blocks, "CELLS", cells)
        leaf = scores.clone().requires_grad_()
        value = in_batch(leaf, IDS, log_q=log_q, **options)
        results.append(torch.cat([value.reshape(1), *torch.autograd.grad(value, leaf)[0]]))
    torch.testing.assert_close(results[0], results[2], rtol=1e-14, atol=1e-16)
    torch.testing.assert_close(results[1], results[2], rtol=1e-14, atol=1e-16)


@every_way
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_beyond_the_range_of_probabilities(way: dict[str, Any], dtype: torch.dtype, monkeypatch: Any) -> None:
    """Own scores so low that their probabilities are 0 or denormal, in two blocks: as log_softmax finds the losses."""
    monkeypatch.setattr(blocks, "SMALL", 0)
    monkeypatch.setattr(blocks, "CELLS", 14)
    scores, log_q = (values.to(dtype) for values in batch())
    span = -log(torch.finfo(dtype).tiny)
    scores.diagonal().sub_(torch.tensor([0, span, 1.05 * span, 5 * span], dtype=dtype))
    options = way | ({"row_ids": [0, 1, 0, 2]} if way.get("symmetric") else {})
    leaf = scores.clone().requires_grad_()
    value = in_batch(leaf, IDS, log_q=log_q, **options, reduction="none")
    # Under a transform of torch.func the whole is left to log_softmax.
    exact, pull = torch.func.vjp(lambda z: in_batch(z, IDS, log_q=log_q, **options, reduction="none"), scores)
    torch.testing.assert_close(value, exact)
    assert value.max() > span
    torch.testing.assert_close(torch.autograd.grad(value.sum(), leaf)[0], pull(torch.ones_like(exact))[0])


@forward_mode
@every_way
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(way: dict[str, Any], half: torch.dtype, monkeypatch: Any) -> None:
    """The loss is that of the rounded scores, a gradient is rounded once or twice, and derivatives have its error."""
    scores, log_q = batch()
    options = way | ({"row_ids": [0, 1, 0, 2]} if way.get("symmetric") else {})
    rounded, eps = scores.to(half), torch.finfo(half).eps
    least = float(torch.as_tensor(way.get("temperature", 1)).min())
    uneven, direction = double(1, 0.7, 3, 0), torch.linspace(-1, 1, 28).view(4, 7).to(half)
    monkeypatch.setattr(blocks, "SMALL", 0)
    for cells, weights in product((1, 14, 1 << 18), (None, uneven)):
        monkeypatch.setattr(blocks, "CELLS", cells)
        results = []
        for leaf in (rounded.clone().requires_grad_(), rounded.double().requires_grad_()):

            def loss(z: Tensor, weights: Tensor | None = weights) -> Tensor:
                if weights is None:
                    return in_batch(z, IDS, log_q=log_q, **options)
                return in_batch(z, IDS, log_q=log_q, **options, reduction="none") @ weights.to(blocks.precision(z))

            value = loss(leaf)
            (first,) = torch.autograd.grad(value, leaf)
            (kept,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
            (second,) = torch.autograd.grad((kept * direction.to(leaf)).sum(), leaf)
            with torch.autograd.forward_ad.dual_level():
                dual = torch.autograd.forward_ad.make_dual(leaf.detach(), direction.to(leaf))
                along = torch.autograd.forward_ad.unpack_dual(loss(dual)).tangent
            results.append((value, first, kept.detach(), second, along))
        (value, *first, second, along), exact = results
        assert (value.dtype, first[0].dtype) == (torch.float32, half)
        assert value.item() == pytest.approx(exact[0].item(), rel=1e-6)
        once = weights is None and "symmetric" not in way and not isinstance(way.get("temperature"), Tensor)
        rtol, atol = (0.501 * eps, 2**-25) if once else (eps, eps / 16)
        for actual in first:
            torch.testing.assert_close(actual.double(), exact[1], rtol=rtol, atol=atol)
        for actual, wanted in ((second, exact[3]), (along, exact[4])):
            torch.testing.assert_close(actual.double(), wanted, rtol=eps, atol=4 * eps / least**2)


@pytest.mark.parametrize("more", [{}, {"label_smoothing": 0.1}, {"temperature": torch.ones(1, requires_grad=True)}])
@pytest.mark.parametrize("way", [{}, {"hits": "mask"}, {"symmetric": True}, {"positives": torch.arange(300)[:, None]}])
def test_half_precision_makes_no_matrix_of_single(
    way: dict[str, Any], more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 300 x 300 scores rows of a block alone; single precision makes its matrix."""
    monkeypatch.setattr(blocks, "SMALL", 0)
    monkeypatch.setattr(blocks, "CELLS", 20 * 300)
    ids = torch.arange(300)
    for dtype, most in ((torch.bfloat16, 20 * 300), (torch.float16, 20 * 300), (torch.float32, 300 * 300)):
        scores = torch.randn(300, 300).to(dtype).requires_grad_()
        with Largest(torch.float32) as largest:
            in_batch(scores, ids, correct="none", **way, **more).backward()
        assert largest.size == most


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_columns_that_cannot_be_count_for_nothing(dtype: torch.dtype) -> None:
    scores, log_q = (values.to(dtype) for values in batch())
    impossible = scores.clone()
    impossible[:, 5] = -math.inf
    leaf = impossible.requires_grad_()
    kept = [0, 1, 2, 3, 4, 6]
    value = in_batch(leaf, IDS, log_q=log_q)
    wanted = in_batch(scores[:, kept], IDS[kept], log_q=log_q[kept]).item()
    assert value.item() == pytest.approx(wanted, rel=1e-6 if dtype == torch.float32 else 1e-14)
    (gradient,) = torch.autograd.grad(value, leaf)
    assert gradient[:, 5].abs().max() == 0
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hits_are_left_out_whatever_their_scores_and_however_large_the_ids(dtype: torch.dtype) -> None:
    """Ids that single precision cannot tell apart, and a hit at the end of the range: as if it were not there."""
    ids = torch.tensor([2**60, 2**60 + 1, 2**24 + 1, 2**60, 2**24]) * (1 if dtype == torch.float32 else -1)
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=dtype)
    scores[0] = torch.tensor([-2e38, -2e38, -2e38, 3e38, -2e38])
    leaf = scores.requires_grad_()
    value = in_batch(leaf, ids, correct="none", hits="mask", reduction="none")
    assert value[0].item() == pytest.approx(log(4))
    assert value[1:].tolist() == pytest.approx((-torch.log_softmax(scores, -1).diagonal()[1:]).tolist())
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    assert gradient[0, 3] == 0
    wanted = torch.softmax(scores[1], -1) - torch.eye(5, dtype=dtype)[1]
    torch.testing.assert_close(gradient[1], wanted)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"scores": torch.zeros(4)}, r"scores must be a floating-point tensor \[B, B \+ E\]"),
        ({"scores": torch.zeros(4, 3)}, "a column for each example"),
        ({"positives": torch.eye(4, 7)}, r"positives are torch.float32: marks must be bool, as positives > 0"),
        ({"positives": torch.eye(4, 7).byte()}, r"positives are torch.uint8: marks must be bool"),
        ({"positives": torch.eye(4, 7).long()}, r"whole numbers 0 and 1.*marks must be bool, as positives == 1"),
        ({"temperature": torch.ones(3)}, r"temperature is torch.float32 of \(3,\); it must be one positive .*, or one"),
        ({"temperature": torch.tensor([1.0, 2, 0, 1])}, "temperature is 0.0; it must be positive"),
        ({"scores": torch.full((4, 7), math.nan)}, "a score is NaN"),
        ({"scores": torch.full((4, 7), math.inf)}, r"a score is \+inf"),
        ({"scores": torch.full((4, 7), -math.inf)}, "or an example's own is -inf"),
        ({"ids": IDS[:4]}, r"ids have shape \(4,\); there must be one for each of 7 columns"),
        ({"ids": IDS.double()}, "they must be integers"),
        ({"log_q": None}, "log_q is missing: give .* or correct='none'"),
        ({"log_q": torch.zeros(4)}, "one log probability for each of 7"),
        ({"log_q": torch.full((7,), math.nan)}, "log_q must hold logarithms of probabilities, got nan at 0"),
        ({"log_q": torch.full((7,), 0.5)}, "got 0.5 at 0"),
        ({"log_q": double(*[1e-7] * 7)}, "got 1e-07 at 0"),  # as a rounded logarithm of 1, but not of each class
        ({"log_q": -double(1, 1, 1, math.inf, 1, 1, 1)}, r"-inf for id 0, which was never counted.*\(counts \+ 1\)"),
        ({"correct": "positives"}, "correct is 'positives'"),
        ({"positives": torch.zeros(4, 6, dtype=torch.bool)}, r"marks are one for each of \[4, 7\] scores"),
        ({"positives": torch.tensor([1, 2, 3, 4])}, r"classes must be \[4, P\], padded by -1"),
        ({"positives": [[0.5]] * 4}, "positive"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0; it must be at least 0 and below 1"),
        ({"label_smoothing": "a"}, "label_smoothing is 'a'"),
        ({"log_q": torch.zeros(4, 6)}, r"one log probability for each of 7, or \[4, 7\] of them"),
        ({"log_q": torch.zeros(4, 7).index_fill(1, torch.tensor([4]), -math.inf)}, "log_q is -inf for id 2"),
        ({"log_q": torch.zeros(4, 7) + 0.5}, r"got 0.5 at \(0, 0\)"),
        ({"hits": "redraw"}, "hits is 'redraw'"),
        ({"temperature": 0}, "temperature is 0; it must be a positive number"),
        ({"temperature": torch.tensor(-1.0)}, "temperature is -1.0; it must be positive: learn its logarithm"),
        ({"temperature": torch.ones(2)}, "it must be one positive number"),
        ({"temperature": 1e-310}, "temperature is 1e-310: no score divided by it is a number; take a larger one"),
        ({"symmetric": True, "hits": "mask"}, "needs row_ids"),
        ({"symmetric": True, "row_ids": [1], "hits": "mask"}, "one for each of 4 rows"),
        ({"symmetric": True, "row_log_q": double(0, 0, 0, -math.inf)}, "row_log_q is -inf for row 3"),
        ({"reduction": "average"}, "reduction is 'average'"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    scores, log_q = batch()
    arguments = {"scores": scores, "ids": IDS, "log_q": log_q} | change
    with pytest.raises(ValueError, match=message):
        in_batch(arguments.pop("scores"), arguments.pop("ids"), **arguments)


def test_an_empty_batch_and_one_example_which_costs_nothing() -> None:
    empty, none = torch.zeros(0, 3, requires_grad=True), torch.zeros(3)
    assert in_batch(empty, [0, 1, 2], log_q=none, reduction="none").shape == (0,)
    in_batch(empty, [0, 1, 2], log_q=none, reduction="sum").backward()  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="the batch is empty"):
        in_batch(empty, [0, 1, 2], log_q=none)
    score = torch.ones(1, 1, requires_grad=True)
    for options in ({}, {"hits": "mask"}, {"correct": "importance"}, {"label_smoothing": 0.1}, {"positives": [[1]]}):
        loss = in_batch(score, [3], log_q=[-1.0], **options)  # type: ignore[arg-type]
        assert [loss.item(), torch.autograd.grad(loss, score)[0].item()] == pytest.approx([0, 0], abs=1e-7)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_temperature_for_each_row(symmetric: bool) -> None:
    scores, log_q = batch()
    t = double(0.5, 1, 2, 4)
    divided = scores / t.unsqueeze(-1)
    wanted = in_batch(divided, IDS, log_q=log_q, symmetric=symmetric)
    for by_row in (t, t.unsqueeze(-1)):
        assert in_batch(scores, IDS, log_q=log_q, temperature=by_row, symmetric=symmetric).item() == wanted.item()
    actual = in_batch(scores, IDS, log_q=log_q, temperature=double(2), symmetric=symmetric)
    assert actual.item() == pytest.approx(in_batch(scores, IDS, log_q=log_q, temperature=2, symmetric=symmetric).item())


def of_vectors(scores: Tensor, ids: Tensor, *, temperature: Tensor) -> Tensor:
    """The full loss whose last class is masked by its bias, if there is a fourth."""
    weight = torch.eye(len(ids), 3, dtype=scores.dtype)
    bias = torch.zeros(len(ids)).masked_fill(ids == 3, -math.inf)
    return functional.linear_cross_entropy(scores[:, :3], weight, ids[:3], class_bias=bias, temperature=temperature)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "loss, shape",
    [
        *product((partial(in_batch, correct="none"), functional.sigmoid_pairs), ((), (1,), (3,), (3, 1))),
        (of_vectors, (1,)),
    ],
)
def test_masked_candidates_leave_the_gradient_of_a_temperature(
    loss: Any, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """A score of -inf over T would make it NaN; right is that of the loss without the column."""
    scores = torch.tensor([[1, 2, 0, -math.inf], [0, 3, 1, -math.inf], [1, 1, 2, -math.inf]], dtype=dtype)
    t, ids = torch.full(shape, 0.5, dtype=dtype, requires_grad=True), torch.arange(4)
    actual, wanted = (torch.autograd.grad(loss(scores[:, :n], ids[:n], temperature=t), t)[0] for n in (4, 3))
    torch.testing.assert_close(actual, wanted)
