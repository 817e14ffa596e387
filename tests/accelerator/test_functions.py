"""Every public function of tensors gives on a device what it gives on the CPU."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.accelerator.device import GPU, NAME, Device, without_double
from tests.accelerator.functions import TABLE, TASKS, public, takes_tensors

RESULTS = Path(__file__).parents[2] / "src" / "sumexp" / "measured" / "devices.json"


def stated(table: str) -> dict[str, dict[str, Any]]:
    """The rows of a table of the book, by what each is about."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text("utf-8"))["tables"][table]
    return {next(iter(row.values())): row for row in rows}


DRAWS = {
    "bias.sample", "nn.SampledSoftmax", "samplers.distinct", "samplers.model_based", "vae.bounds.hard_bound",
    "vae.bounds.importance", "vae.bounds.relaxed_loss", "vae.gradients.quality", "models.wordmodel.draw_contexts",
}  # fmt: skip
"""What a GPU's random numbers change."""
SEARCHES = {"perturb.representation.nearest_attained": 1e-8} if GPU else {}
"""The tolerance of a search that may stop at another step where sums are taken in another order."""

FEW = 50
"""Waits of checks and of tables; what has more searches on the host, step by step."""


LIBRARY = {
    "bias", "distributions", "expectations", "functional", "nce", "negatives", "nn", "perturb", "ranking", "samplers",
}  # fmt: skip
"""Packages that others train with, whatever their defaults."""


def scores() -> Tensor:
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def tensors(result: Any) -> Iterator[Tensor]:
    """All that a result holds, in order; numbers become tensors of the CPU."""
    if isinstance(result, Tensor):
        yield result.detach()
    elif is_dataclass(result) and not isinstance(result, type):
        for field in fields(result):
            yield from tensors(getattr(result, field.name))
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from tensors(value)
    elif isinstance(result, list | tuple):
        for value in result:
            yield from tensors(value)
    elif isinstance(result, bool | int | float | np.ndarray | np.number):
        yield torch.as_tensor(result, device="cpu")
    elif hasattr(result, "__slots__") or hasattr(result, "__dict__"):
        for name, value in sorted(vars(result).items()):
            if not callable(value) and not name.startswith("_"):
                yield from tensors(value)


def how_many(waits: int) -> str:
    """In words, so that one more check of an argument is no news."""
    return "none" if waits == 0 else "few" if waits <= FEW else "many"


def on_device(name: str) -> tuple[list[Tensor], dict[str, Any]]:
    """What it gives there, brought home, and how often the host waits for it once its tables are there."""
    with Device():
        z = scores().to(NAME)
    results, row = called(name, z)
    # A first call may wait for tables, but not one that waits for nothing, or that is known to search on the host.
    searches = row["waits"] == "many" == stated("functions").get(name, row)["waits"]
    if row["waits"] != "none" and not searches:
        results, row = called(name, z)
    return results, row if GPU else row | {"no float64": in_single(name)}


def in_single(name: str) -> str:
    """Whether a device without float64 finds to four digits what the CPU finds of scores in single precision."""
    try:
        with without_double():
            parts = [tensor.cpu() for tensor in tensors(TABLE[name](scores().float().to(NAME)))]
    except TypeError:
        return "no"
    wanted = list(tensors(TABLE[name](scores().float())))
    close = all(torch.allclose(*map(torch.Tensor.double, pair), 1e-4, 1e-5) for pair in zip(parts, wanted, strict=True))
    return "yes" if close or name in DRAWS else "no: another value"


def called(name: str, z: Tensor) -> tuple[list[Tensor], dict[str, Any]]:
    with Device() as device:
        results = list(tensors(TABLE[name](z)))
        waits = device.synchronisations.total()
        arrays = [tensor for tensor in results if tensor.dim() > 0]
        stays = all(tensor.device.type == NAME for tensor in arrays)
        row = {"function": name, "its arrays": "there" if stays else "on the CPU", "waits": how_many(waits)}
        return [tensor.cpu() for tensor in results], row


def test_the_table_has_every_public_function_of_tensors() -> None:
    names: dict[Any, set[str]] = {}
    for name, entry in public():
        names.setdefault(entry, set()).add(name) if isfunction(entry) else None
    missing = [sorted(of)[0] for call, of in names.items() if takes_tensors(call) and not of & (TABLE.keys() | TASKS)]
    assert missing == []
    assert TABLE.keys() <= {name for name, _ in public()}


@pytest.mark.parametrize("name", TABLE)
def test_a_function_gives_what_it_gives_on_the_cpu(name: str) -> None:
    wanted = list(tensors(TABLE[name](scores())))
    results, measured = on_device(name)
    assert len(results) == len(wanted) > 0
    for actual, expected in zip(results, wanted, strict=True):
        if GPU and name in DRAWS:  # other random numbers: their law is held in the tests of each module
            assert actual.dtype == expected.dtype
            assert actual.dim() == expected.dim()
        else:
            rtol = SEARCHES.get(name, 1e-12)
            torch.testing.assert_close(actual, expected, rtol=rtol, atol=0.1 * rtol, equal_nan=False)
    assert GPU or stated("functions").get(name) == measured, (
        f"the book's table says otherwise: python -m tests.accelerator {name}"
    )


@contextmanager
def default(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(torch.float32)


def forget() -> None:
    """Empty what modules keep between calls, so that it is made again."""
    modules = [module for name, module in sys.modules.items() if name.startswith("sumexp.")]
    for kept in [value for module in modules for value in vars(module).values()]:
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


@pytest.mark.parametrize("name", [name for name in TABLE if name.partition(".")[0] in LIBRARY])
def test_neither_a_default_nor_a_mode_without_gradients_changes_a_result(name: str) -> None:
    """A default device is where no argument lies, as of models that are made without memory."""
    results = []
    defaults = (lambda: torch.device("meta"), lambda: default(torch.float16), lambda: default(torch.float64))
    elsewhere = () if GPU else (lambda: torch.device(NAME),)  # whose draws would be others on a GPU
    for mode in (nullcontext, torch.no_grad, torch.inference_mode, *defaults, *elsewhere):
        z = scores()
        if mode is defaults[0]:
            forget()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            with mode():
                result = TABLE[name](z)
        results.append(list(tensors(result)))
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in TABLE if name.partition(".")[0] in LIBRARY])
def test_what_is_kept_from_inference_serves_training(name: str) -> None:
    """As where a model is validated before its first step, which Lightning does in inference mode."""
    forget()
    with torch.inference_mode():
        TABLE[name](scores())
    losses = [part.sum() for part in tensors(TABLE[name](scores().requires_grad_())) if part.requires_grad]
    if losses:
        torch.stack([loss.double() for loss in losses]).sum().backward()
