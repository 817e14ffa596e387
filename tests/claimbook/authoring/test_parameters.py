"""A notebook checks its own parameters, however it is run."""

from typing import Any

import pytest

from claimbook import BookError
from claimbook.authoring import parameters
from claimbook.store import settings


@pytest.mark.parametrize("has_gpu", [True, False])
def test_auto_is_the_gpu_if_torch_can_use_it(monkeypatch: pytest.MonkeyPatch, has_gpu: bool) -> None:
    monkeypatch.setattr(settings, "cuda_available", lambda: has_gpu)
    assert parameters.check("smoke", "auto") == ("cuda" if has_gpu else "cpu")
    assert parameters.check("smoke") == parameters.check("paper", "cpu") == "cpu"
    assert parameters.check("cpu", "meta") == "meta"  # another device of torch


@pytest.mark.parametrize(
    "profile, device, seed, message",
    [
        ("nonsense", "cpu", 0, "profile is 'nonsense'; expected one of smoke, cpu, paper"),
        ("cpu", "cuda", 0, "torch finds no CUDA device"),
        ("cpu", "gpu0", 0, "device is 'gpu0'; expected auto, cpu, cuda or a device of torch"),
        *(("cpu", "cpu", seed, f"seed is {seed!r}; it must be a whole number") for seed in (-1, 0.5, "1", True, 2**32)),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, profile: str, device: str, seed: Any, message: str
) -> None:
    monkeypatch.setattr(settings, "cuda_available", lambda: False)
    with pytest.raises(BookError, match=message):
        parameters.check(profile, device, seed)
