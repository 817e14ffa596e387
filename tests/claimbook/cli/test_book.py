"""`claimbook notebook run`: one notebook, executed beside the book."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from claimbook.cli.commands import app
from claimbook.pipeline import notebooks
from claimbook.store import processes


@pytest.mark.parametrize("output", [None, Path("mine/one.ipynb")])
def test_a_notebook_is_run_by_a_driver_whose_end_it_would_notice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: Path | None
) -> None:
    asked = []

    def run(name: str, values: object, folder: Path, log: Path) -> SimpleNamespace:
        asked.append((name, values, log, os.environ[processes.DRIVEN]))
        (folder / notebooks.EXECUTED).write_text("executed")
        return SimpleNamespace(seconds=12.34)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(processes.DRIVEN, "")
    monkeypatch.setattr(notebooks, "run", run)
    monkeypatch.setattr(notebooks, "parameters", lambda name, given: dict(one.split("=") for one in given))
    done = CliRunner().invoke(
        app, ["notebook", "run", "one", "-p", "seed=7", *(["--output", str(output)] if output else [])]
    )
    target = output or Path("build/run/one.ipynb")
    assert done.exit_code == 0, done.output
    assert f"executed in 12.3 s: {target}" in done.output
    assert target.read_text() == "executed"
    assert asked == [("one", {"seed": "7"}, Path("build/logs/run-one.log"), "1")]
