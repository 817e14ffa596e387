"""`claimbook clean` asks before it removes, unless it is told not to."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from claimbook.cli.commands import app
from claimbook.pipeline import why


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """A store with one entry that nothing needs; what is removed of it."""
    entry = tmp_path / "run" / "task" / "0123456789abcdef"
    entry.mkdir(parents=True)
    (entry / "arrays.npz").write_bytes(b"1234")
    gone: list[Path] = []

    def remove(paths: object) -> tuple[int, int]:
        gone.extend(paths)  # type: ignore[arg-type]
        return len(gone), 4

    monkeypatch.setattr(why, "leftovers", lambda: [(entry, "no longer asked for")])
    monkeypatch.setattr(why, "remove", remove)
    return gone


@pytest.mark.parametrize(
    "options, answer, count, code",
    [(["--yes"], "", 1, 0), ([], "y\n", 1, 0), ([], "n\n", 0, 1), ([], "", 0, 1), (["--dry-run"], "y\n", 0, 0)],
)
def test_clean_asks_first(removed: list[Path], options: list[str], answer: str, count: int, code: int) -> None:
    done = CliRunner().invoke(app, ["clean", *options], input=answer)
    assert (len(removed), done.exit_code) == (count, code)
    assert "no longer asked for" in done.output
    assert ("Remove these 1?" in done.output) is (not options)
    assert ("removed 1 of 1" in done.output) is bool(count)
    assert "being computed" not in done.output


def test_what_is_being_computed_stays_and_is_said(removed: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "remove", lambda paths: (len(list(paths)) - 1, 0))
    done = CliRunner().invoke(app, ["clean", "--yes"])
    assert "removed 0 of 1, 0.0 kB; the others are being computed" in done.output
