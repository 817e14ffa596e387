"""Every test may say which claim of the register it decides; wrong markers are errors when tests are collected."""

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["claimbook.register.evidence", "tests.executed"]

# No test asserts speed: one that waits for a slow machine is right, and its claim holds there too.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run, or a verdict of the book would be a matter of luck; to look further:
# pytest --hypothesis-profile=random
settings.register_profile("deterministic", settings.get_profile("random"), derandomize=True)
settings.load_profile("deterministic")


def pytest_collection_finish() -> None:
    """Ten thousand tests and torch stay: the collector would look through all of it again and again."""
    gc.freeze()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Such small tensors give two threads nothing to do but wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _arguments_of_distributions_are_checked() -> None:
    """Compiling anything turns this off for the whole process (torch 2.13, `torch._dynamo.eval_frame`)."""
    if distributions := sys.modules.get("torch.distributions"):
        distributions.Distribution.set_default_validate_args(True)
