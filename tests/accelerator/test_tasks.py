"""Every training task runs on a device, finds what it finds on the CPU, and makes the host wait no more than stated."""

import pkgutil
import sys
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
import pytest
from torch import Tensor

import sumexp
from sumexp import _checks
from sumexp import _descent as descent
from sumexp._runtime import Result
from tests.accelerator.device import GPU, NAME, Device
from tests.accelerator.functions import TASKS
from tests.accelerator.test_functions import stated
from tests.tasks import CASES, MEMBERS

DRAWS = {
    "catalogue, draws", "fits, draws", "longtail", "longtail.residual", "models.multilabel, infonce",
    "models.multilabel, softmax", "models.skipgram, low rank", "models.skipgram, table", "models.wordmodel",
    "nce.gaussians, cpc", "nce.gaussians, doe", "retrieval, sampled", "vae",
}  # fmt: skip
"""These draw on the device, and a GPU has other random numbers."""
EAGER = {"models.wordmodel", "fits, draws", "fits, exact"}
"""Batches without a fixed shape, and loops of their own."""


def test_every_task_is_in_the_table() -> None:
    tasks = set()
    for module in pkgutil.walk_packages(sumexp.__path__, "sumexp."):
        if not module.name.startswith("claimbook"):
            for name, value in vars(import_module(module.name)).items():
                if callable(value) and getattr(value, "__module__", None) == module.name and not name.startswith("_"):
                    parameters = signature(value).parameters if name == "train" else {}
                    if {"device", "progress"} <= set(parameters):
                        place = module.name.removeprefix("sumexp.").removeprefix("chapters.")
                        tasks.add(place.removesuffix(".training"))
    assert tasks == {name.split(",")[0] for name in CASES}
    assert tasks == {name.rsplit(".", 1)[0] for name in TASKS}


@cache
def on_device(name: str, rounds: int) -> tuple[Result, np.ndarray]:
    """What a task finds there; how often the host waits and the bytes that go each way, once its tables are made."""
    if rounds > 1:
        on_device(name, 1)
    with Device() as device:
        result = CASES[name](rounds, NAME)
    return result, np.array([device.synchronisations.total(), device.to_device, device.to_host])


@pytest.mark.parametrize("name", CASES)
def test_a_task_finds_what_it_finds_on_the_cpu(name: str) -> None:
    with Device():
        wanted = CASES[name](2, "cpu")
    result, (*_, to_host) = on_device(name, 2)
    for kind in ("arrays", "history"):
        actual, other = getattr(result, kind), getattr(wanted, kind)
        assert actual.keys() == other.keys()
        for key in actual:
            assert actual[key].shape == other[key].shape, key
            if GPU and name in DRAWS and actual[key].dtype.kind == "f":
                assert np.isfinite(actual[key]).all() or not np.isfinite(other[key]).all(), key
            elif actual[key].dtype.kind == "f":
                # A score near zero is a sum of products that cancel: it is as exact as the largest, no more.
                last_place = np.finfo(other[key].dtype).eps * np.abs(other[key]).max(initial=0)
                np.testing.assert_allclose(actual[key], other[key], rtol=1e-6, atol=max(1e-9, last_place), err_msg=key)
            else:
                assert np.array_equal(actual[key], other[key]), key
    if not (GPU and name in DRAWS):
        assert result.metrics == pytest.approx(wanted.metrics, rel=1e-6)
    assert GPU or to_host > 0


@pytest.mark.skipif(GPU, reason="a GPU refuses such a capture, which test_graphs holds")
@pytest.mark.parametrize("name", [name for name in CASES if name not in EAGER])
def test_a_step_can_be_captured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no number back and copies nothing to the device, once checks are left out as in a capture."""
    seen, step = np.zeros(3, dtype=int), descent.Step.__call__

    def counted(self: descent.Step, *inputs: Tensor) -> Tensor:
        device = Device.entered()
        before = device.synchronisations.total(), device.to_device
        losses = step(self, *inputs)
        seen[:] += 1, device.synchronisations.total() - before[0], device.to_device - before[1]
        return losses

    with Device():
        CASES[name](1, NAME)  # makes tables
    monkeypatch.setattr(descent.Step, "__call__", counted)
    for module in [module for module in sys.modules.values() if vars(module).get("read") is _checks.read]:
        monkeypatch.setattr(module, "read", lambda *values, default=0.0: [default] * len(values))
    with Device():
        CASES[name](1, NAME)
    steps, waits, copied = seen
    assert steps > 0
    assert (waits, copied) == (0, 0)


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
    row = measured("vae")
    members, images, steps = len(MEMBERS), 60, 3
    assert row["waits"] == 1
    assert row["bytes from it"] == 8 * members  # the losses, in double precision
    # The order of each member's images; the temperatures of each step; whose are which uniforms.
    assert row["bytes to the device"] == 8 * members * (images + steps + 1)
