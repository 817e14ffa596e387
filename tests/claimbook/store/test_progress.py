"""How far a build is: what its processes say of themselves, and what the driver prints of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimbook.store import progress


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of a driver, to which each report is written."""
    file = tmp_path / "lines"
    file.touch()
    monkeypatch.setenv(progress.FILE, str(file))
    monkeypatch.setenv(progress.STEP, "")
    monkeypatch.setattr(progress, "EVERY", -1.0)
    return file


def test_a_step_reports_its_loops_and_its_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times: Iterator[float] = iter(range(100, 1000, 3))
    monkeypatch.setattr(progress.time, "time", lambda: next(times))
    with progress.step("one"):
        assert list(progress.bar(range(2), "training")) == [0, 1]
        assert list(progress.bar((n for n in range(1)), "counting")) == [0]
    assert file.read_text().splitlines() == [
        "one: starting",
        "one: training, 0 of 2",
        "one: training, 1 of 2, about 9 s left",  # 9 s for one, one to go
        "one: counting, 0",
        "one: 30 s",
    ]


def test_a_process_reports_now_and_then(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 20.0)
    with progress.step("one"):
        list(progress.bar(range(1000), "training"))
    assert file.read_text().splitlines() == ["one: starting", "one: 0 s"]


@pytest.mark.parametrize("file", ["", "a file of another machine"])
def test_without_a_driver_there_is_a_bar_unless_it_is_not_wanted(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(progress.FILE, file)
    assert list(progress.bar(range(3), "training", quiet=True)) == [0, 1, 2]
    assert capsys.readouterr().err == ""
    assert list(progress.bar(range(3), "training")) == [0, 1, 2]
    assert "training: 100%" in capsys.readouterr().err


def test_a_driver_prints_what_its_processes_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(progress.FILE, raising=False)
    lines = "from claimbook.store import progress\nwith progress.step('one'): pass"
    with progress.shown():
        subprocess.run([sys.executable, "-c", lines], env=os.environ, check=True)
    assert progress.FILE not in os.environ
    assert capsys.readouterr().err.splitlines() == ["one: starting", "one: 0 s"]
