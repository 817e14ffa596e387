"""The dates by which Sphinx sees what has changed."""

import os
import time
from pathlib import Path

from sumexp.companion.pipeline import pages


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
