"""`claimbook clean` asks before it removes, unless it is told not to."""

from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from claimbook.cli.commands import app
from claimbook.pipeline import why


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A store with one entry that nothing needs."""
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path))
    entry = tmp_path / "run" / "task" / "0123456789abcdef"
    entry.mkdir(parents=True)
    (entry / "arrays.npz").write_bytes(b"1234")
    monkeypatch.setattr(why, "leftovers", lambda: [entry])
    return entry


@pytest.mark.parametrize(
    "options, answer, gone, code",
    [(["--yes"], "", 1, 0), ([], "y\n", 1, 0), ([], "n\n", 0, 1), ([], "", 0, 1)],
)
def test_clean_asks_first(left: Path, options: list[str], answer: str, gone: int, code: int) -> None:
    done = CliRunner().invoke(app, ["clean", *options], input=answer)
    assert (left.exists(), done.exit_code) == (not gone, code)
    assert left.name[:12] in done.output
    assert ("Remove these 1?" in done.output) is (not options)
    assert done.output.endswith("removed 1 of 1, 0.0 MB\n") is bool(gone)


def test_what_is_being_computed_stays_and_is_said(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileLock(left.parents[2] / "locks" / f"{left.name}.lock"):
        done = CliRunner().invoke(app, ["clean", "--yes"])
    assert "removed 0 of 1, 0.0 MB; the others are being computed" in done.output
    assert left.exists()
