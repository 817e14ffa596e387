"""How far a loop is: a bar on a terminal, else a line now and then."""

import time
from typing import Any

import pytest

from claimbook.store import progress


@pytest.mark.parametrize("every, lines", [(20.0, 0), (0.02, 2)])
def test_without_a_terminal_a_line_is_printed_now_and_then(
    every: float, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", every)
    for number in progress.bar(range(5), "training"):
        time.sleep(0.02 * (number > 0))
    printed = capsys.readouterr().err.replace("\r", "\n").split("\n")
    assert min(sum("training:" in line for line in printed), 2) == lines


def test_a_terminal_has_a_bar(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert list(progress.bar(range(3), "training")) == [0, 1, 2]
    assert "training: 100%" in capsys.readouterr().err


@pytest.mark.parametrize("seconds, text", [(59.4, "59 s"), (185, "3:05 min"), (9060, "2:31 h")])
def test_times_are_printed_in_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert progress.as_time(seconds) == text
