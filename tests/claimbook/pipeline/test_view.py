"""Folders of ``build/`` are replaced whole, and what was there leaves nothing behind."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from claimbook.pipeline import view


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    place, left = tmp_path / "html", tmp_path / ".html.old"
    left.mkdir()  # of a process that was killed
    (left / "index.html").write_text("0")
    new = tmp_path / "new"
    new.mkdir()
    for text in ("1", "2"):
        (new / "index.html").write_text(text)
        view._put(new, place)
        assert (place / "index.html").read_text() == text
        assert sorted(tmp_path.iterdir()) == [place, new]


def test_the_view_has_the_pages_and_tables_that_were_rendered_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("1", "2"):
        entry = tmp_path / "store" / text
        (entry / "html").mkdir(parents=True)
        files = [entry / name for name in ("html/index.html", "register.json", "executions.json")]
        for file in files:
            file.write_text(text)
        view.show({}, SimpleNamespace(path=entry))  # type: ignore[arg-type]
        shown = [view.HTML / "index.html", *(view.BUILD / file.name for file in files[1:])]
        assert [file.read_text() for file in shown] == [text] * 3
