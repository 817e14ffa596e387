"""How the command line ends."""

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from claimbook import cli


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


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        shutil.Error([("a", "b", "[Errno 28] No space left on device")]),
        PermissionError(errno.EACCES, "Permission denied"),
        NotADirectoryError(errno.ENOTDIR, "Not a directory"),
    ],
)
def test_what_the_disk_refuses_is_one_line_that_says_what_to_do(
    error: OSError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def app() -> None:
        raise error

    monkeypatch.setattr("claimbook.cli.commands.app", app)
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["claimbook", "book"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: [")
    assert line.endswith(f"; free space (claimbook clean), or name another store than {tmp_path} by SUMEXP_STORE")
