"""A text file is put in place whole, or not at all; folders of runs that were killed do not stay."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from claimbook.store.files import YOUNG, scratch, write_text


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    file = tmp_path / "a folder" / "a.txt"
    for text in ("eins\n", "zwei: ö\n"):
        write_text(file, text)
        assert file.read_bytes() == text.encode()
        assert list(file.parent.iterdir()) == [file]


def test_a_text_that_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_text(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "new \ud800")  # half a pair of surrogates
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def _aged(folder: Path) -> Path:
    os.utime(folder, (folder.stat().st_mtime - 2 * YOUNG,) * 2)
    return folder


def test_a_scratch_folder_goes_with_its_block_or_with_the_next_one_if_it_was_killed(tmp_path: Path) -> None:
    hold = (
        "import os, signal, sys; from pathlib import Path; from claimbook.store.files import scratch\n"
        "with scratch('run-', Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", hold, str(tmp_path)], check=False).returncode == -9
    (killed,) = tmp_path.iterdir()
    with scratch("run-", tmp_path):
        assert killed.is_dir()  # it is young: its process may not hold it yet
    _aged(killed)
    others = [tmp_path / name for name in ("ran-12345678", "run-longer-12345678")]
    for other in others:
        other.mkdir()
        _aged(other)
    (tmp_path / "run-link5678").symlink_to(others[0])
    with scratch("run-", tmp_path) as outer:
        _aged(Path(outer))
        with scratch("run-", tmp_path) as inner:
            assert Path(outer).is_dir()  # old, and held
            assert Path(inner).is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ran-12345678", "run-link5678", "run-longer-12345678"]
