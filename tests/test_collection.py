"""What stands in the folder of tests is run."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_no_folder_of_tests_is_passed_over(pytestconfig: pytest.Config) -> None:
    passed_over = pytestconfig.getini("norecursedirs")
    folders = {folder for file in HERE.rglob("test_*.py") for folder in file.relative_to(HERE).parts[:-1]}
    assert "build" in folders
    assert [name for name in sorted(folders) if any(fnmatch(name, pattern) for pattern in passed_over)] == []
