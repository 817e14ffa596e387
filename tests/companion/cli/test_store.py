"""`sumexp clean` asks before it removes, unless it is told not to; `sumexp store push` says what it has copied."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from sumexp.companion import CompanionError
from sumexp.companion.cli.commands import app
from sumexp.companion.pipeline import plan, why
from sumexp.companion.store import Computation
from sumexp.companion.store.remote import Remote


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


def test_outcomes_of_tests_are_pushed_anew_and_a_remote_must_be_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, outcomes = (
        SimpleNamespace(size=size, computation=Computation(kind, "some.name", {}))
        for kind, size in (("run", 1000), ("evidence", 5000))
    )
    monkeypatch.setattr(plan, "make", lambda *_, **__: None)
    monkeypatch.setattr(why, "needed", lambda _: [run, outcomes])
    monkeypatch.setattr(Remote, "push", lambda remote, entry, *, anew: anew)
    monkeypatch.delenv("SUMEXP_REMOTE", raising=False)
    refused = CliRunner().invoke(app, ["store", "push"])
    assert isinstance(refused.exception, CompanionError)
    assert "SUMEXP_REMOTE is not set" in str(refused.exception)
    monkeypatch.setenv("SUMEXP_REMOTE", str(tmp_path))
    done = CliRunner().invoke(app, ["store", "push"])
    assert done.output == f"pushed 1 of 2 entries, 5.0 kB, to {tmp_path}; the others are there already\n"


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
