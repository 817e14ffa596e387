"""How far a build is: what its processes say of themselves, and what a terminal or a log shows of it."""

import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sumexp.companion import CompanionError
from sumexp.companion.store import progress
from sumexp.companion.store.progress import Report


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where a driver looks, without waiting."""
    monkeypatch.setenv(progress.FOLDER, str(tmp_path))
    monkeypatch.setenv(progress.STEP, "")
    monkeypatch.setattr(progress, "EVERY", 0.0)
    return tmp_path


def said(folder: Path) -> list[tuple[str, str, int, int, str]]:
    return [(one.step, one.what, one.done, one.total, one.state) for one in progress._reports(folder)]


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Report("one", "training", 3, 10, 100.0), "one: training, 3 of 10, about 14 s left"),  # 6 s for 3, 7 to go
        (Report("one", "training", 3, 10, 104.0), "one: training, 3 of 10"),  # too early to tell
        (Report("one", "training", 0, 10, 100.0), "one: training, 0 of 10"),
        (Report("one", "starting", begun=100.0), "one: starting, 6 s"),
        (Report("one", "1:00 min", begun=100.0, state="finished"), "one: 1:00 min"),
        (Report("one", "no data", 3, 10, 100.0, "failed"), "error: no data"),
    ],
)
def test_a_report_in_words(report: Report, words: str) -> None:
    assert report.line(106.0) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(59, "59 s"), (60, "1:00 min"), (61, "1:01 min"), (3599, "59:59 min"), (3600, "1:00 h"), (9060, "2:31 h")],
)
def test_seconds_minutes_and_hours(seconds: float, words: str) -> None:
    assert Report("one", "starting", begun=0.0).line(seconds) == f"one: starting, {words}"


def test_of_a_step_its_innermost_loop_is_shown_until_it_is_over(folder: Path) -> None:
    with progress.step("one", "starting"):
        assert said(folder) == [("one", "starting", 0, 0, "running")]
        for number in progress.bar(range(3), "training"):
            assert said(folder) == [("one", "training", number, 3, "running")]
        assert said(folder) == [("one", "starting", 0, 0, "running")]
        for number in progress.bar((number for number in range(2)), "counting"):
            assert said(folder) == [("one", "counting", number, 0, "running")]  # of how many nobody knows
    [(step, what, *_, state)] = said(folder)
    assert (step, what, state) == ("one", "0 s", "finished")


def test_a_step_says_how_it_failed(folder: Path) -> None:
    with pytest.raises(CompanionError), progress.step("one", "starting"):
        raise CompanionError("no data set 'x'")
    with pytest.raises(ZeroDivisionError), progress.step("two", "starting"):
        print(1 / 0)
    errors = [(one.what, one.state) for one in progress._reports(folder)]
    assert errors == [("no data set 'x'", "failed"), ("two failed: ZeroDivisionError('division by zero')", "failed")]


def test_a_report_that_is_being_written_is_left_out(folder: Path) -> None:
    (folder / "one.json").write_text('{"step": "on')
    assert said(folder) == []


@pytest.mark.parametrize("folder", ["", "a folder of another machine"])
def test_without_a_driver_there_is_a_bar_unless_nobody_wants_it(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(progress.FOLDER, folder)
    assert list(progress.bar(range(3), "training", quiet=True)) == [0, 1, 2]
    assert capsys.readouterr().err == ""
    assert list(progress.bar(range(3), "training")) == [0, 1, 2]
    assert "training: 100%" in capsys.readouterr().err


def test_where_there_is_no_terminal_a_running_step_has_a_line_now_and_then(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks are 15 s apart, lines of a step that runs 20 s or more; how it ends is said at once."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as some CI services do: a log is no terminal for all that
    monkeypatch.setenv("COLUMNS", "10")
    now = 0.0

    def wait(seconds: float) -> bool:
        nonlocal now
        now += 15
        state = "finished" if now > 60 else "running"
        report = {"step": "one", "what": "training", "begun": 0.0, "state": state}
        (folder / "one.json").write_text(json.dumps(report))
        return now > 90

    monkeypatch.setattr(progress, "time", SimpleNamespace(time=lambda: now))
    output = io.StringIO()
    progress._show(folder, "the book", 1, int, output, SimpleNamespace(wait=wait))  # type: ignore[arg-type]
    assert output.getvalue().splitlines() == ["one: training, 15 s", "one: training, 45 s", "one: training"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_whole_and_a_line_for_each_running_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    for number, state in enumerate(("running", "failed", "running")):
        report = {"step": f"step {number}", "what": f"what {number}", "begun": 1.0, "state": state, "total": 0}
        (folder / f"{number}.json").write_text(json.dumps(report))
    looks: Iterator[bool] = iter([False, True])
    output = Terminal()
    monkeypatch.setattr(progress, "time", SimpleNamespace(time=lambda: 4.0))
    ended = SimpleNamespace(wait=lambda seconds: next(looks))
    progress._show(folder, "the book", 3, lambda: 1, output, ended)  # type: ignore[arg-type]
    shown = output.getvalue()
    for words in ("the book: 1 of 3", "  step 0: what 0, 3 s", "  step 2: what 2, 3 s"):
        assert words in shown
    assert shown.count("error: what 1") == 1
    assert shown.rpartition("the book")[2].count("\x1b[2K") == 3  # the three lines are taken off at the end


def test_a_driver_shows_what_its_block_reports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(progress.STEP, "")
    monkeypatch.delenv(progress.FOLDER, raising=False)
    with progress.shown("the book", 1, int), progress.step("one", "starting"):
        assert len(threading.enumerate()) > 1
    assert progress.FOLDER not in os.environ
    assert capsys.readouterr().err.splitlines()[-1] == "one: 0 s"
    progress.report("nobody listens")
