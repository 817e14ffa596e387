"""The in-batch loss in graphs, where no number can be read; distributions on a device without double precision."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, OneHotCategorical, kl_divergence

from sumexp import _checks as checks
from sumexp import functional, samplers
from sumexp.distributions import PerturbArgmax, PerturbLogSoftmax, PerturbSoftmax
from sumexp.perturb.noises import Gaussian, Logistic
from tests.accelerator.device import GPU, NAME, Device, without_double
from tests.functional.test_batch import IDS, WAYS, batch

WAYS = WAYS | {"smoothing, mask": {"label_smoothing": 0.1, "hits": "mask"}, "importance": {"correct": "importance"}}


@pytest.mark.skipif(GPU, reason="a GPU captures by itself: tests of its graphs do")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_captured_loss_reads_nothing_and_is_right(way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Own scores 1,000 and 200 below the best, whose probabilities are 0 in double and in single precision."""
    for dtype, gap in ((torch.float64, 1000.0), (torch.float32, 200.0)):
        scores, log_q = (part.to(dtype) for part in batch())
        scores[0, 4], scores[1, 5], scores[2, 3] = gap, -torch.inf, gap
        leaf = scores.clone().requires_grad_()
        with monkeypatch.context() as patched:
            patched.setattr("sumexp.functional._batch_autograd.SMALL", 0)
            wanted = functional.in_batch(leaf, IDS, log_q=log_q, **way)
        [slope] = torch.autograd.grad(wanted, leaf)
        assert gap / 4 < wanted.item() < torch.inf
        by_graph = torch.compile(lambda z, q: functional.in_batch(z, IDS, log_q=q, **way), backend="eager")
        torch.testing.assert_close(by_graph(scores, log_q), wanted, rtol=1e-6, atol=0)
        with Device() as device, monkeypatch.context() as patched:
            patched.setattr(checks, "is_captured", lambda values: values.device.type == NAME)
            options = way | ({"positives": torch.as_tensor(way["positives"]).to(NAME)} if "positives" in way else {})
            z, ids, q = scores.to(NAME).requires_grad_(), IDS.to(NAME), log_q.to(NAME)
            actual = functional.in_batch(z, ids, log_q=q, **options)
            [by] = torch.autograd.grad(actual, z)
            assert not device.synchronisations
            torch.testing.assert_close(actual.cpu(), wanted, rtol=1e-6, atol=0)
            torch.testing.assert_close(by.cpu(), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(GPU, reason="a GPU captures by itself")
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_captured_loss_of_vectors_reads_nothing(symmetric: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, results = torch.randn(11, 3, generator=torch.Generator().manual_seed(0)).split([4, 7]), []
    for place in ("cpu", NAME):
        with Device() as device, monkeypatch.context() as patched:
            patched.setattr(checks, "is_captured", lambda values: values.device.type == NAME)
            queries, items = (part.to(place).requires_grad_() for part in vectors)
            ids, log_q = IDS.to(place), batch()[1].float().to(place)
            moved = device.to_device
            options = {"log_q": log_q, "hits": "mask", "row_ids": ids[:4], "symmetric": symmetric}
            loss = functional.linear_in_batch(queries, items, ids, **options)
            results.append([loss, *torch.autograd.grad(loss, (queries, items))])
            assert (device.synchronisations.total(), device.to_device) == (0, moved)
    torch.testing.assert_close([tensor.cpu() for tensor in results[1]], results[0])


@pytest.mark.skipif(GPU, reason="the stand-in is there")
def test_a_generator_of_another_device_is_named() -> None:
    with Device():
        for law in (samplers.Uniform(4), samplers.LogUniform(4), samplers.unigram([1, 2])):
            with pytest.raises(ValueError, match=f"generator is on {NAME}.*, but draws are made on cpu"):
                samplers.draw(law, [0], 2, generator=torch.Generator(NAME))
            with pytest.raises(ValueError, match=f"generator is on cpu, but draws are made on {NAME}"):
                law.to(NAME).sample(2, torch.Generator())


def moments(law: Distribution, other: Distribution, value: Tensor) -> list[Tensor]:
    values = [law.mean, kl_divergence(law, other)]
    if not isinstance(law, PerturbLogSoftmax):
        values.append(law.variance)
    return [*values, law.entropy(), law.log_prob(value)]


@pytest.mark.skipif(GPU, reason="only the stand-in refuses double precision")
@pytest.mark.parametrize("noise", [None, Gaussian(), Logistic()])
@pytest.mark.parametrize("kind", [PerturbArgmax, PerturbSoftmax, PerturbLogSoftmax])
def test_distributions_on_a_device_without_double_precision(kind: Any, noise: Any) -> None:
    """Exact moments are computed on the CPU there, with one temperature for each row."""
    if kind is not PerturbArgmax and isinstance(noise, Logistic):
        noise = Gaussian(0.5, 2.0)  # densities of logistic draws are not closed
    loc, prior, tau = torch.tensor([[1.0, 0.0, -2.0], [0.5, 3.0, 0.0]]), torch.zeros(2, 3), torch.tensor([[0.5], [2.0]])
    value = torch.eye(3)[:2] if kind is PerturbArgmax else torch.tensor([[0.2, 0.3, 0.5]] * 2)

    def evaluate(*given: Tensor) -> list[Tensor]:
        loc, prior, tau, value = given
        options = () if kind is PerturbArgmax else (tau,)
        law = kind(loc, *options, noise=noise)
        for generator in (None, torch.Generator(loc.device)):
            assert law.sample(generator=generator).device == loc.device
        categorical = [kl_divergence(law, OneHotCategorical(logits=prior))] if kind is PerturbArgmax else []
        return categorical + moments(law, kind(prior, *options, noise=noise), value)

    wanted = evaluate(loc, prior, tau, value)
    with without_double():
        actual = [tensor.cpu() for tensor in evaluate(*(given.to(NAME) for given in (loc, prior, tau, value)))]
    torch.testing.assert_close(actual, wanted)
