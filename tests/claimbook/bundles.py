"""The book's runs in another folder."""

from functools import cache
from pathlib import Path

import pytest

from claimbook.store import bundled

CACHED = ("record", "_arrays", "_known", "code")


def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the book's runs lie there, until the test has ended."""
    monkeypatch.setattr(bundled, "FOLDER", folder)
    for name in CACHED:
        monkeypatch.setattr(bundled, name, cache(getattr(bundled, name).__wrapped__))


def forget() -> None:
    """Read the files again."""
    for name in CACHED:
        getattr(bundled, name).cache_clear()
