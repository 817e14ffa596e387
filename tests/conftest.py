"""Every test may say which claim of the register it decides; wrong markers are errors when tests are collected."""

import re
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["sumexp.companion.register.evidence"]

# No test asserts speed: one that waits for a slow machine is right, and its claim holds there too.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run, or a verdict of the book would be a matter of luck; to look further:
# pytest --hypothesis-profile=random
settings.register_profile("deterministic", settings.get_profile("random"), derandomize=True)
settings.load_profile("deterministic")


TOGETHER = re.compile(
    r"tests/book/test_pages\.py::\w+::\w+\[(.+)\]"
    r"|tests/book/test_interactive\.py::test_(?:a_key|it_fits|on_paper)\w+\[(.+?)(?:-desktop|-phone)?\]$"
    r"|tests/(companion/)(?:pipeline/|grids/test_filling)"
    r"|tests/(companion/authoring/(?:interactive_figures/|test_(?:resume|runs))|companion/register/test_page|book/test_(?:links|pdf)"
    r"|accelerator/test_tasks|fits/test_paper|modules/test_gather|samplers/test_distinct)"
)
"""What one worker does: all tests of a page or figure, opened once, and those that share what is slow to make."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker what belongs together; marks ``xdist_group`` do nothing (pytest 9.2 with pytest-xdist 3.8)."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            found = TOGETHER.match(nodeid)
            return next(filter(None, found.groups())) if found else nodeid

    return Scheduler(config, log)


@pytest.fixture(autouse=True)
def _arguments_of_distributions_are_checked() -> None:
    """Compiling anything turns this off for the whole process (torch 2.13, `torch._dynamo.eval_frame`)."""
    if distributions := sys.modules.get("torch.distributions"):
        distributions.Distribution.set_default_validate_args(True)
