"""`claimbook clean` removes what a build makes again in minutes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from claimbook.cli.commands import app
from claimbook.store import Computation, Store
from tests.claimbook.store.conftest import keep


def test_clean_leaves_training_runs_and_what_is_being_computed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path))
    store = Store(tmp_path)
    for kind in ("notebook", "evidence", "run", "grid", "pages"):
        keep(store, Computation(kind, "some", {}))
    with store.locked(Computation("pages", "book", {})), store.locked(Computation("notebook", "some", {})):
        done = CliRunner().invoke(app, ["clean"])
    assert done.output == f"removed 2 of 3 entries, 0.0 MB; training runs stay: {tmp_path / 'run'}\n"
    assert [path.parts[-3] for path in store.paths()] == ["grid", "notebook", "run"]
