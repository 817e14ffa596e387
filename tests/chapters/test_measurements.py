"""Measurements that a chapter draws come with the package."""

from pathlib import Path

import pytest

from sumexp.chapters import measurements


def test_measurements_do_not_depend_on_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert measurements.load("vae")["tables"]
    with pytest.raises(FileNotFoundError, match=r"no .*other\.json: write it by `make bench`"):
        measurements.load("other")
