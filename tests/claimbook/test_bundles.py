"""The book's runs are there again after a test that has put others in their place."""

from pathlib import Path

import pytest

from claimbook.store import bundled
from tests.claimbook import bundles


def test_after_another_folder_the_book_has_its_runs_again(tmp_path: Path) -> None:
    before = bundled.sources("vae")
    with pytest.MonkeyPatch.context() as patch:
        bundles.in_folder(tmp_path, patch)
        assert bundled.sources("vae") == []
    assert bundled.sources("vae") == before != []
