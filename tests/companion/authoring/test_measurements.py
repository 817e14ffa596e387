"""Measurements that a chapter draws are found from the folder that it runs in."""

from pathlib import Path

import pytest

from sumexp.companion import CompanionError
from sumexp.companion.authoring import measurements


def test_measurements_are_those_of_the_checkout_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / measurements.FOLDER).mkdir(parents=True)
    (tmp_path / measurements.FOLDER / "tries.json").write_text('{"seconds": 1.5}')
    for folder in (tmp_path, tmp_path / "notebooks"):
        monkeypatch.chdir(folder)
        assert measurements.load("tries") == {"seconds": 1.5}
    with pytest.raises(CompanionError, match=r"no benchmarks/results/other\.json here or above"):
        measurements.load("other")
