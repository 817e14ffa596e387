"""The renderings that the store keeps."""

from pathlib import Path
from typing import Any, cast

import pytest

from claimbook.pipeline import pages
from claimbook.store import Computation, Store


def test_the_last_renderings_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    renderings = [Computation("pages", "book", {"number": str(number)}) for number in range(pages.KEPT + 1)]
    monkeypatch.setattr(pages, "default", lambda: store)
    monkeypatch.setattr(pages, "_render", lambda *_: None)
    for rendering in renderings:
        monkeypatch.setattr(pages, "computation", lambda _, rendering=rendering: rendering)
        pages.make(cast(Any, None), 1)
    assert {entry.computation.key for entry in store.entries("pages")} == {wanted.key for wanted in renderings[1:]}
