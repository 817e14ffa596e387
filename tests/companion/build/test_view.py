"""Folders of ``build/`` are replaced whole, and what was there leaves nothing behind."""

from pathlib import Path

from sumexp.companion.build import view


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    place, left = tmp_path / "html", tmp_path / ".html.old"
    left.mkdir()  # of a process that was killed
    (left / "index.html").write_text("0")
    for text in ("1", "2"):
        new = tmp_path / "new"
        new.mkdir()
        (new / "index.html").write_text(text)
        view.swap(new, place)
        assert (place / "index.html").read_text() == text
        assert list(tmp_path.iterdir()) == [place]
