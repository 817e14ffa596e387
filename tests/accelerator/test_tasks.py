"""Every training task runs on a device, finds what it finds on the CPU, and makes the host wait no more than stated."""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
import pytest
import torch

import sumexp
from sumexp._runtime import Result
from sumexp.chapters.catalogue import training as catalogue
from sumexp.chapters.fits import FitConfig
from sumexp.chapters.fits import training as fits
from sumexp.chapters.longtail import residual
from sumexp.chapters.longtail import training as longtail
from sumexp.chapters.models import multilabel, skipgram, wordmodel
from sumexp.chapters.models._queries import Queries
from sumexp.chapters.models.skipgram import SkipGramConfig
from sumexp.chapters.models.wordmodel import WordModelConfig
from sumexp.chapters.retrieval import training as retrieval
from sumexp.chapters.vae import Member, Stack, fixed
from sumexp.chapters.vae import training as vae
from sumexp.nce import Joint, gaussians
from sumexp.nce.gaussians import GaussianConfig
from tests.accelerator.device import GPU, NAME, Device
from tests.accelerator.functions import TASKS
from tests.accelerator.test_functions import stated
from tests.catalogue import test_training as test_catalogue
from tests.longtail import test_residual
from tests.longtail import test_training as test_longtail
from tests.models.test_multilabel import TINY
from tests.models.texts import corpus
from tests.retrieval import test_retrieval
from tests.vae.test_training import DIGITS, Memory

TEXT = corpus(*(list("abacabadabacaba"[i:]) for i in range(12)))
LAW = Joint(torch.tensor([[0.3, 0.1, 0.05], [0.1, 0.15, 0.05], [0.05, 0.05, 0.15]], dtype=torch.float64))
FEW = replace(DIGITS, train=DIGITS.train[:60], validation=DIGITS.validation[:20], test=DIGITS.test[:20])
MEMBERS = (
    Member(categories=3),
    Member("gaussian", divergence="exact", categories=3, temperature=fixed(0.5)),
    Member("logistic", categories=4, seed=1, straight_through=True),
)
VAE = Stack(members=MEMBERS, variables=2, hidden=5, batch=20, precision="float64", samples=2, importance=3)


def queries() -> Queries:
    rng = np.random.default_rng(0)

    def part(size: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.random((size, 6)) < 0.3
        labels[np.arange(size), rng.integers(6, size=size)] = True
        return (rng.random((size, 8)) < 0.5).astype(np.float32), labels

    return Queries(*part(40), *part(20))


QUERIES = queries()


Case = Callable[[int, str], Result]
"""A task at tiny size, for a number of rounds (steps, or epochs where it counts these) on a device."""


def words(rounds: int, device: str) -> Result:
    model = wordmodel.fit(WordModelConfig(rank=2, batch=4, steps=rounds), TEXT, device=device)
    return Result(model.arrays(), model.metrics())


def fit(**settings: object) -> Case:
    base = FitConfig("discrete", "gumbel", temperatures=(0.5, 1.0), samples=5, seeds=(0, 1))
    return lambda rounds, device: fits.train(replace(base, steps=rounds, **settings), device=device)


def pairs(**settings: object) -> Case:
    base = SkipGramConfig(batch=8, negatives=2)
    return lambda rounds, device: skipgram.fit(replace(base, steps=rounds, **settings), LAW, device=device)


def gaussian(**settings: object) -> Case:
    base = GaussianConfig(dim=3, candidates=4, evaluations=2, hidden=4)
    return lambda rounds, device: gaussians.train(replace(base, steps=rounds, **settings), device=device)


def tags(**settings: object) -> Case:
    base = replace(TINY, batch=20)
    return lambda rounds, device: multilabel.fit(replace(base, epochs=rounds, **settings), QUERIES, device=device)


def labels(**settings: object) -> Case:
    return lambda rounds, device: retrieval.fit(
        replace(test_retrieval.TINY, epochs=rounds, **settings), test_retrieval.DATA, device=device
    )


def towers(**settings: object) -> Case:
    base = replace(test_catalogue.TINY, rates=(0.05,))
    return lambda rounds, device: catalogue.fit(
        replace(base, epochs=rounds, **settings), test_catalogue.PARTS, device=device
    )


def pictures() -> longtail.Labelled:
    """Two pictures and more of each of four classes, 8 x 8."""
    rng = np.random.default_rng(0)

    def part(counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (sum(counts), 8, 8, 1)).astype(np.uint8), np.repeat(np.arange(4), counts)

    return longtail.Labelled(*part([20, 10, 6, 4]), *part([5] * 4), 4)


PICTURES = pictures()

CASES: Mapping[str, Case] = {
    "models.wordmodel": words,
    "models.multilabel, softmax": tags(),
    "models.multilabel, infonce": tags(loss="infonce"),
    "models.skipgram, table": pairs(),
    "models.skipgram, low rank": pairs(rank=2, learning_rate=0.05),
    "models.skipgram, population": pairs(rank=2, population=True),
    "nce.gaussians, cpc": gaussian(),
    "nce.gaussians, doe": gaussian(estimator="doe"),
    "catalogue, in batch": towers(form="refined"),
    "catalogue, draws": towers(form="popularity", negatives=8),
    "catalogue, all items": towers(form="full"),
    "fits, draws": fit(),
    "fits, exact": fit(samples=None),
    "longtail": lambda rounds, device: longtail.fit(
        replace(test_longtail.TINY, epochs=rounds), PICTURES, device=device
    ),
    "longtail.residual": lambda rounds, device: residual.fit(
        replace(test_residual.TINY, epochs=rounds), PICTURES, device=device
    ),
    "retrieval, all labels": labels(),
    "retrieval, sampled": labels(method=test_retrieval.SAMPLED[0]),
    "vae": lambda rounds, device: vae.fit(replace(VAE, epochs=rounds), FEW, device=device),
}


DRAWS = {"vae", "fits, draws"}
"""These draw on the device, and a GPU has other random numbers."""


def test_every_task_is_in_the_table() -> None:
    found = set()
    for module in pkgutil.walk_packages(sumexp.__path__, "sumexp."):
        if not module.name.startswith("sumexp.companion"):
            for name, thing in vars(import_module(module.name)).items():
                if callable(thing) and getattr(thing, "__module__", None) == module.name and not name.startswith("_"):
                    parameters = signature(thing).parameters if name in ("train", "fit") else {}
                    if {"device", "progress"} <= set(parameters):
                        found.add(
                            module.name.removeprefix("sumexp.").removeprefix("chapters.").removesuffix(".training")
                        )
    assert found == {name.split(",")[0] for name in CASES}
    assert found == {name.rsplit(".", 1)[0] for name in TASKS}


@cache
def on_device(name: str, rounds: int) -> tuple[Result, np.ndarray]:
    """What a task finds there; how often the host waits and the bytes that go each way, once its tables are made."""
    if rounds > 1:
        on_device(name, 1)
    with Device() as device:
        found = CASES[name](rounds, NAME)
    return found, np.array([device.synchronisations.total(), device.to_device, device.to_host])


@pytest.mark.parametrize("name", CASES)
def test_a_task_finds_what_it_finds_on_the_cpu(name: str) -> None:
    with Device():
        wanted = CASES[name](2, "cpu")
    found, (*_, to_host) = on_device(name, 2)
    for kind in ("arrays", "history"):
        one, other = getattr(found, kind), getattr(wanted, kind)
        assert one.keys() == other.keys()
        for key in one.keys() - {"seconds"}:
            assert one[key].shape == other[key].shape, key
            if GPU and name in DRAWS:
                assert np.isfinite(one[key]).all() or not np.isfinite(other[key]).all(), key
            elif one[key].dtype.kind == "f":
                # A score near zero is a sum of products that cancel: it is as exact as the largest, no more.
                last_place = np.finfo(other[key].dtype).eps * np.abs(other[key]).max(initial=0)
                np.testing.assert_allclose(one[key], other[key], rtol=1e-6, atol=max(1e-9, last_place), err_msg=key)
            else:
                assert np.array_equal(one[key], other[key]), key
    if not (GPU and name in DRAWS):
        assert found.metrics == pytest.approx(wanted.metrics, rel=1e-6)
    assert GPU or to_host > 0


@cache
def measured(name: str) -> dict[str, Any]:
    """How often the host waits in the third round, and the bytes that go each way."""
    third = on_device(name, 3)[1] - on_device(name, 2)[1]
    heads = ("waits", "bytes to the device", "bytes from it")
    return {"task": name, **dict(zip(heads, third.tolist(), strict=True))}


@pytest.mark.skipif(GPU, reason="the stand-in counts")
@pytest.mark.parametrize("name", CASES)
def test_how_often_the_host_waits_in_a_round(name: str) -> None:
    # What happens once, before and after, drops out of the difference.
    assert measured(name) == stated("tasks")[name]


@pytest.mark.skipif(GPU, reason="the stand-in counts")
def test_an_epoch_of_the_vae_waits_once_and_moves_an_order_and_temperatures() -> None:
    found = measured("vae")
    members, images, steps = len(MEMBERS), 60, 3
    assert found["waits"] == 1
    assert found["bytes from it"] == 8 * members  # the losses, in double precision
    # The order of each member's images; the temperatures of each step; zeros for the losses; whose are which uniforms.
    assert found["bytes to the device"] == 8 * members * (images + steps + 1 + 1)


def test_a_training_on_a_device_goes_on_from_its_checkpoint() -> None:
    config = replace(VAE, epochs=3)
    with Device():
        whole = vae.fit(config, FEW, device=NAME)
        memory = Memory()
        vae.fit(config, FEW, device=NAME, checkpoint=memory)
        resumed = vae.fit(config, FEW, device=NAME, checkpoint=Memory(memory.states[1]))
    for name, array in whole.arrays.items():
        assert np.array_equal(array, resumed.arrays[name]), name
