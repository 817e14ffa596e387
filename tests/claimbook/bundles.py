"""The book's runs in another folder."""

from pathlib import Path

import pytest

from claimbook.store import bundled


def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the book's runs lie there."""
    monkeypatch.setattr(bundled, "FOLDER", folder)
    forget()


def forget() -> None:
    """Read the files again."""
    for function in (bundled.record, bundled._arrays, bundled._known, bundled.code):
        function.cache_clear()
