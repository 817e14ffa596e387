"""The commands, and how the command line ends."""

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from claimbook import BookError, cli, register
from claimbook.cli.commands import app, register_command
from claimbook.pipeline import notebooks
from claimbook.store import Computation, Store, processes
from tests.claimbook.store.conftest import keep

ROOT = Path(__file__).parents[2]


def test_an_error_of_ours_keeps_its_traceback() -> None:
    code = "import claimbook.cli.commands as c\ndef app(): raise ZeroDivisionError\nc.app = app\n"
    code += "from claimbook.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_an_error_of_input_is_one_line() -> None:
    command = [sys.executable, "-m", "claimbook.cli", "register", "--chapter", "baias"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "baias" in line


NUMBERS = errno.ENOSPC, errno.EACCES, errno.ENOTDIR, errno.EFBIG, errno.EPERM, errno.ELOOP, errno.ENOLCK
IN_WORDS = shutil.Error([("a", "b", "[Errno 28] No space left on device")])


@pytest.mark.parametrize("error", [IN_WORDS, *(OSError(number, os.strerror(number)) for number in NUMBERS)])
def test_what_the_disk_refuses_is_one_line_that_says_what_to_do(
    error: OSError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refused() -> None:
        raise error

    monkeypatch.setattr("claimbook.cli.commands.app", refused)
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["claimbook", "book"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: [")
    assert f"; free space (claimbook clean), or set SUMEXP_STORE ({tmp_path}) or TMPDIR to another folder" in line


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
    monkeypatch.setattr(notebooks, "parameters", lambda name, given: dict(pair.split("=") for pair in given))
    where = ["--output", str(output)] if output else []
    done = CliRunner().invoke(app, ["notebook", "run", "one", "-p", "seed=7", *where])
    target = output or Path("build/run/one.ipynb")
    assert done.exit_code == 0, done.output
    assert f"executed in 12.3 s: {target}" in done.output
    assert target.read_text() == "executed"
    assert asked == [("one", {"seed": "7"}, Path("build/logs/run-one.log"), str(os.getpid()))]


@pytest.mark.parametrize("output, message", [("folder", "is a directory"), ("file/one.ipynb", "--output is file/one")])
def test_a_place_that_cannot_be_written_is_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    monkeypatch.setattr(notebooks, "parameters", lambda name, given: {})
    done = CliRunner().invoke(app, ["notebook", "run", "one", "--output", output])
    assert message in done.output + str(done.exception)


@pytest.mark.parametrize("arguments", [("pdf",), ("book",), ("why",), ("register",), ("notebook", "run", "bias")])
def test_a_command_outside_the_project_says_so(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, BookError)
    assert re.match(r"no _toc.yml here|claims: no claims/|no notebook 'bias' in .*project's root", str(error))


@pytest.mark.parametrize("runs", ["0", "-3"])
def test_a_check_of_no_runs_is_refused(runs: str) -> None:
    done = CliRunner().invoke(app, ["runs", "check", "--grid", "vae", "--runs", runs])
    assert (done.exit_code, "greater than or equal to 1" in done.output) == (2, True)


def test_each_claim_of_a_chapter_has_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("claims", "tests"):  # and no evidence: what tests would decide is open
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    register_command(chapter="fits")
    claims = [claim for claim in register.load(ROOT / "claims").values() if claim.chapter == "fits"]
    names = [claim.id for claim in claims]
    lines = capsys.readouterr().out.splitlines()
    assert [first for first, *_ in map(str.split, filter(str.strip, lines)) if first in names] == names
    conventions = sum(claim.is_convention for claim in claims)
    unjudged = sum(bool(claim.unjudged or claim.lost) for claim in claims)
    left = len(claims) - conventions - unjudged
    assert lines[-1] == f"{len(claims)} claims: {conventions} convention, {left} open, {unjudged} not judged"


def test_clean_leaves_training_runs_and_what_is_being_computed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path))
    store = Store(tmp_path)
    for kind in ("notebook", "evidence", "run", "grid", "pages"):
        keep(store, Computation(kind, "some", {}))
    with store.locked(Computation("pages", "book", {})), store.locked(Computation("notebook", "some", {})):
        done = CliRunner().invoke(app, ["clean"])
    assert done.output == f"removed 2 of 3 entries, 0.0 MB; training runs stay: {tmp_path / 'run'}\n"
    assert [path.parts[-3] for path in store.paths()] == ["grid", "notebook", "run"]
