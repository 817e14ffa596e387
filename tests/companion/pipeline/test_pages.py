"""Pages that are shown before all is finished, and the dates by which Sphinx sees what has changed."""

import os
import time
from pathlib import Path

import pytest

from sumexp.companion.pipeline import pages
from sumexp.companion.pipeline.plan import Plan


def test_first_pages_are_shown_only_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = iter(("first", "second"))

    def render(_plan: object, _shown: object, _decided: object, folder: Path, _jobs: int) -> None:
        (folder / "html").mkdir()
        (folder / "html" / "index.html").write_text(next(texts))

    monkeypatch.chdir(tmp_path)
    pages.BUILD.mkdir()
    for part in ("chapters", "evidence"):
        monkeypatch.setattr(pages, part, lambda plan: {})
    monkeypatch.setattr(pages, "_render", render)
    plan = Plan.__new__(Plan)
    for _ in range(2):
        pages.preview(plan)
        assert (pages.HTML / "index.html").read_text() == "first"
        assert list(pages.BUILD.iterdir()) == [pages.HTML]
    assert not list(texts)


def test_what_is_staged_as_before_keeps_its_date(tmp_path: Path) -> None:
    before, stage = tmp_path / "before", tmp_path / "stage"
    for folder, texts in ((before, {"same": "a", "changed": "b"}), (stage, {"same": "a", "changed": "c", "new": "d"})):
        (folder / "book").mkdir(parents=True)
        for name, text in texts.items():
            (folder / "book" / name).write_text(text)
            os.utime(folder / "book" / name, (1000, 1000) if folder == before else (500, 500))
    started = time.time() - 1
    pages._date(stage, before)
    dates = {file.name: file.stat().st_mtime for file in (stage / "book").iterdir()}
    assert dates.pop("same") == 1000
    assert min(dates.values()) > started
