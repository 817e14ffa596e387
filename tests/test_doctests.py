"""The examples in docstrings: each public function has one, and all are true."""

import doctest
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path

import pytest
import torch

from sumexp import functional, nn, ranking, samplers

PACKAGES = {"functional": functional, "nn": nn, "samplers": samplers, "ranking": ranking}
NAMES = PACKAGES | {"torch": torch}
RESULTS = {"functional.Margins", "samplers.Distinct", "samplers.Negatives", "samplers.Sampler", "ranking.Ranks"}
"""Types of arguments and of results, which nobody makes by hand."""


EXAMPLES = {
    f"{package}.{name}": member.__doc__ or ""
    for package, module in PACKAGES.items()
    for name in module.__all__
    if isclass(member := getattr(module, name)) or isfunction(member)
}
SOURCE = Path(functional.__path__[0]).parents[1]
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): examples
    for path in sorted((SOURCE / "sumexp").rglob("*.py"))
    if (examples := path.read_text("utf-8").count(">>> "))
}


@pytest.mark.parametrize("name", MODULES)
def test_all_examples_of_a_module(name: str) -> None:
    torch.manual_seed(0)
    tested = doctest.testmod(import_module(name), extraglobs=NAMES, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (tested.failed, tested.attempted) == (0, MODULES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_public_name_has_an_example(name: str) -> None:
    assert ">>> " in EXAMPLES[name] or name in RESULTS
