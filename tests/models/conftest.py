"""What tests of models share."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _of_models(one_thread: None) -> None:
    """One thread for each test of a model."""
