"""A step of the build as a process: where what it prints goes, and how it ends."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from sumexp.companion import CompanionError
from sumexp.companion.pipeline import pages, plan, steps
from sumexp.companion.store import processes, progress


def test_what_is_printed_meanwhile_goes_to_the_log_and_afterwards_where_it_went(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with steps._to(log):
        os.write(1, b"one ")
        os.write(2, b"two")
    os.write(1, b"out")
    os.write(2, b"err")
    assert log.read_text() == "one two"
    assert tuple(capfd.readouterr()) == ("out", "err")


def test_the_step_that_is_asked_for_is_run_and_ends_with_one_where_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def make(_: object, jobs: int) -> None:
        asked.append(jobs)
        raise CompanionError("no pages")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(progress.STEP, "")
    monkeypatch.setattr(processes, "bind", lambda: None)
    monkeypatch.setattr(plan, "read", lambda path: SimpleNamespace(project=path.parent))
    monkeypatch.setattr(pages, "make", make)
    with pytest.raises(SystemExit) as ended:
        steps.main(str(tmp_path / "plan.json"), "pages", "7")
    assert (ended.value.code, asked) == (1, [7])
