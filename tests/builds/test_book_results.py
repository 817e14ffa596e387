"""The runs that come with the book are those of today's code: the shortest of each grid, computed again."""

from pathlib import Path

import pytest

from claimbook import grids
from claimbook.store import Store, bundled, parts


@pytest.mark.parametrize("grid", ["fits", "vae", "retrieval", "catalogue"])  # a run of longtail takes minutes
def test_a_run_gives_what_came_with_the_book(grid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "add_check", lambda *_: None)
    sources = bundled.sources(grid, "cpu")
    if grid in ("retrieval", "catalogue") and not parts.present(sources):
        pytest.skip(f"the data are not here: sumexp data fetch {' '.join(sources)}")
    [(name, moved, far)] = grids.check(grid, "cpu", Store(tmp_path), 1)
    assert not far, f"{name} is {moved:.2g} from the book's run"
