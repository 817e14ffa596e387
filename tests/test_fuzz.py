"""Hostile arguments of each public function: numbers come of them, or one clear error."""

import warnings
from inspect import isfunction, signature

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from sumexp import bias, expectations, perturb, ranking
from tests import fuzz

FEW = settings(max_examples=4, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
"""Of each function; ``python -m benchmarks fuzz`` tries hundreds."""


def test_the_table_has_every_function_that_a_package_names() -> None:
    """Those of tensors are in that of devices already, as a test of it says."""
    called = {getattr(*fuzz.home(name)) for name in fuzz.TABLE}
    named = [getattr(package, name) for package in (bias, expectations, perturb, ranking) for name in package.__all__]
    assert {function for function in named if isfunction(function) and signature(function).parameters} <= called


@pytest.mark.parametrize("name", fuzz.TABLE)
def test_numbers_or_one_error(name: str) -> None:
    @FEW
    @given(replaced=fuzz.hostile(name))
    def tried(replaced: dict[str | int, object]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = fuzz.outcome(name, replaced)
        assert outcome in fuzz.FINE, f"{outcome} of {name} with {replaced}"

    tried()
