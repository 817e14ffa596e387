"""The layer: against the losses it is made of, dense against sparse, absent examples, autocast, and what it learns."""

import copy
import gc
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.optim.optimizer import _global_optimizer_pre_hooks as hooks

from sumexp import functional, samplers
from sumexp.functional._arguments import Correct
from sumexp.nn import SampledOutput, SampledSoftmax, StreamingLogQ


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def layer(**options: Any) -> SampledSoftmax:
    options = {"dtype": torch.float64} | options
    return SampledSoftmax(6, 20, samplers.LogUniform(20), 5, generator=seeded(), **options)


def data() -> tuple[Tensor, Tensor]:
    hidden = torch.randn(8, 6, generator=seeded(1), dtype=torch.float64)
    return hidden, torch.randint(20, (8,), generator=seeded(2))


@pytest.mark.parametrize("hits", ["keep", "mask"])
@pytest.mark.parametrize("correct", get_args(Correct))
def test_one_call_is_draw_score_correct_and_reduce(correct: Any, hits: Any) -> None:
    model, (hidden, labels) = layer(correct=correct, hits=hits, temperature=0.5, reduction="none"), data()
    actual = model(hidden, labels, generator=seeded(3))
    drawn = samplers.draw(model.sampler, labels, 5, shared=True, hits=hits, generator=seeded(3))
    positive, negative = model.output(hidden, labels, drawn.ids)
    label_log_q = model.sampler.log_prob(labels).unsqueeze(1)
    weights = {
        "all": samplers.relative(drawn.log_q, label_log_q),
        "negatives": torch.exp(-drawn.log_q),
        "importance": samplers.importance(drawn.log_q, 5),
        "none": torch.ones(5),
    }[correct]
    wanted = functional.sampled_softmax(
        positive / 0.5, negative / 0.5, weights=weights, hits=drawn.hits, reduction="none"
    )
    torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)
    model.reduction = "mean"
    mean = model(hidden, labels, generator=seeded(3)).item()
    assert mean == pytest.approx(actual.sum().item() / 8)


def test_padding_is_as_if_it_were_not_there() -> None:
    model, (hidden, labels) = layer(), data()
    places = labels.clone()
    places[[1, 4, 5]] = -100
    present = places != -100
    dirty = hidden.masked_fill(~present.unsqueeze(-1), torch.nan)
    wanted = model(hidden[present], labels[present], generator=seeded(3))
    for shape in ((8,), (2, 4)):
        actual = model(dirty.view(*shape, 6), places.view(shape), generator=seeded(3))
        assert actual.item() == pytest.approx(wanted.item(), rel=1e-14)
    model.reduction = "none"
    each = model(dirty.view(2, 4, 6), places.view(2, 4), generator=seeded(3))
    model.reduction = "mean"
    assert each.shape == (2, 4)
    assert (each.flatten()[~present] == 0).all()
    assert model(dirty, places.tolist(), generator=seeded(3)).item() == actual.item()
    assert model(dirty, places.numpy(), generator=seeded(3)).item() == actual.item()
    with pytest.raises(ValueError, match="holds no example"):
        model(dirty, torch.full((8,), -100))


def test_padding_moves_no_class_that_is_not_in_the_batch() -> None:
    """Places that are no example counted as class 0: SparseAdam moved it by its momentum."""
    model, (hidden, labels) = layer(sparse=True), data()
    model(hidden, labels.masked_fill(labels < 10, -100), generator=seeded(0)).backward()
    gradient = model.output.weight.grad
    assert gradient is not None
    drawn = model.sampler.sample((5,), seeded(0))
    assert set(gradient.coalesce().indices().flatten().tolist()) == {*labels[labels >= 10].tolist(), *drawn.tolist()}


def test_dense_and_sparse_gradients_are_equal() -> None:
    hidden, labels = data()
    gradients = []
    for sparse in (False, True):
        model = layer(sparse=sparse)
        model(hidden, labels, generator=seeded(3)).backward()
        gradient = model.output.weight.grad
        assert gradient is not None
        assert gradient.is_sparse == sparse
        gradients.append(gradient.to_dense())
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-14)


OPTIMISERS: dict[str, dict[str, Any]] = {
    **{kind: {"lr": 0.1} for kind in ("SGD", "Adagrad", "SparseAdam", "Adam", "AdamW", "RMSprop")},
    **{f"{kind} decay": {"lr": 0.1, "weight_decay": 0.1} for kind in ("SGD", "Adagrad")},
    **{f"{kind} fused": {"lr": 0.1, "fused": True} for kind in ("SGD", "Adagrad")},
}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_check_says_what_torch_s_optimisers_do(name: str, sparse: bool) -> None:
    model, (hidden, labels) = layer(sparse=sparse), data()
    kind, options = getattr(torch.optim, name.split()[0]), OPTIMISERS[name]
    optimiser = kind(model.output.parameters(), **options)
    model(hidden, labels, generator=seeded(3)).backward()
    # The same gradients of parameters that no layer watches: what torch itself does.
    twins = [torch.nn.Parameter(parameter.detach().clone()) for parameter in model.output.parameters()]
    for twin, parameter in zip(twins, model.output.parameters(), strict=True):
        assert parameter.grad is not None
        twin.grad = parameter.grad.clone()
    try:
        model.check_optimiser(optimiser)
    except ValueError:
        with pytest.raises(RuntimeError):
            kind(twins, **options).step()
        if sparse:
            with pytest.raises(ValueError, match=r"takes no sparse gradients; give output\.parameters"):
                optimiser.step()
    else:
        kind(twins, **options).step()
        optimiser.step()


def test_a_copy_s_optimiser_is_looked_at_too() -> None:
    model, (hidden, labels) = copy.deepcopy(layer(sparse=True)), data()
    optimiser = torch.optim.AdamW(model.parameters())
    before = model.output.weight.detach().clone()
    model(hidden, labels, generator=seeded(3)).backward()
    with pytest.raises(ValueError, match="AdamW takes no sparse gradients"):
        optimiser.step()
    assert torch.equal(model.output.weight, before)


def test_an_optimiser_of_the_user_s_and_of_other_parameters_are_let_be() -> None:
    class Signs(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            for parameter in self.param_groups[0]["params"]:
                parameter.data.add_(parameter.grad.coalesce().to_dense().sign(), alpha=-1)

    count, (hidden, labels) = len(hooks), data()
    model = layer(sparse=True, learn_temperature=True)
    assert len(hooks) == count + 1
    model(hidden, labels, generator=seeded(3)).backward()
    Signs(model.output.parameters(), {}).step()
    torch.optim.Adam([model.log_temperature]).step()
    del model
    gc.collect()
    assert len(hooks) == count  # a layer that is gone is looked for no longer


def test_no_examples_and_no_negatives_have_shapes() -> None:
    output, none = SampledOutput(4, 9), torch.zeros(0, dtype=torch.int64)
    for size, ids, columns in ((0, none.view(0, 5), 5), (0, [1, 2], 2), (2, [], 0), (2, none.view(2, 0), 0)):
        positive, negative = output(torch.zeros(size, 4), [1, 2][:size], ids)
        assert (positive.shape, negative.shape) == ((size,), (size, columns))


@pytest.mark.parametrize("shared", [True, False])
def test_under_autocast_the_same_class_has_the_same_score(shared: bool) -> None:
    output = SampledOutput(64, 50, generator=seeded())
    assert output.bias is not None
    torch.nn.init.normal_(output.bias, generator=seeded(4))
    hidden, labels = torch.randn(30, 64, generator=seeded(1)), torch.arange(30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        positive, negative = output(hidden, labels, labels if shared else labels.expand(30, -1))
    assert positive.dtype == negative.dtype == torch.bfloat16
    # Equal up to the last digit of bfloat16, 2^-8, of a sum whose order a matrix product chooses.
    torch.testing.assert_close(positive, negative.diagonal(), rtol=2**-7, atol=2**-7)
    model = SampledSoftmax(64, 50, samplers.Uniform(50), 5, generator=seeded())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(hidden, labels, generator=seeded(5)).dtype == torch.float32


def test_a_temperature_is_learned() -> None:
    model, (hidden, labels) = layer(temperature=0.5, learn_temperature=True), data()
    assert model.temperature.item() == pytest.approx(0.5)
    assert torch.autograd.gradcheck(
        lambda t: torch.func.functional_call(model, {"log_temperature": t}, (hidden, labels), {"generator": seeded(3)}),
        model.log_temperature.detach().clone().requires_grad_(),
    )


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_a_temperature_that_is_set_is_not_rounded_with_the_weights(half: torch.dtype) -> None:
    # The logarithm of 0.05 in bfloat16 is that of 0.0498 or 0.0505, depending on which side it falls.
    hidden, labels = torch.randn(8, 6, generator=seeded(1)).to(half), torch.arange(8)
    made = SampledSoftmax(6, 20, samplers.LogUniform(20), 5, temperature=0.05, generator=seeded(), dtype=half)
    moved = SampledSoftmax(6, 20, samplers.LogUniform(20), 5, temperature=0.05, generator=seeded()).to(half)
    for model in (made, moved):
        assert model.output.weight.dtype == half
        assert model.temperature.dtype == torch.float32
        assert model.temperature.item() == pytest.approx(0.05, rel=1e-6)
        assert model(hidden, labels, generator=seeded(3)).dtype == torch.float32
        assert model.logits(hidden).dtype == torch.float32
    learned = SampledSoftmax(6, 20, samplers.LogUniform(20), 5, learn_temperature=True).to(half)
    assert learned.temperature.dtype == torch.float32  # what is learned is rounded with the weights, its power not


@pytest.mark.parametrize("bias", [True, False])
def test_a_module_without_memory_is_given_some_and_starts_as_others_do(bias: bool) -> None:
    options: dict[str, Any] = {"temperature": 0.5, "learn_temperature": True, "bias": bias}
    wanted, model = layer(**options), layer(**options).to("meta").to_empty(device="cpu")
    assert model.sampler.device.type == model.output.weight.device.type == "cpu"
    assert "num_negatives=5, correct='all'" in repr(layer(**options).to("meta"))  # there it has no temperature to show
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    model.reset_parameters(seeded())
    for actual, expected in zip(model.parameters(), wanted.parameters(), strict=True):
        assert torch.equal(actual, expected)


def test_it_is_saved_with_its_law_and_prints_itself() -> None:
    first = SampledSoftmax(6, 4, samplers.unigram([4, 2, 1, 1], 1), 3, generator=seeded())
    second = SampledSoftmax(6, 4, samplers.Categorical([0.25] * 4), 3, generator=seeded(9))
    second.load_state_dict(first.state_dict())
    hidden, labels = torch.randn(5, 6, generator=seeded(1)), [0, 1, 2, 3, 0]
    assert first(hidden, labels, generator=seeded(3)).item() == second(hidden, labels, generator=seeded(3)).item()
    assert "num_negatives=3, correct='all', hits='keep', temperature=1" in repr(first)
    assert "(sampler): Categorical(classes=4)" in repr(first)


def test_it_learns_the_truth() -> None:
    """One context, four classes: the mean loss over many draws is least where the softmax is P(y|x).

    All 4^2 pairs of draws, weighted by their probabilities: the slope at the truth is 0 up to rounding.
    """
    q, truth = torch.tensor([0.4, 0.3, 0.2, 0.1]).double(), torch.tensor([0.1, 0.2, 0.3, 0.4]).double()

    class Fixed(samplers.Categorical):
        drawn = torch.zeros(2, dtype=torch.int64)

        def sample(self, shape: Any, generator: torch.Generator | None = None) -> Tensor:
            return self.drawn

    for hits, exact in (("keep", True), ("mask", False)):
        law = Fixed(q)
        model = SampledSoftmax(1, 4, law, 2, hits=hits, bias=False, reduction="none", dtype=torch.float64)  # type: ignore[arg-type]
        with torch.no_grad():
            model.output.weight.copy_(truth.log().unsqueeze(1))
        total = torch.zeros((), dtype=torch.float64)
        for a in range(4):
            for b in range(4):
                law.drawn = torch.tensor([a, b])
                each = model(torch.ones(4, 1, dtype=torch.float64), torch.arange(4))
                total = total + q[a] * q[b] * (truth * each).sum()
        slope = torch.autograd.grad(total, model.output.weight)[0].abs().max().item()
        assert (slope < 1e-15) == exact


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: SampledSoftmax(6, 20, samplers.Uniform(19), 5), "the sampler has 19 classes and the layer 20"),
        (lambda: SampledSoftmax(6, torch.tensor([2, 0]), samplers.Uniform(20), 5), "classes is tensor"),  # type: ignore[arg-type]
        (lambda: SampledSoftmax(6, 20, samplers.Uniform(20), 0), "num_negatives is 0"),
        (lambda: layer(temperature=0), "temperature is 0"),
        (lambda: layer(temperature="1"), "temperature is '1'; it must be a positive number"),
        (lambda: SampledSoftmax(6, 20, samplers.Uniform, 5), "the sampler is .*; it must be a law, as"),  # type: ignore[arg-type]
        (lambda: SampledSoftmax(6, 20, StreamingLogQ(20), 5), "the sampler is StreamingLogQ.*; it must be a law, as"),  # type: ignore[arg-type]
        (lambda: layer()(data()[0].numpy(), data()[1]), "hidden must be a floating-point tensor .*, got ndarray"),
        (lambda: layer()(data()[0].long(), data()[1]), "hidden must be a floating-point tensor .*, got torch.int64"),
        (lambda: layer()(data()[0].float(), data()[1]), "hidden is torch.float32 and the weights torch.float64: move"),
        (lambda: layer()(data()[0].to("meta"), data()[1]), "hidden lies on meta and the weights on cpu: move one"),
        (lambda: layer(correct="some"), "correct is 'some'"),
        (lambda: layer(ignore_index="x"), "ignore_index is 'x'; it must be a whole number"),
        (lambda: layer(hits="redraw"), "hits is 'redraw'"),
        (lambda: layer()(data()[0], data()[1][:3]), r"must be \[B, d\] and \[B\]"),
        (lambda: layer()(data()[0], data()[1] + 20), "the 20 classes are 0..19"),
        (
            lambda: SampledSoftmax(6, 2, samplers.Categorical([1.0, 0.0]), 3)(torch.ones(2, 6), [0, 1]),
            r"label 1 has probability 0 under the sampler.* \(counts \+ 1\)",
        ),
    ],
)
def test_bad_input_is_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_more_memory_than_there_is_is_one_line() -> None:
    """2^53 x 1,000 numbers of 4 bytes are 36,028,797,019 GB; torch counts bytes by 64 bits, of which 2^60 are few."""
    for features, classes, size in ((1 << 53, 1000, "36,028,797,019"), (1 << 30, 1 << 28, "1,152,921,505")):
        with pytest.raises(MemoryError, match=rf"^{classes:,} classes of {features:,} features take {size} GB of"):
            SampledOutput(features, classes)
    with pytest.raises(RuntimeError, match=r"[Ii]nvalid device|device type"):  # another error stays what it is
        SampledOutput(2, 2, device="no device")


@pytest.mark.parametrize("shared", [True, False])
def test_cosines_by_hand(shared: bool) -> None:
    """Loss and gradients of rows that are normalised when they are read are those of a table normalised as a whole."""
    output = SampledOutput(6, 9, normalize=True, generator=seeded(), dtype=torch.float64)
    hidden = torch.randn(4, 6, generator=seeded(), dtype=torch.float64)
    labels, ids = torch.tensor([0, 3, 3, 8]), torch.tensor([[1, 3, 1], [2, 8, 0], [5, 5, 5], [8, 7, 6]])
    ids = ids[0] if shared else ids
    cosines = (hidden / hidden.norm(dim=1, keepdim=True)) @ (output.weight / output.weight.norm(dim=1, keepdim=True)).T
    wanted = cosines.gather(1, labels.unsqueeze(1)).squeeze(1), cosines.gather(1, ids.expand(4, 3))
    result = output(hidden, labels, ids)
    for actual, expected in zip(result, wanted, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    [by_rows] = torch.autograd.grad(sum(part.square().sum() for part in result), output.weight)
    [by_table] = torch.autograd.grad(sum(part.square().sum() for part in wanted), output.weight)
    torch.testing.assert_close(by_rows, by_table, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(output.logits(hidden), cosines, rtol=1e-12, atol=1e-12)
