"""The dates by which Sphinx sees what has changed."""

import os
import time
from pathlib import Path
from typing import Any, cast

import pytest

from claimbook.pipeline import pages
from claimbook.store import Computation, Store
from claimbook.store.provenance import Meter


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


def test_a_rendering_is_kept_where_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are younger by their dates."""
    store = Store(tmp_path)

    def rendering(number: int) -> Computation:
        return Computation("pages", "book", {"number": str(number)})

    for number in range(pages.KEPT):
        with store.writing(rendering(number)) as (_, seal):
            seal(Meter().read())
        os.utime(store.path(rendering(number)), (2e9 + number, 2e9 + number))
    monkeypatch.setattr(pages, "default", lambda: store)
    for name in ("chapters", "evidence"):
        monkeypatch.setattr(pages, name, lambda _: {})
    monkeypatch.setattr(pages, "computation", lambda *_: rendering(99))
    monkeypatch.setattr(pages, "_render", lambda *_: None)
    pages.make(cast(Any, None), 1)
    kept = {entry.computation.parts["number"] for entry in store.entries("pages")}
    assert kept == {*map(str, range(1, pages.KEPT)), "99"}  # the oldest of the others went
