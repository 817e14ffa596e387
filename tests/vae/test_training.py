"""Training of a stack: each member as if it were alone, against layers of torch, and better than pixel frequencies."""

import math
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sumexp import datasets
from sumexp.chapters.vae import Member, Stack, Temperature, fixed, public, stack, training
from sumexp.chapters.vae.comparison import CRITERIA
from tests.vae.test_stack import networks

DIGITS = datasets.images("digits")
MIXED = (
    Member(seed=1, temperature=Temperature(rate=1e-2, every=1)),
    Member(seed=1, temperature=fixed(0.3)),
    Member("gaussian", divergence="exact", seed=2),
    Member("gaussian", scale=1.3, divergence="exact", seed=1, straight_through=True),
    Member("logistic", scale=0.5, divergence="exact", seed=3, temperature=fixed(2.0)),
    Member("logistic", seed=2),
)


def config(members: tuple[Member, ...], **settings: object) -> Stack:
    base = Stack(members=members, variables=4, hidden=16, epochs=5, batch=120, precision="float64", samples=2)
    return replace(base, **settings)


def images(dtype: torch.dtype = torch.float64) -> Tensor:
    return training.binary(DIGITS.train, dtype, "cpu")


def test_each_member_equals_its_single_run() -> None:
    few = images()[:240]
    together = training.Learner(config(MIXED, batch=24), few)
    alone = [training.Learner(config((member,), batch=24), few) for member in MIXED]
    for _ in range(5):  # of 10 steps
        losses = together.run_epoch()
        for s, learner in enumerate(alone):
            torch.testing.assert_close(losses[:, s : s + 1], learner.run_epoch(), rtol=1e-10, atol=0)
    assert together.step == 50
    for s, learner in enumerate(alone):
        single = stack.member(together.parameters, s)
        for name, tensor in learner.parameters.items():
            torch.testing.assert_close(single[name], tensor, rtol=1e-10, atol=1e-13)


class Plain(nn.Module):
    """The published network and loss in torch's own layers, one model."""

    def __init__(self, tensors: dict[str, Tensor], variables: int) -> None:
        super().__init__()
        self.variables = variables
        self.encoder, self.decoder = networks(tensors)

    def forward(self, x: Tensor, noise: Tensor, tau: float) -> Tensor:
        logits = self.encoder(x).view(len(x) * self.variables, -1)
        z = torch.softmax((logits + noise.reshape(logits.shape)) / tau, 1)
        missed = F.binary_cross_entropy_with_logits(self.decoder(z.view(len(x), -1)), x, reduction="sum")
        q = torch.softmax(logits, 1)
        return (missed + (q * (torch.log(q) + math.log(q.shape[1]))).sum()) / len(x)


def test_training_equals_torchs_own_layers_and_optimiser() -> None:
    """Losses, first gradient and weights of 20 steps, with noise from scipy-free formulas and torch's plain Adam."""
    member = Member("gumbel", categories=5, seed=4, temperature=Temperature(rate=0.05, floor=0.4, every=3))
    settings = config((member,), epochs=2)
    learner, x = training.Learner(settings, images()), images()
    plain = Plain(learner.parameters, settings.variables)
    adam = torch.optim.Adam(plain.parameters(), lr=1e-3, fused=False, foreach=False)
    for epoch in range(2):
        order = training.orders(settings.members, epoch, len(x))[0]
        losses = []
        for i, uniforms in enumerate(training.uniforms(settings, epoch, 10, x.dtype)):
            step = 10 * epoch + i
            seen = 0 if step == 0 else (step - 1) - (step - 1) % 3  # the last multiple of 3 before the step
            noise = -torch.log(-torch.log(uniforms[0]))
            loss = plain(x[order[120 * i : 120 * (i + 1)]], noise, max(0.4, math.exp(-0.05 * seen)))
            adam.zero_grad()
            loss.backward()
            adam.step()
            losses.append(loss.item())
        assert learner.run_epoch().mean().item() == pytest.approx(np.mean(losses), rel=1e-12)
    names = [f"{half}_{part}" for half in ("encoder", "decoder") for part in ("hidden", "out")]
    for name, layer in zip(names, [*plain.encoder[::2], *plain.decoder[::2]], strict=True):
        torch.testing.assert_close(learner.parameters[f"{name}_weight"][0].T, layer.weight, rtol=1e-10, atol=1e-13)
        torch.testing.assert_close(learner.parameters[f"{name}_bias"][0, 0], layer.bias, rtol=1e-10, atol=1e-13)


def test_seeds_are_paired_across_noises_and_temperatures() -> None:
    members = tuple(
        Member(noise, temperature=fixed(tau), seed=seed)
        for noise in ("gumbel", "gaussian")
        for tau in (0.5, 1.0)
        for seed in (0, 1)
    )
    orders = training.orders(members, 3, 50)
    first, second = list(training.uniforms(config(members), 3, 2, torch.float32))
    for drawn in (orders, first, second):
        for s in range(0, 8, 2):
            assert torch.equal(drawn[s], drawn[0])
            assert torch.equal(drawn[s + 1], drawn[1])
        assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(first, second)
    assert sorted(orders[0].tolist()) == list(range(50))
    assert not torch.equal(orders, training.orders(members, 4, 50))
    assert ((first > 0) & (first < 1)).all()


def test_uniforms_do_not_end_with_a_chunk() -> None:
    members = (Member(seed=1),)
    drawn = list(training.uniforms(config(members, batch=2), 0, 2 * training.CHUNK + 3, torch.float64))
    assert len(drawn) == 2 * training.CHUNK + 3
    assert len({tensor[0, 0, 0, 0].item() for tensor in drawn}) == len(drawn)


def test_temperatures_are_those_that_the_public_code_has_seen() -> None:
    """That code computes the temperature at the end of step t if t is a multiple of 1,000, from t."""
    schedule, seen, tau = Temperature(), {}, 1.0
    for step in range(3002):
        seen[step] = tau
        if step % 1000 == 0:
            tau = max(math.exp(-1e-5 * step), 0.1)
    assert all(schedule.at(step) == tau for step, tau in seen.items())
    assert [schedule.at(step) for step in (0, 1, 1000)] == [1.0, 1.0, 1.0]
    assert schedule.at(1001) == schedule.at(2000) == math.exp(-0.01)
    assert schedule.at(2001) == math.exp(-0.02)
    # 300 epochs of 500 steps end at step 149,999, refreshed at 149,000; the floor is met at t = 10^5 log 10 = 230,259.
    assert schedule.at(149_999) == pytest.approx(math.exp(-1.49)) == pytest.approx(0.2254, abs=1e-4)
    assert schedule.at(230_001) > schedule.at(231_001) == 0.1
    assert {fixed(0.3).at(step) for step in (0, 1, 10**6)} == {0.3}


@pytest.mark.parametrize("steps", [1, 12, 360, 4000, 69_000, 150_000])
def test_the_compressed_schedule_sees_all_of_the_public_one(steps: int) -> None:
    """It ends where the public one is at the same share of its 150,000 steps; the refresh may come one earlier."""
    schedule, share = public(steps), (steps - 1) / steps
    assert schedule.at(0) == 1.0
    at = math.exp(-1.5 * share)
    assert at <= schedule.at(steps - 1) * (1 + 1e-9) <= at * math.exp(1.5 * (schedule.every + 1) / steps)
    if steps >= 150:
        assert schedule.at(steps - 1) == pytest.approx(0.2254, rel=0.01)


def test_the_schedule_of_150000_steps_is_the_public_one() -> None:
    assert public(150_000) == Temperature()
    with pytest.raises(ValueError, match="steps is 0; it must be at least 1"):
        public(0)


def test_results_have_the_promised_form() -> None:
    with mock.patch.object(training.bounds, "relaxed_loss", wraps=training.bounds.relaxed_loss) as relaxed:
        result = training.train(config(MIXED, epochs=2, importance=3, test_images=50))
    for call in relaxed.call_args_list:  # at the temperatures of the last step, the 20th
        assert call.args[2].tolist() == [member.temperature.at(19) for member in MIXED]
    arrays, metrics, history = result.arrays, result.metrics, result.history
    shapes = dict.fromkeys((f"{part}_{name}" for part in ("validation", "test") for name in CRITERIA), (6, 50))
    shapes |= {"counts": (2,), "by_count": (6, 2), "images": (10, 64), "shown": (3,), "reconstructions": (3, 10, 64)}
    shapes |= {"imagined": (3, 10, 64), "probe": (), "probe_logits": (200, 4, 10)}
    assert {name: arrays[name].shape for name in arrays} == shapes
    assert arrays["shown"].tolist() == [0, 2, 4]
    assert arrays["probe"] == 2
    assert ((arrays["imagined"] > 0) & (arrays["imagined"] < 1)).all()
    assert set(history) == {"epoch", "member", "train_loss"}
    assert history["epoch"].tolist() == [0] * 6 + [1] * 6
    assert history["member"].tolist() == [*range(6)] * 2
    assert metrics["train_loss"] == pytest.approx(history["train_loss"][6:].mean())
    assert arrays["counts"].tolist() == [1, 3]
    assert arrays["by_count"][:, 1] == pytest.approx(arrays["test_likelihood"].mean(1), rel=1e-6)
    # For a Gumbel of scale 1 the published number is the bound; for the rest the two KL terms differ.
    apart = np.abs(arrays["test_published"] - arrays["test_bound"]).max(1)
    assert (apart[:2] < 1e-5).all()
    assert (apart[2:] > 1e-4).all()


def test_a_trained_model_knows_more_than_the_pixels_own_shares() -> None:
    """Pixels coded one by one, by the share of images that have them, cost 24.9 nats; so does a code not used."""
    cold = fixed(0.3)
    members = (Member(seed=0, temperature=cold), Member("gaussian", divergence="exact", seed=0, temperature=cold))
    settings = Stack(members=members, hidden=60, batch=50, learning_rate=5e-3, epochs=20, samples=2, importance=3)
    result = training.train(settings)
    arrays, history = result.arrays, result.history
    share = (DIGITS.train > 0.5).mean(0).clip(1e-3, 1 - 1e-3)
    test = DIGITS.test > 0.5
    one_by_one = -(test * np.log(share) + ~test * np.log(1 - share)).sum(1).mean()
    assert one_by_one == pytest.approx(24.9, abs=0.1)
    assert (history["train_loss"][-2:] < one_by_one - 1).all()
    assert (arrays["test_bound"].mean(1) < one_by_one - 1).all()
    x, p = arrays["images"], arrays["reconstructions"]
    assert (-(x * np.log(p) + (1 - x) * np.log1p(-p)).sum(-1).mean(1) < one_by_one - 1).all()


def test_float32_stays_near_float64() -> None:
    """The loss of one step on the same numbers, about 45 nats."""
    learner = training.Learner(config(MIXED, precision="float32"), images(torch.float32))
    exact = training.Learner(config(MIXED), images())
    batch = training.orders(MIXED, 0, 1200)[:, :120]
    u, tau = next(training.uniforms(config(MIXED), 0, 1, torch.float32)), torch.ones(6)
    short = training.objective(learner.parameters, learner.images[batch], u, MIXED, tau)
    long = training.objective(exact.parameters, exact.images[batch], u.double(), MIXED, tau.double())
    assert short.dtype == torch.float32
    torch.testing.assert_close(short.double(), long, rtol=0, atol=1e-4)


def test_the_last_batch_may_be_smaller() -> None:
    learner = training.Learner(config(MIXED, batch=500, images=1100), images()[:1100])
    learner.run_epoch()
    assert learner.step == 3


def test_images_of_two_shapes_or_none_are_refused() -> None:
    wrong = replace(DIGITS, test=DIGITS.test[:, :10])
    with pytest.raises(ValueError, match=r"\(300, 10\); each needs images, all of the same pixels"):
        training.train(config(MIXED), wrong)
    with pytest.raises(ValueError, match=r"\(0, 64\).* each needs images"):
        training.train(config(MIXED), replace(DIGITS, validation=DIGITS.validation[:0]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_equals_cpu() -> None:
    """One step on the same numbers; a whole epoch runs, with random numbers of the GPU's own."""
    settings = config(MIXED)
    cpu = training.Learner(settings, images())
    gpu = training.Learner(settings, images().cuda(), "cuda")
    u, tau = next(training.uniforms(settings, 0, 1, torch.float64)), torch.ones(6, dtype=torch.float64)
    gradients = []
    for learner in (cpu, gpu):
        x = learner.images[:120].expand(6, -1, -1)
        loss = training.objective(learner.parameters, x, u.to(x.device), MIXED, tau.to(x.device))
        loss.sum().backward()
        gradients.append(
            {name: tensor.grad.cpu() for name, tensor in learner.parameters.items()} | {"loss": loss.cpu()}
        )
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, rtol=1e-10, atol=1e-12)
    assert training.Learner(settings, images().cuda(), "cuda").run_epoch().isfinite().all()
