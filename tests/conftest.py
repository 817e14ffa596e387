"""Every test may say which claim of the register it decides; wrong markers are errors when tests are collected."""

import sys

import pytest
from hypothesis import settings

pytest_plugins = ["sumexp.companion.register.evidence", "sumexp.companion.build.keeper"]

settings.register_profile("patient", deadline=None)  # no test asserts speed: one that waits for a slow machine is right
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _arguments_of_distributions_are_checked() -> None:
    """Compiling anything turns this off for the whole process (torch 2.13, `torch._dynamo.eval_frame`)."""
    if distributions := sys.modules.get("torch.distributions"):
        distributions.Distribution.set_default_validate_args(True)
