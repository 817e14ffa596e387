"""The examples in the docstrings of all public functions: there, and true."""

import doctest
from collections.abc import Iterator
from inspect import isclass, isfunction
from types import ModuleType
from typing import Any

import pytest
import torch

from sumexp import functional, nn, ranking, samplers
from sumexp.nce import pairs
from sumexp.negatives import enumerated, hard, published, tilted

PACKAGES = {"functional": functional, "nn": nn, "samplers": samplers, "ranking": ranking}
NAMES = PACKAGES | {"torch": torch}
RESULTS = {"functional.Margins", "samplers.Distinct", "samplers.Negatives", "samplers.Sampler", "ranking.Ranks"}
"""Types of arguments and of results, which nobody makes by hand."""


def public() -> Iterator[tuple[str, Any]]:
    for package, module in PACKAGES.items():
        yield package, module
        for name in module.__all__:
            if isclass(thing := getattr(module, name)) or isfunction(thing):
                yield f"{package}.{name}", thing


EXAMPLES = dict(public())


@pytest.mark.parametrize("module", [pairs, enumerated, hard, published, tilted], ids=lambda module: module.__name__)
def test_examples_of_the_theory(module: ModuleType) -> None:
    tested = doctest.testmod(module)
    assert tested.attempted
    assert not tested.failed


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_they_say(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name].__doc__ or "", dict(NAMES), name, None, 0)
    assert example.examples or name in RESULTS or name in PACKAGES, f"{name} has no example"
    torch.manual_seed(0)
    failed = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed
    assert not failed, capsys.readouterr().out
