"""The renderings that the store keeps."""

from pathlib import Path
from typing import Any, cast

import pytest

from claimbook.pipeline import pages
from claimbook.store import Computation, Store
from claimbook.store.provenance import Meter


def test_a_rendering_replaces_those_of_the_same_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    old, smoke, new = (
        Computation("pages", "book", {"parameter profile": profile, "file": file})
        for profile, file in (("cpu", "a"), ("smoke", "a"), ("cpu", "b"))
    )
    for rendering in (old, smoke):
        with store.writing(rendering) as (_, seal):
            seal(Meter().read())
    monkeypatch.setattr(pages, "default", lambda: store)
    monkeypatch.setattr(pages, "computation", lambda *_: new)
    monkeypatch.setattr(pages, "_render", lambda *_: None)
    pages.make(cast(Any, None), 1)
    assert {entry.computation.key for entry in store.entries("pages")} == {smoke.key, new.key}
