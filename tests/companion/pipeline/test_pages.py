"""Pages that are shown before all is finished."""

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
